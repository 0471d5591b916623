"""Classes that have another name in SB3 2: as they are found in archives, and where they are now.

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
    ("numpy", "bool"): ("numpy", "bool_"),  # numpy 1.24 to 1.26 have no numpy.bool
    **RENAMED_SPACES,
}
"""Old name to new."""


def of_today(pair: Pair) -> Pair:
    """Return the name that a class has now."""
    return MOVED.get(pair, pair)
