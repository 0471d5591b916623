'use strict';

// The items of strided tensors (FORMAT.md 6.4).

const { tensorFailure } = require('./errors.js');
const { Tuple } = require('./nodes.js');
const { isCount } = require('./storages.js');

const MAX_ITEMS = 2n ** 59n;

/** Whether two lists, such as shapes, have the same items. */
const isSame = (one, other) => one.length === other.length && one.every((item, index) => item === other[index]);

const countItems = (shape) => shape.reduce((product, size) => product * size, 1n);

/** Shape and strides as arrays of bigints. */
function readGeometry(shape, strides, budget, offset = 0n) {
  if (!(shape instanceof Tuple) || !(strides instanceof Tuple)) tensorFailure('shape or strides are not a tuple');
  if (shape.items.length !== strides.items.length) tensorFailure('shape and strides have different lengths');
  if (!isCount(offset)) tensorFailure('the offset is not an integer in [0, 2^63)');
  budget.check('tensor_rank', shape.items.length);
  if (![...shape.items, ...strides.items].every(isCount)) tensorFailure('a size or stride is not an integer in [0, 2^63)');
  if (countItems(shape.items.map((size) => size || 1n)) >= MAX_ITEMS) tensorFailure('the shape exceeds 63 bits');
  return { shape: shape.items, strides: strides.items };
}

/** Check that every item is within the storage. */
function checkBounds(offset, { shape, strides }, storageItems) {
  if (shape.includes(0n)) return;
  const last = shape.reduce((sum, size, index) => sum + (size - 1n) * strides[index], offset);
  if (last >= BigInt(storageItems)) tensorFailure('a tensor extends past its storage');
}

/** Dimensions of more than one item, as numbers. Adjacent dimensions that are contiguous are merged. */
function usedDimensions(shape, strides) {
  const used = [];
  for (let i = 0; i < shape.length; i += 1) {
    const [size, stride] = [Number(shape[i]), Number(strides[i])];
    const last = used[used.length - 1];
    if (size === 1) continue;
    if (last !== undefined && last.stride === size * stride) {
      last.size *= size;
      last.stride = stride;
    } else used.push({ size, stride });
  }
  return used;
}

/** Copy `size` items that are `stride` bytes apart. */
function copyRun(out, to, bytes, from, size, stride, itemsize) {
  for (let i = 0; i < size; i += 1) {
    for (let b = 0; b < itemsize; b += 1) out[to + i * itemsize + b] = bytes[from + i * stride + b];
  }
}

/** The items in C order; a view if they are already in C order. */
function gather(bytes, itemsize, offset, shape, strides) {
  const used = usedDimensions(shape, strides);
  const start = Number(offset) * itemsize;
  const items = Number(countItems(shape));
  if (used.length === 0 || (used.length === 1 && used[0].stride === 1)) {
    return bytes.subarray(start, start + items * itemsize);
  }
  const out = Buffer.alloc(items * itemsize);
  const inner = used.pop();
  const index = used.map(() => 0);
  let from = start;
  for (let to = 0; to < out.length; to += inner.size * itemsize) {
    copyRun(out, to, bytes, from, inner.size, inner.stride * itemsize, itemsize);
    for (let i = used.length - 1; i >= 0; i -= 1) {
      index[i] += 1;
      from += used[i].stride * itemsize;
      if (index[i] < used[i].size) break;
      from -= used[i].size * used[i].stride * itemsize;
      index[i] = 0;
    }
  }
  return out;
}

/** Invert the sign bit of each number of `size` bytes, from byte `first` on, every `step` bytes. */
function flipSigns(bytes, size, first, step) {
  for (let at = first + size - 1; at < bytes.length; at += step) bytes[at] ^= 0x80;
}

function negateIntegers(bytes, size) {
  for (let at = 0; at < bytes.length; at += size) {
    let carry = 1;
    for (let b = at; b < at + size; b += 1) {
      const sum = (~bytes[b] & 0xff) + carry;
      bytes[b] = sum & 0xff;
      carry = sum >> 8;
    }
  }
}

function negate(bytes, dtype) {
  if (dtype.kind === 'integer') negateIntegers(bytes, dtype.size);
  else flipSigns(bytes, dtype.group, 0, dtype.group);
}

/** The items of a tensor: C order, little-endian, after conj and neg. */
function tensorItems({ storage, dtype, offset, shape, strides, conj, neg }) {
  let items = gather(storage.littleEndian(dtype), dtype.size, offset, shape, strides);
  if (conj || neg) items = Buffer.from(items);
  if (conj) flipSigns(items, dtype.group, dtype.group, dtype.size);
  if (neg) negate(items, dtype);
  if (dtype.kind === 'bool' && items.some((byte) => byte > 1)) tensorFailure('a bool is neither 0 nor 1');
  return items;
}

module.exports = {
  checkBounds, countItems, isSame, readGeometry, tensorItems,
};
