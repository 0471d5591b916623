'use strict';

// What normalization statistics do to an observation (STATISTICS.md 17.3).

const { decodeBase64 } = require('../base64.js');
const { readBundledStatistics } = require('../statistics/bundled.js');
const { readPickledStatistics } = require('../statistics/pickled.js');
const { checkStatistics } = require('../statistics/statistics.js');
const { ITEMS } = require('../tags.js');
const { numbersOf } = require('./plain.js');

const clip = (value, bound) => Math.min(Math.max(value, -bound), bound);

/** A function of a key (null without keys) and the items of an observation. */
function normalizer(statistics) {
  const { settings, arrays } = checkStatistics(statistics);
  const { norm_obs: isUsed, norm_obs_keys: keys, epsilon, clip_obs: bound } = settings;
  const read = (name) => numbersOf({ dtype: 'float64', [ITEMS]: () => arrays.get(name).items });
  return (key, items) => {
    if (!isUsed || (keys !== null && !keys.includes(key))) return items;
    const name = keys === null ? 'obs_rms' : `obs_rms/${key}`;
    const [mean, variance] = [read(`${name}.mean`), read(`${name}.var`)];
    return items.map((item, at) => Math.fround(clip((item - mean[at]) / Math.sqrt(variance[at] + epsilon), bound)));
  };
}

const normalizerOfPickle = (text, budget) => normalizer(readPickledStatistics(decodeBase64(text).bytes, budget));
const normalizerOfBundle = (settings, arrays, budget) => normalizer(readBundledStatistics(settings, arrays, budget));

module.exports = { normalizerOfBundle, normalizerOfPickle };
