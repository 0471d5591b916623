"""Archive.replace and without: another archive, which shares what was not edited."""

from __future__ import annotations

import gc
import json
import math
import struct
import weakref
import zipfile
from io import BytesIO
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest

import sbformat
from conformance.generators import build_zips
from sbformat import Archive, Serialized, StateDict
from tests.helpers.bundled import PPO, SAC, changed, entries, with_data, zipped

if TYPE_CHECKING:
    from collections.abc import Callable


ARCHIVE: Final = sbformat.read(PPO)
MADE: Final = sbformat.reads(build_zips.sb3_archive(entries={"notes.txt": b"mine"}))


def members(data: bytes) -> dict[str, bytes]:
    """The entries of a zip, in order, by the standard library, which checks every CRC."""
    with zipfile.ZipFile(BytesIO(data)) as file:
        return {info.filename: file.read(info) for info in file.infolist()}


def written(archive: Archive) -> Archive:
    """What it is after it was written: equal, with the same entries."""
    again = sbformat.reads(sbformat.writes(archive))
    assert again == archive
    assert set(again.entries) == set(archive.entries)
    assert sbformat.writes(again) == sbformat.writes(archive)
    return again


def verbatim(archive: Archive, *names: str) -> None:
    """Every entry but these has the bytes of the bundled archive."""
    found, old = members(sbformat.writes(archive)), entries()
    assert {name: found.get(name) for name in old if name not in names} == {
        name: content for name, content in old.items() if name not in names
    }


# -- each field ---------------------------------------------------------------------------------------


def test_data_is_replaced_and_all_else_is_kept() -> None:
    edited = ARCHIVE.replace(data={**ARCHIVE.data, "gamma": 0.5, "note": ["new", {"k": None}]})
    assert edited.data["gamma"] == 0.5
    assert written(edited).data == {**ARCHIVE.data, "gamma": 0.5, "note": ["new", {"k": None}]}
    assert ARCHIVE.data["gamma"] == 0.99
    assert edited != ARCHIVE
    verbatim(edited, "data")


def test_a_state_dict_is_replaced_and_all_else_is_kept() -> None:
    weights = {name: array * 2 for name, array in ARCHIVE.parameters["policy"].to_numpy().items()}
    edited = ARCHIVE.replace(parameters={"policy": weights})
    again = written(edited)
    for archive in (edited, again):
        assert list(archive.parameters) == ["policy", "policy.optimizer"]
        assert all(np.array_equal(archive.parameters["policy"][name], weights[name]) for name in weights)
    verbatim(edited, "policy.pth")


def test_variables_are_replaced_under_the_name_they_have() -> None:
    old = {**entries(SAC), "tensors.pth": entries(SAC)["pytorch_variables.pth"]}
    del old["pytorch_variables.pth"]
    edited = sbformat.reads(zipped(old)).replace(pytorch_variables={"log_ent_coef": np.float32([2.5])})
    assert "pytorch_variables.pth" not in edited.entries
    again = written(edited)
    assert again.pytorch_variables is not None
    assert again.pytorch_variables["log_ent_coef"].tolist() == [2.5]
    assert MADE.pytorch_variables is None
    assert list(written(MADE.replace(pytorch_variables={})).entries)[:2] == ["data", "pytorch_variables.pth"]


def test_texts_are_replaced() -> None:
    edited = ARCHIVE.replace(stable_baselines3_version="2.4.1", system_info="- OS: Plan 9\n- Python: ∞\n")
    again = written(edited)
    for archive in (edited, again):
        assert archive.stable_baselines3_version == "2.4.1"
        assert archive.system_info is not None
        assert archive.system_info.fields == {"OS": "Plan 9", "Python": "∞"}
    verbatim(edited, "_stable_baselines3_version", "system_info.txt")


