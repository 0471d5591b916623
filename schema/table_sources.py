"""Tables of names that the package maintains, because each row has its reasons beside it in ``sbformat/known``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sbformat.known import dangerous, sb3
from sbformat.known.table import TABLE
from sbformat.pkl.tree import CALLS, QUANTIZATION_SCHEMES, TENSOR_CLASSES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sbformat.known.rows import Known

Row = dict[str, Any]


def list_roles() -> list[Row]:
    """Return the known names, each with what a pickle may do with it."""
    rows = [
        {"kind": kind, "module": known.module, "name": known.name, **more}
        for known in TABLE.values()
        for kind, more in _list_kinds(known)
    ]
    return sorted(rows, key=lambda row: (row["kind"], row["module"], row["name"]))


def _list_kinds(known: Known) -> Iterator[tuple[str, Row]]:
    uses = known.uses
    if known.pair in CALLS:
        yield "call in a .pth", {"role": known.role}
    elif known.role:
        yield "call", {"role": known.role, "reaches": "reaches" in uses}
    if known.is_plain or "slots" in uses:
        yield "plain object", {"attributes": list(known.attributes or ())}
    elif known.kind and known.new:
        fields = {"fields": list(known.attributes or ())} if known.kind == "named_tuple" else {}
        yield "object", {"role": known.kind, **fields}
    if known.pair in TENSOR_CLASSES:
        yield "tensor class", {}
    if known.pair in QUANTIZATION_SCHEMES:
        yield "quantization scheme", {}
    if known.is_reference:
        yield "algorithm" if "algorithm" in uses else "reference", {}
    if "generic" in uses:
        yield "generic type", {}
    if "metaclass" in uses:
        yield "metaclass", {}
    elif "beside code" in uses:
        yield "name beside code", {}
    if "stores" in uses:
        yield "object of SBX", {}


def list_dangerous_names() -> list[Row]:
    """Return the names that are known to run, import, open, connect or unpickle."""
    return [
        *({"kind": "module", "module": module, "why": why} for module, why in sorted(dangerous.MODULES.items())),
        *(
            {"kind": "name", "module": module, "name": name, "why": why}
            for (module, name), why in sorted(dangerous.GADGETS.items())
        ),
        *({"kind": "method", "name": name, "why": why} for name, why in sorted(dangerous.METHODS.items())),
        *({"kind": "alias", "module": module, "of": of} for module, of in sorted(dangerous.ALIASES.items())),
        *({"kind": "module as a name", "name": name} for name in sorted(dangerous.MODULE_NAMES)),
        *({"kind": "harmless", "module": module, "name": name} for module, name in sorted(dangerous.HARMLESS)),
    ]


def list_agent_attributes() -> list[Row]:
    """Return the keys of ``data`` that Stable-Baselines uses."""
    return [
        *({"match": "whole", "name": name} for name in sorted(sb3.ATTRIBUTES)),
        *({"match": "end", "name": suffix} for suffix in sorted(sb3.CALLED_SUFFIXES)),
    ]
