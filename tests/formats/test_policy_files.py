"""Files of ``policy.save()``, JSON that is not ``data``, and names of files of statistics."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path

import numpy as np
import pytest

import sbformat
from conformance.generators.build_pth import legacy_stream
from conformance.generators.build_zips import torch_zip
from sbformat import pkl
from sbformat.cli import main
from sbformat.constants import WHOLE_FILES
from tests.helpers.bundled import ARCHIVES
from tests.helpers.shared_files import GENERATED

SAC = ARCHIVES / "sac-pendulum.zip"
POLICIES = sorted(GENERATED.glob("*/policy-*.pth"))

needs_samples = pytest.mark.skipif(not POLICIES, reason="needs ../shared")


@needs_samples
@pytest.mark.parametrize("path", POLICIES, ids=lambda path: path.parent.name)
def test_a_policy_file_is_weights_and_arguments(path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    archive = sbformat.read(path)
    assert (archive.format, archive.contents, archive.algorithm.name) == ("policy-file", ("data", "policy.pth"), None)
    weights = sbformat.read_parameters(path)["policy"]
    assert weights["action_net.weight"].shape == (2, 8)
    assert archive.data["net_arch"] == [8]
    assert archive.decode("observation_space").shape == (3,)
    assert str(archive.decode("activation_fn")).endswith("Tanh")
    with sbformat.safe_open(path) as opened:
        assert opened.keys() == list(weights)
    assert sbformat.validate(path) == ()
    assert sbformat.scan(path).verdict == "clean"
    assert main(["inspect", str(path)]) == 0
    assert "file of policy.save()" in capsys.readouterr().out
    out = tmp_path / "weights.npz"
    assert main(["extract", str(path), "-o", str(out)]) == 0
    assert set(np.load(out).files) == set(weights)
    assert main(["convert", str(path), "-o", str(tmp_path / "policy.pth")]) == 0
    again = sbformat.read_parameters(tmp_path / "policy.pth")["policy"]
    assert all(np.array_equal(again[name], weights[name]) for name in weights)
    with pytest.raises(sbformat.UnsupportedError):
        sbformat.write(archive, tmp_path / "out.zip")


@needs_samples
@pytest.mark.parametrize("path", POLICIES, ids=lambda path: path.parent.name)
def test_a_policy_file_runs_and_its_class_is_reported_as_inferred(path: Path) -> None:
    policy = sbformat.load_policy(path)
    assert policy.predict(np.zeros(3, np.float32), deterministic=True)[0].shape == policy.action_space.shape
    (sentence,) = policy.inferred
    assert sentence.startswith("the policy is ActorCriticPolicy")
    assert sbformat.load_policy(path, policy_class="ActorCriticPolicy").inferred == ()


def policy_file(root: object) -> bytes:
    return torch_zip({"data.pkl": pkl.dumps(pkl.Dict(root), protocol=2), "version": b"3\n"})  # type: ignore[arg-type]


def test_the_legacy_stream_of_one() -> None:
    spaces = {"observation_space": None, "action_space": None}
    archive = sbformat.reads(legacy_stream({"state_dict": {"a": 1}, "data": spaces}))
    assert (archive.format, archive.data) == ("policy-file", spaces)
    assert sbformat.reads(legacy_stream({"state_dict": {"a": 1}})).format == "torch-legacy"


def test_other_dicts_of_that_shape_are_not() -> None:
    spaces = [("observation_space", None), ("action_space", None)]
    whole = [("state_dict", pkl.Dict([("a", 1)])), ("data", pkl.Dict(spaces))]
    assert sbformat.reads(policy_file(whole)).format == "policy-file"
    assert sbformat.reads(policy_file(whole[::-1])).format == "policy-file"
    for root in (
        whole[:1],
        [*whole, ("more", 1)],
        [whole[0], ("data", pkl.Dict(spaces[:1]))],
        [whole[0], ("data", None)],
        [whole[0], whole[0], whole[1]],
    ):
        assert sbformat.reads(policy_file(root)).format == "torch-zip"


def test_extract_writes_no_file_without_a_state_dict(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    template = sbformat.read(SAC)
    path = tmp_path / "data-only.zip"
    sbformat.write(template.replace(parameters=dict.fromkeys(template.parameters), pytorch_variables=None), path)
    assert main(["extract", str(path), "-o", str(tmp_path / "x.npz"), "--entry", "all"]) == 2
    capsys.readouterr()


# -- JSON ---------------------------------------------------------------------------------------------


def test_json_of_another_kind_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    path.write_text(json.dumps({"mean_reward": 1.0, "policy": "MlpPolicy"}))
    with pytest.raises(sbformat.UnsupportedError, match="expected data of an archive"):
        sbformat.read(path)
    for key in ("policy_class", "observation_space", "action_space"):
        assert sbformat.reads(json.dumps({key: None}).encode()).format == "data-json"
    assert sbformat.reads(b'{"policy\\u005fclass": 1}').data == {"policy_class": 1}
    for other in (b'{"x": {"policy_class": 1}}', b'{"x": "\\"policy_class\\""}', b"{}"):
        with pytest.raises(sbformat.UnsupportedError, match="expected data of an archive"):
            sbformat.reads(other)


def test_large_values_hide_no_key_of_json() -> None:
    data = b'{"x": [' + b"1," * 1000 + b'1], "policy_class": 1}'
    assert sbformat.reads(data, limits=sbformat.Limits(json_nodes=100)).data["policy_class"] == 1


def test_json_is_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed = []
    parse = json.JSONDecoder.decode
    monkeypatch.setattr(json.JSONDecoder, "decode", lambda *args: parsed.append(1) or parse(*args))
    assert sbformat.reads(b'{"observation_space": [1]}').data["observation_space"] == [1]
    broken = sbformat.reads(b'{"observation_space": [1}')
    for _ in range(2):
        with pytest.raises(sbformat.DataError):
            _ = broken.data
    assert len(parsed) == 2


# -- statistics ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", WHOLE_FILES)
def test_both_names_of_the_file_of_statistics(name: str, tmp_path: Path) -> None:
    content = (ARCHIVES / "vecnormalize-pendulum.pkl").read_bytes()
    (tmp_path / name).write_bytes(content)
    expected = sbformat.read_vecnormalize(io.BytesIO(content))
    assert np.array_equal(sbformat.read_vecnormalize(tmp_path).obs_rms.mean, expected.obs_rms.mean)
    assert main(["rebuild", str(tmp_path), "-o", str(tmp_path / "out.pkl")]) == 0


@needs_samples
@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (b"action_net.weight", b"action_net.weighs", "'action_net.weight' is missing"),
        (b"net_arch", b"net_arcs", "no policy of SB3 with these arguments fits"),
        (b"K\x08", b"K\x09", "expected the shape"),
    ],
)
def test_a_policy_file_of_another_network_is_not_checked(old: bytes, new: bytes, said: str) -> None:
    with zipfile.ZipFile(POLICIES[-1]) as file:
        records = {name.partition("/")[2]: file.read(name) for name in file.namelist()}
    before, pickle = records["data.pkl"].split(b"net_arch") if old == b"K\x08" else (records["data.pkl"], b"")
    changed = before + b"net_arch" + pickle.replace(old, new, 1) if pickle else before.replace(old, new)
    assert changed != records["data.pkl"]
    problems = sbformat.validate(torch_zip({**records, "data.pkl": changed}))
    (problem,) = (row for row in problems if row.kind != "unknown-key")
    assert (problem.entry, problem.kind, problem.level) == ("policy.pth", "unchecked", "info")
    assert said in problem.message
