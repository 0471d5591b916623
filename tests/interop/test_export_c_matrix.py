"""``sbformat.export_c`` beside Stable-Baselines3: compiled C predicts what every agent of the matrix predicts.

Some agents are compiled, each with one of the settings, and each setting compiles agents of each policy class. With the
environment variable ``SBFORMAT_ALL`` all agents are compiled, and with ``SBFORMAT_ALL_COMPILERS`` in all settings.
"""

from __future__ import annotations

import os
from collections import Counter
from itertools import cycle
from typing import TYPE_CHECKING, Any, Final
from zlib import crc32

import pytest

pytest.importorskip("torch")
pytest.importorskip("stable_baselines3")
pytest.importorskip("sb3_contrib")


import sbformat
from tests.helpers.c_policy import CPolicy
from tests.helpers.c_program import SANITIZERS, CProgram
from tests.helpers.sampling import sample
from tests.helpers.shared_files import summarize_counts
from tests.interop.export_oracle import (
    check_action_alone,
    check_export,
    check_normalized,
    check_program,
    check_program_episodes,
    check_recurrence,
)
from tests.interop.policy_agents import build_agent
from tests.interop.policy_oracle import COUNT, RealPolicy, draw_masks
from tests.interop.policy_setups import NORMALIZED, SETUPS
from tests.interop.test_policies_matrix import MASKED, each

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.filterwarnings("ignore")]

COUNTED: Final[Counter[str]] = Counter()
_summary = summarize_counts(COUNTED, "test_export_c_matrix.py:")

SETTINGS: Final = {
    "gcc -O0": ("gcc", ("-O0",)),
    "gcc -O2": ("gcc", ("-O2",)),
    "clang -O0": ("clang", ("-O0",)),
    "clang -O2": ("clang", ("-O2",)),
    "gcc with sanitizers": ("gcc", SANITIZERS),
    "clang with sanitizers": ("clang", SANITIZERS),
}
"""Compiler and options by name."""


def spread_settings() -> Iterator[tuple[str, str]]:
    """Give each agent a setting by the digest of its name, in turn among the agents of a policy class."""
    for kind in {setup.policy for setup in SETUPS}:
        names = sorted((setup.id for setup in SETUPS if setup.policy == kind), key=lambda name: crc32(name.encode()))
        yield from zip(names, cycle(SETTINGS))


CHOSEN: Final = dict(spread_settings())
HAS_ALL: Final = bool(os.environ.get("SBFORMAT_ALL_COMPILERS"))
COMPILED: Final = sample(
    SETUPS, 1 if HAS_ALL else 4, name=lambda setup: setup.id, group=lambda setup: (setup.policy, CHOSEN[setup.id])
)


def export(policy: Any, path: Path, setting: str, outputs: Any) -> Any:
    report = sbformat.export_c(policy, path, outputs=outputs, overwrite=True)
    compiler, flags = SETTINGS[setting]
    return (CProgram if flags == SANITIZERS else CPolicy)(policy, path, report, compiler, flags)


def test_every_setting_compiles_every_kind_of_policy() -> None:
    pairs = {(setup.policy, CHOSEN[setup.id]) for setup in COMPILED}
    assert len(pairs) == len({setup.policy for setup in SETUPS}) * len(SETTINGS)


@pytest.mark.parametrize("setup", each(COMPILED))
def test_c_acts_as_in_sb3(setup: Any, tmp_path: Path) -> None:
    agent = build_agent(setup)
    real, policy = RealPolicy(agent.model), sbformat.load_policy(agent.raw)
    for setting in SETTINGS if HAS_ALL else [CHOSEN[setup.id]]:
        compare(real, policy, export(policy, tmp_path / "policy.c", setting, policy.graph.outputs))
        COUNTED[f"agents by {setting}"] += 1
    check_action_alone(real, export(policy, tmp_path / "action.c", "gcc -O2", ["action"]))


def compare(real: RealPolicy, policy: Any, exported: Any) -> None:
    is_program = isinstance(exported, CProgram)
    COUNTED["observations"] += (check_program if is_program else check_export)(real, policy, exported)
    if real.is_recurrent and is_program:
        COUNTED["sequences of an LSTM"] += check_program_episodes(policy, exported, real.observation_space)
    elif real.is_recurrent:
        COUNTED["sequences of an LSTM"] += check_recurrence(real, policy, exported)


@pytest.mark.parametrize("setup", each(MASKED))
def test_masks_are_an_argument(setup: Any, tmp_path: Path) -> None:
    agent = build_agent(setup)
    real, policy = RealPolicy(agent.model), sbformat.load_policy(agent.raw)
    masks = draw_masks(real.action_space, COUNT)
    exported = export(policy, tmp_path / "policy.c", "clang -O2", policy.graph.outputs)
    COUNTED["masked observations"] += check_export(real, policy, exported, action_masks=masks)
    program = export(policy, tmp_path / "policy.c", "gcc with sanitizers", policy.graph.outputs)
    COUNTED["masked observations"] += check_program(real, policy, program, action_masks=masks)


@pytest.mark.parametrize("label", NORMALIZED)
def test_statistics_are_in_the_source(label: str, tmp_path: Path) -> None:
    COUNTED["observations behind VecNormalize"] += check_normalized(
        *NORMALIZED[label],
        tmp_path,
        lambda policy: export(policy, tmp_path / "policy.c", "gcc -O2", policy.graph.outputs),
    )
