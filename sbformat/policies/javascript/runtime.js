// Runs the policy of an agent that sbformat exported: createPolicy(program) returns { predict, resetNoise, ... }.
//
// A program is data (POLICIES.md 20.5). Its values are numbered: inputs first, then weights, then nodes. Each has an
// array, in C order, of its own dtype, so that results are rounded as in numpy. A node has an operator of KERNELS. A
// kernel gets arrays once, and returns a step: a function that computes the node's array from those of its operands.
// predict copies an observation to the arrays of the inputs, does the steps in order, and returns copies of results.
// Steps that depend on weights alone are done once. A layer of 8 units over 4 observations:
//
//   values   0 observation (4)   1 weight (8, 4)   2 bias (8)   3 hidden (8)   4 action ()
//   steps    hidden = weight * observation + bias   action = the place of the greatest of hidden

const TYPES = {
  bool: Uint8Array, uint8: Uint8Array, int8: Int8Array, uint16: Uint16Array, int16: Int16Array, uint32: Uint32Array,
  int32: Int32Array, uint64: Float64Array, int64: Float64Array, float16: Float32Array, float32: Float32Array,
  float64: Float64Array,
}; // integers of 64 bits are exact up to 2 ** 53

const count = (shape) => shape.reduce((product, size) => product * size, 1);
const strides = (shape) => shape.map((_, axis) => count(shape.slice(axis + 1)));
const like = (array, length = array.length) => new array.constructor(length);
const round = (array, number) => new array.constructor([number])[0];
const isFloat = (dtype) => dtype.startsWith("float");
const toInteger = (x) => (Math.abs(x) < 2 ** 63 ? Math.trunc(x) : -(2 ** 63));

// -- kernels ------------------------------------------------------------------------------------------
// The parameters are out, operands, attributes, and { shape, dtype, shapes, dtypes } of the result and the operands.
// Operands of elementwise kernels have as many items as out.

// Apply a function to each item; what networks have in every layer has a loop of its own instead, which is faster.
const map = (compute) => (out, [x]) => () => {
  for (let i = 0; i < out.length; i++) out[i] = compute(x[i]);
};
const add = (out, [x, y]) => () => {
  for (let i = 0; i < out.length; i++) out[i] = x[i] + y[i];
};
const subtract = (out, [x, y]) => () => {
  for (let i = 0; i < out.length; i++) out[i] = x[i] - y[i];
};
const multiplyFloats = (out, [x, y]) => () => {
  for (let i = 0; i < out.length; i++) out[i] = x[i] * y[i];
};
const multiplyIntegers = (out, [x, y]) => () => {
  for (let i = 0; i < out.length; i++) out[i] = Math.imul(x[i], y[i]);
};
const divideFloats = (out, [x, y]) => () => {
  for (let i = 0; i < out.length; i++) out[i] = x[i] / y[i];
};
const divideIntegers = (out, [x, y]) => () => {
  for (let i = 0; i < out.length; i++) out[i] = y[i] === 0 ? 0 : Math.trunc(x[i] / y[i]);
};
const maximum = (out, [x, y]) => () => {
  for (let i = 0; i < out.length; i++) out[i] = x[i] >= y[i] || x[i] !== x[i] ? x[i] : y[i];
};
const minimum = (out, [x, y]) => () => {
  for (let i = 0; i < out.length; i++) out[i] = x[i] <= y[i] || x[i] !== x[i] ? x[i] : y[i];
};
const greater = (out, [x, y]) => () => {
  for (let i = 0; i < out.length; i++) out[i] = x[i] > y[i] ? 1 : 0;
};
const where = (out, [condition, x, y]) => () => {
  for (let i = 0; i < out.length; i++) out[i] = condition[i] ? x[i] : y[i];
};
const prelu = (out, [x, slope]) => () => {
  for (let i = 0; i < out.length; i++) out[i] = (x[i] < 0 ? 0 : x[i]) + (x[i] > 0 ? 0 : x[i]) * slope[i];
};
const relu = (out, [x]) => () => {
  for (let i = 0; i < out.length; i++) out[i] = x[i] < 0 ? 0 : x[i];
};
const copy = (out, [x]) => () => {
  for (let i = 0; i < out.length; i++) out[i] = x[i];
};
const sigmoid = (out, [x]) => () => {
  for (let i = 0; i < out.length; i++) {
    out[i] = Math.exp(-x[i]); // rounded: an overflow of the power gives 0
    out[i] = 1 / (1 + out[i]);
  }
};

