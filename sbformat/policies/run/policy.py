"""``Policy``: an agent that acts, with the arguments and results of SB3's ``predict``.

Theory of operation
-------------------
In: what ``predict`` takes. Out: what it returns. Between are three programs over one graph:

1. *deterministic*: inputs -> action, next states.
2. *parameters*: inputs -> what a draw depends on (a mean, logits), next states. A sampler draws, and
3. *drawn*: the draw, in place of the result of one node -> action (squashed, clipped, ...).

``outputs`` has a program of its own. All that depends on the spaces alone is decided when a policy is made, so that a
call does little more than numpy does: 10 microseconds for two layers of 64.

Sources: SB3 ``common/policies.py`` (``BasePolicy.predict``), ``dqn/dqn.py``; sb3-contrib
``common/recurrent/policies.py``, ``common/maskable/policies.py``; SB2 ``common/base_class.py``.
"""

from __future__ import annotations

import copy
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any, Final, NoReturn

import numpy as np

from sbformat.errors import escape
from sbformat.limits import Budget
from sbformat.policies.run.observations import NUMBERS, make_array, make_reader, widen_inputs
from sbformat.policies.run.program import Program, Weights
from sbformat.policies.run.sampling import EpsilonGreedy, GsdeSampler, make_sampler

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sbformat.archive.archive import Archive
    from sbformat.formats.vecnormalize import VecNormalize
    from sbformat.known.spaces import Space
    from sbformat.policies.graph import Graph, Input, State
    from sbformat.policies.model import PolicyModel

_CRITIC: Final = "critic_"
"""What the names of states that only the value depends on begin with; ``predict`` of SB3 does not return them."""
_GENERATOR: Final = "_generator"
_SHOWN: Final = 8
"""Keys in a repr."""


