"""``Settings``: what the tensors of a policy do not determine, from ``data`` and from the caller."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias

from sbformat.constants import DATA_ENTRY, POLICY_ENTRY
from sbformat.errors import SbformatError, UnsupportedError, ValidationError, escape, quote
from sbformat.known.numpy import to_number
from sbformat.known.rows import UnrecognizedError
from sbformat.known.types import Partial, Reference
from sbformat.nets.wrappers import unwrap_policy
from sbformat.policies.sb3.activations import Activation
from sbformat.policies.shapes import POLICIES, PRESETS, dqn_and_ars, match_network, on_policy, read_agent, sac_and_td3
from sbformat.policies.shapes.activations import ACTIVATIONS, FLATTEN_LAYER, RELU, TANH
from sbformat.policies.shapes.arguments import Arguments
from sbformat.policies.shapes.extractors import require_choices
from sbformat.policies.shapes.mismatches import read_shapes
from sbformat.policies.shapes.parameters import decode_value, read_policy_class
from sbformat.policies.shapes.saved_policy import list_saved_agents, match_saved_policy
from sbformat.policies.shapes.sizes import unknown_value_error, wrong_value_error

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sbformat.archive.archive import Archive
    from sbformat.pkl.names import Pair
    from sbformat.policies.model import Given
    from sbformat.policies.shapes import Agent, NetworkMatch

Kind: TypeAlias = Literal[
    "actor_critic", "maskable", "recurrent", "q_network", "quantile_network", "sac", "td3", "tqc", "crossq", "ars",
    "ars_linear",
]  # fmt: skip
"""The kind of a policy: what it computes, whatever its features extractor."""

KINDS: Final[Mapping[Callable[..., Any], Kind]] = {
    on_policy.actor_critic: "actor_critic",
    on_policy.maskable: "maskable",
    on_policy.recurrent: "recurrent",
    dqn_and_ars.q_network: "q_network",
    dqn_and_ars.quantile_network: "quantile_network",
    dqn_and_ars.ars: "ars",
    dqn_and_ars.ars_linear: "ars_linear",
    sac_and_td3.sac: "sac",
    sac_and_td3.td3: "td3",
    sac_and_td3.tqc: "tqc",
    sac_and_td3.crossq: "crossq",
}
"""Kinds by the function that returns the expected tensors."""
ON_POLICY: Final = frozenset({"actor_critic", "maskable", "recurrent"})
WHAT_WORKS: Final = (
    "its parameters can be read with read_parameters; to run it, pass what is not known to load_policy: a part as a "
    "function of arrays, as in modules={'features_extractor': function}, or policy_class='...' "
    "(--policy-class), the class of SB3 that a custom policy class extends"
)
"""What can be had from a policy that is not known."""
_MOST_LISTED: Final = 5
"""Differences in a message."""


class Settings(NamedTuple):
    """What decides on a policy's graph beside its tensors."""

    kind: Kind
    agent: Agent
    rate: float = 0.0
    """The share of random actions of DQN and QR-DQN, ``exploration_rate`` of ``data``."""

    @property
    def arguments(self) -> Arguments:
        """The arguments of the policy."""
        return Arguments(self.agent.policy_kwargs)

    def flag(self, name: str, *, default: bool) -> bool:
        """Return whether an argument of the policy is true."""
        return self.arguments.flag(name, default=default)

    def number(self, name: str, default: float) -> float:
        """Return an argument of the policy that is a number.

        :raises NetworkError: when it is something else
        """
        return read_number(self.arguments.values.get(name, default), self.arguments.key(name))

    def activation(self) -> Activation:
        """Return ``activation_fn``: by default Tanh for on-policy algorithms, ReLU for the others.

        :raises UnsupportedError: when it is not known
        """
        default = TANH if self.kind in ON_POLICY else RELU
        value: Any = self.arguments.values.get("activation_fn", Reference(*default))
        given: dict[str, Any] = {}
        if type(value) is Partial:
            pair = value.function.pair if isinstance(value.function, Reference) else ("", "")
            given = {**dict(zip(ACTIVATIONS.get(pair, ()), value.args)), **value.keywords}
            value = value.function
        if not isinstance(value, Reference) or value.pair not in {*ACTIVATIONS, FLATTEN_LAYER}:
            raise unknown_value_error(value, self.arguments.key("activation_fn"))
        return Activation(value.name, {name: _plain(part) for name, part in given.items()})


