"""The table of published schedule functions, and the program that makes it from sources."""

from __future__ import annotations

import importlib.util
import io
import json
import shutil
import subprocess
import sys
import tarfile
import types
import zipfile
from pathlib import Path
from typing import Any, get_args

import pytest

from sbformat.known.code import Code, make_code
from sbformat.known.published import PUBLISHED, Published, Role
from tests.helpers.bundled import ROOT

SB3 = "stable_baselines3/common/utils.py"

MODULE = '''\
"""A module of the test's own, with functions of the wanted names."""


class Holder:
    def method(self):
        return [item for item in (lambda: 1, 2)]


def constant_fn(val):
    def func(_, *, scale=1):
        """Says something."""
        try:
            inner = lambda: (val, b"bytes", "text \\ud800", 2.5, 1j, -0.0, ..., (None, True, 2**70))
            return inner()[0] * len(str(scale))
        except ValueError:
            return None

    return func


def get_linear_fn(start, end, end_fraction):
    def func(progress_remaining):
        if progress_remaining < end_fraction:
            return end
        return start + end

    return func
'''


def load(name: str) -> types.ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "schema" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # NamedTuple looks its module up
    spec.loader.exec_module(module)
    return module


generator = load("generate_published")
child = load("dump_code")
LAYOUT = child.layout(sys.version_info[:2])


def live(
    qualname: str = "constant_fn.<locals>.func", filename: str = "source.py", text: str = MODULE
) -> types.CodeType:
    found: types.CodeType = dict(child.walk(compile(text, filename, "exec", dont_inherit=True)))[qualname]
    return found


def parts(code: types.CodeType) -> dict[str, Any]:
    """What cloudpickle hands to types.CodeType, nested code objects as :class:`Code`."""
    found = {name: getattr(code, name) for name in LAYOUT}
    found["co_consts"] = tuple(made(item) if isinstance(item, types.CodeType) else item for item in found["co_consts"])
    return found


def made(code: types.CodeType, **changes: object) -> Code:
    code_object = make_code(tuple({**parts(code), **changes}.values()))
    assert code_object is not None
    return code_object


# -- the table -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("digest", PUBLISHED)
def test_a_digest_is_sha256_in_hex_and_its_rows_agree_on_what_the_code_does(digest: str) -> None:
    rows = PUBLISHED[digest]
    assert len(bytes.fromhex(digest)) == 32
    assert digest == digest.lower()
    assert rows
    assert len({(row.role, row.cells) for row in rows}) == 1
    assert len({row.path for row in rows}) == len(rows), "one row for each place"


@pytest.mark.parametrize("row", sorted({row for rows in PUBLISHED.values() for row in rows}))
def test_a_row_is_one_function_of_one_module(row: Published) -> None:
    assert row.role in get_args(Role)
    assert row.qualname.rpartition(".")[2] == ("<lambda>" if row.role == "float" else "func")
    assert ".<locals>." in row.qualname
    assert row.path == f"{row.module.replace('.', '/')}.py"
    assert 0 < row.first_lines[0] <= row.first_lines[1]
    assert len(row.cells) == (3 if row.role == "linear" else 1)
    assert list(row.cells) == sorted(row.cells), "CPython sorts free variables"


def test_every_role_is_there_for_every_layout_of_code_objects() -> None:
    """CPython 3.6, 3.8, 3.10, 3.11 and 3.13 changed what a code object is made of."""
    table = json.loads((ROOT / generator.JSON_NAME).read_text())
    made_on = {
        (table["functions"][code["function"]]["role"], python) for code in table["codes"] for python in code["pythons"]
    }
    assert {(role, minor) for role in get_args(Role) for minor in ("3.6", "3.8", "3.10", "3.11", "3.13")} <= made_on


def test_the_provenance_names_a_file_and_a_version_for_every_digest() -> None:
    table = json.loads((ROOT / generator.JSON_NAME).read_text())
    assert {code["digest"] for code in table["codes"]} == set(PUBLISHED)
    for code in table["codes"]:
        function = table["functions"][code["function"]]
        files = [table["files"][index] for index in code["files"]]
        assert files
        assert {file["path"] for file in files} == {function["path"]}
        assert all(file["versions"] and len(bytes.fromhex(file["sha256"])) == 32 for file in files)
        assert code["pythons"]
        assert set(code["optimize"]) <= {0, 1, 2}
        least, greatest = function["first_lines"]
        assert least <= code["first_lines"][0] <= code["first_lines"][-1] <= greatest


