"""The two entries that a bundle has besides an archive's: settings as JSON, arrays as safetensors (FORMAT.md 17.5).

Plain data of known shape: whoever has a JSON parser and a safetensors reader can read them, and nothing is run.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from sbformat.constants import ARRAYS_ENTRY, SETTINGS_ENTRY
from sbformat.data import parse_object
from sbformat.errors import DataError, MissingEntryError, SbformatError, TensorError, UnsupportedError, quote
from sbformat.formats.vecnormalize.space_json import read_number, read_space, refuse, write_number, write_space
from sbformat.formats.vecnormalize.values import LIBRARIES, RunningMeanStd, VecNormalize
from sbformat.limits import Budget

if TYPE_CHECKING:
    from sbformat.archive.archive import Archive
    from sbformat.limits import Limits

ENTRIES: Final = (SETTINGS_ENTRY, ARRAYS_ENTRY)

FORMAT_VERSION: Final = 1
_ONE: Final = "array"
"""Stands where there is one array, or one set of statistics, instead of several by key."""
_FLAGS: Final = ("training", "norm_obs", "norm_reward")
_NUMBERS: Final = ("clip_obs", "clip_reward", "gamma", "epsilon")
_PARTS: Final = ("mean", "var", "count")
_FIELDS: Final = (
    "format_version", "library", "num_envs", *_FLAGS, *_NUMBERS, "norm_obs_keys", "obs_rms", "ret_rms", "old_obs",
    "old_reward", "observation_space", "action_space",
)  # fmt: skip
_ARRAYS: Final = "biuf"
"""Kinds of numpy's dtypes that safetensors has."""


def has_entries(archive: Archive) -> bool:
    """Say whether an archive is a bundle: one of the entries is enough."""
    return any(name in archive.entries for name in ENTRIES)


def write_entries(value: VecNormalize, limits: Limits) -> dict[str, bytes]:
    """Return the entries of a bundle by name; the same bytes for the same value.

    :raises UnsupportedError: for what they cannot hold exactly
    :raises LimitError: when they would be larger than a reader takes
    """
    from safetensors.numpy import save

    settings = json.dumps(_settings(value, Budget(limits)), indent=4, allow_nan=False).encode()
    try:
        made = {SETTINGS_ENTRY: settings, ARRAYS_ENTRY: save(_arrays(value))}
    except UnicodeEncodeError:
        message = "a key of the observations is no text that safetensors can hold"
        raise UnsupportedError(message) from None
    if not _is_held(value, made, limits):
        message = "the entries of a bundle cannot hold these statistics exactly"
        raise UnsupportedError(message)
    return made


def _is_held(value: VecNormalize, made: dict[str, bytes], limits: Limits) -> bool:
    try:
        return _value(made[SETTINGS_ENTRY], made[ARRAYS_ENTRY], limits) == value
    except DataError:  # keys that stand twice
        return False


def read_entries(archive: Archive) -> VecNormalize:
    """Return the statistics of a bundle; every field and array is checked.

    :raises MissingEntryError: when one of the two entries is not there
    :raises DataError: when the settings break the format
    :raises ContainerError: when the arrays are no safetensors
    :raises TensorError: when arrays are missing, one too many, or do not fit each other
    :raises LimitError: when they ask for more than allowed
    """
    for name in ENTRIES:
        if name not in archive.entries:
            raise MissingEntryError(name, present=archive.entries)
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
    """Whether there is nothing, one, or several by these keys."""
    if value is None:
        return None
    return list(value) if isinstance(value, dict) else _ONE


def _value(settings: bytes, arrays: bytes, limits: Limits) -> VecNormalize:
    try:
        found = _checked(parse_object(memoryview(settings), Budget(limits)))
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


def _checked(found: dict[str, Any]) -> dict[str, Any]:
    """Check the names and types of all fields; those of spaces and numbers are read after."""
    version = found.get("format_version")
    if type(version) is int and version > FORMAT_VERSION:
        message = f"a bundle of a later version than {FORMAT_VERSION}"
        raise UnsupportedError(message)
    if set(found) != set(_FIELDS):
        odd = min(set(found) ^ set(_FIELDS))
        refuse(f"the field {quote(odd, 60)} is {'one too many' if odd in found else 'missing'}")
    if type(version) is not int or version != FORMAT_VERSION:
        refuse("format_version is no version that there is")
    if found["library"] not in LIBRARIES:
        refuse("library is none that has a VecNormalize")
    for name in _FLAGS:
        if type(found[name]) is not bool:
            refuse(f"{name} is no bool")
    if found["num_envs"] is not None and type(found["num_envs"]) is not int:
        refuse("num_envs is no whole number")
    for name in ("obs_rms", "ret_rms", "old_obs", "old_reward"):
        several = _are_keys(found[name]) and name.endswith(("obs_rms", "old_obs"))
        if found[name] not in (None, _ONE) and not several:
            refuse(f"{name} is neither null, '{_ONE}' nor a list of keys")
    if found["norm_obs_keys"] is not None and not _are_keys(found["norm_obs_keys"]):
        refuse("norm_obs_keys is neither null nor a list of keys")
    return found


def _are_keys(value: Any) -> bool:
    return type(value) is list and all(type(key) is str for key in value) and len(set(value)) == len(value)


# -- arrays -------------------------------------------------------------------------------------------


def _names(base: str, kind: str | list[str] | None) -> dict[str | None, str]:
    """The names of tensors by key; of one alone by None."""
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
                message = f"{base} is {made[name].dtype}, which safetensors cannot hold"
                raise UnsupportedError(message)
    return made


def _read_arrays(found: dict[str, Any], arrays: bytes, limits: Limits) -> dict[str, Any]:
    from sbformat.arrayfiles.reader import read_safetensors

    held, metadata = read_safetensors(arrays, limits=limits)
    if metadata:
        message = "there is metadata, which no bundle has"
        raise TensorError(message)
    made: dict[str, Any] = {}
    for base in ("obs_rms", "ret_rms"):
        parts = {key: _read_statistics(held, name) for key, name in _names(base, found[base]).items()}
        made[base] = _by_kind(parts, found[base])
    for base in ("old_obs", "old_reward"):
        parts = {key: _taken(held, name) for key, name in _names(base, found[base]).items()}
        made[base] = _by_kind(parts, found[base])
    if held:
        message = f"{quote(next(iter(held)), 60)} is no array of a bundle with these settings"
        raise TensorError(message)
    return made


def _by_kind(parts: dict[Any, Any], kind: str | list[str] | None) -> Any:
    return None if kind is None else parts[None] if kind == _ONE else parts


def _taken(held: dict[str, Any], name: str) -> Any:
    if name not in held:
        message = f"the array {quote(name, 60)} is missing"
        raise TensorError(message)
    return held.pop(name)


def _read_statistics(held: dict[str, Any], name: str) -> RunningMeanStd:
    mean, var, count = (_taken(held, f"{name}.{part}") for part in _PARTS)
    if any(array.dtype != "float64" for array in (mean, var, count)) or count.shape != ():
        message = f"the statistics {quote(name, 60)} are not float64, or their count is no number"
        raise TensorError(message)
    return RunningMeanStd(mean, var, count[()])
