'use strict';

// The networks of SB3's policies (FORMAT.md 6.8, POLICIES.md 19.4 to 19.8): from an encoded observation to the action and outputs.

const { invalid, unsupported } = require('../errors.js');
const {
  MODULES, logSoftmax, readActivation, sigmoid, softmax,
} = require('./activations.js');
const {
  Arguments, acceptedNames, readSizes, refuse,
} = require('./arguments.js');
const {
  linear, lstm, mlp, natureCnn,
} = require('./layers.js');
const { Reference } = require('./plain.js');
const { encodedSize, isImage, product } = require('./spaces.js');

const MASKED = -1e8;
const LIKELY = 1.5 * 2 ** -24;
const GSDE_EPSILON = 1e-6;
const clip = (x, low, high) => Math.min(Math.max(x, low), high);
const tanh = (vector) => vector.map((item) => Math.fround(Math.tanh(item)));
const mean = (items) => items.reduce((sum, item) => sum + item, 0) / items.length;
const argMax = (items) => items.reduce((best, item, at) => (item > items[best] ? at : best), 0);
const plain = (items) => ({ shape: [items.length], items });

const LARGEST = 3.4028234663852886e38; // of float32
const EXTRACTORS = /^stable_baselines3\.common\.torch_layers\.(FlattenExtractor|NatureCNN|CombinedExtractor)$/;
const WITH_GSDE = new Set(['sac', 'tqc', 'crossq']);

/** What a policy is made of: its arguments, spaces and weights. */
class Agent {
  constructor(kind, className, { kwargs, ...described }) {
    Object.assign(this, { kind, className, ...described });
    this.arguments = new Arguments(kwargs);
    this.checkArguments();
    const fallback = new Reference(`${MODULES}activation.${ON_POLICY.has(kind) ? 'Tanh' : 'ReLU'}`);
    this.activation = readActivation(this.arguments.get('activation_fn', fallback));
    this.hasCnn = this.extractorClass() === 'NatureCNN';
    this.arguments.flag('normalize_images', true);
  }

  checkArguments() {
    this.arguments.refuseOthers(acceptedNames(this.kind, (major, minor) => this.isBefore(major, minor)));
    if (this.arguments.nested('optimizer_kwargs').has('lr')) invalid('SB3 itself passes lr to the optimizer');
    const isOnPolicy = this.kind === 'on-policy' || this.kind === 'recurrent';
    const hasGsde = isOnPolicy ? this.actions.kind === 'Box' : WITH_GSDE.has(this.kind) && this.arguments.flag('use_sde', false);
    if (this.usesSde && !hasGsde) invalid('the policy has no gSDE');
    if (isOnPolicy ? this.actions.kind === 'Box' : hasGsde) this.arguments.requireNumber('log_std_init');
    if (isOnPolicy && this.arguments.flag('squash_output', false) && !this.usesSde && !this.isBefore(2, 2)) invalid('squash_output needs gSDE');
  }

  /** Refuse actions of a space that the policy does not have. */
  requireActions(...kinds) {
    if (!kinds.includes(this.actions.kind)) invalid(`the policy has no actions that are a ${this.actions.kind}`);
    if (this.actions.kind.startsWith('Multi') && this.actions.shape.length !== 1) invalid('the components of an action have several dimensions');
  }

  /** Whether the release of the network is older. */
  isBefore(major, minor) {
    const [ofNetwork, other] = this.release;
    return ofNetwork < major || (ofNetwork === major && other < minor);
  }

  extractorClass() {
    if (!this.arguments.has('features_extractor_class')) return /Cnn/.test(this.className) ? 'NatureCNN' : /MultiInput/.test(this.className) ? 'CombinedExtractor' : 'FlattenExtractor';
    const given = this.arguments.get('features_extractor_class');
    if (!(given instanceof Reference)) refuse(given, 'features_extractor_class');
    return EXTRACTORS.exec(given.name)?.[1] ?? unsupported('an unknown features extractor');
  }

  /** A features extractor: a function of an encoded observation, and the number of features. */
  extractor(module) {
    const { kind, shape } = this.observations;
    const type = this.extractorClass();
    if ((type === 'CombinedExtractor') !== (kind === 'Dict')) invalid(`a ${type} of such observations`);
    if (type === 'CombinedExtractor' && this.isBefore(1, 1)) unsupported('releases before 1.1 have no CombinedExtractor');
    const made = type === 'NatureCNN' ? this.cnn(module, shape) : type === 'FlattenExtractor' ? this.flattened() : this.combined(module);
    if (made.size < 1) invalid('there is no feature');
    return made;
  }

