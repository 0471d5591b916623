"""Pickles without PROTO, in any spelling that some unpickler takes, and values that a loader's role makes dangerous.

Each payload names ``os.system`` and is data only: nothing here is ever unpickled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import sbformat
from conformance.generators.build_pth import Apply, Name, torch_zip
from sbformat import pkl
from sbformat.cli import main
from tests.helpers import bundled
from tests.helpers.attacks import PAYLOAD, in_blob, in_entry, name, pickle
from tests.helpers.many_cases import check_each

if TYPE_CHECKING:
    from pathlib import Path

SYSTEM = b"cos\nsystem\n(S'true'\ntR."

BEFORE = {
    "BUILD with None on a list": b"]Nb0",
    "BUILD with None on a number": b"I1\nNb0",
    "BUILD with empty state on a text": b"V\n(N(dtb0",
    "SETITEM on a list": b"(I1\nlI0\nI2\ns0",
    "APPENDS on a bytearray": b"\x96\x01\x00\x00\x00\x00\x00\x00\x00\x00(K\x02e0",
    "no SETITEMS on a number": b"I1\n(u0",
    "no APPENDS on a number": b"I1\n(e0",
    "no ADDITEMS on a number": b"I1\n(\x900",
    "an 8-bit text that is no UTF-8": b"U\x01\xff0",
    "a frame that lies": b"\x95\xff\xff\x00\x00\x00\x00\x00\x00",
}
STREAMS = {
    "legacy in text": b"L119547037146038801333356L\n.I1001\n.(d." + SYSTEM + b"(l.",
    "legacy in text, after PROTO": b"\x80\x02L119547037146038801333356L\n.I1001\n.(d." + SYSTEM,
    "legacy, then text": b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.I1001\n.(d." + SYSTEM,
    "plain data first": b"N.N.N." + SYSTEM,
}


@pytest.mark.parametrize("what", BEFORE)
def test_what_some_unpickler_passes_over(what: str, tmp_path: Path) -> None:
    report = sbformat.scan(BEFORE[what] + SYSTEM)
    assert report.verdict == "dangerous"
    assert report.imports == ("os.system",)
    (tmp_path / "sub").mkdir()
    (tmp_path / "data").write_bytes(b"{}")
    (tmp_path / "sub" / "buffer").write_bytes(BEFORE[what] + SYSTEM)
    assert sbformat.scan(tmp_path).verdict == "dangerous"


@check_each("what", BEFORE)
def test_the_strict_reader_refuses_it(what: str) -> None:
    with pytest.raises(sbformat.PickleError):
        pkl.loads(BEFORE[what] + b"N.")


@pytest.mark.parametrize("what", STREAMS)
def test_several_pickles_in_a_row(what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert sbformat.scan(STREAMS[what]).verdict == "dangerous"
    assert sbformat.scan(in_entry("policy.pth", STREAMS[what])).verdict == "dangerous"
    (tmp_path / "best.pt").write_bytes(STREAMS[what])
    assert main(["scan", str(tmp_path), "--fail-on", "dangerous"]) == 1
    assert "best.pt: dangerous" in capsys.readouterr().out


@pytest.mark.parametrize("record", ["data/0", ".data/serialization_id", ".format_version", "byteorder", "x.npy"])
def test_a_record_that_numpy_takes_for_an_array_of_objects(record: str) -> None:
    header = b"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }"
    npy = b"\x93NUMPY\x01\x00" + bytes([len(header), 0]) + header + PAYLOAD
    made = bundled.zipped({"archive/data.pkl": b"\x80\x02N.", "archive/version": b"3\n", f"archive/{record}": npy})
    assert sbformat.scan(made).verdict == "dangerous"


@pytest.mark.parametrize(
    "pair",
    [("torch", "Tensor"), ("torch", "UntypedStorage"), ("numpy", "ndarray"), ("builtins", "type"), ("enum", "Enum")],
)
def test_a_partial_of_what_takes_pointers(pair: tuple[str, str]) -> None:
    made = b"".join(
        [name("functools", "partial"), name(*pair), b"\x85R", b"(", name(*pair), b"K\x08\x85", b"}", b"N", b"tb"]
    )
    assert sbformat.scan(in_blob(pickle(made), "policy_kwargs")).verdict == "dangerous"


def test_a_key_that_only_numpy_knows_to_be_text() -> None:
    key = Apply(
        Name("numpy.core.multiarray", "scalar"), (Apply(Name("numpy", "dtype"), ("U5", False, True)), b"x" * 20)
    )
    made = torch_zip({"param_groups": [{key: True}]})
    assert sbformat.scan(in_entry("policy.optimizer.pth", made)).verdict == "unknown"
