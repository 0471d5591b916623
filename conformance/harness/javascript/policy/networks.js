'use strict';

// The networks of SB3's policies (FORMAT.md 6.8, POLICIES.md 19.4 to 19.8): from an encoded observation to the action and outputs.

const { invalid, unsupported } = require('../errors.js');
const {
  MODULES, logSoftmax, readActivation, sigmoid, softmax,
} = require('./activations.js');
const {
  linear, lstm, mlp, natureCnn,
} = require('./layers.js');
const { Reference } = require('./plain.js');
const { encodedSize, product } = require('./spaces.js');

const MASKED = -1e8;
const LIKELY = 1.5 * 2 ** -24;
const GSDE_EPSILON = 1e-6;
const clip = (x, low, high) => Math.min(Math.max(x, low), high);
const tanh = (vector) => vector.map((item) => Math.fround(Math.tanh(item)));
const mean = (items) => items.reduce((sum, item) => sum + item, 0) / items.length;
const argMax = (items) => items.reduce((best, item, at) => (item > items[best] ? at : best), 0);
const plain = (items) => ({ shape: [items.length], items });

/** What a policy is made of: its settings, spaces and weights. */
class Agent {
  constructor(kind, className, { kwargs, ...described }) {
    Object.assign(this, { kind, className, kwargs, ...described });
    const fallback = new Reference(`${MODULES}activation.${ON_POLICY.has(kind) ? 'Tanh' : 'ReLU'}`);
    this.activation = readActivation(kwargs.get('activation_fn') ?? fallback);
    this.hasCnn = this.extractorClass() === 'NatureCNN';
  }

  /** Whether the release that wrote the archive is known, and older. */
  isBefore(major, minor) {
    const [, ...numbers] = /^([0-9]+)\.([0-9]+)/.exec(this.release ?? '') ?? [];
    return numbers.length > 0 && (Number(numbers[0]) < major || (Number(numbers[0]) === major && Number(numbers[1]) < minor));
  }

  option(name, fallback) {
    return this.kwargs.get(name) ?? fallback;
  }

  extractorClass() {
    const given = this.kwargs.get('features_extractor_class') ?? null;
    if (given === null) return /Cnn/.test(this.className) ? 'NatureCNN' : /MultiInput/.test(this.className) ? 'CombinedExtractor' : 'FlattenExtractor';
    const [, name] = (given instanceof Reference && /^stable_baselines3\.common\.torch_layers\.(FlattenExtractor|NatureCNN|CombinedExtractor)$/.exec(given.name)) || [];
    return name ?? unsupported('an unknown features extractor');
  }

  /** A features extractor: a function of an encoded observation, and the number of features. */
  extractor(module) {
    const type = this.extractorClass();
    const options = this.option('features_extractor_kwargs', new Map());
    if ((type === 'CombinedExtractor') !== (this.observations.kind === 'Dict')) invalid(`a ${type} of such observations`);
    if (type === 'NatureCNN') {
      const size = options.get('features_dim') ?? 512;
      const cnn = natureCnn(this.weights, module, this.observations.shape, size);
      return { run: (parts) => cnn(parts.get(null)), size };
    }
    if (type === 'FlattenExtractor') {
      this.weights.charge(encodedSize(this.observations));
      return { run: (parts) => parts.get(null), size: encodedSize(this.observations) };
    }
    this.weights.budget.check('other_keys', this.observations.parts.length);
    const parts = this.observations.parts.map(([key, space]) => this.combinedPart(module, key, space, options.get('cnn_output_dim') ?? 256));
    return { run: (all) => parts.flatMap(({ run }) => run(all)), size: parts.reduce((sum, { size }) => sum + size, 0) };
  }

  combinedPart(module, key, space, size) {
    const name = `${module}.extractors.${key}`;
    if (!this.weights.has(name)) return { run: (all) => all.get(key), size: encodedSize(space) };
    const cnn = natureCnn(this.weights, name, space.shape, size);
    return { run: (all) => cnn(all.get(key)), size };
  }

