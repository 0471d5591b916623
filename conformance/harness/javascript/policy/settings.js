'use strict';

// The values of `data` that a policy depends on, as plain values.

const { pickleOf, serializedParts } = require('../data.js');
const { parseObject } = require('../json.js');
const { readWholePickle } = require('../opcodes.js');
const { asciiText } = require('../pickle_text.js');
const { PlainValues } = require('./plain.js');

/** The value of a pickle. */
function readPickled(bytes, budget) {
  return new PlainValues(budget, bytes.length).convert(readWholePickle(bytes, budget, asciiText).result);
}

/** A tagged value of JSON as a plain one; objects are Maps. */
function plainJson(value) {
  if (value === null || typeof value !== 'object') return value;
  if (value.float !== undefined) return Buffer.from(value.float, 'hex').readDoubleBE();
  if (value.int !== undefined) return Number.parseInt(value.int, 16);
  if (value.list !== undefined) return value.list.map(plainJson);
  return new Map(value.dict.map(([key, part]) => [key, plainJson(part)]));
}

class Settings {
  constructor(bytes, budget) {
    this.budget = budget;
    this.values = new Map(parseObject(bytes, budget).dict);
  }

  get(key) {
    const value = this.values.get(key) ?? null;
    const parts = serializedParts(value, key);
    return parts === null ? plainJson(value) : readPickled(pickleOf(parts, this.budget).bytes, this.budget);
  }
}

module.exports = { Settings };
