'use strict';

// Keys of dicts and members of sets (FORMAT.md 6.6): the only values that are hashed, and only as text, whose hash is
// salted.

const { utf8Length } = require('./bytes.js');
const { tensorFailure, unsupported } = require('./errors.js');
const { Call, Node, Tuple } = require('./nodes.js');
const { Float, tagInteger } = require('./tags.js');

const MAX_TUPLE = 8;

function identityOfFloat({ number, hex }) {
  return Number.isInteger(number) ? `number ${BigInt(number).toString(16)}` : `float ${hex}`;
}

const isPlain = (value) => value === null || ['string', 'boolean', 'bigint'].includes(typeof value) || value instanceof Float
  || Buffer.isBuffer(value);

/** The tag of a plain value, and a text that is the same for all values that are the same key in Python. */
function plainKey(key) {
  if (typeof key === 'string') return { tag: key, identity: `text ${key}` };
  if (key === null) return { tag: key, identity: 'None' };
  if (typeof key === 'boolean') return { tag: key, identity: `number ${key ? 1 : 0}` };
  if (typeof key === 'bigint') return { tag: tagInteger(key), identity: `number ${key.toString(16)}` };
  if (key instanceof Float) return { tag: { float: key.hex }, identity: identityOfFloat(key) };
  return { tag: { bytes: key.toString('base64') }, identity: `bytes ${key.toString('latin1')}` };
}

function identifyKey(key) {
  if (!(key instanceof Tuple)) return plainKey(key);
  const parts = key.items.map(plainKey);
  return { tag: { tuple: parts.map((part) => part.tag) }, identity: `tuple ${parts.map((part) => `${part.identity.length}:${part.identity}`).join('')}` };
}

/** A key whose encoded bytes, or those of its items, are bytes. */
function decodeKey(key, bytesOf) {
  const decode = (value) => (value instanceof Call ? bytesOf(value) ?? value : value);
  if (!(key instanceof Tuple)) return decode(key);
  if (key.items.length > MAX_TUPLE) tensorFailure(`a key has ${key.items.length} items`);
  return new Tuple(key.items.map(decode));
}

/** A key that is a node is unsupported; any other that is not plain is an error. */
function checkKey(key) {
  for (const part of key instanceof Tuple ? key.items : [key]) {
    if (part instanceof Node) unsupported('a key is a node');
    if (!isPlain(part)) tensorFailure('a key is not a plain value');
    if (part instanceof Float && Number.isNaN(part.number)) tensorFailure('a key is NaN, which Python compares by identity');
  }
}

/**
 * The tags of all keys of one dict, or members of one set.
 *
 * @param {(value: any) => Buffer | null} bytesOf the bytes that a call encodes
 */
function tagKeys(given, bytesOf, budget) {
  const keys = given.map((key) => decodeKey(key, bytesOf));
  const isIndex = (key) => typeof key === 'bigint' && key >= 0n && key < BigInt(keys.length);
  const others = keys.filter((key) => typeof key !== 'string' && !isIndex(key));
  others.forEach(checkKey);
  budget.check('other_keys', others.length);
  for (const key of keys) if (typeof key === 'string') budget.check('tensor_name_bytes', utf8Length(key));
  const identified = keys.map(identifyKey);
  if (new Set(identified.map(({ identity }) => identity)).size !== keys.length) tensorFailure('a key occurs twice');
  return identified.map(({ tag }) => tag);
}

module.exports = { tagKeys };
