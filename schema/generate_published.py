"""Generate the table of published schedule functions from sources (VALUES.md 13.5).

Before 2.7, Stable-Baselines3 pickled its schedules by value, including their code. This program compiles the modules
that define them, as published, with each given CPython, and writes the digests of the code objects:

    python schema/generate_published.py --python PATH ... ARCHIVE ... NAME=REPOSITORY ...

ARCHIVE is a wheel, an sdist or a tar of a tag, with the file name of the package index or of ``git archive``. A
REPOSITORY is a git directory. Every version up to HEAD and the tags is used, not only releases, because people train
with those too. No source is run. ``schema/published_functions.json`` lists the sources of each digest, and
``sbformat/known/published.py`` is generated from it. With ``--check`` nothing is written, and the exit status is 1 if
a file differs from what would be written; without sources, ``--check`` compares the second file with the first.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from sbformat.known.code import make_code

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Json: TypeAlias = dict[str, Any]

ROOT: Final = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
JSON_NAME: Final = "schema/published_functions.json"
TABLE_NAME: Final = "sbformat/known/published.py"
LINE_LENGTH: Final = 120
CHILD: Final = os.path.join(ROOT, "schema", "dump_code.py")


class Wanted(NamedTuple):
    """A schedule function, and the module that defines it."""

    name: str
    """Its name in the generated module."""
    role: str
    path: str
    qualname: str


_SB3: Final = "stable_baselines3/common/utils.py"
WANTED: Final = (
    Wanted("CONSTANT", "constant", _SB3, "constant_fn.<locals>.func"),
    Wanted("FLOAT", "float", _SB3, "get_schedule_fn.<locals>.<lambda>"),
    Wanted("LINEAR", "linear", _SB3, "get_linear_fn.<locals>.func"),
    Wanted("ZOO3", "initial", "rl_zoo3/utils.py", "linear_schedule.<locals>.func"),
    Wanted("ZOO", "initial", "rl_zoo/utils.py", "linear_schedule.<locals>.func"),
    Wanted("CHECKOUT", "initial", "utils/utils.py", "linear_schedule.<locals>.func"),
    Wanted("SB2", "constant", "stable_baselines/common/schedules.py", "constfn.<locals>.func"),
    Wanted("SB2_PPO2", "constant", "stable_baselines/ppo2/ppo2.py", "constfn.<locals>.func"),
)
"""sb3-contrib stores the schedules of Stable-Baselines3 and defines none; its releases are searched to verify that.

``utils/utils.py`` is what a checkout of either zoo runs, before rl_zoo3 was a package."""

PATHS: Final = frozenset(wanted.path for wanted in WANTED)
MAKER: Final = re.compile(
    rb"^def (constant_fn|constfn|get_schedule_fn|get_linear_fn|linear_schedule(?=\(initial_value))\b", re.MULTILINE
)
"""Stable Baselines 2 has another ``linear_schedule``, which is stored by its name."""


class Found(NamedTuple):
    """One version of a module, and where it was found."""

    package: str
    path: str
    version: str
    """A release, or for a repository the day and the commit that created it."""
    text: bytes


# -- the sources ---------------------------------------------------------------------------------------


def read_source(source: str) -> Iterator[Found]:
    """Yield the wanted modules of one archive or ``NAME=REPOSITORY``.

    :raises SystemExit: when a module nobody listed defines a schedule function
    """
    package, equals, repository = source.partition("=")
    if equals:
        yield from _read_repository(package, repository)
        return
    stem = re.sub(r"(\.tar(\.\w+)?|\.tgz|\.zip|\.whl)$", "", os.path.basename(source))
    package, version = stem.split("-")[:2] if source.endswith(".whl") else stem.rsplit("-", 1)
    package = package.replace("_", "-")
    for member, text in _members(source):
        path = member if source.endswith(".whl") else member.partition("/")[2]
        if path in PATHS:
            yield Found(package, path, version.removeprefix("v"), text)
        elif MAKER.search(text):
            sys.exit(f"{source}: {member} defines a schedule function and is not among those looked at")


def _members(archive: str) -> Iterator[tuple[str, bytes]]:
    """Yield the Python files of a zip or tar."""
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as opened:
            for name in opened.namelist():
                if name.endswith(".py"):
                    yield name, opened.read(name)
        return
    with tarfile.open(archive) as tar:
        for member in tar:
            data = tar.extractfile(member) if member.isfile() and member.name.endswith(".py") else None
            if data is not None:
                yield member.name, data.read()


def _read_repository(package: str, repository: str) -> Iterator[Found]:
    """Yield every version of the wanted modules in a repository's history up to HEAD and its tags."""

    def git(*args: str) -> bytes:
        command = ["git", "--git-dir", repository, *args]
        return subprocess.run(command, check=True, capture_output=True).stdout  # noqa: S603 -- given on the command line

    for path in sorted(PATHS):
        log = git("log", "--full-history", "--format=%H %cs", "HEAD", "--tags", "--", path).decode("ascii")
        for commit, date in (line.split() for line in log.splitlines()):
            if git("ls-tree", commit, "--", path):
                yield Found(package, path, f"{date} {commit[:12]}", git("show", f"{commit}:{path}"))


