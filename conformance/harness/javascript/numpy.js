'use strict';

// numpy's values in a .pth (FORMAT.md 6.6).

const { dtype, swapped } = require('./dtypes.js');
const { tensorFailure, unsupported } = require('./errors.js');
const { countItems, tensorItems } = require('./geometry.js');
const { ByteArray, Call, List, Tuple } = require('./nodes.js');
const { Storage } = require('./storages.js');
const { sha256, tagInteger } = require('./tags.js');
const { checkLength, nameOf } = require('./tensors.js');

const MAX_RANK = 64;
const CODES = new Map(Object.entries({
  b1: 'bool', i1: 'int8', u1: 'uint8', i2: 'int16', u2: 'uint16', f2: 'float16', i4: 'int32', u4: 'uint32',
  f4: 'float32', i8: 'int64', u8: 'uint64', f8: 'float64', c8: 'complex64', c16: 'complex128',
}).map(([code, name]) => [code, dtype(name)]));
const PACKAGES = ['numpy.core', 'numpy._core'];
const PLAIN_STATE = [null, null, null, -1n, -1n, 0n, null];
const BYTE_ORDERS = ['<', '>', '=', '|'];

const isFlag = (value) => typeof value === 'boolean' || typeof value === 'bigint';
const isTrueOrFalse = (value) => typeof value === 'boolean' || value === 0n || value === 1n;

/** Whether the state of a dtype says big-endian; its other items are those of plain numbers. */
function isBigEndianState(state) {
  const [version, order, ...rest] = state instanceof Tuple ? state.items : [];
  const isPlain = (version === 3n || version === 4n) && BYTE_ORDERS.includes(order)
    && (rest.length === 6 || rest.length === 7) && rest.every((item, index) => item === PLAIN_STATE[index]);
  if (!isPlain) tensorFailure('a numpy dtype with another state');
  return order === '>';
}

/** numpy.dtype(code[, align[, copy]]), perhaps with its state. */
function readDtype(value) {
  if (!(value instanceof Call)) tensorFailure('no numpy dtype');
  const name = nameOf(value.callable);
  if (name?.module !== 'numpy' || name.name !== 'dtype' || value.opcode !== 'REDUCE') unsupported('no numpy dtype');
  const args = value.args instanceof Tuple ? value.args.items : [];
  checkLength(args, 1, 3);
  if (typeof args[0] !== 'string' || !args.slice(1).every(isFlag)) tensorFailure('a numpy dtype of other arguments');
  if (!CODES.has(args[0])) unsupported('a numpy dtype');
  if (value.changes.length > 1 || value.changes.some(({ kind }) => kind !== 'BUILD')) {
    tensorFailure('a numpy dtype that is changed');
  }
  if (value.changes.length === 1 && !args[2]) tensorFailure('a state of a numpy dtype that is no copy');
  const isBigEndian = value.changes.length === 1 && isBigEndianState(value.changes[0].values);
  const type = CODES.get(args[0]);
  if (isBigEndian && type.size === 1) tensorFailure('a numpy dtype of single bytes that is big-endian');
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

/** Items in C order, little-endian, of an array whose bytes must be exactly those. */
function tagArray(bytes, { type, isBigEndian }, shapeValue, isFortran) {
  const shape = shapeValue instanceof Tuple ? shapeValue.items : null;
  if (shape === null || !shape.every((size) => typeof size === 'bigint' && size >= 0n)) {
    tensorFailure('a numpy array with another shape');
  }
  if (shape.length > MAX_RANK) tensorFailure(`a numpy array of ${shape.length} dimensions`);
  if (countItems(shape) * BigInt(type.size) !== BigInt(bytes.length)) tensorFailure('a numpy array with other bytes');
  const storage = new Storage(type, bytes, isBigEndian);
  const tensor = { storage, dtype: type, offset: 0n, shape, strides: stridesOf(shape, isFortran) };
  return { array: { dtype: type.name, shape: shape.map(tagInteger), sha256: sha256(tensorItems(tensor)) } };
}

/** Readers of numpy's calls by "module name"; each gives a tag, or null when the call is none of them. */
class Numpy {
  constructor(values) {
    this.values = values;
    this.readers = new Map([['numpy dtype', (call) => ({ numpy_dtype: readDtype(call).type.name })]]);
    for (const name of PACKAGES) {
      this.readers.set(`${name}.multiarray scalar`, (call, args) => this.scalar(call, args));
      this.readers.set(`${name}.multiarray _reconstruct`, (call, args) => this.reconstruct(call, args));
      this.readers.set(`${name}.numeric _frombuffer`, (call, args) => this.fromBuffer(call, args));
    }
  }

  read(call, name, args) {
    return this.readers.get(`${name.module} ${name.name}`)?.(call, args) ?? null;
  }

  /** Bytes of an item of a call; copies are charged like those of other constructors. */
  bytes(value) {
    if (value instanceof List) unsupported('a numpy array of objects');
    const bytes = this.values.bytesOf(value);
    if (bytes === null) tensorFailure('a numpy value without bytes');
    this.values.chargeCopy(bytes.length);
    return bytes;
  }

  /** Bytes of any buffer. */
  buffer(value) {
    return this.bytes(value instanceof ByteArray ? value.bytes : value);
  }

  scalar(call, args) {
    this.values.checkUnchanged(call);
    checkLength(args, 2);
    const { type, isBigEndian } = readDtype(args[0]);
    const bytes = this.bytes(args[1]);
    if (bytes.length !== type.size) tensorFailure('a numpy scalar with other bytes');
    if (type.kind === 'bool' && bytes[0] > 1) tensorFailure('a bool that is neither 0 nor 1');
    return { scalar: { dtype: type.name, sha256: sha256(isBigEndian ? swapped(bytes, type.group) : bytes) } };
  }

  reconstruct(call, args) {
    checkLength(args, 3);
    const type = nameOf(args[0]);
    if (type?.module !== 'numpy' || type.name !== 'ndarray') unsupported('a numpy array of another class');
    const isUsual = args[1] instanceof Tuple && args[1].items.length === 1 && args[1].items[0] === 0n
      && this.values.bytesOf(args[2])?.toString('latin1') === 'b';
    if (!isUsual) tensorFailure('a numpy array of other arguments');
    if (call.changes.length !== 1 || call.changes[0].kind !== 'BUILD') tensorFailure('a numpy array without one state');
    const state = call.changes[0].values;
    if (!(state instanceof Tuple)) tensorFailure('a numpy array with another state');
    checkLength(state.items, 5);
    const [version, shape, arrayType, isFortran, bytes] = state.items;
    if (version !== 1n || !isTrueOrFalse(isFortran)) tensorFailure('a numpy array with another state');
    return tagArray(this.bytes(bytes), readDtype(arrayType), shape, Boolean(isFortran));
  }

  fromBuffer(call, args) {
    this.values.checkUnchanged(call);
    checkLength(args, 4);
    const [bytes, type, shape, order] = args;
    if (order !== 'C' && order !== 'F') unsupported('the order of a numpy array');
    return tagArray(this.buffer(bytes), readDtype(type), shape, order === 'F');
  }
}

module.exports = { Numpy };
