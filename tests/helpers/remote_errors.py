"""What every error of a remote source has to be: of a known class, one line, and without a secret."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from sbformat import SbformatError


def catch(work: Callable[[], Any], *secrets: str) -> OSError | SbformatError:
    """Return the error of a call, after the checks that concern every error of a remote source."""
    with pytest.raises((OSError, SbformatError)) as caught:
        work()
    assert isinstance(caught.value, (OSError, SbformatError))
    check_error(caught.value, *secrets)
    return caught.value


def check_error(error: BaseException, *secrets: str) -> None:
    """Check that an error is one line, not chained to that of a client, and shows none of the secrets."""
    text = str(error)
    assert text
    assert text.isprintable(), text
    assert error.__cause__ is None
    assert error.__context__ is None or error.__suppress_context__
    refuse_secrets("".join((text, repr(error), repr(vars(error)), *iter_messages(error))), secrets)


def iter_messages(error: BaseException) -> Iterator[str]:
    """Yield what a traceback shows of an error and of those that it is chained to, but not lines of source."""
    for summary in iter_chain(traceback.TracebackException.from_exception(error)):
        yield from summary.format_exception_only()


def iter_chain(summary: traceback.TracebackException | None) -> Iterator[traceback.TracebackException]:
    """Yield what a traceback shows: an error, its cause, and its context unless that is suppressed."""
    while summary is not None:
        yield summary
        summary = summary.__cause__ or (None if summary.__suppress_context__ else summary.__context__)


def refuse_secrets(text: str, secrets: Iterable[str]) -> None:
    """Check that a text has none of the secrets."""
    found = [secret for secret in secrets if secret in text]
    assert not found, text
