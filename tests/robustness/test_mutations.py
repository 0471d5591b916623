"""Every truncation and every flipped byte of a small archive gives its content or an error, never another value."""

from __future__ import annotations

import io
import json
import struct
import zipfile
from typing import TYPE_CHECKING, Any, Final

import pytest

import sbformat
from conformance.generators.build_zips import (
    DATA,
    POLICY,
    SYSTEM_INFO,
    is_terminal_safe,
    sb3_archive,
    state_dict_pickle,
    state_dict_zip,
    torch_zip,
)
from conformance.runner.vectors import decode_file, read_vector
from sbformat import data as data_entry
from sbformat import pkl, pth
from sbformat.container.reader import Container
from sbformat.errors import ContainerError, SbformatError
from tests.helpers.sampling import with_exhaustive

if TYPE_CHECKING:
    from collections.abc import Iterator

FLIPS = (0x01, 0x80, 0xFF)


def with_zipfile(*, method: int = zipfile.ZIP_STORED, seekable: bool = True, force_zip64: bool = False) -> bytes:
    """The archive as SB3 writes it: through zipfile, with the torch zip inside."""

    class Pipe(io.RawIOBase):
        written = b""

        def writable(self) -> bool:
            return True

        def write(self, data: Any) -> int:
            self.written += bytes(data)
            return len(data)

    file: Any = io.BytesIO() if seekable else Pipe()
    with zipfile.ZipFile(file, "w", method) as opened:
        for name, content in (
            ("data", json.dumps(DATA).encode()),
            ("policy.pth", state_dict_zip(POLICY, align=4)),
            ("_stable_baselines3_version", b"2.3.2"),
            ("system_info.txt", SYSTEM_INFO),
        ):
            info = zipfile.ZipInfo(name)
            info.compress_type = method
            with opened.open(info, "w", force_zip64=force_zip64) as member:
                member.write(content)
    return bytes(file.getvalue() if seekable else file.written)


def facts(raw: bytes) -> dict[str, Any]:
    """All that the archive holds, decoded."""
    archive = sbformat.reads(raw)
    tensors = {}
    for name, state_dict in archive.parameters.items():
        tensors[name] = {key: value.tolist() for key, value in state_dict.to_numpy().items()}
    return {
        "data": data_entry.to_json(archive.data),
        "tensors": tensors,
        "version": archive.stable_baselines3_version,
        "system_info": archive.system_info,
        "extra": dict(archive.extra),
    }


EXPECTED: dict[str, Any] = {
    "data": DATA,
    "tensors": {"policy": {name: list(values) for name, values in POLICY.items()}},
    "version": "2.3.2",
    "system_info": ({"OS": "Linux", "Python": "3.11.2"}, SYSTEM_INFO.decode()),
    "extra": {},
}
ARCHIVES = {
    "by hand": sb3_archive(align=4),
    "Python 3.11 and later": with_zipfile(force_zip64=True),
    "into a pipe": with_zipfile(seekable=False, force_zip64=True),
    "deflated again": with_zipfile(method=zipfile.ZIP_DEFLATED),
}
archives = pytest.mark.parametrize("raw", ARCHIVES.values(), ids=list(ARCHIVES))


steps = pytest.mark.parametrize("step", with_exhaustive([71], [1]))
"""Every byte, and in the default run every 71st."""


def mutants(raw: bytes, step: int = 1) -> Iterator[tuple[str, bytes]]:
    for at in range(0, len(raw), step):
        for flip in FLIPS:
            yield f"byte {at} ^ {flip:#04x}", raw[:at] + bytes([raw[at] ^ flip]) + raw[at + 1 :]


@archives
def test_the_archives_are_read(raw: bytes) -> None:
    assert facts(raw) == EXPECTED


@steps
@archives
def test_every_truncation_is_refused_with_one_error(raw: bytes, step: int) -> None:
    for size in range(0, len(raw), step):
        with pytest.raises(ContainerError) as caught:
            facts(raw[:size])
        assert is_terminal_safe(str(caught.value)), size


