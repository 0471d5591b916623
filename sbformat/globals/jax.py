"""Names in the archives of SBX (Stable Baselines Jax): arrays of jax, states of flax and optax (FORMAT.md 21).

Sources: jax ``_src/array.py`` (before 0.4 ``_src/device_array.py``), flax ``core/frozen_dict.py`` and
``training/train_state.py``, optax ``_src/base.py``, ``_src/transform.py``, ``schedules/_inject.py``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from sbformat.globals.torch import Pair

ARRAYS: Final[frozenset[Pair]] = frozenset(
    {("jax._src.array", "_reconstruct_array"), ("jax._src.device_array", "_reconstruct_device_array")}
)
"""The functions that jax pickles an array as a call of."""

FROZEN_DICTS: Final[frozenset[Pair]] = frozenset({("flax.core.frozen_dict", "FrozenDict")})
"""The class of flax's parameters before 0.7.1, and of those that a user froze."""

_ADAM: Final = ("count", "mu", "nu")

NAMED_TUPLES: Final[dict[Pair, tuple[str, ...]]] = {
    ("optax._src.base", "EmptyState"): (),
    ("optax._src.base", "GradientTransformation"): ("init", "update"),
    ("optax._src.base", "GradientTransformationExtraArgs"): ("init", "update"),
    ("optax._src.transform", "EmptyState"): (),
    ("optax._src.transform", "ScaleByAdamState"): _ADAM,
    ("optax._src.transform", "ScaleByAmsgradState"): ("count", "mu", "nu", "nu_max"),
    ("optax._src.transform", "ScaleByAdaDeltaState"): ("e_g", "e_x"),
    ("optax._src.transform", "ScaleByAdanState"): ("m", "v", "n", "g", "t"),
    ("optax._src.transform", "ScaleByBeliefState"): _ADAM,
    ("optax._src.transform", "ScaleByNovogradState"): _ADAM,
    ("optax._src.transform", "ScaleByLionState"): ("count", "mu"),
    ("optax._src.transform", "ScaleByRmsState"): ("nu",),
    ("optax._src.transform", "ScaleByRmsWithCountState"): ("count", "nu"),
    ("optax._src.transform", "ScaleByRssState"): ("sum_of_squares",),
    ("optax._src.transform", "ScaleByRStdDevState"): ("mu", "nu"),
    ("optax._src.transform", "ScaleByRStdDevWithCountState"): _ADAM,
    ("optax._src.transform", "ScaleByScheduleState"): ("count",),
    ("optax._src.transform", "TraceState"): ("trace",),
    ("optax._src.wrappers", "MaskedState"): ("inner_state",),
    ("optax.transforms._masking", "MaskedState"): ("inner_state",),
    ("optax.transforms._masking", "MaskedNode"): (),
    ("optax.transforms._accumulation", "EmaState"): ("count", "ema"),
    ("optax.transforms._accumulation", "TraceState"): ("trace",),
    ("optax._src.schedule", "InjectHyperparamsState"): ("count", "hyperparams", "inner_state"),
    ("optax._src.schedule", "InjectStatefulHyperparamsState"): (
        "count", "hyperparams", "hyperparams_states", "inner_state",
    ),
    ("optax.schedules._inject", "InjectHyperparamsState"): ("count", "hyperparams", "inner_state"),
    ("optax.schedules._inject", "InjectStatefulHyperparamsState"): (
        "count", "hyperparams", "hyperparams_states", "inner_state",
    ),
}  # fmt: skip
"""Named tuples of optax, with their fields."""

TRAIN_STATE: Final = "TrainState"
"""What the name of a class that holds parameters and the state of their optimizer ends with."""
