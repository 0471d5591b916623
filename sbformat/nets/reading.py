"""From an archive to the network that SB3 makes for it, and how the stored tensors differ (FORMAT.md 6.8).

In: an archive, of which ``data`` and the names and shapes of tensors are read. Out: a :class:`NetworkMatch`. A file of
``policy.save()`` has the policy's arguments, not its class; then the first policy fits whose names and shapes do.
A network that is not known, and one that SB3 cannot make, count as "not checked" for a reader, never as a bad file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal

from sbformat.constants import DATA_ENTRY, ENTROPY_OPTIMIZER, POLICY_ENTRY, PTH_SUFFIX
from sbformat.errors import SbformatError, UnsupportedError, ValidationError, escape, quote
from sbformat.immutable import Record
from sbformat.known.algorithms import ALGORITHMS
from sbformat.known.changes import ERAS, candidate_releases
from sbformat.known.spaces import Space
from sbformat.known.table import current_name, list_place
from sbformat.known.types import Reference
from sbformat.nets.arguments import (
    ACTIONS,
    KWARGS,
    OBSERVATIONS,
    USE_SDE,
    Agent,
    NetworkError,
    find_unknown_class,
    is_true,
    join_keys,
    unknown_value_error,
)
from sbformat.nets.sb3 import POLICIES, PRESETS, DQNPolicy, TD3Policy, is_on_policy, make_policy
from sbformat.nets.wrappers import unwrap_policy
from sbformat.pkl.tree import Global
from sbformat.pth.values import TensorInfo

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from sbformat.archive.archive import Archive
    from sbformat.known.changes import Release
    from sbformat.nets.layers import Parameter
    from sbformat.nets.sb3 import Policy
    from sbformat.pkl.tree import Pair
    from sbformat.pth import StateDict

_KEYS: Final = (
    ("mlp_extractor.", "policy_kwargs/net_arch"),
    ("features_extractor.", "policy_kwargs/features_extractor_class and observation_space"),
    ("lstm_", "policy_kwargs/lstm_kwargs and policy_kwargs/enable_critic_lstm"),
    ("log_std", "use_sde and action_space"),
    ("qf", "policy_kwargs/n_critics and policy_kwargs/net_arch"),
)
"""Parts of names, and the keys of ``data`` that decide whether such names exist."""
_PARAMETER_SHAPED: Final = frozenset(
    name for row in list_place("optimizer_class").values() for name, kind in row.stores.items() if kind != "scalar"
)
"""Tensors of an optimizer's state that have the shape of their parameter."""
_MOST_LISTED: Final = 5


class NetworkMatch(Record):
    """The network that SB3 makes for an archive, and how the stored state dict differs from it."""

    agent: Agent
    policy: Policy
    parameters: list[Parameter]
    mismatches: tuple[Mismatch, ...]


def compare_network(agent: Agent, actual: Mapping[str, tuple[int, ...]]) -> NetworkMatch:
    """Return the network of an agent, and how stored tensors, given by names and shapes, differ from it."""
    policy = make_policy(agent)
    parameters = policy.parameters()
    return NetworkMatch(agent, policy, parameters, find_mismatches(parameters, actual))


def match_network(archive: Archive, replaced: Mapping[str, Any] | None = None) -> NetworkMatch:
    """Return the network that SB3 makes for an archive, and how the stored state dict differs.

    Where the release that wrote the archive is not certain, the one whose network differs least is taken.

    :param replaced: as in :func:`read_agent`
    """
    return _match(archive, replaced) if replaced else archive.derive("network", lambda: _match(archive, {}))


def _match(archive: Archive, replaced: Mapping[str, Any]) -> NetworkMatch:
    stored = unwrap_policy(archive)
    actual = read_shapes(stored.state_dict)
    found: list[NetworkMatch] = []
    errors: list[NetworkError] = []
    for release in candidate_releases(archive.stable_baselines3_version):
        agent = read_agent(archive, release, replaced)
        try:
            found.append(compare_network(agent, actual))
        except NetworkError as error:
            errors.append(error)
            continue
        if not found[-1].mismatches:
            break
    if not found:
        raise errors[0]
    stored.require_all()
    return min(found, key=lambda match: len(match.mismatches))


# -- reading data -------------------------------------------------------------------------------------


