'use strict';

// Spaces in a pickle (VALUES.md 13.4), as the fields of STATISTICS.md 17.6. null: not known, or in doubt.

const { dtype, integerAt, integersIn } = require('../dtypes.js');
const { attempt } = require('../errors.js');
const { isSame } = require('../geometry.js');
const { TEXTS, readDtype } = require('../numpy.js');
const {
  fullName, membersOf, pairsOf, readObject,
} = require('../objects.js');
const { Dict, List, Tuple } = require('../nodes.js');
const { rowsOf } = require('../tables.js');
const { ITEMS } = require('../tags.js');
const { compareTexts } = require('../texts.js');
const { Generators } = require('./generators.js');
const { integerOf } = require('./tagged.js');

const CLASSES = new Map(rowsOf('roles').filter((row) => row.kind === 'object' && /^gym(nasium)?\.spaces\./.test(row.module))
  .map((row) => [`${row.module} ${row.name}`, { library: row.module.split('.')[0], type: row.role }]));
const LARGEST = 2n ** 64n;
const MISSING = Symbol('missing');
const OTHER = { name: 'other', kind: 'other', size: 1 };

/** dtypes by the names that gym's oldest releases use. */
const NAMES = new Map([['bool_', '|b1'], ['bool', '|b1'], ['int', '<i8'], ['float', '<f8'], ['str', '<U0'], ['int8', '|i1'], ['uint8', '|u1'],
  ...['int', 'uint', 'float'].flatMap((kind) => [2, 4, 8].map((size) => [`${kind}${8 * size}`, `<${kind[0]}${size}`]))]);

/** A value that makes its space be in doubt. */
class Doubt extends Error {}

function doubt(message) {
  throw new Doubt(message);
}

const check = (condition, message) => condition || doubt(message);

/** The attributes of a space, each of which is taken once. */
class Attributes {
  constructor(pairs, reader, library) {
    check(pairs.every(([name]) => typeof name === 'string'), 'names of attributes');
    this.values = new Map(pairs);
    this.reader = reader;
    this.isGym = library === 'gym';
  }

  /** The value under the one of several names that is present. */
  take(...names) {
    const present = names.filter((name) => this.values.has(name));
    check(present.length <= 1, 'an attribute under two names');
    const value = present.length === 0 ? MISSING : this.values.get(present[0]);
    this.values.delete(present[0]);
    return value;
  }

  takeOr(absent, read, ...names) {
    const value = this.take(...names);
    return value === MISSING ? absent : read(value);
  }

  required(...names) {
    const value = this.take(...names);
    return value === MISSING ? doubt(`${names} is missing`) : value;
  }

  /** An array, or a numpy scalar. One of anything but numbers has a type that has no code. */
  array(value) {
    const { array, scalar } = this.reader.arrays.tagOf(value) ?? {};
    const { dtype: name, shape = [], [ITEMS]: items } = array ?? scalar ?? this.otherArray(value);
    return { type: dtype(name) ?? OTHER, shape: shape.map(integerOf), bytes: items() };
  }

  otherArray(value) {
    const shape = this.reader.arrays.textShape(value) ?? doubt('not an array');
    return { dtype: OTHER.name, shape, [ITEMS]: () => Buffer.alloc(0) };
  }

  arrayOf(kind, value) {
    const array = this.array(value);
    return array.type.kind === kind ? array : doubt(`an array that is not ${kind}`);
  }

  /** An integer of Python or numpy. */
  integer(value) {
    const number = typeof value === 'bigint' ? value : this.numpyInteger(value);
    return number > -LARGEST && number < LARGEST ? number : doubt('an integer has more than 64 bits');
  }

  /** An integer, or the items of an array of them in one dimension. */
  numbers(value) {
    if (this.reader.arrays.arrayOf(value)?.shape.length !== 1) return [this.integer(value)];
    const { type, bytes } = this.arrayOf('integer', value);
    return integersIn(bytes, type);
  }

  numpyInteger(value) {
    const { type, shape, bytes } = this.arrayOf('integer', value);
    return shape.length === 0 ? integerAt(bytes, 0, type) : doubt('an array in the place of an integer');
  }

  items(value) {
    return value instanceof Tuple || (this.isGym && value instanceof List) ? value.items : doubt('not a tuple');
  }