  /** The sizes of the hidden layers of two branches. */
  branches(names, fallback) {
    const given = this.kwargs.get('net_arch') ?? fallback;
    const [last] = given instanceof Map ? [given] : given.slice(-1);
    const found = last instanceof Map ? names.map((name) => last.get(name) ?? []) : names.map(() => given);
    found.forEach((sizes) => this.weights.checkLayers(sizes.length));
    return found;
  }

  mlp(module, inputs, sizes, options = {}) {
    return mlp(this.weights, module, inputs, sizes, { activation: this.activation, ...options });
  }

  // -- actions

  get choices() {
    const { actions } = this;
    if (actions.kind === 'Discrete') return [actions.n];
    if (actions.kind === 'MultiDiscrete') return actions.nvec;
    return new Array(this.weights.checkParts(product(actions.shape))).fill(2);
  }

  get actionSize() {
    if (this.actions.kind === 'Box') return product(this.actions.shape);
    if (this.actions.kind === 'MultiBinary' && this.kind !== 'maskable') return product(this.actions.shape);
    return this.choices.reduce((sum, count) => sum + count, 0);
  }

  components(vector) {
    let start = 0;
    return this.choices.map((count) => vector.slice(start, (start += count)));
  }

  /** The action of a Box. */
  box(vector, isSquashed) {
    const { low, high } = this.actions;
    const isDouble = !['uint8', 'int8', 'uint16', 'int16', 'float32'].includes(low.dtype);
    const items = vector.map((x, at) => {
      const [least, most] = [low.items[at], high.items[at]];
      const value = isSquashed ? least + 0.5 * (x + 1) * (most - least) : clip(x, least, most);
      return isDouble ? value : Math.fround(value);
    });
    return { dtype: isDouble ? '<f8' : '<f4', items };
  }

  /** The action and outputs of scores of choices. */
  choice(raw, mask) {
    const apply = (items) => items.map((item, at) => (mask === undefined || mask[at] ? item : MASKED));
    let scores = this.components(raw).map(logSoftmax);
    if (this.kind === 'maskable') scores = this.components(apply(scores.flat())).map(logSoftmax);
    const logits = apply(raw);
    const probabilities = this.components(logits).flatMap(softmax);
    return { action: { dtype: '<i8', items: scores.map(argMax) }, outputs: { logits: plain(logits), probabilities: plain(probabilities) } };
  }

  bits(logits) {
    const probabilities = logits.map((item) => Math.fround(sigmoid(item)));
    const items = logits.map((item) => (item > LIKELY ? 1 : 0));
    return { action: { dtype: '<f4', items }, outputs: { logits: plain(logits), probabilities: plain(probabilities) } };
  }

  /** The logarithm of the standard deviation with gSDE: a function of the features before the last layer. */
  gsde(name, latentSize) {
    const columns = this.option('full_std', true) ? this.weights.checkParts(this.actionSize) : 1;
    const logs = this.weights.take(name, [latentSize, columns]);
    const std = logs.map((item) => (this.option('use_expln', false) && item > 0 ? Math.log1p(item + GSDE_EPSILON) + 1 : Math.exp(item)));
    return (latent) => Array.from({ length: this.actionSize }, (_, action) => {
      const variance = latent.reduce((sum, item, row) => sum + (item * std[row * columns + (action % columns)]) ** 2, 0);
      return Math.fround(Math.log(variance + GSDE_EPSILON) / 2);
    });
  }
}

// -- on-policy