// Math.tanh takes three times as long as x * P(x ** 2) / Q(x ** 2) with Eigen's coefficients, whose error is 3e-8 up to
// 9.1, where float32 is 1.
function tanh(out, [x], _, { dtype }) {
  if (dtype !== "float32") return map(Math.tanh)(out, [x]);
  return () => {
    for (let i = 0; i < out.length; i++) {
      const bounded = x[i] < -9.1 ? -9.1 : x[i] > 9.1 ? 9.1 : x[i], square = bounded * bounded;
      let above = -2.76076847742355e-16, below = 1.19825839466702e-6;
      above = above * square + 2.00018790482477e-13;
      above = above * square - 8.60467152213735e-11;
      above = above * square + 5.12229709037114e-8;
      above = above * square + 1.48572235717979e-5;
      above = above * square + 6.37261928875436e-4;
      above = above * square + 4.89352455891786e-3;
      below = below * square + 1.18534705686654e-4;
      below = below * square + 2.268434632439e-3;
      below = below * square + 4.89352518554385e-3;
      out[i] = bounded * (above / below);
    }
  };
}

function elu(out, [x], { alpha, gamma = 1, divisor = 1 }) {
  const [before, inside, after] = [alpha, divisor, gamma].map((number) => round(out, number));
  return () => {
    for (let i = 0; i < out.length; i++) {
      const below = before * Math.expm1((x[i] > 0 ? 0 : x[i]) / inside);
      out[i] = after * ((x[i] < 0 ? 0 : x[i]) + below);
    }
  };
}

function hardSigmoid(out, [x], { alpha, beta }) {
  const [slope, start] = [round(out, alpha), round(out, beta)];
  return map((item) => Math.max(0, Math.min(1, item * slope + start)))(out, [x]);
}

function shrink(out, [x], { lambd, bias }) {
  const [limit, shift] = [round(out, lambd), round(out, bias)];
  return map((item) => (Math.abs(item) <= limit ? 0 : item - Math.sign(item) * shift))(out, [x]);
}

const ERF_ABOVE = [
  -2.72614225801306e-10, 2.77068142495902e-8, -2.10102402082508e-6, -5.69250639462346e-5, -7.34990630326855e-4,
  -2.95459980854025e-3, -1.60960333262415e-2,
];
const ERF_BELOW = [
  -1.45660718464996e-5, -2.13374055278905e-4, -1.68282697438203e-3, -7.37332916720468e-3, -1.42647390514189e-2,
];

function erf(x) {
  const bounded = Math.max(-4, Math.min(4, x)), square = bounded * bounded;
  const evaluate = (coefficients) => coefficients.reduce((value, coefficient) => value * square + coefficient);
  return (evaluate(ERF_ABOVE) / evaluate(ERF_BELOW)) * bounded;
}

function roundToEven(x) {
  const near = Math.round(x);
  return Math.abs(x % 1) === 0.5 && near % 2 !== 0 ? near - 1 : near;
}

function cast(out, operands, _, { dtype, dtypes: [from] }) {
  if (dtype === "bool") return map((x) => (x === 0 ? 0 : 1))(out, operands);
  return (dtype.endsWith("int64") && isFloat(from) ? map(toInteger) : copy)(out, operands);
}

function oneHot(out, [x], { depth }) {
  return () => {
    for (let i = 0; i < out.length; i++) out[i] = x[Math.floor(i / depth)] === i % depth ? 1 : 0;
  };
}

// -- layers

