'use strict';

// Spaces, arrays and numbers in JSON (STATISTICS.md 17.6). A space is an object of its fields: sizes and integers are
// bigints, arrays are objects of type (of dtypes.js), shape and bytes (little-endian, the last axis fastest).

const { NUMPY_CODES, integerAt, readHalf } = require('../dtypes.js');
const { dataFailure, unsupported } = require('../errors.js');
const { countItems, isSame } = require('../geometry.js');
const { MAX_RANK } = require('../numpy.js');
const { tagFloat, tagInteger } = require('../tags.js');
const {
  integerOf, isIntegerTag, listOf, sortedDict,
} = require('./tagged.js');

const MAX_BYTES = 2n ** 63n;
const LARGEST_EXACT = 2n ** 53n;
const MAX_LEVELS = 20;
const LIBRARIES = ['gym', 'gymnasium'];
const WORDS = new Map([['Infinity', Infinity], ['-Infinity', -Infinity], ['NaN', NaN]]);

// Numbers

/** A number (17.6.1). */
function readNumber(tag) {
  if (WORDS.has(tag)) return WORDS.get(tag);
  if (tag?.float !== undefined) {
    const number = Buffer.from(tag.float, 'hex').readDoubleBE();
    return Number.isFinite(number) ? number : dataFailure('a number overflows, or is a token of Python');
  }
  if (!isIntegerTag(tag)) dataFailure('not a number');
  const integer = integerOf(tag);
  if (integer > LARGEST_EXACT || integer < -LARGEST_EXACT) dataFailure('an integer is not exact as a float');
  return Number(integer);
}

function writeNumber(number) {
  if (Number.isNaN(number)) return 'NaN';
  return Number.isFinite(number) ? tagFloat(number) : String(number);
}

// Items of arrays

const HALF = { bits: 5, digits: 10, least: -14, most: 15, infinity: 0x7c00, nan: 0x7e00, sign: 0x8000 };

function halfBits(number) {
  const size = Math.abs(number);
  if (Number.isNaN(number)) return HALF.nan;
  const sign = Object.is(number, size) ? 0 : HALF.sign;
  if (size === Infinity) return sign | HALF.infinity;
  const exponent = Math.max(HALF.least, Math.floor(Math.log2(size)));
  const digits = size * 2 ** (HALF.digits - exponent);
  const bits = (exponent - HALF.least) * 2 ** HALF.digits + digits;
  return Number.isInteger(digits) && exponent <= HALF.most ? sign | bits : null;
}

const inexact = () => dataFailure('an item is not exact in its dtype');

/** By dtype: write a number at the start of a buffer, read one at an offset. */
const FLOATS = new Map(Object.entries({
  float16: [(bytes, number) => bytes.writeUInt16LE(halfBits(number) ?? inexact()), (bytes, at) => readHalf(bytes.readUInt16LE(at), HALF.bits)],
  float32: [(bytes, number) => bytes.writeFloatLE(Object.is(Math.fround(number), number) ? number : inexact()), (bytes, at) => bytes.readFloatLE(at)],
  float64: [(bytes, number) => bytes.writeDoubleLE(number), (bytes, at) => bytes.readDoubleLE(at)],
}));

const isSigned = (type) => type.name.startsWith('int');

function integerBytes(tag, type) {
  const bits = 8 * type.size;
  const integer = isIntegerTag(tag) ? integerOf(tag) : dataFailure('an item is not an integer');
  const wrapped = isSigned(type) ? BigInt.asIntN(bits, integer) : BigInt.asUintN(bits, integer);
  if (wrapped !== integer) dataFailure('an item is not in the range of its dtype');
  return Buffer.from(BigInt.asUintN(bits, integer).toString(16).padStart(2 * type.size, '0'), 'hex').reverse();
}

function readItem(tag, type) {
  if (type.kind === 'bool') return Buffer.from([typeof tag === 'boolean' ? Number(tag) : dataFailure('an item is not a bool')]);
  if (type.kind === 'integer') return integerBytes(tag, type);
  const bytes = Buffer.alloc(type.size);
  FLOATS.get(type.name)[0](bytes, readNumber(tag));
  return bytes;
}

