'use strict';

// What normalization statistics do to an observation (STATISTICS.md 17.3).

const { decodeBase64 } = require('../base64.js');
const { readBundledStatistics } = require('../statistics/bundled.js');
const { readPickledStatistics } = require('../statistics/pickled.js');
const { describeStatistics } = require('../statistics/statistics.js');
const { ITEMS } = require('../tags.js');
const { numbersOf } = require('./plain.js');

const clip = (value, bound) => Math.min(Math.max(value, -bound), bound);

/** A function of a key and the items of an observation. The key is null if observations have none. */
function normalizer(statistics, budget) {
  describeStatistics(statistics, budget); // checks them
  const { settings, arrays } = statistics;
  const numbers = (name) => numbersOf({ dtype: 'float64', [ITEMS]: () => arrays.get(name).items });
  return (key, items) => {
    if (!settings.norm_obs || !(key === null || settings.norm_obs_keys.includes(key))) return items;
    const name = key === null ? 'obs_rms' : `obs_rms/${key}`;
    const [mean, variance] = ['mean', 'var'].map((part) => numbers(`${name}.${part}`));
    return items.map((item, at) => Math.fround(clip((item - mean[at]) / Math.sqrt(variance[at] + settings.epsilon), settings.clip_obs)));
  };
}

module.exports = {
  fromBundle: (settings, arrays, budget) => normalizer(readBundledStatistics(settings, arrays, budget), budget),
  fromPickle: (text, budget) => normalizer(readPickledStatistics(decodeBase64(text).bytes, budget), budget),
};
