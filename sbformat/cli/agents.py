"""``sbformat predict``, ``evaluate`` and ``export``: the commands that load an agent.

In: an archive, or a folder with an agent and its statistics of VecNormalize. Out: actions for observations, rewards in
an environment of gymnasium, or the policy as a file of the formats in ``policies/export/formats.py``.
Warnings and errors go to standard error, so that standard output has only what a program after this one reads.
"""

from __future__ import annotations

import contextlib
import os
import posixpath
import warnings
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from sbformat.cli import _files, _json, _output, _progress
from sbformat.cli import _options as opt
from sbformat.constants import ARRAYS_ENTRY, SETTINGS_ENTRY
from sbformat.errors import SbformatError, UnsupportedError, ValidationError, escape, quote
from sbformat.immutable import Record
from sbformat.io.opening import is_folder, is_remote, join_path
from sbformat.policies.export.formats import FORMATS, export, find_suffix, list_outputs, require_format
from sbformat.rendering import count_noun, format_size

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from sbformat.archive.archive import Archive
    from sbformat.folders.trees import Beside
    from sbformat.formats.vecnormalize import VecNormalize
    from sbformat.limits import Limits
    from sbformat.policies.run.policy import Policy

_NO_STATISTICS: Final = "none"
_LEFT_OUT: Final = "the statistics beside the agent are not used"
_POLICY_KWARGS: Final = "--policy-kwargs"
_ENV_KWARGS: Final = "--env-kwargs"
_STATES: Final = frozenset({"hidden", "cell", "critic_hidden", "critic_cell", "state"})
"""Outputs of recurrent policies that are too long for a table; JSON has them."""
_SIGNIFICANT: Final = 6
_CELL: Final = 240
_SHOWN: Final = 8  # keys in a message
_DIGITS: Final = 18
PREDICT_COLUMNS: Final = ("path", "outcome", "message", "index")
"""The columns of CSV before those of the action and of outputs: a row for each observation."""
EVALUATE_COLUMNS: Final = ("path", "outcome", "message", "algorithm", "env", "episode", "reward", "length")
"""A row for each episode."""

_STATISTICS: Final = opt.option(
    "--vecnormalize",
    "STATS",
    "the statistics it was trained with, by default those of a bundle, or of the folder that is named; none: "
    "observations are normalized already"
    f"{opt.STDIN}",
)
_CLASSES: Final[opt.Options] = (
    opt.option("--policy-class", "NAME", "the class of SB3 that a custom policy class extends: ActorCriticPolicy"),
    opt.json_option(
        _POLICY_KWARGS,
        "arguments of the policy that the file lacks, or whose class is not known, or @FILE with them: "
        '\'{"features_extractor_class": "FlattenExtractor"}\'',
    ),
)
_RUNNING: Final[opt.Options] = (
    _STATISTICS,
    opt.option("--seed", "N", "of the random numbers", type=partial(opt.parse_number, least=0)),
)

