'use strict';

// Keys of dicts and members of sets (FORMAT.md 6.6): the only values that are hashed, and only as text, whose hash is
// salted.

const { utf8Length } = require('./bytes.js');
const { tensorFailure, unsupported } = require('./errors.js');
const { Node, Tuple } = require('./nodes.js');
const { Float, tagInteger } = require('./tags.js');

const MAX_TUPLE = 8;

function identityOfFloat({ number, hex }) {
  if (Number.isNaN(number)) tensorFailure('a key is NaN, which Python compares by identity');
  return Number.isInteger(number) ? `number ${BigInt(number).toString(16)}` : `float ${hex}`;
}

/** The tag of a plain value, and a text that is the same for all values that are the same key in Python; or null. */
function plainKey(key, bytesOf) {
  if (typeof key === 'string') return { tag: key, identity: `text ${key}` };
  if (key === null) return { tag: key, identity: 'None' };
  if (typeof key === 'boolean') return { tag: key, identity: `number ${key ? 1 : 0}` };
  if (typeof key === 'bigint') return { tag: tagInteger(key), identity: `number ${key.toString(16)}` };
  if (key instanceof Float) return { tag: { float: key.hex }, identity: identityOfFloat(key) };
  const bytes = bytesOf(key);
  if (bytes === null) return null;
  return { tag: { bytes: bytes.toString('base64') }, identity: `bytes ${bytes.toString('latin1')}` };
}

/** A key that is a node is unsupported; any other that is not plain is an error. */
function refuseKey(key) {
  if (key instanceof Node) unsupported('a key is a node');
  tensorFailure('a key is not a plain value');
}

function tupleKey({ items }, bytesOf) {
  if (items.length > MAX_TUPLE) tensorFailure(`a key has ${items.length} items`);
  const keys = items.map((item) => plainKey(item, bytesOf) ?? refuseKey(item));
  return { tag: { tuple: keys.map((key) => key.tag) }, identity: `tuple ${JSON.stringify(keys.map((key) => key.identity))}` };
}

/**
 * The tags of all keys of one dict, or members of one set.
 *
 * @param {(value: any) => Buffer | null} bytesOf the bytes of a value that is, or encodes, bytes
 */
function tagKeys(keys, bytesOf, budget) {
  const seen = new Set();
  let others = 0;
  return keys.map((key) => {
    const { tag, identity } = key instanceof Tuple ? tupleKey(key, bytesOf) : plainKey(key, bytesOf) ?? refuseKey(key);
    if (typeof key === 'string') budget.check('tensor_name_bytes', utf8Length(key));
    else if (typeof key !== 'bigint' || key < 0n || key >= BigInt(keys.length)) others += 1;
    budget.check('other_keys', others);
    if (seen.has(identity)) tensorFailure('a key occurs twice');
    seen.add(identity);
    return tag;
  });
}

module.exports = { tagKeys };
