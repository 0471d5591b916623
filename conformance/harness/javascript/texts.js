'use strict';

// The text entries (FORMAT.md 4).

const { decodeUtf8, strip } = require('./bytes.js');
const { dataFailure } = require('./errors.js');
const { characterClass } = require('./tables.js');

const LINE_END = new RegExp(`\\r\\n|${characterClass('line-end')}`, 'u');

function decodeVersion(bytes) {
  const text = decodeUtf8(bytes);
  if (text === null) dataFailure('the version is not UTF-8');
  const version = strip(text);
  if (!/^[\x20-\x7e]*$/.test(version)) dataFailure('the version is not printable ASCII');
  return { version };
}

function decodeSystemInfo(bytes) {
  const text = decodeUtf8(bytes);
  if (text === null) dataFailure('the system info is not UTF-8');
  const values = new Map();
  for (const line of text.split(LINE_END)) {
    const item = line.startsWith('- ') ? line.slice(2) : line;
    const colon = item.indexOf(': ');
    if (colon < 0) continue;
    const key = strip(item.slice(0, colon));
    if (!values.has(key)) values.set(key, strip(item.slice(colon + 2)));
  }
  return { system_info: [...values] };
}

/** Order of code points, as Python sorts texts. UTF-16 has another one. */
function compareTexts(one, other) {
  const [first, second] = [[...one], [...other]];
  const at = first.findIndex((character, index) => character !== second[index]);
  if (at < 0) return first.length - second.length;
  return at < second.length ? first[at].codePointAt(0) - second[at].codePointAt(0) : 1;
}

module.exports = { compareTexts, decodeSystemInfo, decodeVersion };
