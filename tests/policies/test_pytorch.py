"""Modules of ``export_torch``: the text, whatever texts a policy has, and errors that leave no file.

What they compute is compared in ``tests/interop``, where torch is.
"""

from __future__ import annotations

import ast
import contextlib
import keyword
import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest
from safetensors.numpy import load_file

import sbformat
from sbformat.errors import UnsupportedError
from sbformat.policies.graph import Sampling
from sbformat.policies.operators import OPERATORS
from sbformat.policies.pytorch import expressions
from sbformat.policies.pytorch.export import write_source
from sbformat.policies.pytorch.expressions import (
    escape_text,
    fill,
    make_class_name,
    make_identifier,
    split_brackets,
    write_string,
)
from sbformat.policies.pytorch.modules import Tree
from tests.helpers.bundled import PPO, SAC
from tests.helpers.policy_vectors import load_vector
from tests.nets.agents import make_agent
from tests.policies.run.models import Model, box, dict_space, discrete, gaussian, images, make_policy, multi_discrete
from tests.policies.sampled import KINDS, SOME_VECTORS

if TYPE_CHECKING:
    from pathlib import Path

ATTACKS: Final = (
    'x"); injected(); ("', "x'); injected(); ('", "\n    injected()\n", '"""\ninjected()\n"""', "\\",
    "\u2028injected()", "#\rinjected()", "{injected()}", "%0", "__class__", "train", "forward", "class", "match",
    "self", "torch", "None", "x" * 5000, "", "\x00", "\U0001f600", "\udc80", "ünï", "x y", "x_y", "0", "_modules", "_0",
    "zero_grad", "$title", "x  #? no act", "\r\n#### act\n",
)  # fmt: skip


def export(policy: Any, folder: Path, **options: Any) -> str:
    """Export a policy, and return the source."""
    sbformat.export_torch(policy, folder / "policy.py", overwrite=True, **options)
    return (folder / "policy.py").read_text("ascii")


def find_method(source: str, name: str, of: str = "Policy") -> str:
    """Return the text of a method."""
    classes = {item.name: item for item in ast.parse(source).body if isinstance(item, ast.ClassDef)}
    methods = {item.name: item for item in classes[of].body if isinstance(item, ast.FunctionDef)}
    return str(ast.get_source_segment(source, methods[name]))


def make_tree(model: Model) -> Tree:
    """Return the modules of a model whose weights are tensors of a file."""
    graph = model.build(Sampling("none")).graph
    tensor = next(iter(sbformat.read(PPO).state_dict("policy.pth").tensors().values()))
    weights = {
        name: weight._replace(source=tensor._replace(shape=weight.shape)) for name, weight in graph.weights.items()
    }
    return Tree(graph._replace(weights=weights), model.actions)


# -- the text -----------------------------------------------------------------------------------------


def test_ppo_reads_as_a_person_would_write_it(tmp_path: Path) -> None:
    source = export(PPO, tmp_path)
    assert find_method(source, "__init__", "MlpExtractor") == (
        "def __init__(self) -> None:\n"
        "        super().__init__()\n"
        "        self.policy_net = nn.Sequential(\n"
        "            nn.Linear(4, 8),\n"
        "            nn.Tanh(),\n"
        "            nn.Linear(8, 8),\n"
        "            nn.Tanh(),\n"
        "        )\n"
        "        self.value_net = nn.Sequential(\n"
        "            nn.Linear(4, 8),\n"
        "            nn.Tanh(),\n"
        "            nn.Linear(8, 8),\n"
        "            nn.Tanh(),\n"
        "        )"
    )
    assert find_method(source, "forward") == (
        "def forward(self, observation: Tensor) -> Outputs:\n"
        "        observation = observation.float()  # (batch, 4)\n"
        "        latent_pi, latent_vf = self.mlp_extractor(observation)  # (batch, 8) each\n"
        "        logits = self.action_net(latent_pi)  # (batch, 2)\n"
        "        probabilities = logits.softmax(-1)  # (batch, 2)\n"
        "        value = self.value_net(latent_vf)  # (batch, 1)\n"
        "        return Outputs(logits, probabilities, value)"
    )
    assert "action = outputs.logits.softmax(-1).multinomial(1).squeeze(-1)" in find_method(source, "act")
    assert len(source.splitlines()) < 90


