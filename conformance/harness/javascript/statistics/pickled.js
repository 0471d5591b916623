'use strict';

// Statistics in a pickle (STATISTICS.md 17.1, 17.2), in the form of a bundle: fields of vecnormalize.json, and arrays by
// the names of vecnormalize.safetensors.

const { dtype } = require('../dtypes.js');
const {
  missing, pickleFailure, tensorFailure, unsupported,
} = require('../errors.js');
const { isSame } = require('../geometry.js');
const {
  Arrays, areNames, checkDepth, checkGiven, integersOf, membersOf, pairsOf, readLonePickle, readObject,
} = require('../objects.js');
const { List, Tuple } = require('../nodes.js');
const { numbersOf } = require('../policy/plain.js');
const { rowsOf } = require('../tables.js');
const { Float, ITEMS } = require('../tags.js');
const { compareTexts } = require('../texts.js');
const { FLAGS, MOST_ENVS, NUMBERS } = require('./fields.js');
const { SpaceReader } = require('./pickled_spaces.js');
const { LARGEST_EXACT } = require('./spaces.js');
const { integerOf } = require('./tagged.js');

const MEANS = 'RunningMeanStd';
const PARTS = ['mean', 'var', 'count'];
const CLASSES = new Map(rowsOf('roles')
  .filter((row) => row.kind === 'plain object' && /^stable_baselines3?\.common\.(vec_env\.vec_normalize|running_mean_std)$/.test(row.module))
  .map((row) => [`${row.module} ${row.name}`, { library: row.module.split('.')[0], name: row.name, attributes: row.attributes }]));
const DEFAULTS = {
  clip_obs: 10, clip_reward: 10, gamma: 0.99, epsilon: 1e-8, training: true, num_envs: null, norm_obs_keys: null, old_obs: null, old_reward: null,
  observation_space: null, action_space: null,
};

/** The known class of an object whose attributes are all listed, and its own; null for anything else. */
function classOf(value) {
  const object = readObject(value);
  const type = CLASSES.get(object?.fullName) ?? null;
  const isOwn = object !== null && !value.changes[0].values.shared;
  return isOwn && object.pairs.every(([name]) => type?.attributes.includes(name)) ? type : null;
}

/** Reads the values of one pickle. */
class Reader {
  constructor(budget) {
    this.budget = budget;
    this.numpy = new Arrays(budget);
    this.arrays = new Map();
  }

  /** The tag of an array, or of a scalar as one without dimensions; null for anything else. */
  array(value) {
    const { array, scalar } = this.numpy.tagOf(value) ?? {};
    return array ?? (scalar && { ...scalar, shape: [] }) ?? null;
  }

  /** The tag of a numpy value without dimensions; null for anything else. */
  scalar(value) {
    const array = this.array(value);
    return array?.shape.length === 0 ? array : null;
  }

  integer(value) {
    if (typeof value === 'bigint') return value;
    const tag = this.scalar(value);
    return tag !== null && dtype(tag.dtype).kind === 'integer' ? integersOf(tag)[0] : null;
  }

  number(value) {
    if (value instanceof Float) return value.number;
    const integer = this.integer(value);
    const tag = this.scalar(value);
    if (integer === null) return tag !== null && dtype(tag.dtype).kind === 'float' ? numbersOf(tag)[0] : tensorFailure('not a number');
    return integer >= -LARGEST_EXACT && integer <= LARGEST_EXACT ? Number(integer) : tensorFailure('an integer is not exact as a float');
  }

  flag(value) {
    if (typeof value === 'boolean') return value;
    const tag = this.scalar(value);
    return tag?.dtype === 'bool' ? tag[ITEMS]()[0] === 1 : tensorFailure('not a bool');
  }

  environments(value) {
    const count = this.integer(value) ?? tensorFailure('num_envs is not an integer');
    return count >= 1n && count <= MOST_ENVS ? count : unsupported('num_envs is out of range');
  }

  keep(name, { dtype: type, shape, [ITEMS]: items }) {
    this.budget.check('tensor_rank', shape.length);
    this.arrays.set(name, { type: dtype(type), shape: shape.map(integerOf), items: items() });
  }

  /** An array of float64, or a number without dimensions. */
  float64(name, value) {
    if (value instanceof Float) return this.keep(name, { dtype: 'float64', shape: [], [ITEMS]: () => Buffer.from(value.hex, 'hex').reverse() });
    const tag = this.array(value);
    return tag?.dtype === 'float64' ? this.keep(name, tag) : tensorFailure(`${name} is not an array of float64`);
  }

  /** One RunningMeanStd, as arrays under a name. */
  means(name, value) {
    if (classOf(value)?.name !== MEANS) tensorFailure(`${name} is not a RunningMeanStd`);
    const parts = new Map(readObject(value).pairs);
    const [mean, variance, count] = PARTS.map((part) => `${name}.${part}`);
    const get = (part) => (parts.has(part) ? parts.get(part) : missing(`${name} has no ${part}`));
    this.float64(mean, get('mean'));
    this.float64(variance, get('var'));
    const counted = get('count');
    this.float64(count, this.scalar(counted)?.dtype === 'float64' ? counted : Float.of(this.number(counted)));
    if (!isSame(this.arrays.get(mean).shape, this.arrays.get(variance).shape)) tensorFailure(`${name} has parts of two shapes`);
  }

