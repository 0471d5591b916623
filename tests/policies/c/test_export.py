"""Files of ``export_c``: names, comments and numbers, whatever texts a policy has, and errors that leave no file."""

from __future__ import annotations

import platform
import re
import subprocess
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

import sbformat
from sbformat.limits import Budget
from sbformat.policies.builder import GraphBuilder
from sbformat.policies.c.calls import write_array, write_float
from sbformat.policies.c.export import (
    KEYWORDS,
    escape_comment,
    name_arguments,
    name_parameters,
    wrap_comment,
    write_source,
)
from sbformat.policies.export.files import Port
from sbformat.policies.graph import Input, Sampling
from tests.helpers.bundled import PPO, SAC
from tests.helpers.c_policy import C99, compile_c
from tests.helpers.many_cases import check_all
from tests.helpers.policy_vectors import load_vector
from tests.policies.c.models import export
from tests.policies.run.graphs import describe, lower_graph, make_graph
from tests.policies.run.models import (
    Model,
    box,
    categorical,
    dict_space,
    discrete,
    gaussian,
    images,
    make_policy,
    multi_binary,
    multi_discrete,
    numbers,
)

ATTACKS: Final = (
    "*/ int injected; /*", "a\nint injected;", "a\r\nint injected;", "\\\nint injected;", "??/\nint injected;",
    "// a \\", '"; int injected; //', "/*", "*/", "*", "/", "/ *", "%", "%2A/", "int", "injected;", "linux", "NULL",
    "__x__", "9", "", " ", "\x00", "\u2028int injected;", "\u202e", "\u00e9", "\ud800", "EOF", "a b", "a_b", "A_B",
    "action", "#define policy_predict", "observation", "x" * 5000,
)  # fmt: skip
"""Texts that would break or change the source if they were written as they are."""
SB2_CNN: Final = Path(__file__).parents[2] / "nets" / "archives" / "sb2" / "ppo2-cnn-same.zip"
LARGEST: Final = float(np.finfo(np.float32).max)


# -- names --------------------------------------------------------------------------------------------


WRONG_NAMES = [
        ("", "an identifier of C"), ("9a", "an identifier of C"), ("a-b", "an identifier of C"), ("a b", "identifier"),
        ("\u00e9", "an identifier of C"), ("a\n", "an identifier of C"), ("_a", "an identifier of C"),
        ("a__b", "without two underscores"), ("a_", "without two underscores"), ("x" * 24, "at most 23 characters"),
        *((name, "identifier" if name.startswith("_") else "not a keyword") for name in sorted(KEYWORDS)),
]  # fmt: skip


def test_names_that_c_does_not_have(tmp_path: Path) -> None:
    def check(name: str, expected: str) -> None:
        with pytest.raises(ValueError, match=expected):
            sbformat.export_c(PPO, tmp_path / "policy.c", name=name)
        assert not list(tmp_path.iterdir())

    check_all(check, WRONG_NAMES)


@pytest.mark.parametrize("name", ["observation", "Observation", "OBSERVATION", "observation_tanh"])
def test_names_with_which_an_argument_begins(tmp_path: Path, name: str) -> None:
    """A parameter of the name of a function would hide it, and that of a macro would be replaced."""
    policy = make_policy(gaussian(dict_space(**{"copy": box(2), "tanh size": box(1)}), box(3)))
    with pytest.raises(
        ValueError, match=rf"another name \(--name\) than '{name}': the argument 'observation_\w+' begins"
    ):
        sbformat.export_c(policy, tmp_path / "policy.c", name=name)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["observation", "action", "state", "observation_c", "x" * 23])
def test_names_that_only_look_like_an_argument(tmp_path: Path, name: str) -> None:
    policy = load_vector("policy-cnn-multi-input" if name == "observation_c" else "policy-lstm")
    sbformat.export_c(policy, tmp_path / "policy.c", name=name, outputs=list(policy.graph.outputs))
    made = compile_c([tmp_path / "policy.c"], tmp_path / "policy.o", flags=(*C99, "-c", f"-D{name.upper()}_MAIN"))
    listed = subprocess.run(["nm", "-g", "--defined-only", made], capture_output=True, text=True, check=True).stdout
    symbols = set(re.findall(r" T (\w+)", listed)) - {"main"}
    assert f"{name}_predict" in symbols
    assert len({symbol[:31] for symbol in symbols}) == len(symbols)