PREDICT: Final = opt.Command(
    example='sbformat predict agent.zip --observation "[0.1, 0, -0.02, 0]"',
    description="Compute the actions of an agent for an observation, a batch or a stream, without torch. The same "
    "observation gives the same action as SB3's predict.",
    options=(
        opt.AGENT,
        opt.json_option(
            _json.OBSERVATION,
            "an observation or a batch: JSON, @FILE with JSON, - for JSON from standard input, or a .npy file; "
            "of a Dict space a JSON object or a .npz file",
        ),
        opt.flag(
            "--lines",
            "JSON Lines: each line of standard input, or of the @FILE of --observation, is an observation, and is "
            "answered immediately by a line with its action",
        ),
        opt.flag(
            "--sequence",
            "the batch or the lines are consecutive steps of an episode (LSTM); of the lines, a new episode begins "
            "where a line has episode_start",
        ),
        opt.flag("--outputs", "also what the action is chosen by: logits, probabilities, value, ..."),
        opt.json_option("--action-masks", "1 or 0 for each choice: whether it is valid; or @FILE"),
        _RUNNING,
        _CLASSES,
        opt.one_of(
            opt.flag("--deterministic", "the most likely actions (default)"),
            opt.flag("--stochastic", "sample the actions, as SB3 does while it trains"),
        ),
        opt.REPORT,
        opt.reading("csv"),
    ),
)
EVALUATE: Final = opt.Command(
    example="sbformat evaluate agent.zip --env CartPole-v1 -n 100 --seed 0",
    description="Run an agent for some episodes in an environment of gymnasium, without torch, and report mean and "
    "standard deviation of their rewards and lengths, as evaluate_policy of SB3 does.",
    options=(
        opt.AGENT,
        opt.option(
            "--env",
            "ID",
            "the environment: CartPole-v1, ...; by default the one that the settings or logs beside the agent name",
        ),
        opt.option("-n --episodes", "N", "episodes (default 20)", type=opt.parse_number, default=20),
        _RUNNING,
        opt.flag("--stochastic", "sample the actions; else the most likely ones"),
        opt.option(
            "--frame-stack", "K", "observations that the agent sees together (VecFrameStack)", type=opt.parse_number
        ),
        opt.option(
            "--channels-order", None, "the axis of --frame-stack; by default as SB3 finds it", choices=("first", "last")
        ),
        opt.json_option(_ENV_KWARGS, "arguments of the environment: an object, or @FILE with one", default="{}"),
        opt.option("--max-steps", "N", "time limit, instead of the environment's own", type=opt.parse_number),
        opt.REPORT,
        opt.reading("csv"),
    ),
)
EXPORT: Final = opt.Command(
    example="sbformat export agent.zip -o policy.onnx",
    description="Write the policy of an agent for programs without Stable-Baselines3: everything from the "
    "observation to the action, with the statistics of VecNormalize and the bounds of the action.",
    options=(
        opt.AGENT,
        opt.output_file(
            "the suffix selects the format: .onnx, .c (and .h), .js, .mjs (and .d.ts), .json or .py (and .safetensors)"
        ),
        opt.option("--outputs", "NAME,NAME", "action, value, logits, ...; default: action; of .js, .json, .py all"),
        opt.flag(
            "--raw",
            "what SB3's guide exports: actions that are not clipped or scaled, statistics only with --vecnormalize",
        ),
        _STATISTICS,
        _CLASSES,
        opt.option("--opset", "N", "of .onnx: 13 to 21; default: 17", type=opt.parse_number),
        opt.option("--batch", "NAME|N", "of .onnx: the name of the batch axis, or its size"),
        opt.option("--name", "NAME", "of .c: what its names begin with; default: that of OUT"),
        opt.flag("--stochastic", "refused: actions are drawn where the policy runs; the error says how"),
        opt.FORCE,
        opt.reading(),
    ),
)


# -- the agent and its statistics ---------------------------------------------------------------------


def _read_statistics(path: str, args: argparse.Namespace) -> VecNormalize:
    """Read statistics of VecNormalize."""
    from sbformat.policies.loading import read_given_statistics

    limits = _files.make_limits(args)
    return _files.name_in_errors(path, lambda: read_given_statistics(_files.open_input(path, limits), limits))


def find_statistics(args: argparse.Namespace) -> VecNormalize | bool | None:
    """Return the statistics of a command line, as ``load_policy`` takes them."""
    path: str | None = args.vecnormalize
    if path is None or path == _NO_STATISTICS:
        return None if path is None else False
    return _read_statistics(path, args)


def _open_agent(
    args: argparse.Namespace, *, statistics: VecNormalize | bool | None
) -> tuple[Archive, VecNormalize | bool | None]:
    """Open the agent of a command line; of a folder the one to prefer, with its statistics unless some are given.

    :param statistics: those of the command line
    """
    path: str = args.path
    chosen = _files.find_agent(path, args) if is_folder(args.path) else None
    if chosen is None:
        archive = _files.read_archive(args.path, args)
        if statistics is None and _leaves_statistics_out(archive, args):
            warnings.warn(_LEFT_OUT, UserWarning, stacklevel=2)
        return archive, statistics
    args.chosen = chosen
    if statistics is None:
        if chosen.problem:
            raise UnsupportedError(chosen.problem)
        if chosen.warning:
            warnings.warn(chosen.warning, UserWarning, stacklevel=2)
        if chosen.statistics is not None:
            statistics = _read_statistics(chosen.statistics, args)
        elif chosen.is_normalized:
            from sbformat.policies.loading import NOT_NORMALIZED

            warnings.warn(NOT_NORMALIZED, UserWarning, stacklevel=2)
    return _files.name_in_errors(chosen.path, lambda: _files.read_archive(chosen.path, args)), statistics


