"""The system that an archive was saved on beside this one: which differences keep SB3 from loading it, and why.

The rows are those of ``system_info.txt`` (FORMAT.md 4.2). What is installed here is read from the packages'
metadata: nothing of it is imported. Where the harm of a difference depends on what the archive holds, that decides:
a function by value is bytecode, spaces are of one of two libraries. The blobs are searched for names, not decoded.
"""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Final, NamedTuple

from sbformat.data import Serialized
from sbformat.errors import SbformatError, escape

if TYPE_CHECKING:
    from collections.abc import Callable

    from sbformat.archive.archive import Archive


class SystemRow(NamedTuple):
    """One thing that loading may depend on."""

    name: str
    """As in ``system_info.txt`` of SB3 >= 2.0: ``Python``, ``PyTorch``, ``OpenAI Gym``, ..."""
    saved: str | None
    """What the archive was saved with; None when it does not say."""
    here: str | None
    """What is here; None when it is not installed."""
    matters: bool
    """May SB3 fail to load the archive here, or load something else, because of it?"""
    why: str
    """A sentence; empty when there is nothing to say."""


class _Sides(NamedTuple):
    """What a rule judges."""

    saved: str | None
    here: str | None
    blobs: dict[str, bytes]
    """The pickles of ``data``, by key."""

    def holding(self, *words: bytes, also: bytes = b"") -> str:
        """Return the keys whose pickles hold one of these names and the other, for a sentence."""
        keys = [key for key, blob in self.blobs.items() if also in blob and any(word in blob for word in words)]
        return escape(", ".join(keys))

    @property
    def releases(self) -> tuple[_Release, _Release] | None:
        """Major and minor of both, when both are known."""
        saved, here = _release(self.saved), _release(self.here)
        return None if saved is None or here is None else (saved, here)


_Release = tuple[int, int]
_Judgement = tuple[bool, str]

_NOTHING: Final[_Judgement] = (False, "")
_RELEASE: Final = re.compile(r"(\d{1,9})\.(\d{1,9})")
_CODE: Final = (b"_make_function", b"_make_skel_func", b"LambdaType", b"_make_skeleton_class")
"""What cloudpickle makes functions and classes by value with."""
_BIG_ENDIAN: Final = re.compile(r"\b(?:s390x?|ppc64|ppc|sparc64|sparc)\b")
_OLD_NAMES: Final = {"OpenAI Gym": "Gym"}
"""Names of fields in SB3 before 2.0."""


def compare_system(archive: Archive) -> tuple[SystemRow, ...]:
    """Put what an archive was saved with beside what is here.

    :param archive: what ``sbformat.read`` gave
    :return: one row a field of ``system_info.txt``, in its order; without that entry only the release of
        SB3 is known, from ``_stable_baselines3_version``, and what the blobs hold
    :raises SbformatError: when one of these two entries cannot be read
    """
    info = archive.system_info
    fields = {} if info is None else dict(info.fields)
    if "Stable-Baselines3" not in fields and archive.stable_baselines3_version is not None:
        fields["Stable-Baselines3"] = archive.stable_baselines3_version
    try:
        blobs = {key: value.pickle for key, value in archive.data.items() if isinstance(value, Serialized)}
    except SbformatError:
        blobs = {}  # loading fails at that before any release matters
    rows = []
    for name, (here, judge) in _FIELDS.items():
        sides = _Sides(fields.get(name, fields.get(_OLD_NAMES.get(name, name))), here(), blobs)
        rows.append(SystemRow(name, sides.saved, sides.here, *judge(sides)))
    return tuple(rows)


def _release(text: str | None) -> _Release | None:
    match = _RELEASE.match(text or "")
    return (int(match[1]), int(match[2])) if match else None


# -- this machine --------------------------------------------------------------------------------------


def _system() -> str:
    import platform

    uname = platform.uname()  # its processor would be asked of another process, as platform.platform() does
    return f"{uname.system}-{uname.release}-{uname.machine} {uname.version}"


def _python() -> str:
    return ".".join(map(str, sys.version_info[:3]))


def _installed(package: str) -> Callable[[], str | None]:
    def version() -> str | None:
        from importlib import metadata

        try:
            return metadata.version(package)
        except metadata.PackageNotFoundError:
            return None

    return version


# -- what matters --------------------------------------------------------------------------------------


def _judge_system(sides: _Sides) -> _Judgement:
    saved, here = sides.saved or "", sides.here or ""
    if saved and bool(_BIG_ENDIAN.search(saved)) != (sys.byteorder == "big"):
        return True, "The byte order differs: torch before 2.1 does not turn the bytes of tensors."
    keys = sides.holding(b"PosixPath", b"WindowsPath")
    if saved and keys and saved.startswith("Windows") != here.startswith("Windows"):
        return True, f"Path objects of the other system cannot be made here; they stand in {keys}."
    return _NOTHING


