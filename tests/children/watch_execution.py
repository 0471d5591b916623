"""Reads hostile files in every way, and runs every command over them, while every audit event is watched.

A process of its own (``test_no_execution.py``). It makes files whose pickles would run, import, open and connect, takes
every conformance vector besides, preloads what sbformat itself imports, then notes every event that could come of
believing a file, and prints what it saw as JSON.

    PYTHONPATH=. python tests/children/watch_execution.py FOLDER PART PARTS

FOLDER is where it writes; of the vectors it takes one in PARTS, and of the files that it makes all in part 0, and one
payload in other parts.
"""

from __future__ import annotations

import base64
import bz2  # noqa: F401 -- preloaded, as are all that follow without being used
import contextlib
import datetime as dt  # noqa: F401
import difflib  # noqa: F401
import encodings.raw_unicode_escape
import encodings.unicode_escape
import encodings.utf_8_sig  # noqa: F401
import hashlib  # noqa: F401
import importlib
import io
import json
import os
import pkgutil
import struct
import sys
import tempfile
import unicodedata  # noqa: F401
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import jsonschema  # noqa: F401
import ml_dtypes  # noqa: F401
import numpy as np  # noqa: F401
import rich.console  # noqa: F401
import safetensors.numpy  # noqa: F401

import sbformat
import sbformat.cli
from conformance.runner.vectors import read_vectors
from sbformat import pkl, pth
from tests.fuzz.targets import policies
from tests.helpers.bundled import PPO, ROOT, SAC, entries, zipped
from tests.helpers.vector_files import write_vectors

if TYPE_CHECKING:
    from collections.abc import Callable

FOLDER: Final = Path(sys.argv[1])
STATISTICS: Final = ROOT / "tests" / "archives" / "vecnormalize-pendulum.pkl"
EVIL: Final = {
    "system": b"\x80\x02cos\nsystem\nX\x05\x00\x00\x00true \x85R.",
    "exec": b"\x80\x02c__builtin__\nexec\nX\x09\x00\x00\x00import os\x85R.",
    "import": b"\x80\x04\x8c\x0cevil_module_\x8c\x01f\x93)R.",
    "open": b"\x80\x02c__builtin__\nopen\nX\x09\x00\x00\x00/evilfile\x85R.",
    "socket": b"\x80\x02csocket\nsocket\n)R.",
    "subprocess": b"\x80\x02csubprocess\nPopen\n]X\x04\x00\x00\x00truea\x85R.",
    "inst": b"(S'true'\nios\nsystem\n.",
    "obj": b"(cos\nsystem\nS'true'\no.",
    "newobj": b"\x80\x02csubprocess\nPopen\nX\x04\x00\x00\x00true\x85\x81.",
    "build": b"\x80\x02csys\nmodules\n}X\x04\x00\x00\x00evilNsb.",
    "cloudpickle": b"\x80\x02cstable_baselines3.common.save_util\njson_to_data\nX\x02\x00\x00\x00{}\x85R.",
}
PLAIN: Final = b"{'descr': %s, 'fortran_order': False, 'shape': (1,), }"
CALL: Final = b"__import__('os').system('true')"
FORBIDDEN: Final = (
    "os.system", "os.exec", "os.posix_spawn", "os.fork", "subprocess.", "socket.", "exec", "compile", "marshal.",
    "pickle.", "ctypes.", "urllib.", "code.", "builtins.input",
)  # fmt: skip
NEVER_IMPORTED: Final = ("evil", "socket", "stable_baselines3")
SEEN: Final[list[tuple[str, str]]] = []


# -- the files ----------------------------------------------------------------------------------------


def torch_zip(pickle: bytes) -> bytes:
    return zipped({"archive/data.pkl": pickle, "archive/version": b"3\n"})


def archive_of(pickle: bytes) -> bytes:
    values = json.loads(entries()["data"])
    for key in ("policy_class", "learning_rate", "observation_space", "replay_buffer_class", "mine"):
        values[key] = {":type:": "<class 'x'>", ":serialized:": base64.b64encode(pickle).decode()}
    contents = {**entries(), "data": json.dumps(values).encode(), "extra.pth": torch_zip(pickle)}
    contents["policy.optimizer.pth"] = pickle
    return zipped(contents)


def npy(header: bytes, data: bytes) -> bytes:
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + data


def safetensors_of(*rows: dict[str, Any]) -> bytes:
    described = json.dumps({"version": 1, "entries": rows})
    header = json.dumps({"__metadata__": {"sbformat": described}}).encode()
    return struct.pack("<Q", len(header)) + header


