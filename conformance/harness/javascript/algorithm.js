'use strict';

// The algorithm that wrote an archive (FORMAT.md 4.3): inferred, because no entry names it.

const { readValues } = require('./data.js');
const { attempt } = require('./errors.js');
const { Global } = require('./nodes.js');
const { readWholePickle } = require('./opcodes.js');
const { asciiText } = require('./pickle_text.js');

const ENTROPY_OPTIMIZER = 'ent_coef_optimizer.pth';
const PPO_POLICIES = new Set(['stable_baselines3.common.policies', 'stable_baselines3.ppo.policies']);
const MOST_BYTES = 4096; // of a blob that refers to a class
const SBX_MODULE = /^sbx\.[^.]+(\.[^]*)?$/;
const SBX_TYPE = /^<class 'sbx\.[^.]+\.[^]+'>$/;

/** Names, and keys that are all in `data`. The first row that matches applies. */
const ROWS = [
  ['ARS', ['n_delta', 'delta_std']],
  ['ARS', ['n_delta', 'pop_size']],
  ['HER', ['model_class', 'n_sampled_goal']],
  ['TQC', ['top_quantiles_to_drop_per_net']],
  ['TRPO', ['cg_max_steps']],
  ['QRDQN', ['n_quantiles']],
  ['DQN', ['exploration_fraction']],
  ['CrossQ', ['target_entropy', 'policy_delay']],
  ['SAC', ['target_entropy', 'ent_coef']],
  ['TD3', ['policy_delay', 'target_policy_noise']],
  ['PPO', ['n_epochs']],
  ['A2C', ['n_steps', 'gae_lambda', 'vf_coef']],
];

const VARIANTS_OF_PPO = new Map([
  ['sb3_contrib.common.maskable.policies', 'MaskablePPO'],
  ['sb3_contrib.ppo_mask.policies', 'MaskablePPO'],
  ['sb3_contrib.common.recurrent.policies', 'RecurrentPPO'],
  ['sb3_contrib.ppo_recurrent.policies', 'RecurrentPPO'],
]);

const modulesOf = (library, names) => names.map((name) => [`${library}.${name.toLowerCase()}.policies`, name]);

const BY_MODULE = new Map([
  ...modulesOf('stable_baselines3', ['PPO', 'A2C', 'DQN', 'SAC', 'TD3']),
  ...modulesOf('sb3_contrib', ['TQC', 'QRDQN', 'TRPO', 'ARS', 'CrossQ']),
  ...VARIANTS_OF_PPO,
]);

const certainly = (algorithm) => ({ algorithm, certain: true });
const perhaps = (algorithm) => ({ algorithm, certain: false });

/** The class that a blob refers to; null for any other blob, and for one that is refused. */
function classOf(pickle, budget) {
  if (pickle === undefined || pickle.length > MOST_BYTES) return null;
  const result = attempt(() => readWholePickle(pickle, budget, asciiText).result);
  return result instanceof Global ? result : null;
}

const isNumber = (value, number) => value === number || (value?.float !== undefined && Buffer.from(value.float, 'hex').readDoubleBE() === number);

function inferPpo(values, module) {
  if (VARIANTS_OF_PPO.has(module)) return certainly(VARIANTS_OF_PPO.get(module));
  if (values.has('_current_progress')) return perhaps(isNumber(values.get('n_epochs'), 1) ? 'A2C' : 'PPO');
  return { algorithm: 'PPO', certain: PPO_POLICIES.has(module) };
}

function inferTd3(values) {
  const isDdpg = isNumber(values.get('policy_delay'), 1) && isNumber(values.get('target_noise_clip'), 0);
  return isDdpg ? perhaps('DDPG') : certainly('TD3');
}

const EXCEPTIONS = new Map([['PPO', inferPpo], ['TD3', inferTd3]]);

function inferByModule(module, entries) {
  if (BY_MODULE.has(module)) return certainly(BY_MODULE.get(module));
  if (module === 'stable_baselines3.common.policies') return perhaps('PPO');
  return perhaps(entries.has(ENTROPY_OPTIMIZER) ? 'SAC' : null);
}

/** The output of `--algorithm`. */
function inferAlgorithm(entries, budget) {
  const values = entries.has('data') ? readValues(entries.get('data')(), budget) : new Map();
  const module = classOf(values.get('policy_class')?.pickle, budget)?.module ?? '';
  if (SBX_MODULE.test(module) || SBX_TYPE.test(values.get('policy')?.type ?? '')) return perhaps(null);
  const [name] = ROWS.find(([, keys]) => keys.every((key) => values.has(key))) ?? [null];
  if (name === null) return inferByModule(module, entries);
  return EXCEPTIONS.has(name) ? EXCEPTIONS.get(name)(values, module) : certainly(name);
}

module.exports = { inferAlgorithm };
