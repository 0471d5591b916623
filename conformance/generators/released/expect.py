"""What a decoder prints for an archive, by the torch that is installed: the tagged JSON of ``conformance/README.md``.

    python expect.py ARCHIVE...

Writes ``NAME.expect.json`` beside each. Nothing but ``zipfile``, ``json``, ``base64`` and ``torch.load`` reads them;
the last runs what is in them, so this is for archives of one's own.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
import struct
import sys
import zipfile
from collections import OrderedDict

import numpy as np
import torch

MARKS = (":type:", ":serialized:")


class Pairs(list):
    """A JSON object: its keys and values in order."""


def document(path: str) -> dict[str, object]:
    """What a decoder prints for a file."""
    if path.endswith(".pth"):
        with open(path, "rb") as file:
            return {"form": "pth", "entries": [["policy.pth", state_dict(file.read())]]}
    with zipfile.ZipFile(path) as archive:
        return {"form": "zip", "entries": [[name, entry(name, archive.read(name))] for name in archive.namelist()]}


def entry(name: str, raw: bytes) -> dict[str, object]:
    """The value of one entry."""
    if name == "data":
        return data(raw)
    if name == "_stable_baselines3_version":
        return {"version": raw.decode().strip()}
    if name == "system_info.txt":
        return {"system_info": system_info(raw.decode())}
    if name.endswith(".pth"):
        return state_dict(raw)
    return {"size": len(raw), "sha256": digest(raw)}


def digest(raw: bytes) -> str:
    return hashlib.sha256(raw).hexdigest()


def system_info(text: str) -> list[list[str]]:
    lines = [line[2 * line.startswith("- ") :] for line in text.splitlines()]
    return [[part.strip() for part in line.split(": ", 1)] for line in lines]


def data(raw: bytes) -> dict[str, object]:
    pairs = json.loads(raw.decode(), object_pairs_hook=Pairs)
    return {"dict": [[key, attribute(value)] for key, value in pairs]}


def attribute(value: object) -> object:
    """The value of a key at the top of ``data``."""
    if isinstance(value, Pairs) and ":serialized:" in dict(value):
        return {"serialized": serialized(dict(value), Pairs(pair for pair in value if pair[0] not in MARKS))}
    return plain(value)


def serialized(marks: dict[str, str], hints: Pairs) -> dict[str, object]:
    text = marks[":serialized:"]
    pickle = base64.b64decode(text)
    is_canonical = base64.b64encode(pickle).decode() == text
    facts = {"size": len(pickle), "sha256": digest(pickle), "canonical": is_canonical}
    return {"type": marks.get(":type:"), **facts, "hints": plain(hints)}


def state_dict(raw: bytes) -> dict[str, object]:
    return plain(torch.load(io.BytesIO(raw)))


def plain(value: object) -> object:
    """Tag a value of ``json``, or of ``torch.load``."""
    kind = type(value)
    if value is None or kind in (bool, str):
        return value
    if kind is int:
        return value if abs(value) < 2**53 else {"int": hex(value)}
    if kind is float:
        return {"float": struct.pack(">d", value).hex()}
    if isinstance(value, torch.Tensor):
        return tensor(value)
    if isinstance(value, np.generic):
        return {"scalar": {"dtype": value.dtype.name, "sha256": items(np.asarray(value))}}
    return container(value)


def container(value: dict | list | tuple) -> dict[str, object]:
    """Tag a value with parts; a KeyError when it is of a kind that no archive here has."""
    kind = type(value)
    if kind in (list, tuple):
        return {kind.__name__: [plain(part) for part in value]}
    pairs = value if kind is Pairs else value.items()
    tag = {dict: "dict", Pairs: "dict", OrderedDict: "ordered_dict"}[kind]
    attributes = {name: plain(part) for name, part in getattr(value, "__dict__", {}).items() if kind is OrderedDict}
    return {tag: [[plain(key), plain(part)] for key, part in pairs], **attributes}


def tensor(value: torch.Tensor) -> dict[str, object]:
    dtype = str(value.dtype).split(".")[1]
    found = {"dtype": dtype, "shape": list(value.shape), "sha256": items(value.detach().numpy())}
    flags = {"requires_grad": value.requires_grad, "is_parameter": isinstance(value, torch.nn.Parameter)}
    return {"tensor": found, **{name: True for name, is_set in flags.items() if is_set}}


def items(array: np.ndarray) -> str:
    """The digest of an array's items in C order, little-endian."""
    return digest(array.astype(array.dtype.newbyteorder("<")).tobytes(order="C"))


def write(path: str) -> None:
    """Write what a decoder prints beside the file that it reads."""
    with open(os.path.splitext(path)[0] + ".expect.json", "w", encoding="ascii", newline="\n") as file:
        file.write(json.dumps(document(path)) + "\n")


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        write(argument)
