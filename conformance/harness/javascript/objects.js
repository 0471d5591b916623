'use strict';

// Pickles of one object (SB2.md 16.3): its class, its attributes by name, and which of them are arrays (VALUES.md 13.2).

const { dtype, integersIn, isDifferentiable } = require('./dtypes.js');
const { attempt, pickleFailure } = require('./errors.js');
const { countItems } = require('./geometry.js');
const {
  Call, Dict, Extension, FrozenSet, List, MutableSet, Node, Persistent, Tuple,
} = require('./nodes.js');
const {
  MAX_RANK, Numpy, OBJECTS, TEXTS, readDtype, tagArray,
} = require('./numpy.js');
const { readWholePickle } = require('./opcodes.js');
const { textSegment } = require('./paths.js');
const { asciiText } = require('./pickle_text.js');
const { isCount } = require('./storages.js');
const { rowsOf } = require('./tables.js');
const { Float, ITEMS } = require('./tags.js');
const { nameOf } = require('./tensors.js');
const { Values } = require('./values.js');

const ARRAY = 'numpy ndarray';
const FROM_BUFFER = /^numpy\._?core\.numeric _frombuffer$/;
const RECONSTRUCT = /^numpy\.(_?core\.multiarray|core\._multiarray_umath) _reconstruct$/;
const LEVELS = [List, Tuple, Dict, MutableSet, FrozenSet, Call, Persistent, Extension];
const START_BYTES = Buffer.from('b');
const MOST_BITS = 64n;
const NODES_PER_CALL = 5;

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

/** The class (joined as it is printed, and as in `fullName`) and the attributes of an object that has nothing else, or null. */
function readObject(value) {
  const [created, none] = calledBy('NEWOBJ', value);
  const [called, args] = calledBy('REDUCE', value);
  const isNew = created !== undefined && none.length === 0;
  const isRebuilt = called === 'copyreg _reconstructor' && args.length === 3 && fullName(args[1]) === 'builtins object' && args[2] === null;
  const type = isRebuilt ? args[0] : value?.callable;
  if ((!isNew && !isRebuilt) || nameOf(type) === null) return null;
  const [change] = value.changes;
  if (value.changes.length !== 1 || change.kind !== 'BUILD' || !(change.values instanceof Dict)) return null;
  return { className: `${type.module}.${type.name}`, fullName: fullName(type), pairs: change.values.pairs };
}

const isPair = (value) => (value instanceof List || value instanceof Tuple) && value.items.length === 2;

/** The pairs of a dict or an OrderedDict (FORMAT.md 6.6); null for anything else. */
function pairsOf(value) {
  if (value instanceof Dict) return value.pairs;
  const [called, args] = calledBy('REDUCE', value);
  const [given = new List([])] = args ?? [];
  const isOrdered = called === 'collections OrderedDict' && args.length <= 1 && given instanceof List && given.items.every(isPair)
    && value.changes.every(({ kind }) => kind === 'SETITEMS');
  return isOrdered ? [...given.items.map(({ items }) => items), ...value.changes.flatMap(({ values }) => values)] : null;
}

/** The members of a set, in the order of the pickle, which may contain one twice; null for anything else. */
function membersOf(value) {
  if (value instanceof MutableSet || value instanceof FrozenSet) return value.items;
  const [called, args] = calledBy('REDUCE', value);
  const [given = new List([])] = args ?? [];
  const isSet = /^builtins (frozen)?set$/.test(called) && args.length <= 1 && value.changes.length === 0;
  return isSet && (given instanceof List || given instanceof Tuple) ? given.items : null;
}

const isDict = (value) => pairsOf(value) !== null;

/** Whether a list is a permutation of the numbers from 0 on. */
const isPermutation = (axes, length) => axes.length === length && axes.every((axis) => typeof axis === 'bigint' && axis >= 0n && axis < length)
  && new Set(axes.map(Number)).size === length;

/** Whether all items of an array of texts are characters. */
const areCharacters = (bytes) => Array.from({ length: bytes.length / 4 }, (_, index) => bytes.readUInt32LE(4 * index)).every((one) => one <= 0x10ffff);

const isStart = (value) => value instanceof Tuple && value.items.length === 1 && value.items[0] === 0n;

