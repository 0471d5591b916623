'use strict';

// Normalization statistics (STATISTICS.md 17) and what they do to an observation (17.3).

const { decodeBase64 } = require('../base64.js');
const { missing, tensorFailure, unsupported } = require('../errors.js');
const { parseObject } = require('../json.js');
const { Instance, numbersOf } = require('./plain.js');
const { plainJson, readPickled } = require('./settings.js');
const { readSafetensors } = require('../safetensors.js');
const { ITEMS } = require('../tags.js');

const WHOLE = null; // the key of statistics without keys

const clip = (value, bound) => Math.min(Math.max(value, -bound), bound);

/** A function of a key and the items of an observation. */
function normalizer({ isUsed, keys, moments, epsilon, bound }) {
  return (key, items) => {
    if (!isUsed || (keys !== null && !keys.includes(key))) return items;
    const { mean, variance } = moments.get(key) ?? missing('there are no statistics for a key');
    return items.map((item, at) => Math.fround(clip((item - mean[at]) / Math.sqrt(variance[at] + epsilon), bound)));
  };
}

/** Statistics of a pickle (17.1). */
function readPickledStatistics(text, budget) {
  const value = readPickled(decodeBase64(text).bytes, budget);
  if (!(value instanceof Instance)) unsupported('a pickle of something else than statistics');
  const get = (name) => value.state.get(name) ?? null;
  const rms = get('obs_rms');
  const read = ({ state }) => ({ mean: state.get('mean').items, variance: state.get('var').items });
  return normalizer({
    isUsed: get('norm_obs'), keys: get('norm_obs_keys'), epsilon: get('epsilon'), bound: get('clip_obs'),
    moments: new Map((rms instanceof Map ? [...rms] : [[WHOLE, rms]]).map(([key, moments]) => [key, read(moments)])),
  });
}

/** Statistics of a bundle (17.5). */
function readBundledStatistics(settingsBytes, arrays, budget) {
  const settings = plainJson(parseObject(settingsBytes, budget));
  const { tensors } = readSafetensors(arrays, budget);
  const read = (name) => {
    const { type, items } = tensors.get(name) ?? tensorFailure('a statistic has no array');
    if (type.name !== 'float64') tensorFailure('statistics that are not float64');
    return numbersOf({ dtype: 'float64', [ITEMS]: () => items });
  };
  const names = settings.get('obs_rms') === 'array' ? [[WHOLE, 'obs_rms']] : (settings.get('obs_rms') ?? []).map((key) => [key, `obs_rms/${key}`]);
  return normalizer({
    isUsed: settings.get('norm_obs'), keys: settings.get('norm_obs_keys'), epsilon: settings.get('epsilon'), bound: settings.get('clip_obs'),
    moments: new Map(names.map(([key, name]) => [key, { mean: read(`${name}.mean`), variance: read(`${name}.var`) }])),
  });
}

module.exports = { readBundledStatistics, readPickledStatistics };
