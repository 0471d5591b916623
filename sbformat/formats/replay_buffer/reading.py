"""``read_replay_buffer``: convert a pickle's attributes to a replay buffer (REPLAY-BUFFERS.md 18.2)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from sbformat.archive.archive import Lazy
from sbformat.errors import UnsupportedError
from sbformat.formats.opener import open_archive
from sbformat.formats.pickled import PickledArchive
from sbformat.formats.replay_buffer.attributes import read_flag, read_int, read_number
from sbformat.formats.replay_buffer.layout import find_layout
from sbformat.formats.replay_buffer.values import Hindsight, ReplayBuffer
from sbformat.known.table import find
from sbformat.known.types import EnumMember, Instance
from sbformat.limits import DEFAULT_LIMITS, Budget, Limits
from sbformat.pkl.numpy import ArrayInfo
from sbformat.pth.addresses import segment

if TYPE_CHECKING:
    from sbformat.archive.archive import Archive
    from sbformat.io.opening import SourceLike

_KIND: Final = "replay-buffer"


def read_replay_buffer(source: Archive | SourceLike, *, limits: Limits = DEFAULT_LIMITS) -> ReplayBuffer:
    """Read a file that ``save_replay_buffer`` wrote; nothing in it is run (REPLAY-BUFFERS.md 18).

    The arrays of a file of more than 32 MiB, given as a path, stay in the file; it must not change while it is in use.

    :param source: a path, bytes, a binary file object, or what :func:`sbformat.read` returned for one
    :param limits: bounds on what the file may use; arrays are not counted
    :return: the buffer, with its arrays of shape ``(buffer_size, n_envs, ...)``
    :raises OSError: from the path, unchanged
    :raises PickleError: when the file is not a pickle
    :raises TensorError: when its arrays and numbers do not fit together
    :raises UnsupportedError: when the file is something else
    :raises LimitError: when it exceeds a limit

    Example::

        buffer = sbformat.read_replay_buffer("replay_buffer.pkl")
        for episode in buffer.episodes():
            rewards = buffer.steps(episode)["rewards"]  # float32, one per step
    """
    return replay_buffer_of(open_archive(source, Budget(limits)))


def replay_buffer_of(archive: Archive) -> ReplayBuffer:
    """Return the replay buffer in an archive that :func:`sbformat.read` returned.

    :raises TensorError: when its arrays and numbers do not fit together
    :raises UnsupportedError: when the archive is something else
    """
    value = archive.value if isinstance(archive, PickledArchive) and archive.format == _KIND else None
    if not isinstance(value, Instance):
        message = f"expected a replay buffer, got a file of the kind {archive.format} or an unknown class"
        raise UnsupportedError(message)
    return _make_buffer(value, archive.limits)


def is_of_sb3(archive: Archive) -> bool:
    """Return whether an archive is a replay buffer of one of SB3's classes."""
    value = archive.value if isinstance(archive, PickledArchive) and archive.format == _KIND else None
    return isinstance(value, Instance) and find(value.type.pair).is_plain


def _make_buffer(value: Instance, limits: Limits) -> ReplayBuffer:
    attributes = value.attributes
    infos = _arrays(attributes)
    layout = find_layout(attributes, infos)
    offline = attributes.get("replay_buffer")
    return ReplayBuffer(
        type=value.type,
        is_known=find(value.type.pair).is_plain,
        buffer_size=read_int(attributes, "buffer_size", 1),
        n_envs=read_int(attributes, "n_envs", 1),
        pos=read_int(attributes, "pos", 0),
        full=read_flag(attributes, "full"),
        observation_space=attributes.get("observation_space"),
        action_space=attributes.get("action_space"),
        optimize_memory_usage=read_flag(attributes, "optimize_memory_usage", default=False),
        handle_timeout_termination=read_flag(attributes, "handle_timeout_termination", default=False),
        n_steps=read_int(attributes, "n_steps", 1) if "n_steps" in attributes else None,
        gamma=read_number(attributes, "gamma") if "gamma" in attributes else None,
        hindsight=_hindsight(attributes) if "her_ratio" in attributes else None,
        offline=_make_buffer(offline, limits) if isinstance(offline, Instance) else None,
        arrays=Lazy({name: name for name in infos}, lambda name: np.asarray(infos[name].to_numpy()), "array"),
        infos=infos,
        limits=limits,
        layout=layout,
    )


def _arrays(attributes: dict[str, Any]) -> dict[str, ArrayInfo]:
    """Return the arrays by name; those in a dict by the names of the dict and the array."""
    found: dict[str, ArrayInfo] = {}
    for name, value in attributes.items():
        if isinstance(value, ArrayInfo) and not value.is_scalar:
            found[segment(name)] = value
        elif isinstance(value, dict):
            for key, part in value.items():
                if type(key) is str and isinstance(part, ArrayInfo) and not part.is_scalar:
                    found[f"{segment(name)}/{segment(key)}"] = part
    return found


def _hindsight(attributes: dict[str, Any]) -> Hindsight:
    def whole(name: str) -> int | None:
        return read_int(attributes, name, 0) if name in attributes else None

    def flag(name: str) -> bool | None:
        return read_flag(attributes, name) if name in attributes else None

    strategy = attributes.get("goal_selection_strategy")
    return Hindsight(
        goal_selection_strategy=strategy.value if isinstance(strategy, EnumMember) else strategy,
        n_sampled_goal=whole("n_sampled_goal"),
        her_ratio=read_number(attributes, "her_ratio"),
        copy_info_dict=flag("copy_info_dict"),
        online_sampling=flag("online_sampling"),
        max_episode_length=whole("max_episode_length"),
        max_episode_stored=whole("max_episode_stored"),
        current_idx=whole("current_idx"),
    )
