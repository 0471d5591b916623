"""Where something was found, and the findings that are made there (FORMAT.md 14.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from sbformat.errors import SbformatError, escape
from sbformat.tools.scan.report import RULES, Finding, reason_of

if TYPE_CHECKING:
    from sbformat.tools.scan.report import Reason, Rule, Verdict

ANY_KEY: Final = "?"
"""The key of a blob in what is no valid ``data``, where it cannot be told."""
_SHOWN: Final = 200


class Place(NamedTuple):
    """Where something was found."""

    entry: str
    key: str = ""

    def within(self, name: str) -> Place:
        """Return the place of a member or value in this one."""
        return Place(f"{self.entry}!{name}" if self.entry else name, self.key)

    def finding(
        self,
        rule: Rule,
        message: str,
        *,
        names: tuple[str, ...] = (),
        verdict: Verdict | None = None,
        reason: Reason | None = None,
        offset: int | None = None,
    ) -> Finding:
        """Return a finding here."""
        verdict = verdict or RULES[rule][0]
        return Finding(
            rule=rule,
            verdict=verdict,
            reason=reason or reason_of(rule, verdict),
            entry=escape(self.entry, 1000),
            key=escape(self.key, _SHOWN),
            offset=offset,
            names=tuple(escape(name, _SHOWN) for name in names),
            message=message,
        )

    def broken(self, error: SbformatError) -> Finding:
        """Return the finding for what does not parse."""
        inner = self if error.entry in (None, self.entry) else self.within(str(error.entry))
        return inner.finding("broken", f"{error.outcome}: {error.message}", offset=error.offset)