def test_a_name_is_a_text(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="name"):
        sbformat.export_c(PPO, tmp_path / "policy.c", name=3)  # type: ignore[arg-type]


def test_all_symbols_begin_with_the_name(tmp_path: Path) -> None:
    """What a linker sees, and every name that the preprocessor defines."""
    report = sbformat.export_c(PPO, tmp_path / "any.c", name="Robot7", outputs=("action", "value"))
    texts = [Path(file.path).read_text() for file in report.files]
    for text in texts:
        assert all(name.startswith("ROBOT7_") for name in re.findall(r"^#define (\w+)", text, re.MULTILINE))
        defined = re.findall(r"^(?:static )?(?:const )?\w+ (\w+)[\[(]", text, re.MULTILINE)
        assert all(name.startswith("Robot7_") or name == "main" for name in defined)
    assert '#include "any.h"' in texts[0]


def test_names_of_arguments_differ_in_upper_case_too() -> None:
    ports = [Port(f"{key}'", key, "float32", (), "observation", key) for key in ATTACKS]
    ports += [Port("action", "a", "int32", (), "output"), Port("hidden.0", "h", "float32", (), "state")]
    made = name_parameters(ports)
    assert len({name.upper() for name in made.values()}) == len(ports)
    assert all(re.fullmatch(r"[a-z]+(_[A-Za-z0-9]+)*", name) for name in made.values())
    assert all(made[f"{key}'"].startswith("observation") for key in ATTACKS)
    assert (made["hidden.0"], made["action"]) == ("hidden_0", "action")


# -- hostile texts ------------------------------------------------------------------------------------


def check_comments_cannot_be_left(text: str) -> None:
    made = escape_comment(f"*{text}/")
    assert re.fullmatch(r"[ -~]*", made)
    assert not re.search(r"\*|\\|\?|//", made)
    comment = wrap_comment([escape_comment(text)] * 3)
    assert comment.count("*/") == comment.count("/*") == 1
    assert max(map(len, comment.splitlines())) <= 120


def test_comments_cannot_be_left() -> None:
    check_all(check_comments_cannot_be_left, ((text,) for text in ATTACKS))


def test_keys_of_a_dict_inject_nothing(tmp_path: Path) -> None:
    """The source compiles without a warning, predicts the same, and none of its code comes from a key."""
    policy = make_policy(gaussian(dict_space(**{key: box(2) for key in ATTACKS}), box(3)))
    made = export(policy, tmp_path)
    for path in tmp_path.iterdir():
        code = re.sub(r"/\*.*?\*/", "", path.read_text("ascii"), flags=re.DOTALL)
        assert "injected;" not in code
        assert path.read_text().count("/*") == path.read_text().count("*/")
    observation = {key: numbers(2, 2, seed=at) for at, key in enumerate(ATTACKS)}
    np.testing.assert_allclose(
        made.predict(observation)[0], policy.predict(observation, deterministic=True)[0], 1e-5, 1e-5
    )


def test_names_of_tensors_and_metadata_inject_nothing(tmp_path: Path) -> None:
    model = Model(box(3), box(2))
    value = model.features()
    for at, text in enumerate(ATTACKS):
        value = model.linear(value, 2, f"{text}{at}")
    model.outputs = {"action": value}
    lowered = lower_graph(model.build(Sampling("none")).graph)
    metadata = {"sbformat_version": ATTACKS[0], **{text: text for text in ATTACKS}}
    arguments = name_arguments(lowered, "p", box(3), box(2))
    source = write_source(lowered._replace(metadata=metadata), arguments, "p", "p.h")
    (tmp_path / "p.c").write_text(source.code, "ascii")
    (tmp_path / "p.h").write_text(source.header, "ascii")
    compile_c([tmp_path / "p.c"], tmp_path / "p.o", flags=(*C99, "-c"))
    assert "injected;" not in re.sub(r"/\*.*?\*/", "", source.code + source.header, flags=re.DOTALL)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the option and the instruction are those of x86-64")
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_products_are_rounded_before_they_are_added(tmp_path: Path, compiler: str) -> None:
    """Also where a compiler may use one instruction for both: results would differ between processors."""
    sbformat.export_c(SAC, tmp_path / "p.c")
    compile_c([tmp_path / "p.c"], tmp_path / "p.s", compiler, flags=("-std=gnu99", "-O3", "-mfma", "-S"))
    assert not re.search("vfn?m(add|sub)", (tmp_path / "p.s").read_text())


