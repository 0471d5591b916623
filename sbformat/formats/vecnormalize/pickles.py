"""Read normalization statistics of any form and release, and write them as a pickle for SB3 (STATISTICS.md 17.1-17.4).

In: a pickle, a folder, a bundle, or an archive of one. Out: a ``VecNormalize`` value, or the bytes of a new pickle that
``VecNormalize.load`` of the target's SB3 accepts.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

from sbformat.archive.archive import Archive
from sbformat.archive.kinds import detect_kind, refuse_kind
from sbformat.constants import OBSERVATIONS_FILE, RETURNS_FILE, SETTINGS_ENTRY, WHOLE_FILE, WHOLE_FILES
from sbformat.container.writer import write_all
from sbformat.errors import MissingEntryError, SbformatError, TensorError, quote, require_type
from sbformat.formats.opener import open_archive
from sbformat.formats.pickled import PickledArchive, require_plain_pickle, require_statistics
from sbformat.formats.vecnormalize.bundled import read_entries
from sbformat.formats.vecnormalize.values import (
    EXACT,
    FLAGS,
    LIBRARIES,
    NUMBERS,
    RunningMeanStd,
    VecNormalize,
    require_levels,
)
from sbformat.io.atomic import new_file, open_new
from sbformat.io.opening import base_name, has_file, is_folder, join_path, list_names, open_source
from sbformat.io.source import BytesSource
from sbformat.io.urls import is_url
from sbformat.known.changes import GYMNASIUM, NEWEST, RESET_OPTIONS, parse_target
from sbformat.known.encoder import encode_array
from sbformat.known.numpy import to_number
from sbformat.known.rows import UnrecognizedError
from sbformat.known.spaces import Space
from sbformat.known.types import Instance
from sbformat.limits import DEFAULT_LIMITS, Budget, Limits
from sbformat.pkl.decode import decode_pickle
from sbformat.pkl.encode import encode_pickle
from sbformat.pkl.numpy import ITEM_SIZES, ArrayInfo
from sbformat.pkl.tree import Call, Dict, Global, Update
from sbformat.pth.values import refuse, refuse_unsupported
from sbformat.values import decode_tree, encode

if TYPE_CHECKING:
    from sbformat.formats.vecnormalize.values import Library
    from sbformat.io.opening import SourceLike
    from sbformat.known.changes import Release


def class_of(value: object) -> str:
    """Return ``VecNormalize`` or ``RunningMeanStd`` for an object of SB3 or SB2, or an empty text for others."""
    if not isinstance(value, Instance) or library_of(value) not in LIBRARIES:
        return ""
    return value.type.name if value.type.name in ("VecNormalize", "RunningMeanStd") else ""


def library_of(value: Instance) -> Library:
    """Return the library that defines its class."""
    return value.type.module.partition(".")[0]  # type: ignore[return-value]


def statistics_of(value: object, name: str) -> RunningMeanStd:
    """Return the value of a ``RunningMeanStd``, the attribute of this name."""
    if class_of(value) != "RunningMeanStd":
        refuse(f"expected a RunningMeanStd as {name}")
    held: dict[str, Any] = value.attributes  # type: ignore[attr-defined]
    mean, var = (_floats(_attribute(held, part), f"{name}.{part}") for part in ("mean", "var"))
    count = _number(_attribute(held, "count"), f"{name}.count")
    try:
        return RunningMeanStd(mean, var, count)
    except TensorError as error:
        error.message = f"{name}: {error.message}"
        raise


def vecnormalize_of(value: Instance) -> VecNormalize:
    """Return the value of a ``VecNormalize`` of any release."""
    held = value.attributes
    if "old_reward" in held and "old_rews" in held:
        refuse("expected one of old_reward and old_rews, got both")
    obs_rms: Any = held.get("obs_rms")
    if isinstance(obs_rms, dict):
        if any(type(key) is not str for key in obs_rms):
            refuse("expected text as the keys of obs_rms")
        obs_rms = {key: statistics_of(part, f"obs_rms of {quote(key, 60)}") for key, part in obs_rms.items()}
    elif obs_rms is not None:
        obs_rms = statistics_of(obs_rms, "obs_rms")
    returns = held.get("ret_rms")
    settings: dict[str, Any] = {name: _number(_attribute(held, name), name) for name in NUMBERS}
    settings |= {name: _number(_attribute(held, name), name, bool) for name in FLAGS}
    return VecNormalize(
        obs_rms=obs_rms,
        ret_rms=None if returns is None else statistics_of(returns, "ret_rms"),
        **settings,
        norm_obs_keys=_keys(held, obs_rms),
        num_envs=_number(held["num_envs"], "num_envs", int) if "num_envs" in held else None,
        observation_space=_space_of(held.get("observation_space")),
        action_space=_space_of(held.get("action_space")),
        library=library_of(value),
        old_obs=_arrays_of(held.get("old_obs")),
        old_reward=_array(held.get("old_reward", held.get("old_rews"))),
    )


def _attribute(held: dict[str, Any], name: str) -> Any:
    if name not in held:
        raise MissingEntryError(name, present=held, what="attribute")
    return held[name]


def _keys(held: dict[str, Any], obs_rms: object) -> tuple[str, ...] | None:
    """Return the keys that are normalized; before SB3 1.4, which has no such attribute, all keys of the space."""
    if "norm_obs_keys" not in held and isinstance(obs_rms, dict):
        space = held.get("observation_space")
        every = tuple(space.parts() if isinstance(space, Space) and space.has_keys else obs_rms)
        if set(every) != set(obs_rms):
            refuse("the statistics and the space have different keys, and norm_obs_keys is missing")
        return every
    keys = held.get("norm_obs_keys")
    if keys is None:
        if isinstance(obs_rms, dict):
            refuse("expected norm_obs_keys, since there are statistics by key")
        return None
    if type(keys) not in (list, tuple, set, frozenset) or any(type(key) is not str for key in keys):
        refuse("expected text as norm_obs_keys")
    return tuple(keys) if isinstance(keys, (list, tuple)) else tuple(sorted(keys))


def _number(value: object, name: str, kind: type = float) -> Any:
    """Return a number of Python of a kind: an exact float, an integer, or a bool."""
    try:
        found = value if type(value) is int and kind is int else to_number(value, name)
    except UnrecognizedError:
        found = None
    if found is None or isinstance(found, bool) != (kind is bool):
        refuse(f"expected {'a bool' if kind is bool else 'a number'} as {name}")
    if kind is int and not isinstance(found, int):
        refuse(f"expected an integer as {name}")
    if kind is float and isinstance(found, int) and abs(found) > EXACT:
        refuse(f"expected a number that a float holds exactly as {name}")
    return kind(found)


def _floats(value: object, name: str) -> Any:
    """Return statistics as float64, the dtype of SB3: with another one the results would differ."""
    if type(value) is float:
        return value
    if not isinstance(value, ArrayInfo) or value.fields or value.dtype[1:] != "f8":
        refuse(f"expected an array of float64 as {name}")
    return value.to_numpy()


def _arrays_of(value: object) -> Any:
    """Return the arrays of an observation, or None when it contains anything else."""
    if not isinstance(value, dict):
        return _array(value)
    made = {key: _array(part) for key, part in value.items()}
    return made if all(type(key) is str and part is not None for key, part in made.items()) else None


def _array(value: object) -> Any:
    if not isinstance(value, ArrayInfo) or value.fields or value.dtype[1:] not in ITEM_SIZES:
        return None
    try:
        return value.to_numpy()
    except SbformatError:
        return None


# -- spaces -------------------------------------------------------------------------------------------


def _space_of(value: object) -> Space | None:
    """Return a space without random generators, with arrays in C order; None for a value that is not a known space."""
    if not isinstance(value, Space):
        return None
    require_levels(value)
    made: dict[int, Any] = {}  # by ``id()``: shared parts stay shared

    def convert(part: Any) -> Any:
        if id(part) in made:
            return made[id(part)]
        found = part
        if isinstance(part, Space):
            fields = {name: convert(getattr(part, name)) for name in part.plain_fields}
            found = type(part)(library=part.library, random=None, **fields)
        elif isinstance(part, ArrayInfo):
            found = _dense(part)
        elif isinstance(part, dict):
            found = {key: convert(inner) for key, inner in part.items()}
        elif type(part) is tuple:
            found = tuple(map(convert, part))
        made[id(part)] = found
        return found

    return convert(value)  # type: ignore[no-any-return]


def _dense(info: ArrayInfo) -> ArrayInfo:
    """Return the same items in C order and little-endian."""
    if info.fields or info.dtype[1:] not in ITEM_SIZES:
        refuse_unsupported(f"expected arrays of plain numbers in a space, got {quote(info.dtype, 40)}")
    order = "|" if ITEM_SIZES[info.dtype[1:]] == 1 else "<"
    dtype = order + info.dtype[1:]
    if (info.dtype, info.order, info.axes) == (dtype, "C", ()):
        return info._replace(buffer=info.read(), is_scalar=False)
    return ArrayInfo(dtype, info.shape, "C", info.to_numpy().astype(dtype).tobytes(), is_scalar=False)


def read_vecnormalize(source: Archive | SourceLike, *, limits: Limits = DEFAULT_LIMITS) -> VecNormalize:
    """Read normalization statistics; nothing in the file is run (STATISTICS.md 17).

    A lone ``obs_rms.pkl`` or ``ret_rms.pkl`` of SB2 has the statistics of observations or of returns: the other is not
    normalized, and the settings are SB2's defaults. The file's name tells which it is, and without a name its shape:
    statistics of returns have no dimensions.

    :param source: a ``vecnormalize.pkl`` of SB3 or SB2, or one of SB2's two files: a path, bytes, or a binary file
        object; a folder with a ``vecnormalize.pkl``, a ``vec_normalize.pkl`` or SB2's two; an archive that
        :func:`sbformat.bundle` made; or what :func:`sbformat.read` returned for one
    :param limits: bounds on what the file may use
    :return: statistics as float64 arrays, settings, and spaces
    :raises OSError: from the path, unchanged
    :raises MissingEntryError: when a folder or archive has no statistics, or an attribute is missing
    :raises PickleError: when the file is not a pickle
    :raises TensorError: when statistics do not fit together
    :raises UnsupportedError: when the file is something else
    :raises LimitError: when it exceeds a limit

    Example::

        statistics = sbformat.read_vecnormalize("vecnormalize.pkl")
        statistics.obs_rms.mean  # float64, of the shape of an observation
    """
    found = read_parts(source, limits)
    return make_vecnormalize(found) if isinstance(found, dict) else read_entries(found)


def read_parts(source: Archive | SourceLike, limits: Limits) -> dict[str, Instance] | Archive:
    """Return the decoded files of a source by name, or the archive of a bundle."""
    name = ""
    if isinstance(source, Archive):
        value: Any = source.value if isinstance(source, PickledArchive) else None
        return {find_file_name(value, next(iter(source.entries))): value} if class_of(value) else source
    if isinstance(source, (str, os.PathLike)):
        if is_folder(source):
            return _read_folder(source if is_url(source) else os.fsdecode(source), limits)
        name = base_name(source)
    opened = open_source(source, budget=Budget(limits))
    kind = detect_kind(opened)
    if kind == "zip":
        return open_archive(opened.view(0, opened.size), Budget(limits))
    if kind != "pickle":
        if kind in ("torch-legacy", "data-json", "safetensors"):
            refuse_unsupported("expected a pickle of a VecNormalize, or a bundle")
        refuse_kind(kind, opened)
    found = read_pickle(opened, limits)
    return {find_file_name(found, name): found}


def read_pickle(opened: BytesSource, limits: Limits) -> Instance:
    """Return the ``VecNormalize`` or ``RunningMeanStd`` in a pickle."""
    budget = Budget(limits)
    budget.grant(opened.size)
    pickle = require_plain_pickle(decode_pickle(opened.view(0, opened.size), budget))
    require_statistics(pickle.value)
    value, decoder = decode_tree(pickle, budget)
    if not class_of(value):
        doubts = [doubt.message for doubt in decoder.issues.values()]
        refuse_unsupported(f"expected a pickle of a VecNormalize{f': {doubts[0]}' if doubts else ''}")
    return value  # type: ignore[no-any-return]


def find_file_name(value: Instance, name: str) -> str:
    """Return which file a value is from: of SB2's two with a ``RunningMeanStd`` by the file's name and the shape."""
    if class_of(value) == "VecNormalize":
        return WHOLE_FILE
    has_dimensions = statistics_of(value, "the pickle").shape != ()
    if "ret_rms" in name:
        if has_dimensions:
            refuse("expected statistics of returns of shape (), got some with dimensions")
        return RETURNS_FILE
    return OBSERVATIONS_FILE if has_dimensions or "obs_rms" in name else RETURNS_FILE


def folder_files(folder: str) -> tuple[str, ...]:
    """Return the names of the files of statistics in a folder: one of :data:`WHOLE_FILES`, or SB2's two."""
    found = list_names(folder)
    for names in (*((name,) for name in WHOLE_FILES), (OBSERVATIONS_FILE, RETURNS_FILE)):
        present = tuple(name for name in names if name in found)
        if present:
            return present
    return ()


