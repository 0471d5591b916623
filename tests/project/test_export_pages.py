"""The pages of docs/export are true: their programs print what the page shows and what ``Policy`` computes.

``nox -s export_pages`` runs the programs of all pages.
"""

from __future__ import annotations

import re
import shlex
import shutil
import socket
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from functools import cache
from html import unescape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest

import sbformat
from sbformat.policies.operators import OPERATORS
from tests.children import run_commands
from tests.helpers.bundled import ARCHIVES, PPO, ROOT, SAC
from tests.helpers.graph_policy import GraphPolicy
from tests.helpers.pages import (
    INSTALLERS,
    Block,
    Shell,
    assert_same_text,
    find_java,
    list_commands,
    list_programs,
    read_page,
)
from tests.helpers.policy_vectors import assert_predictions, load_vector
from tests.policies.sampled import MARKED_VECTORS

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGES: Final = {path.name: path for path in sorted((ROOT / "docs" / "export").glob("*.md"))}
BROWSERS: Final = ("chromium", "chromium-browser", "google-chrome")
SERVER: Final = "python -m http.server --bind 127.0.0.1 8000"
TOOLS: Final = {"gcc", "g++", "node", "java", "mcs", "mono", "godot3-server"}
"""Programs without which a page cannot be tested."""
JNA: Final = Path("/usr/share/java/jna.jar")
"""What Debian's package libjna-java installs."""


@cache
def predict_cartpole() -> str:
    policy = sbformat.load_policy(PPO)
    observations = [[0.1, -0.2, 0.03, 0.4], [-0.5, 1.0, -0.1, -0.7], [0.02, 0.3, 0.15, -0.2]]
    found = policy.outputs(np.array(observations, np.float32))
    actions = policy.predict(np.array(observations, np.float32), deterministic=True)[0]
    return "".join(f"action {action}, value {value[0]:.6f}\n" for action, value in zip(actions, found["value"]))


@cache
def predict_pendulum() -> str:
    policy = sbformat.load_policy(SAC, vecnormalize=ARCHIVES / "vecnormalize-pendulum.pkl")
    actions, _ = policy.predict(np.array([[1, 0, 0.5], [-1, 0.1, 2]], np.float32), deterministic=True)
    return "".join(f"action {action[0]:.6f}\n" for action in actions)


@cache
def predict_recurrent() -> str:
    policy = load_vector("policy-lstm")
    observations = [[0.5, -1, 0, 1], [0.25, 1, -0.5, 0], [-1.5, 0.5, 1, 0.75], [0, 0, 1, -1], [1.5, 0, 0, -1]]
    state, lines = None, ""
    for row, start in zip(observations, [True, False, False, True, False]):
        observation, is_start = np.array(row, np.float32), np.array([start])
        logits = policy.outputs(observation, state, is_start)["logits"]
        action, state = policy.predict(observation, state, is_start, deterministic=True)
        lines += f"action {action}, logits {' '.join(f'{number:.6f}' for number in logits)}\n"
    return lines


def predict_all() -> str:
    """What the programs for game engines print: one agent of each kind."""
    return predict_cartpole() + predict_pendulum() + predict_recurrent()


@cache
def predict_images() -> str:
    policy = load_vector("policy-cnn")
    images = np.stack([np.zeros(36 * 36), np.arange(36 * 36) % 256]).astype(np.uint8).reshape(2, 1, 36, 36)
    actions, logits = policy.predict(images, deterministic=True)[0], policy.outputs(images)["logits"]
    return "".join(
        f"action {action}, logits {' '.join(f'{number:.6f}' for number in row)}\n"
        for action, row in zip(actions, logits)
    )


@cache
def predict_draws() -> str:
    found = sbformat.load_policy(PPO).outputs(np.array([0.1, -0.2, 0.03, 0.4], np.float32))
    return f"action 1 in {found['probabilities'][1]:.1f} of the draws\n"


@cache
def predict_parts() -> str:
    policy, maskable = load_vector("policy-ppo-observes-dict"), load_vector("policy-maskable")
    found = policy.outputs({item.key: np.zeros(item.shape, item.dtype) for item in policy.graph.inputs})
    lines = f"action {found['action']}, value {found['value'][0]:.6f}\n"
    for mask in ([True, True, True], [True, False, False]):
        lines += f"action {maskable.predict(np.zeros(4), action_masks=np.array(mask), deterministic=True)[0]}\n"
    return lines


