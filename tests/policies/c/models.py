"""Exports for tests: of policies to files of a folder, and of many graphs to one library; all compiled and called."""

from __future__ import annotations

import ctypes
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import sbformat
from sbformat.policies.c.export import name_arguments, write_source
from sbformat.policies.c.functions import C_DTYPES
from tests.helpers.c_policy import C99, CPolicy, compile_c, load_library
from tests.nets.agents import make_agent
from tests.policies.run.graphs import lower_graph
from tests.policies.run.models import box, dict_space

if TYPE_CHECKING:
    from sbformat.policies.graph import Graph

QUICK = ("-O0",)
"""For files that are compiled for a few calls: the compiler takes longer than they do."""


def load_wide() -> sbformat.Policy:
    """Return a policy of observations that float32 does not have: seconds since 1970, and numbers of 64 bits."""
    mean, deviation = {"seconds": 1.7e9, "steps": 2e9}, {"seconds": 30.0, "steps": 100.0}
    space = dict_space(seconds=box(2, low=0, high=1e10, dtype="float64"), steps=box(2, low=0, high=1e10, dtype="int64"))
    moments = {
        key: sbformat.RunningMeanStd(np.full(2, mean[key]), np.full(2, deviation[key]) ** 2, 1e4) for key in mean
    }
    statistics = sbformat.VecNormalize(obs_rms=moments, norm_reward=False, norm_obs_keys=list(mean))
    return sbformat.load_policy(make_agent("MultiInputActorCriticPolicy", space, box(3)), vecnormalize=statistics)


def export(policy: sbformat.Policy, folder: Path, flags: Sequence[str] = QUICK, **options: Any) -> CPolicy:
    """Export all outputs of a policy, or those that are given, and return what the source computes."""
    options.setdefault("outputs", list(policy.graph.outputs))
    path = folder / "policy.c"
    report = sbformat.export_c(policy, path, overwrite=True, **options)
    return CPolicy(policy, path, report, flags=flags)


def export_together(policies: Mapping[str, sbformat.Policy], folder: Path) -> dict[str, CPolicy]:
    """Export all outputs of policies, compile them as one file, and return what the source computes, by their keys."""
    reports = [
        sbformat.export_c(policy, folder / f"p{at}.c", name=f"p{at}", outputs=policy.graph.outputs)
        for at, policy in enumerate(policies.values())
    ]
    library = load_library([include_all(folder, [f"p{at}.c" for at in range(len(reports))])], flags=QUICK)
    return {
        key: CPolicy(policy, folder / f"p{at}.c", reports[at], library=library)
        for at, (key, policy) in enumerate(policies.items())
    }


def include_all(folder: Path, names: Sequence[str]) -> Path:
    """Write a file that includes others, which makes one call of the compiler of many."""
    whole = folder / "whole.c"
    whole.write_text("".join(f'#include "{name}"\n' for name in names))
    return whole


class Case(NamedTuple):
    """A graph with its inputs."""

    graph: Graph
    inputs: Mapping[str, np.ndarray]


def run_cases(cases: Sequence[Case], compiler: str = "gcc", flags: Sequence[str] = QUICK) -> list[list[np.ndarray]]:
    """Return the outputs of graphs, which are compiled as one file."""
    with tempfile.TemporaryDirectory(prefix="c-graphs-") as folder:
        texts = []
        for at, case in enumerate(cases):
            lowered = lower_graph(case.graph)
            name = f"graph{at}"
            source = write_source(lowered, name_arguments(lowered, name, box(1), box(1)), name, f"{name}.h")
            (Path(folder) / f"{name}.h").write_text(source.header)
            texts.append(source.code)
        whole = Path(folder) / "all.c"
        whole.write_text("\n".join(texts))
        standard = () if "c++" in flags else C99
        library = compile_c([whole], Path(folder) / "all.so", compiler, (*standard, "-shared", "-fPIC", *flags))
        loaded = ctypes.CDLL(str(library))
        return [_run(loaded[f"graph{at}_predict"], case) for at, case in enumerate(cases)]


def _run(function: Any, case: Case) -> list[np.ndarray]:
    function.restype = None
    lowered = lower_graph(case.graph)
    count = len(next(iter(case.inputs.values())))
    dtypes = {port.name: C_DTYPES.get(port.dtype, port.dtype) for port in (*lowered.inputs, *lowered.outputs)}
    inputs = [np.ascontiguousarray(case.inputs[port.name], dtypes[port.name]) for port in lowered.inputs]
    outputs = [np.empty((count, *port.shape), dtypes[port.name]) for port in lowered.outputs]
    for row in range(count):
        rows = [array[row : row + 1] for array in (*inputs, *outputs)]
        function(*(ctypes.c_void_p(array.ctypes.data) for array in rows))
    return outputs
