"""``Policy``: an agent that acts, with the arguments and results of SB3's ``predict``.

In: what ``predict`` takes. Out: what it returns. Between are three programs over one graph:

1. *deterministic*: inputs -> action, next states.
2. *parameters*: inputs -> what a draw depends on (a mean, logits), next states. A sampler draws (numpy's random
   numbers, in the distributions of SB3 and SB2), and
3. *drawn*: the draw, in place of the result of one node -> action (squashed, clipped, ...).

``outputs`` has a program of its own. All that depends on the spaces alone is decided when a policy is made, so that a
call does little more than numpy does: 10 microseconds for two layers of 64.

Observations follow SB3's rules (``obs_to_tensor``, ``is_vectorized_observation``): an array of the shape of the space
is a single observation, one with an axis before it a batch. An image with its channels last is transposed when only
that makes it fit. SB2's rules are the same without images. Sources: ``common/policies.py``, ``common/distributions.py``
and ``dqn/dqn.py`` of SB3, ``recurrent`` and ``maskable`` of sb3-contrib, ``common/base_class.py`` of SB2.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeAlias

import numpy as np

from sbformat.errors import UnsupportedError, escape, quote
from sbformat.known.spaces import Discrete
from sbformat.limits import Budget
from sbformat.policies.graph import widen_inputs
from sbformat.policies.run.program import Program, Weights

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from sbformat.archive.archive import Archive
    from sbformat.formats.vecnormalize import VecNormalize
    from sbformat.known.spaces import Space
    from sbformat.policies.builder import Family, PolicyModel
    from sbformat.policies.graph import Graph, Input, Node, Sampling, State, Tensor
    from sbformat.policies.run.kernels import Array


NUMBERS: Final = "biuf"
"""Kinds of numpy dtypes that an observation may have."""
_MOST_SHOWN: Final = 20  # keys and sizes in a message


class ArrayReader:
    """Reads observations that are one array: an input of the graph, of a space."""

    def __init__(self, described: Input, space: Space, family: Family) -> None:
        self.key = described.key
        self._input = described.name
        self._shape = described.shape
        self._choices = np.array(space.choices()).reshape(space.shape) if space.observed == "one-hot" else None
        """The number of choices of each item of a discrete space."""
        self._is_image = family == "sb3" and space.is_image()
        self._name = "the observation" if described.key is None else f"{quote(described.key, 60)} of the observation"

    def read(self, observation: Any) -> tuple[dict[str, np.ndarray], bool]:
        """Return a batch by the name of the input, and whether the observation was one."""
        if type(observation) is not np.ndarray and (isinstance(observation, Mapping) or _is_reset(observation)):
            message = f"expected an array of the shape {self._shape} as {self._name}, got {_describe(observation)}"
            raise ValueError(message)
        array = make_array(observation, self._name)
        if array.dtype.kind not in NUMBERS:
            raise ValueError(f"expected numbers as {self._name}, got {_describe(observation)}")
        if array.shape == self._shape:
            array, is_batched = array[None], False
        elif array.ndim > 0 and array.shape[1:] == self._shape:
            is_batched = True
        else:
            array, is_batched = self._transpose(array)
        choices = self._choices
        # a one-hot vector has no place for other numbers
        if choices is not None and not ((array >= 0) & (array < choices)).all():
            shown = choices.tolist() if choices.size <= _MOST_SHOWN else "those of the space"
            message = f"expected integers >= 0 and < {shown} as {self._name}, got {array.min()} to {array.max()}"
            raise ValueError(message)
        return {self._input: array}, is_batched

    def _transpose(self, array: np.ndarray) -> tuple[np.ndarray, bool]:
        """Return an image, or images, with the channels first."""
        if self._is_image and array.ndim in (3, 4):
            moved = np.moveaxis(array, -1, -3)
            if moved.shape[-3:] == self._shape:
                return (moved[None], False) if array.ndim == 3 else (moved, True)
        batch = str(("n", *self._shape)).replace("'", "")
        shapes = f"the shape {self._shape} of one observation, or {batch} of a batch"
        raise ValueError(f"expected {shapes}, as {self._name}, got {array.shape}")


class DictReader:
    """Reads observations that are a dict of arrays."""

    def __init__(self, readers: list[ArrayReader]) -> None:
        self._readers = {reader.key: reader for reader in readers}

    def read(self, observation: Any) -> tuple[dict[str, np.ndarray], bool]:
        """Return a batch for each input by name, and whether one of them was a batch."""
        if not isinstance(observation, Mapping):
            message = f"expected a dict with the keys {_join(self._readers)}, got {_describe(observation)}"
            raise ValueError(message)  # noqa: TRY004 -- one class for observations that do not fit
        if observation.keys() != self._readers.keys():
            raise ValueError(f"expected an observation with the keys {_join(self._readers)}, got {_join(observation)}")
        inputs: dict[str, np.ndarray] = {}
        is_batched = False
        for key, reader in self._readers.items():
            made, is_batch = reader.read(observation[key])
            inputs.update(made)
            is_batched = is_batched or is_batch
        if len({len(array) for array in inputs.values()}) > 1:
            shapes = ", ".join(f"{quote(key, 40)}: {np.shape(value)}" for key, value in observation.items())
            raise ValueError(f"expected single observations or batches of one size, got the shapes {shapes}")
        return inputs, is_batched


def make_array(value: Any, what: str) -> np.ndarray:
    """Return anything that numpy makes an array of as one."""
    try:
        return np.asarray(value)
    except (ValueError, TypeError, UserWarning):
        message = f"expected an array of numbers as {what}, got lists of different lengths, or other objects"
        raise ValueError(message) from None


def _join(keys: Iterable[Any]) -> str:
    return ", ".join(quote(key, 40) for key in list(keys)[:_MOST_SHOWN]) or "none"


def _is_reset(observation: Any) -> bool:
    """Return whether it is what ``reset`` of gymnasium returns: an observation and a dict."""
    return isinstance(observation, tuple) and len(observation) == 2 and isinstance(observation[1], Mapping)


def _describe(observation: Any) -> str:
    if _is_reset(observation):
        return "a tuple of an observation and a dict; reset() of gymnasium returns two values: obs, info = env.reset()"
    if isinstance(observation, np.ndarray):
        return f"an array of {quote(observation.dtype, 40)} of the shape {observation.shape}"
    place, item = _find_other(observation, ())
    described = f"the text {quote(item, 40)}" if isinstance(item, str) else f"a {type(item).__name__}"
    described = "None, the null of JSON" if item is None else described
    return f"a {type(observation).__name__}" + f": at index {', '.join(map(str, place))} is {described}" * bool(place)


def _find_other(value: Any, place: tuple[int, ...]) -> tuple[tuple[int, ...], Any]:
    """Return the place of the first item in lists that is not a number, and the item; an empty place without any."""
    for number, item in enumerate(value if isinstance(value, (list, tuple)) else ()):
        if isinstance(item, (list, tuple)):
            found = _find_other(item, (*place, number))
            if found[0]:
                return found
        elif not isinstance(item, (float, int, np.ndarray, np.generic)):
            return (*place, number), item
    return (), None


_LARGE: Final = 1e30  # standard deviations from here may overflow when they are multiplied


def make_sampler(
    graph: Graph, action_space: Space, compile_program: Callable[[list[str]], Program]
) -> Sampler | EpsilonGreedy | None:
    """Return the sampler of a graph; None if its action is deterministic."""
    sampling = graph.sampling
    if sampling.kind == "none" or (sampling.kind == "epsilon_greedy" and not sampling.rate > 0):
        return None
    if sampling.kind == "epsilon_greedy":
        return EpsilonGreedy(sampling.rate, action_space, graph.output("action"))
    replaced = next(node for node in graph.nodes if node.name == sampling.replaces)
    constants = {}
    for name in sampling.parameters.values():
        program = compile_program([name])
        if not program.inputs:
            constants[name] = program.run({})[0]
    return _SAMPLERS[sampling.kind](sampling, constants, replaced)


class GaussianSampler:
    """Draws ``mean + exp(log_std) * noise``."""

    def __init__(self, sampling: Sampling, constants: Mapping[str, Array], _: Node) -> None:
        mean, log_std = sampling.parameters["mean"], sampling.parameters["log_std"]
        self._std: Array | None = None
        self.needs: tuple[str, ...] = (mean, log_std)
        if log_std in constants:
            with np.errstate(all="ignore"):
                std = np.exp(constants[log_std])
            if (std < _LARGE).all():  # numpy does not warn then, and need not be told not to
                self._std, self.needs = std, (mean,)

    def draw(self, generator: np.random.Generator, mean: Array, *log_std: Array) -> Array:
        """Return a draw of the shape of the mean."""
        noise: Array = generator.standard_normal(mean.shape, mean.dtype)  # type: ignore[assignment]
        if self._std is not None:
            noise *= self._std
            noise += mean
        else:
            with np.errstate(all="ignore"):
                noise *= np.exp(log_std[0])
                noise += mean
        return noise


class GsdeSampler:
    """Draws ``mean + latent @ matrix``: the matrix of noise is drawn once, until it is reset."""

    def __init__(self, sampling: Sampling, constants: Mapping[str, Array], _: Node) -> None:
        self._std = constants[sampling.parameters["std"]]
        self.needs = (sampling.parameters["mean"], sampling.parameters["latent"])
        self._matrices = self._std[None]

    def reset(self, generator: np.random.Generator, n_envs: int) -> None:
        """Draw new noise: a matrix for each environment; a batch of another size uses the first."""
        with np.errstate(all="ignore"):
            self._matrices = generator.standard_normal((n_envs, *self._std.shape), np.float32) * self._std

    def draw(self, generator: np.random.Generator, mean: Array, latent: Array) -> Array:
        """Return a draw of the shape of the mean."""
        del generator
        matrices = self._matrices
        with np.errstate(all="ignore"):
            if len(latent) == 1 or len(latent) != len(matrices):
                noise: Array = latent @ matrices[0]
            else:
                noise = np.matmul(latent[:, None], matrices)[:, 0]
            noise += mean
        return noise


class CategoricalSampler:
    """Draws one choice of each component: the greatest of the logits plus Gumbel noise, which has that distribution.

    A choice that is masked has a logit of -1e8, which no noise makes the greatest.
    """

    def __init__(self, sampling: Sampling, _: Mapping[str, Array], replaced: Node) -> None:
        self.needs = (sampling.parameters["logits"],)
        self._dtype, self._shape = np.dtype(replaced.dtype), replaced.shape
        ends = np.cumsum(sampling.sizes).tolist()
        self._parts = [slice(end - size, end) for end, size in zip(ends, sampling.sizes)]

    def draw(self, generator: np.random.Generator, logits: Array) -> Array:
        """Return the index of a choice for each component."""
        noisy: Array = generator.gumbel(size=logits.shape)  # type: ignore[assignment]
        noisy += logits
        drawn: Array = noisy.argmax(-1)
        if len(self._parts) != 1:
            drawn = np.stack([noisy[:, part].argmax(-1) for part in self._parts], -1)
        return drawn.astype(self._dtype, copy=False).reshape(len(logits), *self._shape)


class BernoulliSampler(CategoricalSampler):
    """Draws 0 or 1: 1 where the logit plus logistic noise is positive, which has that distribution."""

    def draw(self, generator: np.random.Generator, logits: Array) -> Array:
        """Return 0 or 1 for each logit."""
        drawn = logits + generator.logistic(size=logits.shape) > 0
        return drawn.astype(self._dtype).reshape(len(logits), *self._shape)


class EpsilonGreedy:
    """Chooses random actions for a whole batch with a probability; otherwise the action is deterministic."""

    def __init__(self, rate: float, action_space: Space, action: Tensor) -> None:
        if not isinstance(action_space, Discrete):
            message = f"expected a Discrete action space for random actions, got {action_space.class_name}"
            raise UnsupportedError(message)
        self._rate, self._dtype = rate, np.dtype(action.dtype)
        self._low, self._high = action_space.start, action_space.start + action_space.n
        if self._low < np.iinfo(self._dtype).min or self._high > np.iinfo(self._dtype).max:
            message = f"expected a Discrete action space of {self._dtype}, got one that starts at {quote(self._low)}"
            raise UnsupportedError(message)

    @property
    def range(self) -> tuple[int, int]:
        """The least action, and that after the greatest."""
        return self._low, self._high

    def draw(self, generator: np.random.Generator, count: int) -> Array | None:
        """Return random actions of the space; None for the deterministic ones."""
        if generator.random() >= self._rate:
            return None
        return generator.integers(self._low, self._high, count, self._dtype)


Sampler: TypeAlias = "GaussianSampler | GsdeSampler | CategoricalSampler"
_SAMPLERS: Final[Mapping[str, Callable[[Sampling, Mapping[str, Array], Node], Sampler]]] = {
    "gaussian": GaussianSampler, "gsde": GsdeSampler, "categorical": CategoricalSampler, "bernoulli": BernoulliSampler,
}  # fmt: skip


_CRITIC: Final = "critic_"
"""The beginning of the names of states that only the value depends on, which ``predict`` of SB3 does not return."""
_GENERATOR: Final = "_generator"
_SHOWN: Final = 8  # keys in a repr


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
        parameters = graph.sampling.parameters if self._is_sb3 else {}
        self._checked = [parameters[name] for name in ("mean", "logits") if name in parameters]
        """The parameter of the distribution that SB3 checks: it refuses one that is not a number."""
        self._run = self._compile([graph.outputs["action"], *self._checked, *self._next_states(self._states)]).run
        self._sampler = make_sampler(graph, model.action_space, self._compile)
        self._sampling: tuple[Program, Program | None] | None = None
        self._everything: Program | None = None
        self.seed(seed)

    def _read_inputs(self, graph: Graph, model: PolicyModel) -> None:
        """Decide what can be decided about inputs before there are any."""
        self._inputs = {item.name: item for item in graph.inputs}
        observations = [item for item in graph.inputs if item.role == "observation"]
        space = model.observation_space
        parts = space.parts()
        readers = [ArrayReader(item, parts.get(item.key, space), model.family) for item in observations]
        self._reader: ArrayReader | DictReader = DictReader(readers) if space.has_keys else readers[0]
        self._name = observations[0].name
        self._shape = observations[0].shape if space.observed == "numbers" else None
        """The shape of an observation that needs no other check."""
        self._roles: dict[str, Input] = {item.role: item for item in graph.inputs}
        self._all_states: dict[str, list[State]] = {}  # by name; of SB3, one for each layer
        for state in graph.states:
            self._all_states.setdefault(state.name, []).append(state)
        self._states = {name: rows for name, rows in self._all_states.items() if not name.startswith(_CRITIC)}
        self._action_shape = graph.output("action").shape
        self._ranks = {name: len(graph.output(name).shape) for name in graph.outputs}
        self._has_options = len(observations) < len(graph.inputs)

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
        """The graph of what it computes."""
        return self._model.graph

    @property
    def algorithm(self) -> str | None:
        """The algorithm that trained it, such as ``PPO``; None when that is not known."""
        return self._model.algorithm

    @property
    def inferred(self) -> tuple[str, ...]:
        """A sentence for each fact that the shapes of weights determined because the file did not contain it."""
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
    def model(self) -> PolicyModel:
        """What every back end needs of a policy: the graph, the spaces and the algorithm."""
        return self._model

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
        from sbformat.policies.show_policy import render

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
        raise TypeError("a Policy cannot be pickled: load the file in each process")

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
        if self._everything is None:
            self._everything = self._compile([*self._graph.outputs.values(), *self._next_states(self._all_states)])
        values = self._everything.run(inputs)
        made = {}
        for (name, rank), value in zip(self._ranks.items(), values):
            if value.ndim == rank:  # it depends on weights alone
                made[name] = np.repeat(value[None], count, 0) if is_batched else value
            else:
                made[name] = value if is_batched else value.reshape(value.shape[1:])
        made.update(zip(self._all_states, self._stack(self._all_states, values[len(self._ranks) :])))
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
        """Refuse the mean or logits of a distribution as torch does: those that are NaN, and infinite logits."""
        total = float(np.vdot(parameter, parameter))  # the quickest look at all items; it may overflow
        if total - total == 0:
            return
        has_logits = "logits" in self._graph.sampling.parameters
        is_valid = parameter < np.inf if has_logits else parameter == parameter  # noqa: PLR0124 -- NaN is not
        if not is_valid.all():
            found = f"{'logits' if has_logits else 'mean'} of the action"
            raise ValueError(f"expected numbers as {found}, got NaN or infinity, from the observation or the weights")

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
                raise ValueError(f"expected a seed >= 0, got {seed}")
        elif seed is not None and not isinstance(seed, np.random.Generator):
            raise TypeError(f"expected an integer or a numpy.random.Generator as seed, got {type(seed).__name__}")
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
        """Add the inputs beside observations; those that are not given have defaults."""
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
            raise ValueError(f"expected a tuple of {len(self._states)} arrays as state, got {_describe_value(state)}")
        named = dict(zip(self._all_states if len(parts) > len(self._states) else self._states, parts))
        for name, rows in self._all_states.items():
            part = named.get(name, named.get(name.removeprefix(_CRITIC)))
            array, expected = make_array(part, "state"), self._state_shape(rows, count)
            if array.shape != expected or array.dtype.kind not in NUMBERS:
                message = f"expected an array of numbers of the shape {expected} as state, got {_describe_value(part)}"
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
        raise ValueError("the policy does not take action_masks: only those of MaskablePPO do")


def _fit(value: Any, described: Input, count: int) -> np.ndarray:
    """Return an argument with a row for each observation; SB3 accepts any shape with as many items."""
    array = make_array(value, described.role)
    if array.dtype.kind not in NUMBERS or array.size != count * prod(described.shape):
        expected = (count, *described.shape)
        raise ValueError(f"expected numbers of the shape {expected} as {described.role}, got {_describe_value(value)}")
    made: np.ndarray = array != 0 if described.dtype == "bool" else array
    return made.reshape(count, *described.shape)


def _require_count(n_envs: object, least: int) -> None:
    """Refuse what is not a number of environments."""
    if isinstance(n_envs, bool) or not isinstance(n_envs, (int, np.integer)) or n_envs < least:
        raise ValueError(f"expected an integer >= {least} as n_envs, got {escape(str(n_envs), 40)}")


def _render(space: Space) -> str:
    size: object = "" if space.shape is None else space.shape
    if space.distribution == "categorical":
        size = f"({space.flat_size()})"
    elif space.has_keys:
        size = f"({', '.join(escape(key, 40) for key in list(space.parts())[:_SHOWN])})"
    return f"{space.class_name}{size}"


def _describe_value(value: Any) -> str:
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple):
        return f"an array of {getattr(value, 'dtype', 'no dtype')} of the shape {shape}"
    return f"a {type(value).__name__} of {len(value)}" if isinstance(value, (tuple, list)) else type(value).__name__