def read_number(value: object, key: str) -> float:
    """Return a number of ``data``; a numpy scalar is one, too.

    :raises NetworkError: when it is something else, or an integer of more than 64 bits, which torch refuses
    """
    try:
        return float(to_number(value, key))
    except UnrecognizedError:
        raise wrong_value_error(value, key, "a number of at most 64 bits") from None


def _plain(value: object) -> object:
    with suppress(UnrecognizedError):
        return to_number(value, "argument")
    return value


# -- reading ------------------------------------------------------------------------------------------


def read_settings(archive: Archive, given: Given, inferred: Pair | None) -> Settings:
    """Return the settings of an archive with ``data``, or of a file of ``policy.save()``.

    The names and shapes of its tensors are those that SB3 makes for them, except within a features extractor that the
    caller supplies.

    :param given: what the caller supplies
    :param inferred: the policy class that the names of the tensors suggest
    :raises UnsupportedError: when the network is not known
    :raises ValidationError: when names or shapes differ, with the differences
    """
    replaced = _replaced(given, inferred)
    _require_all_given(archive, replaced)
    try:
        if any("extractor" in name for name in given.modules) or is_extended(archive, given):
            agent = _read_unchecked(archive, replaced, inferred)
        elif archive.format == "policy-file":
            agent = _match_saved(archive, replaced)
        else:
            _require_known_class(archive, replaced)
            agent = _checked(match_network(archive, replaced))
    except UnsupportedError as error:
        message = f"{error.message}; {WHAT_WORKS}"
        raise UnsupportedError(message, entry=error.entry) from None
    if archive.format == "policy-file":
        _require_squash_output(agent)
        return make_settings(agent)
    rate = decode_value(archive, "exploration_rate")
    return make_settings(agent, 0.0 if rate is None else read_number(rate, "exploration_rate"))


def _require_all_given(archive: Archive, replaced: dict[str, Any]) -> None:
    """Ask the caller for what ``data`` does not have; SB3 writes it unless it is told to leave it out.

    :raises UnsupportedError: with the keywords of ``load_policy``
    """
    needed: tuple[str, ...] = ("observation_space", "action_space")
    if archive.format != "policy-file":
        needed = ("policy_class", *needed)
    missing = [f"{key}=..." for key in needed if key not in archive.data and key not in replaced]
    if missing:
        message = f"data is incomplete: pass {', '.join(missing)} to load_policy"
        raise UnsupportedError(message, entry=DATA_ENTRY)


def make_settings(agent: Agent, rate: float = 0.0) -> Settings:
    """Return settings for a known policy class.

    :raises NetworkError: for a space that contains nothing
    """
    for key in ("observation_space", "action_space"):
        require_choices(getattr(agent, key), key)
    return Settings(KINDS[POLICIES[agent.policy_class].network], agent, rate)


def is_extended(archive: Archive, given: Given) -> bool:
    """Return whether the policy class is a custom one that the caller treats as the one it extends."""
    if given.policy_class is None or archive.format == "policy-file":
        return False
    try:
        return read_policy_class(archive) not in {*POLICIES, *PRESETS}
    except SbformatError:
        return True


def _read_unchecked(archive: Archive, replaced: Mapping[str, Any], inferred: Pair | None) -> Agent:
    """Return the agent of a file whose network is not SB3's alone: names and shapes of its tensors decide."""
    if archive.format == "policy-file":
        agents = list_saved_agents(archive, {"policy_class": inferred, **replaced})
        agent = next(agents, None)
        if agent is not None:
            return agent
        message = "the file does not name its policy class: pass policy_class to load_policy"
        raise UnsupportedError(message, entry=DATA_ENTRY)
    _require_known_class(archive, replaced)
    return read_agent(archive, replaced=replaced)