@steps
@archives
def test_every_flipped_byte_gives_the_same_content_or_one_error(raw: bytes, step: int) -> None:
    for mutation, mutant in mutants(raw, step):
        try:
            found = facts(mutant)
        except SbformatError as error:
            assert is_terminal_safe(str(error)), mutation  # noqa: PT017
        else:
            assert found == EXPECTED, mutation


@archives
def test_bytes_put_in_front_or_behind_are_refused(raw: bytes) -> None:
    for mutant in (b"\0" + raw, raw + b"\0", raw[:30] + raw, raw + raw, raw[1:], raw + raw[-22:]):
        with pytest.raises(SbformatError):
            facts(mutant)


@pytest.mark.exhaustive
@pytest.mark.exhaustive
def test_every_truncation_and_flip_of_a_lone_torch_zip_gives_the_same_or_one_error() -> None:
    raw = state_dict_zip(POLICY, align=4)
    expected = {name: list(values) for name, values in POLICY.items()}
    for mutation, mutant in [*mutants(raw), *((f"cut to {size}", raw[:size]) for size in range(len(raw)))]:
        try:
            found = {name: value.tolist() for name, value in pth.loads(mutant).to_numpy().items()}
        except SbformatError as error:
            assert is_terminal_safe(str(error)), mutation  # noqa: PT017
        else:
            assert found == expected, mutation


@pytest.mark.exhaustive
def test_every_truncation_and_flip_of_data_is_read_or_one_error() -> None:
    """Without a CRC around it, a flip may give other JSON; never another error."""
    raw = json.dumps(DATA).encode()
    for mutation, mutant in [*mutants(raw), *((f"cut to {size}", raw[:size]) for size in range(len(raw)))]:
        try:
            found = data_entry.loads(mutant)
        except SbformatError as error:
            assert is_terminal_safe(str(error)), mutation  # noqa: PT017
        else:
            assert isinstance(found, dict), mutation
            assert data_entry.equal_json(found, found), mutation


@pytest.mark.exhaustive
def test_every_truncation_and_flip_of_a_pickle_is_read_or_one_error() -> None:
    """Without a CRC around it, a flip may give another tree; never another error, and never a shorter pickle."""
    with Container(state_dict_zip(POLICY)).read("archive/data.pkl") as view:
        raw = bytes(view)
    for size in range(len(raw)):
        with pytest.raises(SbformatError):
            pkl.loads(raw[:size])
    for mutation, mutant in mutants(raw):
        try:
            pkl.loads(mutant)
        except SbformatError as error:
            assert is_terminal_safe(str(error)), mutation  # noqa: PT017


# -- archives of each era, as SB3 wrote them ----------------------------------------------------------

ERAS: Final = {
    "legacy": "released-ppo-0.6",
    "1.x": "released-a2c-1.0",
    "2.x": "released-ppo-2.6",
    "newest": "released-ars-2.9",
}
LONE: Final = {"torch 1.4": "released-policy-torch-1.4", "torch 2.13": "released-policy-torch-2.13"}
eras = pytest.mark.parametrize("file", ERAS.values(), ids=list(ERAS))
lone = pytest.mark.parametrize("file", LONE.values(), ids=list(LONE))


def contents(raw: bytes) -> dict[str, bytes]:
    """Every entry's bytes, their CRCs checked: what is decoded is decoded from these alone."""
    container = Container(raw)
    return {name: bytes(container.read(name)) for name in container}


@pytest.mark.exhaustive
@eras
def test_every_truncation_of_a_real_archive_is_refused(file: str) -> None:
    raw = decode_file(read_vector(file))
    assert list(sbformat.reads(raw).parameters)
    for size in range(len(raw)):
        with pytest.raises(ContainerError):
            sbformat.reads(raw[:size])