def test_names_in_comments_are_not_uses(tmp_path: Path) -> None:
    """A node that has the name of a parameter or constant which nothing uses: they are not defined, or marked."""
    builder = GraphBuilder(Budget())
    used, _ = (builder.input(Input(name, "float32", (2,))) for name in ("observation.a", "observation.b"))
    weight = builder.weight("w", describe(numbers(2, 2)), "test")
    first = builder.add("Gemm", used, weight, transB=True, name="observation_b p_constant_0")
    lowered = lower_graph(builder.build({"action": builder.add("Exp", first)}, Sampling("none")))
    source = write_source(lowered, name_arguments(lowered, "p", box(2), box(2)), "p", "p.h")
    (tmp_path / "p.c").write_text(source.code)
    (tmp_path / "p.h").write_text(source.header)
    compile_c([tmp_path / "p.c"], tmp_path / "p.o", flags=(*C99, "-c"))
    assert "(void)observation_b;" in source.code
    assert "p_constant_0[" not in source.code


# -- numbers ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (0.1, "0.1f"), (1, "1.0f"), (-0.0, "-0.0f"), (1e-45, "1e-45f"), (1e20, "1e+20f"),
        (LARGEST, "3.4028235e+38f"), (np.nan, "NAN"), (np.inf, "INFINITY"), (-np.inf, "-INFINITY"), (1e300, "INFINITY"),
    ],
)  # fmt: skip
def test_literals(number: float, expected: str) -> None:
    assert write_float(number) == expected


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (2e-4, "0.0002"), (1.9999e-4, "1.9999e-04"), (1e-4, "1e-04"), (0.00010001, "1.0001e-04"),
        (199999, "199999.0"), (2e5, "2e+05"), (999999, "9.99999e+05"), (1e6, "1e+06"), (1048577, "1.048577e+06"),
        (16777216, "1.6777216e+07"), (-1e8, "-1e+08"), (123456789, "1.2345679e+08"), (1e15, "1e+15"), (1e16, "1e+16"),
        (1e-10, "1e-10"), (9.999e-5, "9.999e-05"), (1.17549435e-38, "1.1754944e-38"),
        (0.1, "0.1"), (100, "100.0"), (-0.0, "-0.0"), (0, "0.0"),
    ],
)  # fmt: skip
def test_literals_do_not_depend_on_the_release_of_numpy(number: float, expected: str) -> None:
    """Releases write other numbers with an exponent: 2.2 ``-100000000.0``, 2.4 ``-1e+08``."""
    assert write_float(number) == f"{expected}f"
    assert f"    {expected}f, " in write_array("a", np.array([number, 1], np.float32))


def test_literals_of_doubles() -> None:
    numbers = [0.1, 1e8, 1 / 3, 5e-324, np.nan, np.inf, -np.inf]
    expected = "0.1, 100000000.0, 0.3333333333333333, 5e-324, (double)NAN, (double)INFINITY, (double)-INFINITY,"
    assert write_array("a", np.array(numbers)) == f"static const double a[7] = {{\n    {expected}\n}};\n"


