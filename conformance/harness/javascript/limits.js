'use strict';

// Limits (FORMAT.md 8), and the totals of one operation.

const { limitExceeded } = require('./errors.js');

const MIB = 2 ** 20;
const RATIO_APPLIES_ABOVE = MIB;
const TIMES_KEPT = 2;

const DEFAULTS = new Map(Object.entries({
  outer_entries: 1024,
  inner_entries: 65536,
  directory_bytes: 16 * MIB,
  member_bytes: 2048 * MIB,
  total_bytes: 4096 * MIB,
  memory_bytes: 32 * MIB,
  ratio: 200,
  version_bytes: 4096,
  system_info_bytes: MIB,
  json_bytes: 64 * MIB,
  json_depth: 64,
  json_nodes: 2000000,
  json_digits: 4300,
  blob_bytes: 32 * MIB,
  blobs_bytes: 64 * MIB,
  pickle_bytes: 64 * MIB,
  pickle_opcodes: 2000000,
  pickle_nodes: 250000,
  pickle_memo: 1000000,
  pickle_memo_index: 2 ** 31 - 1,
  pickle_stack: 100000,
  pickle_marks: 1000,
  value_depth: 200,
  tensors: 65536,
  leaves: 100000,
  reported_values: 200000,
  tensor_rank: 32,
  tensor_name_bytes: 1024,
  other_keys: 1024,
  expanded_items: 16777216,
  policy_items: 64 * MIB,
}));

/** The limits of one operation, and its totals, which nesting must not reset. */
class Budget {
  constructor(changes = new Map(), fileSize = 0) {
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
