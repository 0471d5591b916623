"""Python tags in YAML: every way to write one is found in any encoding and at any size, and judged by its name."""

from __future__ import annotations

import io
import json
import random
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

import pytest

import sbformat
from sbformat.cli import main
from sbformat.io import source as io_source
from sbformat.io.source import BytesSource
from sbformat.tools.scan import sidecars
from sbformat.tools.scan.findings import Location
from sbformat.tools.scan.sidecars import (
    LONGEST,
    MAX_OPENINGS,
    NAMESPACE,
    REPEATED,
    Tag,
    contains_tags,
    iter_python_tags,
    judge_tag,
)
from tests.helpers.count_work import count_calls
from tests.helpers.many_cases import check_each
from tests.helpers.sampling import with_exhaustive

NAME: Final = "name:os.system"
ENCODINGS: Final = (
    "utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be", "cp1252", "latin-1",
    "shift_jis", "gb18030", "koi8-r", "mac-roman",
)  # fmt: skip
LARGE: Final = 4 * sidecars._OVERLAP
"""Size of the pieces, in tests of tags that are in two of them."""

ARGS_OF_RL_ZOO = b"""!!python/object/apply:collections.OrderedDict
- - - algo
    - ppo
  - - env_kwargs
    - null
  - - gym_packages
    - []
  - - hyperparams
    - !!python/tuple
      - a
"""
CONFIG_OF_RL_ZOO = b"""!!python/object/apply:collections.OrderedDict
- - - batch_size
    - 256
  - - policy_kwargs
    - dict(net_arch=[64, 64])
  - - activation
    - !!python/name:torch.nn.modules.activation.Tanh ''
"""


def names(text: str | bytes) -> list[str]:
    """Return the tags that are found, without repeated ones."""
    source = BytesSource(text if isinstance(text, bytes) else text.encode())
    return [tag.name for tag in iter_python_tags(source) if tag is not REPEATED]


@check_each(
    "text",
    [
        "!!python/name:os.system",
        "a: !!python/name:os.system ''",
        "&a !!python/name:os.system x",
        "{a: {b: [!!python/name:os.system ",
        "{'a':!!python/name:os.system }",
        "!<tag:yaml.org,2002:python/name:os.system> x",
        "!!%70ython/name:os.system",
        "!!p%79thon%2fname%3Aos%2E%73ystem",
        "!<tag%3Ayaml.org,2002:python/name:os.system> x",
        "!<%74a%67:yaml%2Eorg%2c2002:python/name:os.system> x",
        "%TAG !e! tag:yaml.org,2002:python/\n---\n!e!name:os.system x",
        "%TAG !e! t\n---\n!e!ag:yaml.org,2002:python/name:os.system x",
        "%TAG !e! tag:yaml.org,2002:py\n--- !e!thon/name:os.system x",
        "%TAG  !e-1_!   tag:yaml.org,2002:python/name:os.\n--- !e-1_!system x",
        "%TAG\t!e!\ttag:yaml.org,2002:py\n--- !e!%74hon%2Fname:os.system x",
        "%TAG ! tag:yaml.org,2002:python/\n---\n!name:os.system x",
        "%TAG !! tag:yaml.org,2002:python/\n---\n!!name:os.system x",
        "%TAG !e! tag%3ayaml.org,2002:%70y\r--- !e!thon/name:os.system x",
        "%TAG !e! tag:yaml.org,2002:\r\n--- !e!python/name:os.system x",
        "%TAG !e! tag:yaml.org,2002:py\n--- 1\n...\n--- !e!thon/name:os.system x",
        "%TAG !a! tag:yaml.org,2002:\n%TAG !b! !b\n%TAG !e! tag:yaml.org,2002:py\n--- !e!thon/name:os.system x",
        "# !!python/name:os.system",
        'a: "!!python/name:os.system"',
        "a: |\n  !!python/name:os.system",
        "a: x!!python/name:os.system",
        "Never load `!!python/name:os.system`, or (!!python/name:os.system).",
        "@a: !!python/name:os.system",
        "a: \x01\x00 !!python/name:os.system",
    ],
)
def test_every_way_to_write_a_tag_in_every_encoding(text: str) -> None:
    for encoding in ENCODINGS:
        found = {name.rstrip(".,)") for name in names(text.encode(encoding))}
        assert found == {NAME}, encoding