def test_literals_are_read_as_the_same_numbers(tmp_path: Path) -> None:
    """Every bit of 2,000 random float32, and of the special ones, through both compilers."""
    bits = np.random.default_rng(0).integers(0, 2**32, 2000, np.uint32)
    array = np.concatenate([bits.view(np.float32), np.array([0, -0.0, 1e-45, LARGEST, np.inf, -np.inf], np.float32)])
    text = f"#include <math.h>\n#include <stdint.h>\n#include <stdio.h>\n{write_array('all', array)}"
    text += f"int main(void) {{ return fwrite(all, 4, {array.size}, stdout) != {array.size}; }}\n"
    (tmp_path / "a.c").write_text(text)
    for compiler in ("gcc", "clang"):
        program = compile_c([tmp_path / "a.c"], tmp_path / "a", compiler)
        found = np.frombuffer(subprocess.run([program], capture_output=True, check=True).stdout, np.float32)
        assert np.array_equal(np.isnan(found), np.isnan(array))
        assert np.array_equal(found[~np.isnan(array)].view(np.uint32), array[~np.isnan(array)].view(np.uint32))


def test_integers() -> None:
    assert "{\n    (-2147483647 - 1), 2147483647,\n}" in write_array("a", np.array([-(2**31), 2**31 - 1]))
    assert "4294967295u" in write_array("a", np.array([2**32 - 1], np.uint32))
    assert "static const uint8_t a[2] = {\n    1, 0,\n}" in write_array("a", np.array([True, False]))
    assert "a[1] = {\n    0,\n}" in write_array("a", np.empty((0, 3), np.float32))


@pytest.mark.parametrize("number", [2**31, -(2**31) - 1, 2**63 - 1])
def test_integers_of_more_than_32_bits_are_refused(number: int) -> None:
    graph, _ = make_graph("Add", [np.array([[1]])], [np.array([number])])
    lowered = lower_graph(graph)
    with pytest.raises(sbformat.UnsupportedError, match=f"expected integers of 32 bits in .*, got {number}"):
        write_source(lowered, name_arguments(lowered, "p", box(1), box(1)), "p", "p.h")


# -- arguments ----------------------------------------------------------------------------------------


def test_the_header_describes_the_arguments(tmp_path: Path) -> None:
    space = dict_space(arm=box(2, 3, low=-1, high=4, dtype="float64"), mode=discrete(5), on=multi_binary(2))
    export(make_policy(categorical(space, multi_discrete(2, 3), masked=True)), tmp_path)
    header = (tmp_path / "policy.h").read_text()
    declared = re.sub(r"\s+", " ", header)
    assert (
        "void policy_predict(const double *observation_arm, const int32_t *observation_mode, "
        "const int8_t *observation_on, const uint8_t *action_masks, int32_t *action, float *logits);"
    ) in declared
    for text in (
        "#define POLICY_OBSERVATION_ARM_SIZE 6", "#define POLICY_ACTION_MASKS_SIZE 5", "#define POLICY_ACTION_SIZE 2",
        "observation_arm: an array of the shape (2, 3); Box(-1.0, 4.0, (2, 3), <f8); key arm",
        "observation_mode: a number; int64 in Python; Discrete(5), counted from 0; key mode",
        "MultiDiscrete([2, 3]), counted from 0", "action, written: an array of the shape (2); int64 in Python;",
        'extern "C"',
    ):  # fmt: skip
        assert text in header, text


def test_the_header_names_the_axes_of_an_image(tmp_path: Path) -> None:
    """SB3 has the channels first, SB2 last."""
    for policy, axes in (
        (load_vector("policy-cnn"), "channels, height, width"),
        (sbformat.load_policy(SB2_CNN), "height, width, channels"),
    ):
        sbformat.export_c(policy, tmp_path / "policy.c", overwrite=True)
        assert axes in re.sub(r"\s*\n \*\s*", " ", (tmp_path / "policy.h").read_text())


def test_the_report(tmp_path: Path) -> None:
    report = sbformat.export_c(PPO, tmp_path / "policy.c", outputs=("action", "logits"))
    assert report.format == "c"
    assert [Path(file.path).name for file in report.files] == ["policy.c", "policy.h"]
    assert [file.size for file in report.files] == [Path(file.path).stat().st_size for file in report.files]
    assert [(port.name, port.dtype, port.shape) for port in report.outputs] == [
        ("action", "int32", ()), ("logits", "float32", (2,)),
    ]  # fmt: skip
    assert report.nodes == 8
    assert report.metadata["algorithm"] == "PPO"


