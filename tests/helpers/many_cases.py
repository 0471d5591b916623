"""Many small cases of one check in one test: a test for each of hundreds takes longer than the check."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


def check_all(check: Callable[..., object], cases: Iterable[tuple[Any, ...]]) -> None:
    """Call a check with the arguments of each case; one error lists all cases that failed."""
    failures, count = [], 0
    for case in cases:
        count += 1
        try:
            check(*case)
        except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001 -- a failure of a case
            failures.append(f"{case!r}: {type(error).__name__}: {error}")
    assert count > 0
    assert not failures, f"{len(failures)} of {count} cases fail:\n" + "\n".join(failures)
