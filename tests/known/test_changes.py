"""The releases of SB3 that can be written for, by their names."""

from __future__ import annotations

from typing import Final

import pytest

from sbformat import UnsupportedError
from sbformat.known.changes import RELEASES, Release, parse_target
from sbformat.values import encode


def test_a_target_is_a_release_with_its_patch_number_or_without() -> None:
    assert list(RELEASES) == [Release(2, minor) for minor in range(10)]
    for target, version in RELEASES.items():
        assert parse_target(str(target)) == parse_target(version) == parse_target(target) == target
        assert target.version == version == f"{target}.{version[-1]}"


NONSENSE: Final = ("1.8", "3.0", "2.10", "", "2", "2.", ".9", "v2.9", " 2.9", "-2.9", "29", "12.9", "2.0001", "nan",
                   "\x1b[2J", "x" * 10_000, "2" * 10_000, "2." + "9" * 10_000, "\0", "\ud800")  # fmt: skip
TAKEN: Final = ("2.9e", "2.9" + "x" * 10_000, "2.9.", "2.9\n", "\u0662.\u0669", Release(1, 8), Release(3, 0))


@pytest.mark.parametrize("text", [*NONSENSE, *TAKEN])
def test_any_other_target_is_refused_with_what_there_is(text: str) -> None:
    for ask in (parse_target, lambda target: encode(None, target)):
        with pytest.raises(UnsupportedError, match="expected SB3 2.0 to 2.9") as caught:
            ask(text)
        assert str(caught.value).isprintable()
        assert len(str(caught.value)) < 200
