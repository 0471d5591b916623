'use strict';

// Dtypes and storage classes (FORMAT.md 6.3, 6.4).

const { rowsOf } = require('./tables.js');

// `kind` determines whether `requires_grad`, `conj` and `neg` are allowed. `group`: bytes that a big-endian file swaps.
const DTYPES = new Map(rowsOf('dtypes').map((row) => [
  row.name, { name: row.name, size: row.bytes, group: row.swapped_by, kind: row.kind },
]));

const dtype = (name) => DTYPES.get(name);

/** numpy's codes, which are text, and the dtypes that they name. */
const NUMPY_CODES = new Map(rowsOf('dtypes').map((row) => [row.numpy, dtype(row.name)]));

/** "module name" -> dtype; null for an untyped storage, undefined for a packed one. */
const STORAGES = new Map(rowsOf('storages').flatMap((row) => row.modules.map((module) => [
  `${module} ${row.name}`, row.is_supported ? dtype(row.dtype) ?? null : undefined,
])));

const isDifferentiable = (type) => type.kind === 'float' || type.kind === 'complex';

/** Reverse each group of `size` bytes. An incomplete group at the end belongs to no item. */
function swapped(bytes, size) {
  const out = Buffer.from(bytes);
  for (let at = 0; at < out.length; at += size) out.subarray(at, at + size).reverse();
  return out;
}

module.exports = { DTYPES, NUMPY_CODES, STORAGES, dtype, isDifferentiable, swapped };
