"""``compare_system``: which differences between the saving and the present system keep SB3 from loading an archive.

The rows are the fields of ``system_info.txt`` (FORMAT.md 4.2). Installed releases are read from the metadata of the
packages, which are not imported. Whether a difference matters can depend on the archive: a function carried by value is
bytecode of one Python release, and spaces belong to gym or to gymnasium. The pickles are searched for names, not
decoded.
"""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Final

from sbformat.data import has_pickle
from sbformat.errors import SbformatError, escape
from sbformat.immutable import Record, Rows
from sbformat.known import changes
from sbformat.known.changes import parse_release
from sbformat.limits import DEFAULT_LIMITS, Limits
from sbformat.reader import read

if TYPE_CHECKING:
    from collections.abc import Callable

    from sbformat.known.changes import Release
    from sbformat.reader import ArchiveLike


class SystemRow(Record):
    """A library or system property that loading may depend on."""

    name: str
    """The field of ``system_info.txt`` of SB3 >= 2.0: ``Python``, ``PyTorch``, ``OpenAI Gym``, ..."""
    saved: str | None
    """The release that the archive was saved with; None when the archive does not name it."""
    here: str | None
    """The release on this system; None when it is not installed."""
    matters: bool
    """Whether SB3 may fail to load the archive here, or load something else, because of the difference."""
    why: str
    """The reason, as a sentence; empty when the difference has no effect."""


class _Comparison(Record):
    """The arguments of a rule."""

    saved: str | None
    here: str | None
    blobs: dict[str, bytes]

    def keys_with(self, *words: bytes, also: bytes = b"") -> str:
        """Return the keys whose pickles contain one of the words, and the other word, as text for a sentence."""
        keys = [key for key, blob in self.blobs.items() if also in blob and any(word in blob for word in words)]
        return escape(", ".join(keys))

    @property
    def releases(self) -> tuple[Release, Release] | None:
        """Major and minor release of both sides, when both are known."""
        saved, here = parse_release(self.saved), parse_release(self.here)
        return None if saved is None or here is None else (saved, here)


_Outcome = tuple[bool, str]

_NO_EFFECT: Final[_Outcome] = (False, "")
_CODE: Final = (b"_make_function", b"_make_skel_func", b"LambdaType", b"_make_skeleton_class")
"""Names in a pickle by which cloudpickle carries functions and classes by value."""
_BIG_ENDIAN: Final = re.compile(r"\b(?:s390x?|ppc64|ppc|sparc64|sparc)\b")


def compare_system(source: ArchiveLike, *, limits: Limits = DEFAULT_LIMITS) -> tuple[SystemRow, ...]:
    """Compare the system that an archive was saved on with this one.

    Example::

        for row in sbformat.compare_system("agent.zip"):
            if row.matters:
                print(row.name, row.saved, row.here, row.why)

    :param source: an archive, or what :func:`sbformat.read` takes
    :param limits: for reading
    :return: one row for each field of ``system_info.txt``, in its order. Without that entry only the release of SB3 is
        known, from ``_stable_baselines3_version``
    :raises SbformatError: when one of these two entries cannot be read
    """
    archive = read(source, limits=limits)
    info = archive.system_info
    fields = {} if info is None else dict(info.fields)
    if "Stable-Baselines3" not in fields and archive.stable_baselines3_version is not None:
        fields["Stable-Baselines3"] = archive.stable_baselines3_version
    try:
        blobs = {key: value.pickle for key, value in archive.data.items() if has_pickle(value)}
    except SbformatError:
        blobs = {}  # loading fails at this entry, whatever the releases
    rows = []
    for name, judge in _RULES.items():
        saved = fields.get(name, fields.get(changes.SYSTEM_FIELDS.get(name, name)))
        sides = _Comparison(saved, find_release(name), blobs)
        needed = _NEEDED.get(name) if sides.here is None else None
        outcome = judge(sides) if needed is None else (True, f"{needed} is not installed here.")
        rows.append(SystemRow(name, sides.saved, sides.here, *outcome))
    return Rows(rows)


def find_release(name: str) -> str | None:
    """Return the release of a library or property on this system; None when it is not installed."""
    import platform
    from importlib import metadata

    if name == "OS":
        uname = platform.uname()  # platform.platform() would start a process to find the processor
        return f"{uname.system}-{uname.release}-{uname.machine} {uname.version}"
    if name == "Python":
        return ".".join(map(str, sys.version_info[:3]))
    if name == "GPU Enabled":
        return "not checked"
    try:
        return metadata.version(_PACKAGES.get(name, name.lower()))
    except metadata.PackageNotFoundError:
        return None


# -- what matters --------------------------------------------------------------------------------------


def _judge_system(sides: _Comparison) -> _Outcome:
    saved, here = sides.saved or "", sides.here or ""
    if saved and bool(_BIG_ENDIAN.search(saved)) != (sys.byteorder == "big"):
        since = changes.TORCH_SWAPS_BYTES
        return True, f"The byte order differs, and torch before {since} does not swap the bytes of tensors."
    keys = sides.keys_with(b"PosixPath", b"WindowsPath")
    if saved and keys and saved.startswith("Windows") != here.startswith("Windows"):
        return True, f"Path objects of the other system cannot be created here: {keys}."
    return _NO_EFFECT


