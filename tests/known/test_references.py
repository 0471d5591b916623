"""The names that may stand as values: their shape, and that nothing which acts is among them."""

from __future__ import annotations

import importlib
import inspect
import pickle
from collections import Counter
from typing import get_args

import pytest

from sbformat.known.rows import Use
from sbformat.known.table import FAMILIES, TABLE
from sbformat.pkl.tree import CALLS

REFERENCES = {pair for pair, row in TABLE.items() if row.is_reference}
ALGORITHMS = {pair for pair, row in TABLE.items() if "algorithm" in row.uses}

DANGEROUS = [
    ("builtins", "eval"), ("builtins", "exec"), ("builtins", "compile"), ("builtins", "open"), ("builtins", "getattr"),
    ("builtins", "setattr"), ("builtins", "__import__"), ("builtins", "map"), ("builtins", "property"),
    ("builtins", "super"), ("builtins", "memoryview"), ("functools", "partial"), ("operator", "attrgetter"),
    ("numpy", "load"), ("numpy", "memmap"), ("numpy", "save"), ("torch", "load"), ("torch.storage", "_load_from_bytes"),
    ("torch", "FloatStorage"), ("stable_baselines3.common.vec_env.subproc_vec_env", "SubprocVecEnv"),
    ("stable_baselines3.common.vec_env.base_vec_env", "CloudpickleWrapper"),
    ("stable_baselines3.common.vec_env.dummy_vec_env", "DummyVecEnv"),
    ("stable_baselines3.common.vec_env.vec_video_recorder", "VecVideoRecorder"),
    ("stable_baselines3.common.monitor", "Monitor"), ("stable_baselines3.common.monitor", "ResultsWriter"),
    ("stable_baselines3.common.logger", "CSVOutputFormat"), ("stable_baselines3.common.save_util", "json_to_data"),
    ("stable_baselines3.common.callbacks", "CheckpointCallback"),
    ("stable_baselines.gail.dataset.dataset", "ExpertDataset"), ("sb3_contrib.common.vec_env.async_eval", "AsyncEval"),
    ("gymnasium.vector.utils.misc", "CloudpickleWrapper"), ("gymnasium.utils.ezpickle", "EzPickle"),
]  # fmt: skip


def test_a_name_has_one_row() -> None:
    rows = [row.pair for family in FAMILIES for row in family]
    assert [pair for pair, count in Counter(rows).items() if count > 1] == []
    assert set(rows) == TABLE.keys()


def test_a_use_is_one_of_the_words() -> None:
    assert {word for row in TABLE.values() for word in row.uses} <= set(get_args(Use))


def test_every_name_is_exact() -> None:
    for module, name in REFERENCES:
        assert all(part.isidentifier() for part in module.split("."))
        assert name.isidentifier()


def test_only_known_packages_are_named() -> None:
    assert {module.partition(".")[0] for module, _ in REFERENCES} == {
        "builtins", "collections", "datetime", "enum", "gym", "gymnasium", "imitation", "jax", "numpy", "optax",
        "sb3_contrib", "sbx", "stable_baselines", "stable_baselines3", "tensorflow", "torch",
    }  # fmt: skip


@pytest.mark.parametrize("pair", DANGEROUS, ids=".".join)
def test_nothing_that_runs_opens_or_imports_is_in_it(pair: tuple[str, str]) -> None:
    assert pair not in REFERENCES


def test_no_module_that_runs_opens_or_connects_is_in_it() -> None:
    words = ("vec_env", "env_util", "logger", "monitor", "callback", "wrapper", "save_util", "cloudpickle", "pickle")
    assert not [pair for pair in REFERENCES if any(word in pair[0] for word in words)]
    assert not {"os", "posix", "nt", "sys", "subprocess", "socket", "shutil", "importlib", "runpy", "operator"} & {
        module for module, _ in REFERENCES
    }


def test_no_private_name_is_in_it() -> None:
    assert not [name for _, name in REFERENCES if name.startswith("_")]


def test_functions_that_a_pth_calls_are_not_references() -> None:
    shared = REFERENCES & CALLS.keys()
    assert {name for _, name in shared} <= {
        "OrderedDict",
        "set",
        "frozenset",
        "bytearray",
        "complex",
        "bytes",
        "device",
    }


def test_algorithms_are_a_part_of_it() -> None:
    assert ALGORITHMS < REFERENCES
    assert ("stable_baselines3.sac.sac", "SAC") in ALGORITHMS


@pytest.mark.parametrize(
    "pair", sorted(p for p in REFERENCES if p[0] in {"builtins", "collections", "datetime", "enum"})
)
def test_a_name_of_the_standard_library_is_what_a_pickler_writes(pair: tuple[str, str]) -> None:
    value = getattr(importlib.import_module(pair[0]), pair[1])
    assert inspect.isclass(value) or value in {Ellipsis, NotImplemented}
    assert pickle.loads(pickle.dumps(value, 4)) is value
