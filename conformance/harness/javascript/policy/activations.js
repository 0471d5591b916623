'use strict';

// Activations of torch.nn (POLICIES.md 19.5), as functions of vectors.

const { unsupported } = require('../errors.js');
const { Partial, Reference } = require('./plain.js');

const each = (make) => (args) => {
  const one = make(args);
  return (vector) => vector.map((item) => Math.fround(one(item)));
};

const sigmoid = (x) => 1 / (1 + Math.exp(-x));
const softplus = (x) => Math.max(x, 0) + Math.log1p(Math.exp(-Math.abs(x)));
const clip = (x, low, high) => Math.min(Math.max(x, low), high);
const hardSigmoid = (x) => clip(x / 6 + 0.5, 0, 1);
const leaky = (slope) => (x) => (x >= 0 ? x : slope * x);

/** The error function, by its series and its continued fraction. */
function erf(x) {
  const size = Math.abs(x);
  if (size > 3) {
    let fraction = 0;
    for (let k = 60; k > 0; k -= 1) fraction = k / 2 / (size + fraction);
    return Math.sign(x) * (1 - Math.exp(-size * size) / (Math.sqrt(Math.PI) * (size + fraction)));
  }
  let term = size;
  let sum = size;
  for (let k = 1; k < 60; k += 1) {
    term *= (-size * size) / k;
    sum += term / (2 * k + 1);
  }
  return Math.sign(x) * (2 / Math.sqrt(Math.PI)) * sum;
}

function gelu(args) {
  if (args.get('approximate') === 'tanh') return (x) => 0.5 * x * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3)));
  return (x) => 0.5 * x * (1 + erf(x / Math.SQRT2));
}

function softplusOf(args) {
  const [beta, threshold] = [args.get('beta') ?? 1, args.get('threshold') ?? 20];
  return (x) => (beta * x > threshold ? x : softplus(beta * x) / beta);
}

function softmax(vector) {
  const largest = Math.max(...vector);
  const powers = vector.map((item) => Math.exp(item - largest));
  const sum = powers.reduce((total, power) => total + power, 0);
  return powers.map((power) => Math.fround(power / sum));
}

const [ALPHA, GAMMA] = [1.6732632423543772, 1.0507009873554805];
const same = () => (vector) => vector;

// [names of arguments, function of a Map of arguments]
const ACTIVATIONS = new Map(Object.entries({
  ReLU: [['inplace'], each(() => (x) => Math.max(x, 0))],
  Tanh: [[], each(() => Math.tanh)],
  Sigmoid: [[], each(() => sigmoid)],
  ELU: [['alpha'], each((args) => (x) => (x > 0 ? x : (args.get('alpha') ?? 1) * Math.expm1(x)))],
  CELU: [['alpha'], each((args) => (x) => {
    const alpha = args.get('alpha') ?? 1;
    return x > 0 ? x : alpha * Math.expm1(x / alpha);
  })],
  SELU: [[], each(() => (x) => GAMMA * (x > 0 ? x : ALPHA * Math.expm1(x)))],
  LeakyReLU: [['negative_slope'], each((args) => leaky(args.get('negative_slope') ?? 0.01))],
  RReLU: [['lower', 'upper'], each((args) => leaky(((args.get('lower') ?? 1 / 8) + (args.get('upper') ?? 1 / 3)) / 2))],
  GELU: [['approximate'], each(gelu)],
  SiLU: [[], each(() => (x) => x * sigmoid(x))],
  Mish: [[], each(() => (x) => x * Math.tanh(softplus(x)))],
  Softplus: [['beta', 'threshold'], each(softplusOf)],
  Softsign: [[], each(() => (x) => x / (1 + Math.abs(x)))],
  Hardtanh: [['min_val', 'max_val'], each((args) => (x) => clip(x, args.get('min_val') ?? -1, args.get('max_val') ?? 1))],
  ReLU6: [[], each(() => (x) => clip(x, 0, 6))],
  Hardsigmoid: [[], each(() => hardSigmoid)],
  Hardswish: [[], each(() => (x) => x * hardSigmoid(x))],
  LogSigmoid: [[], each(() => (x) => -softplus(-x))],
  Tanhshrink: [[], each(() => (x) => x - Math.tanh(x))],
  Hardshrink: [['lambd'], each((args) => (x) => (Math.abs(x) > (args.get('lambd') ?? 0.5) ? x : 0))],
  Softshrink: [['lambd'], each((args) => (x) => Math.sign(x) * Math.max(Math.abs(x) - (args.get('lambd') ?? 0.5), 0))],
  Softmax: [['dim'], () => softmax],
  LogSoftmax: [['dim'], () => (vector) => softmax(vector).map(Math.log)],
  Softmin: [['dim'], () => (vector) => softmax(vector.map((item) => -item))],
  Identity: [[], same],
  Dropout: [['p'], same],
  AlphaDropout: [['p'], same],
  FeatureAlphaDropout: [['p'], same],
  Flatten: [[], same],
}));
// Arguments that torch does not compute with.
const REFUSED = new Map(Object.entries({
  Hardtanh: (args) => (args.get('min_val') ?? -1) >= (args.get('max_val') ?? 1),
  Softshrink: (args) => !((args.get('lambd') ?? 0.5) >= 0 && Number.isFinite(args.get('lambd') ?? 0.5)),
  CELU: (args) => args.get('alpha') === 0,
  RReLU: (args) => {
    const [lower, upper] = [args.get('lower') ?? 1 / 8, args.get('upper') ?? 1 / 3];
    return !(lower <= upper && Number.isFinite(upper - lower));
  },
}));
const MODULES = /^torch\.nn\.modules\.(activation|dropout|linear|flatten)\.(\w+)$/;
const PRELU = 'PReLU';

/** Make an activation from `activation_fn`: a function of (weights, module) that returns a function of a vector. */
function readActivation(value, fallback) {
  if (value === null) return () => ACTIVATIONS.get(fallback)[1](new Map());
  const { callable, positional, keywords } = value instanceof Partial ? value : new Partial(value, [], new Map());
  const [, , name] = (callable instanceof Reference && MODULES.exec(callable.name)) || [];
  if (name === PRELU) {
    return (weights, module) => {
      const [slope] = weights.take(`${module}.weight`, [1]);
      return (vector) => vector.map(leaky(slope));
    };
  }
  const [names, make] = ACTIVATIONS.get(name) ?? unsupported('an unknown activation');
  const args = new Map([...names.map((word, at) => [word, positional[at]]).filter(([, given]) => given !== undefined), ...keywords]);
  if (![undefined, null, 1, -1].includes(args.get('dim'))) unsupported('an activation over another axis');
  if (REFUSED.get(name)?.(args)) unsupported('an activation with arguments that torch does not compute with');
  return () => make(args);
}

module.exports = { ACTIVATIONS, readActivation, sigmoid, softmax };
