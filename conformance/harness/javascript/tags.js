'use strict';

// Tagged values (WRITER.md 12.6, conformance/README.md).

const { createHash } = require('node:crypto');

const LARGEST_PLAIN = 2n ** 53n;

/** The key of a function that reads the items of a tensor or array. It is not printed. */
const ITEMS = Symbol('items');

/** The key of the attributes of a tensor as an inert tree, and the storages of its file. They are not printed as such. */
const STATE = Symbol('state');

/** A binary64 with all its bits: a JavaScript number may lose the bits of a NaN. */
class Float {
  constructor(bytes) {
    this.hex = Buffer.from(bytes).toString('hex');
  }

  /** Of a number that is not NaN. */
  static of(number) {
    const bytes = Buffer.alloc(8);
    bytes.writeDoubleBE(number);
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

module.exports = {
  Float, ITEMS, STATE, sha256, tagFloat, tagInteger,
};
