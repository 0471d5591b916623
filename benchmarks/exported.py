"""What runs an exported policy: each function returns one that predicts many times, and how often."""

from __future__ import annotations

import ctypes
from math import prod
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from benchmarks.predictors import start_session

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np

CALLS: Final = 200
"""Calls of a function of Python that are timed together."""
LOOP: Final = 1_000
"""Calls that a loop in C makes."""
BATCH: Final = 4096
IMAGES: Final = 16
"""A batch of images."""
LOOP_IN_C: Final = """\
#include "policy.h"
void policy_loop(long calls, const void *observation, void *action);
void policy_loop(long calls, const void *observation, void *action)
{
    for (long call = 0; call < calls; call++) {
        policy_predict(observation, action);
    }
}
"""


class Runner(NamedTuple):
    """A way to run an exported file."""

    make: Callable[[str], Callable[[], object]]
    repeats: int
    """The predictions of one call."""


def open_session(path: str, count: int) -> tuple[Any, np.ndarray]:
    """Return a session of onnxruntime with one thread, and random observations for it."""
    import numpy as np

    session = start_session(path)
    (needed,) = session.get_inputs()
    shape, random = needed.shape[1:], np.random.default_rng(0)
    count = min(count, IMAGES) if len(shape) == 3 else count
    if needed.type == "tensor(uint8)":
        return session, random.integers(0, 256, (count, *shape), np.uint8)
    return session, random.uniform(-1, 1, (count, *shape)).astype(np.float32)


def run_onnx(path: str, repeats: int, count: int) -> Callable[[], object]:
    """Run a session as its users do: arrays in and out."""
    session, observations = open_session(path, count)
    name = session.get_inputs()[0].name

    def call() -> object:
        for _ in range(repeats):
            made = session.run(None, {name: observations})
        return made

    return call


def run_bound_onnx(path: str) -> Callable[[], object]:
    """Run a session whose input and output are bound once: the least that its API for Python allows."""
    session, observations = open_session(path, 1)
    binding = session.io_binding()
    binding.bind_cpu_input(session.get_inputs()[0].name, observations)
    binding.bind_output(session.get_outputs()[0].name)
    run, unbound = session._sess.run_with_iobinding, binding._iobinding  # noqa: SLF001

    def call() -> None:
        for _ in range(CALLS):
            run(unbound, None)

    return call


def open_library(path: str) -> tuple[ctypes.CDLL, ctypes.Array[ctypes.c_float], ctypes.Array[ctypes.c_float]]:
    """Return a compiled policy, an observation, and memory for its action.

    The number of items of the observation precedes the suffix of the name.
    """
    import numpy as np

    size = int(path.rsplit("-", 1)[1].removesuffix(".so"))
    random = np.random.default_rng(0).uniform(-1, 1, size).astype(np.float32)
    return ctypes.CDLL(path), (ctypes.c_float * size)(*random.tolist()), (ctypes.c_float * size)()


def run_library(path: str) -> Callable[[], object]:
    """Call a compiled policy from Python."""
    library, observation, action = open_library(path)
    predict = library.policy_predict
    predict.restype = None

    def call() -> None:
        for _ in range(CALLS):
            predict(observation, action)

    return call


def run_loop(path: str) -> Callable[[], object]:
    """Call a compiled policy in a loop in C."""
    library, observation, action = open_library(path)
    library.policy_loop.restype = None
    return lambda: library.policy_loop(ctypes.c_long(LOOP), observation, action)


def name_library(stem: str, shape: tuple[int, ...]) -> str:
    """Return the name of a library that :func:`open_library` opens."""
    return f"{stem}-{prod(shape)}.so"


RUNNERS: Final = {
    "onnx-one": Runner(lambda path: run_onnx(path, CALLS, 1), CALLS),
    "onnx-image": Runner(lambda path: run_onnx(path, 5, 1), 5),
    "onnx-batch": Runner(lambda path: run_onnx(path, 1, BATCH), 1),
    "onnx-bound": Runner(run_bound_onnx, CALLS),
    "c-call": Runner(run_library, CALLS),
    "c-loop": Runner(run_loop, LOOP),
}
"""By the name of the task."""
