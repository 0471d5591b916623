"""Where every choice of a mutation comes from, with the names and texts that the format has a meaning for."""

from __future__ import annotations

from conformance.file_mutants import chance
from conformance.file_mutants.chance import ODD_TEXTS
from tests.fuzz.mutator.words import FAMILIES, WORDS


class Chance(chance.Chance):
    """A source of changes that knows the words of the format."""

    def name(self, old: tuple[str, str] = ("", "")) -> tuple[str, str]:
        """A module and name: mostly one that stands where the old one does."""
        family = next((family for family in FAMILIES if old in family), None)
        if family is None or self.one_in(3):
            family = self.choice(FAMILIES)
        return self.choice(family)

    def word(self, old: str = "") -> str:
        """A text: one that the format has a meaning for, an odd one, or the old one changed."""
        kind = self.randrange(4)
        if kind < 2:
            return self.choice(WORDS)
        if kind == 2:
            return self.choice(ODD_TEXTS)
        at = self.place(len(old))
        return old[:at] + self.choice(ODD_TEXTS) + old[at + self.randrange(2) :]
