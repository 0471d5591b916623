"""``sb3.load`` where Stable-Baselines3 or the package of an algorithm is not installed."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

import sbformat.sb3
from sbformat.errors import UnsupportedError
from tests.helpers.bundled import ARCHIVES

AGENT = ARCHIVES / "ppo-cartpole.zip"


@pytest.mark.parametrize("algorithm", ["PPO", "TQC", None])
def test_without_sb3_the_error_names_the_extra(algorithm: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    for package in ("stable_baselines3", "sb3_contrib"):
        monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(UnsupportedError, match=r'pip install "sbformat\[sb3\]"'):
        sbformat.sb3.load(algorithm, AGENT)


def test_without_sb3_contrib_the_error_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    sb3 = ModuleType("stable_baselines3")
    sb3.__version__ = "2.9.2"  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "stable_baselines3", sb3)
    monkeypatch.setitem(sys.modules, "sb3_contrib", None)
    with pytest.raises(UnsupportedError, match="has no TQC: pip install sb3-contrib"):
        sbformat.sb3.load("TQC", AGENT)
