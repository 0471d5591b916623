"""``export_javascript``: the files that it writes; node runs them in the other modules."""

from __future__ import annotations

import base64
import json
import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest

import sbformat
from sbformat.limits import Budget, Limits
from sbformat.policies.export.files import Port
from sbformat.policies.graph import Sampling
from sbformat.policies.javascript.export import make_program, read_runtime, write_declarations, write_module
from sbformat.pth.values import tensor_info
from tests.helpers.bundled import ARCHIVES, PPO, ROOT, SAC
from tests.policies.run.models import (
    Model,
    box,
    categorical,
    dict_space,
    discrete,
    gaussian,
    multi_discrete,
    numbers,
)
from tests.policies.run.test_policy import epsilon_greedy, recurrent

if TYPE_CHECKING:
    from pathlib import Path

HOSTILE: Final = ["__proto__", "constructor", "*/`${alert(1)}`//", "</script><script>", "\u2028\n'\"\\", "\ud800", ""]


@pytest.mark.parametrize(("suffix", "beside"), [(".js", ".d.ts"), (".mjs", ".d.mts")])
def test_two_files_are_written(tmp_path: Path, suffix: str, beside: str) -> None:
    path = tmp_path / f"policy{suffix}"
    report = sbformat.export_javascript(PPO, path)
    expected = [str(path), str(path.with_suffix(beside))]
    assert (report.format, [file.path for file in report.files]) == ("javascript", expected)
    assert report.inputs == (Port("observation", "observation", "float32", (4,), "observation"),)
    described = [(port.name, port.dtype, port.shape) for port in report.outputs]
    assert described[::3] == [("action", "int64", ()), ("value", "float32", (1,))]
    text = path.read_text("ascii")
    assert text.startswith("// PPO policy of Stable-Baselines3 2.9.2, from a file with the SHA-256\n")
    with pytest.raises(FileExistsError):
        sbformat.export_javascript(PPO, path)
    sbformat.export_javascript(PPO, path, overwrite=True)
    assert path.read_text("ascii") == text


def test_outputs_are_chosen(tmp_path: Path) -> None:
    report = sbformat.export_javascript(SAC, tmp_path / "a.js", outputs=["mean"])
    assert [port.name for port in report.outputs] == ["mean"]
    everything = sbformat.export_javascript(SAC, tmp_path / "b.js")
    assert report.nodes < everything.nodes
    raw = sbformat.export_javascript(SAC, tmp_path / "c.js", outputs=["action"], raw=True)
    assert raw.nodes < sbformat.export_javascript(SAC, tmp_path / "d.js", outputs=["action"]).nodes
    with pytest.raises(ValueError, match="expected outputs among 'action', 'mean'"):
        sbformat.export_javascript(SAC, tmp_path / "e.js", outputs=["logits"])
    with pytest.raises(ValueError, match=r"expected a path that ends in \.js or \.mjs, got 'e\.ts'"):
        sbformat.export_javascript(SAC, "e.ts")
    with pytest.raises(ValueError, match=r"got 'e\.MJS': node imports no upper-case ending"):
        sbformat.export_javascript(SAC, "e.MJS")


def test_a_program_is_made_without_numpy() -> None:
    """As in Pyodide without packages."""
    code = """\
import sys
sys.modules["numpy"] = None
from sbformat.policies.javascript.export import make_program, write_declarations, write_module
from sbformat.policies.loading import load_model
for path in sys.argv[1:]:
    program = make_program(load_model(path))
    print(len(program["nodes"]), len(write_module(program)) > 9999, len(write_declarations(program)) > 999)
"""
    paths = [str(path) for path in (PPO, SAC, ARCHIVES / "ppo-cartpole-1.0.zip")]
    found = subprocess.run([sys.executable, "-c", code, *paths], cwd=ROOT, capture_output=True, text=True, check=False)
    counts = [len(make_program(sbformat.load_policy(path).model)["nodes"]) for path in paths]
    assert (found.stderr, found.stdout.splitlines()) == ("", [f"{count} True True" for count in counts])


def list_keys(value: Any) -> set[str]:
    """Return the keys of all objects within plain JSON."""
    if isinstance(value, dict):
        return set(value).union(*map(list_keys, value.values()))
    return set().union(*map(list_keys, value)) if isinstance(value, list) else set()


def test_texts_of_a_file_are_only_strings() -> None:
    model = gaussian(dict_space(**{key: box(1) for key in HOSTILE}), box(2))._replace(algorithm="`\n*/</script>\u2028")
    program = make_program(model)
    assert list_keys(program).isdisjoint(HOSTILE)
    assert [row["key"] for row in program["inputs"]] == HOSTILE
    text, declarations = write_module(program), write_declarations(program)
    for written in (text, declarations):
        assert written.isascii()
        assert "</script" not in written
        assert "\r" not in written
    ours, comment = read_runtime(), text[: text.index("\n\n// Runs")]
    assert all(line.startswith("// ") for line in comment.splitlines())
    assert ours.replace("export function", "function") in text
    data = text[text.index("const policy = createPolicy(") :]
    literal = re.search(r"`[\sA-Za-z0-9+/=]*`", data)
    assert literal is not None
    assert "`" not in re.sub(r'"(?:[^"\\]|\\.)*"', "", data.replace(literal[0], ""))
    members = [line for line in declarations.splitlines() if line.endswith(": Numbers;")]
    assert [json.loads(line.removesuffix(": Numbers;")) for line in members] == HOSTILE


