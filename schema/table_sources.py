"""Tables of names that the package maintains, because each row has its reasons beside it in ``sbformat/globals``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sbformat.globals import constructors, dangerous, jax, references, sb3_attributes, stdlib, torch

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sbformat.globals.torch import Pair

Row = dict[str, Any]


def list_roles() -> list[Row]:
    """Return the known names, each with what a pickle may do with it."""
    rows = [
        *_with_roles("call in a .pth", torch.CALLS),
        *({**row, "reaches": row["role"] in constructors.REACHING} for row in _with_roles("call", _calls_of_data())),
        *_with_roles("object", constructors.OBJECTS),
        *_with_attributes("plain object", constructors.PLAIN_OBJECTS),
        *_with_attributes("plain object", stdlib.SLOT_OBJECTS),
        *_plain("tensor class", torch.TENSOR_CLASSES),
        *_plain("quantization scheme", torch.QUANTIZATION_SCHEMES),
        *_plain("algorithm", references.ALGORITHMS),
        *_plain("reference", references.REFERENCES - references.ALGORITHMS),
        *_plain("generic type", constructors.GENERICS),
        *_plain("metaclass", stdlib.METACLASSES),
        *_plain("name beside code", stdlib.NAMES - stdlib.METACLASSES),
        *_plain("object of SBX", jax.OBJECTS),
    ]
    return sorted(rows, key=lambda row: (row["kind"], row["module"], row["name"]))


def _calls_of_data() -> dict[Pair, str]:
    return {pair: role for pair, role in constructors.CALLS.items() if pair not in torch.CALLS}


def _plain(kind: str, pairs: Iterable[Pair]) -> Iterator[Row]:
    for module, name in pairs:
        yield {"kind": kind, "module": module, "name": name}


def _with_roles(kind: str, pairs: dict[Pair, Any]) -> Iterator[Row]:
    for (module, name), role in pairs.items():
        yield {"kind": kind, "module": module, "name": name, "role": role}


def _with_attributes(kind: str, pairs: dict[Pair, tuple[str, ...]]) -> Iterator[Row]:
    for (module, name), attributes in pairs.items():
        yield {"kind": kind, "module": module, "name": name, "attributes": list(attributes)}


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
        *({"match": "whole", "name": name} for name in sorted(sb3_attributes.ATTRIBUTES)),
        *({"match": "end", "name": suffix} for suffix in sorted(sb3_attributes.CALLED_SUFFIXES)),
    ]