// Write matrix * x + bias to every stride-th item of out, from start; four rows in one pass over x.
function multiplyMatrix(out, start, stride, matrix, x, bias) {
  const columns = x.length, rows = bias.length;
  let row = 0, at = 0;
  for (; row + 4 <= rows; row += 4) {
    let a = 0, b = 0, c = 0, d = 0;
    const second = at + columns, third = second + columns, fourth = third + columns;
    for (let column = 0; column < columns; column++) {
      const item = x[column];
      a += item * matrix[at + column];
      b += item * matrix[second + column];
      c += item * matrix[third + column];
      d += item * matrix[fourth + column];
    }
    const place = start + row * stride;
    out[place] = a + bias[row];
    out[place + stride] = b + bias[row + 1];
    out[place + 2 * stride] = c + bias[row + 2];
    out[place + 3 * stride] = d + bias[row + 3];
    at = fourth + columns;
  }
  for (; row < rows; row++, at += columns) {
    let a = 0;
    for (let column = 0; column < columns; column++) a += x[column] * matrix[at + column];
    out[start + row * stride] = a + bias[row];
  }
}

function gemm(out, [x, weight, bias = like(out)], { transB }) {
  const matrix = transB ? weight : like(weight);
  if (!transB) copyFrom(matrix, weight, gather([out.length, x.length], [1, out.length]))();
  return () => multiplyMatrix(out, 0, 1, matrix, x, bias);
}

// Copy the patch of each pixel, and multiply it by the filters.
function conv(out, [x, weight, bias], { strides: [stepDown, stepAcross], pads }, { shape, shapes }) {
  const [[channels, height, width], [filters, , rows, columns]] = shapes, pixels = shape[1] * shape[2];
  const patch = like(x, channels * rows * columns), offsets = bias ?? like(out, filters);
  return () => {
    for (let pixel = 0; pixel < pixels; pixel++) {
      const top = Math.floor(pixel / shape[2]) * stepDown - pads[0], left = (pixel % shape[2]) * stepAcross - pads[1];
      for (let channel = 0, at = 0; channel < channels; channel++) {
        for (let row = top; row < top + rows; row++) {
          const start = (channel * height + row) * width;
          for (let column = left; column < left + columns; column++) {
            const isInside = row >= 0 && row < height && column >= 0 && column < width;
            patch[at++] = isInside ? x[start + column] : 0;
          }
        }
      }
      multiplyMatrix(out, pixel, pixels, weight, patch, offsets);
    }
  };
}

function normalize(out, [x, scale, bias], { epsilon }) {
  const n = x.length;
  return () => {
    const mean = round(out, sum(x, 0, 1, n) / n);
    let squares = 0;
    for (let i = 0; i < n; i++) squares += (x[i] - mean) ** 2;
    const deviation = Math.sqrt(squares / n + round(out, epsilon));
    for (let i = 0; i < n; i++) out[i] = ((x[i] - mean) / deviation) * scale[i] + bias[i];
  };
}

// -- along an axis: functions get an array, the start of a line in it, the stride of its items, and their number

function along({ axis }, shape, compute) {
  const length = shape.at(axis), stride = strides(shape).at(axis), lines = count(shape) / (length || 1);
  return () => {
    for (let line = 0; line < lines; line++) {
      compute(Math.floor(line / stride) * stride * length + (line % stride), stride, length, line);
    }
  };
}

function reduce(compute) {
  return (out, [x], attributes, { dtype, shapes: [shape] }) => {
    return along(attributes, shape, (start, stride, length, line) => {
      const result = compute(x, start, stride, length, out);
      out[line] = isFloat(dtype) ? result : Math.trunc(result);
    });
  };
}

function sum(x, start, stride, length) {
  let total = 0;
  for (let i = 0, at = start; i < length; i++, at += stride) total += x[at];
  return total;
}

function least(x, start, stride, length) {
  let found = x[start];
  for (let i = 1, at = start + stride; i < length; i++, at += stride) found = Math.min(found, x[at]);
  return found;
}