def _judge_python(sides: _Comparison) -> _Outcome:
    if sides.releases is None or sides.releases[0] == sides.releases[1]:
        return _NO_EFFECT
    keys = sides.keys_with(*_CODE)
    if not keys:
        return False, "Nothing in the archive depends on the Python release: it carries no functions by value."
    return (
        True,
        f"Functions carried by value are bytecode of the Python that saved them: {keys} may be dropped, or crash.",
    )


def _judge_sb3(sides: _Comparison) -> _Outcome:
    if sides.releases is None or sides.releases[0] == sides.releases[1]:
        return _NO_EFFECT
    saved, here = sides.releases
    since = changes.NO_SHARED_LAYERS
    if saved < since <= here:
        return (
            True,
            f"SB3 {since} removed layers that actor and critic share: networks with such layers do not load since.",
        )
    if saved > here:
        return True, "An older release lacks classes and settings that a newer one writes."
    return True, "Settings change with each minor release: those that the older one did not save get their defaults."


def _judge_torch(sides: _Comparison) -> _Outcome:
    if sides.releases is None:
        return _NO_EFFECT
    saved, here = sides.releases
    if saved >= changes.TORCH_ZIP > here:
        return True, f"torch before {changes.TORCH_ZIP} does not read the zip files that later releases write."
    if saved > here and here < changes.TORCH_UNSIGNED:
        return True, "The older torch lacks dtypes that the newer one may have saved, such as uint16 or float8."
    if saved[0] != here[0]:
        return True, "The major releases differ: their optimizers may have different settings."
    return _NO_EFFECT


def _judge_numpy(sides: _Comparison) -> _Outcome:
    if sides.releases is None or sides.releases[0][0] == sides.releases[1][0]:
        return _NO_EFFECT
    saved, _ = sides.releases
    keys = sides.keys_with(b"numpy._core", b"_bit_generator", b"__bit_generator_ctor")
    if saved[0] >= 2:
        if not keys:
            return False, "The archive contains no pickled arrays of numpy 2."
        return True, f"numpy 1 has neither the module numpy._core nor the random states of numpy 2: {keys} fail."
    keys = sides.keys_with(*_CODE, also=b"numpy")
    if not keys:
        return False, "numpy 2 reads the arrays and random states of numpy 1."
    return True, f"Functions carried by value may use names that numpy 2 removed: {keys}."


def _judge_cloudpickle(sides: _Comparison) -> _Outcome:
    here = parse_release(sides.here)
    old, new = sides.keys_with(b"_make_skel_func"), sides.keys_with(b"_make_function")
    until, since = changes.CLOUDPICKLE_SKELETON, changes.CLOUDPICKLE_FUNCTION
    if here is not None and old and here >= until:
        return True, f"cloudpickle {until} removed the function that creates the functions in {old}."
    if here is not None and new and here < since:
        return True, f"cloudpickle before {since} lacks the function that creates the functions in {new}."
    return _NO_EFFECT


def _judge_gymnasium(sides: _Comparison) -> _Outcome:
    keys = sides.keys_with(b"gymnasium.spaces.")
    if keys and sides.here is None:
        return True, f"{keys} use classes of gymnasium, which is not installed here."
    return _NO_EFFECT


def _judge_gym(sides: _Comparison) -> _Outcome:
    keys = sides.keys_with(b"gym.spaces.")  # does not match the modules of gymnasium
    if not keys:
        return _NO_EFFECT
    if sides.here is None:
        needs = f"SB3 {changes.GYMNASIUM} and later also need shimmy"
        return True, f"{keys} use classes of gym, which is not installed here; {needs}."
    since = changes.GYM_SHAPE
    if sides.releases is not None and (sides.releases[0] < since) != (sides.releases[1] < since):
        return True, f"gym {since} renamed the attribute shape of spaces to _shape, which concerns {keys}."
    return _NO_EFFECT


def _judge_gpu(sides: _Comparison) -> _Outcome:
    keys = sides.keys_with(b"_load_from_bytes") if sides.saved == "True" else ""
    why = "Not checked, because torch would have to be imported."
    return (True, f"{why} Tensors in {keys} may require the GPU that they were saved on.") if keys else (False, why)


_RULES: Final[dict[str, Callable[[_Comparison], _Outcome]]] = {
    "OS": _judge_system,
    "Python": _judge_python,
    "Stable-Baselines3": _judge_sb3,
    "PyTorch": _judge_torch,
    "GPU Enabled": _judge_gpu,
    "Numpy": _judge_numpy,
    "Cloudpickle": _judge_cloudpickle,
    "Gymnasium": _judge_gymnasium,
    "OpenAI Gym": _judge_gym,
}
_PACKAGES: Final = {"PyTorch": "torch", "OpenAI Gym": "gym"}  # the distributions that have another name than their row
_NEEDED: Final = {"Stable-Baselines3": "SB3", "PyTorch": "torch", "Numpy": "numpy", "Cloudpickle": "cloudpickle"}
"""What SB3 loads no archive without."""