def test_the_program_says_what_arguments_are() -> None:
    program = make_program(categorical(box(4), discrete(3), masked=True))
    assert [(row["role"], row["dtype"], row["shape"], row["default"]) for row in program["inputs"]] == [
        ("observation", "float32", [4], None), ("action_masks", "bool", [3], 1.0),
    ]  # fmt: skip
    program = make_program(recurrent(critic=True))
    assert [row["name"] for row in program["states"]] == ["hidden.1", "critic_cell.1"]
    declarations = write_declarations(program)
    assert 'State = { "hidden.1": Float32Array; "critic_cell.1": Float32Array };' in declarations
    assert 'state?: { "hidden.1": Items; "critic_cell.1": Items } | null | undefined;' in declarations
    assert "mask?: null | undefined;" in declarations
    assert make_program(gaussian(discrete(6), box(2)))["inputs"][0]["choices"] == [6]
    assert make_program(epsilon_greedy(0.25, start=-2))["sampling"] == {
        "kind": "epsilon_greedy", "replaces": None, "parameters": {}, "sizes": [], "rate": 0.25, "low": -2, "high": 3,
        "checked": False,
    }  # fmt: skip
    with pytest.raises(sbformat.UnsupportedError, match="'the action space': expected integers up to 2\\*\\*53, got"):
        make_program(epsilon_greedy(0.25, start=2**60))


def test_each_part_of_a_dict_has_its_space() -> None:
    """Also where the metadata write two keys alike."""
    keys = ["\u2028", "\\u2028", "k" * 5000 + "1", "k" * 5000 + "2"]
    space = dict_space(**{key: box(2, low=-at - 1, high=at) for at, key in enumerate(keys)})
    program = make_program(gaussian(space, box(1)))
    assert [row["space"]["high"]["items"] for row in program["inputs"]] == [[at, at] for at in range(len(keys))]
    masked = make_program(categorical(box(4), multi_discrete(2, 3), masked=True))["inputs"][1]
    assert (masked["space"], masked["choices"]) == (None, [2, 3])


def test_the_comment_names_arguments_as_predict_does() -> None:
    programs = [
        recurrent(critic=True),
        categorical(box(4), discrete(3), masked=True),
        gaussian(dict_space(a=box(2)), box(1)),
    ]
    lines = {line for model in programs for line in write_module(make_program(model)).splitlines()}
    assert {
        "// input state.hidden.1: float32, shape (3,)",
        "// input episodeStart: float32, shape ()",
        "// input mask: bool, shape (3,)",
        "// input 'a' of the observation: float32, shape (2,)",
        "// output action: int64, shape ()",
        "// output state.hidden.1: float32, shape (3,)",
    } <= lines


def test_the_data_is_in_literals_of_a_limited_length() -> None:
    program = make_program(categorical(box(4), discrete(3)))
    data = "".join(chr(65 + at % 23) for at in range(2**21))
    text = write_module({**program, "data": data})
    literals = re.findall(r"`([\sA-W]*)`", text[text.index("const policy = createPolicy(") :])
    assert "".join("".join(literals).split()) == data
    assert [len(literal) < 600_000 for literal in literals] == [True] * 5


def read_tensor(array: np.ndarray, **changes: Any) -> np.ndarray:
    """Return the items that a program has of a tensor of a file."""
    info = tensor_info(array.dtype.str, array.shape, "C", lambda _: memoryview(array.tobytes()))._replace(**changes)
    model = Model(box(info.shape[1]), box(info.shape[0]))
    weight = model.builder.weight("w", info, "test")
    model.outputs = {"action": model.builder.add("Gemm", model.features(), weight, transB=True)}
    program = make_program(model.build(Sampling("none")))
    assert [row["shape"] for row in program["weights"]] == [list(info.shape)]
    return np.frombuffer(base64.b64decode(program["data"]), "<f4").reshape(info.shape)


def test_tensors_are_read_as_numpy_does() -> None:
    array = numbers(2, 3)
    assert (read_tensor(array) == array).all()
    assert (read_tensor(array, shape=(3, 2), strides=(1, 3)) == array.T).all()
    assert (read_tensor(array, neg=True) == -array).all()
    halves = (array.view(np.uint32) >> 16).astype(np.uint16)
    expected = (halves.astype(np.uint32) << 16).view(np.float32)
    assert (read_tensor(halves, dtype="bfloat16") == expected).all()
    assert (read_tensor(halves, dtype="bfloat16", neg=True) == -expected).all()


def test_copies_of_weights_count() -> None:
    model = sbformat.load_policy(PPO).model
    with pytest.raises(sbformat.LimitError, match="member_bytes"):
        make_program(model, budget=Budget(Limits(member_bytes=100)))
