"""What is called, by the pickle or later by Stable-Baselines, what is changed, and what different unpicklers read."""

from __future__ import annotations

import base64
import bz2
import io
import json
import lzma
import pickle as pickles
import random
import struct
import sys
import tarfile
import zipfile
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest

import sbformat
from conformance.generators.build_pth import torch_zip
from sbformat.errors import escape
from sbformat.known.dangerous import explain_danger
from sbformat.limits import Budget
from sbformat.pkl import attempt
from tests.helpers import bundled
from tests.helpers.attacks import in_blob, name, new, pickle
from tests.helpers.count_work import count_calls
from tests.helpers.many_cases import check_each
from tests.helpers.sampling import with_exhaustive

if TYPE_CHECKING:
    from collections.abc import Callable

    from sbformat.tools.scan.findings import Finding

PAYLOAD: Final = b"\x80\x02cos\nsystem\nX\x04\x00\x00\x00true\x85R."
UNKNOWN: Final = b"csympy.core.containers\nTuple\n"


def text(value: str) -> bytes:
    return b"X" + struct.pack("<I", len(value.encode())) + value.encode()


def rules(raw: bytes) -> set[tuple[str, str, str | None]]:
    """The rule, verdict and reason of every finding."""
    return {(row.rule, row.verdict, row.reason) for row in sbformat.scan(raw).findings}


def worst(raw: bytes) -> Finding:
    report = sbformat.scan(raw)
    return max(report.findings, key=lambda row: ["unknown", "code", "broken", "dangerous"].index(row.verdict))


# -- every way to call a class or object that is not known ---------------------------------------------

CALLS: Final = {
    "NEWOBJ": UNKNOWN + text("code") + b"\x85\x81",
    "NEWOBJ without arguments": UNKNOWN + b")\x81",
    "NEWOBJ_EX": UNKNOWN + text("code") + b"\x85}\x92",
    "REDUCE": UNKNOWN + text("code") + b"\x85R",
    "INST": b"(" + text("code") + b"isympy.core.containers\nTuple\n",
    "OBJ": b"(" + UNKNOWN + text("code") + b"o",
    "BUILD": UNKNOWN + b")\x81}b",
    "APPENDS": UNKNOWN + b")\x81(K\x01e",
    "APPEND": UNKNOWN + b")\x81K\x01a",
    "SETITEMS": UNKNOWN + b")\x81(K\x01K\x02u",
    "ADDITEMS": UNKNOWN + b")\x81(K\x01\x90",
    "popped": UNKNOWN + b")\x810N",
    "a key": b"}" + UNKNOWN + b")\x81K\x01s",
    "BUILD of the class itself": UNKNOWN + b"}b",
    "a member of a set": b"\x8f(" + UNKNOWN + b")\x81\x90",
}


@pytest.mark.each_value
@pytest.mark.parametrize("key", ["policy_class", "note"])
@pytest.mark.parametrize("how", CALLS)
def test_a_class_that_is_not_known_is_called(how: str, key: str) -> None:
    for raw in (in_blob(pickle(CALLS[how]), key), pickle(CALLS[how])):
        report = sbformat.scan(raw)
        assert report.verdict == "dangerous"
        assert report.reason == ("harmful" if "itself" in how else "not-known")


def test_a_name_that_is_allowed_is_not_reported() -> None:
    raw = in_blob(pickle(CALLS["BUILD"]), "policy_class")
    assert sbformat.scan(raw, allow=["sympy.core.containers.Tuple"]).verdict == "clean"


# -- names that Stable-Baselines calls later -------------------------------------------------------------

CALLED_KEYS: Final = (
    "policy_class", "replay_buffer_class", "rollout_buffer_class", "learning_rate", "lr_schedule", "clip_range",
    "clip_range_vf", "exploration_schedule", "policy_kwargs", "replay_buffer_kwargs", "rollout_buffer_kwargs",
    "action_noise", "_setup_model", "set_env", "predict", "_last_obs", "any_class", "any_kwargs", "__reduce__",
)  # fmt: skip


