'use strict';

// Random generators of numpy in a pickle (VALUES.md 13.3). They are recognized, and have no value here.

const { calledBy, fullName } = require('../objects.js');
const {
  Dict, Global, List, Tuple,
} = require('../nodes.js');
const { rowsOf } = require('../tables.js');
const { Float, ITEMS } = require('../tags.js');

const ROLES = new Map(rowsOf('roles').filter((row) => row.kind === 'call').map((row) => [`${row.module} ${row.name}`, row.role]));
const BIT_GENERATOR = 'numpy.random._pickle __bit_generator_ctor';
const SEED_SEQUENCE = 'numpy.random.bit_generator SeedSequence';
const CHECKSUMS = [0x3eaa222n, 0xc464c19n, 0xf88304an];
const DEFAULT = 'MT19937';
const POOL_LEAST = 4;

const isBelow = (limit) => (value) => typeof value === 'bigint' && value >= 0n && value < limit;
const U32 = isBelow(2n ** 32n);
const U128 = isBelow(2n ** 128n);
const FLAG = isBelow(2n);
const isNumber = (value) => typeof value === 'bigint' || value instanceof Float;
const words = (dtype, length) => (value, arrays) => {
  const array = arrays.arrayOf(value);
  return array !== null && array.dtype === dtype && array.shape.length === 1 && (length === null ? array.shape[0] >= POOL_LEAST : array.shape[0] === length);
};

/** By bit generator: the parts of `state`, and those beside it. */
const UINTEGER = { has_uint32: FLAG, uinteger: U32 };
const PCG = [{ state: U128, inc: U128 }, UINTEGER];
const GENERATORS = new Map(Object.entries({
  MT19937: [{ key: words('uint32', 624), pos: isBelow(625n) }, {}],
  PCG64: PCG,
  PCG64DXSM: PCG,
  Philox: [{ counter: words('uint64', 4), key: words('uint64', 2) }, { buffer: words('uint64', 4), buffer_pos: isBelow(5n), ...UINTEGER }],
  SFC64: [{ state: words('uint64', 4) }, UINTEGER],
}));
const GAUSS = { has_gauss: FLAG, gauss: isNumber };
const CLASSES = new Map(rowsOf('roles').filter((row) => row.kind === 'reference' && row.module.startsWith('numpy.random._') && GENERATORS.has(row.name))
  .map((row) => [`${row.module} ${row.name}`, row.name]));

/** Recognizes the generators of one pickle. */
class Generators {
  constructor(arrays) {
    this.arrays = arrays;
  }

  /** Whether a value is None or a generator. */
  isKnown(value) {
    if (value === null) return true;
    const [called, args] = calledBy('REDUCE', value);
    const read = { random_state: () => this.isRandomState(value, args), generator: () => this.isGenerator(value, args) }[ROLES.get(called)];
    return read?.() ?? false;
  }

  /** The state that a call is changed to; undefined without one, null if it is changed otherwise. */
  stateOf({ changes }) {
    if (changes.length === 0) return undefined;
    return changes.length === 1 && changes[0].kind === 'BUILD' ? changes[0].values : null;
  }

  /** The name and the state of the bit generator that a constructor's arguments are; null if they are something else. */
  source(args) {
    if (args.length === 0) return { name: DEFAULT };
    const hasConstructor = args.length === 1 || (args.length === 2 && fullName(args[1]) === BIT_GENERATOR);
    if (typeof args[0] === 'string') return hasConstructor && GENERATORS.has(args[0]) ? { name: args[0] } : null;
    return args.length === 1 ? this.bitGenerator(args[0]) : null;
  }

  /** A bit generator of numpy 2. */
  bitGenerator(value) {
    const [called, args] = calledBy('REDUCE', value);
    if (called !== BIT_GENERATOR || args.length > 1) return null;
    const [given = DEFAULT] = args;
    const name = given instanceof Global ? CLASSES.get(fullName(given)) : given;
    const state = this.stateOf(value);
    const [dict, seed] = state instanceof Tuple && state.items.length === 2 ? state.items : [state, null];
    return GENERATORS.has(name) && this.isState(dict, name) && (seed === null || this.isSeed(seed)) ? { name, dict } : null;
  }

  isGenerator(value, args) {
    const source = this.source(args);
    if (source === null) return false;
    const state = this.stateOf(value);
    return source.dict === undefined ? this.isState(state, source.name) : state === undefined;
  }

  isRandomState(value, args) {
    const source = this.source(args);
    const state = this.stateOf(value);
    if (source === null) return false;
    if (source.dict === undefined && state instanceof Tuple) return source.name === DEFAULT && this.isTuple(state.items);
    return this.isState(state, source.name, GAUSS) && (source.dict === undefined || this.areEqual(state, source.dict));
  }

  /** The state of a RandomState before numpy 1.17. */
  isTuple([name, key, pos, ...gauss]) {
    const [parts] = GENERATORS.get(DEFAULT);
    const checks = Object.values(GAUSS);
    return name === DEFAULT && parts.key(key, this.arrays) && parts.pos(pos) && [0, checks.length].includes(gauss.length)
      && gauss.every((item, index) => checks[index](item));
  }

  isState(dict, name, more = {}) {
    const [inner, beside] = GENERATORS.get(name);
    return this.hasParts(dict, { bit_generator: (value) => value === name, state: (value) => this.hasParts(value, inner), ...beside, ...more });
  }

  hasParts(dict, checks) {
    if (!(dict instanceof Dict) || dict.pairs.length !== Object.keys(checks).length) return false;
    const values = new Map(dict.pairs);
    return Object.entries(checks).every(([key, check]) => values.has(key) && check(values.get(key), this.arrays));
  }

  /** Whether a state of a RandomState has the parts of that of its bit generator. */
  areEqual(state, other) {
    const values = new Map(state.pairs);
    return other.pairs.every(([key, value]) => (value instanceof Dict ? this.areEqual(values.get(key), value) : this.identity(values.get(key)) === this.identity(value)));
  }

  identity(value) {
    return this.arrays.arrayOf(value)?.[ITEMS]().toString('hex') ?? String(value);
  }

  isSeed(value) {
    const [called, args] = calledBy('REDUCE', value);
    const state = ROLES.get(called) === 'seed_sequence' ? this.stateOf(value) : null;
    const isMade = args?.length === 3 && fullName(args[0]) === SEED_SEQUENCE && CHECKSUMS.includes(args[1]) && args[2] === null;
    if (!isMade || !(state instanceof Tuple) || state.items.length !== 5) return false;
    const [entropy, children, pool, size, spawnKey] = state.items;
    return this.isEntropy(entropy) && typeof children === 'bigint' && words('uint32', null)(pool, this.arrays)
      && size === BigInt(this.arrays.arrayOf(pool).shape[0]) && spawnKey instanceof Tuple && this.isEntropy(spawnKey);
  }

  isEntropy(value) {
    if (value === null || typeof value === 'bigint') return true;
    return (value instanceof List || value instanceof Tuple) && value.items.every((item) => typeof item === 'bigint');
  }
}

module.exports = { Generators };
