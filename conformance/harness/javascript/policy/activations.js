'use strict';

// Activations of torch.nn (POLICIES.md 19.5), as functions of vectors.

const { unsupported } = require('../errors.js');
const { Float } = require('../tags.js');
const { readSize, refuse } = require('./arguments.js');
const { Partial, Reference } = require('./plain.js');

const each = (make) => (args) => {
  const one = make(args);
  return (vector) => vector.map((item) => Math.fround(one(item)));
};

const sigmoid = (x) => 1 / (1 + Math.exp(-x));
const softplus = (x) => Math.max(x, 0) + Math.log1p(Math.exp(-Math.abs(x)));
const clip = (x, low, high) => Math.min(Math.max(x, low), high);
const hardSigmoid = (x) => clip(x / 6 + 0.5, 0, 1);
const leaky = (slope) => (x) => (x < 0 ? slope * x : x);
const elu = (alpha) => (x) => (x < 0 ? alpha * Math.expm1(x) : x);

/** The error function, by a series of which all terms have the same sign. */
function erf(x) {
  if (Number.isNaN(x)) return NaN; // of which no sum equals the one before
  const size = Math.min(Math.abs(x), 6); // beyond it, the result is 1 in float64
  let [term, sum, before] = [size, size, NaN];
  for (let odd = 3; sum !== before; odd += 2) {
    term *= (2 * size * size) / odd;
    before = sum;
    sum += term;
  }
  return Math.sign(x) * (2 / Math.sqrt(Math.PI)) * Math.exp(-size * size) * sum;
}

function gelu({ approximate }) {
  if (approximate === 'tanh') return (x) => 0.5 * x * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3)));
  return (x) => 0.5 * x * (1 + erf(x / Math.SQRT2));
}

function softmax(vector) {
  const largest = Math.max(...vector);
  const powers = vector.map((item) => Math.exp(item - largest));
  const sum = powers.reduce((total, power) => total + power, 0);
  return powers.map((power) => Math.fround(power / sum));
}

/** Subtracts the logarithm of the sum of powers, in float32. */
function logSoftmax(vector) {
  const largest = Math.max(...vector);
  const sum = vector.reduce((total, item) => total + Math.exp(item - largest), 0);
  const total = Math.fround(Math.fround(Math.log(sum)) + largest);
  return vector.map((item) => Math.fround(item - total));
}

const [ALPHA, GAMMA] = [1.6732632423543772, 1.0507009873554805];
const same = () => (vector) => vector;
const SOFTMAX = { dim: null };

// A function of the arguments that torch computes with, and these in their order, with their defaults.
const ACTIVATIONS = new Map(Object.entries({
  'activation.ReLU': [each(() => (x) => Math.max(x, 0))],
  'activation.Tanh': [each(() => Math.tanh)],
  'activation.Sigmoid': [each(() => sigmoid)],
  'activation.ELU': [each(({ alpha }) => elu(alpha)), { alpha: 1 }],
  'activation.CELU': [each(({ alpha }) => (x) => (x < 0 ? alpha * Math.expm1(x / alpha) : x)), { alpha: 1 }],
  'activation.SELU': [each(() => (x) => GAMMA * elu(ALPHA)(x))],
  'activation.LeakyReLU': [each(({ negative_slope: slope }) => leaky(slope)), { negative_slope: 0.01 }],
  'activation.RReLU': [each(({ lower, upper }) => leaky((lower + upper) / 2)), { lower: 1 / 8, upper: 1 / 3 }],
  'activation.GELU': [each(gelu), { approximate: 'none' }],
  'activation.SiLU': [each(() => (x) => x * sigmoid(x))],
  'activation.Mish': [each(() => (x) => x * Math.tanh(softplus(x)))],
  'activation.Softplus': [
    each(({ beta, threshold }) => (x) => (beta * x > threshold ? x : softplus(beta * x) / beta)), { beta: 1, threshold: 20 },
  ],
  'activation.Softsign': [each(() => (x) => x / (1 + Math.abs(x)))],
  'activation.Hardtanh': [each(({ min_val: low, max_val: high }) => (x) => clip(x, low, high)), { min_val: -1, max_val: 1 }],
  'activation.ReLU6': [each(() => (x) => clip(x, 0, 6))],
  'activation.Hardsigmoid': [each(() => hardSigmoid)],
  'activation.Hardswish': [each(() => (x) => x * hardSigmoid(x))],
  'activation.LogSigmoid': [each(() => (x) => -softplus(-x))],
  'activation.Tanhshrink': [each(() => (x) => x - Math.tanh(x))],
  'activation.Hardshrink': [each(({ lambd }) => (x) => (Math.abs(x) > lambd ? x : 0)), { lambd: 0.5 }],
  'activation.Softshrink': [each(({ lambd }) => (x) => Math.sign(x) * Math.max(Math.abs(x) - lambd, 0)), { lambd: 0.5 }],
  'activation.Softmax': [() => softmax, SOFTMAX],
  'activation.LogSoftmax': [() => logSoftmax, SOFTMAX],
  'activation.Softmin': [() => (vector) => softmax(vector.map((item) => -item)), SOFTMAX],
  'linear.Identity': [same],
  'dropout.Dropout': [same],
  'dropout.AlphaDropout': [same],
  'dropout.FeatureAlphaDropout': [same],
  'flatten.Flatten': [same],
}));
const MODULES = 'torch.nn.modules.';
const PRELU = 'activation.PReLU';
const VECTORS_ALONE = new Set(['activation.GLU', 'activation.Softmax2d']); // need something else than a vector of features
const AXES = [null, 1, -1];
const LARGEST = 3.4028234663852886e38; // of float32

