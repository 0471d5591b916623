"""``write``, ``writes`` and ``new``: the ways out, the mirror of ``reader`` (FORMAT.md 12).

An archive is written as SB3 writes it: the same order, stored, with fixed dates, so that the same entries give the same
bytes. What was not edited is copied byte for byte. What is written is read again by the strict reader before it
counts.
"""

from __future__ import annotations

import os
from functools import partial
from io import BytesIO
from typing import IO, TYPE_CHECKING, Any, Final, TypeAlias

from sbformat.archive.archive import Archive
from sbformat.archive.kinds import detect_zip_kind, refuse_kind
from sbformat.constants import (
    DATA_ENTRY,
    OPTIMIZER_WORD,
    PLAIN_ENTRIES,
    POLICY_ENTRY,
    PTH_SUFFIX,
    PYTORCH_VARIABLES_ENTRY,
    SYSTEM_INFO_ENTRY,
    TENSORS_ENTRY,
    VERSION_ENTRY,
)
from sbformat.container.names import is_state_dict
from sbformat.container.reader import Container
from sbformat.container.writer import ContainerWriter, write_all
from sbformat.errors import ContainerError, SbformatError
from sbformat.io.atomic import WriteBack, new_file, open_new
from sbformat.io.readahead import READ_AHEAD_BYTES, read_ahead
from sbformat.io.source import BytesSource, FileSource
from sbformat.limits import Budget
from sbformat.pth import StateDict, clear_optimizer, decode_zip, encode_pth
from sbformat.pth.decode import open_records
from sbformat.pth.mismatches import Mismatch, fit_all, misfit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from sbformat.container.records import Chunks
    from sbformat.io.source import Source
    from sbformat.pth.values import OnUnknown

_FIRST: Final = (DATA_ENTRY, PYTORCH_VARIABLES_ENTRY, TENSORS_ENTRY, POLICY_ENTRY)
_LAST: Final = (VERSION_ENTRY, SYSTEM_INFO_ENTRY)
_POLICY: Final = POLICY_ENTRY.removesuffix(PTH_SUFFIX)


def write(
    archive: Archive,
    path: str | os.PathLike[str],
    *,
    overwrite: bool = True,
    reencode: bool = False,
    progress: Callable[[int], None] | None = None,
) -> None:
    """Write an archive to a file, whole or not at all.

    It is written beside the target, synced, read again by the strict reader, and then renamed over it: on any failure
    the old file is as it was. The target's mode is kept; of a symbolic link, what it points to is replaced. Writing
    over the archive that was read works. Tensors are streamed: no copy of them is held. Whether SB3 can load it is
    another question: :func:`sbformat.validate` answers it.

    :param archive: what to write
    :param path: the target, exactly: no ``.zip`` is added
    :param overwrite: False refuses a target that exists
    :param reencode: make every ``.pth`` and ``data`` anew from its values, instead of copying what was not edited
    :param progress: called with the number of bytes, each time some were written
    :raises FileExistsError: when it exists and ``overwrite`` is False
    :raises OSError: when it cannot be written, or is no regular file
    :raises SbformatError: when an entry cannot be encoded, or what was written would be refused by
        :func:`sbformat.read`
    """
    with new_file(path, overwrite=overwrite) as temporary:
        with open_new(temporary) as file:
            encoded = _write_entries(archive, file, reencode=reencode, progress=_telling(file, progress))
            os.fsync(file.fileno())
        _check(FileSource(temporary), archive, encoded, check_crcs=True)
        archive.check()


def writes(archive: Archive, *, reencode: bool = False) -> bytes:
    """Return the bytes that :func:`write` writes; the same whenever the entries are the same.

    :param archive: what to write
    :param reencode: as in :func:`write`
    :raises SbformatError: as in :func:`write`
    """
    file = BytesIO()
    encoded = _write_entries(archive, file, reencode=reencode)
    data = file.getvalue()
    _check(BytesSource(data), archive, encoded, check_crcs=False)
    return data


def write_pth(
    state_dict: StateDict,
    path: str | os.PathLike[str],
    *,
    overwrite: bool = True,
    progress: Callable[[int], None] | None = None,
    check: Callable[[], None] | None = None,
) -> None:
    """Write one state dict to a ``.pth`` file, as :func:`write` does: whole or not at all, streamed, and read again.

    :param state_dict: of an archive, or :meth:`StateDict.from_arrays`
    :param path: the target
    :param overwrite: as in :func:`write`
    :param progress: as in :func:`write`
    :param check: called when all was written, before it takes the target's place; what it raises is raised
    :raises SbformatError: when it cannot be encoded
    """
    made = encode_pth(state_dict)
    with new_file(path, overwrite=overwrite) as temporary:
        with open_new(temporary) as file:
            for chunk in _to_write(made.chunks, made.size, _telling(file, progress))():
                write_all(file, chunk)
            os.fsync(file.fileno())
        _check_pth(FileSource(temporary), state_dict.new_budget(), "inert").verify_all()
        if check:
            check()


def _in_order(names: Iterable[str]) -> list[str]:
    """SB3's order (FORMAT.md 1.2); optimizers, and what else there is, as they stand."""
    return sorted(names, key=_rank)


def _rank(name: str) -> int:
    if name in _FIRST:
        return _FIRST.index(name)
    if is_state_dict(name):
        return len(_FIRST)
    return len(_FIRST) + 1 + (_LAST.index(name) if name in _LAST else len(_LAST))