@pytest.mark.exhaustive
@eras
def test_every_flipped_byte_of_a_real_archive_gives_the_same_content_or_one_error(file: str) -> None:
    raw = decode_file(read_vector(file))
    expected = contents(raw)
    accepted = 0
    for mutation, mutant in mutants(raw):
        try:
            assert contents(mutant) == expected, mutation
        except SbformatError as error:
            assert is_terminal_safe(str(error)), mutation  # noqa: PT017
        else:
            accepted += 1
            assert list(sbformat.reads(mutant).entries) == list(expected), mutation
    assert 0 < accepted < len(raw)  # versions, dates and their like


@pytest.mark.exhaustive
@lone
def test_every_truncation_and_flip_of_a_real_state_dict_gives_a_state_dict_or_one_error(file: str) -> None:
    """A torch zip gives the same tensors; a legacy stream has no CRCs, so that flips of its items are other items."""
    raw = decode_file(read_vector(file))
    expected = pth.loads(raw)
    for size in range(len(raw)):
        with pytest.raises(SbformatError):
            pth.loads(raw[:size]).to_numpy()
    for mutation, mutant in mutants(raw):
        try:
            found = pth.loads(mutant)
            assert found == expected or "1.4" in file, mutation
            found.to_numpy()
        except SbformatError as error:
            assert is_terminal_safe(str(error)), mutation  # noqa: PT017


# -- changes that another reader of the same file would see otherwise ---------------------------------


def two_in_case(**more: bytes) -> bytes:
    """A torch zip with records besides; torch looks names up without regard to case."""
    records = {
        "data.pkl": state_dict_pickle(POLICY),
        "data/0": struct.pack("<2f", 1, 2),
        "data/1": struct.pack("<f", 3),
    }
    return torch_zip({**records, "version": b"3\n", **more})


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ["DATA.PKL", "Data.pkl", "BYTEORDER", "Version", "data/A", ".DATA/version"])
def test_a_record_that_torch_could_take_for_another_is_refused(name: str) -> None:
    assert pth.loads(two_in_case(**{"data/a": b"", ".data/version": b"3\n"}))
    more = {"data/a": b"", ".data/version": b"3\n", name: b"big" if name == "BYTEORDER" else b"x"}
    with pytest.raises(SbformatError):
        pth.loads(two_in_case(**more))


# -- the formats around it ----------------------------------------------------------------------------

SB2_ZIP: Final = decode_file(read_vector("sb2-zip-data"))
ONE_PICKLE: Final = ("pickle-of-vecnormalize", "pickle-of-statistics", "pickle-of-a-buffer", "parameters-by-name")


def everything(raw: bytes) -> list[Any]:
    """All that a file of another format holds, decoded."""
    archive = sbformat.reads(raw)
    arrays = [archive.parameters[name].to_numpy() for name in archive.parameters]
    return [archive.format, repr(data_entry.to_json(archive.data)), repr(arrays)]


@pytest.mark.exhaustive
def test_every_truncation_of_a_zip_of_sb2_is_refused() -> None:
    for size in range(len(SB2_ZIP)):
        with pytest.raises(ContainerError):
            everything(SB2_ZIP[:size])


@pytest.mark.exhaustive
def test_every_flipped_byte_of_a_zip_of_sb2_gives_the_same_content_or_one_error() -> None:
    expected = everything(SB2_ZIP)
    for mutation, mutant in mutants(SB2_ZIP):
        try:
            found = everything(mutant)
        except SbformatError as error:
            assert is_terminal_safe(str(error)), mutation  # noqa: PT017
        else:
            assert found == expected, mutation


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ONE_PICKLE)
def test_every_truncation_and_flip_of_a_lone_pickle_is_read_or_one_error(name: str) -> None:
    """Nothing checks its bytes: a flip may give another value; never another error, and never a shorter file."""
    raw = decode_file(read_vector(name))
    for size in range(len(raw)):
        with pytest.raises(SbformatError):
            everything(raw[:size])
    for mutation, mutant in mutants(raw):
        try:
            everything(mutant)
        except SbformatError as error:
            assert is_terminal_safe(str(error)), mutation  # noqa: PT017
