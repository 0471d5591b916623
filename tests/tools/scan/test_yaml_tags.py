"""Python tags in YAML: each way to write one is seen, text that looks like one is not, and ``scan`` judges them."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Final

import pytest

import sbformat
from sbformat.tools.scan import yaml_tags
from sbformat.tools.scan.yaml_tags import MAX_TOKENS, PREFIX, TooManyTokensError, iter_python_tags, may_hold_tags
from tests.helpers.count_work import count_calls
from tests.helpers.many_cases import check_each
from tests.helpers.sampling import with_exhaustive

NAME: Final = f"{PREFIX}name:os.system"

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
    data = text if isinstance(text, bytes) else text.encode()
    return [tag.name for tag in iter_python_tags(data)] if may_hold_tags(data) else []


@check_each(
    "text",
    [
        "!!python/name:os.system",
        "a: !!python/name:os.system ''",
        "- !!python/name:os.system",
        "? !!python/name:os.system\n: 1",
        "!!python/name:os.system : 1",
        "&a !!python/name:os.system x",
        "!!python/name:os.system &a x",
        "a: [1, !!python/name:os.system ]",
        '{"a": !!python/name:os.system }',
        "{a: {b: [!!python/name:os.system ",
        "!<tag:yaml.org,2002:python/name:os.system> x",
        "!!%70ython/name:os.system",
        "!<tag%3Ayaml.org,2002:python/name:os.system> x",
        "%TAG !e! tag:yaml.org,2002:python/\n---\n!e!name:os.system x",
        "%TAG !e! tag:yaml.org,2002:py\n--- !e!thon/name:os.system x",
        "%TAG ! tag:yaml.org,2002:python/\n---\n!name:os.system x",
        "%TAG !! tag:yaml.org,2002:python/\n---\n!!name:os.system x",
        "%TAG !e! tag%3ayaml.org,2002:python/\n---\n!e!name:os.system x",
        "\r\n%TAG !e! tag:yaml.org,2002:python/\r\n---\r\n!e!name:os.system x",
        "a: 1\n...\n---\n!!python/name:os.system x",
        "a: |\n  text\nb: !!python/name:os.system x",
        "a: 'text\n  more'\nb: !!python/name:os.system x",
        'a: "it\\"s"\nb: !!python/name:os.system x',
        "a: it's\nb: !!python/name:os.system x",
        "# it's\nb: !!python/name:os.system x",
        "- |1\n  text\n-\n  !!python/name:os.system x",
        "a: 1\u2028b: !!python/name:os.system x",
        "a: 1\rb: !!python/name:os.system x",
        "a: 1\x85b: !!python/name:os.system x",
        "\ufeffa: !!python/name:os.system x",
    ],
)
def test_every_way_to_write_a_tag(text: str) -> None:
    for encoding in ("utf-8", "utf-8-sig", "utf-16"):
        if not (text.startswith("\ufeff") and encoding != "utf-8"):
            assert names(text.encode(encoding)) == [NAME]


@check_each(
    "text",
    [
        "# !!python/name:os.system",
        "a: 1 # !!python/name:os.system",
        'a: "!!python/name:os.system"',
        "a: '!!python/name:os.system'",
        "a: '\n  !!python/name:os.system'",
        "a: text !!python/name:os.system",
        "a: text\n  !!python/name:os.system",
        "a: |\n  !!python/name:os.system",
        "a: >-\n\n  !!python/name:os.system\n",
        "a: x!!python/name:os.system",
        "!!str python/name:os.system",
        "%TAG !e! tag:yaml.org,2002:python/\n---\na: 1\n...\n---\n!!map {}",
        "!python/name:os.system x",
        "!!pythonic x",
        "# Notes\n\nNever load `!!python/name:os.system` with an unsafe loader.\n",
        "class A:\n    x = '!!python/name:os.system'\n",
        "@a: !!python/name:os.system",
        "a: \x01 !!python/name:os.system",
    ],
)
def test_what_is_no_tag(text: str) -> None:
    assert names(text) == []


def test_a_tag_has_its_line() -> None:
    assert [tag.line for tag in iter_python_tags(b"a: |\n  x\n\n  y\nb: !!python/tuple [\n !!python/none ]")] == [5, 6]


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
    ],
)
def test_a_tag_that_is_not_known_is_dangerous(tag: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(f"a: 1\nb: !!python/{tag} x\n")
    for source in (tmp_path, tmp_path / "a.txt", (tmp_path / "a.txt").read_bytes()):
        report = sbformat.scan(source)
        (finding,) = [row for row in report.findings if row.rule == "python-tag"]
        assert (report.verdict, finding.verdict) == ("dangerous", "dangerous")
        assert words in finding.message


def test_a_name_can_be_allowed() -> None:
    text = b"!!python/object/apply:my.Thing []"
    assert sbformat.scan(text).verdict == "dangerous"
    assert sbformat.scan(text, allow=["my.Thing"]).verdict == "unknown"  # a text, not an archive


@pytest.mark.parametrize("piece", ["a,", "[", "'", '"', "!a ", "- ", "? ", "\n ", "a: ", "%41", "!", "!%41", "#"])
@pytest.mark.parametrize("part", with_exhaustive([40], [1]))
def test_hostile_text_takes_little_work(piece: str, part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    text = ("[!!python/tuple , " + piece * (2_000_000 // part // len(piece))).encode()
    monkeypatch.setattr(yaml_tags, "MAX_TOKENS", MAX_TOKENS // 10 // part)
    with count_calls() as calls:
        try:
            assert len(names(text)) <= 1
        except TooManyTokensError:
            assert len(text) > MAX_TOKENS // part
    assert calls.number < 3 * len(text)


@pytest.mark.parametrize("most", with_exhaustive([MAX_TOKENS // 40], [MAX_TOKENS]))
def test_too_many_tokens_are_broken(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yaml_tags, "MAX_TOKENS", most)
    report = sbformat.scan(b"[!!python/tuple " + b"a," * (most + 1))
    assert "the file contains more YAML than is examined" in [
        row.message for row in report.findings if row.rule == "broken"
    ]


_ATOMS: Final = (
    "a", "b: ", "- ", "? ", ": ", ":", "!!python/name:os.system", "!!python/tuple", " ", "  ", "\n", "\n  ", "\n    ",
    "|", "|-\n", "|2\n", ">\n", "'", '"', "#", " # c", "[", "]", "{", "}", ",", "&x ", "*x", "!", "!e!name:z ", "---",
    "!<tag:yaml.org,2002:python/name:os.x>", "%TAG !e! tag:yaml.org,2002:python/\n", "!name:q ", "--- ", "...\n",
    "%TAG ! tag:yaml.org,2002:python/\n", "\n---\n", "%YAML 1.1\n", "!!%70ython/name:x", "\t", "\\", '\\"', "''", "é",
    "\ufeff", "\r\n", "\r", "\x85", "\u2028", "-", "key: ", "!!str ", "!foo", "%", "@", "\n- ", "\nk: ", "\n  k: ", "0",
)  # fmt: skip


@pytest.mark.parametrize("count", with_exhaustive([2000], [20_000]))
def test_whatever_pyyaml_sees_is_seen(count: int) -> None:
    """PyYAML is the oracle: every tag of every document that it parses, up to its error, is found, and in its order."""
    yaml = pytest.importorskip("yaml")
    chance = random.Random(20)  # noqa: S311
    seen = 0
    for _ in range(count):
        text = "".join(chance.choice(_ATOMS) for _ in range(chance.randint(1, 14)))
        data = text.encode(chance.choice(("utf-8", "utf-8-sig", "utf-16")))
        theirs, is_whole = [], True
        try:
            for event in yaml.parse(data, Loader=yaml.UnsafeLoader):
                theirs += [tag for tag in [getattr(event, "tag", None) or ""] if tag.startswith(PREFIX)]
        except yaml.YAMLError:
            is_whole = False
        ours = names(data)
        assert ours[: len(theirs)] == theirs, data
        assert not is_whole or ours == theirs, data
        seen += bool(theirs)
    assert seen > count // 40
