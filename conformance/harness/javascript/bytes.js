'use strict';

// Unsigned integers, UTF-8 and CRC-32, used by all layers.

const { characterClass } = require('./tables.js');

const TWO_BYTES_FROM = 0xc4; // the first byte of U+0100 in UTF-8
const FOUR_BYTES_FROM = 0xf0; // of U+10000

const STRICT = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** Decode strict UTF-8 (no surrogates; a byte order mark is a character). Returns null if it is invalid. */
function decodeUtf8(bytes) {
  try {
    return STRICT.decode(bytes);
  } catch (error) {
    if (error instanceof TypeError) return null;
    throw error;
  }
}

const isHigh = (code) => code >= 0xd800 && code <= 0xdbff;
const isLow = (code) => code >= 0xdc00 && code <= 0xdfff;
const isContinuation = (byte) => (byte & 0xc0) === 0x80;

/** Decode the character at `at` to [code point, bytes]. Surrogates are allowed. Returns null if it is invalid. */
function characterAt(bytes, at) {
  const lead = bytes[at];
  if (lead < 0x80) return [lead, 1];
  const size = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4) return null;
  let code = lead & (0xff >> (size + 1));
  for (let i = 1; i < size; i += 1) {
    if (!isContinuation(bytes[at + i])) return null;
    code = code * 64 + (bytes[at + i] & 0x3f);
  }
  const least = size === 4 ? 0x10000 : size === 3 ? 0x800 : 0x80;
  return code < least || code > 0x10ffff ? null : [code, size];
}

/**
 * Decode UTF-8 in which lone surrogates are allowed (Python's "surrogatepass"). Returns null if it is invalid, or contains
 * a pair of surrogates, which would be one character here.
 */
function decodeUtf8WithSurrogates(bytes) {
  const strict = decodeUtf8(bytes);
  if (strict !== null) return strict;
  const parts = [];
  let last = 0;
  for (let at = 0; at < bytes.length;) {
    const character = characterAt(bytes, at);
    if (character === null || (isHigh(last) && isLow(character[0]))) return null;
    [last] = character;
    parts.push(String.fromCodePoint(character[0]));
    at += character[1];
  }
  return parts.join('');
}

/** The number of bytes of a text in UTF-8. A lone surrogate has three. */
function utf8Length(text) {
  return Buffer.byteLength(text, 'utf8'); // Buffer replaces a lone surrogate by U+FFFD, which also has three bytes
}

const isAscii = (bytes) => bytes.every((byte) => byte < 0x80);

const CRC_TABLE = new Uint32Array(256).map((_, index) => {
  let value = index;
  for (let bit = 0; bit < 8; bit += 1) value = value & 1 ? (value >>> 1) ^ 0xedb88320 : value >>> 1;
  return value;
});

function crc32(bytes) {
  let value = 0xffffffff;
  for (let i = 0; i < bytes.length; i += 1) value = CRC_TABLE[(value ^ bytes[i]) & 0xff] ^ (value >>> 8);
  return (value ^ 0xffffffff) >>> 0;
}

// Python's str.isspace, which differs from JavaScript's \s (U+001C to U+001F, U+0085, U+FEFF).
const SPACE = characterClass('strip');
const SPACES_AROUND = new RegExp(`^${SPACE}+|${SPACE}+$`, 'gu');
const strip = (text) => text.replace(SPACES_AROUND, '');

/** Bytes that each character of a text needs: as many as its widest one (8.1). */
function characterWidth(utf8) {
  let highest = 0;
  for (const byte of utf8) if (byte > highest) highest = byte;
  if (highest >= FOUR_BYTES_FROM) return 4;
  return highest >= TWO_BYTES_FROM ? 2 : 1;
}

module.exports = {
  characterWidth,
  SPACE, crc32, decodeUtf8, decodeUtf8WithSurrogates, isAscii, isHigh, isLow, strip, utf8Length,
};
