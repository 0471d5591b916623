"""Measurements of exports: the time and memory they take, and the size and speed of what they write."""

from __future__ import annotations

import os
import re
import shutil
import statistics
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from benchmarks.agents import AGENTS
from benchmarks.bench import pair_by_round
from benchmarks.exported import LOOP_IN_C, RUNNERS, name_library
from benchmarks.exporters import EXPORTERS, OLD, RAW, TORCH_ONNX, UNOPTIMIZED
from benchmarks.files import ROOT
from benchmarks.policies import agent_file
from benchmarks.predictors import ONNX
from benchmarks.processes import Failed
from benchmarks.reading import peaks
from benchmarks.results import Line, compare
from benchmarks.rivals import US

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from benchmarks.bench import Bench

FLAT: Final = ("DQN", "PPO", "SAC", "A2C")
IMAGE: Final = "PPO-NatureCNN"
EXPORT: Final = "from benchmarks.once import export; export()"
EXPORT_C: Final = "from benchmarks.once import export_c; export_c()"
EXPORT_JAVASCRIPT: Final = "from benchmarks.once import export_javascript; export_javascript()"
SLOW: Final = frozenset({TORCH_ONNX, UNOPTIMIZED})
"""Exporters that take a second or more, so that one call is enough."""
COMPILED: Final = "gcc -O2"
OTHERS: Final = ("gcc -O3", "clang -O2")
"""Other compilers and options, for one agent."""
MEMORY: Final = "/dev/shm"  # noqa: S108 -- a folder of its own is made there
BOUND: Final = "onnxruntime, bound"


class Ask(NamedTuple):
    """What a worker is asked each round."""

    task: str
    path: str
    calls: int
    output: str = ""


def time_in_turn(
    bench: Bench, asks: Mapping[str, Ask], rounds: int
) -> tuple[dict[str, dict[str, float]], dict[str, str]]:
    """Let workers take turns; return the best call of each round by subject, and the subjects that failed."""
    found: dict[str, dict[str, float]] = {name: {} for name in asks}
    failed: dict[str, str] = {}
    for turn in range(rounds):
        for name, ask in asks.items():
            if name in failed:
                continue
            bench.tell(f"{bench.measure}: {name}, round {turn + 1} of {rounds}")
            try:
                seconds = bench.worker(name).seconds(ask.task, ask.path, ask.calls, is_held=False, output=ask.output)
            except Failed as error:
                failed[name] = f"not available: {error}"
                continue
            found[name][str(turn)] = seconds / (RUNNERS[ask.task].repeats if ask.task in RUNNERS else 1)
    return {name: values for name, values in found.items() if name not in failed}, failed


def missing(bench: Bench, names: Iterable[str]) -> dict[str, str]:
    """Return the exporters among these that cannot run here, and why."""
    absent = {name: [one for one in EXPORTERS[name].modules if one not in bench.versions] for name in names}
    return {name: f"{modules[0]} is not installed" for name, modules in absent.items() if modules}


def lacks_sb3(bench: Bench) -> list[Line]:
    """Return a line if there is nothing to make agents with."""
    if "stable_baselines3" in bench.versions:
        return []
    return [Line(bench.measure, "time", "s", None, note="stable_baselines3 is not installed")]


def onnx_file(bench: Bench, exporter: str, agent: str) -> str:
    """Return the path of an agent's ONNX file; it may not exist yet."""
    folder = Path(bench.folder) / "onnx" / re.sub(r"\W+", "-", exporter)
    folder.mkdir(parents=True, exist_ok=True)
    return str(folder / f"{agent}.onnx")


def export_files(bench: Bench, names: Iterable[str], agent: str) -> tuple[dict[str, str], dict[str, str]]:
    """Return the ONNX files of an agent by exporter, and the exporters that failed; existing files are reused."""
    made, failed = {}, missing(bench, names)
    for name in names:
        if name in failed:
            continue
        made[name] = onnx_file(bench, name, agent)
        if not os.path.exists(made[name]):
            bench.tell(f"{bench.measure}: {agent} with {name}")
            command = bench.python(EXPORT, name, agent_file(bench, agent), made[name])
            done = subprocess.run(command, cwd=ROOT, env=bench.env, capture_output=True, text=True, check=False)
            if done.returncode:
                del made[name]
                failed[name] = f"not available: {(done.stderr.strip().splitlines() or ['it failed'])[-1][:200]}"
    return made, failed


# -- exporting ----------------------------------------------------------------------------------------


