"""Policies: graphs of agents, of lone state dicts and of SB2, and what they do with an observation of zeros."""

from __future__ import annotations

import json
import os
import re
import tempfile
import warnings
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from sbformat import (
    Limits,
    Policy,
    SbformatError,
    export_c,
    export_graph,
    export_javascript,
    export_onnx,
    load_policy,
    policy_graph,
)
from sbformat.known.spaces import Box, DictSpace, Discrete, MultiBinary, MultiDiscrete, Space
from sbformat.policies.operators import DTYPES, OPERATORS
from tests.fuzz.law import ask

if TYPE_CHECKING:
    from sbformat.policies.graph import Graph

_NOT_A_NUMBER: Final = "got NaN or infinity"
"""What a policy refuses to choose an action by, as SB3 does."""
LIMITS: Final = Limits(policy_items=1 << 21)
"""The numbers of a network are not counted by the budget of reading: this keeps them within it."""
EXPORTS: Final = (".onnx", ".c", ".js", ".json")
_GIVEN: Final[tuple[dict[str, Any], ...]] = (
    {},
    {},
    {"vecnormalize": False},
    {"policy_kwargs": {"activation_fn": "Tanh"}, "action_space": Discrete("gymnasium", 3, 0, "<i8", None)},
    {"policy_class": "MlpPolicy", "policy_kwargs": {"activation_fn": "ReLU", "squash_output": True}},
    {"modules": ("features_extractor",)},
)
"""What the caller supplies, by the digest of the input: a replay has to supply the same."""


def one_input(data: bytes) -> None:
    """A graph is sound, and can be described; a policy acts within its spaces, whatever its weights are, or is refused;
    only observations of the caller are refused with a ValueError."""
    given = _GIVEN[zlib.crc32(data) % len(_GIVEN)]
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            graph = ask(policy_graph, data, limits=LIMITS, **given)
        except ValueError:
            if "modules" in given:  # the policy does not have it
                return
            raise
        if isinstance(graph, SbformatError):
            return
        check_graph(graph)
        supplied = {**given, "modules": _make_modules(graph)} if "modules" in given else given
        policy = ask(load_policy, data, limits=LIMITS, seed=0, **supplied)
        if isinstance(policy, SbformatError):
            return
        assert repr(policy).isprintable()
        for batch in ((), (3,)):
            _act(policy, batch)
        export(policy, EXPORTS[zlib.crc32(data) // len(_GIVEN) % len(EXPORTS)])


def export(policy: Policy, suffix: str) -> None:
    """Export a policy with all its outputs: to files that are complete, or to none."""
    with tempfile.TemporaryDirectory() as folder:
        write = {".onnx": export_onnx, ".c": export_c, ".js": export_javascript, ".json": export_graph}[suffix]
        report = ask(write, policy, os.path.join(folder, f"policy{suffix}"), outputs=list(policy.graph.outputs))
        files = set(os.listdir(folder))
        if isinstance(report, SbformatError):
            assert not files
            return
        assert files == {os.path.basename(file.path) for file in report.files}
        if suffix == ".js":
            text = Path(folder, "policy.js").read_bytes().decode("ascii")
            assert "`" not in re.sub(
                r'`[\sA-Za-z0-9+/=]*`|"(?:[^"\\]|\\.)*"', "", text[text.rindex("createPolicy({") :]
            )
        if suffix == ".c":
            text = Path(folder, "policy.c").read_bytes().decode("ascii")
            assert text.count("/*") == text.count("*/")
            assert not re.search(r"[^ -~\n]|\?\?|\\", text.replace('\\n"', "").replace("\\0", ""))


def check_graph(graph: Graph) -> None:
    """Every name is given once and before it is used; every operator, dtype and attribute is in the table."""
    known = [item.name for item in graph.inputs] + list(graph.weights)
    for node in graph.nodes:
        assert set(node.inputs) <= set(known), node.name
        assert node.dtype in DTYPES
        assert set(node.attributes) <= OPERATORS[node.op].attributes
        known.append(node.name)
    assert len(set(known)) == len(known)
    assert set(graph.outputs.values()) <= set(known)
    assert all(line.isprintable() for line in graph.describe().splitlines())
    json.dumps(graph.to_dict())


def _act(policy: Any, batch: tuple[int, ...]) -> None:
    observation = _zeros(policy.observation_space, batch)
    try:
        for is_deterministic in (True, False):
            action, _ = policy.predict(observation, deterministic=is_deterministic)
            _check_action(policy.action_space, np.asarray(action), batch)
        for array in policy.outputs(observation).values():
            assert isinstance(array, np.ndarray)
    except ValueError as error:
        if _NOT_A_NUMBER not in str(error) and not _may_refuse_zeros(policy.observation_space):
            raise


def _zeros(space: Space, batch: tuple[int, ...]) -> Any:
    if isinstance(space, DictSpace):
        return {key: _zeros(part, batch) for key, part in space.spaces.items()}
    shape = getattr(space, "shape", ())
    return np.zeros((*batch, *shape), np.float32)


def _make_modules(graph: Graph) -> dict[str, Any]:
    """Functions that return zeros, as large as the graph expects them."""
    sizes = {node.attributes["function"]: node.shape for node in graph.nodes if node.op == "Call"}
    return {
        name: lambda given, shape=shape: np.zeros((len(_first(given)), *shape), np.float32)
        for name, shape in sizes.items()
    }


def _first(observation: Any) -> Any:
    return next(iter(observation.values())) if isinstance(observation, dict) else observation


def _may_refuse_zeros(space: Space) -> bool:
    """Say whether zeros may be no observation of a space: one without choices, or without parts."""
    parts = list(space.spaces.values()) if isinstance(space, DictSpace) else [space]
    return any(isinstance(part, (Discrete, MultiDiscrete)) for part in parts) or not parts


def _check_action(space: Space, action: np.ndarray, batch: tuple[int, ...]) -> None:
    """Check an action's shape, and that it is one of the space, unless a weight is not finite."""
    assert action.shape == (*batch, *getattr(space, "shape", ())), (action.shape, space)
    if isinstance(space, Discrete):
        assert ((action >= min(0, space.start)) & (action < space.n + max(0, space.start))).all()
    elif isinstance(space, MultiBinary):
        assert (np.isnan(action) | np.isin(action, (0, 1))).all()
    elif isinstance(space, Box):
        assert action.dtype.kind == "f"