def test_extra_entries_are_added_replaced_and_removed() -> None:
    edited = MADE.replace(
        extra={"notes.txt": b"other", "deep/policy.pth": bytearray(b"not loaded"), "v": memoryview(b"1")}
    )
    assert dict(written(edited).extra) == {"notes.txt": b"other", "deep/policy.pth": b"not loaded", "v": b"1"}
    assert dict(written(edited.replace(extra={"notes.txt": None, "v": None})).extra) == {
        "deep/policy.pth": b"not loaded"
    }
    assert dict(MADE.extra) == {"notes.txt": b"mine"}


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"data": None}, "data"),
        ({"parameters": {"policy": None}}, "policy.pth"),
        ({"pytorch_variables": None}, "pytorch_variables.pth"),
        ({"stable_baselines3_version": None}, "_stable_baselines3_version"),
        ({"system_info": None}, "system_info.txt"),
    ],
)
def test_none_removes_an_entry(change: dict[str, Any], name: str) -> None:
    edited = ARCHIVE.replace(**change)
    for same in (ARCHIVE.without(name), written(edited)):
        assert edited == same
    assert list(edited.entries) == [other for other in entries() if other != name]
    verbatim(edited, name)
    assert name not in members(sbformat.writes(edited))
    assert sbformat.read(PPO) == ARCHIVE


@pytest.mark.parametrize("change", [{"parameters": {"polciy": None}}, {"extra": {"notes.txt": None}}])
def test_what_is_not_there_cannot_be_removed(change: dict[str, Any]) -> None:
    with pytest.raises(sbformat.MissingEntryError):
        ARCHIVE.replace(**change)


def test_what_is_removed_is_not_found_any_more() -> None:
    edited = ARCHIVE.without("data", "policy.pth", "system_info.txt", "_stable_baselines3_version")
    assert edited.system_info is None
    assert edited.stable_baselines3_version is None
    for ask in (lambda: edited.data, lambda: edited.parameters["policy"], lambda: edited.stream("data")):
        with pytest.raises(sbformat.MissingEntryError):
            ask()


def test_without_wants_names_that_are_there() -> None:
    with pytest.raises(sbformat.MissingEntryError, match=r"system_info\.txt"):
        ARCHIVE.without("system_info.text")
    assert ARCHIVE.without() == ARCHIVE


def test_replace_with_nothing_is_the_same_archive() -> None:
    assert sbformat.writes(ARCHIVE.replace()) == sbformat.writes(ARCHIVE)


# -- what is refused ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        {"extra": {"data": b""}},
        {"extra": {"system_info.txt": b""}},
        {"extra": {"_stable_baselines3_version": b""}},
        {"extra": {"policy.pth": b""}},
        {"extra": {"../escape": b""}},
        {"extra": {"/etc/passwd": b""}},
        {"extra": {"C:a": b""}},
        {"extra": {"a\\b": b""}},
        {"extra": {"a//b": b""}},
        {"extra": {"": b""}},
        {"extra": {"nul.txt": b""}},
        {"extra": {"tab\t": b""}},
        {"extra": {"\u202egpj": b""}},
        {"extra": {"\ud800": b""}},
        {"extra": {"x" * 1025: b""}},
        {"extra": {"DATA": b""}},
        {"extra": {"a": b"", "A": b""}},
        {"extra": {"a": b"", "a/b": b""}},
        {"extra": {"data/b": b""}},
        {"parameters": {"Policy": {}}},
        {"parameters": {"a/b": {}}},
        {"parameters": {"": {}}},
        {"parameters": {"a:b": {}}},
        {"parameters": {"con": {}}},
    ],
)
def test_names_that_no_entry_can_have_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(sbformat.ContainerError) as caught:
        ARCHIVE.replace(**change)
    assert build_zips.is_terminal_safe(str(caught.value))


@pytest.mark.parametrize(
    ("change", "error", "entry"),
    [
        ({"data": {"a": {1, 2}}}, sbformat.DataError, "data"),
        ({"data": {1: 2}}, sbformat.DataError, "data"),
        ({"data": {"a": [Serialized(None, b"")]}}, sbformat.DataError, "data"),
        ({"data": {"a": np.float32(1)}}, sbformat.DataError, "data"),
        ({"parameters": {"policy": {"w": object()}}}, sbformat.UnsupportedError, "policy.pth"),
        ({"parameters": {"policy": {"w": np.array(["text"])}}}, sbformat.UnsupportedError, "policy.pth"),
        ({"parameters": {"p": {"w": {object(): 1}}}}, sbformat.UnsupportedError, "p.pth"),
        ({"pytorch_variables": {"w": object()}}, sbformat.UnsupportedError, "pytorch_variables.pth"),
        ({"stable_baselines3_version": "2.0\x1b[31m"}, sbformat.DataError, "_stable_baselines3_version"),
        ({"stable_baselines3_version": "zwei"[:2] + "ö"}, sbformat.DataError, "_stable_baselines3_version"),
        ({"system_info": "\ud800"}, sbformat.DataError, "system_info.txt"),
    ],
)
def test_values_that_no_entry_can_hold_are_refused_by_name(change: Any, error: Any, entry: str) -> None:
    with pytest.raises(error) as caught:
        ARCHIVE.replace(**change)
    assert caught.value.entry == entry