def export_onnx(bench: Bench) -> list[Line]:
    """Measure whole processes that export an agent."""
    lines = lacks_sb3(bench)
    names = (US, TORCH_ONNX, OLD)
    for agent in () if lines else (*FLAT, IMAGE):
        path, lost = agent_file(bench, agent), missing(bench, names)
        commands = {
            name: bench.python(EXPORT, name, path, onnx_file(bench, name, agent)) for name in names if name not in lost
        }
        ran, failed = bench.whole(commands, max(2, bench.rounds // 2))
        goals = dict.fromkeys((TORCH_ONNX, OLD), 0.20)
        lost.update(failed)
        lines += compare(
            bench.measure, pair_by_round(ran), us=US, goals=goals, peaks=peaks(ran), missing=lost, of=agent
        )
    return lines


def export_onnx_warm(bench: Bench) -> list[Line]:
    """Measure exports of loaded agents, to files in memory: sbformat syncs a file to the disk, and torch does not."""
    lines = lacks_sb3(bench)
    names = (US, TORCH_ONNX, OLD)
    in_memory = MEMORY if os.path.isdir(MEMORY) else None
    with tempfile.TemporaryDirectory(dir=in_memory) as folder:
        for agent in () if lines else (*FLAT, IMAGE):
            path, lost = agent_file(bench, agent), missing(bench, names)
            asks = {
                name: Ask("export", path, 1 if name in SLOW else 5, f"{folder}/{at}.onnx")
                for at, name in enumerate(names)
                if name not in lost
            }
            found, failed = time_in_turn(bench, asks, bench.rounds)
            goals = dict.fromkeys((TORCH_ONNX, OLD), 0.20)
            lines += compare(bench.measure, found, us=US, goals=goals, missing={**lost, **failed}, of=agent)
    return lines


def onnx_size(bench: Bench) -> list[Line]:
    """Count the nodes and bytes of files."""
    lines = lacks_sb3(bench)
    for agent in () if lines else (*FLAT, IMAGE):
        made, failed = export_files(bench, tuple(EXPORTERS), agent)
        nodes = {name: {agent: float(count_nodes(bench, path))} for name, path in made.items()}
        sizes = {name: {agent: float(count_bytes(path))} for name, path in made.items()}
        full = nodes.pop(US), sizes.pop(US)
        goals = dict.fromkeys((TORCH_ONNX, OLD), 1.0)
        note = f"{full[0][agent]:.0f} with bounds"
        lines += compare(
            bench.measure, nodes, us=RAW, goals=goals, missing=failed, of=f"nodes, {agent}", unit="nodes", note=note
        )
        sizes.pop(UNOPTIMIZED, None)
        lines += compare(bench.measure, sizes, us=RAW, of=f"size, {agent}", unit="bytes")
    return lines


def count_nodes(bench: Bench, path: str) -> int:
    """Return the number of nodes of a file."""
    code = "import onnx, sys; print(len(onnx.load(sys.argv[1], load_external_data=False).graph.node))"
    done = subprocess.run(bench.python(code, path), env=bench.env, capture_output=True, check=True)
    return int(done.stdout)


def count_bytes(path: str) -> int:
    """Return the size of a file with the weights beside it."""
    return sum(os.path.getsize(part) for part in (path, f"{path}.data") if os.path.exists(part))


# -- running ------------------------------------------------------------------------------------------


def compare_sessions(bench: Bench, agents: Iterable[str], task: str, calls: int) -> list[Line]:
    """Compare the latency in onnxruntime of what exporters write."""
    lines = lacks_sb3(bench)
    names = (RAW, US, TORCH_ONNX, OLD)
    for agent in () if lines else agents:
        made, lost = export_files(bench, names, agent)
        one = "onnx-image" if task == "onnx-one" and agent == IMAGE else task
        found, failed = time_in_turn(bench, {name: Ask(one, path, calls) for name, path in made.items()}, bench.rounds)
        bench.close()
        lost.update(failed)
        goals = dict.fromkeys((TORCH_ONNX, OLD), 1.0)
        lines += compare(bench.measure, found, us=RAW, goals=goals, missing=lost, of=agent)
    return lines


def onnx_latency(bench: Bench) -> list[Line]:
    return compare_sessions(bench, (*FLAT, IMAGE), "onnx-one", 20)


def onnx_latency_batch(bench: Bench) -> list[Line]:
    return compare_sessions(bench, (*FLAT, IMAGE), "onnx-batch", 10)


# -- C ------------------------------------------------------------------------------------------------


def c_file(bench: Bench, agent: str) -> str:
    """Return the path of an agent as C, with a loop that calls it beside it."""
    folder = Path(bench.folder) / "c" / agent
    path = folder / "policy.c"
    if not path.exists():
        bench.tell(f"{bench.measure}: {agent} as C")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "loop.c").write_text(LOOP_IN_C, "ascii")
        command = bench.python(EXPORT_C, agent_file(bench, agent), str(path))
        subprocess.run(command, cwd=ROOT, env=bench.env, check=True)
    return str(path)


def compile_library(bench: Bench, agent: str, compiler: str) -> str:
    """Return the path of an agent as a shared library, with the function that calls it in a loop.

    :param compiler: its name and an option
    """
    folder = os.path.dirname(c_file(bench, agent))
    library = os.path.join(folder, name_library(f"policy-{compiler.replace(' ', '')}", AGENTS[agent].observation))
    if not os.path.exists(library):
        sources = [os.path.join(folder, name) for name in ("policy.c", "loop.c")]
        flags = ["-std=c99", compiler.split()[1], "-fPIC", "-shared"]
        subprocess.run([find_compiler(compiler), *flags, *sources, "-o", library, "-lm"], check=True)
    return library


def find_compiler(name: str) -> str:
    """Return the path of a compiler, whose name may be followed by an option, or an empty text."""
    return shutil.which(name.split(maxsplit=1)[0]) or ""


def c_latency(bench: Bench) -> list[Line]:
    """Compare compiled policies with onnxruntime, for one observation."""
    lines = lacks_sb3(bench)
    for agent in () if lines else FLAT:
        made, lost = export_files(bench, (US,), agent)
        ours = {}
        for compiler in (COMPILED, *(OTHERS if agent == "PPO" else ())):
            if find_compiler(compiler):
                library = compile_library(bench, agent, compiler)
                ours[compiler] = Ask("c-loop", library, 20)
                ours[f"{compiler}, ctypes"] = Ask("c-call", library, 20)
            else:
                lines.append(Line(bench.measure, f"{agent}, {compiler}", "s", None, note="not installed"))
        theirs = {}
        if "onnxruntime" in bench.versions and made:
            theirs = {ONNX: Ask("onnx-one", made[US], 20), BOUND: Ask("onnx-bound", made[US], 20)}
        else:
            lost[ONNX] = "onnxruntime or onnx is not installed"
        found, failed = time_in_turn(bench, {**ours, **theirs}, bench.rounds)
        bench.close()
        lost.update((name, why) for name, why in failed.items() if name in theirs)
        for name in ours:
            if name in failed:
                lines.append(Line(bench.measure, f"{agent}, {name}", "s", None, note=failed[name]))
                continue
            samples = {subject: found[subject] for subject in (name, *theirs) if subject in found}
            goals = dict.fromkeys((ONNX, BOUND), 0.50)
            lines += compare(bench.measure, samples, us=name, goals=goals, missing=lost, of=f"{agent}, {name}")
    return lines


def export_c(bench: Bench) -> list[Line]:
    """Measure whole processes that write an agent as C, and those that compile it."""
    lines = lacks_sb3(bench)
    for agent in () if lines else ("PPO", IMAGE):
        source = c_file(bench, agent)
        commands, made = {US: bench.python(EXPORT_C, agent_file(bench, agent), source)}, {US: source}
        for subject in filter(find_compiler, (COMPILED, "clang -O2")):
            made[subject] = f"{source[:-2]}-{subject.split()[0]}.o"
            commands[subject] = [find_compiler(subject), "-std=c99", "-O2", "-c", source, "-o", made[subject]]
        ran, failed = bench.whole(commands, max(2, bench.rounds // 2))
        memory = peaks(ran)
        for subject in commands:
            seconds = statistics.median(one.seconds for one in ran[subject]) if subject not in failed else None
            note = failed.get(subject) or f"{os.path.getsize(made[subject]):,} bytes"
            of = f"{agent}, {subject}"
            lines.append(Line(bench.measure, of, "s", seconds, our_peak=memory.get(subject), note=note))
    return lines


# -- JavaScript ---------------------------------------------------------------------------------------


def javascript_latency(bench: Bench) -> list[Line]:
    """Measure one observation in node, from the observation to all outputs."""
    lines = lacks_sb3(bench)
    if shutil.which("node") is None:
        lines = lines or [Line(bench.measure, "time", "s", None, note="node is not installed")]
    for agent in () if lines else (*FLAT, IMAGE):
        bench.tell(f"{bench.measure}: {agent}")
        module = str(Path(bench.folder) / f"{agent}.mjs")
        subprocess.run(
            bench.python(EXPORT_JAVASCRIPT, agent_file(bench, agent), module), cwd=ROOT, env=bench.env, check=True
        )
        calls, limit = (1, 30e-3) if agent == IMAGE else (2_000, 10e-6)
        command = ["node", str(ROOT / "benchmarks" / "time_module.mjs"), module, str(calls)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        seconds = min(map(float, done.stdout.split()))
        note = f"{os.path.getsize(module):,} bytes"
        lines.append(Line(bench.measure, agent, "s", seconds, limit=limit, note=note))
    return lines
