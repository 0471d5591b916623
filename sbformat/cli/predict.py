"""``sbformat predict``: the actions of an agent for observations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sbformat.cli import _agents, _files, _output, _streams
from sbformat.errors import SbformatError, ValidationError, escape, quote
from sbformat.immutable import Record

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Mapping

    from sbformat.policies.run.policy import Policy

_STATES: Final = frozenset({"hidden", "cell", "critic_hidden", "critic_cell", "state"})
"""Outputs of recurrent policies that are too long for a table; JSON has them."""
_DIGITS: Final = 6
_CELL: Final = 240
CSV_COLUMNS: Final = ("path", "outcome", "message", "index")
"""The columns of CSV before those of the action and of outputs: a row for each observation."""
_SHOWN: Final = 8
"""Keys in a message."""


def configure(subparsers: Any) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "predict",
        example="sbformat predict agent.zip --observation '[0.1, 0, -0.02, 0]'",
        help="compute an agent's actions for observations",
        description="Compute the actions of an agent for one observation or a batch of them, without torch. The same "
        "observation gives the same action as SB3's predict.",
    )
    parser.add_argument("path", metavar="FILE", help="an agent, or a folder with one and its statistics")
    parser.add_argument(
        "--observation",
        required=True,
        metavar="JSON",
        help="an observation or a batch: JSON, a .npy file, or - for JSON from standard input; "
        "of a Dict space a JSON object or a .npz file",
    )
    parser.add_argument("--sequence", action="store_true", help="the batch is consecutive steps of one episode (LSTM)")
    parser.add_argument("--outputs", action="store_true", help="also what the action is chosen by: logits, value, ...")
    parser.add_argument("--action-masks", metavar="JSON", help="1 or 0 for each choice: whether it is valid")
    _agents.add_policy_options(parser)
    _agents.add_class_options(parser)
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument("--deterministic", action="store_true", help="the most likely actions (default)")
    choice.add_argument("--stochastic", action="store_true", help="sample the actions, as SB3 does while it trains")
    _files.add_reading_options(parser, "csv")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Predict; return 2 when a file or an observation could not be read."""
    with _agents.collect_warnings() as warned:
        report = _files.report_errors(args.path, lambda: _predict(args))
    return _agents.finish_run(args, report, _print_text, warned, list_columns=list_columns, list_rows=list_rows)


class Prediction(Record):
    """What a policy returns, as lists with an item for each observation."""

    actions: list[Any]
    outputs: dict[str, list[Any]]


def _predict(args: argparse.Namespace) -> dict[str, Any]:
    policy = _agents.load_agent(args, statistics=_agents.read_statistics(args), seed=args.seed)
    observation = _read_observation(args)
    masks = (
        None if args.action_masks is None else _agents.parse_json(args.action_masks.encode(), "--action-masks", args)
    )
    try:
        if args.sequence:
            made = _predict_steps(policy, observation, masks, args)
        else:
            made = _predict_batch(policy, observation, masks, args)
    except SbformatError:
        raise
    except ValueError as error:  # the caller's observation does not fit
        raise ValidationError(escape(str(error), 1000)) from None
    return {
        "algorithm": policy.algorithm,
        "deterministic": not args.stochastic,
        "seed": args.seed,
        "sequence": args.sequence,
        "actions": made.actions,
        "outputs": made.outputs if args.outputs else None,
        "inferred": list(policy.inferred),
    }


def _predict_batch(policy: Policy, observation: Any, masks: Any, args: argparse.Namespace) -> Prediction:
    """Predict for an observation, or for several that do not depend on one another."""
    action, _ = policy.predict(observation, None, None, not args.stochastic, action_masks=masks)
    outputs = policy.outputs(observation, action_masks=masks) if args.outputs else {}
    if action.ndim > len(policy.graph.output("action").shape):
        return Prediction(action.tolist(), {name: value.tolist() for name, value in outputs.items()})
    return Prediction([action.tolist()], {name: [value.tolist()] for name, value in outputs.items()})


def _predict_steps(policy: Policy, observations: Any, masks: Any, args: argparse.Namespace) -> Prediction:
    """Predict for consecutive steps: each begins with the state that the one before it returned.

    ``predict`` returns the state of the actor, ``outputs`` that of the critic too.
    """
    actions: list[Any] = []
    outputs: dict[str, list[Any]] = {}
    state: Any = None
    all_states: Any = None
    names = list(dict.fromkeys(described.name for described in policy.graph.states))
    steps = _list_steps(observations)
    for number, (observation, mask) in enumerate(zip(steps, _list_masks(masks, len(steps)))):
        is_first = [number == 0]
        if args.outputs:
            made = policy.outputs(observation, all_states, is_first, action_masks=mask)
            found = [made[name] for name in names]
            all_states = found[0] if names == ["state"] else found or None
            for name, value in made.items():
                outputs.setdefault(name, []).append(value.tolist())
        action, state = policy.predict(observation, state, is_first, not args.stochastic, action_masks=mask)
        actions.append(action.tolist())
    return Prediction(actions, outputs)


