"""An archive with a value in ``data`` that is larger than the limits allow: everything else of it can be used."""

from __future__ import annotations

import json
import pickle
import re
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest

import sbformat
from sbformat import LargeValue, LimitError, Limits
from sbformat.cli import main
from tests.helpers import bundled
from tests.helpers.attacks import NONE, POP, SYSTEM, name, octets, serialized, text
from tests.helpers.attacks import pickle as whole_pickle
from tests.helpers.bundled import PPO

if TYPE_CHECKING:
    from pathlib import Path

LIMITS: Final = Limits(blob_bytes=100_000)
OPTION: Final = ("--limit", "blob_bytes=100000")


@pytest.fixture(scope="module")
def huge(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An agent with frames of 1.6 MB, and a list, under keys of its owner."""
    path = tmp_path_factory.mktemp("huge") / "huge.zip"
    data = dict(sbformat.read(PPO).data)
    frames = sbformat.Serialized("<class 'numpy.ndarray'>", pickle.dumps(np.zeros((100, 64, 64, 4), np.uint8), 4))
    data = {"policy_class": data.pop("policy_class"), "my_frames": frames, **data, "my_list": [1, 2, 3]}
    sbformat.write(sbformat.read(PPO).replace(data=data), path)
    return path


def run(capsys: pytest.CaptureFixture[str], *args: object) -> tuple[int, str]:
    status = main([*map(str, args), *OPTION])
    return status, capsys.readouterr().out


def test_every_other_value_and_the_policy_are_read(huge: Path) -> None:
    archive = sbformat.read(huge, limits=LIMITS)
    assert isinstance(archive.data["my_frames"], LargeValue)
    assert {key: value for key, value in archive.data.items() if key not in ("my_frames", "my_list")} == dict(
        sbformat.read(PPO).data
    )
    observation = np.array([0.1, 0.2, 0.3, 0.4])
    expected = sbformat.load_policy(PPO).predict(observation, deterministic=True)
    assert sbformat.load_policy(archive).predict(observation, deterministic=True) == expected
    with pytest.raises(LimitError, match=r"Limits\(blob_bytes="):
        archive.decode("my_frames")


def test_it_is_copied_and_dropped_without_being_decoded(huge: Path, tmp_path: Path) -> None:
    archive = sbformat.read(huge, limits=LIMITS)
    edited = archive.replace(data={**archive.data, "gamma": 0.5}).replace(data={**archive.data, "gamma": 0.9})
    again = edited.replace(data={**edited.data, "seed": 7})
    sbformat.write(again, tmp_path / "edited.zip", reencode=True)
    whole, old = sbformat.read(tmp_path / "edited.zip"), sbformat.read(huge)
    assert whole.data == {**old.data, "gamma": 0.9, "seed": 7}
    assert list(whole.data) == list(old.data)
    without = {key: value for key, value in archive.data.items() if not isinstance(value, LargeValue)}
    assert "my_frames" not in sbformat.reads(sbformat.writes(archive.replace(data=without))).data


def test_commands_say_what_was_left_out(huge: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, text = run(capsys, "inspect", huge, "--long")
    assert status == 1
    assert re.search(r"\n  keys of data that are left out, .*\n    my_frames .* --limit blob_bytes=", text)
    largest = text.index("largest keys of data")
    assert largest < text.index("my_frames", largest) < text.index("hyper-parameters (data)")
    status, text = run(capsys, "inspect", huge, "--format", "json")
    shown = json.loads(text)["files"][0]["data"]["my_frames"]["serialized"]
    assert (status, shown["how"], shown["type"]) == (1, "left out", "<class 'numpy.ndarray'>")
    assert "pass --limit blob_bytes=" in shown["why"]
    status, text = run(capsys, "validate", huge)
    assert (status, "'my_frames' is left out" in text) == (0, True)
    assert run(capsys, "edit", huge, "-o", tmp_path / "small.zip", "--unset", "my_frames")[0] == 0
    assert (tmp_path / "small.zip").stat().st_size < 200_000
    status, text = run(capsys, "diff", huge, tmp_path / "small.zip")
    assert (status, "was a large value of" in text) == (1, True)
    status, text = run(capsys, "rebuild", huge, "-o", tmp_path / "new.zip")
    assert (status, "'my_frames' is left out" in text) == (0, True)
    assert run(capsys, "diff", huge, huge)[0] == 0
    assert run(capsys, "report", huge, "-o", tmp_path / "page.html")[0] == 0
    assert "left out" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_the_pickle_of_a_large_value_is_listed_with_the_limits_that_the_error_names(
    huge: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["inspect", str(huge), "--blobs", "my_frames", *OPTION]) == 2
    out, err = capsys.readouterr()
    hint = err.partition("\n  hint: if you trust the size, pass ")[2].split()
    assert (out, hint[0], "limits=Limits(" in err) == ("", "--limit", False)
    assert main(["inspect", str(huge), "--blobs", "my_frames", *hint]) == 0
    assert "numpy" in capsys.readouterr().out


def test_the_error_of_a_large_value_names_what_is_allowed_and_needed(huge: Path) -> None:
    value = sbformat.read(huge, limits=LIMITS).data["my_frames"]
    assert isinstance(value, LargeValue)
    for one in (value, pickle.loads(pickle.dumps(value))):
        assert one.error.allowed == getattr(LIMITS, one.error.limit) < one.error.actual


def test_a_space_that_is_left_out_is_named(huge: Path) -> None:
    with pytest.raises(sbformat.SbformatError, match="observation_space"):
        sbformat.load_policy(huge, limits=Limits(blob_bytes=100))


def _scan(path: Path, **limits: int) -> Any:
    return sbformat.scan(path, limits=Limits(**limits))


def test_the_pickle_of_a_large_value_is_examined(huge: Path, tmp_path: Path) -> None:
    assert _scan(huge, blob_bytes=100_000).verdict == "clean"
    assert _scan(huge, blob_bytes=100_000, pickle_bytes=500_000).verdict == "clean"
    payload = whole_pickle(octets(bytes(200_000)) + POP + SYSTEM)
    made = bundled.with_data(lambda data: data.update(x=serialized(payload)))
    for limits in ({"blob_bytes": 100_000}, {"blob_bytes": 100_000, "pickle_bytes": 90_000}, {"json_bytes": 100_000}):
        report = sbformat.scan(made, limits=Limits(**limits))
        assert report.verdict == "dangerous", limits


FILLER: Final = octets(bytes(200_000)) + POP
"""Makes a pickle large without a trace in its value."""


@pytest.mark.parametrize(
    ("key", "fragment", "hints"),
    [
        ("tensorboard_log", text("hdfs://example.org/logs"), {}),
        ("predict", name("stable_baselines3.common.policies", "ActorCriticPolicy"), {}),
        ("x", NONE, {"hint": serialized(whole_pickle(SYSTEM))}),
        ("x", SYSTEM, {}),
        ("x", NONE, {}),
    ],
)
def test_what_a_key_and_hints_mean_counts_for_a_large_value_too(
    key: str, fragment: bytes, hints: dict[str, Any]
) -> None:
    small, large = (
        sbformat.scan(
            bundled.with_data(lambda data: data.update({key: {**serialized(whole_pickle(pushed)), **hints}})),  # noqa: B023
            limits=LIMITS,
        )
        for pushed in (octets(bytes(20)) + POP + fragment, FILLER + fragment)
    )
    assert {row.rule for row in small.findings} <= {row.rule for row in large.findings}
    assert small.verdict == large.verdict


def test_a_file_whose_large_value_cannot_be_opened_does_not_hide_the_next(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    late = {":type:": "x" * 2000, ":serialized:": "A" * 200_000}
    (tmp_path / "a.zip").write_bytes(bundled.with_data(lambda data: data.update(x=late)))
    (tmp_path / "b.zip").write_bytes(bundled.with_data(lambda data: data.update(x=serialized(whole_pickle(SYSTEM)))))
    status, shown = run(capsys, "scan", tmp_path)
    assert (status, "b.zip: dangerous" in shown, "a.zip: broken" in shown) == (1, True, True)
    for command in ("inspect", "validate"):
        assert "a.zip" in run(capsys, command, tmp_path / "a.zip")[1]


def test_a_key_that_the_algorithm_needs_is_not_replaced_by_a_default() -> None:
    for key in ("policy_class", "n_envs", "gamma", "_last_obs"):
        made = bundled.with_data(lambda data: data.update({key: list(range(20_000))}))  # noqa: B023
        with pytest.raises(LimitError, match=f"'{key}' is left out"):
            sbformat.rebuild(made, limits=Limits(json_bytes=50_000))
    with pytest.raises(LimitError, match="'gamma' is left out"):
        sbformat.edit(
            bundled.with_data(lambda data: data.update(gamma=list(range(20_000)))),
            assign={"/gamma/0": 1},
            limits=Limits(json_bytes=50_000),
        )


@pytest.mark.parametrize("base64", ["A" * 199_999, "A" * 199_998 + "!!", "gAWVBAAAAAAAAAA=" * 20_000])
def test_what_cannot_be_examined_is_not_clean(base64: str) -> None:
    made = bundled.with_data(lambda data: data.update(x={":type:": "<class 'x'>", ":serialized:": base64}))
    assert sbformat.scan(made, limits=Limits(blob_bytes=100_000)).verdict != "clean"


def test_a_second_pickle_in_the_same_object_is_not_passed_over() -> None:
    plain = json.loads(bundled.entries()["data"])
    value = f'{{":type:": "", ":serialized:": "{"gAROLg=="[:6]}==", ":serialized:": "{"A" * 200_000}"}}'
    raw = json.dumps({**plain, "x": None}).replace('"x": null', f'"x": {value}').encode()
    report = sbformat.scan(bundled.changed(data=raw), limits=Limits(blob_bytes=100_000))
    assert report.verdict != "clean"