# -- the digest ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("qualname", ["constant_fn.<locals>.func", "get_linear_fn.<locals>.func"])
def test_the_child_dumps_what_the_live_code_object_holds(qualname: str) -> None:
    answer = generator.dump(sys.executable, [MODULE.encode()], [qualname])
    dumped = {(level, line): generator.digest_of(arguments) for _, level, _, line, arguments in answer["codes"]}
    code = live(qualname)
    assert made(code).digest == dumped[0, code.co_firstlineno] is not None
    assert answer["python"] == ".".join(map(str, sys.version_info[:3]))
    assert {level for level, _ in dumped} == {0, 1, 2}


def test_without_docstrings_the_code_is_another() -> None:
    answer = generator.dump(sys.executable, [MODULE.encode()], ["constant_fn.<locals>.func"])
    digests = {level: generator.digest_of(arguments) for _, level, _, _, arguments in answer["codes"]}
    assert digests[0] == digests[1] != digests[2]


def test_the_child_runs_nothing_and_says_what_it_cannot_compile() -> None:
    answer = generator.dump(sys.executable, [b"raise SystemExit(3)", b"def func(:"], ["func"])
    assert (answer["codes"], answer["refused"]) == ([], [1])


def test_qualified_names_are_those_of_the_interpreter() -> None:
    walked = child.walk(compile(MODULE, "source.py", "exec"))
    names = {name for name, _ in walked}
    assert {
        "Holder",
        "Holder.method",
        "Holder.method.<locals>.<lambda>",
        "constant_fn.<locals>.func.<locals>.<lambda>",
    } <= names
    if sys.version_info >= (3, 11):
        assert all(name == code.co_qualname for name, code in walked)


def test_the_place_of_the_file_and_the_lines_do_not_change_the_digest() -> None:
    moved = live(filename="C:\\elsewhere\\utils.py", text="\n" * 300 + MODULE)
    assert moved.co_firstlineno == live().co_firstlineno + 300
    assert made(moved).digest == made(live()).digest
    apart = live(text=MODULE.replace("try:", "\n\n        try:"))
    assert apart.co_linetable != live().co_linetable
    assert made(apart).digest == made(live()).digest


NOT_EXECUTED = ("co_filename", "co_firstlineno", "co_linetable", "co_lnotab")


def flipped(value: bytes) -> list[bytes]:
    return [value[:at] + bytes([value[at] ^ 1]) + value[at + 1 :] for at in range(len(value))]


def one_change(value: object) -> list[object]:
    """Every value that differs from this one in one byte, one item or by one, and some of another type."""
    if isinstance(value, bytes):
        return [*flipped(value), value + b"\0"]
    if isinstance(value, tuple):
        changed = [(*value[:at], new, *value[at + 1 :]) for at, item in enumerate(value) for new in one_change(item)]
        return [*changed, value[1:], (*value, "more")] if value else [("more",)]
    if isinstance(value, Code):
        return [None, value._replace(digest="0" * 64)]
    if isinstance(value, (bool, complex)) or value is None or value is ...:
        return [0, "" if value is None else None]
    if isinstance(value, float):
        return [int(value), -value]
    return [value + 1, float(value)] if isinstance(value, int) else [f"{value}x"]


@pytest.mark.parametrize("name", [name for name in LAYOUT if name not in NOT_EXECUTED])
def test_any_other_change_changes_the_digest(name: str) -> None:
    code = live()
    original = parts(code)[name]
    digests = []
    for changed in one_change(original):
        code_object = make_code(tuple({**parts(code), name: changed}.values()))
        digests.append(code_object and code_object.digest)  # None: no code object has that part
    assert digests
    assert made(code).digest not in digests
    assert len({digest for digest in digests if digest}) == len([digest for digest in digests if digest])


# -- the program ---------------------------------------------------------------------------------------


