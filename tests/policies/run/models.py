"""Policies for tests: graphs that are made by hand, without a file, and whose results a test computes itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sbformat.known.spaces import Box, DictSpace, Discrete, MultiBinary, MultiDiscrete, Space
from sbformat.limits import Budget
from sbformat.policies.builder import Family, GraphBuilder, PolicyModel, Value
from sbformat.policies.graph import Input, Sampling, State
from sbformat.policies.run.policy import Policy
from tests.policies.run.graphs import describe

LOW, HIGH = -1.5, 2.0


def box(*shape: int, low: float = LOW, high: float = HIGH, dtype: str = "float32") -> Box:
    bounds = [describe(np.full(shape, bound, dtype)) for bound in (low, high)]
    return Box("gymnasium", shape, np.dtype(dtype).str, *bounds, None)


def images(*shape: int) -> Box:
    return box(*shape, low=0, high=255, dtype="uint8")


def discrete(n: int, start: int = 0) -> Discrete:
    return Discrete("gymnasium", n, start, "<i8", None)


def multi_discrete(*sizes: int) -> MultiDiscrete:
    return MultiDiscrete("gymnasium", describe(np.array(sizes)), None, "<i8", None)


def multi_binary(*shape: int) -> MultiBinary:
    return MultiBinary("gymnasium", shape, "|i1", None)


def dict_space(**parts: Space) -> DictSpace:
    return DictSpace("gymnasium", parts, None)


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


class Model:
    """A graph under construction: the parts of a policy that tests need, with the steps of SB3.

    :param observations: the space; each part is cast to float32 and flattened, and multiplied by a matrix
    """

    def __init__(self, observations: Space, actions: Space, family: Family = "sb3") -> None:
        self.builder = GraphBuilder(Budget())
        self.observations, self.actions, self.family = observations, actions, family
        self.outputs: dict[str, Value] = {}

    def observe(self, space: Space, name: str = "observation", key: str | None = None) -> Value:
        add = self.builder.add
        if isinstance(space, (Discrete, MultiDiscrete)):
            value = self.builder.input(Input(name, "int64", space.shape, key=key))
            if isinstance(space, Discrete):
                return add("OneHot", value, depth=space.n)
            parts = [add("Slice", value, axis=-1, start=at, end=at + 1) for at in range(space.shape[0])]
            hot = [
                add("Reshape", add("OneHot", part, depth=int(size)), shape=(int(size),))
                for part, size in zip(parts, np.asarray(space.nvec))
            ]
            return add("Concat", *hot, axis=-1)
        dtype = np.dtype(space.dtype).name  # type: ignore[attr-defined]
        value = self.builder.input(Input(name, dtype, space.shape, key=key))  # type: ignore[attr-defined]
        if dtype != "float32":
            value = add("Cast", value, to="float32")
        return add("Reshape", value, shape=(int(np.prod(value.shape)),))

    def features(self) -> Value:
        if isinstance(self.observations, DictSpace):
            parts = [self.observe(space, f"observation.{key}", key) for key, space in self.observations.spaces.items()]
            return self.builder.add("Concat", *parts, axis=-1)
        return self.observe(self.observations)

    def weight(self, name: str, array: np.ndarray) -> Value:
        return self.builder.weight(name, describe(array), "test")

    def linear(self, value: Value, outputs: int, name: str, seed: int = 0) -> Value:
        matrix = self.weight(f"{name}.weight", numbers(outputs, value.shape[0], seed=seed))
        return self.builder.add("Gemm", value, matrix, transB=True, name=name)

    def clip(self, value: Value) -> Value:
        space = self.actions
        assert isinstance(space, Box)
        low, high = (self.weight(name, np.asarray(getattr(space, name))) for name in ("low", "high"))
        value = self.builder.add("Reshape", value, shape=space.shape)
        return self.builder.add("Min", self.builder.add("Max", value, low), high, name="action")

    def build(self, sampling: Sampling, states: Sequence[State] = ()) -> PolicyModel:
        for state in states:
            self.builder.state(state)
        graph = self.builder.build(self.outputs, sampling)
        return PolicyModel(graph, self.observations, self.actions, "PPO", self.family, False)


def gaussian(observations: Space, actions: Space, **options: Any) -> PolicyModel:
    """Return PPO over a Box: ``mean`` of a matrix, a ``log_std`` for each component, clipped actions."""
    model = Model(observations, actions, **options)
    size = int(np.prod(actions.shape))  # type: ignore[attr-defined]
    mean = model.linear(model.features(), size, "mean")
    log_std = model.weight("log_std", np.linspace(-1, 0.5, size, dtype=np.float32))
    spread = model.builder.add("Identity", log_std, name="log_std output")
    model.outputs = {"action": model.clip(mean), "mean": mean, "log_std": spread}
    return model.build(Sampling("gaussian", "mean", {"mean": "mean", "log_std": "log_std"}))


def categorical(observations: Space, actions: Space, *, masked: bool = False, **options: Any) -> PolicyModel:
    """Return PPO over a Discrete or MultiDiscrete: ``logits`` of a matrix; with masks as MaskablePPO has them."""
    model = Model(observations, actions, **options)
    add = model.builder.add
    sizes = (actions.n,) if isinstance(actions, Discrete) else tuple(np.asarray(actions.nvec).tolist())  # type: ignore[attr-defined]
    logits = model.linear(model.features(), sum(sizes), "unmasked" if masked else "logits")
    if masked:
        masks = model.builder.input(Input("action_masks", "bool", (sum(sizes),), 1.0, "action_masks"))
        logits = add("Where", masks, logits, model.builder.constant(-1e8), name="logits")
    if isinstance(actions, Discrete):
        action = add("ArgMax", logits, axis=-1, name="action")
    else:
        ends = np.cumsum(sizes).tolist()
        parts = [add("Slice", logits, axis=-1, start=end - size, end=end) for end, size in zip(ends, sizes)]
        action = add("Concat", *[add("ArgMax", part, axis=-1, keepdims=True) for part in parts], axis=-1, name="action")
    model.outputs = {"action": action, "logits": logits}
    return model.build(Sampling("categorical", "action", {"logits": "logits"}, sizes))


def make_policy(model: PolicyModel, **options: Any) -> Policy:
    return Policy(model, **{"seed": 0, **options})