@check_each("key", CALLED_KEYS)
def test_a_name_that_is_called_later(key: str) -> None:
    """Alone, in a dict, in a list in a dict, in a partial and as the key of a dict."""
    nested = b"}" + text("features_extractor_kwargs") + b"}" + text("x") + b"]" + UNKNOWN + b"ass"
    for fragment in (UNKNOWN, b"}" + text("activation_fn") + UNKNOWN + b"s", nested, b"}" + UNKNOWN + b"Ns"):
        raw = in_blob(pickle(fragment), key)
        found = rules(raw)
        assert found == {("called-name", "dangerous", "not-known")} | ({("unknown-name", "unknown", None)} & found)
        assert "allow sympy.core.containers.Tuple" in worst(raw).message


def test_a_name_that_is_only_kept() -> None:
    assert rules(in_blob(pickle(UNKNOWN), "my_task")) == {("unknown-name", "unknown", "not-known")}
    assert rules(pickle(b"]" + UNKNOWN + b"a")) == {("unknown-name", "unknown", "not-known")}


@check_each(
    "fragment",
    [
        name("collections", "deque") + UNKNOWN + b"\x85R",
        name("collections", "OrderedDict") + UNKNOWN + b"\x85R",
        name("collections", "defaultdict") + UNKNOWN + b"\x85R",
        new(name("gymnasium.spaces.box", "Box")) + b"}" + text("sample") + UNKNOWN + b"sb",
        new(name("gymnasium.spaces.box", "Box")) + b"}" + text("low") + b"]" + UNKNOWN + b"asb",
        new(name("stable_baselines3.common.utils", "FloatSchedule")) + b"}" + text("value_schedule") + UNKNOWN + b"sb",
        new(name("stable_baselines3.common.running_mean_std", "RunningMeanStd"))
        + b"}"
        + text("mean")
        + UNKNOWN
        + b"sb",
        name("datetime", "date") + UNKNOWN + b"\x85R",
    ],
)
def test_a_name_that_is_given_to_a_constructor(fragment: bytes) -> None:
    assert worst(pickle(fragment)).verdict == "dangerous"


def test_an_agent_of_stable_baselines_2_has_keys_of_its_own() -> None:
    agent = b"}" + text("policy") + UNKNOWN + b"s}\x86"
    assert ("called-name", "dangerous", "not-known") in rules(pickle(agent))
    saved = torch_zip(
        b"\x80\x02}(" + text("state_dict") + b"}" + text("data") + b"}" + text("optimizer_class") + UNKNOWN + b"su."
    )
    assert ("called-name", "dangerous", "not-known") in rules(saved)


def test_known_classes_are_not_reported() -> None:
    raw = in_blob(
        pickle(b"}" + text("activation_fn") + name("torch.nn.modules.activation", "Tanh") + b"s"), "policy_kwargs"
    )
    assert sbformat.scan(raw).verdict == "clean"


# -- values that are changed after they were judged ------------------------------------------------------

LOAD: Final = name("torch.storage", "_load_from_bytes")


def bytearray8(raw: bytes) -> bytes:
    return b"\x96" + struct.pack("<Q", len(raw)) + raw


def changed_by_items(raw: bytes) -> bytes:
    """A bytearray of zeros that SETITEMS makes into other bytes."""
    pairs = b"".join(b"K" + bytes([at]) + b"K" + bytes([byte]) for at, byte in enumerate(raw))
    return bytearray8(bytes(len(raw))) + b"(" + pairs + b"u"


def appended(raw: bytes) -> bytes:
    return bytearray8(b"") + b"(" + b"".join(b"K" + bytes([byte]) for byte in raw) + b"e"