function findGreatest(x, start, stride, length) {
  let found = 0, high = x[start];
  for (let i = 1, at = start + stride; i < length; i++, at += stride) {
    if (x[at] > high || (x[at] !== x[at] && high === high)) [found, high] = [i, x[at]]; // the first NaN
  }
  return found;
}

function greatest(x, start, stride, length) {
  return x[start + findGreatest(x, start, stride, length) * stride];
}

function logSumExp(x, start, stride, length, out) {
  const high = greatest(x, start, stride, length), power = like(out, length);
  for (let i = 0; i < length; i++) power[i] = x[start + i * stride] - high;
  for (let i = 0; i < length; i++) power[i] = Math.exp(power[i]);
  return round(out, Math.log(sum(power, 0, 1, length))) + high;
}

function softmax(out, [x], attributes, { shape }) {
  return along(attributes, shape, (start, stride, length) => {
    const high = greatest(x, start, stride, length);
    for (let i = 0, at = start; i < length; i++, at += stride) out[at] = Math.exp(x[at] - high);
    const total = sum(out, start, stride, length);
    for (let i = 0, at = start; i < length; i++, at += stride) out[at] /= total;
  });
}

function logSoftmax(out, [x], attributes, { shape }) {
  return along(attributes, shape, (start, stride, length) => {
    const high = greatest(x, start, stride, length);
    let total = 0;
    for (let i = 0, at = start; i < length; i++, at += stride) total += Math.exp((out[at] = x[at] - high));
    const logarithm = Math.log(total);
    for (let i = 0, at = start; i < length; i++, at += stride) out[at] -= logarithm;
  });
}

// -- items in other places

// The place of each item of an array of these sizes in an array where its axes have these strides.
function gather(sizes, steps, start = 0) {
  let places = Int32Array.of(start);
  sizes.forEach((size, axis) => {
    const made = new Int32Array(places.length * size);
    for (let i = 0; i < made.length; i++) made[i] = places[Math.floor(i / size)] + (i % size) * steps[axis];
    places = made;
  });
  return places;
}

function copyFrom(out, x, places) {
  return () => {
    for (let i = 0; i < out.length; i++) out[i] = x[places[i]];
  };
}

function transpose(out, [x], { axes }, { shape, shapes }) {
  const steps = strides(shapes[0]);
  return copyFrom(out, x, gather(shape, axes.map((axis) => steps[axis])));
}

function slice(out, [x], { axis, start }, { shape, shapes }) {
  const steps = strides(shapes[0]);
  return copyFrom(out, x, gather(shape, steps, start * steps.at(axis)));
}

function concat(out, operands, { axis }, { shape, shapes }) {
  const rest = strides(shape).at(axis), step = shape.at(axis) * rest;
  const widths = shapes.map((part) => part.at(axis) * rest);
  return () => {
    for (let part = 0, start = 0; part < operands.length; start += widths[part++]) {
      const x = operands[part], width = widths[part];
      for (let i = 0, at = start; i < x.length; at += step) {
        for (let end = i + width, to = at; i < end; i++, to++) out[to] = x[i];
      }
    }
  };
}

const BINARY = {
  Add: add, Sub: subtract, Max: maximum, Min: minimum, Greater: greater, Where: where, PRelu: prelu,
  Mul: (out, xy, _, { dtype }) => (dtype.endsWith("int32") ? multiplyIntegers : multiplyFloats)(out, xy),
  Div: (out, xy, _, { dtype }) => (isFloat(dtype) ? divideFloats : divideIntegers)(out, xy),
}; // whose operands broadcast
const KERNELS = {
  ...BINARY, Relu: relu, Tanh: tanh, Sigmoid: sigmoid, HardSigmoid: hardSigmoid, Shrink: shrink,
  Neg: map((x) => -x),
  Abs: map(Math.abs),
  Exp: map(Math.exp),
  Log: map(Math.log),
  Sqrt: map(Math.sqrt),
  Round: map(roundToEven),
  Erf: map(erf),
  Softplus: map((x) => (x < 0 ? 0 : x) + Math.log1p(Math.exp(-Math.abs(x)))),
  Softsign: map((x) => x / (1 + Math.abs(x))),
  Elu: elu,
  Selu: elu,
  Celu: (out, operands, { alpha }) => elu(out, operands, { alpha, gamma: 1, divisor: alpha }),
  LeakyRelu: (out, [x], { alpha }) => prelu(out, [x, like(out).fill(alpha)]),
  Gemm: gemm, Conv: conv, LayerNormalization: normalize, OneHot: oneHot, Softmax: softmax, LogSoftmax: logSoftmax,
  ReduceSum: reduce(sum),
  ReduceMean: reduce((x, start, stride, length, out) => round(out, sum(x, start, stride, length)) / length),
  ReduceMin: reduce(least),
  ReduceLogSumExp: reduce(logSumExp),
  ArgMax: reduce(findGreatest),
  Identity: cast, Cast: cast, Reshape: cast, Transpose: transpose, Slice: slice, Concat: concat,
};