def test_a_squashed_action_is_scaled_after_it_is_drawn(tmp_path: Path) -> None:
    source = export(SAC, tmp_path)
    assert find_method(source, "forward", "Critic").splitlines()[2:] == [
        "        x = torch.cat([observation, scaled_action], -1)  # (batch, 4)",
        "        return torch.cat([self.qf0(x), self.qf1(x)], -1)",
    ]
    assert find_method(source, "act").splitlines()[-8:] == [
        "        if deterministic:",
        "            action = outputs.mean  # (batch, 1)",
        "        else:",
        "            noise = torch.randn_like(outputs.mean)",
        "            action = outputs.mean + outputs.log_std.exp() * noise",
        "        action = (action.tanh() + 1.0) * 0.5 * (self.action_high - self.action_low)",
        "        action = self.action_low + action  # (batch, 1)",
        "        return action.squeeze(0) if is_single else action",
    ]


def test_an_lstm_is_that_of_torch(tmp_path: Path) -> None:
    source = export(load_vector("policy-lstm-two-layers"), tmp_path)
    assert "self.lstm_actor = nn.LSTM(" in find_method(source, "__init__")
    assert "num_layers=2)" in find_method(source, "__init__")
    assert "        keep = (1.0 - episode_start).unsqueeze(-1)  # (batch, 1)\n" in find_method(source, "forward")
    assert "def initial_state(self, n_envs: int = 1) -> State:" in source


def test_the_names_of_the_weights_are_those_of_sb3(tmp_path: Path) -> None:
    for path, own in ((PPO, set()), (SAC, {"action_low", "action_high"})):
        export(path, tmp_path)
        stored = set(load_file(tmp_path / "policy.safetensors"))
        assert stored - own <= set(sbformat.read(path).state_dict("policy.pth").tensors())
        assert own <= stored


@pytest.mark.parametrize("name", ["td3", "dqn", "ars", "crossq", "shared-layers", "old-critics", "lstm-two-layers"])
def test_every_module_has_the_name_of_sb3(name: str, tmp_path: Path) -> None:
    policy = load_vector(f"policy-{name}")
    source = export(policy, tmp_path)
    assert set(load_file(tmp_path / "policy.safetensors")) - {"action_low", "action_high"} <= set(policy.graph.weights)
    assert "module_" not in source


def test_layers_that_actor_and_critic_share_are_called_once(tmp_path: Path) -> None:
    source = export(load_vector("policy-shared-layers"), tmp_path)
    assert find_method(source, "forward", "MlpExtractor").splitlines()[2:] == [
        "        latent = self.shared_net(features)  # (batch, 8)",
        "        latent_pi = self.policy_net(latent)  # (batch, 4)",
        "        latent_vf = self.value_net(latent)  # (batch, 5)",
        "        return latent_pi, latent_vf",
    ]


def test_a_squashed_network_is_a_chain(tmp_path: Path) -> None:
    source = export(load_vector("policy-td3"), tmp_path)
    assert "            nn.Linear(8, 2),\n            nn.Tanh(),\n        )" in find_method(source, "__init__", "Actor")
    assert find_method(source, "forward", "Actor").endswith("return self.mu(observation)")


def test_numbered_modules_that_are_no_chain_are_a_list() -> None:
    model = Model(box(3), box(2))
    value = model.features()
    heads = [model.linear(value, 2, f"net.heads.{at}") for at in (0, 2)]
    value = model.builder.add("Add", *heads, module="net")
    model.outputs = {"action": value, "mean": value}
    tree = make_tree(model)
    assert list(tree.stored) == ["net.heads.0.weight", "net.heads.2.weight"]
    source = write_source(tree, {"sbformat_version": "0"}, "policy")
    assert "self.heads = nn.ModuleList(" in source
    assert "return self.heads[0](x) + self.heads[2](x)" in source