def read_agent(archive: Archive, release: Release | None = None, replaced: Mapping[str, Any] | None = None) -> Agent:
    """Return what decides on the network of an archive's policy.

    :param release: of SB3; by default the one that wrote the archive, or the newest when the archive names none
    :param replaced: fields of the agent that are not read; of ``policy_kwargs``, the arguments that replace the file's
    """
    replaced = replaced or {}
    policy_class = replaced.get("policy_class") or read_policy_class(archive)
    known = ALGORITHMS.get(archive.algorithm.name or "")
    kwargs: Any = known.policy_kwargs if known is not None else {}
    if KWARGS in archive.data:
        try:
            kwargs = decode_value(archive, KWARGS)
            if not isinstance(kwargs, dict) or any(type(name) is not str for name in kwargs):
                raise unknown_value_error(kwargs, KWARGS, "a dict of arguments")
        except NetworkError:
            raise
        except SbformatError:
            if KWARGS not in replaced:  # the caller may replace arguments that are not understood
                raise
            kwargs = {}
    kwargs = {**kwargs, **replaced.get(KWARGS, {})}
    if policy_class in PRESETS:
        policy_class, fixed = PRESETS[policy_class]
        kwargs = {**kwargs, **fixed}
    keys = (OBSERVATIONS, ACTIONS)
    observations, actions = (replaced.get(key) or read_space(archive, key, policy_class) for key in keys)
    use_sde = is_true(decode_value(archive, USE_SDE), USE_SDE)
    release = candidate_releases(archive.stable_baselines3_version)[0] if release is None else release
    supplied = replaced.get("supplied", {})
    return Agent(policy_class, observations, actions, kwargs, use_sde, release, supplied, archive.limits)


def decode_value(archive: Archive, key: str) -> Any:
    """Return the decoded value of a key of ``data``, which must not be changed; None for a key that is missing."""
    if key not in archive.data:
        return None
    try:
        return archive.derive(f"decoded {key}", lambda: archive.decode(key))
    except SbformatError as error:
        error.message = f"{key} cannot be decoded: {error.message}"
        error.entry = error.entry or DATA_ENTRY
        raise


def read_policy_class(archive: Archive) -> Pair:
    """Return the policy class of an archive, by its name of today; it need not be known."""
    key = "policy_class"
    value = decode_value(archive, key)
    if isinstance(value, Reference):
        return current_name(value.pair)
    if isinstance(value, Global) and not value.updates:
        return value.pair
    raise unknown_value_error(value, key)


def read_space(archive: Archive, key: str, policy_class: Pair) -> Space:
    """Return a space of ``data``."""
    value = decode_value(archive, key)
    if isinstance(value, Space):
        if value.observed:
            return value
        if policy_class in POLICIES:
            raise NetworkError(key, f"SB3 does not support {value.class_name} spaces")
    error = unknown_value_error(value, key, "a space")
    unknown = find_unknown_class(value)
    if unknown is not None:
        name = escape(unknown, 200)
        error.add_hint(f"rebuild --as {name}=gymnasium.spaces.Box writes it as a Box, if that is what it extends")
    raise error


# -- differences ----------------------------------------------------------------------------------------


class Mismatch(Record):
    """A name or a shape that differs."""

    name: str
    kind: Literal["missing", "unexpected", "shape", "count", "contradiction"]
    expected: tuple[int, ...] | None
    """None for a name that is not expected."""
    actual: tuple[int, ...] | None
    """None for a name that is missing."""
    key: str
    """The keys of ``data`` that decide on it; for a contradiction, the other name of the tensor."""

    @property
    def loc(self) -> str:
        """The tensor's path, as in other problems of a :class:`ValidationError`."""
        return self.name

    @property
    def message(self) -> str:
        """A sentence."""
        because = f" (from {self.key})" if self.key else ""
        name = quote(self.name, 120)
        if self.kind == "missing":
            return f"{name} is missing: expected the shape {self.expected}{because}"
        if self.kind == "unexpected":
            return f"{name} is unexpected{because}; its shape is {self.actual}"
        if self.kind == "contradiction":
            return f"{name} contradicts {quote(self.key, 120)}: they are one tensor in SB3, but their values differ"
        if self.kind == "count":
            groups = f"groups of {self.actual}" if len(self.actual or ()) != 1 else f"{(self.actual or (0,))[0]:,}"
            return f"expected one group of {(self.expected or (0,))[0]:,} parameters{because}, got {groups}"
        return f"{name}: expected the shape {self.expected}{because}, got {self.actual}"


def misfit_error(match: NetworkMatch) -> ValidationError:
    """Return the error for tensors that are not those of the network, with the first differences."""
    message = f"the tensors are not those of {match.agent.policy_class[1]}: {describe_mismatches(match.mismatches)}"
    return ValidationError(message, problems=match.mismatches, entry=POLICY_ENTRY)


