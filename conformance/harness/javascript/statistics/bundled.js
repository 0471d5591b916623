'use strict';

// Statistics in two entries of an archive (STATISTICS.md 17.5).

const { dataFailure, tensorFailure, unsupported } = require('../errors.js');
const { isSame } = require('../geometry.js');
const { parseObject } = require('../json.js');
const { readSafetensors } = require('../safetensors.js');
const {
  FLAGS, FORMAT_VERSION, MOST_ENVS, NUMBERS, OTHERS,
} = require('./fields.js');
const {
  fieldsOf, readBool, readNumber, readSpace,
} = require('./spaces.js');
const { integerOf, isIntegerTag, listOf } = require('./tagged.js');

const LIBRARIES = ['stable_baselines3', 'stable_baselines'];
const ARRAY = 'array';
const PARTS = ['mean', 'var', 'count'];

/** null, or texts of which none occurs twice. */
function readKeys(tag) {
  if (tag === null) return null;
  const keys = listOf(tag) ?? dataFailure('not an array of texts');
  const areKeys = keys.every((key) => typeof key === 'string') && new Set(keys).size === keys.length;
  return areKeys ? keys : dataFailure('not texts, or one of them occurs twice');
}

const readOne = (tag) => (tag === null || tag === ARRAY ? tag : dataFailure('neither null nor "array"'));

function readEnvironments(tag) {
  if (tag === null) return null;
  const count = isIntegerTag(tag) ? integerOf(tag) : dataFailure('num_envs is not an integer');
  return count >= 1n && count <= MOST_ENVS ? count : unsupported('num_envs is out of range');
}

const readLibrary = (tag) => (LIBRARIES.includes(tag) ? tag : dataFailure('an unknown library'));
const readOptionalSpace = (tag, budget) => (tag === null ? null : readSpace(tag, budget));
const readSome = (tag) => (tag === ARRAY ? ARRAY : readKeys(tag));

const READERS = {
  ...Object.fromEntries(NUMBERS.map((name) => [name, readNumber])),
  ...Object.fromEntries(FLAGS.map((name) => [name, readBool])),
  library: readLibrary,
  num_envs: readEnvironments,
  norm_obs_keys: readKeys,
  obs_rms: readSome,
  old_obs: readSome,
  ret_rms: readOne,
  old_reward: readOne,
  observation_space: readOptionalSpace,
  action_space: readOptionalSpace,
};

function checkVersion(version) {
  if (!isIntegerTag(version)) dataFailure('the version is not an integer');
  if (integerOf(version) > FORMAT_VERSION) unsupported('a newer version');
  if (integerOf(version) < FORMAT_VERSION) dataFailure('an unknown version');
}

function readSettings(bytes, budget) {
  const parsed = parseObject(bytes, budget);
  const given = new Map(parsed.dict);
  if (given.has('format_version')) checkVersion(given.get('format_version'));
  const fields = fieldsOf(parsed, [...NUMBERS, ...FLAGS, ...OTHERS]);
  return Object.fromEntries(Object.entries(READERS).map(([name, read]) => [name, read(fields.get(name), budget)]));
}

const namesOf = (name, field) => (field === ARRAY ? [name] : (field ?? []).map((key) => `${name}/${key}`));

/** Check that the tensors are exactly those of the fields. */
function checkTensors(settings, tensors) {
  const means = [...namesOf('obs_rms', settings.obs_rms), ...namesOf('ret_rms', settings.ret_rms)];
  const names = means.flatMap((name) => PARTS.map((part) => `${name}.${part}`));
  const others = [...namesOf('old_obs', settings.old_obs), ...namesOf('old_reward', settings.old_reward)];
  const all = new Set([...names, ...others]);
  if (all.size !== names.length + others.length || all.size !== tensors.size) tensorFailure('the tensors are not those of the fields');
  for (const name of all) if (!tensors.has(name)) tensorFailure('a tensor is missing');
  for (const name of names) if (tensors.get(name).type.name !== 'float64') tensorFailure('statistics are not float64');
  for (const name of means) {
    const [mean, variance, count] = PARTS.map((part) => tensors.get(`${name}.${part}`).shape);
    if (!isSame(mean, variance) || count.length > 0) tensorFailure('the parts of statistics have other shapes');
  }
}

/** Settings and arrays of the two entries. */
function readBundledStatistics(settingsBytes, arraysBytes, budget) {
  const settings = readSettings(settingsBytes, budget);
  const { metadata, tensors } = readSafetensors(arraysBytes, budget);
  if (metadata.length > 0) tensorFailure('there is metadata');
  checkTensors(settings, tensors);
  if (settings.norm_obs_keys === null && Array.isArray(settings.obs_rms)) settings.norm_obs_keys = settings.obs_rms;
  return { settings, arrays: tensors };
}

module.exports = { readBundledStatistics };
