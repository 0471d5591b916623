'use strict';

// Pickles of one object (SB2.md 16.3): its class, its attributes by name, and which of them are arrays (VALUES.md 13.2).

const { isDifferentiable, dtype } = require('./dtypes.js');
const { Refusal, pickleFailure } = require('./errors.js');
const {
  ByteArray, Call, Dict, Global, List, Tuple, compositesIn,
} = require('./nodes.js');
const { readDtype, tagArray } = require('./numpy.js');
const { readWholePickle } = require('./opcodes.js');
const { textSegment } = require('./paths.js');
const { asciiText } = require('./pickle_text.js');
const { isCount } = require('./storages.js');
const { Float, ITEMS } = require('./tags.js');
const { nameOf } = require('./tensors.js');
const { Values } = require('./values.js');

const ARRAY = 'numpy ndarray';
const FROM_BUFFER = /^numpy\._?core\.numeric _frombuffer$/;
const RECONSTRUCT = /^numpy\.(_?core\.multiarray|core\._multiarray_umath) _reconstruct$/;
const START_BYTES = Buffer.from('b');
const COST = { kept: 128, composite: 8 }; // parts of an attribute that JSON cannot represent (16.3.4)
const COPIES = 8; // bytes of arrays for each byte of distinct ones
const BITS_PER_DIGIT = 3.3;

/** "module name" of an unchanged global, or null. */
const fullName = (value) => {
  const name = nameOf(value);
  return name === null ? null : `${name.module} ${name.name}`;
};

/** "module name" and arguments of a call by `opcode`; `[]` for anything else. */
function calledBy(opcode, value) {
  const isCall = value instanceof Call && value.opcode === opcode && value.args instanceof Tuple;
  return isCall && nameOf(value.callable) !== null ? [fullName(value.callable), value.args.items] : [];
}

/** The class and the attributes of an object that consists only of its attributes; null for anything else. */
function readObject(value) {
  const [created, none] = calledBy('NEWOBJ', value);
  const [called, args] = calledBy('REDUCE', value);
  const isNew = created !== undefined && none.length === 0;
  const isRebuilt = called === 'copyreg _reconstructor' && args.length === 3 && fullName(args[1]) === 'builtins object' && args[2] === null;
  const type = isRebuilt ? args[0] : value?.callable;
  if ((!isNew && !isRebuilt) || nameOf(type) === null) return null;
  const [change] = value.changes;
  if (value.changes.length !== 1 || change.kind !== 'BUILD' || !(change.values instanceof Dict)) return null;
  return { className: `${type.module}.${type.name}`, pairs: change.values.pairs };
}

/** The pairs of a dict or an OrderedDict with text keys, each key once; null for anything else. */
function textPairs(value) {
  let pairs = value instanceof Dict ? value.pairs : null;
  const [called, args] = calledBy('REDUCE', value);
  if (called === 'collections OrderedDict' && args.length === 0 && value.changes.every(({ kind }) => kind === 'SETITEMS')) {
    pairs = value.changes.flatMap(({ values }) => values);
  }
  return pairs?.every(([key]) => typeof key === 'string') ? [...new Map(pairs)] : null;
}

/** Whether a list is a permutation of the numbers from 0 on. */
const isPermutation = (axes, length) => axes.length === length && axes.every((axis) => typeof axis === 'bigint' && axis >= 0n && axis < length)
  && new Set(axes.map(Number)).size === length;

/** The numpy values of one pickle. */
class Arrays {
  constructor(budget) {
    const values = new Values(null, budget, Infinity); // it counts copies by 6.6, which do not apply here
    this.numpy = values.numpy;
    this.found = new Map(); // by identity
  }

  /** The tag of an array or a scalar of numbers, or null: also if the call is not exactly what numpy writes. */
  tagOf(value) {
    if (!this.found.has(value)) this.found.set(value, this.recognize(value));
    return this.found.get(value);
  }

  recognize(value) {
    try {
      return this.read(value);
    } catch (error) {
      if (error instanceof Refusal && error.outcome !== 'limit exceeded') return null;
      throw error;
    }
  }

  read(value) {
    const [created, start] = calledBy('NEWOBJ', value);
    if (created === ARRAY && start.length === 1) return this.numpy.reconstruct(value, [value.callable, start[0], START_BYTES]);
    const [called, args] = calledBy('REDUCE', value);
    if (FROM_BUFFER.test(called) && args.length === 5) return this.transposed(value, args);
    return called === undefined ? null : this.numpy.read(value, nameOf(value.callable), args);
  }

  transposed(value, [bytes, type, shape, order, axes]) {
    if (value.changes.length > 0 || order !== 'K' || !(axes instanceof Tuple) || !isPermutation(axes.items, shape.items?.length)) return null;
    return tagArray(this.numpy.buffer(bytes), readDtype(type), shape, false, axes.items.map(Number));
  }

  arrayOf(value) {
    return this.tagOf(value)?.array ?? null;
  }

  /** The number that a value or a numpy scalar is, of `kind`: an integer as a bigint, or a bool. Otherwise null. */
  numberOf(value, kind) {
    if (typeof value === (kind === 'bool' ? 'boolean' : 'bigint')) return value;
    const scalar = this.tagOf(value)?.scalar;
    if (scalar === undefined || dtype(scalar.dtype).kind !== kind) return null;
    const [number] = integersOf(scalar);
    return kind === 'bool' ? number === 1n : number;
  }