@pytest.mark.parametrize("content", ["text", 5, 1.5, [1, 2]])
def test_an_extra_entry_is_bytes(content: Any) -> None:
    with pytest.raises(TypeError):
        ARCHIVE.replace(extra={"a": content})


# -- edits upon edits ---------------------------------------------------------------------------------

STEPS: Final[dict[str, Callable[[Archive], Archive]]] = {
    "data": lambda archive: archive.replace(data={"gamma": 0.5}),
    "policy": lambda archive: archive.replace(parameters={"policy": {"w": np.ones(3)}}),
    "first": lambda archive: archive.replace(extra={"b.txt": b"1"}),
    "second": lambda archive: archive.replace(extra={"a.txt": b"2"}),
    "third": lambda archive: archive.replace(parameters={"b.optimizer": {}}),
    "fourth": lambda archive: archive.replace(parameters={"a.optimizer": {}}),
    "notes": lambda archive: archive.without("notes.txt"),
    "again": lambda archive: archive.replace(system_info="x"),
}


@pytest.mark.parametrize("turn", range(len(STEPS)))
def test_the_order_of_edits_does_not_matter(turn: int) -> None:
    def edited(names: list[str]) -> Archive:
        archive = MADE
        for name in names:
            archive = STEPS[name](archive)
        return archive

    names = list(STEPS)
    expected = sbformat.writes(edited(names))
    assert sbformat.writes(edited(names[turn:] + names[:turn])) == expected
    assert sbformat.writes(edited(list(reversed(names)))) == expected


def test_what_was_removed_and_put_back_stands_where_it_stood() -> None:
    content = b"".join(MADE.stream("notes.txt"))
    many = MADE.replace(extra={"z.txt": b"z"})
    assert list(many.without("notes.txt").replace(extra={"notes.txt": content}).entries) == list(many.entries)
    assert sbformat.writes(MADE.without("notes.txt").replace(extra={"notes.txt": content})) == sbformat.writes(MADE)


def test_the_last_edit_counts_and_older_archives_stay() -> None:
    chain = [MADE]
    for number in range(5):
        chain.append(chain[-1].replace(extra={"n": b"%d" % number}, data={"n": number}))
    assert [archive.data.get("n") for archive in chain] == [None, 0, 1, 2, 3, 4]
    assert [archive.extra["n"] for archive in chain[1:]] == [b"0", b"1", b"2", b"3", b"4"]
    assert written(chain[-1]).data == {"n": 4}
    assert members(sbformat.writes(chain[0])) == members(build_zips.sb3_archive(entries={"notes.txt": b"mine"}))


def test_thousands_of_edits_are_no_deeper_than_one() -> None:
    archive = MADE
    for number in range(3000):
        archive = archive.replace(extra={"n": b"%d" % number})
    assert written(archive).extra["n"] == b"2999"


def test_edits_do_not_keep_what_they_replaced() -> None:
    class Weights(np.ndarray):
        """An array that can be referred to weakly."""

    first = np.zeros(10).view(Weights)
    gone = weakref.ref(first)
    archive = MADE.replace(parameters={"policy": {"w": first}})
    archive = archive.replace(parameters={"policy": {"w": np.ones(10)}})
    del first
    gc.collect()
    assert gone() is None
    assert written(archive).parameters["policy"]["w"].tolist() == [1.0] * 10


# -- unchanged is verbatim ----------------------------------------------------------------------------