/** The numpy values of one pickle. */
class Arrays {
  constructor(budget) {
    const values = new Values(null, budget, Infinity); // it counts copies by 6.6, which do not apply here
    this.numpy = values.numpy;
    this.texts = new Numpy(values, TEXTS);
    this.found = new Map(); // by identity
    this.integers = new Map(); // of arrays that buffers in each other may share
  }

  /** The tag of an array or a scalar of numbers, or null: also if the call is not exactly what numpy writes. */
  tagOf(value) {
    if (!this.found.has(value)) this.found.set(value, attempt(() => this.read(value, this.numpy)));
    return this.found.get(value);
  }

  read(value, numpy) {
    const [created, start] = calledBy('NEWOBJ', value);
    if (created === ARRAY && start.length === 1) return numpy.reconstruct(value, [value.callable, start[0], START_BYTES]);
    const [called, args] = calledBy('REDUCE', value);
    if (FROM_BUFFER.test(called) && args.length === 5) return this.transposed(value, args, numpy);
    return called === undefined ? null : numpy.read(value, nameOf(value.callable), args);
  }

  transposed(value, [bytes, type, shape, order, axes], numpy) {
    if (value.changes.length > 0 || order !== 'K' || !(axes instanceof Tuple) || !isPermutation(axes.items, shape.items?.length)) return null;
    return tagArray(numpy.buffer(bytes), readDtype(type, numpy.dtypes), shape, false, axes.items.map(Number));
  }

  /** The shape of an array of texts, or of bytes of a fixed size (13.2), as tagged integers; null for anything else. */
  textShape(value) {
    const { array, scalar } = attempt(() => this.read(value, this.texts)) ?? {};
    const { dtype: name, shape = [], [ITEMS]: items } = array ?? scalar ?? {};
    return name === undefined || (name.startsWith('U') && !areCharacters(items())) ? null : shape;
  }

  /** The items of an array of integers. */
  integersOf(array) {
    if (!this.integers.has(array)) this.integers.set(array, integersOf(array));
    return this.integers.get(array);
  }

  arrayOf(value) {
    return this.tagOf(value)?.array ?? null;
  }

  /**
   * A number: a plain one, or that of a numpy scalar or an array without axes. Integers are bigints, and floats NaN:
   * their values are not needed. Null for anything else.
   */
  numberOf(value) {
    if (typeof value === 'bigint') return (value < 0n ? -value : value) >> MOST_BITS === 0n ? value : null;
    if (typeof value === 'boolean') return value;
    if (value instanceof Float) return NaN;
    const { scalar, array } = this.tagOf(value) ?? {};
    const tag = scalar ?? (array?.shape.length === 0 ? array : undefined);
    const kind = tag === undefined ? 'none' : dtype(tag.dtype).kind;
    const read = { bool: () => tag[ITEMS]()[0] === 1, integer: () => integersOf(tag)[0], float: () => NaN }[kind];
    return read?.() ?? null;
  }

  /** The shape of an array of objects, or null. */
  objectsShape(value) {
    const [called, args] = calledBy('REDUCE', value);
    const isArray = RECONSTRUCT.test(called) && args.length === 3 && fullName(args[0]) === ARRAY && isStart(args[1])
      && this.numpy.values.bytesOf(args[2])?.equals(START_BYTES) && value.changes.length === 1 && value.changes[0].kind === 'BUILD';
    const state = isArray ? value.changes[0].values : null;
    if (!(state instanceof Tuple) || state.items.length !== 5) return null;
    const [version, shape, type, isFortran, items] = state.items;
    const isState = version === 1n && [true, false, 0n, 1n].includes(isFortran) && items instanceof List && shape instanceof Tuple && shape.items.every(isCount);
    if (!isState || shape.items.length > MAX_RANK || countItems(shape.items) !== BigInt(items.items.length)) return null;
    return type?.changes?.length !== 1 || attempt(() => readDtype(type, OBJECTS)) === null ? null : shape.items.map(Number);
  }

  /** The arrays of an attribute that is one, or a dict of arrays, by the rest of their paths; null of any other. */
  attribute(value) {
    const array = this.arrayOf(value);
    if (array !== null) return [['', array]];
    const parts = [...new Map(pairsOf(value) ?? [])].map(([key, part]) => [key, this.arrayOf(part)]);
    const areArrays = parts.length > 0 && parts.every(([key, part]) => typeof key === 'string' && part !== null);
    return areArrays ? parts.map(([key, part]) => [`/${textSegment(key)}`, part]) : null;
  }
}

