"""Environments of gymnasium: made from an id, with errors that say what is missing. The one module that imports it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sbformat.errors import UnsupportedError, escape

if TYPE_CHECKING:
    from collections.abc import Mapping

_HOW_TO_INSTALL = "pip install 'sbformat[gym]'"


def make_environment(env_id: str, arguments: Mapping[str, Any], max_steps: int | None) -> Any:
    """Make an environment.

    :param env_id: as ``gymnasium.make`` takes it: ``CartPole-v1``
    :param arguments: for its constructor
    :param max_steps: the time limit, instead of the registered one
    :raises UnsupportedError: when gymnasium is not installed, or does not make the environment
    """
    try:
        import gymnasium
    except ModuleNotFoundError:
        message = f"to run an environment, gymnasium is needed: {_HOW_TO_INSTALL}"
        raise UnsupportedError(message) from None
    limit = {} if max_steps is None else {"max_episode_steps": max_steps}
    try:
        return gymnasium.make(env_id, **limit, **arguments)
    except (gymnasium.error.Error, ImportError, TypeError, ValueError) as error:
        message = f"gymnasium cannot make the environment {escape(env_id)!r}: {escape(str(error), 500)}"
        raise UnsupportedError(message) from None