def describe_mismatches(mismatches: Sequence[Mismatch]) -> str:
    """Return the first differences for a message, and the number of the others."""
    found = "; ".join(mismatch.message for mismatch in mismatches[:_MOST_LISTED])
    rest = len(mismatches) - _MOST_LISTED
    return f"{found}; and {rest:,} more" if rest > 0 else found


def read_shapes(state_dict: StateDict) -> dict[str, tuple[int, ...]]:
    """Return the names and shapes of a policy's state dict."""
    tree = state_dict.tree
    if isinstance(tree, dict) and {"state", "param_groups"} <= tree.keys():
        raise UnsupportedError("expected the state dict of a policy, got that of an optimizer", entry=state_dict.entry)
    if not isinstance(tree, dict):
        raise UnsupportedError("expected a dict of tensors", entry=POLICY_ENTRY)
    made = {}
    for name, value in tree.items():
        if type(name) is not str or not isinstance(value, TensorInfo):
            raise UnsupportedError(f"{quote(name, 80)} is not a tensor", entry=POLICY_ENTRY)
        made[name] = tuple(value.shape)
    return made


def find_mismatches(parameters: Iterable[Parameter], actual: Mapping[str, tuple[int, ...]]) -> tuple[Mismatch, ...]:
    """Return the names and shapes of a network and of a state dict that differ; order does not matter."""
    found = []
    expected = {parameter.name: parameter.shape for parameter in parameters}
    for name, shape in expected.items():
        have, plain = actual.get(name), tuple(map(int, shape))
        if have is None:
            found.append(Mismatch(name, "missing", plain, None, join_keys(shape) or _guess_keys(name)))
        elif have != plain:
            wrong = [size for size, other in zip(shape, have) if size != other] if len(shape) == len(have) else shape
            found.append(Mismatch(name, "shape", plain, have, join_keys(wrong)))
    for name, have in actual.items():
        if name not in expected:
            found.append(Mismatch(name, "unexpected", None, have, _guess_keys(name)))
    return tuple(found)


def find_contradictions(state_dict: StateDict, parameters: Iterable[Parameter]) -> Iterator[Mismatch]:
    """Yield the tensors whose two names have different values; in SB3 both names are one tensor."""
    from sbformat.pth.compare import equal

    for parameter in parameters:
        if parameter.same_as is None:
            continue
        tensors = (state_dict.tree[name] for name in (parameter.name, parameter.same_as))
        one, other = (tensor._replace(requires_grad=False, is_parameter=False, state=None) for tensor in tensors)
        if not equal(one, other, state_dict.new_budget(), state_dict.new_budget()):
            shape = tuple(map(int, parameter.shape))
            yield Mismatch(parameter.name, "contradiction", shape, shape, parameter.same_as)


def _guess_keys(name: str) -> str:
    return next((key for part, key in _KEYS if part in name), "policy_class and policy_kwargs")


# -- files of policy.save() -----------------------------------------------------------------------------


def match_saved_policy(archive: Archive, replaced: Mapping[str, Any] | None = None) -> NetworkMatch:
    """Return the network of a file of ``policy.save()``: that of the first policy whose names and shapes fit.

    Policies with the fewest arguments that the file does not have come first: the masked actor-critic's arguments are
    among those of ``ActorCriticPolicy``. A file that none fits may still be correct: the policy may be a custom one.

    :param replaced: as in :func:`read_agent`
    """
    stored = unwrap_policy(archive)
    actual = read_shapes(stored.state_dict)
    nearest: tuple[int, str] | None = None
    unknown: UnsupportedError | None = None
    for agent in list_saved_agents(archive, replaced or {}):
        try:
            match = compare_network(agent, actual)
        except NetworkError as error:
            nearest = nearest or (len(actual) + 1, f"{error.key}: {error.message}")
            continue
        except UnsupportedError as error:  # in this release, or in this policy
            unknown = unknown or error
            continue
        if not match.mismatches:
            return match
        if nearest is None or len(match.mismatches) < nearest[0]:
            count = len(match.mismatches)
            more = f", and {count - 1:,} more" if count > 1 else ""
            difference = match.mismatches[0].message + more
            nearest = count, f"the nearest is {agent.policy_class[1]}, which differs: {difference}"
    if unknown is not None and nearest is None:
        raise unknown
    stored.require_all()
    why = f"; {nearest[1]}" if nearest else ""
    message = f"the file does not name its policy class, and no policy of SB3 with these arguments fits{why}"
    raise UnsupportedError(message, entry=DATA_ENTRY)