  sizes(value) {
    return this.items(value).map((size) => this.integer(size));
  }

  /** Check the shape and the dtype against those that the other attributes imply. Returns the dtype. */
  common({ shape = null, kinds = [], absent = null, isText = false }) {
    const given = this.takeOr(null, (value) => (value === null ? null : this.sizes(value)), 'shape', '_shape');
    check(given === null ? shape === null || this.isGym : shape !== null && isSame(given, shape), 'another shape');
    const code = this.takeOr(null, (value) => (value === null ? null : this.dtype(value)), 'dtype');
    if (isText) check(code === null || kindOf(code) === 'text', 'the dtype of a text');
    else if (kinds.length === 0) check(code === null, 'a dtype of spaces');
    else check(code === null ? this.isGym : kinds.includes(kindOf(code)), 'another dtype');
    check(this.takeOr(true, (value) => this.reader.generators.isKnown(value), 'np_random', '_np_random'), 'a random generator');
    check(this.values.size === 0, 'an unknown attribute');
    return code ?? absent;
  }

  /** A dtype as numpy's code with its byte order. */
  dtype(value) {
    const name = typeof value === 'string' ? value : /^(?:numpy|builtins) (.*)$/.exec(fullName(value))?.[1];
    if (name !== undefined) return this.isGym && NAMES.has(name) ? NAMES.get(name) : doubt('an unknown name of a dtype');
    if (attempt(() => readDtype(value)) === null && attempt(() => readDtype(value, TEXTS))?.type.name[0] !== 'U') doubt('not a dtype');
    const [code] = value.args.items;
    const order = value.changes[0]?.values.items[1];
    if (/[a-z]1$/.test(code)) return `|${code}`;
    return `${order === '>' ? '>' : '<'}${code}`;
  }

  space(value) {
    return this.reader.recognize(value);
  }

  optionalSpace(value) {
    return value === null ? null : this.space(value);
  }
}

const kindOf = (code) => ({ b: 'bool', i: 'integer', u: 'integer', f: 'float', c: 'complex', U: 'text' }[code[1]]);
const codeOf = ({ type }) => `${type.size === 1 ? '|' : '<'}${type.name[0]}${type.size}`;
const isOptionalText = (value) => value === null || typeof value === 'string';

function readBox(attributes) {
  const [low, high] = ['low', 'high'].map((name) => attributes.array(attributes.required(name)));
  const [below, above] = ['bounded_below', 'bounded_above'].map((name) => attributes.takeOr(null, (value) => attributes.arrayOf('bool', value), name));
  check([high, below, above].every((array) => array === null || isSame(array.shape, low.shape)), 'arrays of two shapes');
  check(['low_repr', 'high_repr'].every((name) => attributes.takeOr(true, isOptionalText, name)), 'not a text');
  const code = attributes.common({ shape: low.shape, kinds: ['bool', 'integer', 'float', 'complex'], absent: codeOf(low) });
  return { shape: low.shape, dtype: code, low, high, bounded_below: below, bounded_above: above };
}

function readMultiDiscrete(attributes) {
  const nvec = attributes.arrayOf('integer', attributes.required('nvec'));
  const start = attributes.takeOr(null, (value) => attributes.arrayOf('integer', value), 'start');
  check(start === null || isSame(start.shape, nvec.shape), 'arrays of two shapes');
  return { nvec, start, dtype: attributes.common({ shape: nvec.shape, kinds: ['integer'], absent: codeOf(nvec) }) };
}

function readMultiBinary(attributes) {
  const given = attributes.required('n');
  const shape = given instanceof Tuple || given instanceof List ? given.items.map((size) => attributes.integer(size)) : attributes.numbers(given);
  return { shape, dtype: attributes.common({ shape, kinds: ['integer'], absent: '|i1' }) };
}

function readDict(attributes) {
  const pairs = pairsOf(attributes.required('spaces')) ?? doubt('not a dict');
  check(pairs.every(([name]) => typeof name === 'string'), 'a name of a space');
  const spaces = [...new Map(pairs)].map(([name, value]) => [name, attributes.space(value)]);
  return { spaces, sort_keys: attributes.takeOr(true, readFlag, 'sort_keys') };
}

