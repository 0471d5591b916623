'use strict';

// The entry `data` (FORMAT.md 3): JSON, with serialized values under top-level keys.

const { decodeBase64 } = require('./base64.js');
const { dataFailure, missing } = require('./errors.js');
const { parseObject } = require('./json.js');
const { quoted } = require('./names.js');
const { sha256 } = require('./tags.js');

const TYPE = ':type:';
const SERIALIZED = ':serialized:';

/** Type, base64 and hints of the value of a top-level key, or null if it is a plain value. */
function serializedParts(value, key) {
  const fields = new Map(value?.dict ?? []);
  if (!fields.has(SERIALIZED)) return null;
  const type = fields.get(TYPE) ?? null;
  const text = fields.get(SERIALIZED);
  if (typeof text !== 'string' || !text.isWellFormed()) dataFailure(`${SERIALIZED} of ${quoted(key)} is not text`);
  if (type !== null && typeof type !== 'string') dataFailure(`${TYPE} of ${quoted(key)} is not text`);
  return { type, text, hints: value.dict.filter(([name]) => name !== TYPE && name !== SERIALIZED) };
}

/** The pickle of a serialized value. Its size is charged before it is decoded. */
function pickleOf(parts, budget) {
  const size = Math.floor((parts.text.length * 3) / 4);
  budget.check('blob_bytes', size);
  budget.charge('blobs_bytes', size);
  budget.keep(size, parts.text.length);
  return decodeBase64(parts.text);
}

function tagSerialized(parts, budget) {
  const { bytes, canonical } = pickleOf(parts, budget);
  return {
    serialized: {
      type: parts.type, size: bytes.length, sha256: sha256(bytes), canonical, hints: { dict: parts.hints },
    },
  };
}

/** The entry as a tagged value. */
function decodeData(bytes, budget) {
  const pairs = parseObject(bytes, budget).dict.map(([key, value]) => {
    const parts = serializedParts(value, key);
    return [key, parts === null ? value : tagSerialized(parts, budget)];
  });
  return { dict: pairs };
}

/** The values by key: a serialized one as its `type` and its `pickle`, any other tagged. */
function readValues(bytes, budget) {
  return new Map(parseObject(bytes, budget).dict.map(([key, value]) => {
    const parts = serializedParts(value, key);
    return [key, parts === null ? value : { type: parts.type, pickle: pickleOf(parts, budget).bytes }];
  }));
}

/** The pickle under a key. */
function findBlob(bytes, key, budget) {
  const pair = parseObject(bytes, budget).dict.find(([name]) => name === key);
  const parts = pair === undefined ? null : serializedParts(pair[1], key);
  if (parts === null) missing(`there is no serialized value ${quoted(key)}`);
  return pickleOf(parts, budget).bytes;
}

module.exports = { decodeData, findBlob, readValues };