# -- the digests ---------------------------------------------------------------------------------------


def dump(python: str, texts: list[bytes], qualnames: Iterable[str]) -> Json:
    """Run the child on one interpreter."""
    asked = json.dumps({"texts": [text.hex() for text in texts], "qualnames": sorted(set(qualnames))}).encode("ascii")
    command = [python, "-I", CHILD]
    child = subprocess.run(command, input=asked, check=True, capture_output=True)  # noqa: S603 -- as above
    answer: Json = json.loads(child.stdout)
    return answer


def digest_of(arguments: list[list[Any]]) -> str:
    """Return the digest of a code object that the child dumped.

    :raises ValueError: when it is none, or has a constant that cannot be hashed in one way
    """
    code = make_code(tuple(_value(argument) for argument in arguments))
    if code is None or code.digest is None:
        message = f"no digest of {arguments}"
        raise ValueError(message)
    return code.digest


def _value(spelled: list[Any]) -> object:
    """Decode a value that the child encoded."""
    kind, value = spelled
    if kind == "code":
        return make_code(tuple(_value(argument) for argument in value))
    if kind == "tuple":
        return tuple(_value(item) for item in value)
    if kind == "complex":
        return complex(*(float.fromhex(part) for part in value))
    if kind in ("bytes", "float"):
        return bytes.fromhex(value) if kind == "bytes" else float.fromhex(value)
    return ... if kind == "ellipsis" else value


class _Use:
    """The sources of one digest."""

    def __init__(self) -> None:
        self.pythons: set[str] = set()
        self.levels: set[int] = set()
        self.lines: set[int] = set()
        self.files: set[int] = set()


_Uses: TypeAlias = dict[tuple[int, tuple[str, ...], str], _Use]
"""By index in WANTED, free variables and digest."""


def published(found: Iterable[Found], pythons: list[str]) -> Json:
    """Compile the modules with every interpreter, and return the content of ``published_functions.json``."""
    files = _files(found)
    described = [entry for _, entry in files]
    places = {(wanted.path, wanted.qualname): index for index, wanted in enumerate(WANTED)}
    uses: _Uses = {}
    versions: dict[str, str] = {}
    for python in pythons:
        answer = dump(python, [text for text, _ in files], (wanted.qualname for wanted in WANTED))
        minor = answer["python"].rpartition(".")[0]
        versions[minor] = answer["python"]
        for index in answer["refused"]:
            described[index].setdefault("refused by", []).append(minor)
        for index, level, qualname, line, arguments in answer["codes"]:
            wanted = places.get((described[index]["path"], qualname))
            if wanted is None:
                continue
            cells = tuple(cell for _, cell in arguments[-2][1])
            use = uses.setdefault((wanted, cells, digest_of(arguments)), _Use())
            use.pythons.add(minor)
            use.levels.add(level)
            use.lines.add(line)
            use.files.add(index)
    return _described(uses, versions, described)


def _files(found: Iterable[Found]) -> list[tuple[bytes, Json]]:
    """Gather equal versions of a module: its text, and every release or commit that contains it."""
    gathered: dict[tuple[str, str, str], tuple[bytes, set[str]]] = {}
    for package, path, version, text in found:
        key = (path, package, hashlib.sha256(text).hexdigest())
        gathered.setdefault(key, (text, set()))[1].add(version)
    return [
        (text, {"package": package, "path": path, "sha256": sha256, "versions": sorted(versions, key=_parts)})
        for (path, package, sha256), (text, versions) in sorted(gathered.items())
    ]


def _described(uses: _Uses, versions: dict[str, str], files: list[Json]) -> Json:
    """Encode the digests and their sources as JSON, in an order that does not depend on that of the sources."""
    functions = sorted({(wanted, cells) for wanted, cells, _ in uses})
    lines: dict[tuple[int, tuple[str, ...]], set[int]] = {function: set() for function in functions}
    codes = []
    for (wanted, cells, digest), use in sorted(uses.items()):
        lines[wanted, cells] |= use.lines
        codes.append({
            "digest": digest,
            "function": functions.index((wanted, cells)),
            "pythons": sorted(use.pythons, key=_parts),
            "optimize": sorted(use.levels),
            "first_lines": sorted(use.lines),
            "files": sorted(use.files),
        })  # fmt: skip
    return {
        "made by": "schema/generate_published.py",
        "pythons": sorted(versions.values(), key=_parts),
        "functions": [
            {**WANTED[wanted]._asdict(), "cells": list(cells), "first_lines": [min(found), max(found)]}
            for (wanted, cells), found in lines.items()
        ],
        "codes": codes,
        "files": files,
    }