const readFlag = (value) => (typeof value === 'boolean' ? value : doubt('not a bool'));
const readTuple = (attributes) => ({ spaces: attributes.items(attributes.required('spaces')).map((value) => attributes.space(value)) });

/** The parts of a Text that only repeat its list of characters. */
function checkCharacters(attributes, characters) {
  const isSameSet = (items) => items.length === characters.length && new Set(items).size === items.length && items.every((item) => characters.includes(item));
  const isSet = (value) => isSameSet([...new Set(membersOf(value) ?? [])]);
  const isIndex = (value) => (value instanceof Dict && isSameSet(value.pairs.map(([key]) => key))
    && value.pairs.every(([key, at]) => at === BigInt(characters.indexOf(key))));
  const isSorted = (value) => value === [...characters].sort(compareTexts).join('');
  const parts = [[isSet, 'charset', '_char_set'], [isIndex, '_char_index'], [isSorted, '_charset_str', '_char_str']];
  check(parts.every(([isPart, ...names]) => attributes.takeOr(true, (value) => value === null || isPart(value), ...names)), 'other characters');
}

function readText(attributes) {
  const [least, most] = ['min_length', 'max_length'].map((name) => attributes.integer(attributes.required(name)));
  const list = attributes.required('_charlist', '_char_list');
  const characters = list instanceof List || list instanceof Tuple ? list.items : doubt('not a list');
  check(characters.every((one) => typeof one === 'string' && [...one].length === 1) && new Set(characters).size === characters.length, 'not characters');
  checkCharacters(attributes, characters);
  return { min_length: least, max_length: most, characters: characters.join('') };
}

function readSequence(attributes) {
  const space = attributes.space(attributes.required('feature_space'));
  const stack = attributes.isGym ? attributes.takeOr(false, readFlag, 'stack') : readFlag(attributes.required('stack'));
  attributes.takeOr(null, (value) => attributes.space(value), 'stacked_feature_space');
  return { feature_space: space, stack };
}

function readGraph(attributes) {
  const nodes = attributes.space(attributes.required('node_space'));
  const edges = attributes.optionalSpace(attributes.required('edge_space'));
  for (const name of ['batch_node_space', 'batch_edge_space']) attributes.takeOr(null, (value) => attributes.optionalSpace(value), name);
  return { node_space: nodes, edge_space: edges };
}

/** By type: the fields of a space, and what they imply of spaces that are not arrays of numbers. */
const READERS = new Map(Object.entries({
  Box: readBox,
  Discrete: (attributes) => ({
    n: attributes.integer(attributes.required('n')),
    start: attributes.takeOr(0n, (value) => attributes.integer(value), 'start'),
    dtype: attributes.common({ shape: [], kinds: ['integer'], absent: '<i8' }),
  }),
  MultiDiscrete: readMultiDiscrete,
  MultiBinary: readMultiBinary,
  Dict: readDict,
  Tuple: readTuple,
  OneOf: readTuple,
  Text: readText,
  Sequence: readSequence,
  Graph: readGraph,
}));
const OF_NUMBERS = ['Box', 'Discrete', 'MultiDiscrete', 'MultiBinary'];

/** Reads the spaces of one pickle. */
class SpaceReader {
  constructor(arrays) {
    this.arrays = arrays;
    this.generators = new Generators(arrays);
    this.done = new Map(); // by identity
  }

  /** The space that a value is, or null. */
  read(value) {
    try {
      return this.recognize(value);
    } catch (error) {
      if (error instanceof Doubt) return null;
      throw error;
    }
  }

  recognize(value) {
    if (!this.done.has(value)) this.done.set(value, this.fields(value));
    return this.done.get(value);
  }

  fields(value) {
    const object = readObject(value) ?? doubt('not an object');
    const { library, type } = CLASSES.get(object.fullName) ?? doubt('not a space');
    check(!value.changes[0].values.shared, 'attributes that are referred to elsewhere');
    const attributes = new Attributes(object.pairs, this, library);
    const fields = READERS.get(type)(attributes);
    if (!OF_NUMBERS.includes(type)) attributes.common({ isText: type === 'Text' });
    return { type, library, ...fields };
  }
}

module.exports = { SpaceReader };