def _write_entries(
    archive: Archive, file: IO[bytes], *, reencode: bool, progress: Callable[[int], None] | None = None
) -> frozenset[str]:
    """Write the zip; return the names of the entries that were encoded, not copied."""
    writer = ContainerWriter(file)
    encoded = set()
    for name in _in_order(archive.entries):
        try:
            member, is_new = archive.encode_entry(name, reencode=reencode)
            if is_new:
                encoded.add(name)
            writer.add(member._replace(chunks=_to_write(member.chunks, member.size, progress)))
        except SbformatError as error:
            if error.entry is None or not f"{error.entry}/".startswith(f"{name}/"):
                error.within(name)  # a record of a .pth knows its own name only
            raise
    writer.finish()
    return frozenset(encoded)


_Chunks: TypeAlias = "Callable[[], Chunks]"


def _to_write(chunks: _Chunks, size: int, progress: Callable[[int], None] | None) -> _Chunks:
    """The same chunks: many are made, and summed up, while those before them are written; and reported."""
    if size >= READ_AHEAD_BYTES:
        chunks = partial(_made_ahead, chunks)
    return partial(_reported, chunks, progress) if progress else chunks


def _telling(file: IO[bytes], progress: Callable[[int], None] | None) -> Callable[[int], None]:
    """Return what is to be told of bytes that were written."""
    wrote = WriteBack(file).add

    def tell(size: int) -> None:
        wrote(size)
        if progress:
            progress(size)

    return tell


def _made_ahead(chunks: _Chunks) -> Iterator[bytes | memoryview]:
    return read_ahead(chunks())


def _reported(chunks: _Chunks, progress: Callable[[int], None]) -> Iterator[bytes | memoryview]:
    for chunk in chunks():
        yield chunk
        progress(len(chunk))


def _check(source: Source, archive: Archive, encoded: frozenset[str], *, check_crcs: bool) -> None:
    """Read what was written by the reader's rules: what it would refuse does not become a file.

    :param encoded: entries whose content was made here; the others are as they were read
    :param check_crcs: read everything again and check every CRC, to detect what the disk returns differently
    """
    budget = Budget(archive.limits)
    container = Container(source, budget=budget)
    if list(container) != _in_order(archive.entries):
        message = "what was written does not hold the entries that it should"
        raise ContainerError(message)
    kind = detect_zip_kind(container.entries)
    if kind != "sb3":
        refuse_kind(kind, source, container.entries)
    again = Archive(container, kind, budget)
    for name in container:
        if name in encoded and name in PLAIN_ENTRIES:
            again.decode_plain(name)
        elif name in encoded and is_state_dict(name):
            try:
                records = _check_pth(container.source(name), budget, archive.on_unknown)
                if check_crcs:
                    container.check_zip(name, records)
                    records.verify_all()
            except SbformatError as error:
                raise error.within(name) from None
    if check_crcs:
        container.verify_all()


def _check_pth(source: Source, budget: Budget, on_unknown: OnUnknown) -> Container:
    """Read a torch zip that was written, without holding its tensors' bytes; return its records."""
    records = open_records(source, budget)
    decode_zip(records, budget, on_unknown=on_unknown)
    return records


# -- a new archive ------------------------------------------------------------------------------------


def new(template: Archive, parameters: Mapping[str, Any], *, data: Mapping[str, Any] | None = None) -> Archive:
    """Return an archive with the template's hyper-parameters and spaces, and weights of your own.

    :param template: an archive of the same algorithm, spaces and architecture
    :param parameters: arrays as :func:`sbformat.read_parameters` and SB3's ``get_parameters`` give them:
        ``{"policy": {name: array}}``, optimizers as well if you have them. Names and shapes must be the template's;
        dtypes become its dtypes. Optimizers that are not given are emptied: their moments belong to other weights.
        Against an emptied optimizer only the number of parameters and the groups' options are checked.
    :param data: keys of ``data`` with other values than the template's
    :raises ValidationError: when something does not fit: all that does not is in ``problems``. Neither may ``data`` ask
        for another network than the template's.
    :raises MissingEntryError: for a state dict that the template does not have
    """
    made = fit_all(parameters, lambda name, value: _like(template.state_dict(name + PTH_SUFFIX), value))
    for name in template.parameters:
        if OPTIMIZER_WORD in name and name not in made:
            made[name] = clear_optimizer(template.parameters[name])
    result = template.replace(data={**template.data, **data} if data else ..., parameters=made)
    if (data or _POLICY in made) and POLICY_ENTRY in result.state_dicts:
        _check_network(template, result)
    return result


def _check_network(template: Archive, made: Archive) -> None:
    """Refuse ``data`` that asks for another network than the template has, and contradictory names of one tensor.

    :raises ValidationError: with what does not fit now and did before
    """
    found = _network_misfits(made)
    before = _network_misfits(template) if found else []
    if new_ones := [row for row in found if row not in before]:
        raise misfit(new_ones)


def _network_misfits(archive: Archive) -> list[Mismatch]:
    """List what the policy has otherwise than ``data`` asks for; nothing where the network is not known."""
    from sbformat.policies import NetworkError, find_contradictions, match_network

    try:
        match = match_network(archive)
        if match.mismatches:
            return [Mismatch(f"{_POLICY}:{row.name}", "shape", row.message) for row in match.mismatches]
        found = find_contradictions(archive.state_dict(POLICY_ENTRY), match.parameters)
        return [Mismatch(f"{_POLICY}:{row.name}", "contradiction", row.message) for row in found]
    except NetworkError as error:
        return [Mismatch(error.key, "value", f"SB3 cannot make the network: {error.message}")]
    except SbformatError:
        return []


def _like(template: StateDict, value: Any) -> StateDict:
    """An optimizer's containers are taken as given, once they fit; other state dicts only lend their arrays."""
    given = value if isinstance(value, StateDict) else StateDict.from_arrays(value, like=template)
    if "param_groups" in given:
        return template.like_optimizer(given)
    return template.with_values_of(given)
