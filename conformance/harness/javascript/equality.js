'use strict';

// Equality (FORMAT.md 9). An entry that can be decoded becomes a text, and two entries are equal if their texts are.

const { decodeData } = require('./data.js');
const { attempt } = require('./errors.js');
const {
  ByteArray, Call, Dict, Extension, FrozenSet, Global, List, MutableSet, Persistent, Tuple,
} = require('./nodes.js');
const { decodeStateDict, isStateDict } = require('./pth.js');
const {
  Float, ITEMS, STATE, sha256,
} = require('./tags.js');

const MINUS_ZERO = '8000000000000000';
const ZERO = '0000000000000000';

// -- attributes: digests of inert trees

const called = (module, name, ...args) => new Call('REDUCE', new Global(module, name), new Tuple(args));

/** A value as the call as which protocol 2 encodes it (WRITER.md 12.3); others unchanged. */
function asCall(value) {
  if (value instanceof MutableSet) return called('builtins', 'set', new List(value.items));
  if (value instanceof FrozenSet) return called('builtins', 'frozenset', new List(value.items));
  const bytes = value instanceof ByteArray ? value.bytes : value;
  if (!Buffer.isBuffer(bytes)) return value;
  const text = bytes.toString('latin1');
  if (bytes === value) return text === '' ? called('builtins', 'bytes') : called('_codecs', 'encode', text, 'latin1');
  return text === '' ? called('builtins', 'bytearray') : called('builtins', 'bytearray', text, 'latin-1');
}

/** What a value is, without its parts, and its parts. */
function describe(value, storages) {
  if (value instanceof List || value instanceof Tuple) return { facts: [value.constructor.name], parts: value.items };
  if (value instanceof Dict) return { facts: ['Dict'], parts: value.pairs.flat() };
  if (value instanceof Persistent) {
    const { dtype, size, ...storage } = storages.of(value).described();
    return { facts: ['Persistent', dtype, size, sha256(storage[ITEMS]())], parts: [] };
  }
  const node = asCall(value);
  const facts = [node.constructor.name];
  const parts = node instanceof Call ? [node.callable ?? null, node.keywords ?? null].concat(node.args) : [];
  if (node instanceof Call) facts.push(node.opcode);
  if (node instanceof Global) facts.push(node.module, node.name);
  if (node instanceof Extension) facts.push(String(node.code));
  for (const { kind, values } of node.changes) {
    const changed = kind === 'SETITEMS' ? values.flat() : [].concat(values);
    facts.push(kind, changed.length);
    for (const part of changed) parts.push(part);
  }
  return { facts, parts };
}

const isLeaf = (value) => value === null || typeof value !== 'object' || value instanceof Float;

/** The digest of an inert tree. It contains no cycle (5.3), and each part is visited once. */
function digestTree(root, storages) {
  const described = new Map(); // by identity
  const digests = new Map();
  const todo = [root];
  const nameOf = (value) => {
    if (isLeaf(value)) return value instanceof Float ? ['float', value.hex] : [typeof value, String(value)];
    return digests.get(value);
  };
  while (todo.length > 0) {
    const value = todo.at(-1);
    if (!described.has(value)) {
      described.set(value, describe(value, storages));
      for (const part of described.get(value).parts) if (!isLeaf(part) && !digests.has(part)) todo.push(part);
    } else {
      const { facts, parts } = described.get(value);
      digests.set(value, sha256(JSON.stringify([facts, parts.map(nameOf)])));
      todo.pop();
    }
  }
  return digests.get(root);
}

// -- entries

/** Replaces, in the tags of `data`, what is not compared. */
function replaceInData(key, value) {
  if (key === 'canonical') return undefined;
  return key === 'float' && value === MINUS_ZERO ? ZERO : value;
}

/** Replaces, in the tags of a state dict, what is not compared as it is printed. */
function replaceInStateDict(key, value) {
  if (key === 'set' || key === 'frozenset') return value.map((item) => JSON.stringify(item)).sort();
  if (key === 'storage') return { ...value, sha256: sha256(value[ITEMS]()) };
  return value?.[STATE] === undefined ? value : { ...value, state: digestTree(...value[STATE]) };
}

/** A text of an entry, or null if it is compared by its bytes. */
function describeEntry(name, bytes, budget, options) {
  return attempt(() => {
    if (name === 'data') return JSON.stringify(decodeData(bytes, budget), replaceInData);
    return isStateDict(name) ? JSON.stringify(decodeStateDict(bytes, budget, options), replaceInStateDict) : null;
  });
}

/** Whether two archives, [entries, budget], are equal. */
function areEqual(one, other, options) {
  if (one[0].size !== other[0].size || ![...one[0].keys()].every((name) => other[0].has(name))) return false;
  return [...one[0].keys()].every((name) => {
    const bytes = [one, other].map(([entries]) => entries.get(name)());
    const texts = [one, other].map(([, budget], at) => describeEntry(name, bytes[at], budget, options));
    return texts.includes(null) ? bytes[0].equals(bytes[1]) : texts[0] === texts[1];
  });
}

module.exports = { areEqual };