  /** The arguments of an extractor, which has one size, and whether images may have any dtype and bounds. */
  extractorOptions(size, fallback, least) {
    const options = this.arguments.nested('features_extractor_kwargs');
    const hasFlag = !this.isBefore(1, 7);
    options.refuseOthers(new Set([size, ...(hasFlag ? ['normalized_image'] : [])]));
    const isNormalized = (hasFlag && !this.arguments.flag('normalize_images', true)) || options.flag('normalized_image', false);
    const isFit = (space) => (isNormalized ? space.kind === 'Box' && space.shape.length === 3 : isImage(space));
    return { size: options.size(size, fallback, least), isFit };
  }

  cnn(module, shape) {
    const { size, isFit } = this.extractorOptions('features_dim', 512, 1);
    if (!isFit(this.observations)) invalid('a NatureCNN of observations that are not images');
    const run = natureCnn(this.weights, module, shape, size, this.isBefore(0, 8));
    return { run: (parts) => run(parts.get(null)), size };
  }

  flattened() {
    this.arguments.nested('features_extractor_kwargs').refuseOthers(new Set());
    this.weights.charge(encodedSize(this.observations));
    return { run: (parts) => parts.get(null), size: encodedSize(this.observations) };
  }

  combined(module) {
    const { size, isFit } = this.extractorOptions('cnn_output_dim', 256, 0);
    this.weights.budget.check('other_keys', this.observations.parts.length);
    const parts = this.observations.parts.map(([key, space]) => {
      if (key === '' || key.includes('.')) invalid('a key cannot be the name of a module in torch');
      if (space.kind === 'Dict') invalid('a Dict within a Dict');
      if (!isFit(space)) return { run: (all) => all.get(key), size: encodedSize(space) };
      const cnn = natureCnn(this.weights, `${module}.extractors.${key}`, space.shape, size, this.isBefore(0, 8));
      return { run: (all) => cnn(all.get(key)), size };
    });
    return { run: (all) => parts.flatMap(({ run }) => run(all)), size: parts.reduce((sum, part) => sum + part.size, 0) };
  }

  // -- hidden layers

  /** `net_arch`; since 1.8, SB3's `load` takes the dict that a list begins with in its place. */
  get netArch() {
    const value = this.arguments.get('net_arch');
    return Array.isArray(value) && !value.isTuple && value[0] instanceof Map && !this.isBefore(1, 8) ? value[0] : value;
  }

  sizes(value) {
    return readSizes(value, (count) => this.weights.checkLayers(count));
  }

  /** The sizes of the layers that actor and critic of an on-policy policy share, and of those of each. */
  onPolicySizes() {
    const value = this.netArch ?? (this.hasCnn ? [] : [64, 64]);
    const isDict = (item) => item instanceof Map;
    const ofDict = (dict, name) => this.sizes(dict.has(name) ? dict.get(name) : []);
    const hasDicts = !this.isBefore(1, 7);
    const dict = hasDicts && Array.isArray(value) && !value.isTuple && isDict(value[0]) ? value[0] : value;
    if (hasDicts && isDict(dict)) {
      if (this.isBefore(1, 8) && !(dict.has('pi') && dict.has('vf'))) invalid('net_arch has no pi or no vf');
      return [[], ofDict(dict, 'pi'), ofDict(dict, 'vf')];
    }
    if (!this.isBefore(1, 8) || this.netArch === null) return [[], this.sizes(value), this.sizes(value)];
    if (!Array.isArray(value)) refuse(value, 'net_arch');
    const split = value.findIndex(isDict);
    const own = split < 0 ? new Map() : value[split];
    return [this.sizes(split < 0 ? value : value.slice(0, split)), ofDict(own, 'pi'), ofDict(own, 'vf')];
  }

