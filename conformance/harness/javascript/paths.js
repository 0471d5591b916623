'use strict';

// How many values are listed by path (FORMAT.md 8, `leaves`): containers too, a shared value once per path, and each 256
// characters of a path (6.7) as one more.

const CHARACTERS_PER_VALUE = 256;
const ENTERED = ['dict', 'ordered_dict', 'list', 'tuple', 'state', '_metadata'];

const DECIMAL_BITS = 64; // longer integers are hexadecimal
const EXPONENTS = [-4, 15]; // of floats without an exponent in Python's repr
const UNPRINTABLE = /[\p{C}\p{Z}]/u;
const PRINTABLE_ASCII = /[ -~]/;
const QUOTES = ["'", '"'];
const ESCAPES = new Map([['\\', '\\\\'], ['\n', '\\n'], ['\r', '\\r'], ['\t', '\\t']]);

const characters = (text) => [...text].length;

/** Python's repr of a float that is not NaN. */
function floatText(hex) {
  const number = Buffer.from(hex, 'hex').readDoubleBE();
  const sign = hex[0] >= '8' ? '-' : '';
  if (Math.abs(number) === Infinity) return `${sign}inf`;
  const [digits, exponent] = Math.abs(number).toExponential().split('e');
  const power = Number(exponent);
  if (power >= EXPONENTS[0] && power <= EXPONENTS[1]) {
    const all = digits.replace('.', '');
    if (power < 0) return `${sign}0.${'0'.repeat(-power - 1)}${all}`;
    const point = power + 1;
    return `${sign}${all.padEnd(point, '0').slice(0, point)}.${all.slice(point) || '0'}`;
  }
  return `${sign}${digits}e${power < 0 ? '-' : '+'}${String(Math.abs(power)).padStart(2, '0')}`;
}

function escaped(character, isText) {
  if (ESCAPES.has(character)) return ESCAPES.get(character);
  if (isText ? character === ' ' || !UNPRINTABLE.test(character) : PRINTABLE_ASCII.test(character)) return character;
  const code = character.codePointAt(0);
  const hex = code.toString(16);
  if (code < 0x100) return `\\x${hex.padStart(2, '0')}`;
  return code < 0x10000 ? `\\u${hex.padStart(4, '0')}` : `\\U${hex.padStart(8, '0')}`;
}

/** Python's repr of a text, or of bytes as latin-1. */
function quotedText(text, isText) {
  const [single, double] = QUOTES;
  const quote = text.includes(single) && !text.includes(double) ? double : single;
  return quote + [...text].map((one) => (one === quote ? `\\${one}` : escaped(one, isText))).join('') + quote;
}

/** Python's repr of a key. */
function keyText(tag) {
  if (tag === null) return 'None';
  if (typeof tag === 'boolean') return tag ? 'True' : 'False';
  if (typeof tag === 'string') return quotedText(tag, true);
  if (typeof tag === 'number') return String(tag);
  if (tag.int !== undefined) return integerText(tag.int);
  if (tag.float !== undefined) return floatText(tag.float);
  if (tag.bytes !== undefined) return `b${quotedText(Buffer.from(tag.bytes, 'base64').toString('latin1'), false)}`;
  const items = tag.tuple.map(keyText);
  return items.length === 1 ? `(${items[0]},)` : `(${items.join(', ')})`;
}

function integerText(hex) {
  const size = BigInt(hex.replace('-', ''));
  return size < 1n << BigInt(DECIMAL_BITS) ? `${hex.startsWith('-') ? '-' : ''}${size}` : hex;
}

const SEGMENT_ESCAPES = new Map([['~', '~0'], ['/', '~1'], ['[', '~2']]);

/** The segment of a key that is a text. */
const textSegment = (key) => (key === '' ? '~3' : key.replace(/[~/]|^\[/g, (one) => SEGMENT_ESCAPES.get(one)));

/** The length of the segment of a key. */
function segmentLength(key) {
  if (typeof key === 'string') return characters(textSegment(key));
  const text = keyText(key);
  return characters(text) + 2 + (text.match(/[~/]/g)?.length ?? 0);
}

/** The children of a tag, as [length of the segment, or null if it has no segment, tag]. */
function parts(tag) {
  if (tag === null) return [];
  return ENTERED.filter((name) => tag[name] !== undefined).flatMap((name) => {
    const held = tag[name];
    if (name === 'dict' || name === 'ordered_dict') return held.map(([key, value]) => [segmentLength(key), value]);
    if (name === 'list' || name === 'tuple') return held.map((value, index) => [String(index).length + 2, value]);
    return [[null, held]]; // with the path of its owner
  });
}

/** Count the values by path, and refuse the file at the first one beyond the limit. */
function checkLeaves(root, budget) {
  let count = 0;
  const todo = [[root, 0]];
  while (todo.length > 0) {
    const [tag, length] = todo.pop();
    count += 1 + Math.floor(length / CHARACTERS_PER_VALUE);
    budget.check('leaves', count);
    for (const [segment, value] of parts(tag)) {
      todo.push([value, segment === null ? length : length + (length > 0 ? 1 : 0) + segment]);
    }
  }
}

module.exports = { checkLeaves, floatText, textSegment };
