"""The tables of data in ``schema/tables/``: valid, equal to what Python has, and the only place of their rows."""

from __future__ import annotations

import base64
import binascii
import json
import re
import shutil
import sys
import unicodedata
from _compat_pickle import IMPORT_MAPPING, NAME_MAPPING
from functools import cache
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest

from sbformat import Limits
from sbformat.pkl import numpy as pkl_numpy
from sbformat.pkl.state import _MODULES
from tests.helpers.bundled import ROOT
from tests.helpers.programs import import_from
from tests.helpers.sampling import with_exhaustive
from tests.helpers.site_hooks import load_hook

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FOLDER = ROOT / "schema" / "tables"
TABLES: dict[str, dict[str, Any]] = {
    path.stem: json.loads(path.read_bytes()) for path in FOLDER.glob("*.json") if path.name != "tables.schema.json"
}
SCHEMA = json.loads((FOLDER / "tables.schema.json").read_bytes())


generator = import_from(ROOT / "schema", "generate_tables")


def rows(name: str) -> list[dict[str, Any]]:
    return list(TABLES[name]["rows"])


def points(text: str) -> str:
    return "".join(chr(int(point.removeprefix("U+"), 16)) for point in text.split())


# -- the files ----------------------------------------------------------------------------------------


def test_the_schema_is_valid_and_describes_every_table() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    described = {branch["properties"]["table"]["const"] for branch in SCHEMA["oneOf"]}
    assert described == set(TABLES) == {*generator.MAINTAINED, *generator.GENERATED}


@pytest.mark.parametrize("step", with_exhaustive([100], [1]))
@pytest.mark.parametrize("name", sorted(TABLES))
def test_a_table_is_valid_and_names_itself_and_sections_that_exist(name: str, step: int) -> None:
    every = step if "generated" in TABLES[name] else 1  # rows that a program writes are alike
    jsonschema.Draft202012Validator(SCHEMA).validate({**TABLES[name], "rows": TABLES[name]["rows"][::every]})
    assert TABLES[name]["table"] == name
    assert set(TABLES[name]["sections"]) <= load_hook("format_sections").list_sections().keys()
    assert ("generated" in TABLES[name]) == (name in generator.GENERATED)
    assert len({json.dumps(row) for row in rows(name)}) == len(rows(name))


