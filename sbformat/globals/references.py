"""Names that may be plain values in a pickle: classes, dtypes and constants that nothing calls there.

Conditions for a name to be listed here:

* It is written by a pickler for a class or a constant itself, not for an instance: the module is the one
  that defines it, in some release; SB3 0.6 to 2.9, sb3-contrib 0.9 to 2.9 and SB2 2.0 to 2.10 were read.
* Importing its module has no effect beyond importing that library.
* Its constructor was read: it starts no process, opens no file or socket, unpickles nothing and imports
  nothing by name. So it is harmless when SB3 calls it for its purpose, such as the ``activation_fn`` of
  ``policy_kwargs``. Instances are judged by their own constructor calls.
* It is exact: not a prefix, an alias or a dotted name.

Left out on purpose: functions, except activations of SB2 and SBX, SB2's functions of a number, and the makers of
optimizers of optax; vectorised environments, wrappers, environments and ``Monitor`` (processes, ``CloudpickleWrapper``,
files); loggers and callbacks (files); data sets (``numpy.load``); storages (files).

:data:`ALGORITHMS` is a separate table: an algorithm whose environment is given as text creates that
environment, which may import a module by name. SB3 does not do so with the only algorithm that it
pickles, ``model_class`` of HER.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sbformat.globals.jax import JAX_FUNCTIONS, SBX
from sbformat.globals.spaces import SPACE_REFERENCES
from sbformat.globals.torch import DTYPES, MEMORY_FORMATS, Pair

if TYPE_CHECKING:
    from collections.abc import Mapping

Table = dict[str, str]
"""Modules, each with its names, separated by spaces."""

STABLE_BASELINES3: Final[Table] = {
    "stable_baselines3.common.buffers": (
        "BaseBuffer DictReplayBuffer DictRolloutBuffer NStepReplayBuffer ReplayBuffer RolloutBuffer"
    ),
    "stable_baselines3.common.distributions": (
        "BernoulliDistribution CategoricalDistribution DiagGaussianDistribution Distribution "
        "MultiCategoricalDistribution SquashedDiagGaussianDistribution StateDependentNoiseDistribution TanhBijector"
    ),
    "stable_baselines3.common.noise": (
        "ActionNoise NormalActionNoise OrnsteinUhlenbeckActionNoise VectorizedActionNoise"
    ),
    "stable_baselines3.common.policies": (
        "ActorCriticCnnPolicy ActorCriticPolicy BaseFeaturesExtractor BaseModel BasePolicy ContinuousCritic "
        "FlattenExtractor MlpExtractor MultiInputActorCriticPolicy NatureCNN"  # 0.6 had the extractors here
    ),
    "stable_baselines3.common.running_mean_std": "RunningMeanStd",
    "stable_baselines3.common.sb2_compat.rmsprop_tf_like": "RMSpropTFLike",
    "stable_baselines3.common.torch_layers": (
        "BaseFeaturesExtractor CombinedExtractor FlattenExtractor MlpExtractor NatureCNN"
    ),
    "stable_baselines3.common.type_aliases": (
        "DictReplayBufferSamples DictRolloutBufferSamples ReplayBufferSamples RolloutBufferSamples RolloutReturn "
        "TrainFreq TrainFrequencyUnit"
    ),
    "stable_baselines3.common.utils": "ConstantSchedule FloatSchedule LinearSchedule",
    "stable_baselines3.dqn.policies": "CnnPolicy DQNPolicy MultiInputPolicy QNetwork",
    "stable_baselines3.her.goal_selection_strategy": "GoalSelectionStrategy",
    "stable_baselines3.her.her_replay_buffer": "HerReplayBuffer",
    "stable_baselines3.ppo.policies": "CnnPolicy PPOPolicy",  # 0.6
    "stable_baselines3.sac.policies": "Actor CnnPolicy Critic MultiInputPolicy SACPolicy",
    "stable_baselines3.td3.policies": "Actor CnnPolicy Critic MultiInputPolicy TD3Policy",
}

SB3_CONTRIB: Final[Table] = {
    "sb3_contrib.ars.policies": "ARSLinearPolicy ARSPolicy",
    "sb3_contrib.common.maskable.buffers": (
        "MaskableDictRolloutBuffer MaskableDictRolloutBufferSamples MaskableRolloutBuffer MaskableRolloutBufferSamples"
    ),
    "sb3_contrib.common.maskable.distributions": (
        "MaskableBernoulliDistribution MaskableCategorical MaskableCategoricalDistribution MaskableDistribution "
        "MaskableMultiCategoricalDistribution"
    ),
    "sb3_contrib.common.maskable.policies": (
        "MaskableActorCriticCnnPolicy MaskableActorCriticPolicy MaskableMultiInputActorCriticPolicy"
    ),
    "sb3_contrib.common.recurrent.buffers": "RecurrentDictRolloutBuffer RecurrentRolloutBuffer",
    "sb3_contrib.common.recurrent.policies": (
        "RecurrentActorCriticCnnPolicy RecurrentActorCriticPolicy RecurrentMultiInputActorCriticPolicy"
    ),
    "sb3_contrib.common.recurrent.type_aliases": (
        "RNNStates RecurrentDictRolloutBufferSamples RecurrentRolloutBufferSamples"
    ),
    "sb3_contrib.common.torch_layers": "BatchRenorm BatchRenorm1d",
    "sb3_contrib.crossq.policies": "Actor CrossQCritic CrossQPolicy",
    "sb3_contrib.qrdqn.policies": "CnnPolicy MultiInputPolicy QRDQNPolicy QuantileNetwork",
    "sb3_contrib.tqc.policies": "Actor CnnPolicy Critic MultiInputPolicy TQCPolicy",
}

STABLE_BASELINES: Final[Table] = {
    "stable_baselines.a2c.utils": (  # the module of Scheduler before 2.10
        "Scheduler constant double_linear_con double_middle_drop linear_schedule middle_drop"
    ),
    "stable_baselines.common.buffers": "PrioritizedReplayBuffer ReplayBuffer",
    "stable_baselines.common.noise": (
        "ActionNoise AdaptiveParamNoiseSpec NormalActionNoise OrnsteinUhlenbeckActionNoise"
    ),
    "stable_baselines.common.policies": (
        "ActorCriticPolicy BasePolicy CnnLnLstmPolicy CnnLstmPolicy CnnPolicy FeedForwardPolicy LstmPolicy "
        "MlpLnLstmPolicy MlpLstmPolicy MlpPolicy RecurrentActorCriticPolicy"
    ),
    "stable_baselines.common.schedules": (
        "ConstantSchedule LinearSchedule PiecewiseSchedule Schedule Scheduler constant double_linear_con "
        "double_middle_drop linear_interpolation linear_schedule middle_drop"
    ),
    "stable_baselines.ddpg.memory": "Memory RingBuffer",
    "stable_baselines.ddpg.noise": (
        "ActionNoise AdaptiveParamNoiseSpec NormalActionNoise OrnsteinUhlenbeckActionNoise"
    ),
    "stable_baselines.ddpg.policies": "CnnPolicy DDPGPolicy FeedForwardPolicy LnCnnPolicy LnMlpPolicy MlpPolicy",
    "stable_baselines.deepq.policies": "CnnPolicy DQNPolicy FeedForwardPolicy LnCnnPolicy LnMlpPolicy MlpPolicy",
    "stable_baselines.deepq.replay_buffer": "PrioritizedReplayBuffer ReplayBuffer",
    "stable_baselines.her.replay_buffer": "GoalSelectionStrategy",
    "stable_baselines.sac.policies": "CnnPolicy FeedForwardPolicy LnCnnPolicy LnMlpPolicy MlpPolicy SACPolicy",
    "stable_baselines.td3.policies": "CnnPolicy FeedForwardPolicy LnCnnPolicy LnMlpPolicy MlpPolicy TD3Policy",
}

_ALGORITHMS: Final[Table] = {
    "sb3_contrib.ars.ars": "ARS",
    "sb3_contrib.crossq.crossq": "CrossQ",
    "sb3_contrib.ppo_mask.ppo_mask": "MaskablePPO",
    "sb3_contrib.ppo_recurrent.ppo_recurrent": "RecurrentPPO",
    "sb3_contrib.qrdqn.qrdqn": "QRDQN",
    "sb3_contrib.tqc.tqc": "TQC",
    "sb3_contrib.trpo.trpo": "TRPO",
    "stable_baselines.ddpg.ddpg": "DDPG",
    "stable_baselines.deepq.dqn": "DQN",
    "stable_baselines.sac.sac": "SAC",
    "stable_baselines.td3.td3": "TD3",
    "stable_baselines3.a2c.a2c": "A2C",
    "stable_baselines3.ddpg.ddpg": "DDPG",
    "stable_baselines3.dqn.dqn": "DQN",
    "stable_baselines3.her.her": "HER",
    "stable_baselines3.ppo.ppo": "PPO",
    "stable_baselines3.sac.sac": "SAC",
    "stable_baselines3.td3.td3": "TD3",
}

TENSORFLOW: Final[Table] = {
    "tensorflow.python.ops.gen_nn_ops": "elu relu relu6 selu softplus softsign",
    "tensorflow.python.ops.math_ops": "sigmoid tanh",
    "tensorflow.python.ops.nn_ops": "leaky_relu",
}
"""Activation functions of SB2 policies: functions of a tensor."""

TORCH: Final[Table] = {
    "torch": "Tensor device",
    "torch.nn.modules.activation": (
        "CELU ELU GELU GLU Hardshrink Hardsigmoid Hardswish Hardtanh LeakyReLU LogSigmoid LogSoftmax Mish "
        "MultiheadAttention PReLU RReLU ReLU ReLU6 SELU SiLU Sigmoid Softmax Softmax2d Softmin Softplus Softshrink "
        "Softsign Tanh Tanhshrink Threshold"
    ),
    "torch.nn.modules.batchnorm": "BatchNorm1d BatchNorm2d BatchNorm3d LazyBatchNorm1d LazyBatchNorm2d LazyBatchNorm3d",
    "torch.nn.modules.container": "ModuleDict ModuleList ParameterDict ParameterList Sequential",
    "torch.nn.modules.conv": (
        "Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d LazyConv1d LazyConv2d LazyConv3d"
    ),
    "torch.nn.modules.dropout": "AlphaDropout Dropout Dropout1d Dropout2d Dropout3d FeatureAlphaDropout",
    "torch.nn.modules.flatten": "Flatten Unflatten",
    "torch.nn.modules.instancenorm": "InstanceNorm1d InstanceNorm2d InstanceNorm3d",
    "torch.nn.modules.linear": "Bilinear Identity LazyLinear Linear",
    "torch.nn.modules.loss": (
        "BCELoss BCEWithLogitsLoss CrossEntropyLoss HuberLoss KLDivLoss L1Loss MSELoss NLLLoss SmoothL1Loss"
    ),
    "torch.nn.modules.module": "Module",
    "torch.nn.modules.normalization": "GroupNorm LayerNorm LocalResponseNorm RMSNorm",
    "torch.nn.modules.padding": (
        "ConstantPad1d ConstantPad2d ReflectionPad1d ReflectionPad2d ReplicationPad1d ReplicationPad2d ZeroPad2d"
    ),
    "torch.nn.modules.pooling": (
        "AdaptiveAvgPool1d AdaptiveAvgPool2d AdaptiveAvgPool3d AdaptiveMaxPool1d AdaptiveMaxPool2d AdaptiveMaxPool3d "
        "AvgPool1d AvgPool2d AvgPool3d MaxPool1d MaxPool2d MaxPool3d"
    ),
    "torch.nn.modules.rnn": "GRU GRUCell LSTM LSTMCell RNN RNNCell",
    "torch.nn.modules.sparse": "Embedding EmbeddingBag",
    "torch.nn.modules.transformer": (
        "Transformer TransformerDecoder TransformerDecoderLayer TransformerEncoder TransformerEncoderLayer"
    ),
    "torch.nn.modules.upsampling": "Upsample UpsamplingBilinear2d UpsamplingNearest2d",
    "torch.nn.parameter": "Parameter",
    "torch.optim": "Adafactor Muon",  # their __module__
    "torch.optim._adafactor": "Adafactor",
    "torch.optim._muon": "Muon",
    "torch.optim.adadelta": "Adadelta",
    "torch.optim.adagrad": "Adagrad",
    "torch.optim.adam": "Adam",
    "torch.optim.adamax": "Adamax",
    "torch.optim.adamw": "AdamW",
    "torch.optim.asgd": "ASGD",
    "torch.optim.lbfgs": "LBFGS",
    "torch.optim.nadam": "NAdam",
    "torch.optim.optimizer": "Optimizer",
    "torch.optim.radam": "RAdam",
    "torch.optim.rmsprop": "RMSprop",
    "torch.optim.rprop": "Rprop",
    "torch.optim.sgd": "SGD",
    "torch.optim.sparse_adam": "SparseAdam",
}

NUMPY: Final[Table] = {
    "numpy": (
        "bool bool_ bytes_ complex128 complex64 dtype float16 float32 float64 int16 int32 int64 int8 longdouble "
        "longlong ndarray str_ uint16 uint32 uint64 uint8 ulonglong"
    ),
    "numpy.random._generator": "Generator",
    "numpy.random._mt19937": "MT19937",
    "numpy.random._pcg64": "PCG64 PCG64DXSM",
    "numpy.random._philox": "Philox",
    "numpy.random._sfc64": "SFC64",
    "numpy.random.bit_generator": "SeedSequence",
    "numpy.random.mtrand": "RandomState",
}

IMITATION: Final[Table] = {
    "imitation.policies.base": "FeedForward32Policy NormalizeFeaturesExtractor SAC1024Policy",
    "imitation.util.networks": "BaseNorm EMANorm RunningNorm",
}
"""Policies of the package imitation, which extend those of SB3, and the layers that normalize their observations."""

PYTHON: Final[Table] = {
    "builtins": (
        "Ellipsis NotImplemented bool bytearray bytes complex dict float frozenset int list object range set slice str "
        "tuple type"
    ),
    "collections": "Counter OrderedDict defaultdict deque",
    "datetime": "date datetime time timedelta timezone",
    "enum": "Enum IntEnum",
}


def _pairs(*tables: Mapping[str, str]) -> frozenset[Pair]:
    return frozenset((module, name) for table in tables for module, names in table.items() for name in names.split())


ALGORITHMS: Final[frozenset[Pair]] = _pairs(_ALGORITHMS)
"""Algorithm classes, a subset of :data:`REFERENCES`."""

REFERENCES: Final[frozenset[Pair]] = (
    _pairs(
        STABLE_BASELINES3,
        SB3_CONTRIB,
        STABLE_BASELINES,
        TENSORFLOW,
        TORCH,
        NUMPY,
        IMITATION,
        SBX,
        JAX_FUNCTIONS,
        PYTHON,
    )
    | SPACE_REFERENCES
    | ALGORITHMS
    | DTYPES.keys()
    | MEMORY_FORMATS.keys()
)
"""Every name above."""
