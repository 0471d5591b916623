"""The source as programs: compilers and their warnings, sanitizers, ``-DNAME_MAIN``, two policies in one, memory."""

from __future__ import annotations

import ctypes
import functools
import os
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

import sbformat
from sbformat.policies.graph import Sampling
from tests.helpers.bundled import PPO, SAC
from tests.helpers.c_policy import C99, CPLUSPLUS, CPolicy, compile_c, find_program, load_library
from tests.helpers.c_program import CProgram
from tests.helpers.policy_vectors import VECTORS, assert_predictions, load_vector
from tests.policies.c.models import QUICK, include_all, load_wide
from tests.policies.run.models import Model, box, gaussian, make_policy
from tests.policies.sampled import KINDS

SANITIZED: Final = ("-O0", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")


def write(policy: Any, folder: Path, name: str = "policy", **options: Any) -> sbformat.ExportReport:
    """Export all outputs that the policy has."""
    loaded = sbformat.load_policy(policy) if isinstance(policy, Path) else policy
    options.setdefault("outputs", list(loaded.graph.outputs))
    return sbformat.export_c(loaded, folder / f"{name}.c", name=name, **options)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A policy of each kind as source, in one file that includes all of them."""
    folder = tmp_path_factory.mktemp("whole")
    for at, vector in enumerate(KINDS):
        write(load_vector(vector), folder, f"p{at}")
    write(load_wide(), folder, "wide")
    return include_all(folder, [*(f"p{at}.c" for at in range(len(KINDS))), "wide.c"])


@pytest.fixture(scope="module")
def sanitized(whole: Path) -> Path:
    """A program with the programs of all kinds, which runs that of the number in its first argument."""
    lines = ["#include <stdlib.h>"]
    for at in range(len(KINDS)):
        lines += [f"#define P{at}_MAIN", f"#define main main_{at}", f'#include "p{at}.c"', "#undef main"]
    lines += ["int main(int count, char **arguments)", "{", "    switch (count == 2 ? atoi(arguments[1]) : -1) {"]
    lines += [f"    case {at}: return main_{at}();" for at in range(len(KINDS))]
    lines += ["    default: return 9;", "    }", "}", ""]
    source = whole.with_name("programs.c")
    source.write_text("\n".join(lines))
    return compile_c([source], whole.with_name("programs"), flags=(*C99, *SANITIZED))


@pytest.fixture(scope="module")
def library(whole: Path) -> ctypes.CDLL:
    return load_library([whole], flags=QUICK)


@functools.cache
def compile_whole(whole: Path, compiler: str, flags: tuple[str, ...]) -> Path:
    """Compile the policies of all kinds, with a file of what they need of the stack."""
    folder = Path(tempfile.mkdtemp(dir=whole.parent))
    options = ("-c", "-fstack-usage", "-fno-stack-protector")
    return compile_c([whole], folder / "whole.o", compiler, (*flags, *options))


def run(program: Path, text: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([program, *arguments], input=text, capture_output=True, text=True, check=False, timeout=500)


def draw_inputs(report: sbformat.ExportReport, calls: int) -> list[dict[str, np.ndarray]]:
    """Numbers that every input may have, for each call."""
    generator = np.random.default_rng(0)
    ports = [port for port in report.inputs if port.role != "state"]
    return [
        {
            port.name: generator.normal(size=port.shape).astype(port.dtype)
            if port.dtype.startswith("float") and port.role == "observation"
            else generator.integers(0, 2, port.shape).astype(port.dtype)
            for port in ports
        }
        for _ in range(calls)
    ]


def write_text(steps: list[dict[str, np.ndarray]]) -> str:
    """Inputs as the program reads them."""
    return "\n".join(
        " ".join(f"{number:.17g}" for array in step.values() for number in array.astype(float).reshape(-1))
        for step in steps
    )


# -- compilers ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("compiler", "flags", "level"),
    [
        ("gcc", C99, "-O2"),
        ("clang", C99, "-O2"),
        ("g++", CPLUSPLUS, "-fsyntax-only"),
        *(
            pytest.param(compiler, flags, level, marks=pytest.mark.exhaustive)
            for compiler, flags in (("gcc", C99), ("clang", C99), ("g++", CPLUSPLUS), ("clang++", CPLUSPLUS))
            for level in ("-O0", "-O1", "-O2", "-O3", "-Os")
            if (compiler, level) not in {("gcc", "-O2"), ("clang", "-O2")}
        ),
    ],
    ids=lambda item: item if isinstance(item, str) else "",
)
def test_no_compiler_warns(whole: Path, tmp_path: Path, compiler: str, flags: tuple[str, ...], level: str) -> None:
    """Warnings that need the analysis of an optimizer too, with and without the program for tests."""
    compile_whole(whole, compiler, (*flags, level))
    for name in ("p1", "wide"):
        main = f"-D{name.upper()}_MAIN"
        compile_c([whole.with_name(f"{name}.c")], tmp_path / "main.o", compiler, (*flags, level, "-c", main))


@pytest.mark.exhaustive
@pytest.mark.parametrize(("compiler", "level"), [("gcc", "-O0"), ("gcc", "-O3"), ("clang", "-O0"), ("clang", "-O3")])
def test_every_vector_with_every_compiler(tmp_path: Path, compiler: str, level: str) -> None:
    for vector in VECTORS:
        policy = load_vector(vector)
        report = write(policy, tmp_path, overwrite=True)
        assert_predictions(vector, CPolicy(policy, tmp_path / "policy.c", report, compiler, (level,)))


# -- the program for tests ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "vector", [*KINDS, *(pytest.param(name, marks=pytest.mark.exhaustive) for name in VECTORS if name not in KINDS)]
)
def test_the_program_prints_what_the_function_computes(
    tmp_path: Path, request: pytest.FixtureRequest, vector: str
) -> None:
    """Call after call, with the state between them; and no sanitizer finds anything."""
    policy = load_vector(vector)
    if vector in KINDS:  # compiled together
        number, program = str(KINDS.index(vector)), request.getfixturevalue("sanitized")
        name, arguments = f"p{number}", [number]
        report = write(policy, tmp_path, name)
        called = CPolicy(policy, tmp_path / f"{name}.c", report, library=request.getfixturevalue("library"))
    else:
        report, arguments = write(policy, tmp_path), []
        program = compile_c([tmp_path / "policy.c"], tmp_path / "policy", flags=(*C99, *SANITIZED, "-DPOLICY_MAIN"))
        called = CPolicy(policy, tmp_path / "policy.c", report, flags=QUICK)
    steps = draw_inputs(report, 4)
    done = run(program, write_text(steps), *arguments)
    assert (done.returncode, done.stderr) == (0, "")
    states = {port.name: np.zeros((1, *port.shape), np.float32) for port in report.inputs if port.role == "state"}
    lines = done.stdout.splitlines()
    assert len(lines) == len(steps)
    for line, step in zip(lines, steps):
        found = called.run({**{name: array[None] for name, array in step.items()}, **states}, 1)
        states = {name: found[f"next_{name}"] for name in states}
        expected = [found[port.name].reshape(-1) for port in report.outputs if port.name in policy.graph.outputs]
        np.testing.assert_allclose(np.array(line.split(), float), np.concatenate(expected), 1e-5, 1e-5)


@pytest.mark.parametrize(
    ("text", "code", "lines", "message"),
    [
        ("", 0, 0, ""),
        (" \n ", 0, 0, ""),
        ("1 2 3 4", 0, 1, ""),
        ("1 2\n3 4\t5 6 7 8\n", 0, 2, ""),
        ("nan inf -inf 1e400", 0, 1, ""),
        ("1 2 3", 1, 0, "expected a number as item 3 of observation"),
        ("1 2 3 4 5", 1, 1, "expected a number as item 1 of observation"),
        ("1 x 3 4", 1, 0, "expected a number as item 1 of observation"),
        ("x", 1, 0, "expected a number as item 0 of observation"),
    ],
)
def test_what_the_program_reads(program: Path, text: str, code: int, lines: int, message: str) -> None:
    done = run(program, text)
    assert (done.returncode, len(done.stdout.splitlines()), done.stderr.strip()) == (code, lines, message)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no device that is always full")
@pytest.mark.parametrize("text", ["1 2 3 4\n", "1 2 3 4\n" * 5000], ids=len)
def test_output_that_cannot_be_written(program: Path, text: str) -> None:
    """When it is written at the end, and while the program runs."""
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run([program], input=text, text=True, stdout=full, stderr=subprocess.PIPE, check=False)
    assert (done.returncode, done.stderr) == (1, "cannot write the output\n")


def test_input_that_cannot_be_read(program: Path) -> None:
    """A folder can be opened, and not read."""
    folder = os.open(program.parent, os.O_RDONLY)
    try:
        done = subprocess.run([program], stdin=folder, capture_output=True, text=True, check=False)
    finally:
        os.close(folder)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "cannot read the input\n")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("program")
    write(PPO, folder)
    return compile_c([folder / "policy.c"], folder / "policy", flags=(*C99, *SANITIZED, "-DPOLICY_MAIN"))


def test_integers_that_the_program_reads(sanitized: Path) -> None:
    number = str(KINDS.index("policy-ppo-observes-multi-discrete"))
    assert run(sanitized, "1 1", number).returncode in (0, 1)
    for text in ("0.5", "3e9", "-3e9", "nan", "inf", "x"):
        done = run(sanitized, f"{text} 1 1 1", number)
        message = "expected an integer from -2147483648 to 2147483647 as item 0 of observation"
        assert (done.returncode, done.stdout, done.stderr.strip()) == (1, "", message)


def test_numbers_that_float32_does_not_have(tmp_path: Path) -> None:
    """The program reads doubles, and the function subtracts the mean from them before it rounds."""
    policy = load_wide()
    made = CProgram(policy, tmp_path / "policy.c", write(policy, tmp_path))
    noise = np.random.default_rng(0).normal(size=(20, 2))
    observations = {"seconds": 1.7e9 + 30 * noise, "steps": (2e9 + 100 * noise[::-1]).astype(np.int64)}
    found, expected = made.outputs(observations), policy.outputs(observations)
    assert np.ptp(expected["mean"], axis=0).min() > 0.1
    for name, array in found.items():
        np.testing.assert_allclose(array, np.broadcast_to(expected[name], array.shape), 1e-5, 1e-5, err_msg=name)


def test_bytes_and_inputs_that_are_missing(sanitized: Path) -> None:
    number = str(KINDS.index("policy-maskable-multi-discrete"))
    inputs = load_vector("policy-maskable-multi-discrete").graph.inputs
    observation, masks = (int(np.prod(port.shape)) for port in inputs)
    numbers = ["0"] * observation
    assert run(sanitized, " ".join([*numbers, *["1"] * masks]), number).returncode == 0
    done = run(sanitized, " ".join(numbers), number)
    assert (done.returncode, done.stderr.strip()) == (1, "expected more numbers, for action_masks")
    done = run(sanitized, " ".join([*numbers, *["256"] * masks]), number)
    assert (done.returncode, done.stderr.strip()) == (1, "expected an integer from 0 to 255 as item 0 of action_masks")


def test_a_program_without_inputs(tmp_path: Path) -> None:
    """An observation of no numbers: each byte that is read is a call."""
    write(make_policy(gaussian(box(0), box(2))), tmp_path)
    for compiler, flags in (("gcc", C99), ("g++", CPLUSPLUS)):
        program = compile_c([tmp_path / "policy.c"], tmp_path / "policy", compiler, (*flags, "-O2", "-DPOLICY_MAIN"))
        assert run(program, "ab").stdout.splitlines() == ["0 0 0 0 -1 0.5"] * 2


# -- programs of others -------------------------------------------------------------------------------


def test_two_policies_in_one_program(tmp_path: Path) -> None:
    """Neither their symbols nor their headers clash, and C++ calls both."""
    reports = [write(PPO, tmp_path, "first"), write(SAC, tmp_path, "second", outputs=("action",))]
    (tmp_path / "program.cpp").write_text("""
        #include "first.h"
        #include "second.h"
        #include <cstdio>
        int main()
        {
            const float one[FIRST_OBSERVATION_SIZE] = {0.1f, 0.2f, 0.3f, 0.4f};
            const float two[SECOND_OBSERVATION_SIZE] = {1, 0, 2};
            int32_t choice[FIRST_ACTION_SIZE];
            float value[FIRST_VALUE_SIZE], logits[FIRST_LOGITS_SIZE], odds[FIRST_PROBABILITIES_SIZE];
            float torque[SECOND_ACTION_SIZE];
            first_predict(one, choice, logits, odds, value);
            second_predict(two, torque);
            std::printf("%d %.9g", static_cast<int>(choice[0]), static_cast<double>(torque[0]));
        }
    """)
    assert [port.name for port in reports[0].outputs] == ["action", "logits", "probabilities", "value"]
    for name in ("first", "second"):
        compile_c([tmp_path / f"{name}.c"], tmp_path / f"{name}.o", flags=(*C99, "-c"))
    program = tmp_path / "program"
    objects = [str(tmp_path / f"{name}") for name in ("program.cpp", "first.o", "second.o")]
    subprocess.run([find_program("g++"), "-std=c++17", "-o", str(program), *objects, "-lm"], check=True)
    choice, torque = run(program, "").stdout.split()
    first, second = np.array([0.1, 0.2, 0.3, 0.4], np.float32), np.array([1, 0, 2], np.float32)
    assert int(choice) == sbformat.load_policy(PPO).predict(first, deterministic=True)[0]
    np.testing.assert_allclose(float(torque), sbformat.load_policy(SAC).predict(second, deterministic=True)[0][0], 1e-5)


def test_policies_are_re_entrant(whole: Path) -> None:
    """No writable data: sections .data and .bss of the object are empty."""
    made = compile_whole(whole, "gcc", (*C99, "-O2"))
    sizes = subprocess.run(
        [find_program("size"), "--format=sysv", made], capture_output=True, text=True, check=True
    ).stdout
    found = dict(re.findall(r"^(\.\w+)\s+(\d+)", sizes, re.MULTILINE))
    assert found[".data"] == found[".bss"] == "0"


def test_nothing_but_functions_of_numbers_is_linked(whole: Path) -> None:
    """No memory is allocated, and no file or time is used."""
    made = compile_whole(whole, "gcc", (*C99, "-O1", "-fno-inline"))
    listed = subprocess.run([find_program("nm"), "-u", made], capture_output=True, text=True, check=True).stdout
    names = set(re.findall(r"U (\w+)", listed)) - {"__stack_chk_fail", "_GLOBAL_OFFSET_TABLE_"}
    assert names <= {"expf", "logf", "log1pf", "expm1f", "sqrtf", "fabsf", "erff", "rintf"}


def test_the_figure_of_the_stack(whole: Path) -> None:
    """What gcc reports for the function is not less than the header says, and what all calls need is within 1 kB."""
    found = {}
    for level in (("-O1", "-fno-inline"), ("-O2",)):
        usage = compile_whole(whole, "gcc", (*C99, *level)).with_suffix(".su").read_text()
        found[level[0]] = {name: int(size) for name, size in re.findall(r":(\w+)\t(\d+)\t", usage)}
    for name in (*(f"p{at}" for at in range(len(KINDS))), "wide"):
        figure = re.search(r"Intermediate values: ([\d,]+) bytes", whole.with_name(f"{name}.h").read_text())
        assert figure
        stated = int(figure[1].replace(",", ""))
        assert stated <= found["-O1"][f"{name}_predict"] <= stated + 256
        assert sum(size for key, size in found["-O2"].items() if key.startswith(f"{name}_")) <= stated + 1024


def test_values_share_memory(tmp_path: Path) -> None:
    """Of 30 layers of 64, two are in memory at a time."""
    model = Model(box(64), box(64))
    value = model.features()
    for at in range(30):
        value = model.builder.add("Relu", model.linear(value, 64, f"layer {at}"))
    model.outputs = {"action": value}
    write(make_policy(model.build(Sampling("none"))), tmp_path)
    assert "Intermediate values: 512 bytes" in (tmp_path / "policy.h").read_text()
    assert "Multiply-adds of layers: 122,880 per call" in (tmp_path / "policy.h").read_text()
    assert "Constants: 491,520 bytes" in (tmp_path / "policy.h").read_text()