@cache
def describe_example(name: str, *outputs: str) -> str:
    """What ``show.py`` of README.md prints of an agent of the conformance vectors."""
    policy = load_vector(name)
    inputs = {item.key or item.name: item for item in policy.graph.inputs}
    lines = [f"input {name} {item.dtype} {list(item.shape)}\n" for name, item in inputs.items()]
    zeros = {key: np.zeros((1, *item.shape), item.dtype) for key, item in inputs.items()}
    found = policy.outputs(zeros.get("observation", zeros))
    for output in outputs:
        array = found[output]
        lines.append(f"output {output} {array.dtype} {list(array.shape[1:])} = {array[0].tolist()}\n")
    return "".join(lines)


PROGRAMS: Final = {
    "python cartpole.py": predict_cartpole,
    "python pendulum.py": predict_pendulum,
    "python recurrent.py": predict_recurrent,
    "python image.py": predict_images,
    "python cartpole_torch.py": predict_cartpole,
    "python imitate.py": lambda: "agrees with the rule: True\n",
    "python critic.py": lambda: "as in forward: True\n",
    "python back.py": lambda: "the agent acts alike: True\n",
    "python scripted.py": lambda: f"actions {re.findall('action ([0-9]+)', predict_cartpole())}\n".replace("'", ""),
    "python show.py dict.onnx": lambda: describe_example("policy-ppo-observes-dict", "action", "value"),
    "python show.py maskable.onnx": lambda: describe_example("policy-maskable", "action"),
    "python show.py image.onnx": lambda: describe_example("policy-cnn", "action"),
    "node cartpole.mjs": predict_cartpole,
    "node sampled.mjs": predict_draws,
    "node pendulum.mjs": predict_pendulum,
    "node recurrent.mjs": predict_recurrent,
    "node parts.mjs": predict_parts,
    "./main": predict_cartpole,
    "./control": predict_pendulum,
    "./loop": predict_recurrent,
    "./cartpole": predict_cartpole,
    "./recurrent": predict_recurrent,
    "java --enable-native-access=ALL-UNNAMED Cartpole.java": predict_cartpole,
    "java --enable-native-access=ALL-UNNAMED Recurrent.java": predict_recurrent,
    "java -cp /usr/share/java/jna.jar -Djna.library.path=. Jna.java": lambda: predict_cartpole() + predict_recurrent(),
    "mono play.exe": predict_all,
    "godot3-server -s play.gd | grep action": predict_all,
}
"""What ``Policy`` computes for each program of the pages: the last lines that it prints."""
OTHER_COMMANDS: Final = (
    "sbformat", "gcc", "g++", "cp", "grep", "echo", "mcs", "python conformance/run.py --write ", "python -m onnx2tf ",
    "python calibrate.py", "python quantized.py",
)  # fmt: skip
"""Commands that compute no actions, the demo of C, whose format is its own, and integers that are near an action."""


def require_tools(blocks: list[Block]) -> None:
    """Skip a test without the programs that a page runs."""
    if sys.platform == "win32":
        pytest.skip("the commands are those of a POSIX shell")
    programs = list_programs(blocks)
    if any(".onnx" in block.text for block in blocks):
        pytest.importorskip("onnx")
        if any("import onnxruntime\n" in block.text for block in blocks):
            pytest.importorskip("onnxruntime")
        if any("from ai_edge_litert" in block.text for block in blocks):
            pytest.importorskip("ai_edge_litert")
            pytest.importorskip("onnx2tf")
    if any(str(JNA) in block.text for block in blocks) and not JNA.exists():
        pytest.skip(f"{JNA} is not installed")
    if any("import torch\n" in block.text for block in blocks):
        pytest.importorskip("torch")
    for name in sorted(programs & TOOLS):
        if (find_java() if name == "java" else shutil.which(name)) is None:
            pytest.skip(f"{name} is not installed")


def test_there_is_a_page_for_every_target() -> None:
    assert set(PAGES) == {
        "README.md", "browser.md", "c.md", "cpp.md", "game-engines.md", "java.md", "javascript.md", "other.md",
        "python.md", "pytorch.md", "tflite.md",
    }  # fmt: skip
    overview = PAGES["README.md"].read_text("utf-8")
    assert [name for name in PAGES if name != "README.md" and f"]({name})" not in overview] == []


@pytest.mark.parametrize(
    "name", [name if name == "c.md" else pytest.param(name, marks=pytest.mark.docs) for name in PAGES]
)
def test_the_programs_print_what_the_page_shows_and_policy_computes(name: str, tmp_path: Path) -> None:
    blocks = read_page(PAGES[name])
    require_tools(blocks)
    shell = Shell(tmp_path)
    for block in blocks:
        if block.name is not None:
            shell.write(block)
        for command in list_commands(block) if block.language == "console" else ():
            if command.line.split()[0] in INSTALLERS or command.line == SERVER:
                continue
            assert_same_text(run_command(shell, command.line), command.shown, command.line)
            if command.line in PROGRAMS:
                assert_last_lines(command.shown, PROGRAMS[command.line](), command.line)
            else:
                assert command.line.startswith(OTHER_COMMANDS), command.line


