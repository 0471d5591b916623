'use strict';

// The state dict of a policy, and its layers (FORMAT.md 6.8, POLICIES.md 19.4 to 19.6), as functions of vectors. Each takes its
// tensors by name and shape when it is made, so that a contradiction is found before anything is computed.

const { invalid, unsupported } = require('../errors.js');
const { quoted } = require('../names.js');
const { numbersOf } = require('./plain.js');
const { sigmoid } = require('./activations.js');
const { product } = require('./spaces.js');

const ITEMS_OF_A_NODE = 1024;
const ITEMS_OF_A_LAYER = 32768;
const ITEMS_OF_A_PART = 64;

class Weights {
  constructor(tag, budget) {
    this.charged = 0;
    this.tensors = new Map(tag.dict.map(([name, { tensor }]) => [name, tensor]));
    this.used = new Set();
    this.budget = budget;
  }

  has(module) {
    return [...this.tensors.keys()].some((name) => name === module || name.startsWith(`${module}.`));
  }

  check(name, shape) {
    const tensor = this.tensors.get(name);
    if (tensor === undefined) invalid(`the tensor ${quoted(name)} is missing`);
    if (tensor.shape.length !== shape.length || !tensor.shape.every((size, at) => size === shape[at])) {
      invalid(`the tensor ${quoted(name)} has the shape ${tensor.shape}, not ${shape}`);
    }
    return tensor;
  }

  /** The items of a tensor, which must have this shape. */
  take(name, shape) {
    const tensor = this.check(name, shape);
    this.used.add(name);
    return numbersOf(tensor).map(Math.fround);
  }

  charge(items) {
    this.charged += items + ITEMS_OF_A_NODE;
    this.budget.check('policy_items', this.charged);
  }

  /** Check a number of layers, before any is made (FORMAT.md 8.1). */
  checkLayers(count) {
    this.budget.check('policy_items', ITEMS_OF_A_LAYER * count);
  }

  /** Check a number of components of an action, or of numbers of an inferred observation. */
  checkParts(count) {
    this.budget.check('policy_items', ITEMS_OF_A_PART * count);
    return count;
  }

  /** Check that the tensors that are used have these copies, if `areNeeded`, and that there are no others. */
  finish(copiesOf, areNeeded) {
    const expected = new Set(this.used);
    for (const name of this.used) {
      for (const copy of copiesOf(name)) {
        expected.add(copy);
        if (areNeeded || this.tensors.has(copy)) this.check(copy, this.tensors.get(name).shape);
      }
    }
    const refuse = areNeeded ? invalid : unsupported;
    for (const name of this.tensors.keys()) if (!expected.has(name)) refuse(`the policy has no tensor ${quoted(name)}`);
  }
}

/** A sum of products, as float32. */
function dot(weights, at, vector) {
  let sum = 0;
  for (let i = 0; i < vector.length; i += 1) sum += weights[at + i] * vector[i];
  return sum;
}

function linear(weights, module, inputs, outputs, hasBias = true) {
  weights.charge(outputs);
  const matrix = weights.take(`${module}.weight`, [outputs, inputs]);
  const bias = hasBias ? weights.take(`${module}.bias`, [outputs]) : new Array(outputs).fill(0);
  return (vector) => bias.map((item, row) => Math.fround(dot(matrix, row * inputs, vector) + item));
}

/** Batch renormalization of CrossQ: the statistics of the file. */
function renormalization(weights, module, size, epsilon) {
  const [scale, bias, mean, variance] = ['scale', 'bias', 'ra_mean', 'ra_var'].map((name) => weights.take(`${module}.${name}`, [size]));
  weights.take(`${module}.steps`, []);
  return (vector) => vector.map((item, at) => Math.fround(((item - mean[at]) / Math.sqrt(variance[at] + epsilon)) * scale[at] + bias[at]));
}

const inOrder = (layers) => (vector) => layers.reduce((value, layer) => layer(value), vector);

/**
 * Hidden layers, each followed by an activation, and an output layer if `outputs` is not null.
 *
 * @param {{activation: Function, outputs?: number, hasBias?: boolean, epsilon?: number}} options `epsilon`: with batch
 * renormalization before each layer, and after the last one without an output
 */