function onPolicy(agent) {
  const { weights } = agent;
  const isShared = agent.option('share_features_extractor', true);
  const actorFeatures = agent.extractor(isShared ? 'features_extractor' : 'pi_features_extractor');
  const criticFeatures = isShared ? actorFeatures : agent.extractor('vf_features_extractor');
  const recurrence = agent.kind === 'recurrent' ? recurrent(agent, actorFeatures.size) : null;
  const [pi, vf] = agent.branches(['pi', 'vf'], agent.hasCnn ? [] : [64, 64]);
  const inputs = recurrence?.size ?? actorFeatures.size;
  const common = (agent.kwargs.get('net_arch') ?? []) instanceof Map || !weights.has('mlp_extractor.shared_net') ? []
    : agent.kwargs.get('net_arch').filter((size) => typeof size === 'number');
  const shared = agent.mlp('mlp_extractor.shared_net', inputs, common);
  const [actor, critic] = [['policy_net', pi], ['value_net', vf]].map(([name, sizes]) => agent.mlp(`mlp_extractor.${name}`, shared.size, sizes));
  const action = actionHead(agent, actor.size);
  const value = linear(weights, 'value_net', critic.size, 1);
  return (parts, options) => {
    const latent = recurrence === null ? actorFeatures.run(parts) : recurrence.actor(actorFeatures.run(parts), options);
    const seen = recurrence === null ? criticFeatures.run(parts) : recurrence.critic(criticFeatures.run(parts), latent, options);
    const found = action(actor.run(shared.run(latent)), options);
    return { ...found, outputs: { ...found.outputs, value: plain(value(critic.run(shared.run(seen)))) } };
  };
}

/** The LSTMs of RecurrentPPO. Their states are in the options: the actor's is replaced by the next one. */
function recurrent(agent, inputs) {
  const size = agent.option('lstm_hidden_size', 256);
  const count = agent.option('n_lstm_layers', 1);
  agent.weights.checkLayers(count);
  const options = agent.option('lstm_kwargs', new Map());
  if (['bidirectional', 'proj_size', 'batch_first'].some((name) => options.get(name))) unsupported('such an LSTM');
  const make = (module) => lstm(agent.weights, module, inputs, size, count, options.get('bias') ?? true);
  const actor = make('lstm_actor');
  const critic = agent.option('enable_critic_lstm', true) ? make('lstm_critic') : null;
  const layer = critic === null && !agent.option('shared_lstm', false) ? linear(agent.weights, 'critic', inputs, size) : null;
  const step = (run, features, given, whose) => {
    const zeros = Array.from({ length: count }, () => [new Array(size).fill(0), new Array(size).fill(0)]);
    const before = given.isStart || given[whose] === undefined ? zeros : given[whose];
    given[whose] = run(features, before);
    return given[whose][count - 1][0];
  };
  return {
    size,
    actor: (features, given) => step(actor, features, given, 'actor'),
    critic: (features, latent, given) => (critic === null ? layer?.(features) ?? latent : step(critic, features, given, 'critic')),
  };
}

/** The last layer of the actor, and the action. */
function actionHead(agent, inputs) {
  const { weights, actions } = agent;
  const layer = linear(weights, 'action_net', inputs, agent.actionSize);
  if (actions.kind === 'Box') {
    const spread = agent.usesSde ? agent.gsde('log_std', inputs) : null;
    const fixed = agent.usesSde ? null : weights.take('log_std', [agent.actionSize]);
    const isSquashed = agent.usesSde && agent.option('squash_output', false);
    return (latent) => {
      const middle = layer(latent);
      const outputs = { mean: plain(middle), log_std: plain(spread === null ? fixed : spread(latent)) };
      return { action: agent.box(isSquashed ? tanh(middle) : middle, isSquashed), outputs };
    };
  }
  if (actions.kind === 'MultiBinary' && agent.kind !== 'maskable') return (latent) => agent.bits(layer(latent));
  return (latent, { mask }) => agent.choice(layer(latent), mask);
}

// -- off-policy

