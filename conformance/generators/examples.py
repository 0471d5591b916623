"""The small archive that ``schema/EXAMPLES.md`` shows byte by byte, and the pickle in it."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Final

from conformance.generators import expected
from conformance.generators.build_zips import Member, build_zip, state_dict_zip
from conformance.generators.trees import call, counted, frame, name, tree, tuple_
from conformance.generators.vectors import Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conformance.generators.vectors import Vector

MODULE: Final = "stable_baselines3.common.type_aliases"
TYPE: Final = f"<class '{MODULE}.TrainFreq'>"


def short_text(value: str) -> bytes:
    """SHORT_BINUNICODE, and MEMOIZE."""
    return b"\x8c" + counted(1, value.encode()) + b"\x94"


TRAIN_FREQ: Final = (
    b"\x80\x04" + frame(
        short_text(MODULE) + short_text("TrainFreq") + b"\x93\x94K\x01"
        + b"h\x00" + short_text("TrainFrequencyUnit") + b"\x93\x94" + short_text("step") + b"\x85\x94R\x94"
        + b"\x86\x94\x81\x94."
    )
)  # fmt: skip
"""``TrainFreq(1, TrainFrequencyUnit("step"))``, as cloudpickle writes it."""
WEIGHTS: Final = {"w": (1.0, -2.5)}
DATA: Final = {
    "gamma": 0.5,
    "train_freq": {":type:": TYPE, ":serialized:": base64.b64encode(TRAIN_FREQ).decode("ascii")},
}


def vectors() -> Iterator[Vector]:
    """Yield the vectors of this family."""
    entries = {
        "data": json.dumps(DATA).encode(),
        "policy.pth": state_dict_zip(WEIGHTS),
        "_stable_baselines3_version": b"2.3.2",
    }
    archive = build_zip(*[Member(entry.encode(), data) for entry, data in entries.items()])
    values = {
        "data": {"dict": [["gamma", expected.floating(0.5)], ["train_freq", expected.serialized(TRAIN_FREQ, TYPE)]]},
        "policy.pth": expected.state_dict(WEIGHTS),
        "_stable_baselines3_version": {"version": "2.3.2"},
    }
    rule = Rule("1", "An archive is a zip whose members are plain text, one JSON text")
    yield rule.accepts("example-archive", archive, expected.archive(values))
    cls, unit = name(MODULE, "TrainFreq"), name(MODULE, "TrainFrequencyUnit")
    step = call("REDUCE", unit, tuple_("step"))
    made = call("NEWOBJ", cls, tuple_(1, step))
    rule = Rule("5.2", "None, bool, int, float, text, bytes, bytearray, tuple and list represent themselves")
    printed = tree(made, cls, unit, step, made, protocol=4)
    yield rule.accepts("example-train-freq", archive, printed, "--blob", "train_freq")
