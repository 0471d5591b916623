"""``RebuildContext``: what is rebuilt, for which release and with which options, and the rows of the report so far.

Every handler of a key or an entry gets the context, asks it for decoded values and for the policy of the result, and
reports to it what became of its key. :class:`Advice` has the clauses of messages that name an option: ``rebuild`` has
options on the command line and arguments in Python, ``sbformat.sb3.load`` only ``custom_objects`` and ``allow``.
"""

from __future__ import annotations

import json
from contextlib import suppress
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from sbformat.constants import DATA_ENTRY
from sbformat.data import Serialized
from sbformat.errors import SbformatError, UnsupportedError, escape
from sbformat.immutable import Record, thaw
from sbformat.known.algorithms import ALGORITHMS, ENTROPY_LEARNERS
from sbformat.known.changes import UNKNOWN, parse_release
from sbformat.known.spaces import Space
from sbformat.known.table import current_name
from sbformat.known.types import ConstantSchedule, Reference
from sbformat.nets.entropy import KEY as ENTROPY_KEY
from sbformat.nets.entropy import fixed_coefficient
from sbformat.nets.sb3 import PRESETS
from sbformat.schema.assigned import encode_assigned
from sbformat.tools.rebuild.rebuild_report import Row, is_hyperparameter, refuse, show_name
from sbformat.tools.rebuild.trusted import Allowed, encode_value

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sbformat.archive.archive import Archive
    from sbformat.known.changes import Release
    from sbformat.known.types import LinearSchedule
    from sbformat.pkl.tree import Pair
    from sbformat.tools.rebuild.network import HerObservation
    from sbformat.tools.rebuild.rebuild_report import Action


class Advice(Record):
    """The clauses of messages that name an option."""

    is_for_load: bool

    def allow(self, name: str) -> str:
        """Return how a class or function is kept, by its dotted name."""
        shown = escape(name, 200)
        return f"allow=['{shown}'] keeps it" if self.is_for_load else f"--allow {shown} (allow=[...]) keeps it"

    def map_class(self, name: str) -> str:
        """Return how a class that is carried by value is replaced by one of a module, by its dotted name."""
        if self.is_for_load:
            return self.pass_own
        shown = escape(name, 200)
        target = f"MODULE.{shown.rpartition('.')[2]}"
        return f"--map {shown}={target} (map_names={{...}}) refers to it in a module of yours; {self.pass_own}"

    @property
    def pass_own(self) -> str:
        """How the caller's own object is passed instead of one that is carried by value."""
        given = "custom_objects={KEY: VALUE}"
        return (
            f"{given if self.is_for_load else f'sbformat.sb3.load(..., {given})'} passes your own, by its key of data"
        )

    def take_space(self, key: str, name: str) -> str:
        """Return how a space of a class that is not known is kept, or taken as the one that it extends."""
        if self.is_for_load:
            return f"custom_objects={{'{key}': SPACE}} sets a space, {self.allow(name)}"
        return f"{self.treat_space(name)}; {self.allow(name)}; --set {key}=JSON (assign={{...}}) sets a space"

    def treat_space(self, name: str) -> str:
        """Return how a space of a class that is not known is taken as the one that it extends."""
        of = " of sbformat rebuild" if self.is_for_load else ""
        option = f"--as {escape(name, 200)}=gymnasium.spaces.Box (treat_as={{...}}){of}"
        return f"{option} takes the class that it extends, if that is Box"

    def set_value(self, key: str) -> str:
        """Return how a number is set for a key of ``data``."""
        if self.is_for_load:
            return f"custom_objects={{'{key}': NUMBER}} sets one"
        return f"--set {key}=NUMBER (assign={{'{key}': NUMBER}}) sets one"

    def set_schedule(self, key: str, schedule: ConstantSchedule | LinearSchedule) -> str:
        """Return how a schedule is set for a key of ``data``."""
        if isinstance(schedule, ConstantSchedule):
            shown = repr(schedule.value)
        else:
            numbers = list(schedule) if schedule.end_fraction != 1 else [schedule.start, schedule.end]
            shown = json.dumps({"linear": numbers})
        if self.is_for_load:
            return f"custom_objects={{'{key}': {shown}}}"
        option = f"{key}={shown}"
        return f"--set {option}" if isinstance(schedule, ConstantSchedule) else f"--set '{option}'"

    @property
    def standard_policy(self) -> str:
        """How one of SB3's own policies is used instead."""
        if self.is_for_load:
            return "custom_objects={'policy_class': CLASS} uses another class"
        return "--policy-class NAME (policy_class=NAME) uses one of SB3's own"

    @property
    def other_network(self) -> str:
        """How the class and the arguments of a policy are set."""
        if self.is_for_load:
            sets = "custom_objects={'policy_class': CLASS, 'policy_kwargs': {...}} sets the class and its arguments"
            return f"allow=[NAME] keeps a class by its name, {sets}"
        sets = "--set policy_kwargs=JSON (assign={'policy_kwargs': ...}) sets its arguments"
        both = f"{self.standard_policy}, {sets}; sbformat.sb3.load accepts both as custom_objects"
        return f"--allow NAME (allow=[NAME]) keeps a class by its name, {both}"