// -- a program -----------------------------------------------------------------------------------------

function decode(text) {
  const characters = atob(text), bytes = new Uint8Array(characters.length);
  for (let i = 0; i < bytes.length; i++) bytes[i] = characters.charCodeAt(i);
  return bytes.buffer;
}

// Return the array of a result that has the same items as its operand, if it does.
function view({ op, attributes, dtype, shape }, { data, ...operand }) {
  if (["Identity", "Reshape", "Cast"].includes(op) && dtype === operand.dtype) return data;
  if (op !== "Slice" || count(operand.shape.slice(0, attributes.axis)) !== 1) return undefined;
  const start = attributes.start * strides(shape).at(attributes.axis);
  return data.subarray(start, start + count(shape));
}

// Return the values of a program, and the steps that compute those that depend on inputs. Whatever is read from an
// object is its own property, here and below: what else a page adds to Object.prototype changes nothing.
function link({ inputs, weights, nodes, sampling, data: text }) {
  const buffer = decode(text), steps = [], given = { isConstant: false, isReplaced: false, isDrawn: false };
  const values = inputs.map(({ dtype, shape }) => ({ ...given, dtype, shape, data: new TYPES[dtype](count(shape)) }));
  for (const { dtype, shape, at } of weights) {
    values.push({ ...given, dtype, shape, data: new TYPES[dtype](buffer, at, count(shape)), isConstant: true });
  }
  for (const node of nodes) {
    const operands = node.operands.map((number) => values[number]), isReplaced = values.length === sampling.replaces;
    const { dtype, shape } = node, length = count(shape), attributes = { __proto__: null, ...node.attributes };
    const isConstant = !isReplaced && operands.every((operand) => operand.isConstant);
    const isDrawn = operands.some((operand) => operand.isReplaced || operand.isDrawn);
    const run = (step, once) => (once ? step() : steps.push({ step, isDrawn }));
    let data = isReplaced ? undefined : view(node, operands[0]);
    if (data === undefined) {
      data = new TYPES[dtype](length);
      const arrays = operands.map((operand) => {
        if (!Object.hasOwn(BINARY, node.op) || operand.data.length === length) return operand.data;
        const sizes = [...shape.map(() => 1), ...operand.shape].slice(-shape.length);
        const places = gather(shape, strides(sizes).map((stride, axis) => (sizes[axis] === 1 ? 0 : stride)));
        const repeated = like(operand.data, length);
        run(copyFrom(repeated, operand.data, places), operand.isConstant);
        return repeated;
      });
      const shapes = operands.map((operand) => operand.shape), dtypes = operands.map((operand) => operand.dtype);
      run(KERNELS[node.op](data, arrays, attributes, { dtype, shape, dtypes, shapes }), isConstant);
    }
    values.push({ dtype, shape, data, isConstant, isReplaced, isDrawn });
  }
  return { values, steps };
}

// -- arguments -----------------------------------------------------------------------------------------