@pytest.fixture(scope="module")
def vectors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sources of some conformance vectors."""
    folder = tmp_path_factory.mktemp("vectors")
    for name in {*SOME_VECTORS, *KINDS}:
        policy = load_vector(name)
        if any(node.op == "Call" for node in policy.graph.nodes):
            continue
        sbformat.export_torch(policy, folder / f"{re.sub('[-.]', '_', name)}.py")
    letters = [letter * count for letter in ("k", "\u043a") for count in (2, 8, 24, 30, 60, 90)]
    for name, keys in (("many", letters), ("long", letters[5:6])):
        for part in (box(2), images(1, 36, 36), discrete(3)):
            agent = make_agent("MultiInputActorCriticPolicy", dict_space(**dict.fromkeys(keys, part)), box(2))
            sbformat.export_torch(agent, folder / f"keys_{name}_{type(part).__name__}_{len(part.shape)}.py")
    return folder


def test_every_source_is_python_that_imports_torch_and_safetensors_only(vectors: Path) -> None:
    allowed = {"math", "typing", "torch", "torch.nn.functional", "safetensors.torch"}
    sources = list(vectors.glob("*.py"))
    assert len(sources) > 30
    for path in sources:
        tree = ast.parse(path.read_bytes(), path.name)
        compile(tree, path.name, "exec")
        imported = {name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names}
        imported |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        assert imported <= allowed, path.name


def test_ruff_leaves_every_source_unchanged(vectors: Path) -> None:
    pytest.importorskip("ruff")
    for command in (["format", "--check"], ["check", "--no-cache", "--extend-select=I,W"]):
        run = subprocess.run(
            [sys.executable, "-m", "ruff", *command, "--isolated", str(vectors)],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert run.returncode == 0, run.stdout[-3000:] + run.stderr[-1000:]


# -- options ------------------------------------------------------------------------------------------


def test_only_what_is_requested_is_written(tmp_path: Path) -> None:
    assert "value_net" not in export(PPO, tmp_path, outputs=["action"])
    assert "def act(" not in export(PPO, tmp_path, outputs=["value"])
    assert "action_low" not in export(SAC, tmp_path, raw=True)


def test_the_bounds_of_a_discrete_draw_are_those_of_the_space(tmp_path: Path) -> None:
    agent = make_agent("dqn.DQNPolicy", actions=discrete(3, start=5), data={"exploration_rate": 0.25})
    source = export(agent, tmp_path)
    assert "random = torch.randint_like(action, 5, 8)\n" in source
    assert "is_random = torch.rand(1, device=action.device) < 0.25\n" in source


def test_a_rate_is_a_probability(tmp_path: Path) -> None:
    for rate, written in ((float("inf"), "1.0"), (7, "1.0"), (5e-324, "5e-324")):
        agent = make_agent("dqn.DQNPolicy", actions=discrete(3), data={"exploration_rate": rate})
        assert f"is_random = torch.rand(1, device=action.device) < {written}\n" in export(agent, tmp_path)


def test_the_example_names_the_file(tmp_path: Path) -> None:
    for stem in ("policy", "caf\u00e9" + "x" * 80, "it's"):
        with contextlib.nullcontext() if stem.isidentifier() else pytest.warns(UserWarning, match="cannot be imported"):
            sbformat.export_torch(PPO, tmp_path / f"{stem}.py")
        text = ast.get_docstring(ast.parse((tmp_path / f"{stem}.py").read_text("ascii")))
        assert f'policy = Policy.load("{stem}.safetensors")\n' in str(text)


def test_errors_leave_no_file(tmp_path: Path) -> None:
    for path, options in (
        ("p.txt", {}),
        ("torch.py", {}),
        ("p.py", {"outputs": ["nothing"]}),
        ("p.py", {"outputs": []}),
    ):
        with pytest.raises(ValueError, match="expected"):
            sbformat.export_torch(PPO, tmp_path / path, **options)
    assert not list(tmp_path.iterdir())
    (tmp_path / "p.safetensors").write_text("mine")
    with pytest.raises(FileExistsError):
        sbformat.export_torch(PPO, tmp_path / "p.py")
    assert [path.name for path in tmp_path.iterdir()] == ["p.safetensors"]


def test_functions_of_the_caller_are_refused(tmp_path: Path) -> None:
    policy = sbformat.load_policy(PPO, modules={"mlp_extractor.policy_net": lambda features: features})
    with pytest.raises(UnsupportedError, match=r"mlp_extractor\.policy_net"):
        sbformat.export_torch(policy, tmp_path / "p.py")


# -- operators ----------------------------------------------------------------------------------------


def test_every_operator_has_a_column() -> None:
    for op, row in OPERATORS.items():
        if row.torch.startswith("write_"):
            assert callable(getattr(expressions, row.torch)), op
        else:
            assert row.torch or op == "Call", op
            ast.parse(row.torch)


# -- hostile texts ------------------------------------------------------------------------------------


def assert_clean(source: str) -> None:
    """Nothing of a key is code: only strings and comments have its text."""
    tree = ast.parse(source)
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    names |= {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    names |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    assert "injected" not in names
    assert all(name.isascii() and len(name) < 40 for name in names)


def test_keys_of_a_dict_inject_nothing(tmp_path: Path) -> None:
    policy = make_policy(gaussian(dict_space(**{key: box(2) for key in ATTACKS}), box(3)))
    source = export(policy, tmp_path)
    assert_clean(source)
    strings = {node.value for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Constant)}
    assert set(ATTACKS) <= strings


@pytest.mark.parametrize("part", [box(2), images(1, 36, 36), discrete(3), multi_discrete(2, 3)])
def test_keys_without_a_letter_are_read_from_the_observation(part: Any, tmp_path: Path) -> None:
    keys = ["\u043a\u0430\u0440\u0442\u0430", " ", "\u0446\u0435\u043b\u044c", "k" * 200, "\xe9" * 30]
    agent = make_agent("MultiInputActorCriticPolicy", dict_space(**dict.fromkeys(keys, part)), box(2))
    forward = ast.parse(find_method(export(agent, tmp_path), "forward"))
    assigned = {node.id for node in ast.walk(forward) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    parts = [node for node in ast.walk(forward) if isinstance(node, ast.Subscript)]
    read = {ast.literal_eval(node.slice) for node in parts if ast.unparse(node.value) == "observation"}
    assert "observation" not in assigned
    assert set(keys) == read


def test_modules_of_a_dict_inject_nothing(tmp_path: Path) -> None:
    """Keys of images are names of modules, too."""
    keys = [key for key in ATTACKS if 0 < len(key) < 100 and "." not in key]
    agent = make_agent("MultiInputActorCriticPolicy", dict_space(**{key: images(1, 36, 36) for key in keys}), box(2))
    source = export(agent, tmp_path)
    assert_clean(source)
    assert len(re.findall(r" = NatureCNN\d*\(\)", source)) == len(keys)


def test_names_of_tensors_and_metadata_inject_nothing() -> None:
    model = Model(box(3), box(2))
    value = model.features()
    for at, text in enumerate(ATTACKS):
        value = model.linear(value, 2, f"{text}{at}")
    model.outputs = {"action": value}
    tree = make_tree(model)
    metadata = {"sbformat_version": ATTACKS[0], "algorithm": ATTACKS[3], "sha256": ATTACKS[2]}
    for stem in ATTACKS[:4]:
        assert_clean(write_source(tree, metadata, stem))


def test_slashes_are_no_modules_and_too_many_of_them_are_refused(tmp_path: Path) -> None:
    spaces = dict_space(**{"a/" * 450 + "b": images(1, 36, 36)})
    assert_clean(export(make_agent("MultiInputActorCriticPolicy", spaces, box(2)), tmp_path))
    model = Model(box(3), box(2))
    model.outputs = {"action": model.linear(model.features(), 2, "a." * 450 + "b")}
    with pytest.raises(UnsupportedError, match=r"expected at most 64 nested modules, got 451: .*a\.a\.a"):
        make_tree(model)


@pytest.mark.parametrize("text", ATTACKS)
def test_identifiers_are_letters_digits_and_underscores(text: str) -> None:
    made = make_identifier(text, "module")
    assert made.isidentifier()
    assert made.isascii()
    assert not keyword.iskeyword(made)
    assert made not in ("train", "forward", "self", "zero_grad", "_modules", "")
    assert make_identifier(text, "module", [made]) != made
    assert make_class_name(made, ["Module"]).isidentifier()
    assert make_class_name(made, []) not in ("None", "Tensor", "Policy")
    assert ast.literal_eval(write_string(text)) == text
    assert write_string(text).isascii()
    assert '"' not in escape_text(text)
    assert escape_text(text).isprintable()


def test_expressions_have_the_parentheses_that_they_need() -> None:
    assert fill("x * y", x="a + b", y=[1e8, "c"]) == "(a + b) * [1e8, c]"
    assert fill("f(x, *rest)", x="-a", rest=[2, write_string("'\"\\")]) == 'f(-a, 2, "\'\\x22\\\\")'
    assert split_brackets("a + f(b)") == ("(", ["a + f(b)"], ")")
    assert split_brackets("(a + b)[c, 0:2]") == ("(a + b)[", ["c, 0:2"], "]")


def test_numbers_that_python_has_no_literal_for() -> None:
    for number in (np.inf, -np.inf, np.nan, -1e8, 0.5, -0.0, 3, 1e-300):
        written = expressions.write_literal(number)
        assert np.array_equal(float(written.replace("math.", "")), number, equal_nan=True), written
        assert expressions.is_number(written)
