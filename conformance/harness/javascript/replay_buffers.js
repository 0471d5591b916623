'use strict';

// Replay buffers (REPLAY-BUFFERS.md 18): their attributes and their episodes.

const { dtype } = require('./dtypes.js');
const { pickleFailure, tensorFailure, unsupported } = require('./errors.js');
const { isSame } = require('./geometry.js');
const {
  Arrays, areNames, checkDepth, checkGiven, isDict, nonZeros, readLonePickle, readObject,
} = require('./objects.js');
const { textSegment } = require('./paths.js');
const { tagInteger } = require('./tags.js');
const { compareTexts } = require('./texts.js');

const HINDSIGHT = 'stable_baselines3.her.her_replay_buffer HerReplayBuffer';
const CLASSES = new Set([...['ReplayBuffer', 'DictReplayBuffer', 'NStepReplayBuffer'].map((name) => `stable_baselines3.common.buffers ${name}`), HINDSIGHT]);
const SIGNS = ['observations', 'actions', 'rewards', 'pos', 'full']; // of a user's own class (16.3)
const REQUIRED = ['observations', 'actions', 'rewards', 'dones'];
const STEPS = [...REQUIRED, 'next_observations', 'timeouts', 'ep_start', 'ep_length', 'infos'];
const WITHOUT_MORE_AXES = new Set(['rewards', 'dones', 'timeouts']);
const EPISODE_BUFFERS = ['_buffer', 'buffer']; // since 1.1, before
const FLAT_PARTS = new Set(['observation', 'achieved_goal', 'desired_goal', 'action', 'reward', 'next_obs', 'next_achieved_goal', 'next_desired_goal', 'done']);
const [TERMINATED, TIMEOUT, UNFINISHED] = ['terminated', 'timeout', 'unfinished'];

const beginsWith = (shape, start) => isSame(shape.slice(0, start.length), start);

/** Attributes that are checked wherever they are present. */
const NUMBERS = ['gamma', 'her_ratio'];
const FLAGS = ['full', 'optimize_memory_usage', 'handle_timeout_termination', 'copy_info_dict', 'online_sampling'];
const INTEGERS = [
  ['buffer_size', 1n], ['n_envs', 1n], ['pos', 0n], ['n_steps', 1n], ['n_sampled_goal', 0n], ['max_episode_length', 0n], ['max_episode_stored', 0n],
  ['current_idx', 0n],
];
const MOST = 2n ** 63n - 1n;

/** The attributes of a buffer, with the checks of 18.2 for values of each kind. */
class Attributes {
  constructor({ pairs }, arrays) {
    this.values = new Map(pairs);
    this.arrays = arrays;
    for (const name of NUMBERS.filter((one) => this.values.has(one))) this.number(name);
    for (const name of FLAGS) this.flag(name);
    for (const [name, least] of INTEGERS.filter(([one]) => this.values.has(one))) this.integer(name, least);
  }

  has(name) {
    return (this.values.get(name) ?? null) !== null;
  }

  number(name) {
    return this.arrays.numberOf(this.values.get(name) ?? null) ?? tensorFailure(`${name} is not a number`);
  }

  integer(name, least, most = MOST) {
    const number = this.number(name);
    if (typeof number !== 'bigint' || number < least || number > most) tensorFailure(`${name} is not an integer in its range`);
    return number;
  }

  /** A flag: false if it is absent. */
  flag(name) {
    const number = this.values.has(name) ? this.number(name) : false;
    if (typeof number !== 'boolean' && number !== 0n && number !== 1n) tensorFailure(`${name} is neither true nor false`);
    return Boolean(number);
  }

  /** The array of an attribute. */
  array(name) {
    return this.arrays.arrayOf(this.values.get(name)) ?? tensorFailure(`${name} is not an array`);
  }

  /** The shapes of an attribute that is an array, or a dict of arrays. */
  shapes(name) {
    const value = this.values.get(name);
    if (name === 'infos') return [this.arrays.objectsShape(value) ?? tensorFailure('infos is not an array of objects')];
    const found = this.arrays.attribute(value) ?? tensorFailure(`${name} is neither an array nor a dict of arrays`);
    return found.map(([, { shape }]) => shape);
  }

  /** The arrays of all attributes by path. */
  listed() {
    const found = [...this.values].flatMap(([name, value]) => (this.arrays.attribute(value) ?? [])
      .map(([rest, array]) => [`${textSegment(name)}${rest}`, { array }]));
    return found.sort(([one], [other]) => compareTexts(one, other));
  }
}

/** Whether a buffer keeps one observation of each row: the next one is that of the next row. */
const sharesObservations = (attributes) => attributes.flag('optimize_memory_usage');

function checkSteps(attributes, rows, envs) {
  for (const name of sharesObservations(attributes) ? REQUIRED : [...REQUIRED, 'next_observations']) attributes.shapes(name);
  for (const name of STEPS.filter((step) => attributes.has(step))) {
    for (const shape of attributes.shapes(name)) {
      const isFlat = name === 'actions' && envs === 1 && shape.length === 2 && shape[0] === rows;
      if (!isFlat && !beginsWith(shape, [rows, envs])) tensorFailure(`the axes of ${name} are not those of the buffer`);
      if (WITHOUT_MORE_AXES.has(name) && shape.length > 2) tensorFailure(`${name} has more than two axes`);
    }
  }
}

const readFull = (attributes) => (attributes.values.has('full') ? attributes.flag('full') : tensorFailure('full is missing'));

