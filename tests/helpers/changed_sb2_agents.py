"""Bundled agents of Stable Baselines 2 with a change."""

from __future__ import annotations

import base64
import io
import json
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np

from tests.helpers.bundled import entries as read_entries
from tests.helpers.bundled import zipped

FOLDER: Final = Path(__file__).parents[1] / "nets" / "archives" / "sb2"


def serialized(code: bytes) -> dict[str, str]:
    return {":type:": "x", ":serialized:": base64.b64encode(code).decode()}


def reference(module: str, name: str) -> dict[str, str]:
    return serialized(b"\x80\x03c" + f"{module}\n{name}\n".encode() + b".")


def changed(agent: str, change: Callable[[dict[str, Any]], object]) -> bytes:
    """A bundled agent whose ``data`` is changed."""
    found = read_entries(FOLDER / f"{agent}.zip")
    data = json.loads(found["data"])
    change(data)
    return zipped({**found, "data": json.dumps(data).encode()})


def read_parameters(agent: str) -> dict[str, np.ndarray]:
    """The parameters of a bundled agent, by numpy."""
    found = read_entries(FOLDER / f"{agent}.zip")
    with zipfile.ZipFile(io.BytesIO(found["parameters"])) as arrays:
        return {name: np.load(arrays.open(f"{name}.npy")) for name in json.loads(found["parameter_list"])}


def with_parameters(agent: str, change: Callable[[dict[str, np.ndarray]], object]) -> bytes:
    """A bundled agent whose parameters are changed."""
    parameters = read_parameters(agent)
    change(parameters)
    buffer = io.BytesIO()
    np.savez(buffer, **parameters)  # type: ignore[arg-type]
    names = json.dumps(list(parameters)).encode()
    entries = read_entries(FOLDER / f"{agent}.zip")
    return zipped({**entries, "parameters": buffer.getvalue(), "parameter_list": names})


def without_parameter(agent: str, name: str) -> bytes:
    return with_parameters(agent, lambda found: found.pop(name))


def as_list(agent: str) -> bytes:
    """A pickle with the parameters of an agent as a list, without its policy."""
    found = read_entries(FOLDER / f"{agent}.zip")
    data = {key: value for key, value in json.loads(found["data"]).items() if not isinstance(value, dict)}
    return pickle.dumps((data, list(read_parameters(agent).values())))