def test_a_state_dict_that_was_not_changed_is_copied_verbatim() -> None:
    odd = build_zips.state_dict_zip(build_zips.POLICY, align=8)  # no writer of ours aligns so
    archive = sbformat.reads(build_zips.sb3_archive(entries={"policy.pth": odd}))
    same = archive.replace(parameters=dict(archive.parameters), extra={"a": b""})
    assert members(sbformat.writes(same))["policy.pth"] == odd
    again = same.replace(parameters={"policy": same.parameters["policy"]})
    assert members(sbformat.writes(again))["policy.pth"] == odd
    other = archive.replace(parameters={"copy": archive.parameters["policy"]})
    found = members(sbformat.writes(other))
    assert found["policy.pth"] == odd != found["copy.pth"]
    assert written(other).parameters["copy"] == archive.parameters["policy"]


def test_a_state_dict_of_an_older_edit_is_written_again() -> None:
    old = MADE.parameters["policy"]
    edited = MADE.replace(parameters={"policy": {"w": np.zeros(1)}})
    back = edited.replace(parameters={"policy": old})
    assert back == MADE == written(back)
    assert back != edited


def test_a_state_dict_may_come_from_another_archive() -> None:
    edited = ARCHIVE.replace(parameters={"policy": sbformat.read(SAC).parameters["policy"]})
    assert written(edited).parameters["policy"] == sbformat.read(SAC).parameters["policy"]
    assert edited.parameters["policy"].entry == "policy.pth"


def test_a_changed_state_dict_keeps_its_name_in_errors() -> None:
    edited = MADE.replace(parameters={"critic": MADE.parameters["policy"]})
    assert edited.parameters["critic"].entry == "critic.pth"
    assert MADE.parameters["policy"].entry == "policy.pth"


# -- data ---------------------------------------------------------------------------------------------


def test_changed_data_is_written() -> None:
    archive = sbformat.read(PPO)
    edited = archive.replace(data={**archive.data, "gamma": 0.5, "policy_kwargs": {"net_arch": [8]}})
    again = sbformat.reads(sbformat.writes(edited))
    assert again == edited != ARCHIVE
    assert (again.data["gamma"], again.data["policy_kwargs"]) == (0.5, {"net_arch": [8]})
    verbatim(edited, "data")
    assert archive == ARCHIVE


def test_changed_data_goes_along_with_other_edits() -> None:
    archive = sbformat.read(PPO)
    edited = archive.replace(data={**archive.data, "gamma": 0.5}).replace(extra={"a": b""}).without("system_info.txt")
    assert archive.data["gamma"] == 0.99
    assert edited.data["gamma"] == written(edited).data["gamma"] == 0.5
    assert "data" not in edited.replace(data=None).entries
    assert edited.replace(data={"a": 1}).data == {"a": 1}


def test_data_that_json_cannot_hold_is_refused() -> None:
    archive = sbformat.read(PPO)
    with pytest.raises(sbformat.DataError, match="gamma") as caught:
        archive.replace(data={**archive.data, "gamma": {1, 2}})
    assert caught.value.entry == "data"


def test_numbers_that_json_has_no_word_for_come_back() -> None:
    values = {"nan": math.nan, "inf": [math.inf, -math.inf], "zero": -0.0, "big": 2**70, "lone": "\ud800", "ü": "ü"}
    edited = written(MADE.replace(data=values))
    assert math.isnan(edited.data["nan"])
    assert edited.data["inf"] == [math.inf, -math.inf]
    assert math.copysign(1, edited.data["zero"]) == -1
    assert (edited.data["big"], edited.data["lone"], edited.data["ü"]) == (2**70, "\ud800", "ü")
    edited = edited.replace(data={**edited.data, "nan": 1.0})
    assert sbformat.reads(sbformat.writes(edited)).data["nan"] == 1.0


def test_blobs_keep_their_text() -> None:
    lenient = build_zips.SEVEN[:2] + "\n" + build_zips.SEVEN[2:]
    data = json.dumps({"blob": {":type:": "<class 'int'>", ":serialized:": lenient, "hint": [1]}}).encode()
    archive = sbformat.reads(build_zips.sb3_archive(entries={"data": data}))
    edited = written(archive.replace(data={**archive.data, "more": Serialized("<class 'int'>", b"\x80\x04K\x07.")}))
    assert (edited.data["blob"].text, edited.data["blob"].hints) == (lenient, {"hint": [1]})
    assert edited.data["more"].text == build_zips.SEVEN