const isTyped = (value) => ArrayBuffer.isView(value) && !(value instanceof DataView);
const isArray = (value) => Array.isArray(value) || isTyped(value);
const isMap = (value) => Object.prototype.toString.call(value) === "[object Map]"; // of another window, too
const isObject = (value) => typeof value === "object" && value !== null && !isArray(value);
const quote = (text) => JSON.stringify(text.length > 60 ? `${text.slice(0, 60)}...` : text);
const list = (names) => names.slice(0, 20).map((name) => quote(String(name))).join(", ") || "none";

function describe(value) {
  if (typeof value === "string") return `the text ${quote(value)}`;
  if (isArray(value)) return `an array of ${value.length}`;
  if (typeof value === "object" && value !== null) return "an object";
  return typeof value === "function" || typeof value === "symbol" ? `a ${typeof value}` : String(value);
}

function toNumber(value, what) {
  if (typeof value === "number") return value;
  if (typeof value === "boolean" || typeof value === "bigint") return Number(value);
  throw new TypeError(`expected a number in ${what}, got ${describe(value)}`);
}

function copyTyped(items, value, what) {
  if (value.length !== items.length) {
    throw new RangeError(`expected ${items.length} numbers as ${what}, got an array of ${value.length}`);
  }
  for (let i = 0; i < items.length; i++) items[i] = Number(value[i]);
}

// Copy nested arrays, from an axis on: an axis has a size, and in items a stride.
function copyNested(items, value, layout, axis = 0, start = 0) {
  const { sizes, steps, what } = layout, isLast = axis === sizes.length - 1;
  const isList = Array.isArray(value) || (isLast && isTyped(value));
  if (!isList || value.length !== sizes[axis]) {
    const got = `${describe(value)}${axis ? ` at axis ${axis}` : ""}`;
    throw new (isList ? RangeError : TypeError)(`expected arrays of the shape [${sizes}] as ${what}, got ${got}`);
  }
  for (let i = 0, at = start; i < value.length; i++, at += steps[axis]) {
    if (isLast) items[at] = toNumber(value[i], what);
    else copyNested(items, value[i], layout, axis + 1, at);
  }
}

// Whether the first item of each axis says that arrays have these sizes.
function hasSizes(value, [size, ...rest]) {
  return size === undefined || (isArray(value) && value.length === size && hasSizes(value[0], rest));
}

// Return a function that copies an argument to the array of an input; undefined is the default.
function makeReader({ dtype, shape, is_image: isImage, choices, default: usual }, data, what) {
  const isWhole = dtype === "bool" || dtype.endsWith("int64"), steps = strides(shape);
  const items = isWhole ? new Float64Array(data.length) : data;
  const layout = { sizes: shape, steps, what };
  const channelsLast = { sizes: [...shape.slice(1), shape[0]], steps: [...steps.slice(1), steps[0]], what };
  return (value) => {
    if (value === undefined && usual !== null) {
      data.fill(usual);
      return;
    }
    const isTurned = isImage && !hasSizes(value, shape) && hasSizes(value, channelsLast.sizes);
    if (isTyped(value)) copyTyped(items, value, what);
    else if (!shape.length) items[0] = toNumber(value, what);
    else copyNested(items, value, isTurned ? channelsLast : layout);
    for (let i = 0; choices && i < items.length; i++) {
      if (!(items[i] >= 0 && items[i] < choices[i])) {
        throw new RangeError(`expected an integer >= 0 and < ${choices[i]} in ${what}, got ${items[i]}`);
      }
    }
    for (let i = 0; isWhole && i < items.length; i++) {
      data[i] = dtype === "bool" ? Number(items[i] !== 0) : toInteger(items[i]);
    }
  };
}

// Return a function that copies a mask: an item for each choice, or an array of these for each component.
function makeMaskReader(input, data) {
  const read = makeReader({ ...input, choices: null }, data, "mask"), sizes = input.choices;
  return (mask) => {
    const fits = (size, i) => isArray(mask[i]) && mask[i].length === size;
    const isNested = Array.isArray(mask) && mask.length === sizes.length && sizes.every(fits);
    read(isNested ? mask.flatMap((part) => Array.from(part)) : mask);
  };
}

