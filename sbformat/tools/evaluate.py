"""``evaluate``: episodes of an agent in an environment of gymnasium, counted as ``evaluate_policy`` of SB3 does.

In: a policy or an archive, and an environment. Out: an :class:`EvaluationReport`; torch is not needed. One environment,
episode after episode. Observations go through the wrappers that the agent was trained with: stacked frames here;
normalization and the transposing of images are part of the policy. rl-zoo normalizes frames before it stacks them, so
that statistics of a single frame are applied here. Rewards are those of the environment, not normalized ones (SB3
``common/evaluation.py``, behind a ``Monitor``).
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import numpy as np

from sbformat.errors import UnsupportedError, ValidationError, escape, need_extra, require_type
from sbformat.formats.vecnormalize.values import find_mismatches
from sbformat.formats.vecnormalize.values import require_fit as require_statistics_fit
from sbformat.immutable import Record
from sbformat.known.spaces import Box, DictSpace, convert_space
from sbformat.limits import DEFAULT_LIMITS, Limits
from sbformat.pkl.numpy import ArrayInfo
from sbformat.policies.loading import load_policy, read_statistics, resolve_folder
from sbformat.policies.run.policy import Policy
from sbformat.reader import read
from sbformat.rendering import count_noun
from sbformat.values.render import render_line

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sbformat.formats.vecnormalize import VecNormalize
    from sbformat.known.spaces import Space
    from sbformat.reader import ArchiveLike


def _make_environment(env_id: str, arguments: Mapping[str, Any], max_steps: int | None) -> Any:
    """Return an environment of gymnasium, with a time limit instead of the registered one."""
    try:
        import gymnasium
    except ModuleNotFoundError:
        raise need_extra("to run an environment, gymnasium is needed", "gym") from None
    limit = {} if max_steps is None else {"max_episode_steps": max_steps}
    try:
        return gymnasium.make(env_id, **limit, **arguments)
    except (gymnasium.error.Error, ImportError, TypeError, ValueError) as error:
        message = f"gymnasium cannot make the environment {escape(env_id)!r}: {escape(str(error), 500)}"
        raise UnsupportedError(message) from None


ChannelsOrder: TypeAlias = Literal["first", "last"]


class FrameStack:
    """The last observations of an environment along one axis, the newest last; zeros before the first.

    :param order: the axis of the channels; by default that of the smallest size for images, the last one for others

    Example::

        stack = FrameStack(space, 4)
        observation = stack.reset(first_observation)
        observation = stack.add(next_observation)
    """

    def __init__(self, space: Space, frames: int, order: ChannelsOrder | None = None) -> None:
        self._parts: dict[str, FrameStack] = {}
        self.space: Space
        if space.has_keys:
            self._parts = {key: FrameStack(part, frames, order) for key, part in space.parts().items()}
            self.space = DictSpace(space.library, {key: part.space for key, part in self._parts.items()}, None)
            return
        channels_first = order == "first" or (order is None and space.is_image() and space.shape[0] == min(space.shape))
        self._axis = 0 if channels_first else -1
        if not space.bounds or not space.shape:
            raise UnsupportedError(f"frames of a Box can be stacked, or of a Dict of them, got {render_line(space)}")
        low, high = (np.concatenate([np.asarray(bound)] * frames, self._axis) for bound in space.bounds)
        self.space = _make_box(space, low, high)
        self._stacked = np.zeros(self.space.shape, self.space.dtype)

    def reset(self, observation: Any) -> Any:
        """Return the stack at the start of an episode: zeros, and the observation."""
        if self._parts:
            return {key: part.reset(observation[key]) for key, part in self._parts.items()}
        self._stacked = np.zeros_like(self._stacked)
        return self.add(observation)

    def add(self, observation: Any) -> Any:
        """Return the stack after a step."""
        if self._parts:
            return {key: part.add(observation[key]) for key, part in self._parts.items()}
        newest = np.asarray(observation, self._stacked.dtype)
        _, older = np.split(self._stacked, [newest.shape[self._axis]], self._axis)
        self._stacked = np.concatenate((older, newest), self._axis)
        return self._stacked


def require_fit(policy: Space, environment: Space, what: Literal["observation", "action"]) -> None:
    """Check that a policy fits an environment: shapes and numbers of choices, and the bounds of actions.

    The bounds of observations may differ, as they do between releases of an environment; images may have their
    channels first or last, since a policy transposes them.
    """
    if not _fits(policy, environment, is_action=what == "action"):
        raise ValidationError(
            f"the {what} space of the environment does not fit the policy: expected {render_line(policy)}, got "
            f"{render_line(environment)}"
        )


def _fits(policy: Any, environment: Any, *, is_action: bool) -> bool:
    if policy.class_name != environment.class_name:
        return False
    if policy.has_keys:
        ours, theirs = policy.parts(), environment.parts()
        return ours.keys() == theirs.keys() and all(
            _fits(part, theirs[key], is_action=is_action) for key, part in ours.items()
        )
    if policy.observed == "one-hot":
        is_same = policy.shape == environment.shape and policy.choices() == environment.choices()
        return bool(is_same) and (not is_action or policy.shape != () or bool(policy.start == environment.start))
    if policy.bounds and is_action:
        bounds = zip(policy.bounds, environment.bounds)
        return policy.shape == environment.shape and all(np.allclose(ours, theirs) for ours, theirs in bounds)
    if policy.shape == environment.shape:
        return True
    return bool(environment.is_image() and policy.shape == (environment.shape[-1], *environment.shape[:-1]))


def normalize_space(space: Space, statistics: VecNormalize) -> Space:
    """Return the space of normalized observations: SB3 gives images another one, and no others.

    Source: SB3 ``common/vec_env/vec_normalize.py``, ``VecNormalize.__init__``.
    """
    if space.has_keys:
        keys = statistics.norm_obs_keys or ()
        parts = {key: normalize_space(part, statistics) if key in keys else part for key, part in space.parts().items()}
        return DictSpace(space.library, parts, None)
    if not space.is_image():
        return space
    bound = np.full(space.shape, statistics.clip_obs, np.float32)
    return _make_box(space, -bound, bound)


def _make_box(like: Space, low: np.ndarray, high: np.ndarray) -> Box:
    below, above = (ArrayInfo(bound.dtype.str, bound.shape, "C", bound.tobytes(), False) for bound in (low, high))
    return Box(like.library, low.shape, below.dtype, below, above, None)


def convert_observation(observation: Any, space: Space) -> Any:
    """Return an observation with the shape and dtype of its space: SB3 copies it into a buffer that has them.

    >>> convert_observation([0.7, 3.2], space)  # of uint8
    array([0, 3], dtype=uint8)

    Source: SB3 ``common/vec_env/dummy_vec_env.py``, ``DummyVecEnv._save_obs``.
    """
    try:
        if space.has_keys:
            return {key: convert_observation(observation[key], part) for key, part in space.parts().items()}
        buffer = np.zeros((1, *(space.shape or ())), space.dtype)
        buffer[0] = observation
    except ValidationError:  # of a part
        raise
    except (KeyError, IndexError, TypeError, ValueError) as error:
        message = f"an observation of the environment does not fit its space {render_line(space)}: {escape(str(error))}"
        raise ValidationError(message) from None
    return buffer[0]


class EvaluationReport(Record):
    """How an agent did."""

    rewards: tuple[float, ...]
    """The sum of each episode's rewards."""
    lengths: tuple[int, ...]
    """The steps of each episode."""
    deterministic: bool
    seed: int | None
    uses_action_masks: bool
    """Whether the environment said which actions are valid: for MaskablePPO."""
    algorithm: str | None
    """The algorithm that trained the agent; None when that is not known."""
    inferred: tuple[str, ...]
    """What the file did not contain and the shapes of weights determined, as sentences."""

    @property
    def mean_reward(self) -> float:
        """The mean of the episodes' rewards."""
        return float(np.mean(self.rewards))

    @property
    def std_reward(self) -> float:
        """Their standard deviation: of these episodes, as SB3 computes it."""
        return float(np.std(self.rewards))

    @property
    def mean_length(self) -> float:
        """The mean number of steps."""
        return float(np.mean(self.lengths))

    @property
    def std_length(self) -> float:
        """Its standard deviation."""
        return float(np.std(self.lengths))

    def __repr__(self) -> str:
        agent = f" {escape(self.algorithm, 40)}" if self.algorithm else ""
        return f"<EvaluationReport{agent}: {self._summary}>"

    def _repr_html_(self) -> str:
        """Return mean and range of rewards and lengths for notebooks."""
        from sbformat.notebook import describe_value, render_output, render_table

        rows = [
            (name, *(f"{number:,.2f}" for number in (np.mean(values), np.std(values), min(values), max(values))))
            for name, values in (("reward", self.rewards), ("length", self.lengths))
        ]
        header = ("of an episode", "mean", "standard deviation", "least", "most")
        names = ("algorithm", "deterministic", "seed", "uses_action_masks")
        facts = [(name.replace("_", " "), describe_value(getattr(self, name))) for name in names]
        inferred = render_table("inferred", (), [(sentence,) for sentence in self.inferred])
        parts = [render_table("", header, rows, right=range(1, 5)), render_table("", (), facts), inferred]
        return render_output(f"EvaluationReport: {self._summary}", parts)

    @property
    def _summary(self) -> str:
        reward = f"mean reward {self.mean_reward:,.2f} +/- {self.std_reward:,.2f}"
        return f"{reward} over {count_noun(len(self.rewards), 'episode')}"


