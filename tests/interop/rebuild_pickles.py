"""The pickles of an archive and the names in them, told with ``pickletools`` alone; the few names that may stand."""

from __future__ import annotations

import io
import pickletools
import zipfile
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import sbformat
from sbformat import Serialized

if TYPE_CHECKING:
    from collections.abc import Iterator

GLOBALS: Final = frozenset(
    {
        "builtins.set", "builtins.frozenset", "collections.deque", "collections.OrderedDict",
        "numpy.dtype", "numpy.ndarray", "numpy.float32",
        "gymnasium.spaces.box.Box", "gymnasium.spaces.dict.Dict", "gymnasium.spaces.discrete.Discrete",
        "gymnasium.spaces.multi_binary.MultiBinary", "gymnasium.spaces.multi_discrete.MultiDiscrete",
        "torch._utils._rebuild_tensor_v2", "torch.FloatStorage", "torch.DoubleStorage", "torch.LongStorage",
        "torch.IntStorage",
        "torch.optim.adamw.AdamW", "torch.optim.rmsprop.RMSprop", "torch.optim.sgd.SGD", "torch.optim.adam.Adam",
        "torch.nn.modules.activation.ReLU", "torch.nn.modules.activation.Tanh",
    }
)  # fmt: skip
"""All that a rebuilt archive may name outside SB3 and contrib."""
OF_SB3: Final = frozenset(
    {
        *(f"stable_baselines3.common.policies.{name}" for name in (
            "ActorCriticPolicy", "ActorCriticCnnPolicy", "MultiInputActorCriticPolicy")),
        *(f"stable_baselines3.{of}" for of in (
            "dqn.policies.DQNPolicy", "sac.policies.SACPolicy", "td3.policies.TD3Policy")),
        *(f"stable_baselines3.{name}.policies.{kind}Policy"
          for name in ("dqn", "sac", "td3") for kind in ("Cnn", "MultiInput")),
        *(f"sb3_contrib.common.maskable.policies.{name}" for name in (
            "MaskableActorCriticPolicy", "MaskableActorCriticCnnPolicy", "MaskableMultiInputActorCriticPolicy")),
        *(f"sb3_contrib.common.maskable.buffers.Maskable{kind}RolloutBuffer" for kind in ("", "Dict")),
        *(f"sb3_contrib.common.recurrent.policies.{name}" for name in (
            "RecurrentActorCriticPolicy", "RecurrentActorCriticCnnPolicy", "RecurrentMultiInputActorCriticPolicy")),
        *(f"sb3_contrib.{of}" for of in (
            "ars.policies.ARSPolicy", "ars.policies.ARSLinearPolicy", "crossq.policies.CrossQPolicy",
            "qrdqn.policies.QRDQNPolicy", "tqc.policies.TQCPolicy")),
        *(f"sb3_contrib.{name}.policies.{kind}Policy" for name in ("qrdqn", "tqc") for kind in ("Cnn", "MultiInput")),
        *(f"stable_baselines3.common.{of}" for of in (
            "buffers.ReplayBuffer", "buffers.DictReplayBuffer", "buffers.RolloutBuffer", "buffers.DictRolloutBuffer",
            "noise.NormalActionNoise", "noise.OrnsteinUhlenbeckActionNoise", "noise.VectorizedActionNoise",
            "type_aliases.TrainFreq", "type_aliases.TrainFrequencyUnit", "sb2_compat.rmsprop_tf_like.RMSpropTFLike",
            "utils.FloatSchedule", "utils.LinearSchedule", "utils.ConstantSchedule")),
        "stable_baselines3.her.her_replay_buffer.HerReplayBuffer",
    }
)  # fmt: skip


def blobs(raw: bytes) -> Iterator[tuple[str, bytes]]:
    """Every pickle of an archive."""
    with zipfile.ZipFile(io.BytesIO(raw)) as opened:
        for name in opened.namelist():
            if name.endswith(".pth"):
                with zipfile.ZipFile(io.BytesIO(opened.read(name))) as inner:
                    (one,) = [part for part in inner.namelist() if part.endswith("/data.pkl")]
                    yield name, inner.read(one)
    for key, value in sbformat.reads(raw).data.items():
        if isinstance(value, Serialized):
            yield key, value.pickle


def names_in(pickled: bytes) -> Iterator[str]:
    """Every global that a pickle names, with a memo of texts; text of any other origin stands as a question mark."""
    memo: dict[int, Any] = {}
    texts: list[Any] = []
    for code, argument, _ in pickletools.genops(pickled):
        if code.name in {"GLOBAL", "INST"}:
            yield argument.replace(" ", ".")
        elif code.name == "STACK_GLOBAL":
            yield ".".join(str(text or "?") for text in texts[-2:])
        assert code.name not in {"EXT1", "EXT2", "EXT4", "OBJ"}
        if code.name in {"MEMOIZE", "BINPUT", "LONG_BINPUT"}:
            memo[len(memo) if argument is None else argument] = texts[-1] if texts else None
        elif code.name in {"BINGET", "LONG_BINGET"}:
            texts.append(memo.get(argument))
        else:
            texts.append(argument if isinstance(argument, str) else None)


@cache
def globals_of(pickled: bytes) -> frozenset[str]:
    return frozenset(names_in(pickled))