def run(*argv: str) -> int:
    result: int = generator.main(list(argv))
    return result


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    for name in (generator.JSON_NAME, generator.TABLE_NAME):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def test_the_table_is_what_the_provenance_says() -> None:
    assert run("--check") == 0


@pytest.mark.parametrize(
    "change", [("(83, ", "(1, "), ('("val",)', '("value",)'), ('    "1', '    "2'), ("(FLOAT,)", "(CONSTANT,)")]
)
def test_check_fails_on_a_changed_table(
    copy: Path, change: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    table = copy / generator.TABLE_NAME
    text = table.read_text()
    assert change[0] in text
    table.write_text(text.replace(*change, 1))
    assert run("--check", "--root", str(copy)) == 1
    assert "published.py is not what generate_published.py makes of its sources" in capsys.readouterr().err


def test_check_fails_on_a_missing_table_or_digest(copy: Path) -> None:
    (copy / generator.TABLE_NAME).unlink()
    assert run("--check", "--root", str(copy)) == 1
    provenance = copy / generator.JSON_NAME
    shutil.copy(ROOT / generator.TABLE_NAME, copy / generator.TABLE_NAME)
    table = json.loads(provenance.read_text())
    del table["codes"][3]
    provenance.write_text(generator.as_json(table))
    assert run("--check", "--root", str(copy)) == 1


def wheel(folder: Path, version: str, members: dict[str, str]) -> str:
    path = folder / f"stable_baselines3-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in members.items():
            archive.writestr(name, text)
    return str(path)


def sdist(folder: Path, stem: str, members: dict[str, str]) -> str:
    path = folder / f"{stem}.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name, text in members.items():
            member = tarfile.TarInfo(f"{stem}/{name}")
            member.size = len(text.encode())
            archive.addfile(member, io.BytesIO(text.encode()))
    return str(path)


def test_releases_are_merged_whatever_their_order(copy: Path) -> None:
    sources = [
        wheel(copy, "1.10.0", {SB3: MODULE, "other.py": "def constant(): pass"}),
        sdist(copy, "stable_baselines3-1.9.0", {SB3: MODULE}),
        sdist(copy, "stable-baselines3-v1.11.0a1", {SB3: "\n" + MODULE, "README.md": ""}),
    ]
    assert run("--root", str(copy), *sources) == 0
    text = (copy / generator.JSON_NAME).read_text()
    table = json.loads(text)
    assert sorted(file["versions"] for file in table["files"]) == [["1.11.0a1"], ["1.9.0", "1.10.0"]]
    constant = next(function for function in table["functions"] if function["name"] == "CONSTANT")
    line = live().co_firstlineno
    assert constant["first_lines"] == [line, line + 1]
    assert made(live()).digest in {code["digest"] for code in table["codes"]}
    assert run("--check", "--root", str(copy), *reversed(sources)) == 0
    assert run("--check", "--root", str(copy)) == 0
    assert run("--check", "--root", str(copy), *sources[:2]) == 1
    compile((copy / generator.TABLE_NAME).read_text(), "published.py", "exec")


def test_a_schedule_function_in_a_module_that_nobody_listed_stops_it(tmp_path: Path) -> None:
    source = wheel(tmp_path, "9.0", {"stable_baselines3/common/schedules.py": MODULE})
    with pytest.raises(SystemExit, match="schedules.py defines a schedule function"):
        list(generator.read_source(source))


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_every_version_in_a_history_counts(tmp_path: Path) -> None:
    def git(*args: str) -> None:
        who = ["-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", "-C", str(tmp_path), *who, *args], check=True, capture_output=True)

    module = tmp_path / "utils" / "utils.py"
    module.parent.mkdir()
    git("init", "-q")
    for text in ("first = 1\n", "second = 2\n"):
        module.write_text(text)
        git("add", ".")
        git("commit", "-qm", text)
    git("rm", "-q", "utils/utils.py")
    git("commit", "-qm", "gone")
    found = list(generator.read_source(f"zoo={tmp_path / '.git'}"))
    assert sorted(module.text for module in found) == [b"first = 1\n", b"second = 2\n"]
    assert {(module.package, module.path) for module in found} == {("zoo", "utils/utils.py")}
