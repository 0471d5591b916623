"""The report of a rebuild: a row for each key of ``data`` and each entry (REBUILDING.md 15).

In: rows, which the handlers of keys and entries add, and the two archives. Out: a :class:`RebuildReport`, whose rows
have the values before and after. Beside it: what keys of ``data`` are to SB3's algorithms, and what SB3 uses without
them (REBUILDING.md 15.2).

Sources: SB3 and sb3-contrib 2.0 to 2.9, ``common/base_class.py``, ``common/*_policy_algorithm.py``, and the
constructors of every algorithm.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final, Literal, NoReturn, TypeAlias

from sbformat.archive.kinds import STATISTICS
from sbformat.constants import DATA_ENTRY
from sbformat.errors import SbformatError, UnsupportedError, escape
from sbformat.immutable import Record
from sbformat.known.algorithms import ALGORITHMS
from sbformat.known.changes import HER_KEPT, REMOVED, RENAMED
from sbformat.known.types import Reference
from sbformat.pkl.tree import Global
from sbformat.rendering import count_noun
from sbformat.schema import known_keys
from sbformat.values.render import ValueRenderer, render_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from sbformat.archive.archive import Archive
    from sbformat.notebook import Markup
    from sbformat.pkl.tree import Pair


Action: TypeAlias = Literal["kept", "translated", "dropped"]

_HEADER: Final = ("entry", "key", "action", "before", "now", "what was done, or why it was dropped")
DEFAULT_NOTE: Final = "the default of {}: the file has no such key"
"""The message on a key of the result that the file does not have, with the name of the algorithm."""


OTHER_WAYS: Final = {
    **dict.fromkeys(STATISTICS, "rebuild_vecnormalize rebuilds statistics"),
    **dict.fromkeys(
        ("torch-zip", "torch-legacy"), "sbformat extract writes its tensors, sbformat convert a .pth of today's torch"
    ),
    "policy-file": "rebuild_policy rebuilds files of policy.save()",
    "sbx": "load_policy runs it, export exports it",
}
"""What is done instead with a file of another kind than the one that is rebuilt, by its format."""


def refuse(message: str, entry: str | None = None, *, hint: str = "") -> NoReturn:
    """Raise the error for what cannot be rebuilt so that SB3 loads it."""
    raise UnsupportedError(message, entry=entry, hint=hint)


class Row(Record):
    """The outcome for a key of ``data`` or for an entry."""

    entry: str
    key: str | None
    """A key of ``data``, or a path below it (``policy_kwargs/device``); a variable of ``pytorch_variables.pth``; None
    for the entry itself."""
    action: Action
    """``kept``: equal. ``translated``: the same meaning in another form. ``dropped``: not in the result."""
    message: str
    """What was done, or why it was dropped."""
    instead: str | None = None
    """What SB3 uses instead of what was dropped."""
    was: str | None = None
    """The original value, in one line, if it can be decoded."""
    is_finding: bool = False
    """Whether the agent computes or trains differently without it."""
    now: str | None = None
    """The value in the result, in one line; None if the result does not contain the key."""
    old: Any = None
    """The original value as JSON: numbers, texts, lists and dicts as they are, and an object with its ``kind`` for what
    JSON does not have (``{"kind": "LinearSchedule", "start": 0.001, ...}``). None where there is none, or it cannot be
    decoded."""
    new: Any = None
    """The value in the result, likewise; of what was dropped, the value that SB3 uses then, if it is known."""
    new_key: str | None = None
    """The key in the result that has the value, where it is another one."""
    is_hyperparameter: bool = False
    """Whether the algorithm trains with the value, or makes its networks from it."""


class Required(Record):
    """A class or function outside SB3 that loading the result imports."""

    key: str
    """A key of ``data``, or a path below it."""
    name: str
    """The dotted name."""
    pair: Pair
    """Module and name."""

    def to_json(self) -> dict[str, str]:
        """Return the JSON form."""
        return {"key": self.key, "name": self.name}


class RebuildReport(Record):
    """The report of a rebuild: every key of ``data`` and every entry has a row."""

    algorithm: str
    """The algorithm that loads the result."""
    written_by: str | None
    """The version of SB3 that wrote the original; None before 0.9."""
    target: str
    """The version of SB3 that the result is for: ``2.9.2``."""
    rows: tuple[Row, ...]
    requires: tuple[Required, ...]
    """What loading the result imports, and therefore trusts."""
    sb2_algorithm: str | None = None
    """The algorithm of Stable Baselines 2 that wrote the original: ``PPO2``; None for an archive of SB3."""

    @property
    def hyperparameters(self) -> tuple[Row, ...]:
        """The rows of the values that the algorithm trains with, or makes its networks from."""
        return tuple(row for row in self.rows if row.is_hyperparameter)

    @property
    def findings(self) -> tuple[Row, ...]:
        """The rows of what the agent computes or trains with and that is different now."""
        return tuple(row for row in self.rows if row.is_finding)

    def counts(self) -> Mapping[str, int]:
        """Return the number of rows by action."""
        actions = [row.action for row in self.rows]
        return {action: actions.count(action) for action in ("kept", "translated", "dropped")}

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form: the ``rebuild`` report of ``schema/report.schema.json``."""
        rows = [row._asdict() for row in self.rows]
        requires = [required.to_json() for required in self.requires]
        return {**self._asdict(), "rows": rows, "requires": requires, "counts": self.counts()}

    def __repr__(self) -> str:
        text = f"{self.algorithm} of {self._origin} for SB3 {self.target}: {self._summary}"
        return f"<RebuildReport {escape(text)}>"

    def _repr_html_(self) -> str:
        """Return the HTML for notebooks: what differs, what loading imports, and folded all rows."""
        from sbformat.notebook import fold, render_output, render_paragraph, render_table

        def render_rows(title: str, rows: tuple[Row, ...]) -> Markup:
            cells = [
                (row.entry, row.key or "", row.action, row.was or "", row.now or row.instead or "", row.message)
                for row in rows
            ]
            return render_table(title, _HEADER, cells)

        requires = [(required.key, required.name) for required in self.requires]
        different = render_rows("findings: the agent computes or trains differently", self.findings)
        return render_output(
            f"RebuildReport: {self.algorithm} of {self._origin}, for SB3 {self.target}",
            [
                different or render_paragraph("The agent computes and trains as before."),
                render_table("loading the result imports, and trusts", ("key", "name"), requires),
                fold(self._summary, [render_rows("", self.rows)]),
            ],
        )

    @property
    def _origin(self) -> str:
        if self.sb2_algorithm:
            return f"Stable Baselines 2 ({self.sb2_algorithm})"
        return f"SB3 {self.written_by}" if self.written_by else "a release that is not stored"

    @property
    def _summary(self) -> str:
        counts = [f"{count:,} {action}" for action, count in self.counts().items()]
        return f"{', '.join(counts)}; {count_noun(len(self.findings), 'finding')}"


