"""``rebuild_policy``: files of ``policy.save()`` of every release, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import sbformat
from conformance.generators.build_pth import legacy_stream
from sbformat.cli import main
from tests.helpers.bundled import ARCHIVES, PPO
from tests.helpers.shared_files import GENERATED

POLICY = ARCHIVES / "policy-box.pth"
FILES = [POLICY, *sorted(GENERATED.glob("*/policy-*.pth"))]
OBSERVATIONS = np.random.default_rng(0).standard_normal((6, 3)).astype(np.float32)


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_it_acts_as_before_and_is_clean(path: Path) -> None:
    content, report = sbformat.rebuild_policy(path)
    before, now = (sbformat.load_policy(source).outputs(OBSERVATIONS) for source in (path, content))
    assert all(np.array_equal(before[name], now[name]) for name in before)
    assert sbformat.scan(content).verdict == "clean"
    assert sbformat.validate(content) == ()
    assert report.algorithm == "stable_baselines3.common.policies.ActorCriticPolicy"
    assert {row.key for row in report.rows if row.key} == set(sbformat.read(path).data)
    assert sbformat.reads(content).decode("observation_space").library == "gymnasium"
    assert sbformat.rebuild_policy(content).content == content


def test_the_command_writes_a_pth(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "new.pth"
    assert main(["rebuild", str(POLICY), "-o", str(out)]) == 0
    assert "ActorCriticPolicy" in capsys.readouterr().out
    assert out.read_bytes() == sbformat.rebuild_policy(POLICY).content
    assert main(["rebuild", str(POLICY), "-o", str(tmp_path / "new.zip")]) == 2
    error = capsys.readouterr().err
    assert f"-o {tmp_path / 'new.pth'}" in error
    assert "rebuild_policy" not in error
    assert main(["rebuild", str(PPO), "-o", str(tmp_path / "other.pth")]) == 2
    assert "expected a file of policy.save()" in capsys.readouterr().err
    assert main(["rebuild", str(POLICY), "-o", str(tmp_path / "set.pth"), "--set", "gamma=0.9"]) == 2
    assert "applies to archives only" in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new.pth"]


def test_a_policy_that_is_not_known_is_refused() -> None:
    spaces = {"observation_space": None, "action_space": None}
    with pytest.raises(sbformat.SbformatError):
        sbformat.rebuild_policy(legacy_stream({"state_dict": {"a": 1}, "data": spaces}))