def _leaves_statistics_out(archive: Archive, args: argparse.Namespace) -> bool:
    """Return whether statistics lie beside an agent that has none itself.

    Of an agent that was certainly normalized, :func:`sbformat.load_policy` warns.
    """
    from sbformat.formats.normalized import is_surely_normalized

    is_bundle = not {SETTINGS_ENTRY, ARRAYS_ENTRY}.isdisjoint(archive.entries)
    if is_bundle or is_remote(args.path) or not _name_statistics(args):
        return False
    return not is_surely_normalized(archive)


def _load_agent(args: argparse.Namespace, *, statistics: VecNormalize | bool | None, seed: int | None = None) -> Policy:
    """Load the agent of a command line."""
    from sbformat.policies.loading import load_policy

    archive, statistics = _open_agent(args, statistics=statistics)
    kwargs = _json.parse_object(args.policy_kwargs, _POLICY_KWARGS, args) if args.policy_kwargs else None
    try:
        return load_policy(
            archive, vecnormalize=statistics, policy_class=args.policy_class, policy_kwargs=kwargs, seed=seed,
            limits=_files.make_limits(args),
        )  # fmt: skip
    except UnsupportedError as error:
        if "load_policy" in error.hint:  # about arguments of Python
            error.add_hint(f"the command line has --policy-class and {_POLICY_KWARGS}")
        raise


@contextlib.contextmanager
def _raise_as_invalid() -> Iterator[None]:
    """Report a ValueError about what the caller gave, such as an observation that does not fit, as ``invalid``."""
    try:
        yield
    except SbformatError:
        raise
    except ValueError as error:
        raise ValidationError(escape(str(error), 1000)) from None


def _report(
    args: argparse.Namespace, work: Callable[[], dict[str, Any]], outputs: Sequence[str] = ()
) -> dict[str, Any]:
    """Return the report of a command, and print its warnings; JSON has both, and the files chosen in a folder."""
    advise = partial(_advise, args)
    report, found = _output.report_warnings(args.path, work, outputs=outputs, advise=advise)
    if report["outcome"] == "ok":
        chosen = getattr(args, "chosen", None)
        files = None if chosen is None else {"agent": chosen.path, "vecnormalize": chosen.statistics}
        report = {**report, "chosen": files, "warnings": ["; ".join(filter(None, pair)) for pair in found]}
    return report


def _advise(args: argparse.Namespace, text: str) -> tuple[str, str]:
    """Return a warning, and what to do about it: in place of an argument of Python the option."""
    from sbformat.policies.loading import NO_STATISTICS, NOT_NORMALIZED

    if text not in (NOT_NORMALIZED, _LEFT_OUT):
        return text, ""
    name = _name_statistics(args)
    use = (
        f"--vecnormalize {name} uses those beside it" if name else "none are beside it: --vecnormalize FILE names them"
    )
    left = NO_STATISTICS if text == NOT_NORMALIZED else _LEFT_OUT
    return left, f"{use}; --vecnormalize none says that observations are normalized already"


def _name_statistics(args: argparse.Namespace) -> str:
    """Return the path of the statistics that lie beside the agent, from the command line; empty without any."""
    path = _name_agent(args)
    beside = _find_beside(path, _files.make_limits(args))
    if beside is None or not beside.statistics:
        return ""
    names = beside.statistics
    name = names[0] if len(names) == 1 else posixpath.dirname(names[0])  # of SB2's two the folder
    return _name_beside(path, beside, name)


def _name_agent(args: argparse.Namespace) -> str:
    """Return the path of the agent, which may have been chosen in a folder."""
    chosen = getattr(args, "chosen", None)
    path: str = args.path if chosen is None else chosen.path
    return path


def _find_beside(path: str, limits: Limits) -> Beside | None:
    """Return the files that belong to the agent of a command line; None without any."""
    if path == _files.STANDARD_STREAM:
        return None
    from sbformat.folders.trees import BesideFinder

    return BesideFinder(limits).find(_files.resolve_path(path))