def _read_folder(folder: str, limits: Limits) -> dict[str, Instance] | Archive:
    names = folder_files(folder)
    if not names and has_file(folder, SETTINGS_ENTRY):
        return open_archive(folder, Budget(limits))
    if not names:
        raise MissingEntryError(WHOLE_FILE, present=list_names(folder), what="file")
    made = {}
    for name in names:
        try:
            found = read_pickle(open_source(join_path(folder, name), budget=Budget(limits)), limits)
            is_whole = class_of(found) == "VecNormalize"
            if is_whole != (name in WHOLE_FILES) or (not is_whole and find_file_name(found, name) != name):
                refuse_unsupported("expected the pickle that the file is named for")
        except SbformatError as error:
            raise error.within(name) from None
        made[WHOLE_FILE if is_whole else name] = found
    return made


def make_vecnormalize(parts: dict[str, Instance]) -> VecNormalize:
    """Return the statistics of the files of :func:`read_parts`: of a ``VecNormalize``, or SB2's alone."""
    if WHOLE_FILE in parts:
        return vecnormalize_of(parts[WHOLE_FILE])
    found: dict[str, RunningMeanStd] = {name: statistics_of(value, name) for name, value in parts.items()}
    libraries = {library_of(value) for value in parts.values()}
    if len(libraries) > 1:
        refuse_unsupported(f"expected files of one library, got {', '.join(sorted(map(quote, libraries)))}")
    return VecNormalize(
        obs_rms=found.get(OBSERVATIONS_FILE),
        ret_rms=found.get(RETURNS_FILE),
        norm_obs=OBSERVATIONS_FILE in found,
        norm_reward=RETURNS_FILE in found,
        library=libraries.pop(),
    )


