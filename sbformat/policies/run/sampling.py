"""How actions are drawn when ``deterministic`` is false: one class for each kind of :class:`Sampling`.

A sampler gets the values of its parameters for a batch, and returns what replaces the result of a node. Values that do
not depend on the observation are computed once. The distributions are those of SB3 (``common/distributions.py``,
``dqn/dqn.py``) and SB2 (``common/distributions.py``); the random numbers are numpy's, so that a draw differs from that
of torch with the same seed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sbformat.policies.graph import Graph, Node


class Sampler(Protocol):
    """Draws what replaces the result of a node."""

    needs: tuple[str, ...]
    """The names of the values that :meth:`draw` gets, in order."""

    def draw(self, generator: np.random.Generator, *values: np.ndarray) -> np.ndarray:
        """Return a draw for each item of a batch."""


class GaussianSampler:
    """Draws ``mean + exp(log_std) * noise``."""

    def __init__(self, parameters: Mapping[str, str], constants: Mapping[str, np.ndarray], _: Any) -> None:
        log_std = constants.get(parameters["log_std"])
        self._std = None if log_std is None else np.exp(log_std)
        self.needs = (parameters["mean"],) if log_std is not None else (parameters["mean"], parameters["log_std"])

    def draw(self, generator: np.random.Generator, mean: np.ndarray, *log_std: np.ndarray) -> np.ndarray:
        """Return a draw of the shape of the mean."""
        noise = generator.standard_normal(mean.shape, mean.dtype)  # type: ignore[arg-type]
        noise *= np.exp(log_std[0]) if self._std is None else self._std
        noise += mean
        return noise


class GsdeSampler:
    """Draws ``mean + latent @ matrix``: the matrix of noise is drawn once, until it is reset."""

    def __init__(self, parameters: Mapping[str, str], constants: Mapping[str, np.ndarray], _: Any) -> None:
        self._std = constants[parameters["std"]]
        self.needs = (parameters["mean"], parameters["latent"])
        self._matrices: np.ndarray = self._std[None]

    def reset(self, generator: np.random.Generator, n_envs: int) -> None:
        """Draw new noise: a matrix for each environment; a batch of another size uses the first."""
        noise = generator.standard_normal((n_envs, *self._std.shape), np.float32)
        self._matrices = noise * self._std

    def draw(self, generator: np.random.Generator, mean: np.ndarray, latent: np.ndarray) -> np.ndarray:
        """Return a draw of the shape of the mean."""
        del generator
        matrices = self._matrices
        if len(latent) == 1 or len(latent) != len(matrices):
            return mean + latent @ matrices[0]
        return mean + np.matmul(latent[:, None], matrices)[:, 0]


class CategoricalSampler:
    """Draws one choice of each component: the greatest of the logits plus Gumbel noise, which has that distribution.

    A choice that is masked has a logit of -1e8, which no noise makes the greatest.
    """

    def __init__(
        self, parameters: Mapping[str, str], _: Mapping[str, np.ndarray], replaced: Node, sizes: tuple[int, ...]
    ) -> None:
        self.needs = (parameters["logits"],)
        self._dtype = np.dtype(replaced.dtype)
        self._shape = replaced.shape
        ends = np.cumsum(sizes).tolist()
        self._parts = [slice(end - size, end) for end, size in zip(ends, sizes)]

    def draw(self, generator: np.random.Generator, logits: np.ndarray) -> np.ndarray:
        """Return the index of a choice for each component."""
        noisy = generator.gumbel(size=logits.shape)
        noisy += logits
        if len(self._parts) == 1:
            drawn = noisy.argmax(-1)
        else:
            drawn = np.stack([noisy[..., part].argmax(-1) for part in self._parts], -1)
        return drawn.astype(self._dtype, copy=False).reshape(len(logits), *self._shape)


class BernoulliSampler:
    """Draws 0 or 1: 1 where the logit plus logistic noise is positive, which has that distribution."""

    def __init__(self, parameters: Mapping[str, str], _: Mapping[str, np.ndarray], replaced: Node) -> None:
        self.needs = (parameters["logits"],)
        self._dtype = np.dtype(replaced.dtype)
        self._shape = replaced.shape

    def draw(self, generator: np.random.Generator, logits: np.ndarray) -> np.ndarray:
        """Return 0 or 1 for each logit."""
        drawn = logits + generator.logistic(size=logits.shape) > 0
        return drawn.astype(self._dtype).reshape(len(logits), *self._shape)
