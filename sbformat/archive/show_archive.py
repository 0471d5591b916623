"""How an archive is displayed: a line for ``repr``, tables for notebooks.

Neither raises: an entry that cannot be decoded is displayed with its error. Neither takes long: large entries are
displayed by their size, unless they were decoded before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

from sbformat.archive.hyperparameters import describe_hyperparameter
from sbformat.archive.kinds import KIND_TITLES, OBJECTS
from sbformat.constants import DATA_ENTRY, SYSTEM_INFO_ENTRY, VERSION_ENTRY
from sbformat.errors import SbformatError, escape
from sbformat.pth.show_state_dict import count_values, summarize
from sbformat.rendering import count_noun, format_size

if TYPE_CHECKING:
    from collections.abc import Callable

    from sbformat.archive.archive import Archive
    from sbformat.archive.hyperparameters import Hyperparameters
    from sbformat.notebook import Markup


T = TypeVar("T")

_DATA_BYTES: Final = 1 << 20  # larger ``data`` is not decoded for a display
_STATE_DICT_BYTES: Final = 1 << 28  # larger state dicts are not decoded for a display: their CRC would be computed
_LARGE: Final = "not decoded: large"
_ENTRIES: Final = 8
_NAME: Final = 60
_SPACES: Final = ("observation_space", "action_space")


def describe(archive: Archive) -> str:
    """Return the line for ``repr``: who wrote it, as far as that is known (``PPO of SB3 1.8.0``), and its entries."""
    algorithm = _try_to(lambda: archive.algorithm) if _is_quick(archive, DATA_ENTRY, _DATA_BYTES) else None
    title = []
    if algorithm is not None and not isinstance(algorithm, SbformatError) and algorithm.name is not None:
        title.append(f"{'' if algorithm.certain else 'probably '}{escape(algorithm.name, _NAME)}")
    release = _try_to(lambda: archive.stable_baselines3_version)
    if isinstance(release, str):
        title.append(f"SB3 {escape(release, _NAME)}")
    rows = list(archive.entries.items())
    entries = [f"{escape(name, _NAME)} {format_size(entry.size)}" for name, entry in rows[:_ENTRIES]]
    entries += [f"{len(rows) - _ENTRIES:,} more"] if len(rows) > _ENTRIES else []
    return f"<Archive {archive.format}{', ' * bool(title)}{' of '.join(title)}: {', '.join(entries) or 'empty'}>"


def _is_quick(archive: Archive, name: str, limit: int) -> bool:
    """Return whether decoding an entry takes little time: it is small, or was decoded before."""
    if archive.is_decoded(name):
        return True
    sizes = [entry.size for entry in archive.entries.values()]
    return (archive.entries[name].size if name in archive.entries else sum(sizes)) <= limit


def _try_to(get: Callable[[], T]) -> T | SbformatError:
    """Return a value, or the error instead, also that of a file that was removed, truncated or closed meanwhile."""
    try:
        return get()
    except SbformatError as error:
        return error
    except (OSError, ValueError) as error:
        return SbformatError(str(error))


# -- notebooks ----------------------------------------------------------------------------------------


def render(archive: Archive) -> str:
    """Return the HTML for notebooks: what it is, its entries, and folded its hyper-parameters and system."""
    from sbformat.notebook import MAX_ROWS, fold, render_output, render_table

    data: Hyperparameters | SbformatError | None = None
    if DATA_ENTRY in archive.contents and _is_quick(archive, DATA_ENTRY, _DATA_BYTES):
        data = _try_to(archive.hyperparameters)
    names = list(dict.fromkeys((*archive.entries, *archive.contents)))
    sizes = {name: format_size(entry.size) for name, entry in archive.entries.items()}
    entries = [(name, sizes.get(name, ""), _describe_entry(archive, name)) for name in names[:MAX_ROWS]]
    parts = [
        render_table("", (), _list_facts(archive, data)),
        render_table("", ("entry", "size", "contents"), entries, right=(1,), count=len(names)),
    ]
    if isinstance(data, dict):
        title = "attributes" if archive.format in OBJECTS else "hyper-parameters"
        parts.append(fold(f"{len(data)} {title}", [data.render()]))
    system = _try_to(lambda: archive.system_info)
    fields = [] if system is None or isinstance(system, SbformatError) else list(system.fields.items())
    parts.append(fold("system info", [render_table("", (), fields)]))
    return render_output(f"Archive: {KIND_TITLES.get(archive.format, archive.format)}", parts)


def _list_facts(archive: Archive, data: object) -> list[tuple[str, str]]:
    rows = []
    release = _try_to(lambda: archive.stable_baselines3_version)
    if isinstance(release, str):
        rows.append(("SB3 version", release))
    if isinstance(data, dict):
        found = _try_to(lambda: archive.algorithm)
        if not isinstance(found, SbformatError) and (found.name or found.evidence):
            certainty = "" if found.certain else " (not certain)"
            rows.append(("algorithm", f"{found.name or 'unknown'}{certainty}: {'; '.join(found.evidence)}"))
        rows += [(key.replace("_", " "), describe_hyperparameter(data[key])) for key in _SPACES if key in data]
    rows += [("note", note) for note in archive.notes]
    return rows


def _describe_entry(archive: Archive, name: str) -> Markup | str:
    from sbformat.notebook import Markup, escape_text, render_badge

    found: object = ""
    if name == DATA_ENTRY or name in archive.state_dicts:
        found = _LARGE
        if _is_quick(archive, name, _DATA_BYTES if name == DATA_ENTRY else _STATE_DICT_BYTES):
            found = _try_to(lambda: _summarize(archive, name))
    elif name in (VERSION_ENTRY, SYSTEM_INFO_ENTRY):
        found = _try_to(lambda: archive.decode_plain(name) and "")
    if isinstance(found, SbformatError):
        return Markup(f"{render_badge('broken')} {escape_text(found.message)}")
    return str(found)


def _summarize(archive: Archive, name: str) -> str:
    if name == DATA_ENTRY:
        return count_noun(len(archive.data), "value")
    return summarize(count_values(archive.state_dict(name)))
