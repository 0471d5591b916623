"""URLs among the sources: whether a text is one."""

from __future__ import annotations

import re
from typing import Final

_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")


def is_url(source: object) -> bool:
    """Return whether a source is a URL: a scheme of two characters or more, and ``://``.

    >>> is_url("s3://bucket/agent.zip"), is_url("models/agent.zip")
    (True, False)

    :param source: anything that a reader takes
    """
    return isinstance(source, str) and _URL.match(source) is not None
