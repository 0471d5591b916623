"""Call one hot path several times, to count its instructions: ``python hot_paths.py NAME ARCHIVE CALLS``.

It imports nothing else of the benchmarks, so that it can run with the sbformat of another commit; it exits with 3 if
that commit does not have the path.
"""

from __future__ import annotations

import gc
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

ABSENT = 3
WARM = 12
"""Calls before those that are counted, so that imports and caches do not count."""


def entry(data: bytes, name: str) -> memoryview:
    """Return the bytes of an entry, as a view of the archive's."""
    from sbformat.container.reader import Container

    return Container(data).read(name)


def outer_zip(data: bytes) -> Callable[[], object]:
    """Open the zip and check its structure."""
    from sbformat.container.reader import Container

    return lambda: Container(data)


def inner_zip(data: bytes) -> Callable[[], object]:
    """Open the zip of the policy and check its structure."""
    from sbformat.container.reader import Container

    content = entry(data, "policy.pth")
    return lambda: Container(content, names="record")


def policy_pickle(data: bytes) -> Callable[[], object]:
    """Decode the ``data.pkl`` of the policy to its inert tree."""
    from sbformat.container.reader import Container
    from sbformat.pkl import loads

    records = Container(entry(data, "policy.pth"), names="record")
    text = bytes(records.read(next(name for name in records if name.endswith("/data.pkl"))))
    return lambda: loads(text)


def values(data: bytes) -> Callable[[], object]:
    """Build the values of the policy from its inert tree."""
    from sbformat.limits import DEFAULT_LIMITS, Budget
    from sbformat.pth.decode import build_values, open_pth

    pickle, context = open_pth(entry(data, "policy.pth"), Budget(DEFAULT_LIMITS))

    def call() -> object:
        new = type(context)(context.budget, context._open_storage, id_items=5)  # noqa: SLF001 -- one for each pickle
        return build_values(pickle, new, "error")

    return call


def pth(data: bytes, name: str) -> Callable[[], object]:
    """Decode a ``.pth`` and make its arrays."""
    from sbformat.pth import loads

    content = entry(data, name)

    def call() -> object:
        return loads(content).to_numpy()

    return call


def hyper_parameters(data: bytes) -> Callable[[], object]:
    """Decode the JSON of ``data``."""
    from sbformat.data import loads

    content = entry(data, "data")
    return lambda: loads(content)


def read(data: bytes) -> Callable[[], object]:
    """Read the archive and make the arrays of its policy: the most frequent use."""
    import sbformat

    def call() -> object:
        return sbformat.reads(data).parameters["policy"].to_numpy()

    return call


def scan(data: bytes) -> Callable[[], object]:
    import sbformat

    return lambda: sbformat.scan(data)


def validate(data: bytes) -> Callable[[], object]:
    import sbformat

    return lambda: sbformat.validate(data)


def inspect(data: bytes) -> Callable[[], object]:
    """Make the report of ``inspect``."""
    import sbformat
    from sbformat.tools import inspect as tool

    return lambda: tool.inspect(sbformat.reads(data))


def rebuild(data: bytes) -> Callable[[], object]:
    import sbformat

    return lambda: sbformat.rebuild(data)


def predict(data: bytes) -> Callable[[], object]:
    """Predict the action for one observation."""
    import numpy as np

    import sbformat

    policy = sbformat.load_policy(data)
    observation = np.zeros(policy.observation_space.shape, np.float32)
    return lambda: policy.predict(observation, deterministic=True)


PATHS: dict[str, Callable[[bytes], Callable[[], Any]]] = {
    "outer zip": outer_zip,
    "inner zip": inner_zip,
    "policy, its pickle": policy_pickle,
    "policy, its values": values,
    "policy, to arrays": lambda data: pth(data, "policy.pth"),
    "optimizer, to arrays": lambda data: pth(data, "policy.optimizer.pth"),
    "data": hyper_parameters,
    "read, policy to arrays": read,
    "scan": scan,
    "validate": validate,
    "inspect": inspect,
    "rebuild": rebuild,
    "predict": predict,
}


def main(name: str, archive: str, calls: str) -> int:
    """Call it to warm up, then CALLS times."""
    with open(archive, "rb") as file:
        data = file.read()
    try:
        call = PATHS[name](data)
        for _ in range(WARM):
            call()
    except (ImportError, AttributeError, TypeError):
        return ABSENT
    gc.disable()  # its runs would depend on earlier allocations
    for _ in range(int(calls)):
        call()
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
