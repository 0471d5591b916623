'use strict';

// JSON by the rules of FORMAT.md 3.1, parsed into tagged values (conformance/README.md) without recursion: the depth
// that a user allows may exceed the stack of this program.

const { characterWidth, decodeUtf8 } = require('./bytes.js');
const { dataFailure } = require('./errors.js');
const { tagFloat, tagInteger } = require('./tags.js');

const NODES_OF_A_CONTAINER = 7;
const MEMORY = { comma: 96, colon: 200, container: 300, escape: 72 }; // 8.1
const code = (character) => character.charCodeAt(0);
const QUOTE = code('"');
const BACKSLASH = code('\\');

/** Depth, values and digits, counted outside strings before anything is parsed. */
function measure(bytes, budget) {
  let depth = 0;
  let deepest = 0;
  let nodes = 1;
  let run = 0;
  let longest = 0;
  let inString = false;
  const memory = { values: 0, escapes: 0 };
  for (let i = 0; i < bytes.length; i += 1) {
    const byte = bytes[i];
    if (byte === BACKSLASH) memory.escapes += MEMORY.escape;
    if (byte === BACKSLASH && (bytes[i + 1] === BACKSLASH || bytes[i + 1] === QUOTE)) {
      i += 1;
      if (bytes[i] === BACKSLASH) memory.escapes += MEMORY.escape;
    }
    else if (byte === QUOTE) inString = !inString;
    if (inString) continue;
    run = byte >= 0x30 && byte <= 0x39 ? run + 1 : 0;
    if (run > longest) longest = run;
    if (byte === 0x2c) {
      nodes += 1;
      memory.values += MEMORY.comma;
    } else if (byte === 0x3a) memory.values += MEMORY.colon;
    else if (byte === 0x5b || byte === 0x7b) {
      depth += 1;
      nodes += NODES_OF_A_CONTAINER;
      memory.values += MEMORY.container;
      if (depth > deepest) deepest = depth;
    } else if (byte === 0x5d || byte === 0x7d) depth -= 1;
  }
  budget.check('json_depth', deepest);
  budget.check('json_nodes', nodes);
  budget.check('json_digits', longest);
  const text = characterWidth(bytes) * bytes.length;
  budget.keep(text + memory.values, text + memory.escapes);
}

const SPACES = /[ \t\n\r]*/y;
const NUMBER = /-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?/y;
const PLAIN = /[^"\\\u0000-\u001f]*/y;
const ESCAPE = /\\(?:(["\\/bfnrt])|u([0-9a-fA-F]{4}))/y;
const ESCAPES = new Map([['"', '"'], ['\\', '\\'], ['/', '/'], ['b', '\b'], ['f', '\f'], ['n', '\n'], ['r', '\r'], ['t', '\t']]);
const WORDS = [
  ['true', true], ['false', false], ['null', null],
  ['NaN', { float: '7ff8000000000000' }], ['Infinity', tagFloat(Infinity)], ['-Infinity', tagFloat(-Infinity)],
];

class Parser {
  constructor(text) {
    this.text = text;
    this.at = 0;
  }

  match(pattern) {
    pattern.lastIndex = this.at;
    const found = pattern.exec(this.text);
    if (found !== null) this.at = pattern.lastIndex;
    return found;
  }

  /** Peek at the next character that is not a space. */
  peek() {
    this.match(SPACES);
    return this.text[this.at];
  }

  take(character) {
    if (this.peek() !== character) return false;
    this.at += 1;
    return true;
  }

  fail(what) {
    dataFailure(`${what} at character ${this.at} of the JSON text`);
  }

  string() {
    if (!this.take('"')) this.fail('a string is missing');
    const parts = [];
    for (;;) {
      parts.push(this.match(PLAIN)[0]);
      if (this.text[this.at] === '"') break;
      const escape = this.match(ESCAPE);
      if (escape === null) this.fail('a string is not closed, or has a control character or an unknown escape');
      parts.push(escape[1] !== undefined ? ESCAPES.get(escape[1]) : String.fromCharCode(parseInt(escape[2], 16)));
    }
    this.at += 1;
    return parts.join('');
  }

  /** Parse a scalar. */
  scalar() {
    if (this.peek() === '"') return this.string();
    for (const [word, value] of WORDS) {
      if (this.text.startsWith(word, this.at)) {
        this.at += word.length;
        return value;
      }
    }
    const number = this.match(NUMBER);
    if (number === null) this.fail('a value is missing');
    const isInteger = number[1] === undefined && number[2] === undefined;
    return isInteger ? tagInteger(BigInt(number[0])) : tagFloat(Number(number[0]));
  }

  key(keys) {
    const key = this.string();
    if (keys.has(key)) this.fail('a key occurs twice in one object');
    keys.add(key);
    if (!this.take(':')) this.fail('a colon is missing');
    return key;
  }

  /** Open a container. Returns null if the next value is a scalar. */
  open() {
    if (this.take('[')) return { value: { list: [] }, close: ']', keys: null, key: null, fresh: true };
    if (this.take('{')) return { value: { dict: [] }, close: '}', keys: new Set(), key: null, fresh: true };
    return null;
  }

  document() {
    const open = [];
    let value;
    do {
      const container = this.open();
      if (container === null) value = this.scalar();
      else open.push(container);
      value = this.next(open, container !== null, value);
    } while (open.length > 0);
    if (this.peek() !== undefined) this.fail('something follows the value');
    return value;
  }

  /** Store a finished value in its container, close containers that end, and stop before the next value. */
  next(open, isOpened, finished) {
    let value = finished;
    let hasValue = !isOpened;
    while (open.length > 0) {
      const top = open[open.length - 1];
      if (hasValue) this.add(top, value);
      if (this.take(top.close)) {
        open.pop();
        value = top.value;
        hasValue = true;
        continue;
      }
      if (!top.fresh && !this.take(',')) this.fail('a comma or the end of a container is missing');
      if (top.keys !== null) top.key = this.key(top.keys);
      return value;
    }
    return value;
  }

  add(container, value) {
    if (container.keys !== null) container.value.dict.push([container.key, value]);
    else container.value.list.push(value);
    container.fresh = false;
  }
}

/** Parse a JSON text that is one object. Returns a tagged dict. */
function parseObject(bytes, budget) {
  budget.check('json_bytes', bytes.length);
  measure(bytes, budget);
  const text = decodeUtf8(bytes);
  if (text === null) dataFailure('the JSON text is not UTF-8');
  const value = new Parser(text).document();
  if (value === null || value.dict === undefined) dataFailure('the JSON text is not an object');
  return value;
}

module.exports = { MEMORY, NODES_OF_A_CONTAINER, parseObject };
