'use strict';

// How many values are listed by path (FORMAT.md 8, `leaves`): containers too, a shared value once per path, and each 256
// characters of a path (6.7) as one more.

const CHARACTERS_PER_VALUE = 256;
const ENTERED = ['dict', 'ordered_dict', 'list', 'tuple', 'state', '_metadata'];

const characters = (text) => [...text].length;

/** The approximate length of Python's repr of a key that is not text. For integers it is exact. */
function reprLength(tag) {
  if (typeof tag === 'number') return String(tag).length;
  if (tag?.int !== undefined) return String(BigInt(tag.int.replace('-', ''))).length + (tag.int.startsWith('-') ? 1 : 0);
  if (tag?.bytes !== undefined) return Buffer.from(tag.bytes, 'base64').length + 3;
  if (tag?.tuple !== undefined) return tag.tuple.reduce((sum, item) => sum + reprLength(item) + 2, 0);
  return typeof tag === 'string' ? characters(tag) + 2 : 4;
}

/** The length of the segment of a key. */
function segmentLength(key) {
  if (typeof key !== 'string') return reprLength(key) + 2;
  if (key === '') return 2;
  return characters(key) + (key.match(/[~/]|^\[/g)?.length ?? 0);
}

/** The children of a tag, as [length of the segment, tag]. */
function parts(tag) {
  if (tag === null || typeof tag !== 'object' || Array.isArray(tag)) return [];
  return ENTERED.filter((name) => tag[name] !== undefined).flatMap((name) => {
    const held = tag[name];
    if (name === 'dict' || name === 'ordered_dict') return held.map(([key, value]) => [segmentLength(key), value]);
    if (name === 'list' || name === 'tuple') return held.map((value, index) => [String(index).length + 2, value]);
    return [[0, held]];
  });
}

function countByPath(root) {
  let count = 0;
  const todo = [[root, 0]];
  while (todo.length > 0) {
    const [tag, length] = todo.pop();
    count += 1 + Math.floor(length / CHARACTERS_PER_VALUE);
    for (const [segment, value] of parts(tag)) todo.push([value, length + (length > 0 ? 1 : 0) + segment]);
  }
  return count;
}

module.exports = { countByPath };