def _name_beside(path: str, beside: Beside, name: str) -> str:
    """Return the path of a file that belongs to an agent, from the path of the agent on the command line."""
    if is_remote(path):
        return _files.name_input(join_path(beside.top, name))
    return os.path.normpath(os.path.join(os.path.dirname(path), posixpath.relpath(name or ".", beside.folder or ".")))


# -- predict ------------------------------------------------------------------------------------------


def run_predict(args: argparse.Namespace) -> int:
    """Predict; return 2 when a file or an observation could not be read."""
    if args.lines:
        return _predict_lines(args)
    if args.observation is None:
        raise opt.UsageError("expected --observation, or --lines for an observation in each line of standard input")
    report = _report(args, lambda: _predict(args))
    return _output.finish(args, report, _output.Form(_print_predictions, _list_columns(report), _list_predictions))


def _predict_lines(args: argparse.Namespace) -> int:
    """Predict for each line of a stream as soon as it is there."""
    from sbformat.cli import _lines

    if args.format != "text":
        raise opt.UsageError(f"--lines writes JSON Lines: it does not go with --format {args.format}")
    if args.observation is None:
        args.observation = _files.STANDARD_STREAM
        _files.start(args)  # as if it had been given

    limits = _files.make_limits(args)
    source = args.observation.removeprefix(_json.FILE_MARK)

    def load() -> dict[str, Any]:
        masks = _parse_masks(args)
        return {"steps": Steps(_load_policy(args), args), "masks": masks, "lines": _lines.open_lines(args.observation)}

    report = _report(args, load)
    if report["outcome"] == "ok":
        with report["lines"] as lines:
            answer = partial(_lines.answer_lines, lines, report["steps"], report["masks"], limits)
            report = _files.report_errors(source, lambda: {"failure": answer()})
    if report["outcome"] != "ok":
        _output.report_failure(report, lists_problems=True)
    elif report["failure"]:
        _files.write_remark(f"{escape(_files.name_input(source), 1000)}: {report['failure']}")
    return _files.EXIT_COULD_NOT if report.get("failure", True) else _files.EXIT_FINE


class Prediction(Record):
    """Actions and outputs of a policy, as lists with an item for each observation."""

    actions: list[Any]
    outputs: dict[str, list[Any]]


def _predict(args: argparse.Namespace) -> dict[str, Any]:
    policy = _load_policy(args)
    observation, masks = _read_observation(args), _parse_masks(args)
    with _raise_as_invalid():
        predict = _predict_steps if args.sequence else _predict_batch
        made = predict(policy, observation, masks, args)
    return {
        "algorithm": policy.algorithm,
        "deterministic": not args.stochastic,
        "seed": args.seed,
        "sequence": args.sequence,
        "actions": made.actions,
        "outputs": made.outputs if args.outputs else None,
        "inferred": list(policy.inferred),
    }


def _load_policy(args: argparse.Namespace) -> Policy:
    return _load_agent(args, statistics=find_statistics(args), seed=args.seed)


def _parse_masks(args: argparse.Namespace) -> Any:
    return None if args.action_masks is None else _json.parse_value(args.action_masks, "--action-masks", args)


def _predict_batch(policy: Policy, observation: Any, masks: Any, args: argparse.Namespace) -> Prediction:
    """Predict for an observation, or for several that do not depend on one another."""
    action, _ = policy.predict(observation, None, None, not args.stochastic, action_masks=masks)
    outputs = policy.outputs(observation, action_masks=masks) if args.outputs else {}
    if action.ndim > len(policy.graph.output("action").shape):
        return Prediction(action.tolist(), {name: value.tolist() for name, value in outputs.items()})
    return Prediction([action.tolist()], {name: [value.tolist()] for name, value in outputs.items()})


def _predict_steps(policy: Policy, observations: Any, masks: Any, args: argparse.Namespace) -> Prediction:
    """Predict for consecutive steps."""
    made = Prediction([], {})
    steps = Steps(policy, args)
    observations = _list_steps(observations)
    for observation, mask in zip(observations, _list_masks(masks, len(observations))):
        action, outputs = steps.predict(observation, mask)
        made.actions.append(action)
        for name, value in outputs.items():
            made.outputs.setdefault(name, []).append(value)
    return made