@pytest.mark.parametrize("name", sorted(TABLES))
def test_a_table_with_a_wrong_row_is_invalid(name: str) -> None:
    first = TABLES[name]["rows"][0]
    for row in ({**first, "surplus": 1}, {}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.Draft202012Validator(SCHEMA).validate({**TABLES[name], "rows": [row]})


def test_everything_is_generated_from_the_tables(capsys: pytest.CaptureFixture[str]) -> None:
    assert generator.main(["--check"]) == 0, capsys.readouterr().err


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files that are generated, which is restored after each change."""
    folder = tmp_path_factory.mktemp("copied")
    copy_generated(ROOT, folder)
    assert generator.main(["--check", "--root", str(folder)]) == 0
    return folder


@cache
def list_generated() -> list[str]:
    return list(generator.generate_files(str(ROOT)))


def copy_generated(source: Path, folder: Path) -> None:
    for path in list_generated():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source / path, folder / path)


@pytest.mark.parametrize(
    ("table", "old", "new", "changed"),
    [
        ("limits", '"default": 1024, "unit": "entries"', '"default": 1025, "unit": "entries"',
         {"sbformat/limits.py", "schema/FORMAT.md"}),
        ("opcodes", '"name": "DUP"', '"name": "DUPLICATE"', {"sbformat/pkl/opcodes.py", "schema/FORMAT.md"}),
        ("dtypes", '"safetensors": "F16"', '"safetensors": "H16"', {"sbformat/arrayfiles/headers.py"}),
        ("refused-attributes", '"name": "H"', '"name": "h"', {"sbformat/pth/constructors.py"}),
        ("storages", '"name": "FloatStorage"', '"name": "Floats"', {"sbformat/pkl/tree.py", "schema/FORMAT.md"}),
        ("white-space", '{"set": "strip"', '{ "set": "strip"', {"schema/tables/white-space.json"}),
        ("roles", '"role": "tensor_v2"', '"role": "tensor_v9"', {"schema/tables/roles.json"}),
    ],
)  # fmt: skip
def test_a_changed_row_changes_what_is_generated(
    table: str, old: str, new: str, changed: set[str], copied: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy_generated(ROOT, copied)
    path = copied / "schema" / "tables" / f"{table}.json"
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), "utf-8", newline="\n")
    assert generator.main(["--check", "--root", str(copied)]) == 1
    found = set(re.findall(r"^(\S+) is not what", capsys.readouterr().err, re.MULTILINE))
    assert found == changed
    assert generator.main(["--root", str(copied)]) == 0
    assert generator.main(["--check", "--root", str(copied)]) == 0


def test_the_lines_of_a_block_must_be_there_once() -> None:
    block = generator.BLOCKS[0]
    text = (ROOT / block.path).read_text("utf-8")
    for broken in (text.replace("# begin opcodes", "# start opcodes"), text * 2):
        with pytest.raises(ValueError, match="once"):
            generator.fill_block(block, broken, {name: rows(name) for name in TABLES})


COPIES = (
    "IterableUserDict", "cookielib", "retains_grad", "grad_fn", "BFloat16Storage", "ComplexHalfStorage", "QUInt4x2",
    "float8_e5m2fnuz", "65536", "0x8c", "u2028\\u2029\\u202f", "c16",
)  # fmt: skip
"""Parts of rows that a copy of a table in the JavaScript decoder would have."""


def test_the_javascript_decoder_has_no_copy_of_a_table() -> None:
    folder = ROOT / "conformance" / "harness" / "javascript"
    texts = {path.name: path.read_text("utf-8") for path in folder.rglob("*.js")}
    assert [(name, copy) for name, text in texts.items() for copy in COPIES if copy in text] == []
    used = {name for text in texts.values() for name in re.findall(r"rowsOf\('([\w-]+)'\)", text)}
    assert used == {*generator.MAINTAINED, "case-folding", "roles"}


# -- what Python has ----------------------------------------------------------------------------------


def test_the_renames_are_those_of_python() -> None:
    modules = {row["module"]: row["new_module"] for row in rows("renamed-modules")}
    assert modules == {"Tix": "tkinter.tix", **IMPORT_MAPPING} == _MODULES
    names = {(row["module"], row["name"]): (row["new_module"], row["new_name"]) for row in rows("renamed-names")}
    assert names == NAME_MAPPING
    assert (len(modules), len(names)) == (55, 88)


def members(name: str) -> set[str]:
    ranges = [row for row in rows("white-space") if row["set"] == name]
    return {
        chr(code) for row in ranges for code in range(ord(points(row["first"])), ord(points(row["last"])) + 1)
    }  # fmt: skip


def test_the_white_space_is_that_of_python() -> None:
    characters = [chr(code) for code in range(sys.maxunicode + 1)]
    assert members("strip") == {character for character in characters if not character.strip()}
    assert members("line-end") == {character for character in characters if len(f"a{character}b".splitlines()) == 2}
    assert members("base64") == {character for character in map(chr, range(128)) if not is_skipped(character)} - {"="}


def is_skipped(character: str) -> bool:
    """Return whether the lenient decoder of base64 ignores a character."""
    try:
        return base64.b64decode(f"QU{character}JD") == b"ABC"
    except binascii.Error:
        return False


def mapped(table: list[dict[str, Any]]) -> dict[str, str]:
    """Return a mapping of characters from the rows of a table."""
    found = {}
    for row in table:
        first, to = points(row["from"]), points(row["to"])
        if "count" not in row:
            found[first] = to
        for index in range(row.get("count", 0)):
            found[chr(ord(first) + index * row["step"])] = chr(ord(to) + index * row["step"])
    return found


def characters_to_compare() -> Iterator[str]:
    """Yield the characters that this interpreter and the tables both know: those that the older of both has.

    An interpreter with a newer Unicode changes characters that were not assigned before: only rows are compared then.
    """
    version = tuple(map(int, unicodedata.unidata_version.split(".")))
    tables = tuple(map(int, TABLES["nfkc"]["unicode"].split(".")))
    known = {*mapped(rows("case-folding")), *mapped([row for row in rows("nfkc") if row["kind"] == "decomposition"])}
    for code in range(sys.maxunicode + 1):
        character = chr(code)
        is_assigned = unicodedata.category(character) not in ("Cn", "Cs")
        if is_assigned and (version <= tables or character in known):
            yield character


def test_case_folding_is_that_of_python() -> None:
    table = mapped(rows("case-folding"))
    compared = list(characters_to_compare())
    assert len(compared) > 4000
    assert [c for c in compared if table.get(c, c) != c.casefold()] == []


class Normalizer:
    """NFKC from the rows of the table alone."""

    def __init__(self) -> None:
        table = rows("nfkc")
        self.decomposed = mapped([row for row in table if row["kind"] == "decomposition"])
        self.composed = {points(row["from"]): points(row["to"]) for row in table if row["kind"] == "composition"}
        self.classes = {
            chr(ord(points(row["from"])) + index): row["class"]
            for row in table
            if row["kind"] == "class"
            for index in range(row["count"])
        }

    def normalize(self, text: str) -> str:
        """Decompose, sort the marks after each starter by their class, and compose."""
        found: list[str] = []
        for character in "".join(self.decomposed.get(character, character) for character in text):
            rank = self.classes.get(character, 0)
            at = len(found)
            while rank and at and self.classes.get(found[at - 1], 0) > rank:
                at -= 1
            found.insert(at, character)
        return self._compose(found)

    def _composed(self, pair: str) -> str | None:
        first, second = map(ord, pair)
        if 0x1100 <= first < 0x1113 and 0x1161 <= second < 0x1176:  # Hangul, by arithmetic
            return chr(0xAC00 + ((first - 0x1100) * 21 + second - 0x1161) * 28)
        if 0xAC00 <= first < 0xD7A4 and (first - 0xAC00) % 28 == 0 and 0x11A8 <= second < 0x11C3:
            return chr(first + second - 0x11A7)
        return self.composed.get(pair)

    def _compose(self, text: list[str]) -> str:
        made: list[str] = []
        starter, last = -1, 0
        for character in text:
            rank = self.classes.get(character, 0)
            is_free = starter >= 0 and (starter == len(made) - 1 or (last and last < rank))
            pair = self._composed(made[starter] + character) if is_free else None
            if pair is not None:
                made[starter] = pair
                continue
            made.append(character)
            last = rank
            if not rank:
                starter = len(made) - 1
        return "".join(made)


@pytest.mark.parametrize("step", with_exhaustive([8], [1]))
def test_nfkc_is_that_of_python(step: int) -> None:
    """In the default run, every character, and an eighth of those that are composed with marks."""
    normalizer = Normalizer()
    compared = [c for c in characters_to_compare() if ord(c) not in range(0xAC00, 0xD7A4)]
    assert [c for c in compared if normalizer.normalize(c) != unicodedata.normalize("NFKC", c)] == []
    marks = "\u0301\u0327\u0323\u0338\u3099\u0345"
    bases = [pair[0] for pair in normalizer.composed][::step]
    texts = [
        f"{base}{one}{two}{three}" for base in bases for one in marks for two in marks for three in ("", "a\u0300")
    ]
    assert [text for text in texts if normalizer.normalize(text) != unicodedata.normalize("NFKC", text)] == []


# -- what the package and the text have ---------------------------------------------------------------


def test_the_codes_of_numpy_are_those_of_the_package() -> None:
    codes = {row["numpy"]: row["bytes"] for row in rows("dtypes") if row["numpy"]}
    assert codes == pkl_numpy.ITEM_SIZES
    names = {row["name"]: row for row in rows("dtypes")}
    for row in rows("dtypes"):
        if row["read_as"] is not None:
            assert row["numpy"] is None
            assert names[row["read_as"]]["numpy"]
    text = load_hook("format_sections").list_sections()["6.6"].text
    listed = re.search(r"The code is one of ([\w\s]+) and nothing else", text)
    assert listed is not None
    assert set(listed[1].split()) == set(codes)


def test_the_storages_of_the_text_are_those_of_the_table() -> None:
    text = load_hook("format_sections").list_sections()["6.3"].text
    listed = re.search(r"for X = ([\w,\s]+);", text)
    assert listed is not None
    names = {f"{name.strip()}Storage" for name in listed[1].split(",")}
    table = {row["name"]: row for row in rows("storages")}
    assert names == {name for name, row in table.items() if row["modules"] == ["torch", "torch.cuda"]}
    for name in table.keys() - names:
        for module in table[name]["modules"]:
            assert f"`{module}.{name}`" in text
    dtypes = [row["dtype"] for row in table.values() if row["dtype"] is not None]
    assert len(set(dtypes)) == len(dtypes)
    assert set(dtypes) <= {row["name"] for row in rows("dtypes")}


def test_the_refused_attributes_of_the_text_are_those_of_the_table() -> None:
    text = " ".join(load_hook("format_sections").list_sections()["6.5"].text.split())
    listed = re.search(r"would change the tensor. The latter are ((?:`\w+`(?:, )?)+)\.", text)
    assert listed is not None
    assert re.findall(r"`(\w+)`", listed[1]) == [row["name"] for row in rows("refused-attributes")]


def test_the_limits_are_those_of_the_package() -> None:
    assert {row["name"]: row["default"] for row in rows("limits")} == Limits()._asdict()
    total = next(row for row in rows("limits") if row["name"] == "total_bytes")
    assert total["is_sum"]


# -- vectors of limits --------------------------------------------------------------------------------

WITHOUT_VECTORS = {
    "settings_bytes": "about files of a folder, and a vector is one file: tests/folders/test_settings.py",
}
IN_BATCHES = {"pickle_opcodes", "pickle_stack", "pickle_marks", "pickle_memo"}
"""A reader may refuse these late (FORMAT.md 5.3): what is above them is another file, with more than twice as many."""


@cache
def list_limited() -> dict[tuple[str, str], dict[int, set[bool]]]:
    """For each limit and each file that a vector reads with it: whether it is accepted, by the value of the limit.

    What differs in batches only is one file, which is named by the limit alone.
    """
    found: dict[tuple[str, str], dict[int, set[bool]]] = {}
    for path in (ROOT / "conformance" / "vectors").glob("*.jsonl"):
        for vector in map(json.loads, path.read_text("utf-8").splitlines()):
            given = vector.get("arguments", [])
            for at, argument in enumerate(given):
                if argument == "--limit" and vector.get("outcome", "limit exceeded") == "limit exceeded":
                    limit, _, value = given[at + 1].partition("=")
                    same = [vector["base64"], given[:at] + given[at + 2 :], vector.get("input")]
                    key = limit, "" if limit in IN_BATCHES else json.dumps(same)
                    found.setdefault(key, {}).setdefault(int(value), set()).add("outcome" not in vector)
    return found


@pytest.mark.parametrize("limit", Limits._fields)
def test_each_limit_has_vectors_on_both_sides(limit: str) -> None:
    files = [by_value for (name, _), by_value in list_limited().items() if name == limit]
    below = 0 if limit in IN_BATCHES else 1
    has_both = any(
        True in outcomes and False in by_value.get(value - below, ())
        for by_value in files
        for value, outcomes in by_value.items()
    )
    assert has_both == (limit not in WITHOUT_VECTORS)
