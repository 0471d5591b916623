"""Classes that were renamed: the names in archives, and those in SB3 2 and current gymnasium and numpy.

Sources: SB3 0.6 to 2.0, sb3-contrib 0.10 to 2.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sbformat.globals.spaces import RENAMED_SPACES

if TYPE_CHECKING:
    from sbformat.globals.torch import Pair

_POLICIES: Final = "stable_baselines3.common.policies"
_LAYERS: Final = "stable_baselines3.common.torch_layers"

MOVED: Final[dict[Pair, Pair]] = {
    ("stable_baselines3.ppo.policies", "PPOPolicy"): (_POLICIES, "ActorCriticPolicy"),
    ("stable_baselines3.ppo.policies", "CnnPolicy"): (_POLICIES, "ActorCriticCnnPolicy"),
    **{
        (_POLICIES, name): (_LAYERS, name)  # 0.6
        for name in ("BaseFeaturesExtractor", "FlattenExtractor", "MlpExtractor", "NatureCNN")
    },
    ("numpy", "bool"): ("numpy", "bool_"),  # numpy 1.24 to 1.26 lack numpy.bool
    **RENAMED_SPACES,
}
"""The current name of each old one."""


def current_name(pair: Pair) -> Pair:
    """Return the current name of a class."""
    return MOVED.get(pair, pair)
