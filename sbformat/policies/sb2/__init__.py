"""From a file of Stable Baselines 2 (SB2) to the graph of its policy (SB2.md 16, POLICIES.md 19).

**Theory of operation.** In: a zip or a pickle of SB2, with the algorithm that its keys identify, the class and
keywords of its policy, its spaces, and its parameters by name. Out: a graph that computes what ``predict`` of SB2
2.10 returns for the file. Nothing in a file says which release wrote it; where releases differ, names and shapes
decide. The steps:

1. :mod:`~sbformat.policies.sb2.agents` reads the file. Parameters of a list get their names from
   :mod:`sbformat.formats.sb2.orders`, or the file is refused. Copies of parameters (``#2``) are left out: SB2 saved
   each with the value of the original.
2. :mod:`~sbformat.policies.sb2.structures` finds the network: class, keywords and spaces determine one
   (:mod:`sbformat.formats.sb2.policies`), whose names and shapes (:mod:`sbformat.formats.sb2.networks`) must be those
   of the file. The code of a user's class is not executed; with
   ``policy_class=``, and for a few classes that libraries published, the names and shapes of the file
   alone determine the network, and ``act_fun`` is the default unless ``policy_kwargs=`` contains it.
3. :mod:`~sbformat.policies.sb2.observations` adds the inputs, :mod:`~sbformat.policies.sb2.layers` the layers,
   :mod:`~sbformat.policies.sb2.actor_critics`, :mod:`~sbformat.policies.sb2.q_networks` and
   :mod:`~sbformat.policies.sb2.actors` the three families of policies, :mod:`~sbformat.policies.sb2.actions` the
   action.

Invariants: a file that contradicts its own keywords is refused; no layer is added whose parameters were not compared
with the network; all of it is done without numpy.

**Scopes.** The policy that acts has its parameters in one scope. Others are of critics, of targets, of the policy
before an update (``oldpi``), or of GAIL's discriminator, and do not matter for an action:

    A2C ACER ACKTR GAIL PPO1 PPO2 TRPO    model/
    DQN                                   deepq/model/            since 2.1 with action_value/ and state_value/ in it
    SAC TD3                               model/pi/               SAC's value of an observation: model/values_fn/vf/
    DDPG                                  model/pi/               with parameter noise, to draw actions: noise/pi/
    HER                                   those of the algorithm that ``model_class`` names

**Observations** (``common/input.py``, the same in all releases). They are cast to the dtype of the space, then to
float32. Discrete: one-hot; MultiDiscrete: one-hot parts one after another (an index out of range is all 0);
MultiBinary: cast to int32 first. A Box is scaled only before a CNN: ``(x - low) / (high - low)`` by item, ``high -
low`` in the dtype of the space, unless a bound is infinite or ``low`` equals ``high`` everywhere. Images are height,
width, channels. Anything else is flattened in C order. HER: the parts ``observation``, ``achieved_goal``,
``desired_goal``, in this order one after another, each encoded as above; the graph has an input for each when
``her_obs_space`` is a Dict. DDPG: then ``(x - mean) / std`` if ``normalize_observations``, where ``mean = runningsum
/ count``, ``std = sqrt(max(runningsumsq / count - mean ** 2, 0.01))``, the quotients in float64 and the rest in
float32; releases before 2.5 did not save these sums, and SB2 then begins with a mean of 0 and a deviation of 1. In
every case DDPG clips to ``observation_range``, -5 to 5 by default.

**Layers.** Weights are (inputs, outputs): ``x @ w + b``. The CNN (``nature_cnn``) has three convolutions ``c1`` (8 x
8, stride 4), ``c2`` (4 x 4, stride 2), ``c3`` (3 x 3, stride 1), flattened in the order height, width, channels, and
``fc1``; ``relu`` after each, whatever ``act_fun`` is. Filters are (height, width, channels, filters), biases (1,
filters, 1, 1), or (filters) with ``one_dim_bias``. ``pad="SAME"``: an output of ``ceil(length / stride)``, the odd
pixel of padding at the bottom and right. ``LayerNorm`` comes between a layer and its activation, with an epsilon of
1e-12. The activation after hidden layers is ``act_fun``, since 2.3 a keyword of on-policy policies and since 2.4 of
the others; by default ``tanh`` for on-policy algorithms and ``relu`` for the others. Layers by name, in order:

    on-policy            c1 c2 c3 fc1, or shared_fc0.., then pi_fc0.. to the head pi, and vf_fc0.. to the heads vf and q
    LSTM, no net_arch    c1 c2 c3 fc1, or pi_fc0.., then lstm1; all three heads get its output
    LSTM, net_arch       shared_fc.. and lstm1 by position in net_arch, then pi_fc0.. and vf_fc0..
    DQN since 2.1        fully_connected, fully_connected_1, ...: the last is the head; after a CNN action_value is
                         the head alone. If state_value exists (dueling): q = state_value + scores - their mean
    DQN 2.0              pi_fc0.. and the head pi: its values are the Q-values
    SAC TD3              fc0.., then dense (mean; action before tanh), SAC: dense_1 (logarithm of the deviation)
    DDPG                 fc0.., then pi/pi

**LSTM.** The state is (2 * cells): cells, then hidden values; 0 at first, and multiplied by ``1 - episode_start``
before a step. ``gates = x @ wx + h @ wh + b``, four parts in the order write (``in``), keep (``forget``), read
(``out``), candidate. ``c = sigmoid(keep) * c + sigmoid(write) * tanh(candidate)``, ``h = sigmoid(read) * tanh(c)``.
With layer normalization: ``gates = norm(x @ wx, gx, bx) + norm(h @ wh, gh, bh) + b`` and ``h = sigmoid(read) *
tanh(norm(c, gc, bc))``, where ``norm(x, g, b) = (x - mean) / sqrt(variance + 1e-5) * g + b``; the state keeps ``c``
as it was.

**Actions.** Deterministic, then drawn:

    on-policy, Discrete         argmax of pi (int64)                  softmax
    on-policy, MultiDiscrete    argmax of each part (int64;           softmax of each part
                                int32 before 2.9)
    on-policy, MultiBinary      round(sigmoid(pi)), float32           1 with the probability sigmoid(pi)
    on-policy, Box              pi, clipped to low and high           + exp(pi/logstd) * noise, then clipped
    DQN                         argmax of the Q-values (int64)        softmax of the Q-values; 2.0: each at random with
                                                                      the probability deepq/eps, else as before
    SAC                         tanh(dense), unscaled                 dense + exp(clip(dense_1, -20, 2)) * noise,
                                                                      then tanh, unscaled
    TD3                         tanh(dense), unscaled                 + action_noise, clipped to -1 and 1, unscaled
    DDPG                        tanh(pi), unscaled                    of noise/pi if param_noise, + action_noise,
                                                                      clipped to -1 and 1, unscaled

Unscaled: ``low + 0.5 * (x + 1) * (high - low)``, of which ``|low| * x`` in releases before 2.9 is the case of
symmetric bounds, and they accepted no others. A Box is clipped by ``predict`` since 2.4 and by the distribution in
2.0; from 2.1 to 2.3 it was not. The values are in the dtype that numpy computes from float32 and the bounds.
``NormalActionNoise`` is applied, Ornstein-Uhlenbeck noise (which depends on the step before) is not, and
``Graph.inferred`` says so. ACER: ``q_values`` is its head ``q``, ``value`` their mean over the probabilities. In the
other on-policy algorithms ``q`` is not trained, and no output.

Worked example, PPO2 with ``MlpPolicy``, 4 observations and 2 actions::

    observation (4)  model/pi_fc0  tanh  model/pi_fc1  tanh  model/pi  logits (2)  action: argmax
                     model/vf_fc0  tanh  model/vf_fc1  tanh  model/vf  value
"""

from __future__ import annotations

from sbformat.policies.sb2.build import build_sb2_policy

__all__ = ["build_sb2_policy"]
