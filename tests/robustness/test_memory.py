"""What SECURITY.md promises of memory: no file takes more than three times its size and 64 MiB.

Each file is hostile in one way: what it inflates to, or what its JSON and pickles become. Each is given to every
command in a process of its own, with default limits. That sensible files are read all the same is tested at the end.
"""

from __future__ import annotations

import base64
import json
import os
import random
import struct
import subprocess
import sys
import zipfile
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest

import sbformat
from conformance.generators.build_pth import Name, dumps, storage, tensor, torch_zip
from conformance.generators.policies import change, serialize
from sbformat import LimitError, Limits
from tests.helpers.bundled import PPO, ROOT, entries
from tests.helpers.count_work import PATIENCE, stay_within
from tests.helpers.pth_checks import BASE_BYTES
from tests.helpers.sampling import with_exhaustive

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.skipif(not os.path.exists("/proc/self/clear_refs"), reason="the system tells no peak")

MIB: Final = 1 << 20
STORED: Final = zipfile.ZIP_STORED
DEFLATED: Final = zipfile.ZIP_DEFLATED
RANDOM: Final = random.Random(1).randbytes(2 * MIB)  # noqa: S311 -- the same each time
READERS: Final = ("inspect", "scan", "validate", "read")
WRITERS: Final = ("scan bytes", "diff", "convert", "extract", "edit", "rebuild", "weights")
WRITTEN: Final = (
    "a .pth that is deflated", "a record that is deflated", "an SB2 zip, deflated", "a npz", "JSON of escapes",
    "a blob of one text", "blobs of dicts",
)  # fmt: skip
"""Files that all commands are run over; over others only those that read."""
SECONDS: Final = 4.0
"""Twice what 2 MB may take; larger files have more."""


def zipped(members: dict[str, bytes], deflated: frozenset[str] = frozenset()) -> bytes:
    made = BytesIO()
    with zipfile.ZipFile(made, "w") as file:
        for name, content in members.items():
            file.writestr(zipfile.ZipInfo(name), content, DEFLATED if name in deflated else STORED, 9)
    return made.getvalue()


def archive(changes: dict[str, bytes], *deflated: str) -> bytes:
    return zipped({**entries(), **changes}, frozenset(deflated))