function criticsOf(agent, sizes, options = {}) {
  const features = agent.extractor('critic.features_extractor');
  const count = agent.option('n_critics', 2);
  agent.weights.checkLayers(Number(count) * (sizes.length + 1));
  const outputs = agent.kind === 'tqc' ? agent.option('n_quantiles', 25) : 1;
  const inputs = features.size + agent.actionSize;
  const isOld = agent.weights.has('critic.q1_net');
  const networks = Array.from({ length: Number(count) }, (_, number) => {
    const name = isOld ? `critic.q${number + 1}_net` : `critic.qf${number}`;
    return agent.mlp(name, inputs, sizes, { ...options, outputs });
  });
  return (parts, scaled) => {
    const seen = [...features.run(parts), ...scaled];
    const found = networks.map(({ run }) => run(seen));
    if (agent.kind !== 'tqc') return { q_values: plain(found.flat()) };
    return { q_values: plain(found.map(mean)), quantiles: { shape: [found.length, outputs], items: found.flat() } };
  };
}

function gaussianActor(agent) {
  const { weights } = agent;
  const isCrossq = agent.kind === 'crossq';
  const [pi, qf] = agent.branches(['pi', 'qf'], [256, 256]);
  const widths = isCrossq && !agent.kwargs.has('net_arch') ? [1024, 1024] : qf;
  const options = isCrossq && agent.option('batch_norm', true) ? { epsilon: agent.option('batch_norm_eps', 0.001) } : {};
  const features = agent.extractor('actor.features_extractor');
  const latent = agent.mlp('actor.latent_pi', features.size, pi, options);
  const head = agent.option('use_sde', false) ? gsdeHead(agent, latent.size) : gaussianHead(weights, latent.size, agent.actionSize);
  const critics = criticsOf(agent, widths, options);
  return (parts) => {
    const { middle, logStd } = head(latent.run(features.run(parts)));
    const scaled = tanh(middle);
    return { action: agent.box(scaled, true), outputs: { mean: plain(middle), log_std: plain(logStd), ...critics(parts, scaled) } };
  };
}

function gaussianHead(weights, inputs, outputs) {
  const [mu, logStd] = ['actor.mu', 'actor.log_std'].map((name) => linear(weights, name, inputs, outputs));
  return (latent) => ({ middle: mu(latent), logStd: logStd(latent).map((item) => clip(item, -20, 2)) });
}

function gsdeHead(agent, inputs) {
  const bound = agent.option('clip_mean', 2);
  const mu = linear(agent.weights, bound > 0 ? 'actor.mu.0' : 'actor.mu', inputs, agent.actionSize);
  const spread = agent.gsde('actor.log_std', inputs);
  return (latent) => ({ middle: mu(latent).map((item) => (bound > 0 ? clip(item, -bound, bound) : item)), logStd: spread(latent) });
}

function deterministicActor(agent) {
  const [pi, qf] = agent.branches(['pi', 'qf'], agent.hasCnn ? [256, 256] : [400, 300]);
  const features = agent.extractor('actor.features_extractor');
  const mu = agent.mlp('actor.mu', features.size, pi, { outputs: agent.actionSize });
  const critics = criticsOf(agent, qf);
  return (parts) => {
    const scaled = tanh(mu.run(features.run(parts)));
    return { action: agent.box(scaled, true), outputs: critics(parts, scaled) };
  };
}

/** The network of DQN and QR-DQN: its results, and the mean of each action's. */
function qNetwork(agent, name, count) {
  const features = agent.extractor(`${name}.features_extractor`);
  const actions = agent.actionSize;
  const [sizes] = agent.branches(['qf'], agent.hasCnn ? [] : [64, 64]);
  const network = agent.mlp(`${name}.${name}`, features.size, sizes, { outputs: actions * count });
  return (parts) => {
    const items = network.run(features.run(parts));
    const values = Array.from({ length: actions }, (_, action) => mean(items.filter((_item, at) => at % actions === action)));
    return { items, action: { dtype: '<i8', items: [argMax(values)] }, outputs: { q_values: plain(values) } };
  };
}

