'use strict';

// Dtypes and storage classes (FORMAT.md 6.3, 6.4).

const row = (name, size, group, kind) => [name, { name, size, group, kind }];

// `kind` determines whether `requires_grad`, `conj` and `neg` are allowed. `group`: bytes that a big-endian file swaps.
const DTYPES = new Map([
  row('bool', 1, 1, 'bool'),
  row('uint8', 1, 1, 'integer'), row('int8', 1, 1, 'integer'),
  row('uint16', 2, 2, 'integer'), row('int16', 2, 2, 'integer'),
  row('uint32', 4, 4, 'integer'), row('int32', 4, 4, 'integer'),
  row('uint64', 8, 8, 'integer'), row('int64', 8, 8, 'integer'),
  row('float16', 2, 2, 'float'), row('bfloat16', 2, 2, 'float'),
  row('float32', 4, 4, 'float'), row('float64', 8, 8, 'float'),
  row('float8_e4m3fn', 1, 1, 'float'), row('float8_e5m2', 1, 1, 'float'),
  row('float8_e4m3fnuz', 1, 1, 'float'), row('float8_e5m2fnuz', 1, 1, 'float'), row('float8_e8m0fnu', 1, 1, 'float'),
  row('complex32', 4, 2, 'complex'), row('complex64', 8, 4, 'complex'), row('complex128', 16, 8, 'complex'),
  row('qint8', 1, 1, 'quantized'), row('quint8', 1, 1, 'quantized'), row('qint32', 4, 4, 'quantized'),
]);

const dtype = (name) => DTYPES.get(name);

const STORAGE_DTYPES = new Map(Object.entries({
  Double: 'float64', Float: 'float32', Half: 'float16', BFloat16: 'bfloat16', Long: 'int64', Int: 'int32',
  Short: 'int16', Char: 'int8', Byte: 'uint8', Bool: 'bool', ComplexDouble: 'complex128',
  ComplexFloat: 'complex64', ComplexHalf: 'complex32', QInt8: 'qint8', QUInt8: 'quint8', QInt32: 'qint32',
}).map(([prefix, name]) => [`${prefix}Storage`, dtype(name)]));

const PACKED_STORAGES = new Set(['QUInt4x2Storage', 'QUInt2x4Storage']);

const isDifferentiable = (type) => type.kind === 'float' || type.kind === 'complex';

/** Reverse each group of `size` bytes. An incomplete group at the end is unchanged. */
function swapped(bytes, size) {
  const out = Buffer.from(bytes);
  const whole = out.length - (out.length % size);
  for (let at = 0; at < whole; at += size) out.subarray(at, at + size).reverse();
  return out;
}

module.exports = { DTYPES, PACKED_STORAGES, STORAGE_DTYPES, dtype, isDifferentiable, swapped };
