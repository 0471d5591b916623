"""One rebuild while it runs: what is rebuilt, for which target, and the account of it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias

from sbformat.data import Serialized
from sbformat.errors import SbformatError, UnsupportedError, escape, quote
from sbformat.known.numbers import unpacked
from sbformat.known.values import Box, Reference
from sbformat.names.dangerous import reason
from sbformat.names.moved import of_today
from sbformat.spec import DATA_ENTRY
from sbformat.tools.rebuild.releases import POLICIES
from sbformat.tools.rebuild.report import Required, Row

if TYPE_CHECKING:
    from sbformat.archive import Archive
    from sbformat.names.pth import Pair
    from sbformat.pkl.tree import Global
    from sbformat.targets import Target
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
        self._meanings: dict[str, object] = {}
        self.rows: list[Row] = []
        self.requires: list[Required] = []
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
    def is_of_sb3(self) -> bool:
        """Whether the policy's class is one of SB3's own, whose arguments are known."""
        try:
            meaning = self.options.policy_class or self.meaning("policy_class")
        except UnsupportedError:
            return False
        return isinstance(meaning, Reference) and of_today(meaning.pair) in POLICIES

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
        return set(unpacked(space.low)) == {-1} and set(unpacked(space.high)) == {1}

    @property
    def learns_entropy(self) -> bool:
        """Whether the entropy coefficient is learned, and has an optimizer."""
        entropy = self.archive.data.get("ent_coef", "auto")
        return self.family.kind == "critics" and isinstance(entropy, str) and entropy.startswith("auto")

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

    def meaning(self, key: str) -> Any:  # noqa: ANN401 -- of any type
        """Return what a value of ``data`` means; None for a key that is not there.

        :raises UnsupportedError: when it cannot be decoded
        """
        value = self.archive.data.get(key)
        if not isinstance(value, Serialized):
            return value
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

    def dropped(self, key: str, message: str, instead: str | None = None) -> Any:  # noqa: ANN401 -- a marker
        """Tell that a key of ``data`` is dropped, and return the marker."""
        self.rows.append(Row(DATA_ENTRY, key, "dropped", message, instead))
        return DROPPED

    def unknown(self, key: str, value: object, why: str, instead: str | None = None) -> Any:  # noqa: ANN401
        """Do with a value that cannot be written anew what was asked for: drop it, keep it, or raise in the end."""
        if self.options.on_unknown == "keep":
            self.told("kept", f"copied as it is, and not clean: {why}", key=key)
            return value
        if self.options.on_unknown == "error":
            self.refused.append(f"{escape(key)}: {why}")
        return self.dropped(key, why, instead)

    def required(self, key: str, name: Global) -> None:
        """Note a class outside SB3 that the loader has to import.

        :raises UnsupportedError: when the name is known to run, open or connect
        """
        why = reason(name.pair)
        if why:
            message = f"{quote(name)} {why}"
            raise UnsupportedError(message)
        self.requires.append(Required(key, str(name)))

    def finish(self) -> None:
        """Raise what ``on_unknown="error"`` asks for.

        :raises UnsupportedError: with all that cannot be written anew
        """
        if self.refused:
            message = f"cannot be written without what is not known: {'; '.join(self.refused)}"
            raise UnsupportedError(message, entry=DATA_ENTRY)