def _judge_python(sides: _Sides) -> _Judgement:
    if sides.releases is None or sides.releases[0] == sides.releases[1]:
        return _NOTHING
    keys = sides.holding(*_CODE)
    if not keys:
        return False, "Nothing in it depends on the release of Python: there are no functions by value."
    return (
        True,
        f"Functions by value are bytecode of the Python that saved them: {keys} may be dropped, or crash.",
    )


def _judge_sb3(sides: _Sides) -> _Judgement:
    if sides.here is None:
        return True, "SB3 is not installed here."
    if sides.releases is None or sides.releases[0] == sides.releases[1]:
        return _NOTHING
    saved, here = sides.releases
    if saved < (1, 8) <= here:
        return True, "SB3 1.8 removed layers that actor and critic share: networks with such layers do not load since."
    if saved > here:
        return True, "An older release lacks classes and settings that a newer one writes."
    return True, "Settings come and go with each minor release: what the older one did not save takes its default."


def _judge_torch(sides: _Sides) -> _Judgement:
    if sides.here is None:
        return True, "torch is not installed here."
    if sides.releases is None:
        return _NOTHING
    saved, here = sides.releases
    if saved >= (1, 6) > here:
        return True, "torch before 1.6 does not read the zip files that later releases write."
    if saved > here and here < (2, 3):
        return True, "The older torch lacks dtypes that the newer one may have saved, such as uint16 or float8."
    if saved[0] != here[0]:
        return True, "Another major release: optimizers may keep other settings than those that were saved."
    return _NOTHING


def _judge_numpy(sides: _Sides) -> _Judgement:
    if sides.here is None:
        return True, "numpy is not installed here."
    if sides.releases is None or sides.releases[0][0] == sides.releases[1][0]:
        return _NOTHING
    saved, _ = sides.releases
    keys = sides.holding(b"numpy._core", b"_bit_generator", b"__bit_generator_ctor")
    if saved[0] >= 2:
        if not keys:
            return False, "There are no arrays of numpy 2 in its blobs."
        return True, f"numpy 1 does not find what numpy 2 calls numpy._core, nor its random states: {keys} fail."
    keys = sides.holding(*_CODE, also=b"numpy")
    if not keys:
        return False, "numpy 2 reads the arrays and random states of numpy 1."
    return True, f"Functions by value may use names that numpy 2 removed: {keys}."


def _judge_cloudpickle(sides: _Sides) -> _Judgement:
    here = _release(sides.here)
    if sides.here is None:
        return True, "cloudpickle is not installed here."
    old, new = sides.holding(b"_make_skel_func"), sides.holding(b"_make_function")
    if here is not None and old and here >= (3, 0):
        return True, f"cloudpickle 3.0 removed what makes the functions in {old}."
    if here is not None and new and here < (2, 1):
        return True, f"cloudpickle before 2.1 lacks what makes the functions in {new}."
    return _NOTHING


def _judge_gymnasium(sides: _Sides) -> _Judgement:
    keys = sides.holding(b"gymnasium.spaces.")
    if keys and sides.here is None:
        return True, f"{keys}: made of gymnasium's classes, and gymnasium is not installed here."
    return _NOTHING


def _judge_gym(sides: _Sides) -> _Judgement:
    keys = sides.holding(b"gym.spaces.")  # gymnasium's modules do not end so
    if not keys:
        return _NOTHING
    if sides.here is None:
        return (
            True,
            f"{keys}: made of gym's classes, and gym is not installed here; SB3 since 2.0 needs shimmy as well.",
        )
    if sides.releases is not None and (sides.releases[0] < (0, 20)) != (sides.releases[1] < (0, 20)):
        return True, f"{keys}: gym 0.20 renamed the attribute shape of spaces to _shape."
    return _NOTHING


def _judge_gpu(sides: _Sides) -> _Judgement:
    keys = sides.holding(b"_load_from_bytes") if sides.saved == "True" else ""
    why = "Whether there is one here was not asked, as torch would have to be imported."
    return (True, f"{why} Tensors in {keys} may want the GPU that they were saved on.") if keys else (False, why)


_FIELDS: Final[dict[str, tuple[Callable[[], str | None], Callable[[_Sides], _Judgement]]]] = {
    "OS": (_system, _judge_system),
    "Python": (_python, _judge_python),
    "Stable-Baselines3": (_installed("stable-baselines3"), _judge_sb3),
    "PyTorch": (_installed("torch"), _judge_torch),
    "GPU Enabled": (lambda: "not asked", _judge_gpu),
    "Numpy": (_installed("numpy"), _judge_numpy),
    "Cloudpickle": (_installed("cloudpickle"), _judge_cloudpickle),
    "Gymnasium": (_installed("gymnasium"), _judge_gymnasium),
    "OpenAI Gym": (_installed("gym"), _judge_gym),
}
"""The rows: how to ask this machine, and the rule."""