function writeItem(bytes, at, type) {
  if (type.kind === 'bool') return bytes[at] === 1;
  if (type.kind === 'integer') return tagInteger(integerAt(bytes, at, type));
  const number = writeNumber(FLOATS.get(type.name)[1](bytes, at));
  if (number === 'NaN' && !readItem(number, type).equals(bytes.subarray(at, at + type.size))) unsupported('a NaN with other bits');
  return number;
}

// Fields

const codeOf = (code, { size }) => `${size === 1 ? '|' : '<'}${code}`;
const isNumeric = ({ kind }) => kind !== 'complex';
const CODES = new Map([...NUMPY_CODES].filter(([code, type]) => code !== null && isNumeric(type)).map(([code, type]) => [codeOf(code, type), type]));
const CODE_OF = new Map([...CODES].map(([code, type]) => [type, code]));
const DTYPE = new RegExp(`^(?:[<>|](?:${[...NUMPY_CODES.keys()].filter((code) => code !== null).join('|')})|<U0)$`);

/** The fields of an object that has exactly these. */
function fieldsOf(tag, names) {
  const fields = new Map(tag?.dict ?? dataFailure('not an object'));
  if (fields.size !== names.length || !names.every((name) => fields.has(name))) dataFailure(`an object has other fields than ${names}`);
  return fields;
}

const isA = (type) => (tag) => (typeof tag === type ? tag : dataFailure(`not a ${type}`));
const readBool = isA('boolean');
const readText = isA('string');
const readList = (tag) => listOf(tag) ?? dataFailure('not an array');
const readInteger = (tag) => (isIntegerTag(tag) ? integerOf(tag) : dataFailure('not an integer'));

function readSizes(tag) {
  const sizes = readList(tag).map(readInteger);
  return sizes.every((size) => size >= 0n) ? sizes : dataFailure('a size is negative');
}

const bytesOf = (shape, type) => countItems(shape) * BigInt(type.size);

function readArray(tag, budget) {
  const fields = fieldsOf(tag, ['dtype', 'shape', 'items']);
  const type = CODES.get(fields.get('dtype')) ?? dataFailure('an unknown dtype of an array');
  const shape = readSizes(fields.get('shape'));
  const isTooLarge = shape.length > MAX_RANK || bytesOf(shape.map((size) => size || 1n), type) >= MAX_BYTES;
  if (isTooLarge) dataFailure('the shape of an array is too large');
  budget.charge('blobs_bytes', Number(bytesOf(shape, type)));
  const items = fields.get('items');
  const count = Number(countItems(shape));
  if (listOf(items) === null) {
    const item = readItem(items, type);
    return { type, shape, bytes: Buffer.alloc(count * type.size, item) };
  }
  if (items.list.length !== count) dataFailure('the number of items is not that of the shape');
  return { type, shape, bytes: Buffer.concat(items.list.map((item) => readItem(item, type))) };
}

function writeArray({ type, shape, bytes }, budget) {
  const code = CODE_OF.get(type) ?? unsupported('an array of complex numbers, or of something else');
  const count = bytes.length / type.size;
  const isSingle = count > 1 && bytes.subarray(type.size).equals(bytes.subarray(0, -type.size));
  if (!isSingle) budget.check('json_nodes', count);
  const items = Array.from({ length: isSingle ? 1 : count }, (_, index) => writeItem(bytes, index * type.size, type));
  return sortedDict([['dtype', code], ['shape', { list: shape.map(tagInteger) }], ['items', isSingle ? items[0] : { list: items }]]);
}

function readPairs(tag, budget) {
  const pairs = readList(tag).map((pair) => {
    const [name, space] = listOf(pair)?.length === 2 ? pair.list : dataFailure('not a pair of a name and a space');
    return [readText(name), readSpace(space, budget)];
  });
  return new Set(pairs.map(([name]) => name)).size === pairs.length ? pairs : dataFailure('a name occurs twice');
}

const same = (value) => value;
const optional = ([read, write]) => [(tag, budget) => (tag === null ? null : read(tag, budget)), (value, writer) => (value === null ? null : write(value, writer))];