// Return the parts of a Dict observation, or of a state: own properties of an object, or the values of a Map.
function readParts(value, keys, what) {
  const fromMap = isMap(value), given = fromMap ? [...value.keys()] : isObject(value) ? Object.keys(value) : undefined;
  const has = (key) => (fromMap ? value.has(key) : Object.hasOwn(value, key));
  if (given?.length !== keys.length || !keys.every(has)) {
    const got = given ? `one with ${list(given)}` : describe(value);
    throw new TypeError(`expected an object with the keys ${list(keys)} as ${what}, got ${got}`);
  }
  return keys.map((key) => (fromMap ? value.get(key) : value[key]) ?? null);
}

const OPTIONS = ["state", "episodeStart", "mask", "deterministic", "random"];
const NAMES = { observation: "the observation", state: "state", episode_start: "episodeStart", action_masks: "mask" };

function readOptions(options) {
  const parent = isObject(options) ? Object.getPrototypeOf(options) : undefined;
  if (parent === undefined || (parent !== null && Object.getPrototypeOf(parent) !== null)) {
    throw new TypeError(`expected a plain object as the options, got ${describe(options)}`);
  }
  for (const name of Object.keys(options)) {
    if (!OPTIONS.includes(name)) throw new TypeError(`expected options among ${list(OPTIONS)}, got ${quote(name)}`);
  }
  const own = { __proto__: null, ...options };
  const { state = null, episodeStart = null, mask = null, deterministic = true, random = Math.random } = own;
  if (typeof deterministic !== "boolean") {
    throw new TypeError(`expected true or false as deterministic, got ${describe(deterministic)}`);
  }
  if (typeof random !== "function") throw new TypeError(`expected a function as random, got ${describe(random)}`);
  return { state, episodeStart, mask, deterministic, random };
}

// -- drawn actions ------------------------------------------------------------------------------------
// Each returns a function that writes a draw to the array of the value that it replaces.

// Uniform numbers are > 0 and < 1, so that noise is finite: what has a mask, -1e8, is never drawn.
const makeUniform = (random) => () => {
  const number = random();
  if (typeof number === "number" && number >= 0 && number < 1) return number || 2 ** -54;
  throw new RangeError(`expected a number >= 0 and < 1 from random, got ${describe(number)}`);
};
const normal = (random) => Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());

const SAMPLERS = {
  __proto__: null,
  gaussian: (out, { mean, log_std: logarithm }) => (random) => {
    for (let i = 0; i < out.length; i++) out[i] = normal(random) * round(out, Math.exp(logarithm[i])) + mean[i];
  },
  gsde: (out, { mean, latent, std }, _, noise) => (random) => {
    noise.matrix ??= std.map((deviation) => deviation * normal(random));
    for (let i = 0; i < out.length; i++) {
      let total = 0;
      for (let j = 0; j < latent.length; j++) total += latent[j] * noise.matrix[j * out.length + i];
      out[i] = total + mean[i];
    }
  },
  categorical: (out, { logits }, { sizes }) => (random) => {
    const noisy = Float64Array.from(logits, (logit) => logit - Math.log(-Math.log(random()))); // Gumbel noise
    let start = 0;
    sizes.forEach((size, i) => {
      out[i] = findGreatest(noisy, start, 1, size);
      start += size;
    });
  },
  bernoulli: (out, { logits }) => (random) => {
    for (let i = 0; i < out.length; i++) {
      const uniform = random();
      out[i] = logits[i] + Math.log(uniform / (1 - uniform)) > 0 ? 1 : 0; // logistic noise
    }
  },
};

// -- policies ------------------------------------------------------------------------------------------

const copyFrozen = (value) => JSON.parse(JSON.stringify(value), (_, part) => Object.freeze(part));

// Refuse what torch refuses for a distribution.
function requireNumbers(parameter, isLogits) {
  for (let i = 0; i < parameter.length; i++) {
    if (isLogits ? !(parameter[i] < Infinity) : parameter[i] !== parameter[i]) {
      const what = `the ${isLogits ? "logits" : "mean"} of the action`;
      throw new RangeError(`expected numbers as ${what}, got ${parameter[i]}, from the observation or the weights`);
    }
  }
}

