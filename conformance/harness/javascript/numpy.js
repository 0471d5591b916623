'use strict';

// numpy values in a .pth (FORMAT.md 6.6).

const { NUMPY_CODES, swapped } = require('./dtypes.js');
const { tensorFailure, unsupported } = require('./errors.js');
const { countItems, tensorItems } = require('./geometry.js');
const { ByteArray, Call, List, Tuple } = require('./nodes.js');
const { Storage, isCount } = require('./storages.js');
const { ITEMS, sha256, tagInteger } = require('./tags.js');
const { checkLength, nameOf } = require('./tensors.js');

const MAX_RANK = 64;
const MAX_BYTES = 2n ** 63n;
const PACKAGES = ['numpy.core', 'numpy._core'];
const SCALARS_AND_ARRAYS = [...PACKAGES.map((name) => `${name}.multiarray`), 'numpy.core._multiarray_umath'];
/** The dtypes of numbers, and that of arrays of objects (VALUES.md 13.2): codes, byte orders, and the rest of the state. */
const NUMBERS = { codes: NUMPY_CODES, orders: ['<', '>', '=', '|'], state: [null, null, null, -1n, -1n, 0n, null] };
const OBJECTS = { codes: new Map([['O8', { size: 8 }]]), orders: ['|'], state: [null, null, null, -1n, -1n, 63n, null] };

const isFlag = (value) => typeof value === 'boolean' || typeof value === 'bigint';
const isTrueOrFalse = (value) => typeof value === 'boolean' || value === 0n || value === 1n;

const textType = (code) => /^([US])(0|[1-9][0-9]{0,8})$/.exec(code);

/** Text and bytes of a fixed size (VALUES.md 13.2): `U3`, `S3`. */
const TEXTS = {
  codes: {
    has: (code) => textType(code) !== null,
    get: (code) => {
      const [, kind, count] = textType(code);
      const group = kind === 'U' ? 4 : 1;
      const size = Number(count) * group;
      return { name: code, kind: 'text', size, group, state: [null, null, null, BigInt(size), BigInt(group), kind === 'U' ? 8n : 0n, null] };
    },
  },
  orders: NUMBERS.orders,
};

/** Whether the state of a dtype is big-endian. Checks its other items. */
function isBigEndianState(state, type, dtypes) {
  const [version, order, ...rest] = state instanceof Tuple ? state.items : [];
  const isPlain = (version === 3n || version === 4n) && dtypes.orders.includes(order)
    && (rest.length === 6 || rest.length === 7) && rest.every((item, index) => item === (type.state ?? dtypes.state)[index]);
  if (!isPlain) tensorFailure('a numpy dtype has an unknown state');
  return order === '>';
}

/** Decode numpy.dtype(code[, align[, copy]]), optionally with its state. */
function readDtype(value, dtypes = NUMBERS) {
  const name = value instanceof Call ? nameOf(value.callable) : null;
  if (name?.module !== 'numpy' || name.name !== 'dtype' || value.opcode !== 'REDUCE') tensorFailure('not a numpy dtype');
  const args = value.args instanceof Tuple ? value.args.items : [];
  checkLength(args, 1, 3);
  if (typeof args[0] !== 'string' || !args.slice(1).every(isFlag)) tensorFailure('a numpy dtype has unknown arguments');
  if (!dtypes.codes.has(args[0])) unsupported('an unknown numpy dtype');
  if (value.changes.length > 1 || value.changes.some(({ kind }) => kind !== 'BUILD')) {
    tensorFailure('a numpy dtype is changed');
  }
  if (value.changes.length === 1 && !args[2]) tensorFailure('a numpy dtype that is not a copy has a state');
  const type = dtypes.codes.get(args[0]);
  const isBigEndian = value.changes.length === 1 && isBigEndianState(value.changes[0].values, type, dtypes);
  if (isBigEndian && type.group === 1) tensorFailure('a numpy dtype of single bytes is big-endian');
  return { type, isBigEndian };
}

function stridesOf(shape, isFortran) {
  const strides = new Array(shape.length);
  let next = 1n;
  const order = [...shape.keys()];
  for (const i of isFortran ? order : order.reverse()) {
    strides[i] = next;
    next *= shape[i];
  }
  return strides;
}

/**
 * Items in C order, little-endian. The number of bytes must be exactly that of the shape. `axes` are those of the bytes
 * in the order that the array has them; null if they are not transposed.
 */