def list_saved_agents(archive: Archive, replaced: Mapping[str, Any]) -> Iterator[Agent]:
    """Yield an agent for every policy and release that accepts the arguments of a file of ``policy.save()``."""
    others = (OBSERVATIONS, ACTIONS, "lr_schedule")
    arguments = {key: decode_value(archive, key) for key in archive.data if key not in others}
    arguments.update(replaced.get(KWARGS, {}))
    for pair, row in sorted(POLICIES.items(), key=lambda item: len(item[1].arguments - arguments.keys())):
        if replaced.get("policy_class") not in (None, pair):
            continue
        kwargs = dict(arguments)
        use_sde = is_on_policy(pair) and is_true(kwargs.pop(USE_SDE, None), USE_SDE)
        for release in ERAS:
            if kwargs.keys() <= row.argument_names(release):
                keys = (OBSERVATIONS, ACTIONS)
                observations, actions = (replaced.get(key) or read_space(archive, key, pair) for key in keys)
                supplied = replaced.get("supplied", {})
                yield Agent(pair, observations, actions, kwargs, use_sde, release, supplied, archive.limits)


# -- optimizers -----------------------------------------------------------------------------------------


def find_optimizer_mismatches(archive: Archive, match: NetworkMatch) -> Iterator[tuple[str, Mismatch]]:
    """Yield how the entries of the optimizers differ from the policy's parameters, each with the entry's name.

    The optimizer of a parameter that was computed from others is not compared: it may have been made before or after
    the others replaced it.
    """
    computed = unwrap_policy(archive).computed
    for name in archive.parameters:
        options: list[list[tuple[int, ...]]] = [[(1,)]]
        if name != ENTROPY_OPTIMIZER:
            lists = optimized_parameters(match.agent, match.parameters, name)
            options = [[parameter.shape for parameter in parameters] for parameters in lists]
            if any(parameter.name in computed for parameters in lists for parameter in parameters):
                continue
        tree: Any = archive.parameters[name].tree if options else None
        if not is_optimizer_tree(tree):
            continue
        groups = tree["param_groups"]
        if any(type(number) is not int for group in groups for number in group["params"]):
            continue
        counts = [len(group["params"]) for group in groups]
        shapes = next((option for option in options if [len(option)] == counts), None)
        entry = name + PTH_SUFFIX
        if shapes is None:
            yield entry, Mismatch("param_groups", "count", (len(options[0]),), tuple(counts), KWARGS)
            continue
        for number, shape in zip(groups[0]["params"], shapes):
            state, plain = tree["state"].get(number), tuple(map(int, shape))
            for item, tensor in state.items() if isinstance(state, dict) else ():
                is_shaped = type(item) is str and item in _PARAMETER_SHAPED and isinstance(tensor, TensorInfo)
                if is_shaped and tuple(tensor.shape) != plain:
                    place = f"state/[{number}]/{item}"
                    yield entry, Mismatch(place, "shape", plain, tuple(tensor.shape), "policy.pth")


def is_optimizer_tree(tree: Any) -> bool:
    """Return whether a tree has the structure of an optimizer's state dict: ``state`` and ``param_groups``."""
    return (
        isinstance(tree, dict)
        and isinstance(tree.get("state"), dict)
        and isinstance(tree.get("param_groups"), list)
        and all(isinstance(group, dict) and isinstance(group.get("params"), list) for group in tree["param_groups"])
    )


def online_network(pair: Pair) -> str | None:
    """Return what the names of the online network begin with, for a policy class that also has a target network."""
    network = POLICIES[pair].network
    return f"{network.network}." if issubclass(network, DQNPolicy) else None


def optimized_parameters(agent: Agent, parameters: Iterable[Parameter], name: str) -> list[list[Parameter]]:
    """Return the lists of parameters that an optimizer may have, each in the optimizer's order.

    :return: one list; for DQN and QRDQN two: those of the online network alone, then those of both
        networks; empty for an optimizer that is not known
    """
    own = [parameter for parameter in parameters if not parameter.is_buffer]
    if name == "policy.optimizer":
        everything = [parameter for parameter in own if not parameter.same_as]
        online = online_network(agent.policy_class)
        if online is None:
            return [everything]
        return [[parameter for parameter in own if parameter.name.startswith(online)], everything]
    module, _, word = name.partition(".")
    if word != "optimizer" or module not in ("actor", "critic"):
        return []
    inside = [parameter for parameter in own if parameter.name.startswith(f"{module}.")]
    has_all = issubclass(POLICIES[agent.policy_class].network, TD3Policy)  # also of an extractor that is the actor's
    if module == "critic" and not has_all and agent.shares_extractor():
        inside = [parameter for parameter in inside if "features_extractor" not in parameter.name]
    return [inside] if inside else []
