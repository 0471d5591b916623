// Runs policies that were exported as JavaScript: node run_policies.mjs RUNTIME, with the path of runtime.js.
// Each line of standard input is a JSON object: "module", the path of a policy, or "program", what createPolicy gets; and
// "calls" of predict, with base64 of float64 for arrays, or "expressions" with what the module exports in their scope.
// Each line of output has a list of results, in which an error is a text.
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const { createPolicy } = await import(pathToFileURL(process.argv[2]));

const isArray = (value) => typeof value?.data === "string";

function read({ data, shape, form }) {
  const items = new Float64Array(Uint8Array.from(Buffer.from(data, "base64")).buffer);
  if (!shape.length) return items[0];
  if (form !== "nested" || !items.length) return form === "float32" ? Float32Array.from(items) : items;
  return shape.reduceRight((parts, size) => {
    return Array.from({ length: parts.length / (size || 1) }, (_, i) => parts.slice(i * size, (i + 1) * size));
  }, [...items])[0];
}

function readAll(value) {
  if (isArray(value)) return read(value);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, part]) => [name, readAll(part)]));
}

function write(value) {
  const bytes = Buffer.from(Float64Array.from(typeof value === "number" ? [value] : value).buffer);
  return { type: value.constructor.name, data: bytes.toString("base64") };
}

const writeAll = (values) => Object.fromEntries(Object.entries(values ?? {}).map(([name, value]) => [name, write(value)]));

function call(policy, { observation, options }) {
  const { action, state, outputs } = policy.predict(readAll(observation), readAll(options));
  if (action !== outputs.action) throw new Error("expected the action among the outputs");
  return { outputs: writeAll(outputs), state: writeAll(state) };
}

function evaluate(scope, expression) {
  return String(new Function(...Object.keys(scope), `return ${expression}`)(...Object.values(scope)));
}

function attempt(run) {
  try {
    return run();
  } catch (error) {
    return error.stack.includes("expected") ? `${error.name}: ${error.message}` : error.stack;
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  const { module, program, calls = [], expressions = [] } = JSON.parse(line);
  const policy = module ? await import(pathToFileURL(module)) : createPolicy(program);
  const results = [
    ...calls.map((arguments_) => attempt(() => call(policy, arguments_))),
    ...expressions.map((expression) => attempt(() => evaluate({ ...policy, createPolicy, program }, expression))),
  ];
  process.stdout.write(`${JSON.stringify(results)}\n`);
}
