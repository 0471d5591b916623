'use strict';

// Tagged values of JSON (conformance/README.md): what kind each is, and the measures of a text that would contain it.

const { MEMORY, NODES_OF_A_CONTAINER } = require('../json.js');
const { floatText } = require('../paths.js');
const { compareTexts } = require('../texts.js');

const isIntegerTag = (tag) => typeof tag === 'number' || (tag !== null && typeof tag === 'object' && tag.int !== undefined);

function integerOf(tag) {
  if (typeof tag === 'number') return BigInt(tag);
  return tag.int.startsWith('-') ? -BigInt(tag.int.slice(1)) : BigInt(tag.int);
}

const listOf = (tag) => tag?.list ?? null;

/** A tagged dict whose keys are sorted by code points. */
const sortedDict = (pairs) => ({ dict: pairs.sort(([one], [other]) => compareTexts(one, other)) });

const NONE = { bytes: 0, depth: 0, commas: 0, colons: 0, containers: 0, escapes: 0, digits: 0 };
const SUMS = ['bytes', 'commas', 'colons', 'containers', 'escapes'];
const MOST = ['depth', 'digits'];
const LONGEST_RUN = /[0-9]+/g;

function sum(measures) {
  const total = { ...NONE };
  for (const measure of measures) {
    for (const name of SUMS) total[name] += measure[name];
    for (const name of MOST) total[name] = Math.max(total[name], measure[name]);
  }
  return total;
}

const textMeasure = (text) => ({ ...NONE, bytes: text.length, escapes: text.split('\\').length - 1 });

/** A text as JSON in ASCII. */
const jsonText = (text) => JSON.stringify(text).replace(/[\u007f-\uffff]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`);

function scalarMeasure(tag) {
  if (typeof tag === 'string') return textMeasure(jsonText(tag));
  const text = tag?.float !== undefined ? floatText(tag.float) : String(isIntegerTag(tag) ? integerOf(tag) : tag);
  return { ...NONE, bytes: text.length, digits: Math.max(0, ...(text.match(LONGEST_RUN) ?? []).map((run) => run.length)) };
}

/** What a text of JSON without white space contains (FORMAT.md 8.1). A shared value is measured once. */
function measure(tag, done = new Map()) {
  if (tag?.list === undefined && tag?.dict === undefined) return scalarMeasure(tag);
  if (!done.has(tag)) {
    const parts = tag.list?.map((item) => measure(item, done))
      ?? tag.dict.flatMap(([key, value]) => [textMeasure(jsonText(key)), measure(value, done)]);
    const count = (tag.list ?? tag.dict).length;
    const all = sum(parts);
    const [commas, colons] = [Math.max(0, count - 1), tag.dict === undefined ? 0 : count];
    done.set(tag, {
      ...all, bytes: all.bytes + commas + colons + 2, depth: all.depth + 1, commas: all.commas + commas, colons: all.colons + colons,
      containers: all.containers + 1,
    });
  }
  return done.get(tag);
}

/** Compare the text of a tagged value with the limits of JSON, as if it was parsed. */
function checkLimits(tag, budget) {
  const { bytes, depth, commas, colons, containers, escapes, digits } = measure(tag);
  budget.check('json_bytes', bytes);
  budget.check('json_depth', depth);
  budget.check('json_nodes', 1 + commas + NODES_OF_A_CONTAINER * containers);
  budget.check('json_digits', digits);
  budget.check('memory_bytes', 2 * bytes + MEMORY.comma * commas + MEMORY.colon * colons + MEMORY.container * containers + MEMORY.escape * escapes);
}

module.exports = {
  checkLimits, integerOf, isIntegerTag, listOf, sortedDict,
};
