"""The two entries that a bundle adds to an archive: settings as JSON, arrays as safetensors (STATISTICS.md 17.5).

They are plain data: a JSON parser and a safetensors reader are enough to read them, and nothing is run.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from sbformat.constants import ARRAYS_ENTRY, DATA_ENTRY, SETTINGS_ENTRY
from sbformat.data import parse_object
from sbformat.errors import DataError, MissingEntryError, SbformatError, TensorError, UnsupportedError, quote
from sbformat.formats.vecnormalize.space_json import read_number, read_space, refuse, write_space
from sbformat.formats.vecnormalize.values import LIBRARIES, RunningMeanStd, VecNormalize
from sbformat.limits import Budget
from sbformat.rendering import write_number

if TYPE_CHECKING:
    from sbformat.archive.archive import Archive
    from sbformat.limits import Limits

ENTRIES: Final = (SETTINGS_ENTRY, ARRAYS_ENTRY)

FORMAT_VERSION: Final = 1
_ONE: Final = "array"
"""Written for one array, or one set of statistics, instead of the list of keys of several."""
_FLAGS: Final = ("training", "norm_obs", "norm_reward")
_NUMBERS: Final = ("clip_obs", "clip_reward", "gamma", "epsilon")
_PARTS: Final = ("mean", "var", "count")
_FIELDS: Final = (
    "format_version", "library", "num_envs", *_FLAGS, *_NUMBERS, "norm_obs_keys", "obs_rms", "ret_rms", "old_obs",
    "old_reward", "observation_space", "action_space",
)  # fmt: skip
_ARRAYS: Final = "biuf"
"""Kinds of numpy dtypes that safetensors supports."""


def has_entries(archive: Archive) -> bool:
    """Return whether an archive is a bundle: it has at least one of the entries."""
    return any(name in archive.entries for name in ENTRIES)


def write_entries(value: VecNormalize, limits: Limits) -> dict[str, bytes]:
    """Return the entries of a bundle by name; equal values give equal bytes.

    :raises UnsupportedError: for a value that they cannot express exactly
    :raises LimitError: when they would be larger than a reader accepts
    """
    from safetensors.numpy import save

    settings = json.dumps(_settings(value, Budget(limits)), indent=4, allow_nan=False).encode()
    try:
        made = {SETTINGS_ENTRY: settings, ARRAYS_ENTRY: save(_arrays(value))}
    except UnicodeEncodeError:
        message = "a key of the observations is not valid UTF-8, which safetensors needs"
        raise UnsupportedError(message) from None
    if not _is_held(value, made, limits):
        message = "the entries of a bundle cannot express these statistics exactly"
        raise UnsupportedError(message)
    return made


def _is_held(value: VecNormalize, made: dict[str, bytes], limits: Limits) -> bool:
    try:
        return _value(made[SETTINGS_ENTRY], made[ARRAYS_ENTRY], limits) == value
    except DataError:  # duplicate keys
        return False


def read_entries(archive: Archive) -> VecNormalize:
    """Return the statistics of a bundle; every field and array is checked.

    :raises MissingEntryError: when one of the two entries is missing
    :raises DataError: when the settings break the format
    :raises ContainerError: when the arrays are not a safetensors file
    :raises TensorError: when arrays are missing or unknown, or do not fit together
    :raises LimitError: when they exceed a limit
    """
    for name in ENTRIES:
        if name not in archive.entries:
            hint = ""
            if DATA_ENTRY in archive.entries and not {*ENTRIES} & {*archive.entries}:
                hint = f"this is an agent of {archive.algorithm.name or 'an unknown algorithm'} without statistics"
            raise MissingEntryError(name, present=archive.entries, hint=hint)
    return _value(archive.extra[SETTINGS_ENTRY], archive.extra[ARRAYS_ENTRY], archive.limits)


# -- settings -----------------------------------------------------------------------------------------


def _settings(value: VecNormalize, budget: Budget) -> dict[str, Any]:
    keys = value.norm_obs_keys
    return {
        "format_version": FORMAT_VERSION,
        "library": value.library,
        "num_envs": value.num_envs,
        **{name: getattr(value, name) for name in _FLAGS},
        **{name: write_number(getattr(value, name)) for name in _NUMBERS},
        "norm_obs_keys": None if keys is None else list(keys),
        "obs_rms": _kind(value.obs_rms),
        "ret_rms": _kind(value.ret_rms),
        "old_obs": _kind(value.old_obs),
        "old_reward": _kind(value.old_reward),
        "observation_space": write_space(value.observation_space, budget),
        "action_space": write_space(value.action_space, budget),
    }


def _kind(value: object) -> str | list[str] | None:
    """Return None for no array, ``array`` for one, and the keys for several."""
    if value is None:
        return None
    return list(value) if isinstance(value, dict) else _ONE


def _value(settings: bytes, arrays: bytes, limits: Limits) -> VecNormalize:
    try:
        found = _check_settings(parse_object(memoryview(settings), Budget(limits)))
        spaces = Budget(limits)
        given = {name: read_space(found[name], spaces) for name in ("observation_space", "action_space")}
        given.update({name: read_number(found[name]) for name in _NUMBERS})
    except SbformatError as error:
        raise error.within(SETTINGS_ENTRY) from None
    keys = found["norm_obs_keys"]
    try:
        given.update(_read_arrays(found, arrays, limits))
        return VecNormalize(
            library=found["library"],
            num_envs=found["num_envs"],
            norm_obs_keys=None if keys is None else tuple(keys),
            **{name: found[name] for name in _FLAGS},
            **given,
        )
    except SbformatError as error:
        raise error.within(ARRAYS_ENTRY) from None


def _check_settings(found: dict[str, Any]) -> dict[str, Any]:
    """Check the names and types of all fields, except those of spaces and numbers."""
    version = found.get("format_version")
    if type(version) is int and version > FORMAT_VERSION:
        message = f"expected a bundle of version {FORMAT_VERSION}, got a later one"
        raise UnsupportedError(message)
    if set(found) != set(_FIELDS):
        odd = min(set(found) ^ set(_FIELDS))
        refuse(f"the field {quote(odd, 60)} is {'unknown' if odd in found else 'missing'}")
    if type(version) is not int or version != FORMAT_VERSION:
        refuse(f"expected {FORMAT_VERSION} as format_version")
    if found["library"] not in LIBRARIES:
        refuse(f"expected {' or '.join(LIBRARIES)} as library")
    for name in _FLAGS:
        if type(found[name]) is not bool:
            refuse(f"expected a bool as {name}")
    if found["num_envs"] is not None and type(found["num_envs"]) is not int:
        refuse("expected null or an integer as num_envs")
    for name in ("obs_rms", "ret_rms", "old_obs", "old_reward"):
        several = _are_keys(found[name]) and name.endswith(("obs_rms", "old_obs"))
        if found[name] not in (None, _ONE) and not several:
            refuse(f"expected null, '{_ONE}' or a list of keys as {name}")
    if found["norm_obs_keys"] is not None and not _are_keys(found["norm_obs_keys"]):
        refuse("expected null or a list of keys as norm_obs_keys")
    return found


def _are_keys(value: Any) -> bool:
    return type(value) is list and all(type(key) is str for key in value) and len(set(value)) == len(value)


# -- arrays -------------------------------------------------------------------------------------------


def _names(base: str, kind: str | list[str] | None) -> dict[str | None, str]:
    """Return the names of tensors by key, or the name of a single one by None."""
    if kind is None:
        return {}
    return {None: base} if kind == _ONE else {key: f"{base}/{key}" for key in kind}


def _arrays(value: VecNormalize) -> dict[str, Any]:
    import numpy as np

    made: dict[str, Any] = {}
    for base in ("obs_rms", "ret_rms"):
        held: Any = getattr(value, base)
        for key, name in _names(base, _kind(held)).items():
            statistics = held if key is None else held[key]
            made.update({f"{name}.{part}": np.asarray(getattr(statistics, part), order="C") for part in _PARTS})
    for base in ("old_obs", "old_reward"):
        held = getattr(value, base)
        for key, name in _names(base, _kind(held)).items():
            made[name] = np.asarray(held if key is None else held[key], order="C")
            if made[name].dtype.kind not in _ARRAYS:
                message = f"expected {base} of a dtype that safetensors supports, got {made[name].dtype}"
                raise UnsupportedError(message)
    return made


def _read_arrays(found: dict[str, Any], arrays: bytes, limits: Limits) -> dict[str, Any]:
    from sbformat.arrayfiles.reader import read_safetensors

    held, metadata = read_safetensors(arrays, limits=limits, is_plain=True)
    if metadata:
        message = "expected arrays without metadata in a bundle"
        raise TensorError(message)
    made: dict[str, Any] = {}
    for base in ("obs_rms", "ret_rms"):
        parts = {key: _read_statistics(held, name) for key, name in _names(base, found[base]).items()}
        made[base] = _by_kind(parts, found[base])
    for base in ("old_obs", "old_reward"):
        parts = {key: _take_array(held, name) for key, name in _names(base, found[base]).items()}
        made[base] = _by_kind(parts, found[base])
    if held:
        message = f"the array {quote(next(iter(held)), 60)} does not belong to these settings"
        raise TensorError(message)
    return made


def _by_kind(parts: dict[Any, Any], kind: str | list[str] | None) -> Any:
    return None if kind is None else parts[None] if kind == _ONE else parts


def _take_array(held: dict[str, Any], name: str) -> Any:
    if name not in held:
        message = f"the array {quote(name, 60)} is missing"
        raise TensorError(message)
    return held.pop(name)


def _read_statistics(held: dict[str, Any], name: str) -> RunningMeanStd:
    mean, var, count = (_take_array(held, f"{name}.{part}") for part in _PARTS)
    if any(array.dtype != "float64" for array in (mean, var, count)) or count.shape != ():
        message = f"the statistics {quote(name, 60)} are not float64, or their count is not one number"
        raise TensorError(message)
    return RunningMeanStd(mean, var, count[()])