@pytest.mark.parametrize("make", [changed_by_items, appended])
def test_bytes_are_judged_as_changed(make: Callable[[bytes], bytes]) -> None:
    """In every way that ``pickle`` changes them, and as it has them at the end."""
    raw = pickle(make(PAYLOAD), 5)
    assert bytes(pickles.loads(raw)) == PAYLOAD
    report = sbformat.scan(raw)
    assert report.verdict == "dangerous"
    assert "os.system" in report.imports
    assert sbformat.scan(pickle(LOAD + make(PAYLOAD) + b"\x85R", 5)).verdict == "dangerous"


@check_each(
    "fragment",
    [
        bytearray8(b"ab") + b"\x94" + LOAD + b"h\x00\x85R0h\x00(K\x00K\x01u",
        bytearray8(b"ab") + b"\x94\x98h\x00(K\x00K\x01u\x86",
        bytearray8(b"ab") + b"(" + name("builtins", "slice") + b"K\x00K\x01\x86RC\x01xu",
        b"](K\x01K\x02e\x94" + name("builtins", "bytes") + b"h\x00\x85R0h\x00(K\x00K\x05u",
        b"](K\x01K\x02e\x94" + name("builtins", "bytes") + b"h\x00\x85R0h\x00K\x05a",
        b"]\x94" + name("collections", "OrderedDict") + b"h\x00\x85R0h\x00(K\x01K\x02\x86e",
    ],
)
def test_a_change_that_a_call_did_not_see(fragment: bytes) -> None:
    assert ("changed-value", "dangerous", "not-known") in rules(pickle(fragment, 5))


def test_a_value_that_holds_itself_is_no_such_change() -> None:
    made: list[Any] = [1]
    made.append(made)
    assert sbformat.scan(pickles.dumps(made)).verdict == "unknown"


@check_each(
    ("fragment", "verdict"),
    [
        (b"](K\x05K\x01u", "broken"),
        (b"](K\x00K\x01u", "broken"),
        (b")K\x01a", "broken"),
        (b"}K\x01a", "broken"),
        (b"K\x01}b", "broken"),
        (b"]}b", "broken"),
        (b"](K\x01\x90", "broken"),
        (bytearray8(b"a") + b"(M\x00\x01e", "broken"),
        (bytearray8(b"a") + b"(K\x02K\x01u", "broken"),
        (b"]Nb", "unknown"),
        (b"K\x01(e", "unknown"),
        (b")(u", "unknown"),
    ],
)
def test_a_change_that_cpython_refuses(fragment: bytes, verdict: str) -> None:
    raw = pickle(fragment, 5)
    try:
        pickles.loads(raw)
        is_loaded = True
    except Exception:  # noqa: BLE001 -- of many classes
        is_loaded = False
    assert is_loaded == (verdict != "broken")
    assert sbformat.scan(raw).verdict == verdict


# -- keys ----------------------------------------------------------------------------------------------


UNHASHABLE: Final = {
    "a list": b"}]K\x01s", "a dict": b"}}K\x01s", "a list in a tuple": b"}]\x85K\x01s", "a set": b"\x8f(\x8f\x90",
    "a bytearray": b"}" + bytearray8(b"a") + b"Ns", "a member": b"\x8f(]\x90", "a frozenset": b"(]\x91",
    "deep": b"}](K\x01e\x85\x85\x85K\x01s", "DICT": b"(]K\x01d", "popped": b"}]K\x01s0N", "left": b"(}]K\x01sN",
    "an OrderedDict's": name("collections", "OrderedDict") + b")R]K\x01s",
    "set of a list": name("builtins", "set") + b"](]e\x85R",
    "an OrderedDict": b"}" + name("collections", "OrderedDict") + b")RNs",
    "a deque": b"}" + name("collections", "deque") + b")RNs",
}  # fmt: skip


@check_each("what", UNHASHABLE)
def test_keys_that_cannot_be_hashed(what: str) -> None:
    raw = pickle(UNHASHABLE[what], 5)
    with pytest.raises(TypeError, match="unhashable"):
        pickles.loads(raw)
    report = sbformat.scan(raw)
    assert report.verdict == "broken"
    assert any("cannot be hashed" in row.message for row in report.findings)