ARRAYS: Final = {
    "object.npz": zipped({"a.npy": npy(PLAIN % b"'|O'", EVIL["system"])}),
    "call.npz": zipped({"a.npy": npy(PLAIN % CALL, bytes(8))}),
    "shape.npz": zipped({"a.npy": npy(PLAIN.replace(b"(1,)", CALL) % b"'<f4'", bytes(8))}),
    "escape.npz": zipped({"a.npy": npy(PLAIN % rb"'\d'", bytes(8))}),
    "plain.npz": zipped({"a.npy": npy(PLAIN % b"'<f4'", bytes(4))}),
    "tree.safetensors": safetensors_of({"name": "policy.pth", "tree": {"eval": "1"}}),
    "dtype.safetensors": safetensors_of({"name": "policy.pth", "tree": {"dtype": "x\nos\nsystem"}}),
    "path.safetensors": safetensors_of({"name": "../../evilfile", "text": "x"}),
    "blob.safetensors": safetensors_of({"name": "data", "text": archive_of(EVIL["system"])[64:4000].decode("latin-1")}),
}


TREE: Final = {
    "args.yml": b"a: !!python/object/apply:os.system ['true']\n",
    "config.yml": b"%TAG !e! tag:yaml.org,2002:pyth\n---\na: !e!on/name:evil_module_.f\n",
    "wide.yml": "a: !!python/module:evil_module_".encode("utf-16"),
    "setup.py": b"import os; os.system('true')\n",
    ".cache/vec_normalize.pkl": EVIL["system"],
    "policy.pth": torch_zip(b"\x80\x02}(X\x0a\x00\x00\x00state_dict}X\x04\x00\x00\x00dataccevil\nCls\nu."),
}
"""What a folder of rl_zoo3 or a hub may hold."""


def tree() -> Path:
    """A folder of them."""
    for name, content in TREE.items():
        (FOLDER / "tree" / name).parent.mkdir(parents=True, exist_ok=True)
        (FOLDER / "tree" / name).write_bytes(content)
    return FOLDER / "tree"


def written(name: str, content: bytes) -> Path:
    (FOLDER / name).write_bytes(content)
    return FOLDER / name


def evil_files() -> list[Path]:
    """The two bundled archives, and every payload in an archive, a torch zip and a legacy stream."""
    made = [PPO, SAC]
    for name, pickle in EVIL.items():
        for suffix, content in ((".zip", archive_of(pickle)), (".pth", torch_zip(pickle)), ("-legacy.pth", pickle)):
            made.append(written(name + suffix, content))
    return made


def vector_files(part: int, parts: int) -> list[Path]:
    """One in ``parts`` of what decoders are given."""
    return write_vectors([vector for vector in read_vectors() if vector["kind"] != "encode"][part::parts], FOLDER)


# -- every way to look at them ------------------------------------------------------------------------


def look(path: Path) -> None:
    """Through the package."""
    repr(sbformat.scan(path))
    policies.one_input(path.read_bytes())
    for on_unknown in ("error", "inert"):
        try:
            archive = sbformat.read(path, on_unknown=on_unknown)  # type: ignore[arg-type]
        except sbformat.SbformatError:
            continue
        for question in QUESTIONS:
            with contextlib.suppress(sbformat.SbformatError):
                question(archive)
        for name in archive.parameters:
            with contextlib.suppress(sbformat.SbformatError):
                repr(archive.parameters[name].to_numpy())
        with contextlib.suppress(sbformat.SbformatError):
            sbformat.read_vecnormalize(path).normalize_obs([0.0])
        with contextlib.suppress(sbformat.SbformatError):
            repr(sbformat.read_replay_buffer(path).episodes())
        with contextlib.suppress(sbformat.SbformatError), sbformat.safe_open(path) as opened:
            [opened.get_tensor(key) for key in opened.keys()]  # noqa: SIM118 -- safetensors' interface


QUESTIONS: Final[tuple[Callable[[sbformat.Archive], object], ...]] = (
    lambda archive: repr(archive.data),
    lambda archive: archive.algorithm,
    lambda archive: repr(archive.hyperparameters()),
    lambda archive: archive.system_info,
    lambda archive: archive.pytorch_variables,
    lambda archive: archive == archive,  # noqa: PLR0124
    sbformat.compare_system,
    lambda archive: sbformat.writes(archive, reencode=True),
    lambda archive: list(sbformat.iter_problems(archive)),
)
"""What an archive can be asked."""