  /** The shape of an array of objects, or null. */
  objectsShape(value) {
    const [called, args = []] = calledBy('REDUCE', value);
    const [change] = value?.changes ?? [];
    const [, shape, type, , items] = change?.values?.items ?? [];
    const isArray = RECONSTRUCT.test(called) && fullName(args[0] ?? null) === ARRAY && items instanceof List && shape instanceof Tuple;
    const [typeName, code] = calledBy('REDUCE', type ?? null);
    return isArray && typeName === 'numpy dtype' && code[0] === 'O8' && shape.items.every(isCount) ? shape.items.map(Number) : null;
  }

  /** The arrays of an attribute of the state dict, by the rest of their paths; null of an attribute of `data`. */
  attribute(value) {
    const array = this.arrayOf(value);
    if (array !== null) return [['', array, value]];
    const pairs = textPairs(value) ?? [];
    const parts = pairs.map(([key, part]) => [`/${textSegment(key)}`, this.arrayOf(part), part]);
    return parts.length > 0 && parts.every(([, part]) => part !== null) ? parts : null;
  }
}

/** The integers of an array or a scalar, as bigints. */
function integersOf(tag) {
  const { size } = dtype(tag.dtype);
  const bytes = Buffer.from(tag[ITEMS]());
  const signed = tag.dtype.startsWith('int');
  return Array.from({ length: bytes.length / size }, (_, index) => {
    const item = BigInt(`0x${bytes.subarray(index * size, (index + 1) * size).reverse().toString('hex')}`);
    return signed ? BigInt.asIntN(8 * size, item) : item;
  });
}

/** Whether each item of an array of numbers is not 0. */
function nonZeros(array) {
  const type = dtype(array.dtype);
  const bytes = array[ITEMS]();
  const isSign = (at) => isDifferentiable(type) && (at + 1) % type.group === 0;
  return Array.from({ length: bytes.length / type.size }, (_, index) => bytes.subarray(index * type.size, (index + 1) * type.size)
    .some((byte, at) => (isSign(at) ? byte & 0x7f : byte) !== 0));
}

/** The totals of 16.3.4: parts that are shared count each time they occur. */
class Totals {
  constructor(budget, arrays, size) {
    this.budget = budget;
    this.arrays = arrays;
    this.parts = -size;
    this.texts = -size;
  }

  add(parts, texts = 0) {
    this.parts += parts;
    this.texts += texts;
    this.budget.check('pickle_nodes', this.parts);
    this.budget.check('json_bytes', this.texts);
  }

  data(value) {
    if (this.visit(value, 1)) return;
    let composites = 0;
    let hasEmptyTuple = false;
    for (const part of compositesIn(value)) {
      if (part instanceof Float || part instanceof ByteArray) continue;
      if (part instanceof Tuple && part.items.length === 0) hasEmptyTuple = true;
      else composites += 1;
    }
    this.add(COST.kept + COST.composite * (composites + Number(hasEmptyTuple)));
  }

  /** Count a value. Returns false at the first part that JSON cannot represent. */
  visit(value, depth) {
    this.add(1);
    this.budget.check('json_depth', depth);
    if (typeof value === 'string') this.add(0, [...value].length);
    if (typeof value === 'bigint') this.integer(value < 0n ? -value : value);
    if (value === null || typeof value !== 'object' || value instanceof Float) return true;
    if (value instanceof List || value instanceof Tuple) return value.items.every((item) => this.visit(item, depth + 1));
    const pairs = textPairs(value);
    if (pairs === null) return this.isPlainScalar(value);
    for (const [key] of pairs) this.add(0, [...key].length);
    return pairs.every(([, part]) => this.visit(part, depth + 1));
  }

  integer(size) {
    const bits = size === 0n ? 0 : size.toString(2).length;
    this.add(0, Math.floor(bits / 8));
    this.budget.check('json_digits', Math.floor(bits / BITS_PER_DIGIT));
  }

  isPlainScalar(value) {
    const scalar = value instanceof Call ? this.arrays.tagOf(value)?.scalar : undefined;
    return scalar !== undefined && dtype(scalar.dtype).kind !== 'complex';
  }
}

/** Compare the sizes of an object's attributes with their limits (16.3.4). */
function checkSizes(attributes, arrays, size, budget) {
  const totals = new Totals(budget, arrays, size);
  const distinct = new Set();
  let bytes = 0;
  for (const value of attributes.values()) {
    const found = arrays.attribute(value);
    if (found === null) totals.data(value);
    for (const [, array, node] of found ?? []) {
      const length = array[ITEMS]().length;
      bytes += distinct.has(node) ? length : (1 - COPIES) * length;
      distinct.add(node);
    }
  }
  budget.check('expanded_items', bytes);
}

/** The attributes of an object by name. */
function attributesOf(pairs) {
  const attributes = new Map(pairs);
  if (!pairs.every(([key]) => typeof key === 'string')) pickleFailure('the name of an attribute is not text');
  if (attributes.size !== pairs.length) pickleFailure('an attribute occurs twice');
  return attributes;
}

/** The value of a lone pickle. */
function readLonePickle(bytes, budget) {
  const { flags, result } = readWholePickle(bytes, budget, asciiText);
  if (flags.size > 0) pickleFailure(`the pickle has the flags ${[...flags]}`);
  return result;
}

module.exports = {
  Arrays, attributesOf, checkSizes, integersOf, nonZeros, readLonePickle, readObject,
};
