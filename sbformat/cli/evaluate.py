"""``sbformat evaluate``: how an agent does in an environment of gymnasium."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sbformat.cli import _agents, _files, _output, _progress
from sbformat.errors import SbformatError, ValidationError, escape

if TYPE_CHECKING:
    import argparse

    from sbformat.tools.evaluate import EvaluationReport


CSV_COLUMNS: Final = ("path", "outcome", "message", "algorithm", "env", "episode", "reward", "length")
"""A row for each episode."""
_ENV_KWARGS: Final = "--env-kwargs"


def configure(subparsers: Any) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "evaluate",
        example="sbformat evaluate agent.zip --env CartPole-v1 -n 100 --seed 0",
        help="run an agent in an environment (extra gym)",
        description="Run an agent for some episodes in an environment of gymnasium, without torch, and report mean and "
        "standard deviation of their rewards and lengths, as evaluate_policy of SB3 does.",
    )
    parser.add_argument("path", metavar="FILE", help="an agent, or a folder with one and its statistics")
    parser.add_argument("--env", required=True, metavar="ID", help="the environment: CartPole-v1, ...")
    parser.add_argument(
        "-n", "--episodes", type=_agents.parse_number, default=20, metavar="N", help="episodes (default 20)"
    )
    _agents.add_policy_options(parser)
    parser.add_argument("--stochastic", action="store_true", help="sample the actions; else the most likely ones")
    parser.add_argument(
        "--frame-stack",
        type=_agents.parse_number,
        metavar="K",
        help="observations that the agent sees together (VecFrameStack)",
    )
    parser.add_argument(
        "--channels-order", choices=("first", "last"), help="the axis of --frame-stack; by default as SB3 finds it"
    )
    parser.add_argument(_ENV_KWARGS, default="{}", metavar="JSON", help="arguments of the environment: an object")
    parser.add_argument(
        "--max-steps", type=_agents.parse_number, metavar="N", help="time limit, instead of the environment's own"
    )
    _files.add_reading_options(parser, "csv")
    parser.set_defaults(run=run, refuse=parser.error)


def run(args: argparse.Namespace) -> int:
    """Evaluate; return 2 when the agent or the environment could not be loaded."""
    if args.channels_order is not None and args.frame_stack is None:
        args.refuse("--channels-order: expected --frame-stack with it")
    with _agents.collect_warnings() as warned:
        report = _files.report_errors(args.path, lambda: _evaluate(args))
    return _agents.finish_run(
        args, report, _print_text, warned, list_columns=lambda _: CSV_COLUMNS, list_rows=list_rows
    )


def _evaluate(args: argparse.Namespace) -> dict[str, Any]:
    report = _run_agent(args, _agents.parse_object(args.env_kwargs, _ENV_KWARGS, args))
    return {
        "env": args.env,
        **report._asdict(),
        "mean_reward": report.mean_reward,
        "std_reward": report.std_reward,
        "mean_length": report.mean_length,
        "std_length": report.std_length,
    }


def _run_agent(args: argparse.Namespace, env_kwargs: dict[str, Any]) -> EvaluationReport:
    from sbformat.tools.evaluate import evaluate

    archive, statistics = _agents.open_agent(args, statistics=_agents.read_statistics(args))
    try:
        with _progress.count_items("episodes", args.episodes, least=2) as advance:
            return evaluate(
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
                progress=lambda _: advance(""),
                limits=_files.make_limits(args),
            )
    except SbformatError:
        raise
    except ValueError as error:  # an observation that the agent cannot act on
        raise ValidationError(escape(str(error), 1000)) from None


def list_rows(report: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of CSV."""
    return [
        {"algorithm": report["algorithm"], "env": report["env"], "episode": number, "reward": reward, "length": length}
        for number, (reward, length) in enumerate(zip(report["rewards"], report["lengths"]))
    ]


def _print_text(printer: _output.Plain, report: dict[str, Any]) -> None:
    count = _output.count_noun(len(report["rewards"]), "episode")
    how = "the most likely actions" if report["deterministic"] else "sampled actions"
    printer.line(
        f"{escape(report['path'], 1000)}: {report['algorithm'] or 'unknown algorithm'} in {escape(report['env'])}, "
        f"{count}, {how}"
    )
    rows = [
        (name, *(f"{value:,.2f}" for value in (report[f"mean_{name}"], report[f"std_{name}"], min(all_), max(all_))))
        for name, all_ in (("reward", report["rewards"]), ("length", report["lengths"]))
    ]
    printer.table("episodes", ("", "mean", "standard deviation", "least", "most"), rows, right=(1, 2, 3, 4))
    printer.table("inferred from shapes", (), [(sentence,) for sentence in report["inferred"]])
