'use strict';

// Full case folding (FORMAT.md 2.6, 6.1), which JavaScript lacks.

const { codePoint, rowsOf, textOf } = require('./tables.js');

const FOLDED = new Map();
for (const { from, to, count = 1, step = 1 } of rowsOf('case-folding')) {
  if (count === 1) FOLDED.set(textOf(from), textOf(to));
  for (let i = 0; count > 1 && i < count; i += 1) {
    FOLDED.set(String.fromCodePoint(codePoint(from) + i * step), String.fromCodePoint(codePoint(to) + i * step));
  }
}

/** Apply full case folding to a text, character by character (so there is no final sigma). */
function caseFold(text) {
  let folded = '';
  for (const character of text) folded += FOLDED.get(character) ?? character;
  return folded;
}

module.exports = { caseFold };
