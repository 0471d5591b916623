"""What holds for every input, whatever the layer: no error but ours, fit for a terminal, within the budget."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final, TypeVar

from conformance.generators.build_zips import is_terminal_safe
from sbformat import SbformatError
from tests.children.read_hostile_pth import forget, peak
from tests.helpers.pth_checks import BASE_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

SECONDS: Final = 4.0
"""Twice what 2 MB may take of one processor (RULES.md): machines are noisy, and the code is instrumented."""


def ask(question: Callable[..., T], *args: Any, **options: Any) -> T | SbformatError:
    """Ask a question; return the answer, or the error of ours that it was refused with."""
    try:
        return question(*args, **options)
    except SbformatError as error:
        check_message(error)
        return error.again()


def check_message(error: SbformatError) -> None:
    """Assert that an error can be shown, is bounded, and is the same when it is raised again."""
    shown = str(error)
    assert is_terminal_safe(shown), f"not fit for a terminal: {shown[:200]!a}"
    assert str(error.again()) == shown


def judge(one_input: Callable[[bytes], None], data: bytes) -> None:
    """Run one input of a target, and assert that it stayed within the budget for hostile input."""
    forget()
    before, start = peak(), time.process_time()
    one_input(data)
    seconds, grown = time.process_time() - start, peak() - before
    assert seconds <= SECONDS, f"{seconds:.1f} s for {len(data)} bytes"
    assert grown <= 3 * len(data) + BASE_BYTES, f"{grown} bytes more for {len(data)} bytes"
