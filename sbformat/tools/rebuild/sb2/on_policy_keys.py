"""The hyper-parameters of SB2's on-policy algorithms under SB3's names, with the same meaning."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sbformat.tools.rebuild.sb2.interface import Keys, Sb2Agent


def convert_ppo2_keys(agent: Sb2Agent, keys: Keys) -> None:  # noqa: ARG001
    """Convert the hyper-parameters of PPO2 to PPO's."""
    keys.rename("n_steps")
    keys.rename("learning_rate")
    keys.rename("ent_coef")
    keys.rename("max_grad_norm")
    keys.rename("lam", "gae_lambda")
    keys.rename("noptepochs", "n_epochs")
    keys.rename("cliprange", "clip_range")