@check_each("end", ["\x85", "\u2028", "\u2029", "\r"])
def test_what_ends_a_line_ends_a_directive(end: str) -> None:
    for encoding in ("utf-8", "utf-16-le", "utf-16-be", "utf-32"):
        text = f"%TAG !e! tag:yaml.org,2002:pyth{end}--- !e!on/name:os.system{end}x"
        assert [name.rstrip("()") for name in names(text.encode(encoding))] == [NAME]


@check_each(
    "text",
    [
        "!!str python/name:os.system",
        "%TAG !e! tag:yaml.org,2002:python/\n---\na: 1\n...\n---\n!!map {}",
        "%TAG !e! tag:example.org,2002:python/\n---\n!e!name:os.system x",
        "%TAG !e!\n--- !e!name:os.system x",
        "!python/name:os.system x",
        "!!pythonic x",
        "the tags `!!python/`",
        "!e!python/name:os.system x",
    ],
)
def test_what_is_no_tag(text: str) -> None:
    for encoding in ENCODINGS:
        assert names(text.encode(encoding)) == []


@check_each("end", ["\u2028", "\u2029"])
@check_each("encoding", ["utf-16-be", "utf-16-le"])
def test_a_directive_after_what_looks_like_one(encoding: str, end: str) -> None:
    """The bytes 20 28 of the line end are a blank and a character of a prefix."""
    for comment in ("# %TAG", "# %TAG !a!", "# %TAG !a! x", "# %TAG %TAG !a!"):
        text = f"{comment}{end}%TAG !e! tag:yaml.org,2002:py\n--- !e!thon/object/apply:os.getpid []\n"
        assert "object/apply:os.getpid" in [tag.name for tag in iter_python_tags(BytesSource(text.encode(encoding)))]


def test_a_name_that_a_state_calls_is_dangerous(tmp_path: Path) -> None:
    """``OrderedDict`` gets the attribute ``extend`` before it is called with the items."""
    call = "!!python/object/apply:collections.OrderedDict\nstate: {extend: !!python/name:%s }\nlistitems: this\n"
    for name, verdict in (
        ("cloudpickle.subimport", "dangerous"), ("builtins.getattr", "dangerous"), ("functools.partial", "dangerous"),
        ("stable_baselines3.ppo.ppo.PPO", "dangerous"), ("torch.nn.modules.activation.Tanh", "clean"),
    ):  # fmt: skip
        (tmp_path / "args.yml").write_text(call % name)
        report = sbformat.scan(tmp_path)
        assert report.verdict == verdict, (name, report.findings)


def test_a_tag_has_its_line() -> None:
    text = "aĊ: |\r\n  ਊ\r  y\rb: !!python/tuple [\n !!python/none ]\r\n\r\n!!python/str x"
    for encoding in ENCODINGS[:8]:
        tags = iter_python_tags(BytesSource(text.encode(encoding)))
        assert [tag.line for tag in tags] == [4, 5, 7], encoding