# -- what SB3 uses without a key ----------------------------------------------------------------------


def find_default(algorithm: str, key: str) -> Any:
    """Return the value that SB3 uses when a key is missing from ``data``; None if it is not known."""
    row = ALGORITHMS[algorithm]
    return {"learning_rate": row.learning_rate, **row.defaults, **row.others}.get(key.removesuffix("_schedule"))


def describe_default(algorithm: str, key: str) -> str:
    """Return what SB3 uses when a key is missing from ``data``, for the report."""
    values = ALGORITHMS[algorithm].defaults
    return f"{values[key]}, the default of {algorithm}" if key in values else f"the default of {algorithm}"


# -- keys of data -------------------------------------------------------------------------------------

RECREATED: Final = {
    "lr_schedule": "learning_rate",
    "exploration_schedule": "exploration_initial_eps, exploration_final_eps and exploration_fraction",
    "batch_norm_stats": "the critics",
    "batch_norm_stats_target": "the target networks",
    "actor_batch_norm_stats": "the actor",
    "actor_batch_norm_stats_target": "the target networks",
    "critic_batch_norm_stats": "the critics",
    "critic_batch_norm_stats_target": "the target networks",
    "weights": "the policy",
    "_last_lstm_states": "zeros",
}
"""Keys whose values SB3's ``load`` creates again, and what it creates them from."""