@pytest.mark.parametrize("shape", ["}%sNs", "\x8f(%s\x90", "(%s\x91", "}%sNs0N", "}(%sNu"])
def test_hashing_that_never_ends(shape: str) -> None:
    key = b")" + b"2\x86" * 60
    raw = pickle(shape.encode("latin-1").replace(b"%s", key), 4)
    with count_calls() as calls:
        report = sbformat.scan(raw)
    assert calls.number < 100_000
    assert report.verdict == "broken"
    assert any("hashes more than" in row.message for row in report.findings)
    shallow = pickle(shape.encode("latin-1").replace(b"%s", b")" + b"2\x86" * 5), 4)
    pickles.loads(shallow)
    assert sbformat.scan(shallow).verdict in {"clean", "unknown"}


def collides(count: int) -> list[int]:
    """Whole numbers whose hashes are one and the same."""
    return [1 + at * (2**61 - 1) for at in range(count)]


@pytest.mark.parametrize("count", with_exhaustive([600], [12_000, 60_000]))
def test_keys_that_collide(count: int) -> None:
    for made in (dict.fromkeys(collides(2000)), set(collides(2000))):
        report = sbformat.scan(pickles.dumps(made))
        assert report.verdict == "broken"
        assert any("collide" in row.message for row in report.findings)
    dice = random.Random(count)  # noqa: S311
    spread = [dice.randrange(2**62) for _ in range(count)]
    for keys in (range(count), spread, [at << 20 for at in range(count)], [at / 7 for at in range(count)]):
        for made in (dict.fromkeys(keys), set(keys)):
            assert sbformat.scan(pickles.dumps(made)).verdict == "clean"


# -- frames that end inside an argument ------------------------------------------------------------------


class Recorder(pickles.Unpickler):
    """CPython's unpickler in C, which notes what it would import."""

    def __init__(self, file: Any) -> None:
        super().__init__(file)
        self.names: list[str] = []

    def find_class(self, module: str, attribute: str) -> Any:
        self.names.append(f"{module}.{attribute}")
        return list


class PureRecorder(pickles._Unpickler):  # type: ignore[name-defined, misc]
    """The same in Python."""

    def __init__(self, file: Any) -> None:
        super().__init__(file)
        self.names: list[str] = []

    def find_class(self, module: str, attribute: str) -> Any:
        self.names.append(f"{module}.{attribute}")
        return list


class Peekable(io.BytesIO):
    """A file whose next bytes can be looked at, as buffered files have them."""

    def __init__(self, raw: bytes, ahead: int) -> None:
        super().__init__(raw)
        self.ahead = ahead

    def peek(self, _: int) -> bytes:
        return self.getvalue()[self.tell() : self.tell() + self.ahead]


def imported(raw: bytes) -> set[str]:
    """The names that any of CPython's unpicklers would import."""
    found: set[str] = set()
    readers: list[tuple[Callable[[Any], Any], io.BytesIO]] = [
        (Recorder, io.BytesIO(raw)),
        (PureRecorder, io.BytesIO(raw)),
    ]
    readers += [(Recorder, Peekable(raw, ahead)) for ahead in (1, 7, 16, 40, 8192)]
    for reader, file in readers:
        for _ in range(3):  # torch makes an unpickler for each of several pickles in a row
            unpickler = reader(file)
            try:
                unpickler.load()
            except Exception:  # noqa: BLE001 -- of many classes
                break
            finally:
                found.update(unpickler.names)
    return found


PARTS: Final = (
    b"cos\nsystem\n", b"cposix\nx\n", b"X\x03\x00\x00\x00abc", b"\x8c\x02os\x8c\x06system\x93", b"K\x01", b"N", b"0",
    b"(", b"]", b"}", b"\x94", b"I1\n", b"S'a'\n", b"\x80\x04", b".", b"C\x02\n\n", b"B\x02\x00\x00\x00cc", b")", b"1",
)  # fmt: skip


