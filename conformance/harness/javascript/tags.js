'use strict';

// Tagged values (WRITER.md 12.6, conformance/README.md), and their output.

const { createHash } = require('node:crypto');

const LARGEST_PLAIN = 2n ** 53n;

/** The key of a function that reads the items of a tensor or array. It is not printed. */
const ITEMS = Symbol('items');

/** A binary64 with all its bits: a JavaScript number may lose the bits of a NaN. */
class Float {
  constructor(bytes) {
    this.hex = Buffer.from(bytes).toString('hex');
  }

  static of(number) {
    const bytes = Buffer.alloc(8);
    bytes.writeDoubleBE(number);
    if (Number.isNaN(number)) bytes.write('7ff8000000000000', 'hex');
    return new Float(bytes);
  }

  get number() {
    return Buffer.from(this.hex, 'hex').readDoubleBE();
  }
}

const tagFloat = (number) => ({ float: Float.of(number).hex });

function tagInteger(integer) {
  if (integer > -LARGEST_PLAIN && integer < LARGEST_PLAIN) return Number(integer);
  return { int: integer < 0n ? `-0x${(-integer).toString(16)}` : `0x${integer.toString(16)}` };
}

const sha256 = (bytes) => createHash('sha256').update(bytes).digest('hex');

/** JSON of tagged values, without recursion; a shared value is printed in each of its places. */
function printJson(value) {
  const out = [];
  const todo = [{ value }];
  while (todo.length > 0) {
    const item = todo.pop();
    if (item.text !== undefined) out.push(item.text);
    else if (Array.isArray(item.value)) printItems(item.value.map((value) => ['', value]), '[', ']', out, todo);
    else if (item.value !== null && typeof item.value === 'object') {
      printItems(Object.entries(item.value).map(([key, value]) => [`${JSON.stringify(key)}:`, value]), '{', '}', out, todo);
    } else out.push(JSON.stringify(item.value));
  }
  return out.join('');
}

function printItems(items, open, close, out, todo) {
  out.push(open);
  todo.push({ text: close });
  for (let i = items.length - 1; i >= 0; i -= 1) {
    todo.push({ value: items[i][1] }, { text: (i > 0 ? ',' : '') + items[i][0] });
  }
}

module.exports = { Float, ITEMS, printJson, sha256, tagFloat, tagInteger };