EXCLUDED: Final = frozenset(
    {
        "env", "eval_env", "device", "policy", "actor", "actor_target", "critic", "critic_target", "q_net",
        "q_net_target", "quantile_net", "quantile_net_target", "replay_buffer", "rollout_buffer", "_episode_storage",
        "_vec_normalize_env", "_logger", "_custom_logger",
    }
)  # fmt: skip
"""Attributes that SB3 does not save: a key with such a name would replace the agent's own."""

_BOOKKEEPING: Final = frozenset(
    {
        "device", "verbose", "num_timesteps", "start_time", "tensorboard_log", "ep_info_buffer", "ep_success_buffer",
        "eval_env", "n_envs", "exploration_rate", "log_ent_coef", "ent_coef_optimizer", "processes", "old_count",
        "n_params", "policy_class", "observation_space", "action_space",
    }
)  # fmt: skip


def is_hyperparameter(key: str, algorithm: str) -> bool:
    """Return whether the algorithm trains with a key of ``data``, or makes its networks from it."""
    return (
        key in known_keys(algorithm)
        and not key.startswith("_")
        and not (key in _BOOKKEEPING or key in EXCLUDED or key in REMOVED or key in RECREATED)
    )


# -- the values of rows -------------------------------------------------------------------------------

_MISSING: Final = object()


def show(value: object, key: str | None = None) -> str:
    """Return a value in one line of a message.

    :param key: of ``data``, which decides whether functions are examined as schedules
    """
    return escape(render_line(value, key), 200)


def show_name(value: object, key: str | None = None) -> str:
    """Return the name of a class or function, known or not, and any other value as :func:`show` does."""
    return escape(str(value), 200) if isinstance(value, (Global, Reference)) else show(value, key)


def add_values(rows: Iterable[Row], original: Archive, result: Archive, algorithm: str) -> tuple[Row, ...]:
    """Return rows with the values that they are about, before and after; a row that already has one keeps it.

    :param rows: those on keys of ``data`` get values; ``new_key`` has to be set where the key of the result is another
        one, unless it was SB3 that renamed it
    :param original: the archive that was rebuilt, whose ``data`` has the keys of the rows
    :param result: the archive that was made
    """
    renderer = ValueRenderer()

    def add(row: Row) -> Row:
        key = row.key or ""
        new_key = row.new_key or key
        if not row.new_key and key not in result.data:
            moved = f"replay_buffer_kwargs/{key}" if key in HER_KEPT else RENAMED.get(key, key)
            new_key = key if _look_up(new_values, moved) is _MISSING else moved
        old, new = _look_up(old_values, key), _look_up(new_values, new_key)
        made = find_default(algorithm, key) if row.action == "dropped" and new is _MISSING else new
        return row._replace(
            was=show_name(old, key) if row.was is None and old is not _MISSING else row.was,
            now=show_name(new, new_key) if row.now is None and new is not _MISSING else row.now,
            old=renderer.render(old, key) if row.old is None and old is not _MISSING else row.old,
            new=renderer.render(made, new_key) if row.new is None and made is not _MISSING else row.new,
            new_key=new_key if new_key != key else None,
            is_hyperparameter=is_hyperparameter(new_key.partition("/")[0], algorithm),
        )

    old_values, new_values = _decode_at_first_use(original), _decode_at_first_use(result)
    return tuple(add(row) if row.entry == DATA_ENTRY and row.key is not None else row for row in rows)


def _decode_at_first_use(archive: Archive) -> Callable[[str], object]:
    @cache
    def decode(key: str) -> object:
        try:
            return archive.decode(key) if key in archive.data else _MISSING
        except SbformatError:
            return _MISSING

    return decode


def _look_up(values: Callable[[str], object], place: str) -> object:
    """Return a value of ``data``, or one below it, or ``_MISSING``."""
    key, _, rest = place.partition("/")
    found = values(key)
    while rest:
        if isinstance(found, dict) and rest in found:
            return found[rest]
        name, _, rest = rest.partition("/")
        found = found.get(name, _MISSING) if isinstance(found, dict) else _MISSING
    return found