class Policy:
    """An agent that predicts actions, with numpy. :func:`sbformat.load_policy` returns one.

    >>> policy = sbformat.load_policy("ppo_cartpole.zip", seed=0)
    >>> action, _ = policy.predict(observation, deterministic=True)
    >>> policy.outputs(observation)["value"]

    It keeps working when the file changes, and several threads may use it at the same time. A copy has its own random
    numbers; it cannot be pickled, so each process loads its own.

    :param model: the graph, spaces and algorithm
    :param vecnormalize: the statistics that the graph applies
    :param modules: functions for the modules that the graph calls, by name
    :param seed: see :meth:`seed`
    :param budget: what the operation may use: weights are read here, so that errors of the file are raised here
    :raises SbformatError: when a weight cannot be read
    """

    def __init__(
        self,
        model: PolicyModel,
        *,
        vecnormalize: VecNormalize | None = None,
        modules: Mapping[str, Callable[..., Any]] | None = None,
        seed: Any = None,
        budget: Budget | None = None,
    ) -> None:
        self._model, self._vecnormalize, self._modules = model, vecnormalize, dict(modules or {})
        self._is_sb3 = model.family == "sb3"
        graph = self._graph = widen_inputs(model.graph, model.family)
        self._weights = Weights(graph, budget or Budget())
        for name in graph.weights:
            self._weights[name]
        self._read_inputs(graph, model)
        self._checked = self._find_checked(graph)
        self._run = self._compile([graph.outputs["action"], *self._checked, *self._next_states(self._states)]).run
        self._sampler = make_sampler(graph, model.action_space, self._compile)
        self._sampling: tuple[Program, Program | None] | None = None
        self._everything: Program | None = None
        self.seed(seed)

    def _read_inputs(self, graph: Graph, model: PolicyModel) -> None:
        """Decide what can be decided about inputs before there are any."""
        self._inputs = {item.name: item for item in graph.inputs}
        observations = [item for item in graph.inputs if item.role == "observation"]
        self._reader = make_reader(model.observation_space, observations, model.family)
        self._name = observations[0].name
        needs_no_check = model.observation_space.observed == "numbers"
        self._shape = observations[0].shape if needs_no_check else None
        """The shape of an observation that needs no other check."""
        self._roles: dict[str, Input] = {item.role: item for item in graph.inputs}
        self._all_states: dict[str, list[State]] = {}
        """By name; of SB3, one for each layer."""
        for state in graph.states:
            self._all_states.setdefault(state.name, []).append(state)
        self._states = {name: rows for name, rows in self._all_states.items() if not name.startswith(_CRITIC)}
        self._action_shape = graph.output("action").shape
        self._ranks = {name: len(graph.output(name).shape) for name in graph.outputs}
        self._has_options = len(observations) < len(graph.inputs)

    def _find_checked(self, graph: Graph) -> list[str]:
        """Return the parameter of the distribution that SB3 checks: it refuses one that is not a number."""
        parameters = graph.sampling.parameters if self._is_sb3 else {}
        return [parameters[name] for name in ("mean", "logits") if name in parameters]

    def _compile(self, outputs: list[str], given: tuple[str, ...] = ()) -> Program:
        return Program(self._graph, outputs, self._weights, functions=self._modules, given=given)

    # -- what it is -----------------------------------------------------------------------------------

    @property
    def observation_space(self) -> Space:
        """The space of observations: before normalization, which does not change shapes."""
        return self._model.observation_space

    @property
    def action_space(self) -> Space:
        """The space of actions."""
        return self._model.action_space

    @property
    def graph(self) -> Graph:
        """What it computes."""
        return self._model.graph

    @property
    def algorithm(self) -> str | None:
        """The algorithm that trained it, such as ``PPO``; None when that is not known."""
        return self._model.algorithm

    @property
    def inferred(self) -> tuple[str, ...]:
        """What the file did not contain and the shapes of weights determined, as sentences."""
        return self._model.graph.inferred

    @property
    def takes_action_masks(self) -> bool:
        """Whether :meth:`predict` accepts ``action_masks``: a policy of MaskablePPO."""
        return "action_masks" in self._roles

    @property
    def vecnormalize(self) -> VecNormalize | None:
        """The statistics that observations are normalized with."""
        return self._vecnormalize

    @property
    def archive(self) -> Archive | None:
        """The archive that it was loaded from; None for a policy that was made from a graph."""
        return self._model.archive

    @property
    def weights(self) -> Weights:
        """The weights of :attr:`graph` by name, as read-only arrays; of bfloat16 as float32."""
        return self._weights

    def __repr__(self) -> str:
        spaces = f"{_render(self.observation_space)} -> {_render(self.action_space)}"
        return f"<Policy {escape(self.algorithm or 'of an unknown algorithm', 40)} {spaces}>"

    def _repr_html_(self) -> str:
        """Return spaces, inputs, layers and outputs for notebooks."""
        from sbformat.policies.display import render

        return render(self)

    def __copy__(self) -> Policy:
        made = object.__new__(type(self))
        made.__dict__.update(self.__dict__)
        made._seed, made._sampler = copy.deepcopy(self._seed), copy.copy(self._sampler)
        if _GENERATOR in made.__dict__:
            made.__dict__[_GENERATOR] = copy.deepcopy(self._generator)
        return made

    def __deepcopy__(self, _: object) -> Policy:
        return self.__copy__()

    def __reduce__(self) -> NoReturn:
        message = "a Policy cannot be pickled: load the file in each process"
        raise TypeError(message)

    # -- acting ---------------------------------------------------------------------------------------

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = False,  # noqa: FBT001, FBT002 -- SB3's signature
        *,
        action_masks: Any = None,
    ) -> tuple[np.ndarray, Any]:
        """Return an action, or one for each observation of a batch; as ``predict`` of SB3.

        >>> action, state = policy.predict(observation, deterministic=True)
        >>> actions, state = policy.predict(observations, state, episode_start=dones)

        :param observation: an array of the shape of the space, or a batch with one more axis in front; a dict of such
            for a Dict space. Images may have their channels last
        :param state: what the last call returned, for recurrent policies: None at first. Of SB3 a pair of arrays
            (layers, environments, hidden), of SB2 one array (environments, 2 x hidden)
        :param episode_start: for each environment, whether its episode begins: its state is then zero
        :param deterministic: the most likely action instead of a drawn one; False by default as in SB3, also for agents
            of Stable Baselines 2, where it is True by default for DQN, SAC, TD3, DDPG and HER
        :param action_masks: for MaskablePPO: for each choice whether it is valid
        :return: an int64 or float array of the shape of the action space, with one more axis in front for a batch, and
            the next state; None, or for SB3 what was passed, if the policy is not recurrent
        :raises ValueError: when an argument does not fit, with the expected shape and the one it has; as in SB3, when
            the policy has a distribution whose mean or logits would be NaN
        """
        if type(observation) is np.ndarray and observation.shape == self._shape and observation.dtype.kind in NUMBERS:
            inputs, is_batched = {self._name: observation[None]}, False
        else:
            inputs, is_batched = self._reader.read(observation)
        if self._has_options:
            self._add_options(inputs, state, episode_start, action_masks)
        elif action_masks is not None:
            self._refuse_masks()
        actions, *states = self._act(inputs) if deterministic else self._sample(inputs)
        if states:
            parts = self._stack(self._states, states)
            state = tuple(parts) if self._is_sb3 else parts[0]
        elif not self._is_sb3:
            state = None
        if is_batched:
            return actions, state
        return actions.reshape(self._action_shape) if self._is_sb3 else actions[0], state

    def outputs(
        self, observation: Any, state: Any = None, episode_start: Any = None, action_masks: Any = None
    ) -> dict[str, np.ndarray]:
        """Return all that the network computes, by name: the deterministic action and what it is chosen by.

        >>> policy.outputs(observation)
        {'action': array(1), 'logits': array([-0.6,  0.4], dtype=float32), ...}

        The parameters are those of :meth:`predict`. A critic with an LSTM of its own has a state, too: ``state`` may
        have the critic's arrays after the actor's, in the order of the result. A pair is used for both, as
        ``predict_values`` of SB3 does.

        :return: the outputs of :attr:`graph` (``action``, ``logits``, ``mean``, ``log_std``, ``value``, ``q_values``,
            ...), with one more axis in front for a batch; and for recurrent policies the next states by name
            (``hidden``, ``cell``, ...), each as ``predict`` returns it
        :raises ValueError: as :meth:`predict`
        """
        inputs, is_batched = self._reader.read(observation)
        self._add_options(inputs, state, episode_start, action_masks)
        count = len(next(iter(inputs.values())))
        graph = self._graph
        if self._everything is None:
            self._everything = self._compile([*graph.outputs.values(), *self._next_states(self._all_states)])
        values = self._everything.run(inputs)
        made = {}
        for (name, rank), value in zip(self._ranks.items(), values):
            if value.ndim == rank:  # it depends on weights alone
                made[name] = np.repeat(value[None], count, 0) if is_batched else value
            else:
                made[name] = value if is_batched else value.reshape(value.shape[1:])
        made.update(zip(self._all_states, self._stack(self._all_states, values[len(graph.outputs) :])))
        return made

    def initial_state(self, n_envs: int = 1) -> Any:
        """Return the state at the start of an episode, which is zeros; None if the policy is not recurrent.

        :param n_envs: the number of environments
        """
        _require_count(n_envs, 0)
        if not self._states:
            return None
        parts = [np.zeros(self._state_shape(rows, n_envs), np.float32) for rows in self._states.values()]
        return tuple(parts) if self._is_sb3 else parts[0]

    def _act(self, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
        """Return deterministic actions, and next states."""
        values = self._run(inputs)
        if self._checked:
            self._require_numbers(values.pop(1))
        return values

    def _require_numbers(self, parameter: np.ndarray) -> None:
        """Refuse the mean or logits of a distribution that are not numbers, as torch does.

        :raises ValueError: when one is NaN, or a logit infinite
        """
        total = float(np.vdot(parameter, parameter))  # the quickest look at all items; it may overflow
        if total - total == 0:
            return
        has_logits = "logits" in self._graph.sampling.parameters
        is_valid = parameter < np.inf if has_logits else parameter == parameter  # noqa: PLR0124 -- NaN is not
        if not is_valid.all():
            name = "logits" if has_logits else "mean"
            message = (
                f"expected numbers as {name} of the action, got NaN or infinity, from the observation or the weights"
            )
            raise ValueError(message)

    def _sample(self, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
        """Return drawn actions, and next states."""
        sampler, graph = self._sampler, self._graph
        if sampler is None:
            return self._act(inputs)
        if isinstance(sampler, EpsilonGreedy):
            actions = sampler.draw(self._generator, len(next(iter(inputs.values()))))
            return self._act(inputs) if actions is None else [actions]
        if self._sampling is None:
            replaced, action = graph.sampling.replaces, graph.outputs["action"]
            parameters = self._compile([*sampler.needs, *self._next_states(self._states)])
            self._sampling = parameters, None if replaced == action else self._compile([action], (replaced,))
        parameters, drawn = self._sampling
        values = parameters.run(inputs)
        count = len(sampler.needs)
        if self._checked:
            self._require_numbers(values[0])
        draw = sampler.draw(self._generator, *values[:count])
        if drawn is not None:
            draw = drawn.run({**inputs, graph.sampling.replaces: draw})[0]
        return [draw, *values[count:]]

    # -- random numbers -------------------------------------------------------------------------------

    def seed(self, seed: int | np.random.Generator | None = None) -> None:
        """Start the random numbers anew, those of the noise of gSDE too.

        :param seed: an integer >= 0, or a generator that is used as it is; by default from the system
        :raises TypeError: for something else
        """
        if isinstance(seed, (int, np.integer)) and not isinstance(seed, bool):
            if seed < 0:
                message = f"expected a seed >= 0, got {seed}"
                raise ValueError(message)
        elif seed is not None and not isinstance(seed, np.random.Generator):
            message = f"expected an integer or a numpy.random.Generator as seed, got {type(seed).__name__}"
            raise TypeError(message)
        self._seed = seed
        self.__dict__.pop(_GENERATOR, None)
        self.reset_noise()

    @cached_property
    def _generator(self) -> np.random.Generator:
        """Made when it is first needed: numpy imports its random numbers in a tenth of the time to a first action."""
        return np.random.default_rng(self._seed)

    def reset_noise(self, n_envs: int = 1) -> None:
        """Draw the noise of gSDE anew, as SB3 does every ``sde_sample_freq`` steps; other policies have none.

        :param n_envs: environments, each of which has noise of its own in a batch of that size
        """
        _require_count(n_envs, 1)
        if isinstance(self._sampler, GsdeSampler):
            self._sampler.reset(self._generator, n_envs)

    # -- states and masks -----------------------------------------------------------------------------

    def _add_options(self, inputs: dict[str, np.ndarray], state: Any, episode_start: Any, action_masks: Any) -> None:
        """Add the inputs beside observations; those that are not given have defaults.

        :raises ValueError: when one does not fit
        """
        count = len(next(iter(inputs.values())))
        for role, value in (("action_masks", action_masks), ("episode_start", episode_start)):
            described = self._roles.get(role)
            if value is not None and described is not None:
                inputs[described.name] = _fit(value, described, count)
            elif value is not None and role == "action_masks":
                self._refuse_masks()
        if state is not None and self._states:
            self._add_states(inputs, state, count)

    def _add_states(self, inputs: dict[str, np.ndarray], state: Any, count: int) -> None:
        parts = state if self._is_sb3 else [state]
        if not isinstance(parts, (tuple, list)) or len(parts) not in (len(self._states), len(self._all_states)):
            message = f"expected a tuple of {len(self._states)} arrays as state, got {_describe(state)}"
            raise ValueError(message)
        named = dict(zip(self._all_states, parts)) if len(parts) > len(self._states) else dict(zip(self._states, parts))
        for name, rows in self._all_states.items():
            part = named.get(name, named.get(name.removeprefix(_CRITIC)))
            array, expected = make_array(part, "state"), self._state_shape(rows, count)
            if array.shape != expected or array.dtype.kind not in NUMBERS:
                message = f"expected an array of numbers of the shape {expected} as state, got {_describe(part)}"
                raise ValueError(message)
            layers = array if self._is_sb3 else [array]
            inputs.update({row.input: layer for row, layer in zip(rows, layers)})

    def _state_shape(self, rows: list[State], count: int) -> tuple[int, ...]:
        """Return the shape of a state as ``predict`` has it: with an axis of layers in SB3."""
        shape = (count, *self._inputs[rows[0].input].shape)
        return (len(rows), *shape) if self._is_sb3 else shape

    @staticmethod
    def _next_states(groups: dict[str, list[State]]) -> list[str]:
        return [row.output for rows in groups.values() for row in rows]

    def _stack(self, groups: dict[str, list[State]], values: list[np.ndarray]) -> list[np.ndarray]:
        """Return a state for each group, as ``predict`` does."""
        left = iter(values)
        parts = [[next(left) for _ in rows] for rows in groups.values()]
        return [np.stack(part) if self._is_sb3 else part[0] for part in parts]

    def _refuse_masks(self) -> NoReturn:
        message = "the policy does not take action_masks: only those of MaskablePPO do"
        raise ValueError(message)


def _fit(value: Any, described: Input, count: int) -> np.ndarray:
    """Return an argument with a row for each observation; SB3 accepts any shape with as many items.

    :raises ValueError: when it has another number of items
    """
    array = make_array(value, described.role)
    if array.dtype.kind not in NUMBERS or array.size != count * prod(described.shape):
        expected = (count, *described.shape)
        message = f"expected numbers of the shape {expected} as {described.role}, got {_describe(value)}"
        raise ValueError(message)
    made: np.ndarray = array != 0 if described.dtype == "bool" else array
    return made.reshape(count, *described.shape)


def _require_count(n_envs: object, least: int) -> None:
    """Refuse what is not a number of environments.

    :raises ValueError: when it is not an integer, or too small
    """
    if isinstance(n_envs, bool) or not isinstance(n_envs, (int, np.integer)) or n_envs < least:
        message = f"expected an integer >= {least} as n_envs, got {escape(str(n_envs), 40)}"
        raise ValueError(message)


def _render(space: Space) -> str:
    size: object = "" if space.shape is None else space.shape
    if space.distribution == "categorical":
        size = f"({space.flat_size()})"
    elif space.has_keys:
        size = f"({', '.join(escape(key, 40) for key in list(space.parts())[:_SHOWN])})"
    return f"{space.class_name}{size}"


def _describe(value: Any) -> str:
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple):
        return f"an array of {getattr(value, 'dtype', 'no dtype')} of the shape {shape}"
    return f"a {type(value).__name__} of {len(value)}" if isinstance(value, (tuple, list)) else type(value).__name__
