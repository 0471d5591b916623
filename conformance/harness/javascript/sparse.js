'use strict';

// The parts of sparse tensors, which have to fit each other and the size (FORMAT.md 6.5).

const { tensorFailure, unsupported } = require('./errors.js');
const { countItems, tensorItems } = require('./geometry.js');

const isByColumn = (layout) => layout === 'sparse_csc' || layout === 'sparse_bsc';
const isInBlocks = (layout) => layout === 'sparse_bsr' || layout === 'sparse_bsc';

const areEqual = (one, other) => one.length === other.length && one.every((size, at) => size === other[at]);

const blockShape = ({ layout, values }) => (isInBlocks(layout) ? values.shape.slice(1, 3) : [1n, 1n]);

/** The rows and columns, or blocks of them, the compressed dimension first. */
function counts({ layout, size, values }) {
  const grid = blockShape({ layout, values }).map((block, at) => size[at] / block);
  return isByColumn(layout) ? grid.reverse() : grid;
}

function fitsCoo({ size, indices: [{ shape }], values }) {
  const sparse = Number(shape[0]);
  return shape.length === 2 && sparse <= size.length && areEqual(values.shape, [shape[1], ...size.slice(sparse)]);
}

function fitsCompressed(tensor) {
  const { layout, size, indices: [compressed, plain], values } = tensor;
  if (compressed.shape.length > 1 && compressed.shape.length === plain.shape.length) unsupported('a batch of sparse tensors');
  const blocks = blockShape(tensor);
  if (size.length < 2 || blocks.length !== 2) return false;
  if (blocks.some((block, at) => block === 0n || size[at] % block !== 0n)) return false;
  return areEqual(compressed.shape, [counts(tensor)[0] + 1n]) && areEqual(plain.shape, values.shape.slice(0, 1))
    && areEqual(values.shape.slice(1), [...(isInBlocks(layout) ? blocks : []), ...size.slice(2)]);
}

/** Check shapes and dtypes; no index is read. */
function checkShapes(tensor) {
  const { layout, size, indices } = tensor;
  if (size.reduce((product, count) => product * count, 1n) >= 2n ** 63n) tensorFailure('a sparse tensor is too large');
  const dtypes = new Set(indices.map((part) => part.dtype.name));
  const isAllowed = dtypes.has('int64') || (dtypes.has('int32') && layout !== 'sparse_coo');
  if (dtypes.size !== 1 || !isAllowed) tensorFailure('indices have a dtype that torch never writes');
  for (const { dtype, shape, storage } of indices) {
    if (countItems(shape) * BigInt(dtype.size) > storage.size) tensorFailure('indices share their memory');
  }
  const fits = layout === 'sparse_coo' ? fitsCoo(tensor) : fitsCompressed(tensor);
  if (!fits) tensorFailure('the parts of a sparse tensor do not fit its size');
}

function readIndices(part) {
  const items = tensorItems(part);
  const read = part.dtype.size === 4 ? (at) => BigInt(items.readInt32LE(at)) : (at) => items.readBigInt64LE(at);
  return Array.from({ length: items.length / part.dtype.size }, (_, index) => read(index * part.dtype.size));
}

const isWithin = (numbers, count) => numbers.every((number) => number >= 0n && number < count);

/** Check each index, once the bytes may be read. */
function checkIndices(tensor) {
  const [first, plain] = tensor.indices.map(readIndices);
  let fits;
  if (tensor.layout === 'sparse_coo') {
    const entries = Number(tensor.indices[0].shape[1]);
    fits = first.every((number, at) => isWithin([number], tensor.size[Math.floor(at / entries)]));
  } else {
    const isOrdered = first.every((number, at) => at === 0 || number >= first[at - 1]);
    fits = isOrdered && first[0] === 0n && first.at(-1) === BigInt(plain.length) && isWithin(plain, counts(tensor)[1]);
  }
  if (!fits) tensorFailure('an index of a sparse tensor is outside its size, or out of order');
}

module.exports = { checkIndices, checkShapes };