def run_command(shell: Shell, line: str) -> str:
    """Run a command; an export, in this process."""
    if not re.fullmatch(r"sbformat export [^|&>]+", line):
        return shell.run(line)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(shell.folder)
        status, printed, errors = run_commands.run(shlex.split(line)[1:])
    assert status == 0, errors
    return printed


def assert_last_lines(shown: str, expected: str, what: str) -> None:
    """Compare the end of what a page shows."""
    count = len(expected.splitlines())
    assert_same_text("\n".join(shown.splitlines()[-count:]), expected, what)


def test_the_demo_of_c_prints_what_policy_computes() -> None:
    (shown,) = (
        command.shown
        for block in read_page(PAGES["c.md"])
        for command in (list_commands(block) if block.language == "console" else ())
        if command.line.endswith("| ./demo")
    )
    assert_same_text(shown, predict_cartpole().replace("action ", "").replace(", value", ""), "the demo")


@pytest.mark.docs
def test_the_page_for_browsers_shows_the_actions(tmp_path: Path) -> None:
    blocks = read_page(PAGES["browser.md"])
    require_tools(blocks)
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        pytest.skip("no browser is installed")
    shell = Shell(tmp_path)
    commands = [command.line for block in blocks if block.language == "console" for command in list_commands(block)]
    assert SERVER in commands
    for line in commands:
        if line.split()[0] not in INSTALLERS and line != SERVER:
            shell.run(line)
    for block in blocks:
        if block.name is not None:
            shell.write(block)
    with serve(shell) as address:
        options = ["--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / '.browser'}"]
        run = subprocess.run(
            [browser, *options, "--virtual-time-budget=20000", "--dump-dom", address],
            capture_output=True, text=True, check=True, timeout=500,
        )  # fmt: skip
    found = re.search(r'<pre id="log">(.*?)</pre>', run.stdout, re.DOTALL)
    assert found is not None, run.stdout + run.stderr
    (shown,) = (block.text for block in blocks if block.language == "text")
    assert_same_text(unescape(found[1]), shown, "the page")
    assert_same_text(shown, predict_cartpole(), "browser.md")


@contextmanager
def serve(shell: Shell) -> Iterator[str]:
    """Run the server of the page at a free port; yield its address."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    process = subprocess.Popen(
        [sys.executable, *SERVER.replace("8000", str(port)).split()[1:]], cwd=shell.folder, stderr=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        for _ in range(200):
            with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                break
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port}/"
    finally:
        process.terminate()
        process.wait()


@pytest.mark.parametrize("name", MARKED_VECTORS)
def test_the_interpreter_of_a_page_computes_what_policy_computes(tmp_path: Path, name: str) -> None:
    policy = load_vector(name)
    report = sbformat.export_graph(policy, tmp_path / "policy.json")
    assert_predictions(name, GraphPolicy(policy, load_interpreter()(report.files[0].path), report))


def test_the_interpreter_of_a_page_refuses_weights_of_another_export(tmp_path: Path) -> None:
    """As a process leaves them that is killed after it replaced one of the files."""
    path, weights = tmp_path / "policy.json", tmp_path / "policy.safetensors"
    sbformat.export_graph(ARCHIVES / "ppo-cartpole.zip", path)
    load_interpreter()(path)
    before = path.read_bytes()
    sbformat.export_graph(ARCHIVES / "ppo-cartpole-1.0.zip", path, overwrite=True)
    assert path.read_bytes() != before
    path.write_bytes(before)
    with pytest.raises(ValueError, match=f"{weights} is not the file that the graph was written with"):
        load_interpreter()(path)


@cache
def load_interpreter() -> Any:
    (block,) = (block for block in read_page(PAGES["other.md"]) if block.name == "graph_policy.py")
    scope: dict[str, Any] = {}
    exec(block.text, scope)  # noqa: S102 -- the page's own code
    return scope["Policy"]


def test_the_interpreter_of_a_page_has_every_operator() -> None:
    table = load_interpreter().run.__globals__
    assert {*table["ELEMENTWISE"], *table["OTHERS"]} == set(OPERATORS) - {"Call"}
    assert set(table["ELEMENTWISE"]) == {op for op, row in OPERATORS.items() if row.is_elementwise}
