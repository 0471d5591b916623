'use strict';

// The output of `--predict` (conformance/README.md, "Policies"): what the policy of an archive does.

const { invalid, missing, unsupported } = require('../errors.js');
const { decodeStateDict } = require('../pth.js');
const { decodeVersion } = require('../texts.js');
const { Weights } = require('./layers.js');
const { buildPolicy } = require('./networks.js');
const { Reference } = require('./plain.js');
const { Settings } = require('./settings.js');
const {
  readArray, readJsonSpace, readObservations, readSpace,
} = require('./spaces.js');
const { normalizerOfBundle, normalizerOfPickle } = require('./statistics.js');
const { unwrap } = require('./wrappers.js');

const POLICY = 'policy.pth';
const VERSION = '_stable_baselines3_version';
const UNCHANGED = (key, items) => items;

/** What `data` says about the policy. */
function describeArchive(entries, budget) {
  const settings = new Settings((entries.get('data') ?? missing('there is no data'))(), budget);
  const kwargs = settings.get('policy_kwargs') ?? new Map();
  if (!(kwargs instanceof Map)) invalid('policy_kwargs is not a dict');
  return {
    policyClass: settings.get('policy_class'),
    kwargs,
    observations: readSpace(settings.get('observation_space')),
    actions: readSpace(settings.get('action_space')),
    usesSde: settings.get('use_sde') === true,
    release: entries.has(VERSION) ? decodeVersion(entries.get(VERSION)()).version : null,
  };
}

const FAMILIES = [
  ['q_net.', 'stable_baselines3.dqn.policies.DQNPolicy'],
  ['actor.log_std.', 'stable_baselines3.sac.policies.SACPolicy'],
  ['actor.mu.', 'stable_baselines3.td3.policies.TD3Policy'],
  ['value_net.', 'stable_baselines3.common.policies.ActorCriticPolicy'],
];
const LAYERS = [
  ['pi', /^(?:mlp_extractor\.policy_net|actor\.latent_pi|actor\.mu|q_net\.q_net)\.([0-9]+)\.weight$/],
  ['vf', /^mlp_extractor\.value_net\.([0-9]+)\.weight$/],
  ['qf', /^critic\.qf0\.([0-9]+)\.weight$/],
];
const WITH_OUTPUT = /^(actor\.mu|q_net|critic)/;

/** The sizes of hidden layers, from the names and shapes of a state dict. */
function inferSizes(weights) {
  return LAYERS.map(([branch, pattern]) => {
    const names = [...weights.tensors.keys()].filter((name) => pattern.test(name));
    const sizes = names.map((name) => weights.tensors.get(name).shape[0]);
    return [branch, names.length > 0 && WITH_OUTPUT.test(names[0]) ? sizes.slice(0, -1) : sizes];
  });
}

function inferActions(weights, policyClass) {
  const last = [...weights.tensors].filter(([name]) => /^q_net\.q_net\.[0-9]+\.weight$/.test(name)).at(-1);
  if (!policyClass.endsWith('DQNPolicy') || last === undefined) unsupported('the action space is not known');
  return { kind: 'Discrete', shape: [], n: last[1].shape[0] };
}

/** What is known of a lone state dict (19.10): the caller supplies the rest. */
function describeWeights(weights, given) {
  const [, policyClass] = FAMILIES.find(([prefix]) => [...weights.tensors.keys()].some((name) => name.startsWith(prefix))) ?? unsupported('an unknown policy');
  const arch = new Map(inferSizes(weights));
  const activation = given.policy_kwargs?.activation_fn;
  if ([...arch.values()].some((sizes) => sizes.length > 0) && activation === undefined) unsupported('the activation is not known');
  const first = [...weights.tensors].find(([name, { shape }]) => /\.0\.weight$/.test(name) && shape.length === 2)?.[1].shape[1];
  const vector = { kind: 'Box', shape: [first], low: { dtype: 'float32', items: [] }, high: { dtype: 'float32', items: [] } };
  const kwargs = new Map([['net_arch', policyClass.endsWith('DQNPolicy') ? arch.get('pi') : arch]]);
  if (activation !== undefined) kwargs.set('activation_fn', new Reference(`torch.nn.modules.activation.${activation}`));
  return {
    policyClass: new Reference(policyClass),
    kwargs,
    observations: given.observation_space === undefined ? vector : readJsonSpace(given.observation_space),
    actions: given.action_space === undefined ? inferActions(weights, policyClass) : readJsonSpace(given.action_space),
    usesSde: false,
    release: null,
  };
}