class Steps:
    """The steps of one episode or of several: each begins with the state that the one before it returned.

    Without ``--sequence`` each is the first one. ``predict`` of a policy returns the state of the actor, ``outputs``
    that of the critic too.
    """

    def __init__(self, policy: Policy, args: argparse.Namespace) -> None:
        self.policy = policy
        self.has_outputs: bool = args.outputs
        self.is_sequence: bool = args.sequence
        self._deterministic = not args.stochastic
        self._states = list(dict.fromkeys(described.name for described in policy.graph.states))
        self._state: Any = None
        self._all_states: Any = None

    def predict(self, observation: Any, masks: Any, episode_start: Any = None) -> tuple[Any, dict[str, Any]]:
        """Return an action and, with ``--outputs``, the outputs, as lists; after an error the state is the same.

        :param episode_start: true: forget the state; a list: forget that of each environment where it is true
        """
        is_first = episode_start is True or not self.is_sequence
        state, all_states = (None, None) if is_first else (self._state, self._all_states)
        starts = episode_start if isinstance(episode_start, list) else None
        outputs: dict[str, Any] = {}
        with _raise_as_invalid():
            if self.has_outputs:
                found = self.policy.outputs(observation, all_states, starts, action_masks=masks)
                parts = [found[name] for name in self._states]
                all_states = parts[0] if self._states == ["state"] else parts or None
                outputs = {name: value.tolist() for name, value in found.items()}
            action, state = self.policy.predict(observation, state, starts, self._deterministic, action_masks=masks)
        self._state, self._all_states = state, all_states
        return action.tolist(), outputs


def _list_steps(observations: Any) -> list[Any]:
    """Return the observations of a batch."""
    named = observations if isinstance(observations, dict) else {"": observations}
    is_list = [(isinstance(part, list) or getattr(part, "ndim", 0) > 0) and len(part) > 0 for part in named.values()]
    if not named or not all(is_list):
        raise ValidationError("expected a list of observations, one for each step")
    lengths = {key: len(part) for key, part in named.items()}
    if len(set(lengths.values())) > 1:
        shown = ", ".join(f"{quote(key, 40)}: {length}" for key, length in list(lengths.items())[:_SHOWN])
        raise ValidationError(f"expected as many steps for each key of the observation, got {shown}")
    if isinstance(observations, dict):
        return [dict(zip(observations, parts)) for parts in zip(*observations.values())]
    return list(observations)


def _list_masks(masks: Any, count: int) -> list[Any]:
    """Return the mask of each step: masks are a list of them, or one for all steps."""
    if not isinstance(masks, list) or not any(isinstance(mask, list) for mask in masks):
        return [masks] * count
    if len(masks) != count:
        raise ValidationError(f"expected a mask for each of the {count} steps, or one for all, got {len(masks)} masks")
    return masks


def _read_observation(args: argparse.Namespace) -> Any:
    """Return the observation of the command line: what JSON gives, an array, or arrays by key."""
    text: str = args.observation
    limits = _files.make_limits(args)
    if text.lower().endswith((".npy", ".npz")):
        text = text.removeprefix(_json.FILE_MARK)
        from sbformat.arrayfiles.reader import read_array, read_arrays

        read: Any = read_array if text.lower().endswith(".npy") else read_arrays
        return _files.name_in_errors(text, lambda: read(text, limits=limits))
    if text == _files.STANDARD_STREAM:
        found = _files.name_in_errors(text, lambda: _files.open_input(text, limits))
        return _json.parse_document(found if isinstance(found, bytes) else b"", text, _json.OBSERVATION, limits)
    return _json.parse_value(text, _json.OBSERVATION, args)


def _list_columns(report: dict[str, Any]) -> tuple[str, ...]:
    """Return the header of CSV: of arrays a column for each item, such as ``action[0]`` or ``logits[2]``."""
    return tuple(dict.fromkeys((*PREDICT_COLUMNS, *(key for row in _list_predictions(report) for key in row))))


