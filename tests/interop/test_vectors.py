"""Real torch beside us over every conformance vector of a ``.pth``: what both read, both read as the same tensors."""

# ruff: noqa: E402 -- importorskip stands before what needs it
from __future__ import annotations

import hashlib
import io
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import pytest

torch = pytest.importorskip("torch")

from conformance.runner.vectors import decode_file, name_file, read_vectors
from tests.helpers.shared_files import add_summary_line
from tests.interop.torch_values import item_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.filterwarnings("ignore")]

VECTORS: Final = [
    vector
    for vector in read_vectors()
    if vector["kind"] == "decode" and "expect" in vector and name_file(vector).endswith(".pth")
]
LEFT: Final = {"quantized", "sparse", "meta", "scan", "other-formats", "statistics", "replay-buffer", "equality"}
"""Features of vectors that expect no strided tensors, or are no file of torch's: pickles that torch would run."""
OTHERWISE: Final = {
    "big-endian-untyped": "torch does not swap an untyped storage (FORMAT.md 6.4)",
}
"""Parts of names of vectors that torch reads otherwise, and the rule that says so."""


def tagged_tensors(value: Any) -> Iterator[tuple[str, list[int], str, bool]]:
    """The strided tensors of what a decoder prints, in order."""
    todo = [value]
    while todo:
        part = todo.pop()
        if isinstance(part, list):
            todo.extend(reversed(part))
        elif isinstance(part, dict) and "tensor" in part:
            found = part["tensor"]
            shape = [int(size["int"], 16) if isinstance(size, dict) else size for size in found["shape"]]
            yield found["dtype"], shape, found["sha256"], part.get("requires_grad", False)
        elif isinstance(part, dict):
            todo.extend(reversed(list(part.values())))


def torch_tensors(value: Any) -> Iterator[tuple[str, list[int], str, bool]]:
    """Those of what torch loads."""
    todo = [value]
    while todo:
        part = todo.pop()
        if isinstance(part, torch.Tensor):
            if part.layout is torch.strided and not part.is_quantized and not part.is_meta:
                digest = hashlib.sha256(item_bytes(part.detach())).hexdigest()
                yield str(part.dtype).removeprefix("torch."), list(part.shape), digest, part.requires_grad
        elif isinstance(part, dict):
            todo.extend(reversed([inner for pair in part.items() for inner in pair]))
        elif isinstance(part, (list, tuple)):
            todo.extend(reversed(part))


def test_torch_reads_the_same_tensors(request: pytest.FixtureRequest) -> None:
    counts: Counter[str] = Counter()
    different = []
    for vector in VECTORS:
        if LEFT & set(vector.get("features", ())):
            continue
        try:
            loaded = torch.load(io.BytesIO(decode_file(vector)), weights_only=False)
        except Exception as error:  # noqa: BLE001 -- torch has nine kinds
            counts[f"torch refuses with {type(error).__name__}"] += 1
            continue
        ours, theirs = list(tagged_tensors(vector["expect"])), list(torch_tensors(loaded))
        if any(part in vector["name"] for part in OTHERWISE):
            counts["otherwise, by a rule"] += 1
            continue
        if ours != theirs:
            different.append(vector["name"])
        counts["the same tensors"] += 1
    assert different == []
    assert counts["the same tensors"] > 200
    add_summary_line(
        request.config, f"test_vectors.py {', '.join(f'{count} {what}' for what, count in counts.items())}"
    )