// Return a policy: predict(observation, options) returns { action, state, outputs }.
export function createPolicy(program) {
  if (new Uint8Array(Uint16Array.of(1).buffer)[0] !== 1) throw new Error("expected a little-endian processor");
  const { inputs, states, sampling, metadata } = program, { values, steps } = link(program);
  const outputs = program.outputs.map(({ name, value }) => ({ name, ...values[value] }));
  const action = outputs.find(({ name }) => name === "action");
  const drawSteps = steps.filter(({ isDrawn }) => isDrawn);
  const readers = { observation: [], state: [], episode_start: [], action_masks: [] };
  inputs.forEach((input, number) => {
    const { name, key, role } = input, { data } = values[number];
    const what = key !== null ? `${quote(key)} of the observation` : role === "state" ? `state.${name}` : NAMES[role];
    readers[role].push(role === "action_masks" ? makeMaskReader(input, data) : makeReader(input, data, what));
  });
  const keys = inputs.filter(({ key }) => key !== null).map(({ key }) => key);
  const stateNames = inputs.filter(({ role }) => role === "state").map(({ name }) => name);

  const parameters = { __proto__: null }, noise = { matrix: undefined };
  for (const [name, value] of Object.entries(sampling.parameters)) parameters[name] = values[value].data;
  const draw = SAMPLERS[sampling.kind]?.(values[sampling.replaces].data, parameters, sampling, noise);
  const take = ({ shape, data }) => (shape.length ? data.slice() : data[0]);
  let isRunning = false;

  function readArguments(observation, { state, episodeStart, mask }) {
    for (const [role, value] of [["state", state], ["episode_start", episodeStart], ["action_masks", mask]]) {
      if (value !== null && !readers[role].length) {
        throw new TypeError(`expected no ${NAMES[role]}: the policy does not take one`);
      }
    }
    const parts = keys.length ? readParts(observation, keys, "the observation") : [observation];
    const states = state === null ? [] : readParts(state, stateNames, "state");
    readers.observation.forEach((read, i) => read(parts[i]));
    readers.state.forEach((read, i) => read(states[i]));
    for (const read of readers.episode_start) read(episodeStart ?? undefined);
    for (const read of readers.action_masks) read(mask ?? undefined);
  }

  function compute(observation, options) {
    readArguments(observation, options);
    for (let i = 0; i < steps.length; i++) steps[i].step();
    if (sampling.checked) requireNumbers(parameters.logits ?? parameters.mean, parameters.logits !== undefined);
    const found = {}, next = {};
    for (let i = 0; i < outputs.length; i++) found[outputs[i].name] = take(outputs[i]);
    for (const { name, output } of states) next[name] = values[output].data.slice();
    if (!options.deterministic) {
      const uniform = makeUniform(options.random);
      if (draw) {
        draw(uniform);
        for (const { step } of drawSteps) step();
        found.action = take(action);
      } else if (sampling.kind === "epsilon_greedy" && uniform() < sampling.rate) {
        found.action = sampling.low + Math.floor(uniform() * (sampling.high - sampling.low));
      }
    }
    return { action: action && found.action, state: states.length ? next : undefined, outputs: found };
  }

  function predict(observation, options = {}) {
    if (isRunning) throw new Error("expected no call of predict while it runs, by random or by what it reads");
    isRunning = true;
    try {
      return compute(observation, readOptions(options));
    } finally {
      isRunning = false;
    }
  }

  function resetNoise() {
    noise.matrix = undefined;
  }

  return {
    predict, resetNoise, metadata: copyFrozen(metadata),
    inputs: copyFrozen(inputs.map(({ name, key, role, dtype, shape }) => ({ name, key, role, dtype, shape }))),
    outputs: copyFrozen(outputs.map(({ name, dtype, shape }) => ({ name, dtype, shape }))),
  };
}