_CLASS: Final = ("stable_baselines3.common.vec_env.vec_normalize", "VecNormalize")
_STATISTICS: Final = ("stable_baselines3.common.running_mean_std", "RunningMeanStd")
_MOST_ENVS: Final = 65_536
"""Up to so many environments get a seed and options each; with more, SB3 takes those of the wrapped environment."""
_ANY: Final = Limits()._replace(pickle_bytes=2**40, pickle_nodes=2**31)  # limits for pickles that this module wrote


def write_vecnormalize(
    value: VecNormalize, path: str | os.PathLike[str], *, target: str | Release = NEWEST, overwrite: bool = False
) -> None:
    """Write a ``vecnormalize.pkl`` for SB3, completely or not at all (STATISTICS.md 17.4).

    :param value: the statistics
    :param path: the file; no suffix is added
    :param target: as in :func:`writes_vecnormalize`
    :param overwrite: replace an existing file
    :raises FileExistsError: when the file exists and ``overwrite`` is False
    :raises OSError: when it cannot be written
    :raises UnsupportedError: as in :func:`writes_vecnormalize`

    Example::

        statistics = sbformat.read_vecnormalize("obs_rms.pkl")  # of SB2
        sbformat.write_vecnormalize(statistics, "vecnormalize.pkl", target="2.3")
    """
    data = writes_vecnormalize(value, target=target)
    with new_file(path, overwrite=overwrite) as temporary, open_new(temporary) as file:
        write_all(file, data)
        os.fsync(file.fileno())


