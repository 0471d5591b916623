"""The page of limits: the fields of ``Limits`` with their defaults and descriptions."""

from __future__ import annotations

from typing import Final

from sbformat.cli._tables import list_limits

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

`sbformat help limits` prints this table.

Sizes on the command line may have a unit. A file that needs more raises a `LimitError`. Its message has the name of the
limit, its value, and the amount that the file needs. Raise a limit only for a file whose size you know.
[Section 8](../../schema/FORMAT.md#8-limits) of the format has the rules for readers in any language.

| limit | default | what it bounds |
|---|---|---|
"""


def render_limits() -> str:
    """Return the page."""
    rows = [
        f'| <span id="{name}">`{name}`</span> | {size} | {text.replace("``", "`")} |'
        for name, size, text in list_limits()
    ]
    return _INTRODUCTION + "\n".join(rows) + "\n"