/** An ordinary buffer (18.3.1 to 3): its size and a generator of its episodes. */
function readRows(attributes) {
  const rows = Number(attributes.integer('buffer_size', 1n));
  const envs = Number(attributes.integer('n_envs', 1n));
  const pos = Number(attributes.integer('pos', 0n, BigInt(rows) - 1n));
  const full = readFull(attributes);
  checkSteps(attributes, rows, envs);
  const dones = nonZeros(attributes.array('dones'));
  const timeouts = attributes.has('timeouts') ? nonZeros(attributes.array('timeouts')) : [];
  const first = full && sharesObservations(attributes) ? 1 : 0;
  function* episodes() {
    for (let env = 0; env < envs; env += 1) {
      let length = 0;
      let start = null;
      for (let step = first; step < (full ? rows : pos); step += 1) {
        const row = full ? (pos + step) % rows : step;
        start ??= row;
        length += 1;
        if (!dones[row * envs + env]) continue;
        yield [env, start, length, timeouts[row * envs + env] ? TIMEOUT : TERMINATED];
        start = null;
        length = 0;
      }
      if (length > 0) yield [env, start, length, UNFINISHED];
    }
  }
  return { size: full ? rows : pos, episodes };
}

/** A hindsight buffer before 1.8 (18.3.4): a row of it is an episode. */
function readEpisodes(attributes, name, budget) {
  for (const key of ['buffer_size', 'n_envs']) attributes.integer(key, 1n);
  const stored = Number(attributes.integer('max_episode_stored', 1n));
  const longest = Number(attributes.integer('max_episode_length', 1n));
  const pos = Number(attributes.integer('pos', 0n, BigInt(stored) - 1n));
  const current = Number(attributes.integer('current_idx', 0n, BigInt(longest)));
  const full = readFull(attributes);
  const parts = new Map((attributes.arrays.attribute(attributes.values.get(name)) ?? tensorFailure(`${name} is not a dict of arrays`)).map(([rest, array]) => [rest.slice(1), array]));
  for (const [part, { shape }] of parts) {
    if (!beginsWith(shape, [stored, longest]) || (FLAT_PARTS.has(part) && shape.length < 3)) tensorFailure(`the part ${part} has other axes`);
  }
  const done = parts.get('done');
  if (done === undefined || !isSame(done.shape, [stored, longest, 1])) tensorFailure('there is no done of each step');
  const array = attributes.array('episode_lengths');
  const lengths = attributes.arrays.integersOf(array);
  const isLength = (length) => length >= 0n && length <= BigInt(longest);
  if (dtype(array.dtype).kind !== 'integer' || !isSame(array.shape, [stored]) || !lengths.every(isLength)) tensorFailure('the lengths of episodes are invalid');
  budget.check('expanded_items', stored);
  function* episodes() {
    const ends = nonZeros(done);
    for (let step = 0; step < (full ? stored : pos); step += 1) {
      const row = full ? (pos + step) % stored : step;
      const length = Number(lengths[row]);
      const start = row * longest;
      if (length > 0 && !(current > 0 && row === pos)) yield [0, start, length, ends[start + length - 1] ? TERMINATED : TIMEOUT];
    }
    if (current > 0) yield [0, pos * longest, current, UNFINISHED];
  }
  return { size: Number(lengths.reduce((sum, length) => sum + length, 0n)), episodes };
}

function isBuffer(object) {
  const names = new Set(object?.pairs.map(([name]) => name));
  return object !== null && (CLASSES.has(object.fullName) || SIGNS.every((name) => names.has(name)));
}

/** Check the buffer that a hindsight buffer filled before 1.8, if it sampled offline. */
function checkOffline(attributes, budget) {
  const object = readObject(attributes.values.get('replay_buffer'));
  if (!isBuffer(object) || !areNames(object.pairs)) tensorFailure('replay_buffer is not a replay buffer');
  readBuffer(object, attributes.arrays, budget);
}

/** Check a buffer, and find its episodes. */
function readBuffer(object, arrays, budget) {
  const attributes = new Attributes(object, arrays);
  const buffers = EPISODE_BUFFERS.filter((name) => isDict(attributes.values.get(name)));
  if (buffers.length > 1) tensorFailure('a buffer has episodes twice');
  const found = buffers.length === 0 ? readRows(attributes) : readEpisodes(attributes, buffers[0], budget);
  if (buffers.length > 0 && attributes.values.has('online_sampling') && !attributes.flag('online_sampling')) checkOffline(attributes, budget);
  return { attributes, ...found };
}

function listEpisodes(episodes, budget) {
  const listed = [];
  for (const episode of episodes()) {
    listed.push(episode);
    budget.check('expanded_items', listed.length);
    budget.check('reported_values', listed.length);
  }
  return listed;
}

/** The output of `--replay-buffer`. */
function describeReplayBuffer(bytes, budget) {
  const root = readLonePickle(bytes, budget);
  const object = readObject(root);
  if (!isBuffer(object)) unsupported('a pickle of something else');
  if (!areNames(object.pairs)) pickleFailure('the names of attributes are not distinct texts');
  checkDepth(root, budget);
  checkGiven(root, budget, bytes.length);
  const { attributes, size, episodes } = readBuffer(object, new Arrays(budget), budget);
  return {
    replay_buffer: {
      class: object.className,
      buffer_size: tagInteger(attributes.integer('buffer_size', 1n)),
      n_envs: tagInteger(attributes.integer('n_envs', 1n)),
      pos: tagInteger(attributes.integer('pos', 0n)),
      full: attributes.flag('full'),
      size,
      optimize_memory_usage: sharesObservations(attributes),
      handle_timeout_termination: attributes.flag('handle_timeout_termination'),
      episodes: listEpisodes(episodes, budget),
      arrays: attributes.listed(),
    },
  };
}

module.exports = { describeReplayBuffer };