function readStatistics(entries, given, budget) {
  if (given.vecnormalize !== undefined) return normalizerOfPickle(given.vecnormalize, budget);
  const [settings, arrays] = ['vecnormalize.json', 'vecnormalize.safetensors'].map((name) => entries.get(name));
  return settings === undefined || arrays === undefined ? UNCHANGED : normalizerOfBundle(settings(), arrays(), budget);
}

/** The rows of a batch as one array. */
function stack(rows, dtype, isBatch = true) {
  return { dtype, shape: [...(isBatch ? [rows.length] : []), ...rows[0].shape], items: rows.flatMap(({ items }) => items) };
}

/** The states of a batch: hidden and cell, each (layers, environments, size). */
function stackStates(states) {
  return [0, 1].map((part) => {
    const layers = states[0].map((_, layer) => states.map((state) => state[layer][part]));
    return { dtype: '<f4', shape: [layers.length, states.length, layers[0][0].length], items: layers.flat(2) };
  });
}

/** What the numbers of a distribution have to be: torch draws no action from others (19.8). */
const DISTRIBUTIONS = { mean: (item) => !Number.isNaN(item), logits: (item) => item < Infinity };

function checkDistribution(outputs) {
  for (const [name, isValid] of Object.entries(DISTRIBUTIONS)) {
    if (!(outputs[name]?.items ?? []).every(isValid)) invalid(`the ${name} of the action are not numbers`);
  }
}

/** Run one step. `states` has the recurrent states of each environment, and is changed. */
function runStep(policy, step, states) {
  const { isBatch, rows } = readObservations(policy.observations, step.observation, policy.statistics, policy.kwargs.get('normalize_images') ?? true);
  const masks = step.action_masks === undefined ? null : readArray(step.action_masks).items;
  const starts = step.episode_start === undefined ? [] : readArray(step.episode_start).items;
  const found = rows.map((row, at) => {
    states[at] ??= {};
    states[at].isStart = Boolean(starts[at]);
    states[at].mask = masks === null ? undefined : masks.slice((at * masks.length) / rows.length, ((at + 1) * masks.length) / rows.length);
    const result = policy.run(row, states[at]);
    checkDistribution(result.outputs);
    return result;
  });
  const outputs = Object.keys(found[0].outputs).map((name) => [name, stack(found.map((row) => row.outputs[name]), '<f4')]);
  const actions = found.map(({ action }) => ({ shape: policy.actions.shape, items: action.items }));
  return {
    action: stack(actions, found[0].action.dtype, isBatch),
    ...(states[0].actor === undefined ? {} : { state: stackStates(states.slice(0, rows.length).map(({ actor }) => actor)) }),
    outputs: Object.fromEntries(outputs),
  };
}

function predict(form, entries, options, budget) {
  const given = options.predict;
  const bytes = (entries.get(POLICY) ?? missing('there is no policy.pth'))();
  const weights = new Weights(unwrap(decodeStateDict(bytes, budget, options), budget), budget);
  const described = form === 'pth' ? describeWeights(weights, given) : describeArchive(entries, budget);
  const run = buildPolicy({ ...described, weights });
  const policy = { ...described, run, statistics: readStatistics(entries, given, budget) };
  const states = [];
  return { policy: { steps: given.steps.map((step) => runStep(policy, step, states)) } };
}

module.exports = { predict };