function tagArray(bytes, { type, isBigEndian }, shapeValue, isFortran, axes = null) {
  const shape = shapeValue instanceof Tuple ? shapeValue.items : null;
  if (shape === null || !shape.every(isCount)) {
    tensorFailure('a numpy array has an invalid shape');
  }
  if (shape.length > MAX_RANK) tensorFailure(`a numpy array has ${shape.length} dimensions`);
  if (countItems(shape.map((size) => size || 1n)) * BigInt(type.size) >= MAX_BYTES) tensorFailure('a numpy array is too large');
  if (countItems(shape) * BigInt(type.size) !== BigInt(bytes.length)) tensorFailure('the number of bytes of a numpy array does not match its shape');
  const storage = Storage.of(type, bytes, isBigEndian);
  const strides = stridesOf(shape, isFortran);
  const arranged = (sizes) => (axes === null ? sizes : axes.map((axis) => sizes[axis]));
  const tensor = { storage, dtype: type, offset: 0n, shape: arranged(shape), strides: arranged(strides) };
  const items = tensorItems(tensor);
  return { array: { dtype: type.name, shape: tensor.shape.map(tagInteger), sha256: sha256(items), [ITEMS]: () => items } };
}

/** Readers of numpy's calls by "module name". Each returns a tag, or null if the call is not one of them. */
class Numpy {
  constructor(values, dtypes = NUMBERS) {
    this.values = values;
    this.dtypes = dtypes;
    this.readers = new Map();
    for (const name of SCALARS_AND_ARRAYS) {
      this.readers.set(`${name} scalar`, (call, args) => this.scalar(call, args));
      this.readers.set(`${name} _reconstruct`, (call, args) => this.reconstruct(call, args));
    }
    for (const name of PACKAGES) {
      this.readers.set(`${name}.numeric _frombuffer`, (call, args) => this.fromBuffer(call, args));
    }
  }

  read(call, name, args) {
    return this.readers.get(`${name.module} ${name.name}`)?.(call, args) ?? null;
  }

  /** The bytes of an argument of a call. Copies are charged as those of other constructors. */
  bytes(value) {
    if (value instanceof List) unsupported('a numpy array of objects');
    const bytes = this.values.bytesOf(value);
    if (bytes === null) tensorFailure('a numpy value has no bytes');
    this.values.chargeCopy(bytes.length);
    return bytes;
  }

  /** The bytes of any buffer. */
  buffer(value) {
    return this.bytes(value instanceof ByteArray ? value.bytes : value);
  }

  scalar(call, args) {
    this.values.checkUnchanged(call);
    checkLength(args, 2);
    const { type, isBigEndian } = readDtype(args[0], this.dtypes);
    const bytes = this.bytes(args[1]);
    if (bytes.length !== type.size) tensorFailure('the number of bytes of a numpy scalar does not match its dtype');
    if (type.kind === 'bool' && bytes[0] > 1) tensorFailure('a bool is neither 0 nor 1');
    const items = isBigEndian ? swapped(bytes, type.group) : bytes;
    return { scalar: { dtype: type.name, sha256: sha256(items), [ITEMS]: () => items } };
  }

  reconstruct(call, args) {
    checkLength(args, 3);
    const type = nameOf(args[0]);
    if (type === null) tensorFailure('the class of a numpy array is not a global');
    const isUsual = args[1] instanceof Tuple && args[1].items.length === 1 && args[1].items[0] === 0n
      && this.values.bytesOf(args[2])?.toString('latin1') === 'b';
    if (!isUsual) tensorFailure('a numpy array has unknown arguments');
    if (call.changes.length !== 1 || call.changes[0].kind !== 'BUILD') tensorFailure('a numpy array does not have exactly one state');
    if (type.module !== 'numpy' || type.name !== 'ndarray') unsupported('an unknown class of numpy arrays');
    const state = call.changes[0].values;
    if (!(state instanceof Tuple)) tensorFailure('a numpy array has an unknown state');
    checkLength(state.items, 5);
    const [version, shape, arrayType, isFortran, bytes] = state.items;
    if (version !== 1n || !isTrueOrFalse(isFortran)) tensorFailure('a numpy array has an unknown state');
    const dtype = readDtype(arrayType, this.dtypes);
    return tagArray(this.bytes(bytes), dtype, shape, Boolean(isFortran));
  }

  fromBuffer(call, args) {
    this.values.checkUnchanged(call);
    checkLength(args, 4);
    const [bytes, type, shape, order] = args;
    if (order !== 'C' && order !== 'F') tensorFailure('an unknown order of a numpy array');
    const dtype = readDtype(type, this.dtypes);
    return tagArray(this.buffer(bytes), dtype, shape, order === 'F');
  }
}

module.exports = {
  MAX_RANK, Numpy, OBJECTS, TEXTS, readDtype, tagArray,
};