def _list_predictions(report: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of CSV: one for each observation; none for a report of an error."""
    tables = {**(report.get("outputs") or {}), "action": report.get("actions", ())}
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


def _print_predictions(printer: _output.Plain, report: dict[str, Any]) -> None:
    outputs: dict[str, list[Any]] = report["outputs"] or {}
    names = [name for name in outputs if name != "action" and name not in _STATES]
    rows = [
        (number, _render(action), *(_render(outputs[name][number]) for name in names))
        for number, action in enumerate(report["actions"])
    ]
    printer.line(f"{_describe_agent(report)}, {count_noun(len(rows), 'observation')}, {_describe_choice(report)}")
    title = "consecutive steps" if report["sequence"] else "actions"
    printer.table(title, ("", "action", *names), rows, right=(0,), longest=_CELL)
    _print_inferred(printer, report)


def _describe_agent(report: dict[str, Any]) -> str:
    return f"{escape(report['path'], 1000)}: {report['algorithm'] or 'unknown algorithm'}"


def _describe_choice(report: dict[str, Any]) -> str:
    return "the most likely actions" if report["deterministic"] else "sampled actions"


def _print_inferred(printer: _output.Plain, report: dict[str, Any]) -> None:
    printer.table("inferred", (), [(sentence,) for sentence in report["inferred"]])


def _render(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_render, value))}]"
    return f"{value:.{_SIGNIFICANT}g}" if isinstance(value, float) else str(value)


# -- evaluate -----------------------------------------------------------------------------------------


def run_evaluate(args: argparse.Namespace) -> int:
    """Evaluate; return 2 when the agent or the environment could not be loaded."""
    if args.channels_order is not None and args.frame_stack is None:
        raise opt.UsageError("--channels-order: expected --frame-stack with it")
    report = _report(args, lambda: _evaluate(args))
    return _output.finish(args, report, _output.Form(_print_evaluation, EVALUATE_COLUMNS, _list_episodes))


def _evaluate(args: argparse.Namespace) -> dict[str, Any]:
    from sbformat.tools.evaluate import evaluate

    env_kwargs = _json.parse_object(args.env_kwargs, _ENV_KWARGS, args)
    archive, statistics = _open_agent(args, statistics=find_statistics(args))
    if args.env is None:
        args.env = _find_environment(args)
    with _raise_as_invalid(), _progress.count_items("episodes", args.episodes, least=2) as advance:
        report = evaluate(
            archive,
            args.env,
            episodes=args.episodes,
            vecnormalize=statistics,
            seed=args.seed,
            deterministic=not args.stochastic,
            frame_stack=args.frame_stack,
            channels_order=args.channels_order,
            env_kwargs=env_kwargs,
            max_steps=args.max_steps,
            progress=lambda _: advance(),
            limits=_files.make_limits(args),
        )
    computed = ("mean_reward", "std_reward", "mean_length", "std_length")
    return {"env": args.env, **report._asdict(), **{name: getattr(report, name) for name in computed}}


def _find_environment(args: argparse.Namespace) -> str:
    """Return the environment that the settings or logs beside the agent name, if it is one."""
    from sbformat.folders.logs import find_environments

    path = _name_agent(args)
    beside = _find_beside(path, _files.make_limits(args))
    problems: dict[str, str] = {}
    found = {} if beside is None else find_environments(beside, problems, _files.make_limits(args))
    if beside is not None and len(found) == 1:
        ((env, name),) = found.items()
        place = escape(_name_beside(path, beside, name), 1000)
        _output.warn(f"environment {escape(env)}, from {place}")
        return env
    why = (
        f"the files beside the agent name several: {', '.join(map(escape, found))}"
        if found
        else ("no settings or logs beside the agent name its environment")
    )
    why += "".join(f"; {quote(name)} was not read ({problem})" for name, problem in problems.items())
    raise opt.UsageError(f"expected --env: {why}", "--env CartPole-v1, or another ID of gymnasium")


def _list_episodes(report: dict[str, Any]) -> Iterable[dict[str, Any]]:
    """Return the rows of CSV."""
    for number, (reward, length) in enumerate(zip(report["rewards"], report["lengths"])):
        episode = {"episode": number, "reward": reward, "length": length}
        yield {"algorithm": report["algorithm"], "env": report["env"], **episode}


def _print_evaluation(printer: _output.Plain, report: dict[str, Any]) -> None:
    count = count_noun(len(report["rewards"]), "episode")
    printer.line(f"{_describe_agent(report)} in {escape(report['env'])}, {count}, {_describe_choice(report)}")
    rows = [
        (name, *(f"{value:,.2f}" for value in (report[f"mean_{name}"], report[f"std_{name}"], min(all_), max(all_))))
        for name, all_ in (("reward", report["rewards"]), ("length", report["lengths"]))
    ]
    printer.table("episodes", ("", "mean", "standard deviation", "least", "most"), rows, right=(1, 2, 3, 4))
    _print_inferred(printer, report)


# -- export -------------------------------------------------------------------------------------------


def run_export(args: argparse.Namespace) -> int:
    """Export; return 2 when it failed."""
    suffix = os.path.splitext(args.output)[1].lower()
    for name in ("opset", "batch", "name") if suffix in FORMATS else ():
        if getattr(args, name) is not None:
            try:
                require_format(name, suffix)
            except ValueError as error:
                raise opt.UsageError(f"--{error}") from None
    outputs = list_outputs(args.output) if suffix in FORMATS else [args.output]
    report = _report(args, lambda: _export(args, outputs), outputs)
    return _output.finish(args, report, _output.Form(_print_export))


def _export(args: argparse.Namespace, outputs: list[str]) -> dict[str, Any]:
    _check_output(args.output)
    for path in filter(None, (args.path, args.vecnormalize)):
        for output in outputs:
            _files.refuse_same_file(path, output)
    statistics = False if args.raw and args.vecnormalize is None else find_statistics(args)
    policy = _load_agent(args, statistics=statistics)
    if args.stochastic:
        from sbformat.policies.export.lowering import explain_sampling

        if draws := FORMATS[find_suffix(args.output)].draws:
            raise UnsupportedError(f"expected no --stochastic: what is exported draws when it runs, with {draws}")
        raise UnsupportedError(explain_sampling(policy.graph))
    with _raise_as_invalid():
        report = export(
            policy,
            args.output,
            outputs=None if args.outputs is None else [name.strip() for name in args.outputs.split(",")],
            raw=args.raw,
            overwrite=args.force,
            opset=args.opset,
            batch=None if args.batch is None else parse_batch(args.batch),
            name=args.name,
        )
    ports = {"inputs": report.inputs, "outputs": report.outputs}
    fields = ("name", "dtype", "shape", "role", "key")
    return {
        "format": report.format,
        "algorithm": policy.algorithm,
        "files": [file._asdict() for file in report.files],
        **{title: [{name: getattr(port, name) for name in fields} for port in rows] for title, rows in ports.items()},
        "nodes": report.nodes,
        "constants": report.constants,
        "raw": args.raw,
        "metadata": dict(report.metadata),
        "inferred": list(policy.inferred),
    }


def _check_output(output: str) -> None:
    """Refuse an output of another command, or of none, before the agent is loaded."""
    try:
        find_suffix(output)
    except ValueError as error:
        if not any(output.lower().endswith(form.beside) for form in FORMATS.values() if form.beside):
            _files.require_suffix("export", output)
        message, _, hint = str(error).partition("; ")
        raise _files.OtherFileError(output) from UnsupportedError(message, hint=hint)


def parse_batch(text: str) -> str | int:
    """Return the size of a batch, or the name of its axis."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _DIGITS else text


def _print_export(printer: _output.Plain, report: dict[str, Any]) -> None:
    suffix = os.path.splitext(report["files"][0]["path"])[1].lower()
    words = [
        f"{_describe_agent(report)} as {FORMATS[suffix].title}",
        count_noun(report["nodes"], "operation"),
        count_noun(report["constants"], "constant"),
    ]
    words += ["without the bounds of the action"] * report["raw"]
    words += ["with the statistics of VecNormalize"] * (report["metadata"]["normalized"] == "true")
    printer.line(", ".join(words))
    sizes = [(file["path"], format_size(file["size"])) for file in report["files"]]
    printer.table("files", (), sizes, right=(1,), longest=1000)
    for title in ("inputs", "outputs"):
        rows = [(port["name"], port["dtype"], tuple(port["shape"])) for port in report[title]]
        printer.table(title, ("name", "dtype", "shape of one item"), rows)
    _print_inferred(printer, report)
