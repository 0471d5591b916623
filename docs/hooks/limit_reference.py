"""The page of limits: the fields of ``Limits`` with their defaults and descriptions."""

from __future__ import annotations

import ast
import inspect
import re
from typing import Final

import sbformat.limits
from sbformat.limits import Limits

_INTRODUCTION: Final = """# Limits

A file decides how much memory and time it takes to read, unless the reader sets limits. Every limit has a default,
which all of about 2,900 real archives keep, and can be changed for one call or one command:

```python
import sbformat

sbformat.read("tests/archives/ppo-cartpole.zip", limits=sbformat.Limits(json_bytes=2**30, ratio=1000))
```

```console
$ sbformat inspect tests/archives/ppo-cartpole.zip --limit json_bytes=1GiB --limit ratio=1000
...
```

Sizes on the command line may have a unit. A file that needs more raises a `LimitError`. Its message has the name of the
limit, its value, and the amount that the file needs. Raise a limit only for a file whose size you know.
[Section 8](../../schema/FORMAT.md#8-limits) of the format has the rules for readers in any language.

| limit | default | what it bounds |
|---|---|---|
"""
_UNITS: Final = (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10))


def render_size(name: str, value: int) -> str:
    """Return a default as the table shows it: sizes in binary units, counts with separators."""
    if name.endswith("_bytes"):
        for unit, factor in _UNITS:
            if value >= factor and value % factor == 0:
                return f"{value // factor} {unit}"
    return f"{value:,}"


def read_descriptions() -> dict[str, str]:
    """Return the text below each field of ``Limits``, on one line."""
    (cls,) = ast.parse(inspect.getsource(sbformat.limits.Limits)).body
    assert isinstance(cls, ast.ClassDef)  # noqa: S101 -- it is a class
    found: dict[str, str] = {}
    for field, text in zip(cls.body, cls.body[1:]):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(text, ast.Expr):
            found[field.target.id] = " ".join(ast.literal_eval(text.value).split())
    return found


def render_limits() -> str:
    """Return the page."""
    texts = read_descriptions()
    rows = [
        f'| <span id="{name}">`{name}`</span> | {render_size(name, value)} | {re.sub("``", "`", texts[name])} |'
        for name, value in Limits()._asdict().items()
    ]
    return _INTRODUCTION + "\n".join(rows) + "\n"
