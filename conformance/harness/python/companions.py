"""Files that accompany an archive, in the form of the protocol: normalization statistics and replay buffers."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from tagged import array_value, json_value

import sbformat
from sbformat.arrayfiles.reader import read_safetensors
from sbformat.constants import ARRAYS_ENTRY, SETTINGS_ENTRY
from sbformat.data import parse_object
from sbformat.formats.vecnormalize.bundled import write_entries
from sbformat.limits import Budget

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np


_OF_JSON: Final = ("json_bytes", "json_depth", "json_nodes", "json_digits", "memory_bytes")


def statistics(source: bytes, limits: sbformat.Limits) -> dict[str, Any]:
    """The statistics of a pickle or a bundle, in the form of the two entries of a bundle.

    Only the canonical form of the settings is compared with the limits of JSON (STATISTICS.md 17.7.3): neither the white
    space of a file that is written, nor the header of its arrays.
    """
    value = sbformat.read_vecnormalize(source, limits=limits)
    own = limits._replace(**{name: max(getattr(limits, name), getattr(sbformat.Limits(), name)) for name in _OF_JSON})
    made = write_entries(value, own)
    text = json.dumps(json.loads(made[SETTINGS_ENTRY]), sort_keys=True, separators=(",", ":"))
    settings = parse_object(memoryview(text.encode()), Budget(limits))
    arrays, _ = read_safetensors(made[ARRAYS_ENTRY], limits=own)
    return {"statistics": {"settings": json_value(settings), "arrays": _by_name(arrays)}}


def replay_buffer(source: bytes, limits: sbformat.Limits) -> dict[str, Any]:
    """A replay buffer: its numbers, its episodes, its arrays."""
    buffer = sbformat.read_replay_buffer(source, limits=limits)
    facts = {
        "class": f"{buffer.type.module}.{buffer.type.name}",
        "buffer_size": buffer.buffer_size,
        "n_envs": buffer.n_envs,
        "pos": buffer.pos,
        "full": buffer.full,
        "size": buffer.size(),
        "optimize_memory_usage": buffer.optimize_memory_usage,
        "handle_timeout_termination": buffer.handle_timeout_termination,
        "episodes": [list(episode) for episode in buffer.episodes()],
    }
    return {"replay_buffer": {**facts, "arrays": _by_name(buffer.arrays)}}


def _by_name(arrays: Mapping[str, np.ndarray]) -> list[list[Any]]:
    return [[name, array_value(arrays[name])] for name in sorted(arrays)]