def mixed(size: int) -> bytes:
    """Bytes that deflate to one in 160, as far as the ratio allows."""
    return RANDOM[: size // 190] + bytes(size - size // 190)


def pth(size: int, count: int = 1, *, deflated: bool = False) -> bytes:
    """A torch zip of storages, of so many bytes in all."""
    each = size // count // 4 * 4
    tree = {f"w{key}": tensor(storage(each // 4, str(key)), (each // 4,)) for key in range(count)}
    return torch_zip(tree, {str(key): mixed(each) for key in range(count)}, deflated=deflated)


def tensors(count: int) -> bytes:
    """A torch zip of small tensors."""
    tree = {f"w{key}": tensor(storage(2, str(key)), (2,)) for key in range(count)}
    return torch_zip(tree, {str(key): bytes(8) for key in range(count)})


def data_of(value: str) -> bytes:
    """``data`` of a good archive, with another value and a text that does not deflate."""
    head = entries()["data"].decode().rstrip()[:-1]
    return f'{head}, "padding": "{RANDOM[:500_000].hex()}", "more": {value}}}'.encode()


def blob(pickle: bytes) -> str:
    return f'{{":type:": "x", ":serialized:": "{base64.b64encode(pickle).decode()}"}}'


def blobs(pickle: bytes, count: int) -> bytes:
    return data_of("1," + ",".join(f'"{n}": {blob(pickle)}' for n in range(count)))


def many(opcodes: bytes, count: int, head: bytes = b"") -> bytes:
    """A pickle of a list of values, in runs that the stack holds."""
    runs = [b"(" + opcodes * min(30_000, count - at) + b"e" for at in range(0, count, 30_000)]
    return b"\x80\x03]" + head + b"".join(runs) + b"."


def long_text(text: str) -> bytes:
    raw = text.encode()
    return b"\x80\x03X" + struct.pack("<I", len(raw)) + raw + b"."


def keys(count: int) -> bytes:
    return data_of("{" + ",".join(f'"{n:x}":1.5' for n in range(count)) + "}")


def deflated(members: dict[str, bytes]) -> bytes:
    """A zip of deflated members."""
    return zipped(members, frozenset(members))


def npy(size: int) -> bytes:
    header = (b"{'descr': '<f4', 'fortran_order': False, 'shape': (%d,), }" % (size // 4)).ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00\x76\x00" + header + mixed(size)


def layers(agent: str, count: int, *branches: str, **settings: Any) -> bytes:
    """An agent whose settings ask for many layers, each with tensors of its own."""
    prelu = Name("torch.nn.modules.activation", "PReLU")
    kwargs = {"activation_fn": prelu, "net_arch": {branch: [1] * count for branch in branches}, **settings}
    return change(agent, policy_kwargs=serialize(dumps(kwargs)))


def sb2(inner: bytes, *deflated: str) -> bytes:
    members = {"data": b'{"gamma": 0.99}', "parameter_list": b'["model/w:0"]', "parameters": inner}
    return zipped(members, frozenset(deflated))


PADDING: Final = b"B" + struct.pack("<I", 400_000) + RANDOM[:400_000] + b"a"
"""A value of a list, so that its pickle deflates within the ratio."""
LARGE: Final = 300 * MIB

FILES: Final[dict[str, Callable[[], bytes]]] = {
    "a .pth that is deflated": lambda: archive({"policy.pth": pth(LARGE)}, "policy.pth"),
    "a record that is deflated": lambda: archive({"policy.pth": pth(LARGE, deflated=True)}),
    "a deflated .pth of deflated records": lambda: archive({"policy.pth": pth(60 * MIB, deflated=True)}, "policy.pth"),
    "records just below what is not held": lambda: archive({"policy.pth": pth(LARGE, 300, deflated=True)}),
    "many .pth": lambda: archive({f"{n}.pth": pth(3 * MIB) for n in range(80)}, *[f"{n}.pth" for n in range(80)]),
    "an extra entry": lambda: archive({"x": mixed(LARGE)}, "x"),
    "extra entries": lambda: archive({f"x{n}": bytes(MIB) for n in range(200)}, *[f"x{n}" for n in range(200)]),
    "a pickle beside": lambda: archive(
        {"x.pkl": many(b"N", 9, PADDING + b"B" + struct.pack("<I", 50 * MIB) + bytes(50 * MIB) + b"a")}, "x.pkl"
    ),
    "a pickle as .pth": lambda: archive({"x.pth": many(b"\x8c\x02ab", 900_000, PADDING)}, "x.pth"),
    "a npz": lambda: deflated({"a.npy": npy(LARGE)}),
    "a npz of small arrays": lambda: deflated({f"{n}.npy": npy(MIB - 200) for n in range(200)}),
    "an SB2 zip, deflated": lambda: sb2(zipped({"model/w:0.npy": npy(LARGE)}), "parameters"),
    "an SB2 zip of deflated members": lambda: sb2(deflated({"model/w:0.npy": npy(LARGE)})),
    "JSON of one text": lambda: archive({"data": data_of(f'"{"a" * 60 * MIB}"')}, "data"),
    "JSON of one text that nearly fits": lambda: archive({"data": data_of(f'"{"a" * 22 * MIB}"')}, "data"),
    "JSON of one wide text": lambda: archive({"data": data_of(f'"{"a" * 12 * MIB}\U0001f600"')}, "data"),
    "JSON of escapes": lambda: archive({"data": data_of('"' + "ab\\n" * 8 * MIB + '"')}, "data"),
    "JSON of quotation marks": lambda: archive({"data": data_of('"' * 50 * MIB)}, "data"),
    "JSON of keys": lambda: archive({"data": keys(800_000)}, "data"),
    "JSON of keys, stored": lambda: archive({"data": keys(300_000)}),
    "JSON of texts": lambda: archive({"data": data_of("[" + ",".join(['"ab"'] * 1_500_000) + "]")}, "data"),
    "JSON of lists": lambda: archive({"data": data_of("[" + ",".join(["[]"] * 250_000) + "]")}, "data"),
    "a blob of one text": lambda: archive({"data": data_of(blob(long_text("a" * 30 * MIB)))}, "data"),
    "a blob of wide text": lambda: archive({"data": data_of(blob(long_text("a" * 8 * MIB + "\U0001f600")))}, "data"),
    "a blob of wide texts": lambda: archive(
        {"data": data_of(blob(many(b"\x8c\xfe" + b"a" * 250 + "\U0001f600".encode(), 25_000)))}, "data"
    ),
    "blobs of dicts": lambda: archive({"data": blobs(many(b"}", 150_000), 20)}, "data"),
    "blobs of dicts, stored": lambda: archive({"data": blobs(many(b"}", 150_000), 8)}),
    "blobs of texts, stored": lambda: archive({"data": blobs(many(b"\x8c\x02ab", 90_000), 6)}),
    "a blob of numbers": lambda: archive({"data": data_of(blob(many(b"M\x00\x10", 900_000)))}, "data"),
    "pickles of .pth": lambda: archive(
        {f"{n}.pth": torch_zip(many(b"}", 200_000, b"C\x01ba"), deflated=True) for n in range(100)}
    ),
    "a pickle of a .pth": lambda: archive(
        {"x.pth": torch_zip(many(b"\x8c\x02ab", 1_500_000, PADDING), deflated=True)}
    ),
    "tensors": lambda: archive({"policy.pth": tensors(9_000)}, "policy.pth"),
    "layers of an LSTM": lambda: layers("lstm", 2048, "pi", "vf", n_lstm_layers=2048),
    "layers of batch renormalizations": lambda: layers("crossq", 2047, "pi", "qf", n_critics=1),
    "a lone pickle of texts": lambda: many(b"\x8c\x02ab", 1_000_000),
    "a lone pickle of dicts": lambda: many(b"}\x94", 240_000),
    "a lone pickle of a memo out of order": lambda: b"".join(
        [b"\x80\x02N", *[b"r" + struct.pack("<I", n * 7 + 5) for n in range(400_000)], b"."]
    ),
    "a lone data of texts": lambda: b'{"a":[' + b",".join(b'"%06x"' % n for n in range(450_000)) + b"]}",
}  # fmt: skip


def weigh(
    path: Path, folder: Path, *commands: str, environment: dict[str, str] | None = None
) -> dict[str, dict[str, Any]]:
    """What commands over a file cost, in a process of their own."""
    child = [
        sys.executable,
        str(ROOT / "tests" / "children" / "measure_memory.py"),
        str(path),
        str(PPO),
        str(folder),
        *commands,
    ]
    environment = {**(os.environ if environment is None else environment), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(child, capture_output=True, text=True, check=False, timeout=PATIENCE, env=environment)
    assert done.returncode == 0, done.stderr[-2000:]
    rows: dict[str, dict[str, Any]] = json.loads(done.stdout)
    return rows


@pytest.mark.parametrize("what", with_exhaustive(["a blob of one text", "layers of an LSTM"], FILES))
def test_no_command_takes_more_than_is_promised(what: str, tmp_path: Path) -> None:
    path = tmp_path / "file.zip"
    size = path.write_bytes(FILES[what]())
    promised = dict.fromkeys((*READERS, *WRITERS), 3 * size + BASE_BYTES)
    promised["scan bytes"] += size  # which the caller holds
    slowest = SECONDS * max(1.0, size / 2_000_000)
    commands = (*READERS, *(WRITERS if what in WRITTEN else ()))
    rows = stay_within(
        lambda environment: weigh(path, tmp_path, *commands, environment=environment),
        lambda found: max(row["seconds"] for row in found.values()),
        slowest,
    )
    beyond = {name: row for name, row in rows.items() if row["grown"] > promised[name]}
    assert beyond == {}, size


@pytest.mark.exhaustive
def test_the_scales_are_not_blind(tmp_path: Path) -> None:
    path = tmp_path / "file.zip"
    path.write_bytes(zipped({"policy.pth": pth(20 * MIB)}))
    (row,) = weigh(path, tmp_path, "read").values()
    assert row["grown"] >= 19 * MIB
    assert row["seconds"] > 0


# -- what is refused, and what is not -----------------------------------------------------------------


@pytest.mark.exhaustive
def test_the_refusal_names_the_limit_that_lifts_it(tmp_path: Path) -> None:
    path = tmp_path / "file.zip"
    path.write_bytes(archive({"policy.pth": pth(100 * MIB)}, "policy.pth"))
    archived = sbformat.read(path)
    assert sum(info.nbytes for info in archived.parameters["policy"].tensors().values()) == 100 * MIB
    with pytest.raises(LimitError, match=r"memory_bytes=") as raised:
        archived.parameters["policy"].to_numpy()
    assert raised.value.limit == "memory_bytes"
    lifted = sbformat.read(path, limits=Limits(memory_bytes=200 * MIB))
    assert lifted.parameters["policy"].to_numpy()["w0"].nbytes == 100 * MIB


@pytest.mark.exhaustive
@pytest.mark.parametrize("size", [3 * MIB, 30 * MIB])
def test_weights_that_were_deflated_are_read_as_they_were(size: int) -> None:
    """A third of the random bytes is left, as where an optimizer's zeros are beside them."""
    third = size // 12 * 4
    values = np.frombuffer((RANDOM * 20)[:third] + bytes(2 * third), np.uint32)
    held = {"0": values.tobytes(), "1": values.tobytes()[::-1]}
    tree = {name: tensor(storage(values.size, key), (values.size,)) for name, key in (("a", "0"), ("b", "1"))}
    stored, records = torch_zip(tree, held), torch_zip(tree, held, deflated=True)
    good = sbformat.reads(archive({"policy.pth": stored}))
    expected = good.parameters["policy"]
    for data in (archive({"policy.pth": stored}, "policy.pth"), archive({"policy.pth": records})):
        found = sbformat.reads(data)
        assert found.parameters["policy"] == expected
        assert found.parameters["policy"].to_numpy()["a"].tobytes() == held["0"]
        assert list(sbformat.iter_problems(found)) == list(sbformat.iter_problems(good))
        assert sbformat.scan(data).verdict == "clean"