def test_the_same_bytes_every_time(tmp_path: Path) -> None:
    files = []
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        report = sbformat.export_c(SAC, tmp_path / folder / "policy.c", outputs=("action", "q_values"))
        files.append([Path(file.path).read_bytes() for file in report.files])
    assert files[0] == files[1]


def test_raw_leaves_bounds_out(tmp_path: Path) -> None:
    """The bundled agent scales its action to -2 and 2."""
    policy = sbformat.load_policy(SAC)
    observation = numbers(5, 3)
    expected = policy.predict(observation, deterministic=True)[0] / 2
    made = export(policy, tmp_path, outputs=("action",), raw=True)
    np.testing.assert_allclose(made.predict(observation)[0], expected, 1e-5, 1e-5)


def test_images_as_bytes(tmp_path: Path) -> None:
    policy = make_policy(gaussian(images(3, 4, 4), box(2)))
    made = export(policy, tmp_path)
    observation = np.random.default_rng(0).integers(0, 256, (2, 3, 4, 4)).astype(np.uint8)
    np.testing.assert_allclose(made.predict(observation)[0], policy.predict(observation, deterministic=True)[0], 1e-5)


# -- errors -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("existing", ["policy.c", "policy.h"])
def test_files_that_exist_are_kept(tmp_path: Path, existing: str) -> None:
    (tmp_path / existing).write_text("mine")
    with pytest.raises(FileExistsError, match=existing):
        sbformat.export_c(PPO, tmp_path / "policy.c")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [(existing, "mine")]
    sbformat.export_c(PPO, tmp_path / "policy.c", overwrite=True)
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("policy", "ends in .c"), ("policy.h", "ends in .c"), (".c", "ends in .c"), (".C", "ends in .c"),
        ('a"b.c', "without quotes"), ("a\\b.c", "without quotes"), ("a?b.c", "without quotes"),
        ("a\nb.c", "without quotes"), ("a<b.c", "without quotes"), ("a\ud800.c", "without quotes"),
    ],
)  # fmt: skip
def test_paths(tmp_path: Path, path: str, expected: str) -> None:
    with pytest.raises(ValueError, match=expected):
        sbformat.export_c(PPO, tmp_path / path)
    assert not list(tmp_path.iterdir())


def test_a_suffix_in_upper_case_is_one_of_c(tmp_path: Path) -> None:
    sbformat.export_c(PPO, tmp_path / "POLICY.C")
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["POLICY.C", "POLICY.H"]
    assert '#include "POLICY.H"' in (tmp_path / "POLICY.C").read_text()


@pytest.mark.parametrize(
    ("options", "error", "expected"),
    [
        ({"outputs": ("action", "nothing")}, ValueError, "'nothing'"),
        ({"outputs": ()}, ValueError, "at least one output"),
        ({"outputs": "action"}, TypeError, "outputs"),
        ({"deterministic": False}, sbformat.UnsupportedError, "sample"),
    ],
)
def test_options(tmp_path: Path, options: Any, error: type[Exception], expected: str) -> None:
    with pytest.raises(error, match=expected):
        sbformat.export_c(PPO, tmp_path / "policy.c", **options)
    assert not list(tmp_path.iterdir())


def test_a_folder_that_does_not_exist(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="policy.c"):
        sbformat.export_c(PPO, tmp_path / "none" / "policy.c")


def test_functions_of_python_are_refused(tmp_path: Path) -> None:
    model = Model(box(3), box(2))
    value = model.builder.add("Call", model.features(), function="mine", keys=(), dtype="float32", shape=(2,))
    model.outputs = {"action": value}
    policy = make_policy(model.build(Sampling("none")), modules={"mine": lambda x: x[:, :2]})
    with pytest.raises(sbformat.UnsupportedError, match="'mine' is a function that modules= supplied"):
        sbformat.export_c(policy, tmp_path / "policy.c")
    assert not list(tmp_path.iterdir())
