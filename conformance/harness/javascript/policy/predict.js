'use strict';

// The output of `--predict` (conformance/README.md, "Policies"): what the policy of an archive does.

const {
  Refusal, invalid, missing, unsupported,
} = require('../errors.js');
const { decodeStateDict } = require('../pth.js');
const { decodeVersion } = require('../texts.js');
const { Arguments, isTrue, refuse } = require('./arguments.js');
const { Weights } = require('./layers.js');
const { buildPolicy } = require('./networks.js');
const { Reference } = require('./plain.js');
const { Settings } = require('./settings.js');
const {
  isImage, readArray, readJsonSpace, readObservations, readSpace,
} = require('./spaces.js');
const { fromBundle, fromPickle } = require('./statistics.js');
const { unwrap } = require('./wrappers.js');

const DATA = 'data';
const POLICY = 'policy.pth';
const VERSION = '_stable_baselines3_version';
const BUNDLED = ['vecnormalize.json', 'vecnormalize.safetensors'];
const UNCHANGED = (key, items) => items;
const NEEDED = ['policy_class', 'observation_space', 'action_space'];
const NEWEST = [2, 9];
/** A release for each group of releases with equal networks (FORMAT.md 6.8). */
const RELEASES = [NEWEST, [2, 1], [1, 7], [1, 6], [1, 5], [1, 2], [0, 9], [0, 7]];
const LAST_OF_MAJOR = new Map([[0, 11], [1, 8]]);

/** The releases whose networks an archive with this version may have: all if it has none, two of a pre-release. */
function listReleases(version) {
  const found = /^([0-9]{1,6})\.([0-9]{1,6})/.exec(version);
  if (found === null) return RELEASES;
  const [major, minor] = found.slice(1).map(Number);
  const before = minor > 0 ? [major, minor - 1] : [major - 1, LAST_OF_MAJOR.get(major - 1)];
  return /(a|b|rc|\.?dev)[0-9]/.test(version) ? [[major, minor], before[1] === undefined ? NEWEST : before] : [[major, minor]];
}

/** What `data` says about the policy. */
function describeArchive(entries, budget) {
  const settings = new Settings(entries.get(DATA)(), budget);
  if (!NEEDED.every((key) => settings.has(key))) unsupported('the policy class or a space is not known');
  const kwargs = settings.has('policy_kwargs') ? settings.get('policy_kwargs') : new Map();
  if (!(kwargs instanceof Map)) refuse(kwargs, 'policy_kwargs');
  if (![...kwargs.keys()].every((name) => typeof name === 'string')) invalid('the name of an argument is not a text');
  const rate = new Arguments(new Map([['exploration_rate', settings.get('exploration_rate') ?? 0]]));
  rate.number('exploration_rate', 0);
  return {
    isLone: false,
    policyClass: settings.get('policy_class'),
    kwargs,
    observations: readSpace(settings.get('observation_space')),
    actions: readSpace(settings.get('action_space')),
    usesSde: isTrue(settings.get('use_sde'), 'use_sde'),
    releases: listReleases(entries.has(VERSION) ? decodeVersion(entries.get(VERSION)()).version : ''),
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

function inferActions(weights) {
  const last = [...weights.tensors].filter(([name]) => /^q_net\.q_net\.[0-9]+\.weight$/.test(name)).at(-1);
  if (last === undefined) unsupported('the action space is not known');
  return { kind: 'Discrete', shape: [], n: last[1].shape[0] };
}

/** What is known of a lone state dict (19.10): the caller supplies the rest. */
function describeWeights(weights, given) {
  const [, policyClass] = FAMILIES.find(([prefix]) => [...weights.tensors.keys()].some((name) => name.startsWith(prefix))) ?? unsupported('an unknown policy');
  const arch = new Map(inferSizes(weights));
  const activation = given.policy_kwargs?.activation_fn;
  if ([...arch.values()].some((sizes) => sizes.length > 0) && activation === undefined) unsupported('the activation is not known');
  const first = [...weights.tensors].find(([name, { shape }]) => name.endsWith('.0.weight') && shape.length === 2)?.[1].shape[1];
  const vector = { kind: 'Box', shape: [first], low: { dtype: 'float32', items: [] }, high: { dtype: 'float32', items: [] } };
  if (given.observation_space === undefined) weights.checkParts(first);
  const observations = given.observation_space === undefined ? vector : readJsonSpace(given.observation_space, weights.budget);
  const kwargs = new Map([...Object.entries(given.policy_kwargs ?? {}), ['net_arch', policyClass.endsWith('DQNPolicy') ? arch.get('pi') : arch]]);
  if (activation !== undefined) kwargs.set('activation_fn', new Reference(`torch.nn.modules.activation.${activation}`));
  if (isImage(observations) && !kwargs.has('normalize_images')) unsupported('whether images are divided by 255 is not known');
  return {
    policyClass: new Reference(policyClass),
    kwargs,
    observations,
    actions: given.action_space === undefined ? inferActions(weights) : readJsonSpace(given.action_space, weights.budget),
    usesSde: false,
    releases: RELEASES,
    isLone: true,
  };
}

function readStatistics(entries, given, budget) {
  if (given.vecnormalize !== undefined) return fromPickle(given.vecnormalize, budget);
  if (!BUNDLED.some((name) => entries.has(name))) return UNCHANGED;
  const [settings, arrays] = BUNDLED.map((name) => entries.get(name) ?? missing('half of a bundle'));
  return fromBundle(settings(), arrays(), budget);
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
  const { isBatch, rows } = readObservations(policy.observations, step.observation, policy.statistics, policy.dividesImages);
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

/** The policy of the first release whose network has the names and shapes of the weights. */
function buildForReleases({ releases, ...described }, makeWeights) {
  const faults = [];
  for (const release of releases) {
    try {
      return buildPolicy({ ...described, release, weights: makeWeights() });
    } catch (error) {
      if (!(error instanceof Refusal) || error.outcome !== 'invalid') throw error;
      faults.push(error);
    }
  }
  throw faults[0];
}

function predict(entries, options, budget) {
  const given = options.predict;
  const bytes = (entries.get(POLICY) ?? missing('there is no policy.pth'))();
  budget.limits.set('leaves', Infinity); // which counts values that are listed
  const tag = unwrap(decodeStateDict(bytes, budget, options), budget);
  const makeWeights = () => new Weights(tag, budget);
  const described = entries.has(DATA) ? describeArchive(entries, budget) : describeWeights(makeWeights(), given);
  const run = buildForReleases(described, makeWeights);
  const dividesImages = new Arguments(described.kwargs).flag('normalize_images', true);
  const policy = { ...described, run, dividesImages, statistics: readStatistics(entries, given, budget) };
  const states = [];
  return { policy: { steps: given.steps.map((step) => runStep(policy, step, states)) } };
}

module.exports = { predict };
