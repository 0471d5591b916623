'use strict';

// The fields of vecnormalize.json (STATISTICS.md 17.5).

const NUMBERS = ['clip_obs', 'clip_reward', 'gamma', 'epsilon'];
const FLAGS = ['training', 'norm_obs', 'norm_reward'];
const OTHERS = ['format_version', 'library', 'num_envs', 'norm_obs_keys', 'obs_rms', 'old_obs', 'ret_rms', 'old_reward', 'observation_space', 'action_space'];
const FORMAT_VERSION = 1;
const MOST_ENVS = 2n ** 31n - 1n;

module.exports = {
  FLAGS, FORMAT_VERSION, MOST_ENVS, NUMBERS, OTHERS,
};
