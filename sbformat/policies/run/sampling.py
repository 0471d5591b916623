"""How actions are drawn when ``deterministic`` is false: one class for each kind of :class:`Sampling`.

A sampler gets the values of its parameters for a batch, and returns what replaces the result of a node. Values that do
not depend on the observation are computed once. The distributions are those of SB3 (``common/distributions.py``,
``dqn/dqn.py``) and SB2 (``common/distributions.py``); the random numbers are numpy's, so that a draw differs from that
of torch with the same seed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np

from sbformat.errors import UnsupportedError, quote
from sbformat.known.spaces import Discrete

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sbformat.known.spaces import Space
    from sbformat.policies.graph import Graph, Node, Sampling, Tensor
    from sbformat.policies.run.kernels import Array
    from sbformat.policies.run.program import Program

_LARGE: Final = 1e30
"""Standard deviations from here may overflow when they are multiplied."""


class Sampler(Protocol):
    """Draws what replaces the result of a node."""

    needs: tuple[str, ...]
    """The names of the values that :meth:`draw` gets, in order."""

    def draw(self, generator: np.random.Generator, /, *values: Array) -> Array:
        """Return a draw for each item of a batch."""


def make_sampler(
    graph: Graph, action_space: Space, compile_program: Callable[[list[str]], Program]
) -> Sampler | EpsilonGreedy | None:
    """Return the sampler of a graph; None if its action is deterministic.

    :param compile_program: returns a program for names of values
    """
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
    made: Sampler = _SAMPLERS[sampling.kind](sampling, constants, replaced)
    return made


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
            return noise
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
        if len(self._parts) == 1:
            drawn = noisy.argmax(-1)
        else:
            drawn = np.stack([noisy[:, part].argmax(-1) for part in self._parts], -1)
        made: Array = drawn.astype(self._dtype, copy=False)
        return made.reshape(len(logits), *self._shape)


class BernoulliSampler:
    """Draws 0 or 1: 1 where the logit plus logistic noise is positive, which has that distribution."""

    def __init__(self, sampling: Sampling, _: Mapping[str, Array], replaced: Node) -> None:
        self.needs = (sampling.parameters["logits"],)
        self._dtype, self._shape = np.dtype(replaced.dtype), replaced.shape

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

    def draw(self, generator: np.random.Generator, count: int) -> Array | None:
        """Return random actions of the space; None for the deterministic ones."""
        if generator.random() >= self._rate:
            return None
        return generator.integers(self._low, self._high, count, self._dtype)


_SAMPLERS: Final[Mapping[str, Callable[[Sampling, Mapping[str, Array], Node], Any]]] = {
    "gaussian": GaussianSampler,
    "gsde": GsdeSampler,
    "categorical": CategoricalSampler,
    "bernoulli": BernoulliSampler,
}