def _match_saved(archive: Archive, replaced: dict[str, Any]) -> Agent:
    """Return the agent of a file of ``policy.save()``, which omits ``with_bias`` of ARS: the tensors determine it."""
    names = read_shapes(unwrap_policy(archive).state_dict)
    if all(name.startswith("action_net.") for name in names):
        has_bias = any(name.endswith(".bias") for name in names)
        replaced = {**replaced, "policy_kwargs": {"with_bias": has_bias, **replaced.get("policy_kwargs", {})}}
    return _checked(match_saved_policy(archive, replaced))


def _require_squash_output(agent: Agent) -> None:
    """Ask the caller for ``squash_output`` of ARS, which ``policy.save()`` omits and no tensor determines.

    :raises UnsupportedError: unless the agent has it, or does not need it
    """
    accepts = "with_bias" in POLICIES[agent.policy_class].arguments
    if accepts and agent.action_space.distribution == "gaussian" and "squash_output" not in agent.policy_kwargs:
        message = "policy.save() of ARS omits squash_output: pass policy_kwargs={'squash_output': ...} to load_policy"
        raise UnsupportedError(message, entry=DATA_ENTRY)


def _require_known_class(archive: Archive, replaced: Mapping[str, Any]) -> None:
    """Refuse another policy class before its arguments, which may be as unknown."""
    found = replaced.get("policy_class") or read_policy_class(archive)
    if found not in POLICIES and found not in PRESETS:
        message = f"the network of the policy class {escape('.'.join(found), 200)} is not known"
        raise UnsupportedError(message, entry=DATA_ENTRY)


def _checked(match: NetworkMatch) -> Agent:
    if match.mismatches:
        found = "; ".join(mismatch.message for mismatch in match.mismatches[:_MOST_LISTED])
        rest = len(match.mismatches) - _MOST_LISTED
        more = f"; and {rest:,} more" if rest > 0 else ""
        message = f"the tensors are not those of {match.agent.policy_class[1]}: {found}{more}"
        raise ValidationError(message, problems=match.mismatches, entry=POLICY_ENTRY)
    return match.agent


def _replaced(given: Given, inferred: Pair | None) -> dict[str, Any]:
    """Return what the caller supplies as fields of an agent."""
    kwargs = read_given_kwargs(given)
    if "activation_fn" in given.modules:  # then its class does not matter
        kwargs["activation_fn"] = Reference("torch.nn.modules.linear", "Identity")
    made = {
        "policy_class": find_policy_class(given.policy_class, inferred) if given.policy_class is not None else None,
        "observation_space": given.observation_space,
        "action_space": given.action_space,
        "policy_kwargs": kwargs if kwargs or given.policy_kwargs is not None else None,
    }
    return {key: value for key, value in made.items() if value is not None}


def read_given_kwargs(given: Given) -> dict[str, Any]:
    """Return the policy's arguments that the caller supplies, with the class of an activation for its name.

    :raises UnsupportedError: for an activation that is not in ``torch.nn``
    """
    kwargs = dict(given.policy_kwargs or {})
    name = kwargs.get("activation_fn")
    if isinstance(name, str):
        known = {pair[1]: pair for pair in ACTIVATIONS}
        if name not in known:
            message = f"expected an activation of torch.nn, got {quote(name, 80)}; available: {', '.join(known)}"
            raise UnsupportedError(message)
        kwargs["activation_fn"] = Reference(*known[name])
    return kwargs


def find_policy_class(name: str, inferred: Pair | None) -> Pair:
    """Return the policy class of a name; where several modules have it, that of the inferred class's module.

    :param name: ``ActorCriticPolicy``, with or without its module; ``MlpPolicy`` is the first class of its module
    :param inferred: the class that the names of tensors suggest
    :raises UnsupportedError: when there is no such class
    """
    found = [pair for pair in POLICIES if name in (pair[1], ".".join(pair))]
    if name in ("MlpPolicy", "LinearPolicy") and inferred is not None:
        found = [pair for pair in POLICIES if pair[0] == inferred[0]][-1 if name == "LinearPolicy" else 0 :][:1]
    if len(found) > 1:
        found = [pair for pair in found if inferred is not None and pair[0] == inferred[0]]
    if found:
        return found[0]
    message = f"expected the name of a policy class, got {quote(name, 80)}; available: "
    raise UnsupportedError(message + ", ".join(dict.fromkeys(pair[1] for pair in POLICIES)))