  /** The sizes of the hidden layers of an actor and of its critics. The defaults are one list, or one for each. */
  actorCriticSizes(layers, { afterCnn = layers, ofCritics = layers } = {}) {
    const value = this.netArch;
    if (value === null) {
      if (this.hasCnn && this.isBefore(1, 6)) return [[], []];
      return this.hasCnn ? [afterCnn, ofCritics === layers ? afterCnn : ofCritics] : [layers, ofCritics];
    }
    const hasDicts = !this.isBefore(0, 10);
    if (hasDicts && value instanceof Map) {
      if (!(value.has('pi') && value.has('qf'))) invalid('net_arch has no pi or no qf');
      return ['pi', 'qf'].map((name) => this.sizes(value.get(name)));
    }
    if (!Array.isArray(value) || (hasDicts && value.isTuple)) refuse(value, 'net_arch');
    return [this.sizes(value), this.sizes(value)];
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
    const isDouble = !['uint8', 'int8', 'uint16', 'int16', 'float16', 'float32'].includes(low.dtype);
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

  /** Layers that gSDE had for itself before 1.3: a function of the features and of what the last layer gets, and the size. */
  noiseLayers(module, features, latentSize) {
    const given = this.arguments.get('sde_net_arch');
    if (given === null || !this.isBefore(1, 3)) return { run: (_, latent) => latent, size: latentSize };
    const { run, size } = this.mlp(module, features, this.sizes(given));
    return { run: (seen) => run(seen), size };
  }

  /** The logarithm of the standard deviation with gSDE: a function of the features before the last layer. */
  gsde(name, latentSize) {
    const columns = this.arguments.flag('full_std', true) ? this.weights.checkParts(this.actionSize) : 1;
    const logs = this.weights.take(name, [latentSize, columns]);
    const usesExpln = this.arguments.flag('use_expln', false);
    const std = logs.map((item) => (usesExpln && item > 0 ? Math.log1p(item + GSDE_EPSILON) + 1 : Math.exp(item)));
    return (latent) => Array.from({ length: this.actionSize }, (_, action) => {
      const variance = latent.reduce((sum, item, row) => sum + (item * std[row * columns + (action % columns)]) ** 2, 0);
      return Math.fround(Math.log(variance + GSDE_EPSILON) / 2);
    });
  }
}

// -- on-policy

function onPolicy(agent) {
  const { weights } = agent;
  agent.requireActions(...(agent.kind === 'maskable' ? [] : ['Box']), 'Discrete', 'MultiDiscrete', 'MultiBinary');
  const isShared = agent.arguments.flag('share_features_extractor', true);
  const actorFeatures = agent.extractor(isShared ? 'features_extractor' : 'pi_features_extractor');
  const criticFeatures = isShared ? actorFeatures : agent.extractor('vf_features_extractor');
  const recurrence = agent.kind === 'recurrent' ? recurrent(agent, actorFeatures.size) : null;
  const [common, pi, vf] = agent.onPolicySizes();
  const inputs = recurrence?.size ?? actorFeatures.size;
  const shared = agent.mlp('mlp_extractor.shared_net', inputs, common);
  const [actor, critic] = [['policy_net', pi], ['value_net', vf]].map(([name, sizes]) => agent.mlp(`mlp_extractor.${name}`, shared.size, sizes));
  const action = actionHead(agent, inputs, actor.size);
  const value = linear(weights, 'value_net', critic.size, 1);
  return (parts, options) => {
    const features = recurrence === null ? actorFeatures.run(parts) : recurrence.actor(actorFeatures.run(parts), options);
    const seen = recurrence === null ? criticFeatures.run(parts) : recurrence.critic(criticFeatures.run(parts), features, options);
    const found = action(features, actor.run(shared.run(features)), options);
    return { ...found, outputs: { ...found.outputs, value: plain(value(critic.run(shared.run(seen)))) } };
  };
}

/** The LSTMs of RecurrentPPO. Their states are in the options: the actor's is replaced by the next one. */
function recurrent(agent, inputs) {
  const size = agent.arguments.size('lstm_hidden_size', 256, 1);
  const count = agent.arguments.size('n_lstm_layers', 1, 1);
  agent.weights.checkLayers(count);
  const [isShared, hasCritic] = [agent.arguments.flag('shared_lstm', false), agent.arguments.flag('enable_critic_lstm', true)];
  if (isShared && (hasCritic || !agent.arguments.flag('share_features_extractor', true))) invalid('a shared LSTM of two networks');
  const options = readLstmOptions(agent, size);
  const make = (module) => lstm(agent.weights, module, inputs, size, count, options.flag('bias', true));
  const actor = make('lstm_actor');
  const critic = hasCritic ? make('lstm_critic') : null;
  const layer = hasCritic || isShared ? null : linear(agent.weights, 'critic', inputs, size);
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

const LSTM_OPTIONS = new Set(['bias', 'batch_first', 'dropout', 'bidirectional', 'proj_size', 'device', 'dtype']);

/** `lstm_kwargs`, of which three are refused. */
function readLstmOptions(agent, hidden) {
  const options = agent.arguments.nested('lstm_kwargs');
  options.refuseOthers(LSTM_OPTIONS);
  const dropout = options.get('dropout', 0);
  if (typeof dropout === 'boolean' || !(options.number('dropout', 0) >= 0 && options.number('dropout', 0) <= 1)) invalid('dropout is not from 0 to 1');
  const projection = options.size('proj_size', 0);
  if (projection >= hidden) invalid('a projection is not smaller than the hidden state');
  if (projection > 0 || options.flag('bidirectional', false) || options.flag('batch_first', false)) unsupported('such an LSTM');
  return options;
}

/** The last layer of the actor, and the action: a function of the features, of what the layer gets, and of options. */
function actionHead(agent, features, inputs) {
  const { weights, actions } = agent;
  const layer = linear(weights, 'action_net', inputs, agent.actionSize);
  if (actions.kind === 'Box') {
    const noise = agent.usesSde ? agent.noiseLayers('sde_features_extractor', features, inputs) : null;
    const spread = noise === null ? null : agent.gsde('log_std', noise.size);
    const fixed = noise === null ? weights.take('log_std', [agent.actionSize]) : null;
    const isSquashed = agent.arguments.flag('squash_output', false);
    return (seen, latent) => {
      const middle = layer(latent);
      const outputs = { mean: plain(middle), log_std: plain(noise === null ? fixed : spread(noise.run(seen, latent))) };
      return { action: agent.box(isSquashed && noise !== null ? tanh(middle) : middle, isSquashed), outputs };
    };
  }
  if (actions.kind === 'MultiBinary' && agent.kind !== 'maskable') return (_, latent) => agent.bits(layer(latent));
  return (_, latent, { mask }) => agent.choice(layer(latent), mask);
}

// -- off-policy

/** Whether the critics of an off-policy algorithm have the actor's features extractor. */
const sharesExtractor = (agent) => agent.arguments.flag('share_features_extractor', agent.isBefore(1, 6));

function criticsOf(agent, sizes, options = {}) {
  if (agent.isLone && !agent.weights.has('critic')) return () => ({});
  const features = agent.extractor(`${sharesExtractor(agent) ? 'actor' : 'critic'}.features_extractor`);
  const isOld = agent.isBefore(0, 8);
  const count = isOld ? 2 : agent.arguments.count('n_critics', 2, 1);
  agent.weights.checkLayers(count * (sizes.length + 1));
  const outputs = agent.kind === 'tqc' ? agent.arguments.size('n_quantiles', 25) : 1;
  const inputs = features.size + agent.actionSize;
  const networks = Array.from({ length: count }, (_, number) => {
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
  agent.requireActions('Box');
  const isCrossq = agent.kind === 'crossq';
  const [pi, qf] = agent.actorCriticSizes([256, 256], isCrossq ? { ofCritics: [1024, 1024] } : {});
  const options = isCrossq && agent.arguments.flag('batch_norm', true) ? { epsilon: agent.arguments.number('batch_norm_eps', 0.001) } : {};
  const features = agent.extractor('actor.features_extractor');
  const latent = agent.mlp('actor.latent_pi', features.size, pi, options);
  const usesSde = agent.arguments.flag('use_sde', false);
  const head = usesSde ? gsdeHead(agent, features.size, latent.size) : gaussianHead(weights, latent.size, agent.actionSize);
  const critics = criticsOf(agent, qf, options);
  return (parts) => {
    const seen = features.run(parts);
    const { middle, logStd } = head(latent.run(seen), seen);
    const scaled = tanh(middle);
    return { action: agent.box(scaled, true), outputs: { mean: plain(middle), log_std: plain(logStd), ...critics(parts, scaled) } };
  };
}

function gaussianHead(weights, inputs, outputs) {
  const [mu, logStd] = ['actor.mu', 'actor.log_std'].map((name) => linear(weights, name, inputs, outputs));
  return (latent) => ({ middle: mu(latent), logStd: logStd(latent).map((item) => clip(item, -20, 2)) });
}

function gsdeHead(agent, features, inputs) {
  const bound = agent.arguments.number('clip_mean', 2);
  if (bound > LARGEST && bound < Infinity) invalid('clip_mean does not fit float32');
  const mu = linear(agent.weights, bound > 0 ? 'actor.mu.0' : 'actor.mu', inputs, agent.actionSize);
  const noise = agent.noiseLayers('actor.sde_features_extractor', features, inputs);
  const spread = agent.gsde('actor.log_std', noise.size);
  return (latent, seen) => ({
    middle: mu(latent).map((item) => (bound > 0 ? clip(item, -bound, bound) : item)), logStd: spread(noise.run(seen, latent)),
  });
}

function deterministicActor(agent) {
  agent.requireActions('Box');
  const [pi, qf] = agent.actorCriticSizes([400, 300], { afterCnn: [256, 256] });
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
  agent.requireActions('Discrete');
  const features = agent.extractor(`${name}.features_extractor`);
  const actions = agent.actionSize;
  const sizes = agent.sizes(agent.netArch ?? (agent.hasCnn ? [] : [64, 64]));
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
  const count = agent.arguments.count('n_quantiles', 200);
  const run = qNetwork(agent, 'quantile_net', count);
  return (parts) => {
    const { items, action, outputs } = run(parts);
    return { action, outputs: { ...outputs, quantiles: { shape: [count, agent.actionSize], items } } };
  };
}

function ars(agent) {
  agent.requireActions('Box', 'Discrete');
  const isLinear = agent.kind === 'ars-linear';
  const features = agent.extractor('features_extractor');
  const hasBias = agent.arguments.flag('with_bias', !isLinear);
  const sizes = agent.sizes(agent.netArch ?? (isLinear ? [] : [64, 64]));
  const isSquashed = agent.arguments.flag('squash_output', !isLinear);
  const network = isLinear && agent.isBefore(1, 7) && !(agent.actions.kind === 'Box' && isSquashed)
    ? { run: linear(agent.weights, 'action_net', features.size, agent.actionSize, hasBias) }
    : agent.mlp('action_net', features.size, sizes, { outputs: agent.actionSize, hasBias });
  const endsWithTanh = !isLinear && agent.isBefore(1, 7);
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
  ...classes('sb3_contrib.ars', 'ARSPolicy', 'ars', ars),
  ...classes('sb3_contrib.ars', 'ARSLinearPolicy', 'ars-linear', ars),
]);

const BRANCHES = ['pi_features_extractor', 'vf_features_extractor'];
const TARGETS = {
  dqn: ['q_net'], qrdqn: ['quantile_net'], sac: ['critic'], tqc: ['critic'], td3: ['actor', 'critic'],
};

/** A function of the name of a tensor that acts or is a critic's: the other names and the copies that SB3 has of it. */
function namesOfCopies(agent) {
  const targets = TARGETS[agent.kind] ?? [];
  if (ON_POLICY.has(agent.kind)) {
    if (agent.isBefore(1, 7)) return () => [];
    return (name) => {
      const [module, ...rest] = name.split('.');
      const others = module === 'features_extractor' ? BRANCHES : module === BRANCHES[0] ? ['features_extractor'] : [];
      return others.map((other) => [other, ...rest].join('.'));
    };
  }
  return (name) => {
    const [module, ...rest] = name.split('.');
    const isShared = module === 'actor' && rest[0] === 'features_extractor' && sharesExtractor(agent);
    const modules = [module, ...(isShared ? ['critic'] : [])];
    const found = modules.flatMap((one) => [one, ...(targets.includes(one) ? [`${one}_target`] : [])]).slice(1).map((one) => [one, ...rest].join('.'));
    return isShared && agent.isBefore(0, 10) ? [...found, rest.join('.')] : found;
  };
}

/** A function of an encoded observation, made of the policy that `data` describes. */
function buildPolicy({ policyClass, ...described }) {
  if (!(policyClass instanceof Reference)) refuse(policyClass, 'policy_class');
  const found = POLICIES.get(policyClass.name) ?? unsupported('an unknown policy');
  const agent = new Agent(found.kind, found.name, described);
  const run = found.make(agent);
  described.weights.finish(namesOfCopies(agent), !agent.isLone);
  return run;
}

module.exports = { buildPolicy };
