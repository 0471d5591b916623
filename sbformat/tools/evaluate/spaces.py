"""Spaces of environments: whether they fit those of a policy, what wrappers make of them, and their observations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from sbformat.errors import UnsupportedError, ValidationError, escape
from sbformat.known.spaces import Box, DictSpace, Discrete, MultiDiscrete
from sbformat.pkl.numpy import ArrayInfo
from sbformat.values.render import render_line

if TYPE_CHECKING:
    from sbformat.formats.vecnormalize import VecNormalize
    from sbformat.known.spaces import Space


def require_fit(policy: Space, environment: Space, what: Literal["observation", "action"]) -> None:
    """Check that a policy fits an environment: shapes and numbers of choices, and the bounds of actions.

    The bounds of observations may differ, as they do between releases of an environment; images may have their
    channels first or last, since a policy transposes them.

    :raises ValidationError: when they do not fit, with both
    """
    if not _fits(policy, environment, is_action=what == "action"):
        message = (
            f"the {what} space of the environment does not fit the policy: expected {render_line(policy)}, got "
            f"{render_line(environment)}"
        )
        raise ValidationError(message)


def _fits(policy: Any, environment: Any, *, is_action: bool) -> bool:
    if policy.class_name != environment.class_name:
        return False
    if isinstance(policy, DictSpace):
        return policy.spaces.keys() == environment.spaces.keys() and all(
            _fits(space, environment.spaces[key], is_action=is_action) for key, space in policy.spaces.items()
        )
    if isinstance(policy, Discrete):
        return policy.n == environment.n and (not is_action or (policy.start or 0) == (environment.start or 0))
    if isinstance(policy, MultiDiscrete):
        return np.array_equal(policy.nvec, environment.nvec)
    if isinstance(policy, Box) and is_action:
        bounds = ((policy.low, environment.low), (policy.high, environment.high))
        return policy.shape == environment.shape and all(np.allclose(ours, theirs) for ours, theirs in bounds)
    if policy.shape == environment.shape:
        return True
    return is_image(environment) and policy.shape == (environment.shape[-1], *environment.shape[:-1])


def is_image(space: Space) -> bool:
    """Return whether SB3 treats a space as one of images (``common/preprocessing.py``, ``is_image_space``)."""
    return (
        isinstance(space, Box)
        and len(space.shape) == 3
        and np.dtype(space.dtype) == np.uint8
        and bool((np.asarray(space.low) == 0).all() and (np.asarray(space.high) == 255).all())
    )


def stack_space(space: Space, frames: int, axis: int) -> Box:
    """Return the space of several observations along an axis.

    :raises UnsupportedError: for a space that is not a Box
    """
    if not isinstance(space, Box) or not space.shape:
        message = f"frames of a Box can be stacked, or of a Dict of them, got {render_line(space)}"
        raise UnsupportedError(message)
    low, high = (np.concatenate([np.asarray(bound)] * frames, axis) for bound in (space.low, space.high))
    return _make_box(space, low, high)


def normalize_space(space: Space, statistics: VecNormalize) -> Space:
    """Return the space of normalized observations: SB3 gives images another one, and no others.

    Source: SB3 ``common/vec_env/vec_normalize.py``, ``VecNormalize.__init__``.
    """
    if isinstance(space, DictSpace):
        keys = statistics.norm_obs_keys or ()
        parts = {key: normalize_space(part, statistics) if key in keys else part for key, part in space.spaces.items()}
        return DictSpace(space.library, parts, None)
    if not isinstance(space, Box) or not is_image(space):
        return space
    bound = np.full(space.shape, statistics.clip_obs, np.float32)
    return _make_box(space, -bound, bound)


def _make_box(like: Box, low: np.ndarray, high: np.ndarray) -> Box:
    below, above = (ArrayInfo(bound.dtype.str, bound.shape, "C", bound.tobytes(), False) for bound in (low, high))
    return Box(like.library, low.shape, below.dtype, below, above, None)


def convert_observation(observation: Any, space: Any) -> Any:
    """Return an observation with the shape and dtype of its space: SB3 copies it into a buffer that has them.

    >>> convert_observation([0.7, 3.2], space)  # of uint8
    array([0, 3], dtype=uint8)

    Source: SB3 ``common/vec_env/dummy_vec_env.py``, ``DummyVecEnv._save_obs``.

    :return: an array, or a dict of them for a Dict space
    :raises ValidationError: when its shape or keys are others
    """
    try:
        if isinstance(space, DictSpace):
            return {key: convert_observation(observation[key], part) for key, part in space.spaces.items()}
        shape = np.shape(space.nvec) if isinstance(space, MultiDiscrete) else getattr(space, "shape", ())
        buffer = np.zeros((1, *shape), space.dtype)
        buffer[0] = observation
    except ValidationError:  # of a part
        raise
    except (KeyError, IndexError, TypeError, ValueError) as error:
        message = f"an observation of the environment does not fit its space {render_line(space)}: {escape(str(error))}"
        raise ValidationError(message) from None
    return buffer[0]