def writes_vecnormalize(value: VecNormalize, *, target: str | Release = NEWEST) -> bytes:
    """Return a pickle that ``VecNormalize.load`` of SB3 accepts without a warning (STATISTICS.md 17.4).

    It contains what SB3 writes: classes by name, and plain data; equal values give equal bytes. When the value has no
    space, SB3 takes that of the wrapped environment and checks no shape.

    :param value: the statistics; those of SB2 become SB3's
    :param target: a release of SB3, ``1.6`` to ``2.9``
    :return: one pickle of protocol 4
    :raises UnsupportedError: for another target, or a space that not every gymnasium has

    Example::

        data = sbformat.writes_vecnormalize(statistics, target="2.0")
    """
    require_type(value, VecNormalize, "a VecNormalize")
    release = parse_target(target)
    made = _new(_CLASS, Dict(_state(value, release)))
    data = encode_pickle(made, protocol=4)
    again = vecnormalize_of(read_pickle(BytesSource(data), _ANY))
    if again.obs_rms != value.obs_rms or again.norm_obs_keys != value.norm_obs_keys:
        refuse("the written pickle does not contain the same statistics")
    return data


def _state(value: VecNormalize, release: Release) -> list[tuple[object, object]]:
    """Return the attributes, in the order of SB3 2.9."""
    import numpy as np

    nothing = np.zeros(0)
    returns = value.ret_rms or RunningMeanStd(np.zeros(()), np.ones(()), 1e-4)
    made = [
        *_of_environment(value, release),
        ("norm_obs", value.norm_obs),
        ("norm_obs_keys", None if value.norm_obs_keys is None else list(value.norm_obs_keys)),
        *([] if value.obs_rms is None else [("obs_rms", _encode(value.obs_rms))]),
        ("ret_rms", _encode(returns)),
        *((name, getattr(value, name)) for name in NUMBERS),
        ("training", value.training),
        ("norm_reward", value.norm_reward),
        ("old_reward", _encode(nothing if value.old_reward is None else value.old_reward)),
    ]
    if value.old_obs is not None or release < RESET_OPTIONS:  # old releases always have one
        made.append(("old_obs", _encode(nothing if value.old_obs is None else value.old_obs)))
    return made