def test_a_tag_in_two_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(io_source, "CHUNK_BYTES", LARGE)
    directive = "%TAG !e! tag:yaml.org,2002:py\r\n"
    for text in ("!!python/name:os.system x", f"{directive}--- !e!thon/name:os.system x"):
        for encoding in ("utf-8", "utf-16-be"):
            size = len(text.encode(encoding))
            for before in range(LARGE - size - 2, LARGE + 2, 2):
                data = "\r\n".encode(encoding) * (before // len("\r\n".encode(encoding))) + text.encode(encoding)
                (tag,) = iter_python_tags(BytesSource(data))
                breaks = data.decode(encoding).split("!")[0].count("\n") if text[0] == "!" else None
                assert tag.name == NAME
                assert tag.line == 1 + (breaks if breaks is not None else data.decode(encoding).count("\n"))
    for spaces in (LONGEST + 1, 10 * LARGE):
        assert names(directive.replace(" ", " " * spaces, 1) + "--- !e!thon/name:os.system x")[0] == ""
    handle = "e" * (LONGEST + 1)
    assert names(directive.replace("e", handle, 1) + f"--- !{handle}!thon/name:os.system x")[0] == ""
    assert len(names("!!python/name:" + "a" * 10 * LARGE)[0]) <= LONGEST


def test_more_directives_than_are_examined_are_a_finding() -> None:
    text = "".join(f"%TAG !{number}! tag:yaml.org,2002:py\n" for number in range(2 * MAX_OPENINGS))
    assert names(text) == [""]
    (finding,) = (row for row in sbformat.scan(text.encode()).findings if row.rule == "python-tag")
    assert (finding.verdict, finding.line) == ("dangerous", MAX_OPENINGS - 1)


@pytest.mark.parametrize("text", [ARGS_OF_RL_ZOO, CONFIG_OF_RL_ZOO])
def test_what_rl_zoo_writes_is_no_finding(text: bytes, tmp_path: Path) -> None:
    assert len(names(text)) == 2
    (tmp_path / "args.yml").write_bytes(text)
    report = sbformat.scan(tmp_path)
    assert (report.verdict, report.findings) == ("clean", ())


@pytest.mark.parametrize(
    ("tag", "words"),
    [
        ("object/apply:os.system", "os.system is called by a YAML tag in line 2: it runs commands"),
        ("object/apply:eval", "eval is called by a YAML tag in line 2: it runs the code it is given"),
        ("object/new:my.Thing", "my.Thing is called by a YAML tag in line 2, which imports my"),
        ("object:my.Thing", "my.Thing is the class of an object"),
        ("name:my.thing", "my.thing is imported"),
        ("module:subprocess", "subprocess is imported as a module by a YAML tag in line 2: it runs commands"),
        ("object/apply:collections.Counter", "collections.Counter is called"),
        ("other:thing", "in a way that sbformat does not know"),
        ("tuple:x", "in a way that sbformat does not know"),
        ("tuple!x", "in a way that sbformat does not know"),
        ("object/apply:dict!my.thing", "dict! is called by a YAML tag"),
        ("object/apply:dict.'", "dict. is called by a YAML tag in line 2, which imports dict"),
        ("name:os.%73ystem],", "os.system is imported by a YAML tag in line 2: it runs commands"),
    ],
)
def test_a_tag_that_is_not_known_is_dangerous(tag: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(f"a: 1\nb: !!python/{tag} x\n")
    for source in (tmp_path, tmp_path / "a.txt", (tmp_path / "a.txt").read_bytes()):
        report = sbformat.scan(source)
        (finding,) = [row for row in report.findings if row.rule == "python-tag"]
        assert (report.verdict, finding.verdict, finding.line) == ("dangerous", "dangerous", 2)
        assert words in finding.message


def test_known_names_in_prose_are_no_finding() -> None:
    text = b"A tuple (`!!python/tuple`, '!!python/tuple') or [!!python/object/apply:collections.OrderedDict]"
    assert [row.rule for row in sbformat.scan(text).findings] == ["unknown-entry"]  # a text, not an archive


def test_a_tag_behind_many_known_ones_is_found() -> None:
    known = "".join(f"!!python/%{ord(c):02x}uple !!python/tuple{'.' * n} " for n in range(1000) for c in "tT")
    report = sbformat.scan(f"{known.replace('%54', 't')}\n!!python/name:os.system".encode())
    assert (report.verdict, report.reason) == ("dangerous", "harmful")


def test_openings_that_overlap() -> None:
    first = "%TAG !e! tag:yaml.org,2002:python/\n--- !e!tuple []\n...\n"
    assert names(f"{first}%TAG !e! tag:yaml.org,2002:python/name:os.\n--- !e!tuple") == ["tuple", "name:os.tuple"]
    assert names("%TAG !! tag:yaml.org,2002:python/name:os.\n--- !!!x 1") == ["name:os.!x"]
    first = "%TAG ! tag:yaml.org,2002:python/m\n%TAG !e! tag:yaml.org,2002:python\n"
    assert NAME in names(f"{first}--- !e!/name:os.system 1")


def test_a_name_can_be_allowed() -> None:
    text = b"!!python/object/apply:my.Thing []"
    assert sbformat.scan(text).verdict == "dangerous"
    assert sbformat.scan(text, allow=["my.Thing"]).verdict == "unknown"  # a text, not an archive


def test_a_text_that_is_read_differently_in_two_encodings(tmp_path: Path) -> None:
    """The bytes C2 85 end a comment in UTF-8; in Windows-1252 the tag is content, in UTF-8 it is in a text."""
    (tmp_path / "args.yml").write_bytes(b'# \xc2\x85a: "\nb: !!python/object/apply:os.system [x]\n# "')
    assert sbformat.scan(tmp_path).verdict == "dangerous"


# -- size -----------------------------------------------------------------------------------------------


@pytest.fixture
def _small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("sbformat.io.opening", "sbformat.tools.scan", "sbformat.tools.scan.folders"):
        monkeypatch.setattr(f"{module}.LARGE_FILE_BYTES", 1 << 16)
    monkeypatch.setattr("sbformat.container.reader.INFLATED_WHOLE_BYTES", 1 << 16)
    monkeypatch.setattr("sbformat.tools.scan.files.INFLATED_WHOLE_BYTES", 1 << 16)


@pytest.mark.usefixtures("_small_limits")
def test_a_large_file_is_searched(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = b"a: 1\n" * (1 << 15) + b"b: !!python/object/apply:os.system [x]\n"
    path = tmp_path / "args.yml"
    path.write_bytes(text)
    tight = sbformat.Limits(total_bytes=1 << 16)
    for source in (path, tmp_path):
        for limits in (sbformat.DEFAULT_LIMITS, tight):
            report = sbformat.scan(source, limits=limits)
            (finding,) = (row for row in report.findings if row.rule == "python-tag")
            assert (report.verdict, finding.names, finding.line) == ("dangerous", ("os.system",), (1 << 15) + 1)
    for argument in (path, tmp_path):
        main(["scan", str(argument), "--format", "sarif"])
        (result,) = (
            row for row in json.loads(capsys.readouterr().out)["runs"][0]["results"] if row["ruleId"] == "python-tag"
        )
        assert result["locations"][0]["physicalLocation"]["region"] == {"startLine": (1 << 15) + 1}
    path.write_bytes(b"\x00\x01" + text)  # a loader reads none of it
    assert [row.reason for row in sbformat.scan(tmp_path).skipped] == ["large"]


@pytest.mark.usefixtures("_small_limits")
def test_a_large_member_is_searched() -> None:
    lines = random.Random(1)  # noqa: S311
    text = (
        b"".join(b"- %d\n" % lines.getrandbits(64) for _ in range(1 << 17))
        + b"b: !!python/object/apply:os.system [x]\n"
    )
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("args.yml", text)
    for limits in (sbformat.DEFAULT_LIMITS, sbformat.Limits(memory_bytes=1 << 21)):
        report = sbformat.scan(packed.getvalue(), limits=limits)
        (finding,) = (row for row in report.findings if row.rule == "python-tag")
        assert (report.verdict, finding.entry, finding.line) == ("dangerous", "args.yml", (1 << 17) + 1)


def test_control_characters_at_the_start_of_a_large_file() -> None:
    tag = "!!python/tuple"
    for text in (f"a\0{tag}", f"\x04{tag}", f"\t\r\n{tag}", f"a: Ж\n{tag}", f'\x1b$B$"\x1b(B{tag}'):
        for encoding in ("utf-8", "utf-16", "utf-16-be", "utf-32-le"):
            assert contains_tags(BytesSource(text.encode(encoding))) is ("\x04" not in text), encoding


@pytest.mark.parametrize(
    "piece",
    ["!", "!!", "!!python/", "!!p", "!!python/tuple ", "!%41", "!<t", "%TAG ", "%TAG !", "!\0", "%TAG ! tag ", "!a"],
)
@pytest.mark.parametrize("part", with_exhaustive([40], [1]))
def test_hostile_text_takes_little_work(piece: str, part: int) -> None:
    text = ("%TAG ! tag:yaml.org,2002:python/\n" + piece * (2_000_000 // part // len(piece))).encode()
    with count_calls() as calls:
        assert len(names(text)) <= MAX_OPENINGS
    assert calls.number < 5 * len(text)


@check_each("start", ["!!python/", "!!python/%41", "!<", "%TAG !", "%TAG ! ", "'", '"', "a: |\n  ", "!", "#"])
def test_the_search_takes_constant_memory(start: str) -> None:
    for piece in ("a", "%41", "!", " ", "''", '\\"'):
        text = BytesSource((start + piece * (4_000_000 // len(piece) // 10)).encode())
        tracemalloc.start()
        try:
            assert sum(1 for _ in iter_python_tags(text)) <= text.size
            assert tracemalloc.get_traced_memory()[1] < 1 << 20
        finally:
            tracemalloc.stop()


# -- PyYAML as the oracle -------------------------------------------------------------------------------


_HANDLES: Final = ("!", "!!", "!e!", "!x-1!")
_PARTS: Final = (
    " ", " ", " ", "  ", "\n", "\n", "\n  ", "\n    ", "\r\n", "\r", "\x85", "\u2028", "\t", "a", "a: ", "- ", "? ",
    ": ", ":", "key: ", "\n- ", "\nk: ", "\n  k: ", "0", "é", "Ċ", "ÿ", "|", "|-\n", "|2\n", ">\n", "'", '"', "''",
    '\\"', "\\", "#", " # c", "# ", "[", "]", "{", "}", ",", "&x ", "*x", "!", "!foo ", "!!str ", "!e!", "%", "@", "-",
    "---", "--- ", "\n---\n", "\n--- ", "...\n", "%YAML 1.1\n", "\ufeff", "\0",
)  # fmt: skip
_NAMES: Final = ("name:os.system", "tuple", "object/apply:a.b", "object:c.D", "module:m", "name:a%2Eb", "x")


def _escape(chance: random.Random, text: str, share: float) -> str:
    return "".join(f"%{ord(char):02{chance.choice('xX')}}" if chance.random() < share else char for char in text)


def _write_directive(chance: random.Random) -> str:
    prefix = (NAMESPACE + chance.choice(_NAMES))[: chance.randint(1, len(NAMESPACE) + 3)]
    prefix = _escape(chance, prefix, chance.choice((0, 0, 0.2))) or "t"
    first, second = " " * chance.randint(1, 3), " " * chance.randint(1, 3)
    end = chance.choice(("\n", "\r\n", "\x85", "\u2028"))
    return f"%TAG{first}{chance.choice(_HANDLES)}{second}{prefix}{end}"


def _write_tag(chance: random.Random, text: str) -> str:
    """Write a tag; with a directive before it, often one that completes its prefix."""
    full = NAMESPACE + chance.choice(_NAMES)
    share = chance.choice((0, 0, 0.2))
    how = chance.randrange(4)
    if how == 0:
        return f"!<{_escape(chance, full, share)}> "
    if how == 1 or "%TAG" not in text:
        end = chance.choice((" ", "\n", "", ","))
        return f"!!{_escape(chance, full.removeprefix('tag:yaml.org,2002:'), share)}{end}"
    words = text.rpartition("%TAG")[2].split()
    handle, prefix = words[0], unquote(words[1])
    rest = full[len(prefix) :] if full.startswith(prefix) else "x"
    return f"{handle}{_escape(chance, rest or 'x', share)} "


def _write_text(chance: random.Random) -> str:
    text = ""
    if chance.random() < 0.4:
        text = _write_directive(chance) + chance.choice(("--- ", "---\n", "%YAML 1.1\n---\n", ""))
    for _ in range(chance.randint(1, 10)):
        kind = chance.random()
        if kind < 0.3:
            text += _write_tag(chance, text)
        elif kind < 0.34:
            text += "\n...\n" + _write_directive(chance) + "--- "
        else:
            text += chance.choice(_PARTS)
    return text


def _list_tags(yaml: Any, text: str | bytes) -> set[str]:
    """Return the Python tags that PyYAML resolves before the end of the text or its first error."""
    found: set[str] = set()
    try:
        for event in yaml.parse(text, Loader=yaml.UnsafeLoader):
            tag = getattr(event, "tag", None) or ""
            if tag.startswith(NAMESPACE) and tag != NAMESPACE:
                found.add(tag.removeprefix(NAMESPACE))
    except yaml.YAMLError:
        pass
    return found


def _cut(name: str) -> str:
    """Return a name up to the first "!", which begins another one for us; "(" ends a line in UTF-16."""
    return name.partition("!")[0].rstrip("()")


def _is_dangerous(name: str) -> bool:
    return judge_tag(Tag(name, 1), Location(""), frozenset()) is not None


@pytest.mark.parametrize("seed", with_exhaustive([0], range(1, 21)))
def test_whatever_pyyaml_resolves_is_found(seed: int) -> None:
    """Of 200,000 random texts in three encodings, and of their bytes as Windows-1252 reads them."""
    yaml = pytest.importorskip("yaml")
    chance, count = random.Random(seed), 10_000 if seed else 300  # noqa: S311
    seen = ambiguous = 0
    for _ in range(count):
        text = _write_text(chance)
        for encoding in ("utf-8", "utf-16", "cp1252"):
            try:
                data = text.encode(encoding)
            except UnicodeEncodeError:
                continue
            theirs = _list_tags(yaml, data if encoding != "cp1252" else data.decode("cp1252"))
            if encoding == "utf-8":
                try:
                    other = _list_tags(yaml, data.decode("cp1252"))
                except UnicodeDecodeError:
                    other = set()
                ambiguous += bool(other - theirs)
                theirs |= other
            ours = names(data)
            assert {_cut(name) for name in theirs} <= {_cut(name) for name in ours}, data
            assert any(map(_is_dangerous, ours)) or not any(map(_is_dangerous, theirs)), data
            seen += bool(theirs)
    assert seen > count // 3
    assert ambiguous or count < 10_000