def framed(dice: random.Random) -> bytes:
    body = b"".join(dice.choice(PARTS) for _ in range(dice.randrange(2, 14))) + dice.choice([b".", b"", b"."])
    for _ in range(dice.randrange(1, 4)):
        at = dice.randrange(len(body) + 1)
        body = body[:at] + b"\x95" + struct.pack("<Q", dice.randrange(0, len(body) - at + 4)) + body[at:]
    return b"\x80\x04" + body


@pytest.mark.parametrize("count", with_exhaustive([400], [6000]))
def test_what_any_unpickler_reads_in_frames_is_seen(count: int) -> None:
    """Whatever harmful name an unpickler of CPython would import is in the report, or the frames are ambiguous."""
    seen = 0
    for number in range(count):
        raw = framed(random.Random(number))  # noqa: S311
        names = {name for name in imported(raw) if explain_danger((name.rpartition(".")[0], name.rpartition(".")[2]))}
        report = sbformat.scan(raw)
        if not names or "ambiguous-frame" in {row.rule for row in report.findings}:
            continue
        seen += 1
        assert {escape(name, 1000) for name in names} <= set(report.imports), (number, raw)
    assert seen > count // 6


def test_a_frame_that_ends_in_a_text_line() -> None:
    """The unpickler in C, on a file, drops what is left of the frame and reads the line from behind it."""
    hidden = b"cposix\nsystem\nX\x04\x00\x00\x00true\x85R."
    raw = b"\x80\x04\x95" + struct.pack("<Q", 4) + b"I1\nI" + b"7\n0" + hidden
    other = b"\x80\x04\x95" + struct.pack("<Q", 5) + b"cjson" + b"posix\nsystem\nX\x04\x00\x00\x00true\x85R."
    if sys.version_info < (3, 14):  # later ones refuse it
        assert imported(other) >= {"posix.system"}
    for made in (raw, other):
        for file in (made, torch_zip(made), in_blob(made)):
            assert sbformat.scan(file).verdict == "dangerous"


def test_a_pickle_behind_a_frame_that_reaches_past_stop() -> None:
    raw = b"\x80\x04\x95" + struct.pack("<Q", 6) + b"N.\xff\xff\xff\xff" + PAYLOAD
    assert imported(raw) >= {"os.system"}
    assert sbformat.scan(raw).verdict == "dangerous"


def test_readings_are_not_asked_for_without_frames() -> None:
    assert attempt(b"\x80\x04X\x01\x00\x00\x00\x95\xff", Budget()).others == ()


# -- streams and members ---------------------------------------------------------------------------------


@check_each("count", [1, 63, 64, 65, 200, 3000])
def test_every_pickle_in_a_row_is_judged(count: int) -> None:
    for plain in (b"\x80\x02N.", b"N."):
        assert sbformat.scan(plain * count + PAYLOAD).verdict == "dangerous"


@pytest.mark.parametrize("count", with_exhaustive([12_000], [120_000, 500_000]))
def test_more_pickles_than_are_looked_at_are_broken(count: int) -> None:
    with count_calls() as calls:
        assert sbformat.scan(b"\x80\x02N." * count + PAYLOAD).verdict in {"broken", "dangerous"}
    assert calls.number < 1_200_000 + 8 * count


