"""Every real archive, and those of every era, rebuilt: clean, private, nothing lost in silence (REBUILDING.md 15).

Reads ``../shared/corpus`` and ``../shared/generated``, and is skipped where they are not.
"""

from __future__ import annotations

import os
import pickletools
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest

import sbformat
from sbformat import Serialized, UnsupportedError
from sbformat.tools.rebuild import rebuild
from sbformat.tools.rebuild.trusted import is_private, iter_texts
from sbformat.values.render import render_json
from tests.helpers.shared_files import CORPUS, DAMAGED, GENERATED, SHARED, summarize_counts

if TYPE_CHECKING:
    from pathlib import Path

    from sbformat import Archive
    from sbformat.tools.rebuild import RebuildReport

pytestmark = pytest.mark.exhaustive

if not os.path.isdir(SHARED):
    pytest.skip("there is no ../shared beside the project", allow_module_level=True)

COUNTED: Final[Counter[str]] = Counter()
_summary = summarize_counts(COUNTED, "test_corpus_rebuild.py:")

PATHS: Final = [
    *sorted((CORPUS / "sb3").iterdir()),
    *(path for path in sorted(GENERATED.glob("[0-9]*/*.zip")) if path.name != DAMAGED),
]
GLOBALS: Final = {
    "collections.OrderedDict", "collections.deque", "numpy.dtype", "numpy.ndarray", "numpy.float32",
    "gymnasium.spaces.box.Box", "gymnasium.spaces.dict.Dict", "gymnasium.spaces.discrete.Discrete",
    "gymnasium.spaces.multi_binary.MultiBinary", "gymnasium.spaces.multi_discrete.MultiDiscrete",
    "stable_baselines3.common.type_aliases.TrainFreq", "stable_baselines3.common.type_aliases.TrainFrequencyUnit",
    "stable_baselines3.common.utils.ConstantSchedule", "stable_baselines3.common.utils.FloatSchedule",
    "stable_baselines3.common.utils.LinearSchedule", "stable_baselines3.common.noise.NormalActionNoise",
    "stable_baselines3.common.noise.OrnsteinUhlenbeckActionNoise",
    "stable_baselines3.common.noise.VectorizedActionNoise",
}  # fmt: skip
"""What blobs may call or build; class references come on top."""


OF_ANOTHER_CLASS: Final = (
    "customextractor",  # carried by value
    *(f"expert_models__cartpole_0__policies__final__model.zip@{commit}" for commit in ("6148c831", "b35fb55d")),
)
"""Archives whose features extractor SB3 does not have, by a part of their names; the last of the package imitation."""


def name(path: Path) -> str:
    return f"{path.parent.name}/{path.name}"


def names_in(pickle: bytes) -> set[str]:
    """The names that a pickle imports, as its two texts stand before STACK_GLOBAL."""
    found, last, memo = set(), ["", ""], []
    for opcode, arg, _ in pickletools.genops(pickle):
        if opcode.name == "MEMOIZE":
            memo.append(last[-1])
        elif opcode.name in ("SHORT_BINUNICODE", "BINUNICODE"):
            last = [last[-1], str(arg)]
        elif opcode.name in ("BINGET", "LONG_BINGET") and isinstance(arg, int):
            last = [last[-1], memo[arg]]
        elif opcode.name == "STACK_GLOBAL":
            found.add(".".join(last))
            last = ["", ""]
        assert opcode.name not in ("GLOBAL", "INST", "EXT1", "EXT2", "EXT4", "PERSID", "BINPERSID"), opcode.name
    return found


def is_class(dotted: str) -> bool:
    return dotted.startswith(("stable_baselines3.", "sb3_contrib.", "torch.nn.modules.", "torch.optim."))


