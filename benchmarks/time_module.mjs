// Times a policy that was exported as JavaScript: node time_module.mjs PATH CALLS prints the seconds of one call of
// predict, from the observation to all outputs, of each of a hundred rounds, after ten that are not printed.
import { pathToFileURL } from "node:url";

const [path, calls] = [process.argv[2], Number(process.argv[3])];
const { predict, inputs } = await import(pathToFileURL(path));
const size = inputs[0].shape.reduce((product, length) => product * length, 1);
const isImage = size > 1000;
const observation = Float32Array.from({ length: size }, (_, i) => (isImage ? (i * 31) % 256 : Math.sin(i)));
for (let round = 0; round < 110; round++) {
  const start = performance.now();
  for (let call = 0; call < calls; call++) predict(observation);
  if (round >= 10) console.log((performance.now() - start) / calls / 1000);
}
