'use strict';

// Limits (FORMAT.md 8), and the totals of one operation.

const { limitExceeded } = require('./errors.js');
const { rowsOf } = require('./tables.js');

const RATIO_APPLIES_ABOVE = 2 ** 20;
const TIMES_KEPT = 2;

const DEFAULTS = new Map(rowsOf('limits').map((row) => [row.name, row.default]));

/** The limits of one operation, and its totals, which nesting must not reset. */
class Budget {
  constructor(changes, fileSize) {
    this.limits = new Map([...DEFAULTS, ...changes]);
    this.totals = new Map([['memory_bytes', -TIMES_KEPT * fileSize]]);
    this.inflated = 0;
    this.compressed = 0;
  }

  get(name) {
    return this.limits.get(name);
  }

  /** Refuse the file if `count` (a number or a bigint) is above the limit `name`. */
  check(name, count) {
    if (count > this.limits.get(name)) {
      limitExceeded(`${name} is ${this.limits.get(name)}, and the file requires ${count}`);
    }
  }

  /** Add `count` to the operation's total of `name`. */
  charge(name, count) {
    const total = (this.totals.get(name) ?? 0) + count;
    this.totals.set(name, total);
    this.check(name, total);
  }

  /** Charge memory that is kept; `meanwhile` is needed in addition until the value is complete. */
  keep(size, meanwhile = 0) {
    this.check('memory_bytes', (this.totals.get('memory_bytes') ?? 0) + size + meanwhile);
    this.charge('memory_bytes', size);
  }

  /** Charge one deflated member, before it is inflated. */
  chargeInflation(size, compressed) {
    this.check('member_bytes', size);
    this.checkRatio(size, compressed);
    this.charge('total_bytes', size);
    this.charge('memory_bytes', size);
    this.inflated += size;
    this.compressed += compressed;
    this.checkRatio(this.inflated, this.compressed);
  }

  checkRatio(size, compressed) {
    if (size > RATIO_APPLIES_ABOVE) this.check('ratio', Math.ceil(size / compressed));
  }
}

module.exports = { Budget, DEFAULTS };
