"""Which vectors, agents and other cases of policies the default run takes; the others are exhaustive."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.helpers.policy_vectors import VECTORS
from tests.helpers.sampling import mark_others, sample

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


def name_family(vector: str) -> str:
    """Return the algorithm, or what else a vector is about: ``policy-sb2-ppo2-lstm`` is one of ``sb2-ppo2``."""
    words = vector.removeprefix("policy-").split("-")
    return "-".join(words[: 2 if words[0] in {"sb2", "lone"} or words[1:2] == ["observes"] else 1])


SOME_VECTORS: Final = sample(VECTORS, 3, name=str, group=name_family)
"""A third of each family, and one at least."""
ROUNDED: Final = ("policy-ppo-tied", "policy-maskable-tied", "policy-ppo-multi-binary-tied", "policy-sac-wide")
"""Vectors whose actions depend on how each step is rounded."""


def _mark(chosen: Iterable[str]) -> list[Any]:
    return [pytest.param(name, marks=() if name in chosen else pytest.mark.exhaustive) for name in VECTORS]


MARKED_VECTORS: Final = _mark({*SOME_VECTORS, *ROUNDED})
"""All of them; those that are not in the third are exhaustive."""

KINDS: Final = (
    "policy-cnn-multi-input", "policy-lstm-two-layers", "policy-maskable-multi-discrete", "policy-sac-gsde",
    "policy-sb2-ppo2-lstm-normalized", "policy-sb2-dqn-normalized", "policy-tqc", "policy-qrdqn",
    "policy-ppo-normalized", "policy-activation-gelu", "policy-ppo-observes-multi-discrete",
)  # fmt: skip
"""Vectors that together have all kinds of functions and arguments of the source in C."""
MARKED_FOR_C: Final = _mark({*KINDS, *ROUNDED, *SOME_VECTORS[::4]})
"""Some are compiled in the default run: the compiler takes longer than all that is tested of one."""


def mark_sb2_agents(paths: Iterable[Path], one_in: int = 2) -> list[Any]:
    """Mark half of the agents of each algorithm of Stable Baselines 2, or fewer."""
    return mark_others(paths, one_in, name=lambda path: path.name, group=lambda path: path.name.partition("-")[0])
