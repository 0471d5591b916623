"""Where something was found, and the findings that are made there (SCANNING.md 14.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sbformat.errors import SbformatError, escape
from sbformat.immutable import Record
from sbformat.tools.scan.report import RULES, Finding, default_reason

if TYPE_CHECKING:
    from sbformat.tools.scan.report import Reason, Rule, Verdict

UNKNOWN_KEY: Final = "?"
"""The key of a serialized value in a damaged ``data``, where the key cannot be read."""
SHOWN: Final = 200
"""Characters of a name that a message contains."""


class Location(Record):
    """Where something was found."""

    entry: str
    key: str = ""

    def within(self, name: str) -> Location:
        """Return the location of a member of this one."""
        return Location(f"{self.entry}!{name}" if self.entry else name, self.key)

    def finding(
        self,
        rule: Rule,
        message: str,
        *,
        names: tuple[str, ...] = (),
        verdict: Verdict | None = None,
        reason: Reason | None = None,
        offset: int | None = None,
        line: int | None = None,
    ) -> Finding:
        """Return a finding at this location; verdict and reason are by default those of the rule."""
        verdict = verdict or RULES[rule][0]
        return Finding(
            rule=rule,
            verdict=verdict,
            reason=reason or default_reason(rule, verdict),
            entry=escape(self.entry, 1000),
            key=escape(self.key, SHOWN),
            offset=offset,
            line=line,
            names=tuple(escape(name, SHOWN) for name in names),
            message=message,
        )

    def broken(self, error: SbformatError) -> Finding:
        """Return the finding for something that cannot be parsed."""
        inner = self if error.entry in (None, self.entry) else self.within(str(error.entry))
        return inner.finding("broken", f"{error.outcome}: {error.message}", offset=error.offset)
