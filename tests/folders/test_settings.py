"""``config.yml`` and ``args.yml``: plain values from PyYAML's events, whatever the file contains."""

from __future__ import annotations

import random
import sys
from collections import OrderedDict
from pathlib import Path
from typing import Any

import pytest
import yaml

from sbformat.errors import DataError, LimitError, SbformatError, UnsupportedError
from sbformat.folders.settings import Opaque, make_loader, read_results, read_settings
from sbformat.limits import DEFAULT_LIMITS, Limits


def read(folder: Path, text: str | bytes) -> dict[str, Any]:
    path = folder / "config.yml"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return read_settings(str(path), DEFAULT_LIMITS)


SETTINGS: Any = OrderedDict(
    [
        ("batch_size", 64),
        ("clip_range", "lin_0.2"),
        ("env_wrapper", ["a.B", {"c.D": {"horizon": 3}}]),
        ("gae_lambda", 0.95),
        ("n_timesteps", 1000000.0),
        ("learning_rate", 3.0e-05),
        ("normalize", True),
        ("policy_kwargs", "dict(activation_fn=nn.ReLU)"),
        ("seed", None),
        ("shape", (1, 2)),
        ("text", "true"),
        ("number as text", "7"),
        ("inner", OrderedDict([("norm_obs", False)])),
    ]
)


def test_what_rl_zoo3_writes_is_read_as_pyyaml_reads_it(tmp_path: Path) -> None:
    found = read(tmp_path, yaml.dump(SETTINGS))
    assert found == {**SETTINGS, "shape": [1, 2], "inner": {"norm_obs": False}}
    assert list(found) == list(SETTINGS)


@pytest.mark.parametrize(
    "text",
    ["1", "-7", "+3", "1_000", "1.5", "1e-3", "1.0e-3", "-.5", ".", "0.", "yes", "No", "~", "null", "", "on", "'1'",
     '"true"', "text", "1.2.3", "a: b", "2020-01-01x"],
)  # fmt: skip
def test_a_scalar_is_what_pyyaml_makes_of_it(tmp_path: Path, text: str) -> None:
    assert read(tmp_path, f"key: {text}" if ":" not in text else f"key:\n  {text}") == yaml.safe_load(
        f"key: {text}" if ":" not in text else f"key:\n  {text}"
    )


def test_no_tag_is_looked_up(tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    text = (
        f"a: !!python/object/apply:os.mkdir [{marker}]\n"
        "b: !!python/name:os.system ''\n"
        "c: !!python/object/apply:collections.OrderedDict\n"
        f"  - - - x\n      - !!python/object/new:os.mkdir [{marker}]\n"
        "d: !mine 1\n"
    )
    found = read(tmp_path, text)
    assert not marker.exists()
    assert found == {
        "a": Opaque("tag:yaml.org,2002:python/object/apply:os.mkdir"),
        "b": Opaque("tag:yaml.org,2002:python/name:os.system"),
        "c": {"x": Opaque("tag:yaml.org,2002:python/object/new:os.mkdir")},
        "d": Opaque("!mine"),
    }


def test_aliases_do_not_multiply(tmp_path: Path) -> None:
    levels = [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 30)]
    found = read(tmp_path, "\n".join(["a0: &a0 lol", *levels]))
    assert found["a1"] == ["lol"] * 9
    assert found["a29"] == [Opaque("*a28")] * 9


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("a: " + "[" * 63 + "]" * 63, None),
        ("a: " + "[" * 64 + "]" * 64, LimitError),
        ("a: " + "[" * 50_000, SbformatError),
        (b"a: " + b"x" * (DEFAULT_LIMITS.settings_bytes - 3), None),
        (b"a: " + b"x" * (DEFAULT_LIMITS.settings_bytes - 2), LimitError),
        ("a: [1, 2", DataError),
        ("a: b: c", DataError),
        ("a: *nowhere\n", None),
        ("- a\n- b\n", DataError),
        ("", DataError),
        (b"\xff\xfe\x00", DataError),
        (b"a: \x00", DataError),
        ("a: 1\n---\nb: 2\n", None),
        ("? [a, b]\n: 1\n", None),
        ("a: " + "9" * 5000, None),
        ("%YAML 9.9\n---\na: 1", DataError),
    ],
)
def test_every_text_gives_a_dict_or_an_error(tmp_path: Path, text: str | bytes, error: type[Exception] | None) -> None:
    if error is None:
        assert isinstance(read(tmp_path, text), dict)
    else:
        with pytest.raises(error):
            read(tmp_path, text)