@check_each("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA, zipfile.ZIP_DEFLATED])
@check_each("entry", ["policy.pth", "data", "notes.txt", "_stable_baselines3_version"])
def test_members_that_zipfile_inflates(entry: str, method: int) -> None:
    content = {"policy.pth": torch_zip(PAYLOAD), "data": bundled.zipped({"data": b"{}"})}.get(entry, PAYLOAD)
    if entry == "data":
        with zipfile.ZipFile(io.BytesIO(in_blob(PAYLOAD))) as archive:
            content = archive.read("data")
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as made:
        made.writestr("data", b"{}" if entry != "data" else content)
        if entry != "data":
            made.writestr(entry, content)
    assert sbformat.scan(buffer.getvalue()).verdict == "dangerous"


def test_lzma_with_a_dictionary_of_gigabytes() -> None:
    """No more memory is taken than what is looked at."""
    filters = [{"id": lzma.FILTER_LZMA1, "dict_size": 1 << 26}]
    packed = lzma.compress(PAYLOAD, lzma.FORMAT_RAW, filters=filters)
    from sbformat.tools.scan.recover import inflate_member

    header = b"\x09\x14\x05\x00\x5d" + struct.pack("<I", 0xFFFFFFFF)
    assert inflate_member(memoryview(header + packed), 14, 1 << 16) == PAYLOAD
    assert inflate_member(memoryview(bz2.compress(PAYLOAD)), 12, 1 << 16) == PAYLOAD
    for broken in (b"", header[:5], header, b"\x09\x14\x05\x00\xff" + header[5:] + packed, header + b"\xff" * 9):
        assert inflate_member(memoryview(broken), 14, 1 << 16) == b""


def test_zstandard_cannot_be_looked_into() -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as made:
        made.writestr("data", b"{}")
        made.writestr("policy.pth", b"x" * 50)
    raw = bytearray(buffer.getvalue())
    local, central = raw.index(b"policy.pth") - 30, raw.rindex(b"policy.pth") - 46
    raw[local + 8], raw[central + 10] = 93, 93
    assert sbformat.scan(bytes(raw)).verdict == "dangerous"


# -- what a second look found ------------------------------------------------------------------------------


def test_an_algorithm_where_it_is_called() -> None:
    """Given a text as its environment, it imports what the text names."""
    algorithm = name("stable_baselines3.ppo.ppo", "PPO")
    nested = b"}" + text("features_extractor_class") + algorithm + b"s"
    for key, fragment in (("policy_kwargs", nested), ("policy_class", algorithm), ("replay_buffer_class", algorithm)):
        assert sbformat.scan(in_blob(pickle(fragment), key)).verdict == "dangerous"
    assert sbformat.scan(in_blob(pickle(algorithm), "my_note")).verdict == "unknown"
    assert sbformat.scan(in_blob(pickle(algorithm), "model_class")).verdict == "clean"


@pytest.mark.parametrize("more", [b"", text("x") + b"K\x01"])
@pytest.mark.parametrize("is_ordered", [False, True])
def test_the_arguments_of_a_saved_policy(more: bytes, is_ordered: bool) -> None:  # noqa: FBT001
    data = b"}" + text("optimizer_class") + UNKNOWN + b"s"
    start = name("collections", "OrderedDict") + b")R" if is_ordered else b"}"
    raw = b"\x80\x02" + start + b"(" + text("state_dict") + b"}" + text("data") + data + more + b"u."
    assert sbformat.scan(torch_zip(raw)).verdict == "dangerous"


def test_an_agent_of_stable_baselines_2_in_a_list() -> None:
    assert sbformat.scan(pickle(b"](}" + text("policy") + UNKNOWN + b"s}e")).verdict == "dangerous"


@pytest.mark.parametrize("change", [b"(N}t", b"N}\x86", b"}"])
def test_a_text_pickle_that_changes_a_name_and_breaks(change: bytes) -> None:
    assert sbformat.scan(b"cstable_baselines3.ppo.ppo\nPPO\n" + change + b"b\xff").verdict == "dangerous"


def damaged_zip(change: Callable[[bytearray, int, int], None], method: int = zipfile.ZIP_STORED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(in_blob(PAYLOAD))) as archive, zipfile.ZipFile(buffer, "w", method) as made:
        made.writestr("data", archive.read("data"))
    raw = bytearray(buffer.getvalue())
    change(raw, raw.index(b"PK\3\4"), raw.index(b"PK\1\2"))
    return bytes(raw)


def local_method(number: int) -> Callable[[bytearray, int, int], None]:
    def change(raw: bytearray, local: int, _: int) -> None:
        raw[local + 8] = number

    return change


@pytest.mark.parametrize(("method", "other"), [(0, 8), (8, 0), (12, 0), (14, 8), (0, 12)])
def test_the_directory_says_how_a_member_is_inflated(method: int, other: int) -> None:
    raw = damaged_zip(local_method(other), method)
    with zipfile.ZipFile(io.BytesIO(raw)) as file:
        assert b"serialized" in file.read("data")
    assert sbformat.scan(raw).verdict == "dangerous"


def test_members_behind_thousands_of_signatures() -> None:
    raw = b"PK\3\4" * 5000 + in_blob(PAYLOAD)
    with zipfile.ZipFile(io.BytesIO(raw)) as file:
        assert "data" in file.namelist()
    assert sbformat.scan(raw).verdict == "dangerous"


def test_a_document_behind_blanks_in_a_damaged_zip() -> None:
    with zipfile.ZipFile(io.BytesIO(in_blob(PAYLOAD))) as archive:
        content = b"\n" * 5000 + archive.read("data")
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as made:
        made.writestr("data", content)
    assert sbformat.scan(b"x" + buffer.getvalue()).verdict == "dangerous"


@pytest.mark.parametrize("count", with_exhaustive([1500], [5000]))
def test_a_blob_behind_thousands_of_others(count: int) -> None:
    blob = '{":type:": "x", ":serialized:": "%s"}'
    tiny, evil = (base64.b64encode(raw).decode() for raw in (b"N.", PAYLOAD))
    rows = [f'"k{at}": {blob % tiny}' for at in range(count)]
    document = "{" + ", ".join([*rows, '"a": 1', '"a": 2', f'"x": {blob % evil}']) + "}"
    assert sbformat.scan(document.encode()).verdict == "dangerous"


def test_a_blob_without_a_key_is_called() -> None:
    deep = "[" * 70 + "]" * 70
    blob = base64.b64encode(pickle(UNKNOWN)).decode()
    document = f'{{"policy_class": {{":type:": "x", ":serialized:": "{blob}"}}, "deep": {deep}}}'
    assert sbformat.scan(document.encode()).verdict == "dangerous"


@pytest.mark.parametrize("count", with_exhaustive([12_000], [30_000]))
def test_many_pickles_in_one_blob_leave_the_next_one_to_be_judged(count: int) -> None:
    inner = b"\x80\x02N."
    many = b"(" + (b"C" + bytes([len(inner)]) + inner) * count + b"l"
    document = {
        key: {":type:": "x", ":serialized:": base64.b64encode(raw).decode()}
        for key, raw in (("a", pickle(many)), ("policy_class", PAYLOAD))
    }
    assert sbformat.scan(json.dumps(document).encode()).verdict == "dangerous"


def tar_of(kind: bytes, content: bytes) -> bytes:
    member = tarfile.TarInfo("pickle")
    member.size, member.type = len(content), kind
    header = member.tobuf(tarfile.USTAR_FORMAT)
    return header + content.ljust(512, b"\0") + bytes(1024)


@check_each("kind", [b"x", b"g", b"S", b"L", b"K", b"1"])
def test_members_that_tarfile_puts_together(kind: bytes) -> None:
    assert sbformat.scan(tar_of(kind, b"20 size=100\n")).verdict == "dangerous"
    assert sbformat.scan(tar_of(b"0", b"N.")).verdict == "broken"


def test_keys_whose_hashes_are_not_looked_at() -> None:
    made = {complex(-1000003 * at, at): None for at in range(2000)}
    assert sbformat.scan(pickles.dumps(made)).verdict == "broken"
    assert sbformat.scan(pickles.dumps(dict.fromkeys(map(complex, range(100))))).verdict == "clean"
    scalar = np.zeros((), [("a", "<f4")])[()]
    raw = pickles.dumps([scalar]).replace(b"]\x94", b"}\x94", 1).replace(b"a.", b"Ns.", 1)
    with pytest.raises(TypeError, match="unhashable"):
        pickles.loads(raw)
    assert sbformat.scan(raw).verdict == "broken"
