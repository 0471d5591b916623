"""Which option or argument helps, in the words of the function that the caller used.

``rebuild`` has options on the command line and arguments in Python; ``sbformat.sb3.load`` has only ``custom_objects``
and ``allow``, and takes every other argument as an attribute of the agent.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from sbformat.errors import escape
from sbformat.immutable import Record
from sbformat.known.types import ConstantSchedule

if TYPE_CHECKING:
    from sbformat.known.types import LinearSchedule


class Advice(Record):
    """The clauses of messages that name an option."""

    is_for_load: bool

    def allow(self, name: str) -> str:
        """Return how a class or function is kept.

        :param name: the dotted name
        """
        shown = escape(name, 200)
        return f"allow=['{shown}'] keeps it" if self.is_for_load else f"--allow {shown} (allow=[...]) keeps it"

    def set_value(self, key: str) -> str:
        """Return how a number is set for a key of ``data``."""
        if self.is_for_load:
            return f"custom_objects={{'{key}': NUMBER}} sets one"
        return f"--set {key}=NUMBER (assign={{'{key}': NUMBER}}) sets one"

    def set_schedule(self, key: str, schedule: ConstantSchedule | LinearSchedule) -> str:
        """Return how a schedule is set for a key of ``data``."""
        if isinstance(schedule, ConstantSchedule):
            shown = repr(schedule.value)
            return f"custom_objects={{'{key}': {shown}}}" if self.is_for_load else f"--set {key}={shown}"
        numbers = list(schedule) if schedule.end_fraction != 1 else [schedule.start, schedule.end]
        shown = json.dumps({"linear": numbers})
        return f"custom_objects={{'{key}': {shown}}}" if self.is_for_load else f"--set '{key}={shown}'"

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
            return (
                "allow=[NAME] keeps a class by its name, "
                "custom_objects={'policy_class': CLASS, 'policy_kwargs': {...}} sets the class and its arguments"
            )
        return (
            "--allow NAME (allow=[NAME]) keeps a class by its name, "
            f"{self.standard_policy}, "
            "--set policy_kwargs=JSON (assign={'policy_kwargs': ...}) sets its arguments; "
            "sbformat.sb3.load accepts both as custom_objects"
        )


FOR_REBUILD: Final = Advice(is_for_load=False)
FOR_LOAD: Final = Advice(is_for_load=True)