def _of_environment(value: VecNormalize, release: Release) -> list[tuple[object, object]]:
    """Return the attributes that SB3 copies from the wrapped environment."""
    names = ("observation_space", "action_space")
    held: dict[str, object] = {name: getattr(value, name) for name in names if getattr(value, name) is not None}
    if value.observation_space is not None and value.observation_space.has_keys:
        held["obs_spaces"] = dict(value.observation_space.parts())
    # Encoded together, so that the parts of a Dict space are shared with obs_spaces, as in SB3.
    tree: Any = decode_pickle(encode(held, release), Budget(_ANY)).value
    made: list[tuple[object, object]] = [] if value.num_envs is None else [("num_envs", value.num_envs)]
    made += [pair for pair in tree if pair[0] != "obs_spaces"]
    if release < GYMNASIUM:
        return made + [pair for pair in tree if pair[0] == "obs_spaces"]
    if value.num_envs is not None and value.num_envs <= _MOST_ENVS:
        count = range(value.num_envs)
        made += [("reset_infos", [Dict() for _ in count]), ("_seeds", [None for _ in count])]
        made += [("_options", [Dict() for _ in count])] if release >= RESET_OPTIONS else []
    made += [("render_mode", None), ("metadata", Dict([("render_modes", [])]))]
    return made + [pair for pair in tree if pair[0] == "obs_spaces"]


def _new(pair: tuple[str, str], state: Dict) -> Call:
    made = Call("NEWOBJ", Global(*pair), ())
    made.updates = [Update("BUILD", made, state)]
    return made


def _encode(value: Any) -> Any:
    """Return the tree of an array, of statistics, or of these by key.

    Arrays have the one form that numpy 1 and 2 load without a warning.
    """
    if isinstance(value, dict):
        return Dict([(key, _encode(part)) for key, part in value.items()])
    if isinstance(value, RunningMeanStd):
        parts = [("mean", _encode(value.mean)), ("var", _encode(value.var)), ("count", value.count)]
        return _new(_STATISTICS, Dict(parts))
    return encode_array(ArrayInfo(value.dtype.str, value.shape, "C", value.tobytes(), is_scalar=False))