def _list_steps(observations: Any) -> list[Any]:
    """Return the observations of a batch.

    :raises ValidationError: when it is not a list, or a dict of lists of one length
    """
    named = observations if isinstance(observations, dict) else {"": observations}
    if not named or not all(_is_list(part) for part in named.values()):
        message = "expected a list of observations, one for each step"
        raise ValidationError(message)
    lengths = {key: len(part) for key, part in named.items()}
    if len(set(lengths.values())) > 1:
        shown = ", ".join(f"{quote(key, 40)}: {length}" for key, length in list(lengths.items())[:_SHOWN])
        message = f"expected as many steps for each key of the observation, got {shown}"
        raise ValidationError(message)
    if isinstance(observations, dict):
        return [dict(zip(observations, parts)) for parts in zip(*observations.values())]
    return list(observations)


def _list_masks(masks: Any, count: int) -> list[Any]:
    """Return the mask of each step: masks are a list of them, or one for all steps.

    :raises ValidationError: when there are more or fewer masks than steps
    """
    if not isinstance(masks, list) or not any(isinstance(mask, list) for mask in masks):
        return [masks] * count
    if len(masks) != count:
        message = f"expected a mask for each of the {count} steps, or one for all, got {len(masks)} masks"
        raise ValidationError(message)
    return masks


def _is_list(value: Any) -> bool:
    """Return whether it is a list or an array, with an item."""
    return (isinstance(value, list) or getattr(value, "ndim", 0) > 0) and len(value) > 0


def _read_observation(args: argparse.Namespace) -> Any:
    """Return the observation of the command line: what JSON gives, an array, or arrays by key."""
    text: str = args.observation
    if text.lower().endswith((".npy", ".npz")):
        from sbformat.arrayfiles.reader import read_array, read_arrays

        limits = _files.make_limits(args)
        read: Any = read_array if text.lower().endswith(".npy") else read_arrays
        return _files.name_in_errors(text, lambda: read(text, limits=limits))
    if text == _streams.STANDARD_STREAM:
        limits = _files.make_limits(args)
        found = _files.name_in_errors(text, lambda: _streams.open_input(text, limits))
        return _agents.parse_json(found if isinstance(found, bytes) else b"", text, args)
    return _agents.parse_json(text.encode("utf-8", "surrogatepass"), "--observation", args)


# -- CSV ----------------------------------------------------------------------------------------------


def list_columns(report: dict[str, Any]) -> tuple[str, ...]:
    """Return the header of CSV: of arrays a column for each item, such as ``action[0]`` or ``logits[2]``."""
    return tuple(dict.fromkeys((*CSV_COLUMNS, *(key for row in list_rows(report) for key in row))))


def list_rows(report: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of CSV: one for each observation; none for a report of an error."""
    tables = {"action": report.get("actions", ()), **(report.get("outputs") or {})}
    rows: list[dict[str, Any]] = [{"index": index} for index in range(len(tables["action"]))]
    for name, values in tables.items():
        for row, value in zip(rows, values):
            row.update(_flatten(name, value, ()))
    return rows


def _flatten(name: str, value: Any, place: tuple[int, ...]) -> Iterator[tuple[str, Any]]:
    if isinstance(value, list):
        for index, part in enumerate(value):
            yield from _flatten(name, part, (*place, index))
    else:
        yield (f"{name}[{','.join(map(str, place))}]" if place else name), value


# -- text ---------------------------------------------------------------------------------------------


def _print_text(printer: _output.Plain, report: dict[str, Any]) -> None:
    outputs: Mapping[str, list[Any]] = report["outputs"] or {}
    names = [name for name in outputs if name != "action" and name not in _STATES]
    rows = [
        (str(number), _render(action), *(_render(outputs[name][number]) for name in names))
        for number, action in enumerate(report["actions"])
    ]
    count = _output.count_noun(len(rows), "observation")
    how = "the most likely actions" if report["deterministic"] else "sampled actions"
    printer.line(f"{escape(report['path'], 1000)}: {report['algorithm'] or 'unknown algorithm'}, {count}, {how}")
    title = "consecutive steps" if report["sequence"] else "actions"
    printer.table(title, ("", "action", *names), rows, right=(0,), longest=_CELL)
    printer.table("inferred", (), [(sentence,) for sentence in report["inferred"]])


def _render(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_render, value))}]"
    return f"{value:.{_DIGITS}g}" if isinstance(value, float) else str(value)
