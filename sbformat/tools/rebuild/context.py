"""One rebuild while it runs: what is rebuilt, for which target, and the account of it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias

from sbformat.constants import DATA_ENTRY, ENTROPY_LEARNERS
from sbformat.errors import SbformatError, UnsupportedError, escape
from sbformat.globals.renamed import current_name
from sbformat.pkl.tree import Global
from sbformat.policies.entropy import fixed_coefficient
from sbformat.tools.rebuild.allowed import Allowed
from sbformat.tools.rebuild.releases import is_hyperparameter
from sbformat.tools.rebuild.report import Row
from sbformat.tools.rebuild.standard_policies import standard_policy
from sbformat.values.numbers import unpack_items
from sbformat.values.render import render_line
from sbformat.values.types import Box, Reference

if TYPE_CHECKING:
    from sbformat.archive.archive import Archive
    from sbformat.globals.releases import Target
    from sbformat.globals.torch import Pair
    from sbformat.tools.rebuild.hindsight import Hindsight
    from sbformat.tools.rebuild.networks import Network
    from sbformat.tools.rebuild.releases import Family
    from sbformat.tools.rebuild.report import Action

OnUnknown: TypeAlias = Literal["drop", "keep", "error"]

DROPPED: Final = object()
"""Stands for a value that does not go into the result."""


class Options(NamedTuple):
    """What was asked for."""

    target: Target
    on_unknown: OnUnknown
    policy_class: Reference | None
    keep_system_info: bool
    given: frozenset[str]
    allow: frozenset[str] = frozenset()


class Job:
    """A rebuild.

    :param archive: what is rebuilt
    :param algorithm: that loads the result
    :param family: of the algorithm
    :param options: what was asked for
    :param replaced: values by key of ``data`` that take the place of the archive's
    """

    def __init__(
        self, archive: Archive, algorithm: str, family: Family, options: Options, replaced: dict[str, Any]
    ) -> None:
        self.archive = archive
        self.algorithm = algorithm
        self.family = family
        self.options = options
        self.replaced = replaced
        self.hindsight: Hindsight | None = None
        """What the observation was made of, in an archive of HER before SB3 1.1."""
        self.lost = ""
        """Why that cannot be told."""
        self.last_rate: float | None = None
        """The learning rate that the first optimizer had in the end."""
        self.facts: dict[str, tuple[object, str]] = {}
        """Arguments that the policy needs to have the layers that are there, and why."""
        self.replaced_policy = ""
        """Why SB3's standard policy takes the place of the archive's."""
        self._meanings: dict[str, object] = {}
        self.rows: list[Row] = []
        self.allowed = Allowed(options.allow)
        """Names outside the tables that may be kept."""
        self.arguments: dict[str, Any] | None = {}
        """Of the policy, as they are in the result; None when they cannot be read there."""
        self.refused: list[str] = []
        """What ``on_unknown="error"`` raises in the end."""

    @property
    def target(self) -> Target:
        """The release that is written for."""
        return self.options.target

    @property
    def source(self) -> tuple[int, int]:
        """The release that wrote the archive; 0.0 before SB3 0.9."""
        try:
            match = re.match(r"([0-9]{1,3})\.([0-9]{1,3})", self.archive.stable_baselines3_version or "")
        except SbformatError:
            match = None
        return (int(match[1]), int(match[2])) if match else (0, 0)

    @property
    def policy(self) -> Reference | None:
        """The policy of SB3 in the result, by its name of today; None for one whose class is not known."""
        given = self.options.policy_class
        if given is None and self.hindsight is not None:
            given = Reference(*self.family.policies["MultiInputPolicy"])
        if given is None:
            given = self.known_policy or (None if self.keeps_policy else standard_policy(self))
        return given if given is not None and given.pair in self.family.policies.values() else None

    @property
    def known_policy(self) -> Reference | None:
        """The policy of the archive by its name of today, when it is one that SB3 has for the algorithm."""
        try:
            meaning = self.meaning("policy_class")
        except UnsupportedError:
            return None
        if isinstance(meaning, str) and meaning in self.family.policies:
            return Reference(*self.family.policies[meaning])
        known = Reference(*current_name(meaning.pair)) if isinstance(meaning, Reference) else None
        return known if known is not None and known.pair in self.family.policies.values() else None

    @property
    def keeps_policy(self) -> bool:
        """Whether a class that is not known stays, or the loader brings one."""
        if "policy_class" in self.options.given or self.options.on_unknown == "keep":
            return True
        try:
            meaning = self.meaning("policy_class")
        except UnsupportedError:
            return False
        return isinstance(meaning, (Global, Reference)) and meaning in self.allowed

    @property
    def is_of_sb3(self) -> bool:
        """Whether the policy's class is one of SB3's own, whose arguments are known."""
        return self.policy is not None

    @property
    def is_a2c_of_0_6(self) -> bool:
        """Whether it is of SB3 0.6, where A2C was a PPO and wrote its keys."""
        return self.algorithm == "A2C" and "_current_progress" in self.archive.data

    @property
    def always_squashes(self) -> bool:
        """Whether the policy's output was squashed, whatever it was told: ARS's before SB3 1.7, but for the linear."""
        return (
            self.algorithm == "ARS"
            and self.source < (1, 7)
            and self.meaning("policy_class") == Reference("sb3_contrib.ars.policies", "ARSPolicy")
        )

    @property
    def acts_within_one(self) -> bool:
        """Whether every action lies between -1 and 1, so that scaling it changes nothing."""
        space = self.meaning("action_space")
        if not isinstance(space, Box):
            return True
        return set(unpack_items(space.low)) == {-1} and set(unpack_items(space.high)) == {1}

    @property
    def learns_entropy(self) -> bool:
        """Whether the entropy coefficient is learned, and has an optimizer."""
        entropy = self.replaced["ent_coef"] if "ent_coef" in self.replaced else self.readable("ent_coef")
        return self.algorithm in ENTROPY_LEARNERS and fixed_coefficient(entropy) is None

    @property
    def counts_in_numbers(self) -> bool:
        """Whether the policy's optimizer counts its steps in a whole number: SB3's own RMSprop."""
        optimizer = self._argument("optimizer_class")
        return isinstance(optimizer, Reference) and optimizer.name == "RMSpropTFLike"

    def _argument(self, name: str) -> object:
        """Return an argument of the policy as the archive has it, or None."""
        try:
            arguments = self.meaning("policy_kwargs")
        except UnsupportedError:
            return None
        return arguments.get(name) if isinstance(arguments, dict) else None

    def meaning(self, key: str) -> Any:
        """Return what a value of ``data`` means; None for a key that is not there.

        :raises UnsupportedError: when it cannot be decoded
        """
        if key not in self.archive.data:
            return None
        if key not in self._meanings:
            try:
                self._meanings[key] = self.archive.decode(key)
            except SbformatError as error:
                message = f"it cannot be decoded: {error.message}"
                raise UnsupportedError(message) from None
        return self._meanings[key]

    def note_network(self, network: Network) -> None:
        """Note the arguments that the layers of a network ask for, where today's defaults are others."""
        if network.net_arch is not None:
            self.facts["net_arch"] = network.net_arch, "the layers of both networks, none of them shared"
        if network.sizes is not None and self._argument("net_arch") is None:
            self.facts["net_arch"] = network.sizes, "the layers that are there, which were the default once"
        if network.shares_extractor and self._argument("share_features_extractor") is None:
            self.facts["share_features_extractor"] = True, "the default before SB3 1.6"

    def note_optimizer(self, pair: Pair | None) -> None:
        """Note the class of the policy's optimizer, where the archive does not say it."""
        if pair is not None and self._argument("optimizer_class") is None:
            self.facts["optimizer_class"] = Reference(*pair), "the class that the optimizer's options tell"

    def told(self, action: Action, message: str, *, key: str | None = None, entry: str = DATA_ENTRY) -> None:
        """Add a row to the account."""
        self.rows.append(Row(entry, key, action, message))

    def dropped(
        self, key: str, message: str, instead: str | None = None, *, was: object = None, is_finding: bool | None = None
    ) -> Any:
        """Report that a key of ``data`` is dropped, and return the marker.

        :param was: the value, where it can be read
        :param is_finding: whether the agent computes or trains with it; by the key, when None
        """
        if is_finding is None:
            is_finding = is_hyperparameter(key.partition("/")[0], self.algorithm)
        is_name = isinstance(was, (Global, Reference))
        shown = None if was is None else escape(str(was) if is_name else render_line(was), 200)
        self.rows.append(Row(DATA_ENTRY, key, "dropped", message, instead, shown, is_finding))
        return DROPPED

    def unknown(self, key: str, value: object, why: str, instead: str | None = None, *, was: object = None) -> Any:
        """Do with a value that cannot be written anew what was requested: drop it, keep it, or raise in the end."""
        if self.options.on_unknown == "keep":
            self.told("kept", f"copied as it is, and not clean: {why}", key=key)
            return value
        if self.options.on_unknown == "error":
            self.refused.append(f"{escape(key)}: {why}")
        return self.dropped(key, why, instead, was=self.readable(key) if was is None else was)

    def lost_options(self, entry: str, message: str) -> None:
        """Report that an optimizer's options were not those of its class."""
        instead = "what SB3 gives a new one"
        self.rows.append(Row(entry, "param_groups", "dropped", message, instead, None, is_finding=True))

    def readable(self, key: str) -> object:
        """Return what a value of ``data`` means, or None when it cannot be decoded."""
        try:
            return self.meaning(key)
        except UnsupportedError:
            return None

    def finish(self) -> None:
        """Raise what ``on_unknown="error"`` asks for.

        :raises UnsupportedError: with all that cannot be written anew
        """
        if self.refused:
            message = f"cannot be written without what is not known: {'; '.join(self.refused)}"
            raise UnsupportedError(message, entry=DATA_ENTRY)
