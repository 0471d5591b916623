// Runs ONNX models: node run_models.mjs NODE_MODULES PACKAGE, where the package is onnxruntime-node or onnxruntime-web.
// Each line of standard input is a JSON object with the path of a model and its inputs; each line of output has the
// outputs. Arrays are base64, in C order.
import { createRequire } from "node:module";
import { createInterface } from "node:readline";

const ort = createRequire(import.meta.url)(`${process.argv[2]}/${process.argv[3]}`);
const ARRAYS = {
  float64: Float64Array, float32: Float32Array, float16: Uint16Array, int64: BigInt64Array, uint64: BigUint64Array,
  int32: Int32Array, uint32: Uint32Array, int16: Int16Array, uint16: Uint16Array, int8: Int8Array, uint8: Uint8Array,
  bool: Uint8Array,
};
const sessions = new Map();

async function run({ model, inputs }) {
  if (!sessions.has(model)) {
    sessions.set(model, await ort.InferenceSession.create(model, { intraOpNumThreads: 1, interOpNumThreads: 1 }));
  }
  const feeds = {};
  for (const [name, { dtype, shape, data }] of Object.entries(inputs)) {
    const bytes = Uint8Array.from(Buffer.from(data, "base64"));
    feeds[name] = new ort.Tensor(dtype, new ARRAYS[dtype](bytes.buffer), shape);
  }
  const outputs = {};
  for (const [name, { type, dims, data }] of Object.entries(await sessions.get(model).run(feeds))) {
    const bytes = Buffer.from(data.buffer, data.byteOffset, data.byteLength);
    outputs[name] = { dtype: type, shape: dims, data: bytes.toString("base64") };
  }
  return { outputs };
}

for await (const line of createInterface({ input: process.stdin })) {
  const answer = await run(JSON.parse(line)).catch((error) => ({ error: String(error) }));
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
