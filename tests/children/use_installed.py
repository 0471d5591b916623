"""Use an installed sbformat without any extra: every command, the public names, and the errors that name an extra.

python use_installed.py ARCHIVES, in an empty folder, with the Python that sbformat is installed for. It prints the
versions of Python and numpy; an assertion fails for whatever does not work.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

ARCHIVES = Path(sys.argv[1])
PPO, SAC = str(ARCHIVES / "ppo-cartpole.zip"), str(ARCHIVES / "sac-pendulum.zip")
STATISTICS = str(ARCHIVES / "vecnormalize-pendulum.pkl")
EXTRAS = ("rich", "ml_dtypes", "gymnasium", "onnx", "jinja2", "matplotlib", "torch", "stable_baselines3")

COMMANDS = {
    ("inspect", PPO): 0,
    ("inspect", STATISTICS, "--format", "json"): 0,
    ("validate", PPO): 0,
    ("scan", PPO, SAC): 0,
    ("diff", PPO, PPO): 0,
    ("diff", PPO, SAC): 1,
    ("edit", PPO, "--set", "gamma=0.9", "-o", "edited.zip"): 0,
    ("convert", PPO, "-o", "agent.safetensors"): 0,
    ("convert", "agent.safetensors", "-o", "back.zip"): 0,
    ("extract", PPO, "-o", "weights.npz"): 0,
    ("rebuild", str(ARCHIVES / "ppo-cartpole-1.0.zip"), "-o", "rebuilt.zip"): 0,
    ("bundle", SAC, "--vecnormalize", STATISTICS, "-o", "bundle.zip"): 0,
    ("unbundle", "bundle.zip", "-o", "unbundled.zip", "--vecnormalize", "statistics.pkl"): 0,
    ("predict", PPO, "--observation", "[0, 0, 0, 0]", "--deterministic"): 0,
    ("export", PPO, "-o", "policy.c"): 0,
    ("export", PPO, "-o", "policy.json"): 0,
}
"""The exit status of each command, in an order in which they can be run."""

NEED_EXTRAS = {
    ("evaluate", PPO, "--env", "CartPole-v1"): "sbformat[gym]",
    ("export", PPO, "-o", "policy.onnx"): "sbformat[onnx]",
    ("report", PPO, "-o", "report.html"): "sbformat[report]",
}
"""Commands that need an extra, and what their error names."""

CALLS_THAT_NEED_EXTRAS = {
    "sbformat.sb3.load('PPO', PPO)": "sbformat[sb3]",
    "sbformat.read(PPO).decode('observation_space').to_gymnasium()": "sbformat[gym]",
    "sbformat.reads(bfloat16()).parameters['policy']['weight']": "sbformat[dtypes]",
}


def run(*words: str) -> tuple[int, str]:
    """The exit status of a command, and all that it prints."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "sbformat", *words], capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout + done.stderr


def check_commands() -> None:
    for words, expected in COMMANDS.items():
        status, text = run(*words)
        assert status == expected, (words, status, text)
    listed = run("--help")[1]
    used = {words[0] for words in (*COMMANDS, *NEED_EXTRAS)}
    for command in used:
        assert re.search(rf"\n  {command}[ ,]", listed), command
        assert run(command, "--help")[0] == 0, command
    for words, extra in NEED_EXTRAS.items():
        status, text = run(*words)
        assert status == 2, (words, status, text)
        assert f'pip install "{extra}"' in text, (words, text)
        assert "Traceback" not in text, (words, text)
        assert "internal error" not in text, (words, text)
        assert len(text.strip().splitlines()) == 2, (words, text)  # the error, and its hint


def check_functions() -> None:
    import sbformat

    for name in sbformat.__all__:
        assert getattr(sbformat, name) is not None
    import sbformat.sb3

    names = {"sbformat": sbformat, "PPO": PPO, "bfloat16": make_bfloat16}
    for call, extra in CALLS_THAT_NEED_EXTRAS.items():
        message = "no error"
        try:
            eval(call, names)  # noqa: S307 -- a constant of this file
        except sbformat.UnsupportedError as error:
            message = str(error)
        assert f'pip install "{extra}"' in message, (call, message)


def make_bfloat16() -> bytes:
    """An archive with a tensor of bfloat16, which numpy lacks: made of a .safetensors by hand."""
    import sbformat

    header = json.dumps({"weight": {"dtype": "BF16", "shape": [2], "data_offsets": [0, 4]}}).encode()
    Path("bfloat16.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + bytes(4))
    tensors = sbformat.read("bfloat16.safetensors").state_dict("arrays")
    return sbformat.writes(sbformat.read(PPO).replace(parameters={"policy": tensors}))


def main() -> None:
    for module in EXTRAS:
        assert importlib.util.find_spec(module) is None, f"{module} is installed"
    import sbformat

    installed = Path(sbformat.__file__).parent
    assert installed.parent.name == "site-packages", installed
    assert importlib.metadata.version("sbformat") == sbformat.__version__
    check_commands()
    check_functions()
    numpy = importlib.metadata.version("numpy")
    sys.stdout.write(json.dumps({"python": sys.version.split()[0], "numpy": numpy}))


if __name__ == "__main__":
    main()