function mlp(weights, module, inputs, sizes, { activation, outputs = null, hasBias = true, epsilon = null }) {
  const layers = [];
  let width = inputs;
  let number = 0;
  const add = (make) => {
    layers.push(make(`${module}.${number}`));
    number += 1;
  };
  const normalize = () => epsilon !== null && add((name) => renormalization(weights, name, width, epsilon));
  for (const size of sizes) {
    normalize();
    add((name) => linear(weights, name, width, size, hasBias));
    width = size;
    add((name) => activation(weights, name, size));
  }
  if (outputs !== null || sizes.length > 0) normalize();
  if (outputs !== null) add((name) => linear(weights, name, width, outputs, hasBias));
  return { run: inOrder(layers), size: outputs ?? width };
}

// -- images

const CONVOLUTIONS = [[0, 32, 8, 4], [2, 64, 4, 2], [4, 64, 3, 1]]; // number, filters, kernel, stride
const OLD_FILTERS = 32; // of the last, before 0.8

function convolution(weights, module, [channels, height, width], filters, kernel, stride) {
  const [rows, columns] = [height, width].map((size) => Math.floor((size - kernel) / stride) + 1);
  if (Math.min(rows, columns) < 1) invalid('an image is too small for its CNN');
  weights.charge(filters * rows * columns);
  const matrix = weights.take(`${module}.weight`, [filters, channels, kernel, kernel]);
  const bias = weights.take(`${module}.bias`, [filters]);
  const patch = channels * kernel * kernel;
  const run = (image) => {
    const out = [];
    const seen = new Float64Array(patch);
    for (let row = 0; row < rows; row += 1) {
      for (let column = 0; column < columns; column += 1) {
        for (let at = 0; at < patch; at += 1) {
          const [channel, y, x] = [Math.floor(at / (kernel * kernel)), Math.floor(at / kernel) % kernel, at % kernel];
          seen[at] = image[(channel * height + row * stride + y) * width + column * stride + x];
        }
        for (let filter = 0; filter < filters; filter += 1) {
          out[(filter * rows + row) * columns + column] = Math.fround(Math.max(dot(matrix, filter * patch, seen) + bias[filter], 0));
        }
      }
    }
    return out;
  };
  return { run, shape: [filters, rows, columns] };
}

function natureCnn(weights, module, shape, features, isOld) {
  let size = shape;
  const layers = CONVOLUTIONS.map(([number, filters, ...options]) => {
    const layer = convolution(weights, `${module}.cnn.${number}`, size, isOld && number === 4 ? OLD_FILTERS : filters, ...options);
    size = layer.shape;
    return layer.run;
  });
  const last = linear(weights, `${module}.linear.0`, product(size), features);
  return (image) => last(inOrder(layers)(image)).map((item) => Math.max(item, 0));
}

// -- LSTM

/** An LSTM of one step: a function of a vector and [hidden, cell] of each layer, which returns the next ones. */
function lstm(weights, module, inputs, hidden, count, hasBias) {
  const layers = Array.from({ length: count }, (_, number) => ['ih', 'hh'].map((way) => {
    const [width, gates] = [way === 'hh' || number > 0 ? hidden : inputs, 4 * hidden];
    weights.charge(gates);
    const matrix = weights.take(`${module}.weight_${way}_l${number}`, [gates, width]);
    const bias = hasBias ? weights.take(`${module}.bias_${way}_l${number}`, [gates]) : new Array(gates).fill(0);
    return (vector) => bias.map((item, row) => dot(matrix, row * width, vector) + item);
  }));
  return (vector, states) => {
    let value = vector;
    return layers.map(([ih, hh], number) => {
      const [old, cell] = states[number];
      const [fromInput, fromHidden] = [ih(value), hh(old)];
      const gate = (index, at) => fromInput[index * hidden + at] + fromHidden[index * hidden + at];
      const next = cell.map((item, at) => Math.fround(sigmoid(gate(1, at)) * item + sigmoid(gate(0, at)) * Math.tanh(gate(2, at))));
      value = next.map((item, at) => Math.fround(sigmoid(gate(3, at)) * Math.tanh(item)));
      return [value, next];
    });
  };
}

module.exports = {
  Weights, inOrder, linear, lstm, mlp, natureCnn,
};
