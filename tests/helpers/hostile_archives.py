"""Archives that try to break a page: markup in every name and value, directions of text, great numbers and lengths."""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING, Any, Final

import sbformat
from conformance.generators.build_pth import floats, ordered, storage, tensor, torch_zip
from sbformat.data import Serialized
from sbformat.known.spaces import DictSpace
from sbformat.values import encode
from tests.helpers import bundled

if TYPE_CHECKING:
    from collections.abc import Iterable

MARKUP: Final = (
    "<script>window.attacked = 1</script>",
    '<img src=x onerror="window.attacked = 1">',
    "</title></style></script></textarea><script>window.attacked = 1</script>",
    "--><svg onload=window.attacked=1>",
    "' onmouseover='window.attacked=1' style='position:fixed;inset:0",
    "{{ config }}{% raw %}{{ 7 * 7 }}",
    "javascript:window.attacked=1",
    "<style>*{display:none}</style>",
    "<base href=https://sbformat.invalid/><meta http-equiv=refresh content=0;url=https://sbformat.invalid/>",
    "&lt;b&gt;&#x3c;script>",
    "$\\frac{1}{0}$ \\undefined{x} $",
)
"""Texts that a page has to show as they are."""
DIRECTIONS: Final = "\u202egpj.exe\u202c \u2066\u2067\u200f\u061c\u200b\ufeff\u0000\u001b[31m\u2028\ud800"
"""Characters that turn the direction of text, are invisible, or are not text at all."""
HEAVY: Final = "Z" + "\u0334\u0335\u0336\u0337\u0338\u0489" * 500
"""A letter with 3,000 marks that combine with it, which are drawn over the lines above and below."""
LONG: Final = "x" * 20_000
"""A word that cannot be broken."""


def hostile_archive(scale: float = 1) -> bytes:
    """An archive with hostile keys, values, entries, tensor names and fields of the system.

    :param scale: of all weights, and the value of ``gamma``
    """
    texts = [*MARKUP, DIRECTIONS, HEAVY, LONG]

    def change(data: dict[str, Any]) -> None:
        data.update({text: number for number, text in enumerate(texts)})
        data.update({f"value{number}": text for number, text in enumerate(texts)})
        data["policy_kwargs"] = {text: [text] for text in texts}
        data["tensorboard_log"] = MARKUP[0]
        data["gamma"] = scale
        data["ep_info_buffer"] = [{"r": text, "l": text} for text in texts] + [
            {"r": 1e308, "l": 1},
            {"r": -1e308, "l": 2},
        ]

    weights = ordered({f"{text[:150]}.weight": floats((4, 4)) for text in texts})
    data = json.loads(bundled.entries()["data"])
    change(data)
    contents = {
        **bundled.entries(),
        "data": json.dumps(data).encode(),
        "policy.pth": torch_zip(weights, {"0": struct.pack("<16f", *(scale * number for number in range(16)))}),
        "_stable_baselines3_version": MARKUP[0].encode(),
        "system_info.txt": "".join(f"- {text}: {text}\n" for text in MARKUP).encode(),
    }
    contents |= {f"{text[:200]}.txt": b"text" for text in MARKUP[:4]}
    return bundled.zipped(contents)


def archive_with_tensors(count: int, *, offset: int = 0) -> bytes:
    """An archive whose policy has many tensors of four numbers, which share one storage."""
    return bundled.changed(policy_pth=many_tensors(f"layer.{index}.weight" for index in range(offset, count)))


def many_tensors(names: Iterable[str]) -> bytes:
    """A ``.pth`` with tensors of four numbers, which share one storage of eight."""
    store = storage(8)
    tensors = {name: tensor(store, (4,), offset=number % 4) for number, name in enumerate(names)}
    return torch_zip(ordered(tensors), {"0": struct.pack("<8f", *range(8))})


KEYS: Final = ("</script><script>attacked = 1</script>", "__proto__", "constructor", "<!--\u2028\u202e'\"\\", "1")
"""Keys of observations that are something else in HTML or JavaScript."""


def hostile_keys(agent: bytes) -> bytes:
    """An agent with a Dict of five observations, whose keys become :data:`KEYS`."""
    archive = sbformat.reads(agent)
    space = archive.decode("observation_space")
    renamed = DictSpace("gymnasium", dict(zip(KEYS, space.spaces.values())), None)
    stored = Serialized("<class 'gymnasium.spaces.dict.Dict'>", encode(renamed))
    return sbformat.writes(archive.replace(data={**archive.data, "observation_space": stored}))
