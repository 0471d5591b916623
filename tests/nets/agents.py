"""Agents of SB3 for tests, of any policy and release, with drawn weights: as SB3 writes them, without torch."""

from __future__ import annotations

import functools
import pickle
from typing import TYPE_CHECKING, Any

import numpy as np

import sbformat
from sbformat import Archive, Serialized
from sbformat.known.types import Reference
from sbformat.limits import Budget, Limits
from sbformat.nets.arguments import Agent
from sbformat.nets.building import build_sb3_policy
from sbformat.nets.reading import match_network
from sbformat.nets.sb3 import POLICIES, make_policy
from sbformat.policies.builder import Given, PolicyModel
from sbformat.values import encode
from tests.helpers.bundled import PPO, set_data
from tests.policies.run.models import box

if TYPE_CHECKING:
    from sbformat.known.spaces import Space

NEWEST = (2, 9)
DRAWN: dict[tuple[Any, ...], Archive] = {}
"""The agents with drawn weights that tests have made, by their arguments."""


def find_policy(name: str) -> tuple[str, str]:
    """The policy class of a name such as ``sac.SACPolicy``."""
    package, _, last = name.rpartition(".")
    return next(pair for pair in POLICIES if pair[1] == last and f".{package or 'common'}." in f".{pair[0]}.")


def expected_parameters(source: Archive | Agent) -> dict[str, tuple[int, ...]]:
    """Names and shapes of the state dict that SB3 makes, in its order."""
    parameters = make_policy(source).parameters() if isinstance(source, Agent) else match_network(source).parameters
    return {parameter.name: tuple(map(int, parameter.shape)) for parameter in parameters}


def draw_weights(agent: Agent, seed: int = 0) -> dict[str, np.ndarray]:
    """Tensors of the names and shapes that SB3 makes; two names of one tensor have one array."""
    generator = np.random.default_rng(seed)
    made: dict[str, np.ndarray] = {}
    for parameter in make_policy(agent).parameters():
        if parameter.same_as is not None:
            made[parameter.name] = made[parameter.same_as]
        elif parameter.name.endswith("ra_var"):
            made[parameter.name] = generator.uniform(0.5, 2, parameter.shape).astype("f4")
        elif parameter.name.endswith("steps"):
            made[parameter.name] = np.array(7)
        else:
            spread = 0.7 / np.sqrt(max(1, int(np.prod(parameter.shape[1:]))))
            made[parameter.name] = generator.normal(0, spread, parameter.shape).astype("f4")
    return made


@functools.cache
def base() -> Archive:
    """What all agents are made of."""
    return sbformat.read(PPO).without("policy.optimizer.pth")


def make_agent(
    policy: str = "ActorCriticPolicy",
    observations: Space | None = None,
    actions: Space | None = None,
    *,
    release: tuple[int, int] = NEWEST,
    use_sde: bool = False,
    weights: dict[str, np.ndarray] | None = None,
    data: dict[str, Any] | None = None,
    **kwargs: Any,
) -> Archive:
    """An archive with ``policy_kwargs``, and nothing that no policy needs.

    :param weights: by default drawn
    :param data: other keys of ``data``
    """
    pair = find_policy(policy)
    if use_sde and "full_std" not in POLICIES[pair].arguments:
        kwargs["use_sde"] = True
    agent = Agent(pair, observations or box(3), actions or box(2), kwargs, use_sde, release)
    values = {
        "policy_class": Serialized(None, encode(Reference(*pair))),
        "observation_space": Serialized(None, encode(agent.observation_space)),
        "action_space": Serialized(None, encode(agent.action_space)),
        "policy_kwargs": Serialized(None, encode(kwargs)),
        "use_sde": use_sde,
        **(data or {}),
    }
    key = (release, use_sde, *(getattr(value, "pickle", b"") for value in values.values()))
    is_drawn = weights is None and data is None
    made = DRAWN.get(key) if is_drawn else None
    if made is None:
        version = f"{release[0]}.{release[1]}.0" if release >= (0, 9) else None
        parameters = {"policy": draw_weights(agent) if weights is None else weights}
        made = set_data(base(), values).replace(parameters=parameters, stable_baselines3_version=version)
        if is_drawn:
            DRAWN[key] = made
    return Archive(made._entries, made._kind, Budget(Limits()), made._options)  # nothing of it is decoded


def with_class(archive: Archive, argument: str, name: str) -> Archive:
    """The archive with a class of somebody's in ``policy_kwargs``, and nothing else there."""
    module, _, last = name.rpartition(".")
    pickled = b"\x80\x02}X" + len(argument).to_bytes(4, "little") + argument.encode()
    pickled += f"c{module}\n{last}\n".encode() + b"s."
    return archive.replace(data={**archive.data, "policy_kwargs": Serialized(None, pickled)})


def with_policy_class(archive: Archive, name: str) -> Archive:
    """The archive with somebody's policy class."""
    module, _, last = name.rpartition(".")
    return archive.replace(data={**archive.data, "policy_class": Serialized(None, f"c{module}\n{last}\n.".encode())})


def lone(archive: Archive) -> Archive:
    """The archive with its ``policy.pth`` alone."""
    return archive.without(*(name for name in archive.entries if name != "policy.pth"))


def with_kwargs(archive: Archive, **kwargs: Any) -> Archive:
    """The archive with arguments of its policy as Python pickles them: scalars of numpy stay what they are."""
    pickled = pickle.dumps({**archive.decode("policy_kwargs"), **kwargs}, protocol=4)
    return archive.replace(data={**archive.data, "policy_kwargs": Serialized(None, pickled)})


def saved_policy(archive: Archive, **arguments: Any) -> Archive:
    """What ``policy.save()`` writes for the policy of an archive: spaces and arguments, without its class."""
    spaces = {key: archive.data[key] for key in ("observation_space", "action_space")}
    made = archive.replace(data={**spaces, **arguments})
    return Archive(made._entries, "policy-file", Budget(Limits()), made._options)


def build(archive: Archive, limits: Limits | None = None, **given: Any) -> PolicyModel:
    """The graph of an archive."""
    return build_sb3_policy(archive, Given(**given), Budget(limits or Limits()))


def weights_of(archive: Archive) -> dict[str, np.ndarray]:
    return archive.parameters["policy"].to_numpy()


def draw(*shape: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype("f4")


def dense(weights: dict[str, np.ndarray], module: str, value: np.ndarray) -> np.ndarray:
    """A linear layer, as torch computes it."""
    return value @ weights[f"{module}.weight"].T + weights.get(f"{module}.bias", 0)