/** How to read a field, and how to write it. */
const ARRAY = [readArray, (value, writer) => writeArray(value, writer.budget)];
const SPACE = [readSpace, (value, writer) => writer.space(value)];
const SIZES = [readSizes, (value) => ({ list: value.map((size) => (size < 0n ? unsupported('a size is negative') : tagInteger(size))) })];
const INTEGER = [readInteger, tagInteger];
const BOOL = [readBool, same];
const TEXT = [readText, same];
const CODE = [(tag) => (DTYPE.test(readText(tag)) ? tag : dataFailure('an unknown dtype of a space')), same];
const LIST = [(tag, budget) => readList(tag).map((part) => readSpace(part, budget)), (value, writer) => ({ list: value.map((part) => writer.space(part)) })];
const PAIRS = [readPairs, (value, writer) => ({ list: value.map(([name, part]) => ({ list: [name, writer.space(part)] })) })];

/** The fields of each type, and the arrays that have the shape of another field. */
const TYPES = new Map(Object.entries({
  Box: { shape: SIZES, dtype: CODE, low: ARRAY, high: ARRAY, bounded_below: optional(ARRAY), bounded_above: optional(ARRAY) },
  Discrete: { n: INTEGER, start: INTEGER, dtype: CODE },
  MultiDiscrete: { nvec: ARRAY, start: optional(ARRAY), dtype: CODE },
  MultiBinary: { shape: SIZES, dtype: CODE },
  Dict: { spaces: PAIRS, sort_keys: BOOL },
  Tuple: { spaces: LIST },
  OneOf: { spaces: LIST },
  Text: { min_length: INTEGER, max_length: INTEGER, characters: TEXT },
  Sequence: { feature_space: SPACE, stack: BOOL },
  Graph: { node_space: SPACE, edge_space: optional(SPACE) },
}));
const ALIKE = new Map([['Box', ({ shape, low, high, bounded_below: below, bounded_above: above }) => [{ shape }, low, high, below, above]],
  ['MultiDiscrete', ({ nvec, start }) => [nvec, start]]]);

function readSpace(tag, budget) {
  const type = new Map(tag?.dict ?? []).get('type');
  const fields = TYPES.get(type) ?? dataFailure('an unknown type of space');
  const given = fieldsOf(tag, ['type', 'library', ...Object.keys(fields)]);
  if (!LIBRARIES.includes(given.get('library'))) dataFailure('an unknown library of a space');
  const space = { type, library: given.get('library') };
  for (const [name, [read]] of Object.entries(fields)) space[name] = read(given.get(name), budget);
  const [first, ...others] = ALIKE.get(type)?.(space) ?? [];
  if (!others.every((array) => array === null || isSame(array.shape, first.shape))) dataFailure('an array has another shape than its space');
  return space;
}

/** The spaces directly within one. */
function partsOf({ type, spaces, feature_space: feature, node_space: nodes, edge_space: edges }) {
  const found = type === 'Dict' ? spaces.map(([, part]) => part) : spaces;
  return found ?? [feature, nodes, edges].filter((part) => part !== undefined && part !== null);
}

/** Writes spaces in the canonical form. One that occurs several times has the same tag in each place. */
class SpaceWriter {
  constructor(budget) {
    this.budget = budget;
    this.done = new Map();
    this.levels = new Map();
  }

  levelsOf(space) {
    if (!this.levels.has(space)) this.levels.set(space, 1 + partsOf(space).reduce((most, part) => Math.max(most, this.levelsOf(part)), 0));
    return this.levels.get(space);
  }

  /** Write a space, or null. */
  write(space) {
    if (space === null) return null;
    if (this.levelsOf(space) > MAX_LEVELS) unsupported(`a space has more than ${MAX_LEVELS} levels`);
    return this.space(space);
  }

  space(space) {
    if (!this.done.has(space)) {
      const fields = Object.entries(TYPES.get(space.type)).map(([name, [, write]]) => [name, write(space[name], this)]);
      this.done.set(space, sortedDict([['type', space.type], ['library', space.library], ...fields]));
    }
    return this.done.get(space);
  }
}

module.exports = {
  LARGEST_EXACT, SpaceWriter, fieldsOf, readBool, readInteger, readNumber, readSpace, writeNumber,
};