FOR_REBUILD: Final = Advice(is_for_load=False)
FOR_LOAD: Final = Advice(is_for_load=True)

OnUnknown: TypeAlias = Literal["drop", "keep", "error"]

DROPPED: Final = object()
"""Marks a value that does not go into the result."""


class Options(Record):
    """The options of :func:`~sbformat.rebuild`."""

    target: Release
    on_unknown: OnUnknown = "drop"
    keep_system_info: bool = False
    supplied_at_load: frozenset[str] = frozenset()
    allow: frozenset[str] = frozenset()
    algorithm: str | None = None
    policy_class: str | type | None = None
    """As the caller gives it, for an agent of SB3 or SB2."""
    assign: Mapping[str, Any] = MappingProxyType({})
    advice: Advice = FOR_REBUILD
    """What messages recommend."""


def find_source_release(archive: Archive) -> Release:
    """Return the release that wrote an archive; ``UNKNOWN``, older than any other, when it does not say."""
    try:
        return parse_release(archive.stable_baselines3_version) or UNKNOWN
    except SbformatError:
        return UNKNOWN


class RebuildContext:
    """The state of one rebuild, for the algorithm that loads the result."""

    def __init__(
        self,
        archive: Archive,
        algorithm: str,
        options: Options,
        policy_class: Reference | None = None,
        decoded: Mapping[str, object] | None = None,
    ) -> None:
        self.archive = archive
        self.algorithm = algorithm
        self.family = ALGORITHMS[algorithm]
        self.options = options
        self.target = options.target
        self.policy_class = policy_class
        """The policy class that the caller chose."""
        self.keeps_unknown = options.on_unknown == "keep"
        """Whether what cannot be rebuilt is copied."""
        self.assigned = {
            key: encode_assigned(key, thaw(value), options.target) for key, value in options.assign.items()
        }
        self.has_defaults = decoded is not None
        """Whether the result has SB3's default for a value that is dropped: a converted agent has every key."""
        self.her_observation: HerObservation | None = None
        """The parts of an observation, in an archive of HER before SB3 1.1."""
        self.why_no_her_observation = ""
        self.last_learning_rate: float | None = None
        """The learning rate that the first optimizer had last."""
        self.new_learning_rate: float | None = None
        """The learning rate of the new ``data``, if it is a number."""
        self.required_arguments: dict[str, tuple[object, str]] = {}
        """Arguments that the policy needs so that it has the stored layers, and why."""
        self.policy_arguments: dict[str, Any] | None = {}
        """The policy's arguments in the result; None when they are not known."""
        self.why_policy_replaced = ""
        """Why SB3's standard policy takes the place of the archive's."""
        self.allowed = Allowed(options.allow)
        self.rows: list[Row] = []
        """The report so far."""
        self.refused: list[str] = []
        """What ``on_unknown="error"`` raises at the end."""
        self._decoded: dict[str, object] = dict(decoded or {})

    # -- the archive ----------------------------------------------------------------------------------

    def decode(self, key: str) -> Any:
        """Return what a value of ``data`` means; None for a missing key."""
        if key not in self.archive.data:
            return None
        if key not in self._decoded:
            try:
                value = self.archive.data[key]
                if isinstance(value, Serialized) and self.options.allow:
                    self._decoded[key] = self.allowed.decode(value.pickle, self.archive.limits)
                else:
                    self._decoded[key] = self.archive.decode(key)
            except SbformatError as error:
                raise UnsupportedError(f"it cannot be decoded: {error.message}") from None
        return self._decoded[key]

    def decode_or_none(self, key: str) -> object:
        """Return what a value of ``data`` means, or None when it cannot be decoded."""
        try:
            return self.decode(key)
        except UnsupportedError:
            return None

    def policy_argument(self, name: str) -> object:
        """Return an argument of the policy as the archive has it, or None."""
        arguments = self.decode_or_none("policy_kwargs")
        return arguments.get(name) if isinstance(arguments, dict) else None

    # -- the policy -----------------------------------------------------------------------------------

    @property
    def sb3_policy(self) -> Reference | None:
        """The policy class of the result, by its name of today, when it is SB3's own; None for a custom class."""
        policies = self.family.policies
        chosen = self.policy_class
        if chosen is None and self.her_observation is not None:
            chosen = Reference(*policies["MultiInputPolicy"])
        if chosen is None:
            chosen = self.original_sb3_policy
        is_supplied = "policy_class" in self.options.supplied_at_load or self.keeps_unknown
        if chosen is None and not is_supplied and self.decode_or_none("policy_class") not in self.allowed:
            with suppress(UnsupportedError):  # the class that SB3 itself has for the observations
                space = self.decode("observation_space")
                kind = "Mlp"
                if isinstance(space, Space):
                    kind = "MultiInput" if space.has_keys else "Cnn" if space.is_image() else kind
                chosen = next((Reference(*policies[alias]) for alias in policies if alias.startswith(kind)), None)
        return chosen if chosen is not None and chosen.pair in policies.values() else None

    @property
    def has_sb3_policy(self) -> bool:
        """Whether the policy class of the result is SB3's own, whose arguments are known."""
        return self.sb3_policy is not None

    @property
    def original_sb3_policy(self) -> Reference | None:
        """The policy class of the archive, by its name of today, when SB3 has it for the algorithm."""
        meaning, policies = self.decode_or_none("policy_class"), self.family.policies
        pair = current_name(meaning.pair) if isinstance(meaning, Reference) else None
        if isinstance(meaning, str):
            pair = policies.get(meaning)
        elif self.preset is not None:
            pair = self.preset[0]
        return Reference(*pair) if pair is not None and pair in policies.values() else None

    @property
    def preset(self) -> tuple[Pair, dict[str, Any]] | None:
        """For a published class that only passes arguments to SB3's: that class, and the arguments.

        None when the class itself is kept, because it is allowed.
        """
        meaning = self.decode_or_none("policy_class")
        if not isinstance(meaning, Reference) or meaning in self.allowed or self.policy_class is not None:
            return None
        return PRESETS.get(meaning.pair)

    @property
    def learns_entropy(self) -> bool:
        """Whether the entropy coefficient is learned, and has an optimizer."""
        is_assigned = ENTROPY_KEY in self.assigned
        value = self.assigned[ENTROPY_KEY] if is_assigned else self.decode_or_none(ENTROPY_KEY)
        return self.algorithm in ENTROPY_LEARNERS and fixed_coefficient(value) is None

    # -- the report -----------------------------------------------------------------------------------

    def report(self, action: Action, message: str, *, key: str | None = None, entry: str = DATA_ENTRY) -> None:
        """Add a row that is not a finding."""
        self.rows.append(Row(entry, key, action, message))

    def keep(self, key: str, message: str = "") -> None:
        """Report that a value of ``data`` is equal in the result."""
        self.report("kept", message, key=key)

    def translate(self, key: str, message: str) -> None:
        """Report that a value of ``data`` has another form in the result."""
        self.report("translated", message, key=key)

    def encode(self, value: object) -> Any:
        """Return a value as ``data`` of the result contains it."""
        return encode_value(value, self.target)

    def encode_allowed(self, value: object) -> Any:
        """Return what :meth:`encode` does for a value that may have names that were kept because they are allowed."""
        return encode_value(value, self.target, foreign=self.allowed.pairs)

    def keep_allowed(self, key: str, value: object) -> Any:
        """Return a value with allowed names as ``data`` contains it, and report that the loader imports it."""
        result = self.encode_allowed(self.allowed.replace_names(key, value))
        self.keep(key, f"{show_name(value)} is allowed: the loader imports it")
        return result

    def drop(
        self, key: str, message: str, instead: str | None = None, *, was: object = None, is_finding: bool | None = None
    ) -> Any:
        """Report that a key of ``data`` is dropped, and return :data:`DROPPED`.

        :param instead: what SB3 uses then
        :param was: the decoded value, if it is known
        :param is_finding: whether the agent computes or trains with it; by default it depends on the key
        """
        if is_finding is None:
            is_finding = is_hyperparameter(key.partition("/")[0], self.algorithm)
        shown = None if was is None else show_name(was, key)
        self.rows.append(Row(DATA_ENTRY, key, "dropped", message, instead, shown, is_finding))
        return DROPPED

    def handle_unknown(
        self, key: str, value: object, why: str, instead: str | None = None, *, was: object = None
    ) -> Any:
        """Drop a value that cannot be rebuilt, keep it, or note it as an error, as ``on_unknown`` requests."""
        if self.keeps_unknown:
            self.keep(key, f"copied unchanged, and not clean: {why}")
            return value
        self.refuse_later(key, why)
        return self.drop(key, why, instead, was=self.decode_or_none(key) if was is None else was)

    def refuse_later(self, key: str, why: str) -> None:
        """Note an error for :meth:`raise_refused`, for ``on_unknown="error"`` alone."""
        if self.options.on_unknown == "error":
            self.refused.append(f"{escape(key)}: {why}")

    def raise_refused(self) -> None:
        """Raise what was noted for ``on_unknown="error"``."""
        if self.refused:
            drops = "--on-unknown drop (on_unknown='drop') drops it"
            keeps = "--allow NAME (allow=[NAME]) keeps a class or function by its name"
            refuse(f"cannot be rebuilt: {'; '.join(self.refused)}", DATA_ENTRY, hint=f"{drops}, {keeps}")
