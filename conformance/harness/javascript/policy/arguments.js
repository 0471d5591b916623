'use strict';

// The arguments of a policy (POLICIES.md 19.11), as Python reads them: which names there are, and what is true or a size.

const { invalid, unsupported } = require('../errors.js');
const { quoted } = require('../names.js');
const { Float } = require('../tags.js');
const { isPlain, itemOf } = require('./plain.js');

const COMMON = 'net_arch activation_fn features_extractor_class features_extractor_kwargs normalize_images optimizer_class optimizer_kwargs';
const MASKABLE = `${COMMON} ortho_init share_features_extractor`;
const ON_POLICY = `${MASKABLE} log_std_init full_std use_expln squash_output`;
const CRITICS = `${COMMON} n_critics share_features_extractor`;
const SAC = `${CRITICS} use_sde log_std_init use_expln clip_mean`;

/** The names of arguments by kind of policy. */
const NAMES = new Map(Object.entries({
  'on-policy': ON_POLICY,
  maskable: MASKABLE,
  recurrent: `${ON_POLICY} lstm_hidden_size n_lstm_layers shared_lstm enable_critic_lstm lstm_kwargs`,
  dqn: COMMON,
  qrdqn: `${COMMON} n_quantiles`,
  sac: SAC,
  tqc: `${SAC} n_quantiles`,
  crossq: `${SAC} batch_norm batch_norm_momentum batch_norm_eps renorm_warmup_steps`,
  td3: CRITICS,
  ars: 'with_bias squash_output net_arch activation_fn',
  'ars-linear': 'with_bias squash_output',
}).map(([kind, names]) => [kind, new Set([...names.split(' '), 'device'])]));

/** The names that a release lacks: those, and the first release that has them or has them not. */
const SINCE = [
  [['on-policy', 'maskable', 'recurrent'], 'share_features_extractor', [1, 7]],
  [['sac', 'tqc', 'crossq', 'td3'], 'share_features_extractor', [0, 10]],
  [['sac', 'tqc', 'crossq', 'td3'], 'n_critics', [0, 8]],
  [['ars', 'ars-linear'], 'with_bias', [1, 7]],
];
const WITH_NOISE = new Set(['on-policy', 'recurrent', 'sac', 'tqc', 'crossq']);

/** The names of arguments that a kind of policy accepts in a release. `isBefore` compares with it. */
function acceptedNames(kind, isBefore) {
  const names = new Set(NAMES.get(kind));
  SINCE.filter(([kinds, , release]) => kinds.includes(kind) && isBefore(...release)).forEach(([, name]) => names.delete(name));
  if (WITH_NOISE.has(kind) && isBefore(1, 7)) names.add('sde_net_arch');
  return names;
}

const BEYOND_64_BITS = 2 ** 64;

/** Refuse a value of another type: plain data is wrong, and anything else is not known. */
const refuse = (value, what) => (isPlain(value) ? invalid : unsupported)(`${what} is something else`);

/** An array of numpy without dimensions as its item; any other value unchanged. */
const unpacked = (value) => (value?.dtype !== undefined && value.shape.length === 0 && value.items !== null
  ? itemOf(value.dtype, value.items[0]) : value);

class Arguments {
  /** @param {Map} values by name */
  constructor(values) {
    this.values = values;
  }

  has(name) {
    return this.values.has(name);
  }

  /** A value, or the fallback for one that is not given. None is given. */
  get(name, fallback = null) {
    return this.values.has(name) ? this.values.get(name) : fallback;
  }

  refuseOthers(names) {
    for (const name of this.values.keys()) if (!names.has(name)) invalid(`there is no argument ${quoted(name)}`);
  }

  /** Whether a value is true for Python. */
  flag(name, fallback) {
    return isTrue(this.get(name, fallback), name);
  }

  size(name, fallback, least = 0) {
    return readSize(this.get(name, fallback), name, least);
  }

  /** A size that Python counts to: there, a bool is 0 or 1. */
  count(name, fallback, least = 0) {
    const value = this.get(name, fallback);
    return readSize(typeof value === 'boolean' ? Number(value) : value, name, least);
  }

  number(name, fallback) {
    const value = unpacked(this.get(name, fallback));
    if (value instanceof Float) return value.number;
    const isNumber = typeof value === 'boolean' || (typeof value === 'number' && Math.abs(value) < BEYOND_64_BITS);
    return isNumber ? Number(value) : refuse(value, name);
  }

  /** Refuse what torch cannot multiply a tensor by. */
  requireNumber(name) {
    const value = this.get(name, 0);
    if (!(value instanceof Float || ['boolean', 'number'].includes(typeof value) || value?.dtype !== undefined)) refuse(value, name);
  }

  /** A dict of arguments; None is an empty one. */
  nested(name) {
    const value = this.get(name) ?? new Map();
    const isFit = value instanceof Map && [...value.keys()].every((key) => typeof key === 'string');
    return isFit ? new Arguments(value) : refuse(value, name);
  }
}

function isTrue(value, name) {
  const item = unpacked(value);
  if (item instanceof Float) return item.number !== 0;
  if (item instanceof Map) return item.size > 0;
  if (Array.isArray(item)) return item.length > 0;
  return item === null || ['boolean', 'number', 'string'].includes(typeof item) ? Boolean(item) : unsupported(`${name} is neither true nor false`);
}

function readSize(value, what, least = 0) {
  const size = unpacked(value);
  return Number.isInteger(size) && size >= least ? size : refuse(size, what);
}

/** A list of sizes: a list, a tuple, or an array of numpy of one dimension. `check` is called with their number. */
function readSizes(value, check) {
  const isArray = value?.dtype !== undefined && value.shape.length === 1 && value.items !== null;
  const items = isArray ? value.items.map((item) => itemOf(value.dtype, item)) : value;
  if (!Array.isArray(items)) refuse(value, 'net_arch');
  check(items.length);
  return items.map((size) => readSize(size, 'the size of a layer'));
}

module.exports = {
  Arguments, acceptedNames, isTrue, readSize, readSizes, refuse,
};