/** The integers of an array or a scalar, as bigints. */
const integersOf = (tag) => integersIn(tag[ITEMS](), dtype(tag.dtype));

/** Whether each item of an array of numbers is not 0. */
function nonZeros(array) {
  const type = dtype(array.dtype);
  const bytes = array[ITEMS]();
  const isSign = (at) => isDifferentiable(type) && (at + 1) % type.group === 0;
  return Array.from({ length: bytes.length / type.size }, (_, index) => bytes.subarray(index * type.size, (index + 1) * type.size)
    .some((byte, at) => (isSign(at) ? byte & 0x7f : byte) !== 0));
}

const isLevel = (value) => LEVELS.some((type) => value instanceof type);

/** The values directly below a level: of a call its callable, its arguments one by one, keywords and changes (13.1). */
function partsBelow(value) {
  if (value instanceof Dict) return value.pairs.flat();
  const changes = (value.changes ?? []).flatMap(({ kind, values }) => (kind === 'SETITEMS' ? values.flat() : values));
  if (!(value instanceof Call)) return value.items ?? changes;
  const args = value.args instanceof Tuple ? value.args.items : [value.args].flat();
  return [value.callable, ...args, value.keywords, ...changes];
}

/** Compare the depth of a pickle with its limit. A value that contains itself is not entered again. */
function checkDepth(root, budget) {
  const heights = new Map(); // by identity; 0 while a value is open
  const heightOf = (value, depth) => {
    if (!isLevel(value) || heights.get(value) === 0) return 0;
    budget.check('value_depth', depth);
    if (!heights.has(value)) {
      heights.set(value, 0);
      heights.set(value, 1 + partsBelow(value).reduce((most, part) => Math.max(most, heightOf(part, depth + 1)), 0));
    }
    budget.check('value_depth', depth + heights.get(value) - 1);
    return heights.get(value);
  };
  heightOf(root, 1);
}

/** "module name" of what a call may be recognized by. */
const RECOGNIZED = new Set(rowsOf('roles').filter(({ kind }) => /\b(call|object)\b/.test(kind)).map(({ module, name }) => `${module} ${name}`));

/** Bytes of a text, a bytes object or an integer (8.1). */
function bytesOf(value) {
  if (typeof value === 'bigint') return (value < 0n ? -value : value).toString(2).length >> 3;
  return typeof value === 'string' || Buffer.isBuffer(value) ? value.length : (value?.bytes?.length ?? 0);
}

/** Compare with their limits the calls and what they are given: shared parts each time, less the bytes of the pickle (8.1, 13.1). */
function checkGiven(root, budget, size) {
  const measured = new Map(); // by identity: the items of a container with itself, and their bytes
  const given = { calls: 0, items: 0, bytes: 0 };
  const measure = (value) => {
    if (!isLevel(value)) return { items: 1, bytes: bytesOf(value) };
    if (!measured.has(value)) {
      measured.set(value, { items: 1, bytes: 0 });
      const parts = partsBelow(value).map(measure);
      const items = parts.reduce((sum, part) => sum + part.items, 0);
      const bytes = parts.reduce((sum, part) => sum + part.bytes, 0);
      if (!(value instanceof Node)) measured.set(value, { items: items + 1, bytes });
      else if (RECOGNIZED.has(fullName(value.callable))) {
        given.calls += 1;
        given.items += items;
        given.bytes += bytes;
      }
    }
    return measured.get(value);
  };
  measure(root);
  budget.check('pickle_nodes', Math.max(NODES_PER_CALL * given.calls, given.items - size));
  budget.check('blob_bytes', given.bytes - size);
}

/** Whether the names of attributes are texts, and none occurs twice. */
const areNames = (pairs) => pairs.every(([name]) => typeof name === 'string') && new Map(pairs).size === pairs.length;

/** The value of a lone pickle. */
function readLonePickle(bytes, budget) {
  const { flags, result } = readWholePickle(bytes, budget, asciiText);
  if (flags.size > 0) pickleFailure(`the pickle has the flags ${[...flags]}`);
  return result;
}

module.exports = {
  Arrays, areNames, calledBy, checkDepth, checkGiven, fullName, integersOf, isDict, membersOf, nonZeros, pairsOf, readLonePickle, readObject,
};