def evaluate(
    source: Policy | ArchiveLike,
    env: Any,
    *,
    episodes: int = 20,
    vecnormalize: VecNormalize | ArchiveLike | bool | None = None,
    seed: int | None = None,
    deterministic: bool = True,
    frame_stack: int | None = None,
    channels_order: ChannelsOrder | None = None,
    env_kwargs: Mapping[str, Any] | None = None,
    max_steps: int | None = None,
    progress: Callable[[int], None] | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> EvaluationReport:
    """Run an agent for some episodes, and return the rewards and lengths; torch is not needed.

    Example::

        report = sbformat.evaluate("agent.zip", "CartPole-v1", episodes=100, seed=0)
        report.mean_reward, report.std_reward

    :param source: a policy of :func:`sbformat.load_policy`, or what that function takes
    :param env: an id of gymnasium, or an environment with its ``reset`` and ``step``, which is not closed; observations
        get the dtype of its space, as in SB3
    :param vecnormalize: statistics, as for :func:`sbformat.load_policy`; not for a policy, which has its own
    :param seed: of the environment and of sampled actions
    :param deterministic: the most likely actions; False to sample them
    :param frame_stack: frames that the agent sees together, as with SB3's ``VecFrameStack``. Statistics of the shape of
        one frame are applied before stacking, as in rl-zoo, those of the stacked shape after it
    :param channels_order: the axis that frames are stacked on, ``first`` or ``last``, by default as SB3 finds it; with
        ``frame_stack``
    :param env_kwargs: arguments of the environment's constructor, with an id
    :param max_steps: end episodes after that many steps, instead of the environment's own limit
    :param progress: called with 1 after each episode
    :param limits: for reading
    :raises UnsupportedError: when gymnasium is not installed or does not know the environment; for a network that is
        not known
    :raises ValidationError: when the spaces of the environment do not fit those of the policy, or its observations
        their space
    :raises SbformatError: when the file breaks the format
    :raises TypeError: for an argument of the wrong type, and for a vectorized environment
    :raises ValueError: for an argument with a value that it cannot have
    """
    numbers = {"episodes": episodes, "frame_stack": frame_stack, "max_steps": max_steps}
    _check_arguments(source, env, vecnormalize, env_kwargs, channels_order, **numbers)
    made = _make_environment(env, env_kwargs or {}, max_steps) if isinstance(env, str) else env
    try:
        wrapper = _Wrapper(made, frame_stack, channels_order)
        policy = _load(source, vecnormalize, wrapper, limits)
        if seed is not None:
            policy.seed(seed)
        require_fit(policy.observation_space, wrapper.space, "observation")
        require_fit(policy.action_space, convert_space(made.action_space, "action_space"), "action")
        takes_masks = any(item.role == "action_masks" for item in policy.graph.inputs)
        read_masks = _find_masks(made) if takes_masks else None
        rewards, lengths = [], []
        state: Any = None  # of a recurrent policy, which an episode's first step resets
        for number in range(episodes):
            observation, _ = made.reset(seed=seed if number == 0 else None)
            reward, length, is_over = 0.0, 0, False
            while not is_over:
                seen = _add_axis(wrapper.observe(observation, is_first=length == 0))
                masks = {} if read_masks is None else {"action_masks": np.asarray(read_masks())[None]}
                actions, state = policy.predict(seen, state, np.array([length == 0]), deterministic, **masks)
                observation, gained, terminated, truncated, _ = made.step(actions[0])
                reward += float(gained)
                length += 1
                is_over = terminated or truncated or length == max_steps
            rewards.append(reward)
            lengths.append(length)
            if progress is not None:
                progress(1)
    finally:
        if isinstance(env, str):
            made.close()
    masked = read_masks is not None
    return EvaluationReport(
        tuple(rewards), tuple(lengths), deterministic, seed, masked, policy.algorithm, policy.inferred
    )


def _load(source: Policy | ArchiveLike, vecnormalize: Any, wrapper: _Wrapper, limits: Limits) -> Policy:
    """Load the policy; statistics that belong to single frames are left to the wrapper."""
    if isinstance(source, Policy):
        return source
    if wrapper.frames is None:
        return load_policy(source, vecnormalize=vecnormalize, limits=limits)
    source, vecnormalize, _, warning = resolve_folder(source, vecnormalize, limits)
    if warning:
        warnings.warn(warning, UserWarning, stacklevel=3)
    archive = read(source, limits=limits)
    statistics = read_statistics(archive, vecnormalize, limits)
    if statistics is not None:
        vecnormalize = False if wrapper.take_statistics(statistics) else statistics
    return load_policy(archive, vecnormalize=vecnormalize, limits=limits)


def _check_arguments(
    source: object, env: object, vecnormalize: object, env_kwargs: object, order: object, **numbers: object
) -> None:
    """Check the arguments of :func:`evaluate`."""
    for name, value in numbers.items():
        if isinstance(value, bool):
            raise TypeError(f"expected {name} to be a number, got {value}")
        if value is not None or name == "episodes":
            require_type(value, int, f"{name} to be a number")
            if value < 1:  # type: ignore[operator]
                raise ValueError(f"expected {name} to be at least 1, got {value}")
    if isinstance(source, Policy) and vecnormalize is not None:
        raise TypeError("vecnormalize: a policy has its own statistics; pass them to load_policy")
    if hasattr(env, "num_envs"):
        name = type(env).__name__
        raise TypeError(f"expected one environment, got {name}, which is vectorized: pass the environment inside it")
    if not isinstance(env, str) and (env_kwargs or not hasattr(env, "step")):
        expected = "with env_kwargs" if env_kwargs else "or an environment"
        raise TypeError(f"expected an id of gymnasium {expected}, got {env!r:.100}")
    if order is not None and order not in get_args(ChannelsOrder):
        raise ValueError(f"expected 'first' or 'last' as channels_order, got {order!r:.100}")
    if order is not None and numbers["frame_stack"] is None:
        raise ValueError("channels_order: expected frame_stack with it, the number of frames")


class _Wrapper:
    """What is between an environment and a policy: a buffer of the space's dtype, frames, normalized and stacked."""

    def __init__(self, env: Any, frame_stack: int | None, order: ChannelsOrder | None) -> None:
        self._space = convert_space(env.observation_space, "observation_space")
        self._frame_stack, self._order = frame_stack, order
        self.frames = self._make_stack(self._space)
        self._statistics: VecNormalize | None = None

    @property
    def space(self) -> Space:
        """The space of what the policy sees."""
        return self._space if self.frames is None else self.frames.space

    def _make_stack(self, space: Space) -> FrameStack | None:
        return None if self._frame_stack is None else FrameStack(space, self._frame_stack, self._order)

    def take_statistics(self, statistics: VecNormalize) -> bool:
        """Normalize frames with statistics; return whether they are those of one frame, not of a stack."""
        if not statistics.norm_obs:
            return False
        if any(find_mismatches(statistics, self._space)):
            if any(find_mismatches(statistics, self.space)):
                hint = "with frame_stack, they are those of one frame, or of all that are stacked"
                require_statistics_fit(statistics, self._space, hint)
            return False
        self._statistics = statistics
        self.frames = self._make_stack(normalize_space(self._space, statistics))
        return True

    def observe(self, observation: Any, *, is_first: bool) -> Any:
        """Return what the policy sees; an episode begins with the first observation."""
        seen = convert_observation(observation, self._space)
        if self._statistics is not None:
            seen = self._statistics.normalize_obs(seen)
        if self.frames is None:
            return seen
        return self.frames.reset(seen) if is_first else self.frames.add(seen)


def _add_axis(observation: Any) -> Any:
    """Return an observation as a batch of one."""
    if isinstance(observation, dict):
        return {key: _add_axis(part) for key, part in observation.items()}
    return np.asarray(observation)[None]


def _find_masks(env: Any) -> Callable[[], Any] | None:
    """Return the environment's ``action_masks``, whichever wrapper has it; None if none has."""
    while env is not None:
        if hasattr(type(env), "action_masks") or "action_masks" in vars(env):  # no wrapper's own lookup
            masks: Callable[[], Any] = env.action_masks
            return masks
        env = getattr(env, "env", None)
    return None