  /** Statistics of observations: one, or by key. */
  observationMeans(value) {
    if (value === null) return null;
    const pairs = pairsOf(value);
    if (pairs === null) {
      this.means('obs_rms', value);
      return 'array';
    }
    if (!pairs.every(([key]) => typeof key === 'string')) tensorFailure('a key of statistics is not text');
    return [...new Map(pairs)].map(([key, part]) => {
      this.means(`obs_rms/${key}`, part);
      return key;
    });
  }

  returnMeans(value) {
    if (value === null) return null;
    this.means('ret_rms', value);
    return 'array';
  }

  /** The last reward: an array; anything else counts as absent. */
  last(name, value) {
    const tag = this.array(value);
    if (tag === null) return null;
    this.keep(name, tag);
    return 'array';
  }

  lastObservation(value) {
    const pairs = pairsOf(value);
    if (pairs === null) return this.last('old_obs', value);
    const parts = [...new Map(pairs)];
    if (!parts.every(([key, part]) => typeof key === 'string' && this.array(part) !== null)) return null;
    return parts.map(([key, part]) => {
      this.last(`old_obs/${key}`, part);
      return key;
    });
  }

  /** Keys of a list, a tuple or a set, which is sorted. */
  keys(value) {
    if (value === null) return null;
    const members = membersOf(value);
    const given = members ?? (value instanceof List || value instanceof Tuple ? value.items : tensorFailure('norm_obs_keys are not texts'));
    if (!given.every((key) => typeof key === 'string')) tensorFailure('norm_obs_keys are not texts');
    return members === null ? given : [...new Set(members)].sort(compareTexts);
  }
}

/** The keys that are normalized if the pickle does not name them (17.1.3). */
function inferKeys(means, space) {
  if (!Array.isArray(means)) return null;
  if (space?.type !== 'Dict') return means;
  const names = space.spaces.map(([name]) => name);
  const areAll = names.length === means.length && names.every((name) => means.includes(name));
  return areAll ? names : tensorFailure('the statistics are not those of the keys of the space');
}

function readWhole({ library }, pairs, reader) {
  const given = new Map(pairs);
  const get = (name) => given.get(name) ?? null;
  const required = (name) => (given.has(name) ? given.get(name) : missing(`${name} is missing`));
  if (given.has('old_reward') && given.has('old_rews')) tensorFailure('there are two last rewards');
  const settings = { library, obs_rms: reader.observationMeans(get('obs_rms')) };
  for (const name of NUMBERS) settings[name] = reader.number(required(name));
  for (const name of FLAGS) settings[name] = reader.flag(required(name));
  settings.ret_rms = reader.returnMeans(get('ret_rms'));
  const spaces = new SpaceReader(reader.numpy);
  settings.observation_space = spaces.read(get('observation_space'));
  settings.norm_obs_keys = given.has('norm_obs_keys') ? reader.keys(get('norm_obs_keys')) : inferKeys(settings.obs_rms, settings.observation_space);
  if (settings.norm_obs_keys === null && Array.isArray(settings.obs_rms)) tensorFailure('there are statistics by key, but no keys');
  settings.num_envs = given.has('num_envs') ? reader.environments(get('num_envs')) : null;
  settings.action_space = spaces.read(get('action_space'));
  settings.old_obs = reader.lastObservation(get('old_obs'));
  settings.old_reward = reader.last('old_reward', get('old_reward') ?? get('old_rews'));
  return settings;
}

/** One of the two files of SB2, which is identified by its shape (17.2). */
function readLone({ library }, root, reader) {
  reader.means('means', root);
  const isReturns = reader.arrays.get('means.mean').shape.length === 0;
  const name = isReturns ? 'ret_rms' : 'obs_rms';
  reader.arrays = new Map([...reader.arrays].map(([key, array]) => [key.replace('means', name), array]));
  return {
    ...DEFAULTS, library, norm_obs: !isReturns, norm_reward: isReturns, obs_rms: isReturns ? null : 'array', ret_rms: isReturns ? 'array' : null,
  };
}

/** Settings and arrays of a pickle. */
function readPickledStatistics(bytes, budget) {
  const root = readLonePickle(bytes, budget);
  const object = readObject(root);
  const type = CLASSES.get(object?.fullName) ?? unsupported('a pickle of something else');
  if (!areNames(object.pairs)) pickleFailure('the names of attributes are not distinct texts');
  checkDepth(root, budget);
  checkGiven(root, budget, bytes.length);
  if (classOf(root) === null) unsupported('an attribute that is not listed');
  const reader = new Reader(budget);
  const settings = type.name === MEANS ? readLone(type, root, reader) : readWhole(type, object.pairs, reader);
  return { settings, arrays: reader.arrays };
}

module.exports = { readPickledStatistics };