// Arguments that torch does not compute with.
const REFUSED = new Map(Object.entries({
  'activation.Hardtanh': ({ min_val: low, max_val: high }) => low >= high,
  'activation.Softshrink': ({ lambd }) => !(lambd >= 0 && Number.isFinite(lambd)),
  'activation.CELU': ({ alpha }) => alpha === 0,
  'activation.RReLU': ({ lower, upper }) => !(lower <= upper && Number.isFinite(upper - lower)),
  'activation.GELU': ({ approximate }) => !['none', 'tanh'].includes(approximate),
  'activation.Softmax': ({ dim }) => !AXES.includes(dim),
  'activation.LogSoftmax': ({ dim }) => !AXES.includes(dim),
  'activation.Softmin': ({ dim }) => !AXES.includes(dim),
}));

/** A PReLU, which has a slope for each feature, or one for all. */
function prelu(count) {
  return (weights, module, width) => {
    const slopes = weights.take(`${module}.weight`, [count]);
    if (count !== 1 && count !== width) unsupported('a PReLU of another number of features');
    return (vector) => vector.map((item, at) => leaky(slopes[count === 1 ? 0 : at])(item));
  };
}

/** An argument: a number of float32, or what is not a number. */
function toArgument(value, fallback) {
  const item = value instanceof Float || typeof value === 'boolean' ? Number(value.number ?? value) : value;
  if (typeof fallback !== 'number') return item;
  if (typeof item !== 'number') unsupported('an argument of an activation is not a number');
  if (Math.abs(item) > LARGEST && Number.isFinite(item)) unsupported('an argument of an activation does not fit float32');
  return item;
}

/** Make an activation from `activation_fn`: a function of (weights, module, width) that returns a function of a vector. */
function readActivation(value) {
  const { callable, positional, keywords } = value instanceof Partial ? value : new Partial(value, [], new Map());
  if (!(callable instanceof Reference)) refuse(callable, 'activation_fn');
  const name = callable.name.replace(MODULES, '');
  if (name === PRELU) return prelu(readSize(keywords.get('num_parameters') ?? positional[0] ?? 1, 'num_parameters'));
  if (VECTORS_ALONE.has(name)) return () => unsupported('an activation of something else than a vector');
  const [make, defaults = {}] = ACTIVATIONS.get(name) ?? unsupported('an unknown activation');
  return () => {
    const given = new Map([...Object.keys(defaults).slice(0, positional.length).map((word, at) => [word, positional[at]]), ...keywords]);
    const args = Object.fromEntries(Object.entries(defaults).map(([word, fallback]) => [word, given.has(word) ? toArgument(given.get(word), fallback) : fallback]));
    if (REFUSED.get(name)?.(args)) unsupported('an activation with arguments that torch does not compute with');
    return make(args);
  };
}

module.exports = {
  MODULES, logSoftmax, readActivation, sigmoid, softmax,
};
