"""Many small cases of one check in one test: a test for each of hundreds takes longer than the check.

``check_each`` takes what ``parametrize`` takes, if no case needs files or other fixtures of its own::

    @check_each(("text", "expected"), [("1", 1), ("2", 2)])
    def test_numbers(text, expected): ...
"""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any, TypeVar, cast

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Test = TypeVar("Test", bound="Callable[..., None]")


def check_all(check: Callable[..., object], cases: Iterable[tuple[Any, ...]]) -> None:
    """Call a check with the arguments of each case; one error lists all cases that failed, or were skipped."""
    failures, count = [], 0
    for case in cases:
        count += 1
        try:
            check(*case)
        except (Exception, pytest.fail.Exception, pytest.skip.Exception) as error:  # noqa: BLE001 -- of a case
            failures.append(f"{case!r:.500}: {type(error).__name__}: {error}")
    assert count > 0
    assert not failures, f"{len(failures)} of {count} cases fail:\n" + "\n".join(failures)


def check_each(names: str | tuple[str, ...], cases: Iterable[Any]) -> Callable[[Test], Test]:
    """Run a test once with all cases.

    :param names: of one argument, whose values the cases are, or of several
    """
    keys = (names,) if isinstance(names, str) else names
    rows = [(case,) for case in cases] if isinstance(names, str) else list(cases)

    def decorate(test: Test) -> Test:
        signature = inspect.signature(test)

        @functools.wraps(test)
        def run(**fixtures: Any) -> None:
            def check(*arguments: Any) -> None:
                test(**fixtures, **dict(zip(keys, arguments, strict=True)))

            check_all(check, rows)

        others = [parameter for name, parameter in signature.parameters.items() if name not in keys]
        run.__signature__ = signature.replace(parameters=others)  # type: ignore[attr-defined] -- which pytest reads
        return cast("Test", run)

    return decorate
