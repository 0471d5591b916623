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

/** The integer at an offset, little-endian. */
function integerAt(bytes, at, { name, size }) {
  const integer = BigInt(`0x${Buffer.from(bytes.subarray(at, at + size)).reverse().toString('hex')}`);
  return name.startsWith('int') ? BigInt.asIntN(8 * size, integer) : integer;
}

/** All integers of some bytes. */
const integersIn = (bytes, type) => Array.from({ length: bytes.length / type.size }, (_, index) => integerAt(bytes, index * type.size, type));

/** The number that 16 bits are: a sign, an exponent of `bits` bits, and a fraction. */
function readHalf(word, bits) {
  const fraction = 2 ** (15 - bits);
  const [exponent, rest] = [(word >> (15 - bits)) % 2 ** bits, word % fraction];
  const [sign, bias] = [word < 2 ** 15 ? 1 : -1, 2 ** (bits - 1) - 1];
  if (exponent === 2 ** bits - 1) return rest === 0 ? sign * Infinity : NaN;
  return sign * (exponent === 0 ? 2 ** (1 - bias) * (rest / fraction) : 2 ** (exponent - bias) * (1 + rest / fraction));
}

module.exports = {
  DTYPES, NUMPY_CODES, STORAGES, dtype, integerAt, integersIn, isDifferentiable, readHalf, swapped,
};
