'use strict';

// Normalization statistics (STATISTICS.md 17): the rules that pickles and bundles share, and what a decoder prints.

const { NUMPY_CODES } = require('../dtypes.js');
const { missing, tensorFailure, unsupported } = require('../errors.js');
const { isSame } = require('../geometry.js');
const { sha256, tagInteger } = require('../tags.js');
const { compareTexts } = require('../texts.js');
const { FLAGS, FORMAT_VERSION, NUMBERS } = require('./fields.js');
const { SpaceWriter, writeNumber } = require('./spaces.js');
const { checkLimits, sortedDict } = require('./tagged.js');

const NUMPY_TYPES = new Set([...NUMPY_CODES].filter(([code, type]) => code !== null && type.kind !== 'complex').map(([, type]) => type));

const isByKey = Array.isArray;

/** What the flags require (17.1.4). */
function checkRequired(settings) {
  const { norm_obs: isUsed, norm_obs_keys: keys, obs_rms: means } = settings;
  if (isUsed && means === null) missing('there are no statistics of observations');
  if (settings.norm_reward && settings.ret_rms === null) missing('there are no statistics of returns');
  if (!isUsed || keys === null) return;
  if (!isByKey(means)) unsupported('keys, but a single RunningMeanStd');
  for (const key of keys) if (!means.includes(key)) missing('a key that is normalized has no statistics');
}

function checkShape(space, array) {
  if (space.type === 'Box' && !isSame(space.shape, array.shape)) tensorFailure('statistics have another shape than their space');
}

/** The shapes and keys of statistics are those of the space. */
function checkSpace({ obs_rms: means, observation_space: space }, arrays) {
  if (space === null || means === null) return;
  if (!isByKey(means)) {
    checkShape(space, arrays.get('obs_rms.mean'));
    return;
  }
  if (space.type !== 'Dict') tensorFailure('statistics by key, but no Dict space');
  const parts = new Map(space.spaces);
  for (const key of means) if (!parts.has(key)) missing('the space lacks a key of the statistics');
  for (const key of means) checkShape(parts.get(key), arrays.get(`obs_rms/${key}.mean`));
}

/** Keys that a bundle cannot represent: as names of tensors, or twice. */
function checkKeys(settings) {
  const areNames = [settings.obs_rms, settings.old_obs].filter(isByKey).flat().every((key) => key.isWellFormed());
  if (!areNames || new Set(settings.norm_obs_keys).size < (settings.norm_obs_keys?.length ?? 0)) unsupported('keys that are not Unicode text, or occur twice');
}

const tagKeys = (field) => (isByKey(field) ? { list: field } : field);

/** The object of vecnormalize.json in canonical form (17.6.5). */
function writeSettings(settings, budget) {
  const writer = new SpaceWriter(budget);
  return sortedDict([
    ['format_version', FORMAT_VERSION], ['library', settings.library],
    ['num_envs', settings.num_envs === null ? null : tagInteger(settings.num_envs)],
    ...FLAGS.map((name) => [name, settings[name]]),
    ...NUMBERS.map((name) => [name, writeNumber(settings[name])]),
    ...['norm_obs_keys', 'obs_rms', 'ret_rms', 'old_obs', 'old_reward'].map((name) => [name, tagKeys(settings[name])]),
    ...['observation_space', 'action_space'].map((name) => [name, writer.write(settings[name])]),
  ]);
}

function writeArray({ type, shape, items }) {
  if (!NUMPY_TYPES.has(type)) unsupported('complex numbers, or a dtype that numpy does not have');
  return { array: { dtype: type.name, shape: shape.map(tagInteger), sha256: sha256(items) } };
}

/** Check settings and arrays of either form together. */
function checkStatistics({ settings, arrays }) {
  checkRequired(settings);
  if (settings.ret_rms !== null && arrays.get('ret_rms.mean').shape.length > 0) tensorFailure('statistics of returns have dimensions');
  checkSpace(settings, arrays);
  return { settings, arrays };
}

/** The output of `--statistics`. */
function describeStatistics(statistics, budget) {
  const { settings, arrays } = checkStatistics(statistics);
  checkKeys(settings);
  const written = writeSettings(settings, budget);
  checkLimits(written, budget);
  const listed = [...arrays].sort(([one], [other]) => compareTexts(one, other));
  return { statistics: { settings: written, arrays: listed.map(([name, array]) => [name, writeArray(array)]) } };
}

module.exports = { checkStatistics, describeStatistics };
