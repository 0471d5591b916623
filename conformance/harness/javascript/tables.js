'use strict';

// The tables of data in schema/tables/, which every implementation may read.

const FOLDER = '../../../schema/tables';

const rowsOf = (table) => require(`${FOLDER}/${table}.json`).rows;

/** The number of a code point that is written as U+0041. */
const codePoint = (text) => parseInt(text.slice(2), 16);

/** The text of code points that are written as U+0041 U+0042. */
const textOf = (points) => String.fromCodePoint(...points.split(' ').map(codePoint));

/** A regular expression's class of the characters of a set of white-space.json. */
function characterClass(set) {
  const escaped = (point) => `\\u{${point.slice(2)}}`;
  const ranges = rowsOf('white-space').filter((row) => row.set === set);
  return `[${ranges.map(({ first, last }) => `${escaped(first)}-${escaped(last)}`).join('')}]`;
}

module.exports = { characterClass, codePoint, rowsOf, textOf };