# -- broken entries -----------------------------------------------------------------------------------

BROKEN: Final = {
    "data": b"{", "policy.pth": b"PK\x03\x04 nothing", "policy.optimizer.pth": b"", "pytorch_variables.pth": b"x",
    "_stable_baselines3_version": b"\xff", "system_info.txt": b"\xfe",
}  # fmt: skip


def test_broken_entries_stay_and_do_not_hinder_edits_of_others() -> None:
    archive = sbformat.reads(zipped(BROKEN))
    edited = archive.replace(extra={"a": b"b"}, parameters={"critic": {"w": np.zeros(2)}})
    found = members(sbformat.writes(edited))
    assert {name: found[name] for name in BROKEN} == BROKEN
    assert sbformat.reads(sbformat.writes(edited)) == edited


@pytest.mark.parametrize("name", list(BROKEN))
def test_a_broken_entry_can_be_replaced(name: str) -> None:
    good = {
        "data": {"data": {}},
        "policy.pth": {"parameters": {"policy": {}}},
        "policy.optimizer.pth": {"parameters": {"policy.optimizer": {}}},
        "pytorch_variables.pth": {"pytorch_variables": {}},
        "_stable_baselines3_version": {"stable_baselines3_version": "2.0.0"},
        "system_info.txt": {"system_info": "- OS: x\n"},
    }
    archive = sbformat.reads(zipped(BROKEN))
    for ask in (lambda: archive.data, lambda: archive.state_dict("policy.pth")):
        with pytest.raises(sbformat.SbformatError):
            ask()
    edited = archive.replace(**good[name])
    found = members(sbformat.writes(edited))
    assert {other: found[other] for other in BROKEN if other != name} == {k: v for k, v in BROKEN.items() if k != name}
    if name == "data":
        assert edited.data == {}
    elif name.endswith(".pth"):
        assert edited.state_dict(name).to_numpy() == {}


# -- equality -----------------------------------------------------------------------------------------


def test_edited_archives_are_equal_by_value() -> None:
    other = sbformat.reads(with_data(lambda data: data.update(gamma=0.5)))
    assert ARCHIVE.replace(data={**ARCHIVE.data, "gamma": 0.5}) == other
    assert ARCHIVE.replace(parameters={"policy": ARCHIVE.parameters["policy"].to_numpy()}) == ARCHIVE
    copied = {name: array.copy() for name, array in ARCHIVE.parameters["policy"].to_numpy().items()}
    assert ARCHIVE.replace(parameters={"policy": ARCHIVE.parameters["policy"].with_arrays(copied)}) == ARCHIVE
    assert ARCHIVE.replace(extra={"a": b""}) != ARCHIVE.replace(extra={"a": b"x"})
    assert ARCHIVE.replace(extra={"a": b""}) == sbformat.reads(changed(a=b""))
    nan = np.frombuffer(struct.pack("<2I", 0x7FC00001, 0x7FC00002), "<f4")
    first, same = (MADE.replace(parameters={"policy": {"w": nan.copy()}}) for _ in range(2))
    assert first == same != MADE.replace(parameters={"policy": {"w": nan[::-1]}})
    assert written(first).parameters["policy"]["w"].tobytes() == nan.tobytes()


def test_the_old_and_the_new_archive_share_what_was_decoded() -> None:
    archive = sbformat.read(PPO)
    policy, version = archive.parameters["policy"], archive.stable_baselines3_version
    edited = archive.replace(extra={"a": b""})
    assert edited.parameters["policy"] is policy
    assert edited.stable_baselines3_version == version
    assert edited.data is not archive.data
    assert edited.format == archive.format


def test_an_edited_archive_streams_what_will_be_written() -> None:
    edited = ARCHIVE.replace(parameters={"policy": {"w": np.arange(1000)}}, extra={"a": b"b"}, data={})
    found = members(sbformat.writes(edited))
    assert found == {name: b"".join(edited.stream(name)) for name in edited.entries}
    assert {name: entry.size for name, entry in edited.entries.items()} == {name: len(found[name]) for name in found}
    assert StateDict.from_arrays({"w": np.arange(1000)}) == edited.parameters["policy"]
