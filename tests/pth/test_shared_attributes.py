"""What many tensors share is examined once, so that the work grows with the file."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from conformance.generators.build_pth import REBUILD_PARAMETER_WITH_STATE, Apply, floats, ordered
from conformance.generators.build_torch_zips import DATA, records
from conformance.generators.build_zips import DEFLATED, Member, build_zip
from sbformat.pth import context
from tests.helpers.pth_checks import decode, everything

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pytest


def test_attributes_that_tensors_share_are_examined_once(monkeypatch: pytest.MonkeyPatch) -> None:
    examined: list[object] = []
    walk = context.walk

    def recorded(*arguments: object) -> Iterator[object]:
        for node in walk(*arguments):  # type: ignore[arg-type]
            examined.append(node)
            yield node

    monkeypatch.setattr(context, "walk", recorded)
    parts = [[number] for number in range(50)]
    states = [{f"{letter}{number}": part for number, part in enumerate(parts)} for letter in "ab"]
    tensors = [Apply(REBUILD_PARAMETER_WITH_STATE, (floats((8,)), True, ordered(), state)) for state in [*states] * 20]
    found = decode(tensors, DATA).tree
    assert [tensor.state["b7"] for tensor in found[1::2]] == [[7]] * 20  # type: ignore[index]
    assert sum(isinstance(node, list) and len(node) == 1 for node in examined) == 50


def test_a_record_of_many_empty_tensors_is_checked_once() -> None:
    chance = random.Random(0)  # noqa: S311 -- the same in every run
    data = b"".join(chance.randbytes(1 << 10) + bytes(31 << 10) for _ in range(256))  # deflates to a thirtieth
    made = records([floats((0,), "0", len(data) // 4) for _ in range(300)], {"0": data})
    members = [Member(f"archive/{name}".encode(), record, DEFLATED) for name, record in made.items()]
    arrays = everything(build_zip(*members))
    assert [array.shape for array in arrays] == [(0,)] * 300
