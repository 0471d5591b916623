'use strict';

// The values of `data` that a policy depends on, as plain values.

const { readValues } = require('../data.js');
const { checkDepth, checkGiven } = require('../objects.js');
const { readWholePickle } = require('../opcodes.js');
const { asciiText } = require('../pickle_text.js');
const { Float } = require('../tags.js');
const { PlainValues } = require('./plain.js');

/** The value of a pickle. */
function readPickled(bytes, budget) {
  const root = readWholePickle(bytes, budget, asciiText).result;
  checkDepth(root, budget);
  checkGiven(root, budget, bytes.length);
  return new PlainValues(budget, bytes.length).convert(root);
}

/** A tagged value of JSON as a plain one; objects are Maps. */
function plainJson(value) {
  if (value === null || typeof value !== 'object') return value;
  if (value.float !== undefined) return new Float(Buffer.from(value.float, 'hex'));
  if (value.int !== undefined) return Number.parseInt(value.int, 16);
  if (value.list !== undefined) return value.list.map(plainJson);
  return new Map(value.dict.map(([key, part]) => [key, plainJson(part)]));
}

class Settings {
  constructor(bytes, budget) {
    this.budget = budget;
    this.values = readValues(bytes, budget);
  }

  has(key) {
    return this.values.has(key);
  }

  get(key) {
    const value = this.values.get(key) ?? null;
    return value?.pickle === undefined ? plainJson(value) : readPickled(value.pickle, this.budget);
  }
}

module.exports = { Settings };