function dqn(agent) {
  return qNetwork(agent, 'q_net', 1);
}

function qrdqn(agent) {
  const count = agent.option('n_quantiles', 200);
  const run = qNetwork(agent, 'quantile_net', count);
  return (parts) => {
    const { items, action, outputs } = run(parts);
    return { action, outputs: { ...outputs, quantiles: { shape: [count, agent.actionSize], items } } };
  };
}

function ars(agent) {
  const isLinear = agent.className === 'ARSLinearPolicy';
  const features = agent.extractor('features_extractor');
  const hasBias = agent.option('with_bias', !isLinear);
  const [sizes] = isLinear ? [[]] : agent.branches(['pi'], [64, 64]);
  const network = agent.weights.tensors.has('action_net.weight')
    ? { run: linear(agent.weights, 'action_net', features.size, agent.actionSize, hasBias) }
    : agent.mlp('action_net', features.size, sizes, { outputs: agent.actionSize, hasBias });
  const endsWithTanh = !isLinear && agent.isBefore(1, 7);
  const isSquashed = agent.option('squash_output', !isLinear);
  return (parts) => {
    const found = network.run(features.run(parts));
    if (agent.actions.kind === 'Box') return { action: agent.box(isSquashed || endsWithTanh ? tanh(found) : found, isSquashed), outputs: {} };
    return { action: { dtype: '<i8', items: [argMax(found)] }, outputs: { scores: plain(found) } };
  };
}

// -- classes

const ON_POLICY = new Set(['on-policy', 'maskable', 'recurrent']);

/** Rows of a Map: classes of a module, and how their policies are made. */
const classes = (module, names, kind, make) => names.split(' ').map((name) => [`${module}.policies.${name}`, { kind, name, make }]);

const POLICIES = new Map([
  ...classes('stable_baselines3.common', 'ActorCriticPolicy ActorCriticCnnPolicy MultiInputActorCriticPolicy', 'on-policy', onPolicy),
  ...classes('stable_baselines3.ppo', 'PPOPolicy CnnPolicy', 'on-policy', onPolicy),
  ...classes('sb3_contrib.common.maskable', 'MaskableActorCriticPolicy MaskableActorCriticCnnPolicy MaskableMultiInputActorCriticPolicy', 'maskable', onPolicy),
  ...classes('sb3_contrib.common.recurrent', 'RecurrentActorCriticPolicy RecurrentActorCriticCnnPolicy RecurrentMultiInputActorCriticPolicy', 'recurrent', onPolicy),
  ...classes('stable_baselines3.sac', 'SACPolicy CnnPolicy MultiInputPolicy', 'sac', gaussianActor),
  ...classes('sb3_contrib.tqc', 'TQCPolicy CnnPolicy MultiInputPolicy', 'tqc', gaussianActor),
  ...classes('sb3_contrib.crossq', 'CrossQPolicy MultiInputPolicy', 'crossq', gaussianActor),
  ...classes('stable_baselines3.td3', 'TD3Policy CnnPolicy MultiInputPolicy', 'td3', deterministicActor),
  ...classes('stable_baselines3.dqn', 'DQNPolicy CnnPolicy MultiInputPolicy', 'dqn', dqn),
  ...classes('sb3_contrib.qrdqn', 'QRDQNPolicy CnnPolicy MultiInputPolicy', 'qrdqn', qrdqn),
  ...classes('sb3_contrib.ars', 'ARSPolicy ARSLinearPolicy', 'ars', ars),
]);

/** A function of an encoded observation, made of the policy that `data` describes. */
function buildPolicy({ policyClass, ...described }) {
  const found = policyClass instanceof Reference ? POLICIES.get(policyClass.name) : undefined;
  if (found === undefined) unsupported('an unknown policy');
  const run = found.make(new Agent(found.kind, found.name, described));
  described.weights.finish();
  return run;
}

module.exports = { buildPolicy };