def test_the_limits_of_settings_can_be_changed(tmp_path: Path) -> None:
    (tmp_path / "config.yml").write_bytes(b"a: [1]")
    (tmp_path / "results.json").write_bytes(b'{"a":1}')
    path, results = str(tmp_path / "config.yml"), str(tmp_path / "results.json")
    assert read_settings(path, Limits(settings_bytes=6, json_depth=2)) == {"a": [1]}
    assert read_results(results, Limits(settings_bytes=7)) == {"a": 1}
    for limit, value in {"settings_bytes": 5, "json_depth": 1}.items():
        with pytest.raises(LimitError, match=limit):
            read_settings(path, Limits(**{limit: value}))
    with pytest.raises(LimitError, match="settings_bytes"):
        read_results(results, Limits(settings_bytes=6))


@pytest.mark.parametrize("pair", ["[]", "{}"])
def test_deep_settings_cost_what_flat_ones_do(pair: str) -> None:
    checked = 0

    class Counting(make_loader()):  # type: ignore[misc]
        def _is_stale(self, key: Any) -> bool:
            nonlocal checked
            checked += 1
            return bool(super()._is_stale(key))

    levels = 2_000
    events = list(yaml.parse(f"a: {pair[0] * levels}{pair[1] * levels}", Loader=Counting))
    assert len(events) > 2 * levels
    assert 2 * levels < checked < 20 * levels


def test_settings_of_any_depth_are_read_if_the_limit_allows_it(tmp_path: Path) -> None:
    path = tmp_path / "config.yml"
    path.write_text("a: " + "[" * 2_000 + "]" * 2_000)
    value = read_settings(str(path), Limits(json_depth=2_001))["a"]
    for _ in range(1_999):
        (value,) = value
    assert value == []
    with pytest.raises(LimitError, match="json_depth"):
        read_settings(str(path), Limits(json_depth=2_000))


def test_the_events_and_errors_are_those_of_pyyaml() -> None:
    def parse(text: str, loader: Any) -> list[str]:
        found = []
        try:
            for event in yaml.parse(text, Loader=loader):
                found.append(f"{event} {event.start_mark} {event.end_mark}")  # noqa: PERF401 -- those before an error
        except yaml.YAMLError as error:
            found.append(str(error))
        return found

    numbers = random.Random(0)  # noqa: S311
    parts = ["[", "]", "{", "}", ",", ": ", ":", "? ", "- ", "a", "b: ", "\n", "\n  ", "&x ", "*x ", "!t ", "'q'", "#c"]
    texts = ["".join(numbers.choices(parts, k=numbers.randrange(2, 40))) for _ in range(2_000)]
    for length in (1_019, 1_024, 1_025, 1_100):  # a key has at most 1,024 characters
        long = "k" * length
        texts += [f"{long}: 1", f"[{long}: 1]", f"[[{long}]: 1]", f"{{[{long}, a]: 1}}", f"a: 1\n{long}\nb: 2"]
    errors = set()
    for text in texts:
        found = parse(text, make_loader())
        assert found == parse(text, yaml.SafeLoader), text
        errors.add(found[-1])
    assert any("could not find expected ':'" in error for error in errors)
    assert "StreamEndEvent" in str(errors)


def test_without_pyyaml_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(UnsupportedError, match=r'pip install "sbformat\[yaml\]"'):
        read(tmp_path, "a: 1")
