'use strict';

// The value of a pickle as JavaScript's own values, as far as a policy needs it: numbers, texts, arrays and maps; names
// of classes, and objects as a class and a state. Nothing else of it is looked at.

const { unsupported } = require('../errors.js');
const {
  Call, Dict, Global, List, Tuple,
} = require('../nodes.js');
const { Float, ITEMS } = require('../tags.js');
const { nameOf } = require('../tensors.js');
const { Values } = require('../values.js');

class Reference {
  constructor(name) {
    this.name = name; // module.Class
  }
}

class Instance {
  constructor(type, state) {
    this.type = type;
    this.state = state; // a Map
  }
}

class Partial {
  constructor(callable, positional, keywords) {
    this.callable = callable;
    this.positional = positional;
    this.keywords = keywords;
  }
}

class Unknown {}

const ARRAYS = new Map(Object.entries({
  bool: Uint8Array, uint8: Uint8Array, int8: Int8Array, uint16: Uint16Array, int16: Int16Array, uint32: Uint32Array, int32: Int32Array,
  uint64: BigUint64Array, int64: BigInt64Array, float32: Float32Array, float64: Float64Array,
}));

/** The items of a tagged tensor or array as numbers. */
function numbersOf({ dtype, [ITEMS]: read }) {
  const Items = ARRAYS.get(dtype) ?? unsupported(`numbers of ${dtype}`);
  return Array.from(new Items(new Uint8Array(read()).buffer), Number);
}

class PlainValues {
  constructor(budget, size) {
    this.budget = budget;
    this.values = new Values(null, budget, size);
    this.done = new Map(); // by identity
  }

  convert(value, depth = 0) {
    if (value === null || typeof value === 'boolean' || typeof value === 'string' || Buffer.isBuffer(value)) return value;
    if (typeof value === 'bigint') return Number(value);
    if (value instanceof Float) return value.number;
    this.budget.check('value_depth', depth);
    if (!this.done.has(value)) this.done.set(value, this.read(value, depth + 1));
    return this.done.get(value);
  }

  read(value, depth) {
    if (value instanceof List || value instanceof Tuple) return value.items.map((item) => this.convert(item, depth));
    if (value instanceof Dict) return this.map(value.pairs, depth);
    if (value instanceof Global) return new Reference(`${value.module}.${value.name}`);
    return value instanceof Call ? this.call(value, depth) : new Unknown();
  }

  map(pairs, depth) {
    return new Map(pairs.map(([key, value]) => [key, this.convert(value, depth)]));
  }

  call(value, depth) {
    const callable = nameOf(value.callable);
    if (callable === null) return new Unknown();
    const name = `${callable.module}.${callable.name}`;
    const found = this.values.numpy.read(value, callable, value.args.items);
    if (found?.scalar !== undefined) return numbersOf(found.scalar)[0];
    if (found !== null) return { ...found.array, items: numbersOf(found.array) };
    if (name === 'collections.OrderedDict') return this.map(value.changes.filter(({ kind }) => kind === 'SETITEMS').flatMap(({ values }) => values), depth);
    return this.object(value, name, depth);
  }

  /** An object that has only a state: a dict, or that of a partial. */
  object(value, name, depth) {
    if (value.changes.length !== 1) return new Unknown();
    const state = this.convert(value.changes[0].values, depth);
    if (name === 'functools.partial') return Array.isArray(state) ? new Partial(state[0], state[1], state[2]) : new Unknown();
    return state instanceof Map ? new Instance(name, state) : new Unknown();
  }
}

module.exports = {
  Partial, PlainValues, Reference, numbersOf,
};
