'use strict';

// The value of a pickle as JavaScript's own values, as far as a policy needs it: integers, texts, arrays and maps; floats as
// Float, arrays of numpy by dtype, shape and items; names of classes, and objects as a class and a state. Nothing else of it
// is looked at.

const { readHalf } = require('../dtypes.js');
const { Refusal, unsupported } = require('../errors.js');
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

/** Whether a value is plain data: not a class, and not an object that is not known. */
const isPlain = (value) => ![Reference, Instance, Partial, Unknown].some((type) => value instanceof type);

/** An item of an array as a value of its own. */
function itemOf(dtype, number) {
  if (dtype === 'bool') return number !== 0;
  return /float/.test(dtype) ? Float.of(number) : number;
}

const EXPONENTS = new Map([['float16', 5], ['bfloat16', 8]]);
const ARRAYS = new Map(Object.entries({
  bool: Uint8Array, uint8: Uint8Array, int8: Int8Array, uint16: Uint16Array, int16: Int16Array, uint32: Uint32Array, int32: Int32Array,
  uint64: BigUint64Array, int64: BigInt64Array, float32: Float32Array, float64: Float64Array,
}));

/** The items of a tagged tensor or array as numbers. */
function numbersOf({ dtype, [ITEMS]: read }) {
  const bits = EXPONENTS.get(dtype);
  const Items = bits === undefined ? ARRAYS.get(dtype) ?? unsupported(`numbers of ${dtype}`) : Uint16Array;
  return Array.from(new Items(new Uint8Array(read()).buffer), bits === undefined ? Number : (word) => readHalf(word, bits));
}

function readPartial(state) {
  const [callable, positional, keywords, attributes] = state?.isTuple && state.length === 4 ? state : [];
  const isKnown = callable instanceof Reference && positional?.isTuple && (keywords === null || keywords instanceof Map)
    && (attributes === null || (attributes instanceof Map && attributes.size === 0));
  return isKnown ? new Partial(callable, positional, keywords ?? new Map()) : new Unknown();
}

class PlainValues {
  constructor(budget, size) {
    this.values = new Values(null, budget, size);
    this.done = new Map(); // by identity
  }

  convert(value) {
    if (value === null || typeof value === 'boolean' || typeof value === 'string' || Buffer.isBuffer(value)) return value;
    if (value instanceof Float) return value;
    if (typeof value === 'bigint') return Number(value);
    if (!this.done.has(value)) {
      this.done.set(value, new Unknown()); // in a value that contains itself
      this.done.set(value, this.read(value));
    }
    return this.done.get(value);
  }

  read(value) {
    const convertAll = () => value.items.map((item) => this.convert(item));
    if (value instanceof Tuple) return Object.assign(convertAll(), { isTuple: true });
    if (value instanceof List) return convertAll();
    if (value instanceof Dict) return this.map(value.pairs);
    if (value instanceof Global) return new Reference(`${value.module}.${value.name}`);
    return value instanceof Call ? this.call(value) : new Unknown();
  }

  map(pairs) {
    return new Map(pairs.map(([key, value]) => [key, this.convert(value)]));
  }

  call(value) {
    const callable = nameOf(value.callable);
    if (callable === null) return new Unknown();
    const name = `${callable.module}.${callable.name}`;
    const found = this.readNumpy(value, callable);
    if (found !== null) return found;
    if (name === 'collections.OrderedDict') return this.map(value.changes.filter(({ kind }) => kind === 'SETITEMS').flatMap(({ values }) => values));
    return this.object(value, name);
  }

  /** A scalar or an array of numpy, or null. What FORMAT.md 6.6 does not allow is not known. */
  readNumpy(value, callable) {
    try {
      const found = this.values.numpy.read(value, callable, value.args.items);
      if (found === null) return null;
      const { dtype, shape = [], ...bytes } = found.scalar ?? found.array;
      const items = ARRAYS.has(dtype) || EXPONENTS.has(dtype) ? numbersOf({ dtype, ...bytes }) : null;
      return found.scalar === undefined || items === null ? { dtype, shape, items } : itemOf(dtype, items[0]);
    } catch (error) {
      if (!(error instanceof Refusal) || error.outcome === 'limit exceeded') throw error;
      return new Unknown();
    }
  }

  /** An object that has only a state: a dict, or that of a partial. */
  object(value, name) {
    if (value.changes.length !== 1) return new Unknown();
    const state = this.convert(value.changes[0].values);
    if (name === 'functools.partial') return readPartial(state);
    return state instanceof Map ? new Instance(name, state) : new Unknown();
  }
}

module.exports = {
  Partial, PlainValues, Reference, isPlain, itemOf, numbersOf,
};