def _parts(version: str) -> list[tuple[int, str]]:
    """Order versions by their numbers, so that 3.9 comes before 3.10."""
    return [(int(number or -1), letters) for number, letters in re.findall(r"(\d+)|(\D+)", version)]


# -- the files -----------------------------------------------------------------------------------------


def as_json(table: Json) -> str:
    """Format the provenance with one function, digest or file per line."""
    parts = []
    for key, value in table.items():
        if isinstance(value, list) and value and isinstance(value[0], dict):
            rows = ",\n".join("  " + json.dumps(row) for row in value)
            parts.append(f" {json.dumps(key)}: [\n{rows}\n ]")
        else:
            parts.append(f" {json.dumps(key)}: {json.dumps(value)}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


_HEAD: Final = '''"""Schedule functions that were published, by the digest of their code (VALUES.md 13.5).

Generated by schema/generate_published.py from sources; schema/published_functions.json says which. Do not edit.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

from sbformat.immutable import Record

Role: TypeAlias = Literal["constant", "float", "linear", "initial"]
"""What it returns for the remaining progress p: its cell; another schedule's value as a float; from start to end until
end_fraction of the training is done; p times its cell."""


class Published(Record):
    """A function at one place: its code object has the digest, and these hold of what the digest leaves out."""

    role: Role
    qualname: str
    path: str
    """How the file name must end, with slashes."""
    first_lines: tuple[int, int]
    """The least and greatest line on which a version has it."""
    cells: tuple[str, ...]
    """The free variables, in order."""

    @property
    def module(self) -> str:
        """The module in that file; ``__package__`` is this without the last part."""
        return self.path.removesuffix(".py").replace("/", ".")


'''


def as_python(table: Json) -> str:
    """Format the table that is imported: a name for each function, one digest per line."""
    names = _names(table["functions"])
    rows = [_row(name, function) for name, function in zip(names, table["functions"])]
    holders: dict[str, list[str]] = {}
    for code in table["codes"]:
        holders.setdefault(code["digest"], []).append(names[code["function"]])
    lines = [f'    "{digest}": ({", ".join(held)}{"," if len(held) == 1 else ""}),' for digest, held in holders.items()]
    opening = "PUBLISHED: Final[dict[str, tuple[Published, ...]]] = {"
    return _HEAD + "\n".join([*rows, "", opening, *lines, "}", _DOC, ""])


_DOC: Final = '"""By digest. The same code may stand in several places: one of them must fit."""'


def _names(functions: list[Json]) -> list[str]:
    """Name each row; one function has several when its free variables changed."""
    names: list[str] = []
    taken: list[str] = []
    for function in functions:
        taken.append(function["name"])
        count = taken.count(function["name"])
        names.append(function["name"] if count == 1 else f"{function['name']}_{count}")
    return names


def _row(name: str, function: Json) -> str:
    """Format one function as ruff does."""
    least, greatest = function["first_lines"]
    cells = json.dumps(function["cells"])[1:-1] + ("," if len(function["cells"]) == 1 else "")
    fields = [json.dumps(function[key]) for key in ("role", "qualname", "path")]
    fields += [f"({least}, {greatest})", f"({cells})"]
    row, call = ", ".join(fields), f"{name}: Final = Published"
    if len(f"{call}({row})") <= LINE_LENGTH:
        return f"{call}({row})"
    lines = [row] if len(f"    {row}") <= LINE_LENGTH else [f"{field}," for field in fields]
    return "\n".join([f"{call}(", *(f"    {line}" for line in lines), ")"])


def main(argv: list[str] | None = None) -> int:
    """Write the two files, or compare them."""
    parser = argparse.ArgumentParser(description="Make the table of published schedule functions from sources.")
    parser.add_argument("sources", nargs="*", metavar="ARCHIVE | NAME=REPOSITORY")
    parser.add_argument("--python", action="append", default=[], help="a CPython to compile with; repeatable")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when a file would change")
    parser.add_argument("--root", default=ROOT, help="where schema/ and sbformat/ are")
    options = parser.parse_args(argv)
    json_path, table_path = (os.path.join(options.root, *name.split("/")) for name in (JSON_NAME, TABLE_NAME))
    if options.sources:
        found = [module for source in options.sources for module in read_source(source)]
        text = as_json(published(found, options.python or [sys.executable]))
    elif options.check:
        text = _read(json_path)
    else:
        parser.error("no sources given")
    made = {json_path: text, table_path: as_python(json.loads(text))}
    changed = [path for path, wanted in made.items() if _read(path) != wanted]
    if options.check:
        for path in changed:
            print(f"{path} is not what {os.path.basename(__file__)} makes of its sources", file=sys.stderr)  # noqa: T201
        return 1 if changed else 0
    for path in changed:
        with open(path, "w", encoding="utf-8", newline="\n") as file:
            file.write(made[path])
    return 0


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", newline="") as file:
            return file.read()
    except FileNotFoundError:
        return ""


if __name__ == "__main__":
    sys.exit(main())
