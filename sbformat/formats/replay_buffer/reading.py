"""``read_replay_buffer``: from a pickle's attributes to a replay buffer (FORMAT.md 18.2)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from sbformat.archive.lazy import Lazy
from sbformat.errors import UnsupportedError
from sbformat.formats.opener import open_archive
from sbformat.formats.pickled import PickledArchive
from sbformat.formats.replay_buffer.attributes import a_flag, a_number, a_whole
from sbformat.formats.replay_buffer.layout import layout_of
from sbformat.formats.replay_buffer.values import Hindsight, ReplayBuffer
from sbformat.globals.constructors import PLAIN_OBJECTS
from sbformat.limits import DEFAULT_LIMITS, Budget, Limits
from sbformat.pkl.numpy import ArrayInfo
from sbformat.pth.addresses import segment
from sbformat.values.types import EnumMember, Instance

if TYPE_CHECKING:
    from sbformat.archive.archive import Archive
    from sbformat.io.source import SourceLike

_KIND: Final = "replay-buffer"


def read_replay_buffer(source: SourceLike, *, limits: Limits = DEFAULT_LIMITS) -> ReplayBuffer:
    """Read what ``save_replay_buffer`` wrote; nothing in the file is run.

    Of a path to a file of more than 32 MiB only what is no array is read now; it must not change while it is in use.

    :param source: a path, bytes, or a binary file object
    :param limits: what the file may ask for; arrays do not count
    :raises OSError: from the path, unchanged
    :raises PickleError: when it is no pickle
    :raises TensorError: when its arrays and numbers do not fit each other
    :raises UnsupportedError: when it is something else
    :raises LimitError: when it asks for more than allowed
    """
    return replay_buffer_of(open_archive(source, Budget(limits)))


def replay_buffer_of(archive: Archive) -> ReplayBuffer:
    """Return the replay buffer that :func:`sbformat.read` read.

    :raises TensorError: when its arrays and numbers do not fit each other
    :raises UnsupportedError: when the archive is something else
    """
    value = archive.value if isinstance(archive, PickledArchive) and archive.format == _KIND else None
    if not isinstance(value, Instance):
        message = f"a file of the kind {archive.format} is no replay buffer that can be understood"
        raise UnsupportedError(message)
    return _made(value, archive.limits)


def is_of_sb3(archive: Archive) -> bool:
    """Say whether an archive is a replay buffer of a class of SB3's own."""
    value = archive.value if isinstance(archive, PickledArchive) and archive.format == _KIND else None
    return isinstance(value, Instance) and value.type.pair in PLAIN_OBJECTS


def _made(value: Instance, limits: Limits) -> ReplayBuffer:
    attributes = value.attributes
    infos = _arrays(attributes)
    layout = layout_of(attributes, infos)
    offline = attributes.get("replay_buffer")
    return ReplayBuffer(
        type=value.type,
        is_known=value.type.pair in PLAIN_OBJECTS,
        buffer_size=a_whole(attributes, "buffer_size", 1),
        n_envs=a_whole(attributes, "n_envs", 1),
        pos=a_whole(attributes, "pos", 0),
        full=a_flag(attributes, "full"),
        observation_space=attributes.get("observation_space"),
        action_space=attributes.get("action_space"),
        optimize_memory_usage=a_flag(attributes, "optimize_memory_usage", default=False),
        handle_timeout_termination=a_flag(attributes, "handle_timeout_termination", default=False),
        n_steps=a_whole(attributes, "n_steps", 1) if "n_steps" in attributes else None,
        gamma=a_number(attributes, "gamma") if "gamma" in attributes else None,
        hindsight=_hindsight(attributes) if "her_ratio" in attributes else None,
        offline=_made(offline, limits) if isinstance(offline, Instance) else None,
        arrays=Lazy({name: name for name in infos}, lambda name: np.asarray(infos[name].to_numpy()), "array"),
        infos=infos,
        limits=limits,
        layout=layout,
    )


def _arrays(attributes: dict[str, Any]) -> dict[str, ArrayInfo]:
    """Return the arrays by name: those of a dict by its name and their own."""
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
        return a_whole(attributes, name, 0) if name in attributes else None

    def flag(name: str) -> bool | None:
        return a_flag(attributes, name) if name in attributes else None

    strategy = attributes.get("goal_selection_strategy")
    return Hindsight(
        goal_selection_strategy=strategy.value if isinstance(strategy, EnumMember) else strategy,
        n_sampled_goal=whole("n_sampled_goal"),
        her_ratio=a_number(attributes, "her_ratio"),
        copy_info_dict=flag("copy_info_dict"),
        online_sampling=flag("online_sampling"),
        max_episode_length=whole("max_episode_length"),
        max_episode_stored=whole("max_episode_stored"),
        current_idx=whole("current_idx"),
    )
