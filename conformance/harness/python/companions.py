"""Files that accompany an archive, in the form of the protocol: normalization statistics and replay buffers."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tagged import array_value, json_value

import sbformat
from sbformat.arrayfiles.reader import read_safetensors
from sbformat.constants import ARRAYS_ENTRY, SETTINGS_ENTRY
from sbformat.formats.vecnormalize.bundled import write_entries

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np


def statistics(source: bytes, limits: sbformat.Limits) -> dict[str, Any]:
    """The statistics of a pickle or a bundle, in the form of the two entries of a bundle."""
    made = write_entries(sbformat.read_vecnormalize(source, limits=limits), limits)
    settings = json.loads(json.dumps(json.loads(made[SETTINGS_ENTRY]), sort_keys=True))
    arrays, _ = read_safetensors(made[ARRAYS_ENTRY], limits=limits)
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
