'use strict';

// Arguments of opcodes that are text (FORMAT.md 5.1, the second table).

const { decodeUtf8, isAscii, isHigh, isLow } = require('./bytes.js');
const { pickleFailure } = require('./errors.js');
const { Float } = require('./tags.js');

const MAX_INTEGER_CHARACTERS = 600;
const MAX_INDEX_DIGITS = 19;
const INTEGER = /^(0|-?[1-9][0-9]*)$/; // -0 differs between CPython's two unpicklers
const FLOAT = /^(-?)(inf|nan|[0-9]+(\.[0-9]*)?(e[+-]?[0-9]{1,4})?)$/i;
const INDEX = /^(0|[1-9][0-9]*)$/;
const ESCAPES = new Map([['\\', '\\'], ["'", "'"], ['"', '"'], ['n', '\n'], ['r', '\r'], ['t', '\t']]);

const latin1 = (line) => line.toString('latin1');

function integerOf(text) {
  if (text.length > MAX_INTEGER_CHARACTERS || !INTEGER.test(text)) pickleFailure('an integer has an unknown form');
  return BigInt(text);
}

function parseInt(line) {
  const text = latin1(line);
  if (text === '00' || text === '01') return text === '01';
  return integerOf(text);
}

const parseLong = (line) => integerOf(latin1(line).replace(/L$/, ''));

function parseFloat(line) {
  const found = FLOAT.exec(latin1(line));
  if (found === null) pickleFailure('a float has an unknown form');
  const [, sign, size] = found;
  if (/^nan$/i.test(size)) return new Float(Buffer.from(sign ? 'fff8000000000000' : '7ff8000000000000', 'hex'));
  const isInfinite = /^inf$/i.test(size);
  const number = isInfinite ? Infinity : Number(size);
  if (!isInfinite && number === Infinity) pickleFailure('a float overflows');
  return Float.of(sign ? -number : number);
}

function parseIndex(line) {
  const text = latin1(line);
  if (text.length > MAX_INDEX_DIGITS || !INDEX.test(text)) pickleFailure('a memo index has an unknown form');
  return Number(text);
}

/** Decode a quoted, escaped string. */
function parseString(line) {
  const text = latin1(line);
  const quote = text[0];
  if (text.length < 2 || (quote !== "'" && quote !== '"') || !text.endsWith(quote)) {
    pickleFailure('a string has no quotes');
  }
  const plain = text.slice(1, -1).replace(/\\(?:x([0-9a-fA-F]{2})|([^]?))/g, (all, hex, escaped) => {
    if (hex !== undefined) return String.fromCharCode(Number(`0x${hex}`));
    return ESCAPES.get(escaped) ?? pickleFailure('an escape that no pickler writes');
  });
  return Buffer.from(plain, 'latin1');
}

/** Decode raw-unicode-escape: a backslash before any character except u and U, and that character, are unchanged. */
function parseUnicode(line) {
  let pairAt = -1; // where a low surrogate would complete a pair
  return latin1(line).replace(/\\(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([^]))/g, (all, four, eight, other, at) => {
    if (other === 'u' || other === 'U') pickleFailure('a truncated escape');
    if (other !== undefined) return all;
    const code = Number(`0x${four ?? eight}`);
    if (code > 0x10ffff) pickleFailure('an escape beyond Unicode');
    if (at === pairAt && isLow(code)) pickleFailure('a pair of surrogates');
    pairAt = isHigh(code) ? at + all.length : -1;
    return String.fromCodePoint(code);
  });
}

function asciiText(bytes) {
  if (!isAscii(bytes)) pickleFailure('a text is not ASCII');
  return bytes.toString('latin1');
}

function utf8Text(bytes) {
  const text = decodeUtf8(bytes);
  if (text === null) pickleFailure('a text is not UTF-8');
  return text;
}

module.exports = {
  asciiText, parseFloat, parseIndex, parseInt, parseLong, parseString, parseUnicode, utf8Text,
};
