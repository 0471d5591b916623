"""A pytest plugin for SB3's own tests: SB3 loads with ``sbformat.sb3``, and saves statistics with our writer.

With ``SBFORMAT_WITHOUT_REPLACEMENT`` set, it changes nothing: what fails then is not our fault.
"""

from __future__ import annotations

import os
from contextlib import ExitStack
from typing import Any, Final

import pytest
from stable_baselines3.common.vec_env import VecNormalize

import sbformat
import sbformat.sb3

_STACK: Final = ExitStack()


def pytest_configure(config: pytest.Config) -> None:
    """Replace what SB3 loads and saves with."""
    if os.environ.get("SBFORMAT_WITHOUT_REPLACEMENT"):
        return
    _STACK.enter_context(sbformat.sb3.replace_loaders())
    patch = _STACK.enter_context(pytest.MonkeyPatch.context())
    save = VecNormalize.save

    def save_ours(self: Any, save_path: Any) -> None:
        save(self, save_path)
        value = sbformat.read_vecnormalize(save_path)
        sbformat.write_vecnormalize(value, save_path, overwrite=True)

    patch.setattr(VecNormalize, "save", save_ours)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Put back what was replaced."""
    _STACK.close()
