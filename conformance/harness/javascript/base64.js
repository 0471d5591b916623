'use strict';

// Base64 as the decoder that SB3 calls reads it (FORMAT.md 3.2): binascii.a2b_base64 without strict mode.

const { dataFailure } = require('./errors.js');

const ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';
const SIX_BITS = new Map([...ALPHABET].map((character, index) => [character.charCodeAt(0), index]));
const PADDING = '='.charCodeAt(0);

/**
 * Decode text that is not canonical. Of CPython's two interpretations this is the older one: padding that completes a
 * quad ends the data.
 */
function decodeLeniently(text) {
  const bytes = Buffer.alloc(Math.ceil((text.length * 3) / 4));
  let size = 0;
  let characters = 0; // characters of the alphabet in the current quad
  let padding = 0;
  let bits = 0;
  for (let i = 0; i < text.length; i += 1) {
    const unit = text.charCodeAt(i);
    if (unit === PADDING) {
      padding += 1;
      if (characters >= 2 && characters + padding >= 4) return bytes.subarray(0, size);
      continue;
    }
    const six = SIX_BITS.get(unit);
    if (six === undefined) continue;
    padding = 0;
    bits = ((bits << 6) | six) & 0xfff;
    characters = (characters + 1) % 4;
    if (characters !== 1) {
      bytes[size] = bits >> ((8 - 2 * characters) % 8);
      size += 1;
    }
  }
  if (characters !== 0) dataFailure('base64 that ends within a quad');
  return bytes.subarray(0, size);
}

/** The bytes of a base64 text, and whether the text is canonical. */
function decodeBase64(text) {
  const bytes = Buffer.from(text, 'base64');
  if (bytes.toString('base64') === text) return { bytes, canonical: true };
  return { bytes: decodeLeniently(text), canonical: false };
}

module.exports = { decodeBase64 };
