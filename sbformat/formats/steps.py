"""The steps of a replay buffer as a table, and its episodes as a dataset of Minari or d3rlpy.

In: a :class:`~sbformat.ReplayBuffer`, whose arrays may be larger than memory. Out: a data frame, a CSV or Parquet file
with a row for each step, or a dataset that the other library opens. Only a piece of the buffer is in memory at a time.

A table has the columns ``episode`` (its number), ``env`` and ``end``, then the arrays of ``ReplayBuffer.steps``: one of
several numbers a step is the columns ``NAME.0``, ``NAME.1``, ...
"""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from sbformat.errors import UnsupportedError, need_extra, quote
from sbformat.formats.replay_buffer import ENDS, Episode
from sbformat.io.atomic import new_file, new_folder
from sbformat.known.spaces import Space

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from sbformat.formats.replay_buffer import ReplayBuffer

DATASETS: Final = ("minari", "d3rlpy")
_PIECE: Final = 1 << 22
"""Bytes of steps in memory."""
_WIDEST: Final = 256
"""Items of a step that have a column each; those of a longer array, such as an image, are a list in one column."""


def iter_steps(buffer: ReplayBuffer) -> Iterator[dict[str, np.ndarray]]:
    """Yield all steps, in the order of ``episode_table``, in pieces of about 4 MiB.

    :return: ``episode`` and ``env`` (int64) and ``end`` (text) of shape ``(steps,)``, and the arrays of
        ``ReplayBuffer.steps``, each of shape ``(steps, ...)``
    """
    table = buffer.episode_table()
    stops = np.cumsum(table["length"])
    begin = 0
    for span in buffer.layout.spans(table):
        width = sum(array.nbytes for array in buffer.steps(span._replace(length=1)).values())
        most = max(1, _PIECE // max(width, 1))
        for offset in range(0, span.length, most):
            piece = span._replace(start=span.start + offset, length=min(most, span.length - offset))
            steps = np.arange(begin + offset, begin + offset + piece.length)
            episode = np.searchsorted(stops, steps, side="right")
            ends = np.array(ENDS)[table["end"][episode]]
            yield {"episode": episode, "env": np.full(piece.length, span.env), "end": ends, **buffer.steps(piece)}
        begin += span.length


def iter_tables(buffer: ReplayBuffer) -> Iterator[dict[str, np.ndarray]]:
    """Yield the same as columns: of several numbers a step ``NAME.0``, ``NAME.1``, ..., unless they are many."""
    for steps in iter_steps(buffer):
        columns: dict[str, np.ndarray] = {}
        for name, array in steps.items():
            flat = array.reshape(len(array), -1)
            if array.ndim == 1 or flat.shape[1] == 1:
                columns[name] = flat[:, 0]
            elif flat.shape[1] <= _WIDEST:
                columns |= {f"{name}.{at}": column for at, column in enumerate(flat.T)}
            else:
                columns[name] = flat
        yield columns


def make_frame(buffer: ReplayBuffer) -> Any:
    """Return all steps as a data frame of pandas; see :meth:`sbformat.ReplayBuffer.to_pandas`."""
    try:
        import pandas as pd
    except ImportError:
        raise need_extra("to_pandas needs the package pandas", "dataset") from None
    tables = ({k: list(v) if v.ndim > 1 else v for k, v in table.items()} for table in iter_tables(buffer))
    return pd.concat(map(pd.DataFrame, tables), ignore_index=True) if buffer.size() else pd.DataFrame()


def write_table(buffer: ReplayBuffer, output: str, *, overwrite: bool, progress: Callable[[int], None]) -> list[str]:
    """Write a row for each step to a ``.csv`` or ``.parquet`` file, and return the names of the columns."""
    with new_file(output, overwrite=overwrite) as temporary:
        write = _write_parquet if output.lower().endswith(".parquet") else _write_csv
        return write(temporary, _count(iter_tables(buffer), progress))


def _count(tables: Iterator[dict[str, Any]], progress: Callable[[int], None]) -> Iterator[dict[str, Any]]:
    for table in tables:
        yield table
        progress(sum(column.nbytes for column in table.values()))


def _write_csv(path: Path, tables: Iterator[dict[str, np.ndarray]]) -> list[str]:
    names: list[str] = []
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        for table in tables:
            long = next((name for name, column in table.items() if column.ndim > 1), None)
            if long is not None:
                message = f"{quote(long)} has {table[long].shape[1]:,} numbers a step, too many for CSV: write .parquet"
                raise UnsupportedError(message)
            if not names:
                names = list(table)
                writer.writerow(names)
            writer.writerows(zip(*(column.astype(str).tolist() for column in table.values())))
    return names


def _write_parquet(path: Path, tables: Iterator[dict[str, np.ndarray]]) -> list[str]:
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError:
        raise need_extra("to write Parquet, the package pyarrow is needed", "catalog") from None
    writer: Any = None
    for table in tables:
        made = pa.table({name: _make_column(pa, column) for name, column in table.items()})
        writer = writer or parquet.ParquetWriter(path, made.schema)
        writer.write_table(made)
    if writer is None:
        parquet.write_table(pa.table({}), path)
        return []
    writer.close()
    return list(writer.schema.names)


def _make_column(pa: Any, column: np.ndarray) -> Any:
    if column.ndim == 1:
        return pa.array(column)
    return pa.FixedSizeListArray.from_arrays(pa.array(np.ascontiguousarray(column).reshape(-1)), column.shape[1])


# -- datasets -----------------------------------------------------------------------------------------


def write_dataset(
    buffer: ReplayBuffer, output: str, kind: str, *, overwrite: bool, progress: Callable[[int], None]
) -> list[str]:
    """Write the episodes as a dataset, and return the names of its arrays.

    Actions are as the environment takes them: SB3 stores those of a Box space scaled to -1 and 1.

    :param kind: ``minari``: a folder that ``minari.MinariDataset(OUTPUT/data)`` opens; ``d3rlpy``: a file that
        ``d3rlpy.dataset.ReplayBuffer.load`` opens
    """
    observation, action = buffer.observation_space, buffer.action_space
    if not isinstance(observation, Space) or not isinstance(action, Space):
        message = "a dataset needs the observation and action space of the buffer, which it does not have as spaces"
        raise UnsupportedError(message)
    episodes = _iter_episodes(buffer, action.to_gymnasium(), progress)
    try:
        if kind == "minari":
            with new_folder(output, overwrite=overwrite, replaceable_suffix=".hdf5") as folder:
                _write_minari(folder, episodes, observation.to_gymnasium(), action.to_gymnasium())
        else:
            with new_file(output, overwrite=overwrite) as temporary:
                _write_d3rlpy(temporary, episodes)
    except ImportError as error:
        raise need_extra(f"to write a dataset for {kind}, the package {error.name} is needed", "dataset") from None
    return ["observations", "actions", "rewards", "terminations", "truncations"]


def _iter_episodes(buffer: ReplayBuffer, space: Any, progress: Callable[[int], None]) -> Iterator[dict[str, Any]]:
    """Yield the episodes: ``observations`` has one more than the actions, a dict of arrays in a Dict space."""
    table = buffer.episode_table()
    rows: Iterator[tuple[int, ...]] = zip(*(table[name].tolist() for name in ("env", "start", "length", "end")))
    for number, (env, start, length, end) in enumerate(rows):
        episode = Episode(env, start, length, ENDS[end])
        steps = buffer.steps(episode)
        actions = steps["actions"]
        if hasattr(space, "low"):
            actions = space.low + (actions.reshape(-1, *space.shape) + 1) / 2 * (space.high - space.low)
        named = {name.partition("/")[2]: name for name in steps if name.split("/")[0] == "observations"}
        parts = {key: np.concatenate([steps[name], steps[f"next_{name}"][-1:]]) for key, name in named.items()}
        yield {
            "number": number,
            "observations": parts.get("", parts),
            "actions": actions.reshape(-1, *space.shape).astype(space.dtype),
            "rewards": steps["rewards"],
            "end": episode.end,
        }
        progress(sum(array.nbytes for array in steps.values()))


def _write_minari(folder: Path, episodes: Iterator[dict[str, Any]], observation_space: Any, action_space: Any) -> None:
    from minari import __version__
    from minari.data_collector import EpisodeBuffer
    from minari.dataset.minari_storage import MinariStorage

    storage = MinariStorage.new(folder / "data", observation_space, action_space, data_format="hdf5")
    for episode in episodes:
        is_last = np.arange(len(episode["rewards"])) == len(episode["rewards"]) - 1
        made = EpisodeBuffer(
            id=episode["number"],
            observations=episode["observations"],
            actions=episode["actions"],
            rewards=episode["rewards"],
            terminations=is_last & (episode["end"] == "terminated"),
            truncations=is_last & (episode["end"] != "terminated"),
            infos={},
        )
        storage.update_episodes([made])
    storage.update_metadata({"dataset_id": "sbformat/replay-buffer-v0", "minari_version": __version__})


def _write_d3rlpy(path: Path, episodes: Iterator[dict[str, Any]]) -> None:
    """Write what ``d3rlpy.dataset.dump`` writes: datasets ``NAME_EPISODE``, and lists as ``NAME_EPISODE_PLACE``."""
    import h5py

    count = 0
    with h5py.File(path, "w") as file:
        for episode in episodes:
            length = len(episode["rewards"])
            seen = episode["observations"]
            for place, part in enumerate(seen.values() if isinstance(seen, dict) else [seen]):
                place_name = f"_{place}" if isinstance(seen, dict) else ""
                file[f"observations_{count}{place_name}"] = part[:-1].reshape(length, *(part.shape[1:] or (1,)))
            file[f"actions_{count}"] = episode["actions"].reshape(length, -1)
            file[f"rewards_{count}"] = episode["rewards"].reshape(length, 1).astype(np.float32)
            file[f"terminated_{count}"] = episode["end"] == "terminated"
            count += 1
        file["columns"] = ["observations", "actions", "rewards", "terminated"]
        file["num_episodes"] = count
        file["version"] = "2.1"