def run(*words: object) -> int:
    """Through the command line."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        return sbformat.cli.main([str(word) for word in words])


def commands_of_many(files: list[Path]) -> None:
    """The commands that take any number of files."""
    run("inspect", *files, "--jobs", "1", "--format", "json")
    run("validate", *files, "--jobs", "1")
    run("scan", *files, "--jobs", "1", "--format", "sarif")
    run("report", PPO, *files, "--jobs", "1", "-o", FOLDER / "table.html", "--force")


def commands(path: Path) -> bool:
    """The commands that take one file; whether it came back through safetensors."""
    out = Path(tempfile.mkdtemp(dir=FOLDER))
    run("diff", path, PPO)
    run("edit", path, "--set", "gamma=0.5", "--set", "/policy_class/x=1", "-o", out / "a.zip")
    run("extract", path, "-o", out / "x.npz", "--entry", "all")
    run("rebuild", path, "--on-unknown", "keep", "-o", out / "rebuilt-keep.zip")
    run("bundle", "--allow-mismatch", PPO, "--vecnormalize", path, "-o", out / "bundle.zip")
    made = out / "converted.safetensors"
    return run("convert", path, "-o", made) == 0 and run("convert", made, "-o", out / "back.zip") == 0


def more_commands(path: Path) -> None:
    """The same with other options."""
    out = Path(tempfile.mkdtemp(dir=FOLDER))
    run("inspect", path)
    run("inspect", path, "--system")
    run("predict", path, "--observation", "[0, 0, 0, 0]", "--outputs")
    for suffix in (".onnx", ".c", ".json"):
        run("export", path, "-o", out / f"policy{suffix}")
    run("inspect", path, "--blobs", "policy_class")
    run("inspect", path, "--blobs", "policy_class", "--opcodes")
    run("validate", path, "--format", "json")
    run("scan", path, "--jobs", "1")
    run("report", path, "-o", out / "page.html")
    run("report", PPO, path, "-o", out / "comparison.html")
    run("diff", PPO, path, "--format", "json")
    for suffix in (".zip", ".pth"):
        run("convert", path, "-o", out / f"converted{suffix}")
    run("edit", PPO, "--weights", path, "-o", out / "weighted.zip")
    run("edit", path, "--unset", "policy_class", "--drop", "policy", "-o", out / "c.zip")
    run("edit", path, "--set", "gamma=0.5", "--drop-optimizer", "-o", out / "b.zip")
    for suffix in (".safetensors", ""):
        run("extract", path, "-o", out / f"x{suffix}", "--entry", "all")
    for word in ("drop", "error"):
        run("rebuild", path, "--on-unknown", word, "-o", out / f"rebuilt-{word}.zip")
    run("rebuild", path, "--allow", "evil_module_.f", "-o", out / "rebuilt-allow.zip")
    run("bundle", "--allow-mismatch", path, "--vecnormalize", STATISTICS, "-o", out / "with.zip")
    for bundle in (path, out / "with.zip"):
        run("unbundle", bundle, "-o", out / "without.zip", "--vecnormalize", out / "statistics.pkl", "--force")
    run("rebuild", path, "--target", "2.0", "--policy-class", "my.Policy", "-o", out / "old.zip")


def warm_up() -> None:
    """Import all that sbformat ever does, and use what loads more at its first use."""
    tempfile.tempdir = str(FOLDER)
    for module in pkgutil.walk_packages(sbformat.__path__, "sbformat."):
        if not module.name.startswith(("sbformat.__main__", "sbformat.sb3")):
            importlib.import_module(module.name)
    commands_of_many([PPO, SAC])
    for path in (PPO, SAC, STATISTICS):
        look(path)
        commands(path)
    for path in (PPO, STATISTICS):
        more_commands(path)
    weights = FOLDER / "warm.safetensors"
    run("convert", PPO, "-o", weights)
    run("edit", PPO, "--weights", weights, "-o", FOLDER / "warm.zip")


# -- and what is watched meanwhile --------------------------------------------------------------------


def watch(event: str, args: tuple[Any, ...]) -> None:
    """Note what must not happen."""
    if (
        event.startswith(FORBIDDEN)
        or (event == "import" and any(part in str(args[0]) for part in NEVER_IMPORTED))
        or (event == "open" and not isinstance(args[0], int) and not str(args[0]).startswith(ALLOWED))
    ):
        SEEN.append((event, repr(args)[:200]))


ALLOWED: Final = (str(FOLDER), str(ROOT), sys.prefix, sys.base_prefix)


def state() -> list[object]:
    """What no file may change, besides the modules."""
    files = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    return [dict(os.environ), os.getcwd(), sys.getrecursionlimit(), files]


def main() -> None:
    """Watch everything that is done with every file."""
    part, parts = int(sys.argv[2]), int(sys.argv[3])
    vectors = vector_files(part, parts)
    files = evil_files()[2:5] if part else evil_files()
    arrays = [] if part else [written(name, content) for name, content in ARRAYS.items()]
    warm_up()
    modules, before = set(sys.modules), state()
    sys.addaudithook(watch)
    commands_of_many([*files, *vectors])
    if not part:
        commands_of_many([tree()])
        run("scan", tree(), "--list-skipped", "--format", "json")
        files += [tree() / name for name in TREE]
    for path in [*files, *vectors]:
        look(path)
    back = sum(map(commands, [*files, *arrays, *vectors]))
    for path in [*files, *arrays]:
        more_commands(path)
    for pickle in EVIL.values():
        pkl.loads(pickle)
        sbformat.scan(pickle)
        pth.loads(torch_zip(pickle), on_unknown="inert")
    seen = list(SEEN)
    new = sorted(set(sys.modules) - modules)
    changed = [str(pair) for pair in zip(before, state()) if pair[0] != pair[1]]
    counts = {"files": len(files), "vectors": len(vectors), "written": back}
    sys.__stdout__.write(json.dumps({"seen": seen, **counts, "modules": new, "changed": changed}))


if __name__ == "__main__":
    main()