@pytest.mark.parametrize("path", PATHS, ids=name)
def test_a_real_archive_is_clean_and_private_and_accounted_for(path: Path) -> None:
    archive = sbformat.read(path)
    COUNTED["archives"] += 1
    if is_of_a_network_that_is_gone(archive):
        COUNTED["of a network that is gone"] += 1
        with pytest.raises(UnsupportedError, match=r"NatureCNN is that of SB3 0\.6"):
            rebuild(archive)
        return
    if is_of_another_class(path):
        COUNTED["of a class that is not known, refused"] += 1
        with pytest.raises(UnsupportedError, match=r"do not fit .*--allow NAME.*--policy-class NAME"):
            rebuild(archive)
        return
    made, report = rebuild(archive)
    data = sbformat.writes(made)
    COUNTED["with findings"] += bool(report.findings)
    assert "policy_class" not in {row.key for row in report.findings}
    places = [row.key or row.entry for row in report.rows]
    assert len(places) == len(set(places))
    assert set(places) >= {*archive.data, *archive.entries} - {"data"}
    for action, count in report.counts().items():
        COUNTED[f"keys and entries {action}"] += count
    check_blobs(made)
    check_values(archive, made, report)
    assert report.requires == ()
    assert sbformat.scan(data).verdict == "clean"
    assert [problem for problem in sbformat.iter_problems(made) if problem.level == "error"] == []
    assert sbformat.writes(rebuild(sbformat.reads(data)).archive) == data


def is_of_a_network_that_is_gone(archive: Archive) -> bool:
    return "_current_progress" in archive.data and "Cnn" in str(archive.decode("policy_class"))


def is_of_another_class(path: Path) -> bool:
    return any(part in path.name for part in OF_ANOTHER_CLASS)


def check_values(archive: Archive, made: Archive, report: RebuildReport) -> None:
    """Each row has its value before and now, and no hyper-parameter is lost that is a number or a function of one."""
    for row in report.rows:
        if row.entry == "data" and row.key in archive.data:
            assert row.old == render_json(archive.decode(row.key), row.key), row.key
        name = row.new_key or row.key
        if row.entry == "data" and name in made.data:
            assert row.new == render_json(made.decode(name), name), row.key
    for row in report.hyperparameters:
        if row.action == "kept":
            assert row.old == row.new, row.key
        if row.action == "dropped" and row.is_finding:
            COUNTED[f"hyper-parameters dropped: {row.key}"] += 1
            assert row.key in NOT_REBUILT
        COUNTED[f"hyper-parameters {row.action}"] += 1


NOT_REBUILT: Final = ("replay_buffer_kwargs/goal_selection_strategy",)
"""Random goals, which no target has."""


def check_blobs(made: Archive) -> None:
    for key, value in made.data.items():
        if isinstance(value, Serialized):
            for dotted in names_in(value.pickle) - GLOBALS:
                assert is_class(dotted), (key, dotted)
        if key != "tensorboard_log":
            assert not [text for text in iter_texts(made.decode(key)) if is_private(text)], key
    assert "system_info.txt" not in made.entries
    assert made.data.get("tensorboard_log") is None


@pytest.mark.parametrize("path", PATHS, ids=name)
def test_numbers_and_weights_are_the_same(path: Path) -> None:
    archive = sbformat.read(path)
    if is_of_a_network_that_is_gone(archive) or is_of_another_class(path):
        with pytest.raises(UnsupportedError):
            rebuild(archive)
        return
    made, _ = rebuild(archive, target="2.0" if archive.algorithm.name != "CrossQ" else "2.4")
    plain = {key: value for key, value in archive.data.items() if not isinstance(value, Serialized)}
    plain = {key: value for key, value in plain.items() if key in made.data and key not in CHANGED}
    assert plain
    for key, value in plain.items():
        assert made.data[key] == value, key
    if archive.algorithm.name == "HER":
        return
    old, new = (one.parameters["policy"].tensors() for one in (archive, made))
    is_renamed = archive.algorithm.name == "ARS"  # action_net.weight became action_net.0.weight
    pairs = list(zip(old, new, strict=True)) if is_renamed else [(name, name) for name in old if name in new]
    assert pairs
    for before, after in pairs:
        if not before.startswith("mlp_extractor."):
            np.testing.assert_array_equal(
                made.parameters["policy"].array(after), archive.parameters["policy"].array(before)
            )
            COUNTED["tensors compared"] += 1


CHANGED: Final[Any] = ("tensorboard_log", "policy_kwargs", "train_freq", "replay_buffer_kwargs")
