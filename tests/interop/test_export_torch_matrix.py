"""``sbformat.export_torch`` beside Stable-Baselines3: exported modules predict what every agent of the matrix predicts.

Some agents are exported; with the environment variable ``SBFORMAT_ALL`` all. One of each policy and algorithm is also
compiled by ``torch.jit.script``.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("stable_baselines3")
pytest.importorskip("sb3_contrib")
pytest.importorskip("safetensors")

import torch

import sbformat
from tests.helpers.policy_vectors import VECTORS, assert_predictions, load_vector
from tests.helpers.sampling import sample
from tests.helpers.shared_files import summarize_counts
from tests.helpers.torch_policy import TorchPolicy
from tests.interop.export_oracle import check_action_alone, check_export, check_normalized, check_recurrence
from tests.interop.policy_agents import build_agent, draw_observations, stack_observations
from tests.interop.policy_oracle import COUNT, RealPolicy, draw_masks
from tests.interop.policy_setups import NORMALIZED, SETUPS
from tests.interop.test_policies_matrix import MASKED, each
from tests.nets.agents import make_agent
from tests.policies.run.models import box, dict_space, discrete, images, multi_discrete

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.filterwarnings("ignore")]

COUNTED: Final[Counter[str]] = Counter()
_summary = summarize_counts(COUNTED, "test_export_torch_matrix.py:")
EXPORTED: Final = sample(SETUPS, 4, name=lambda setup: setup.id, group=lambda setup: setup.policy)
BY_NAME: Final = {setup.id: setup for setup in SETUPS}
ONE_OF_EACH: Final = list({(setup.algorithm, setup.policy): setup for setup in reversed(SETUPS)}.values())


def export(policy: Any, path: Path, outputs: Any = None, transform: Any = None) -> TorchPolicy:
    report = sbformat.export_torch(policy, path, outputs=outputs, overwrite=True)
    return TorchPolicy(policy, path, report, transform)


def compare(real: RealPolicy, policy: Any, exported: TorchPolicy) -> None:
    COUNTED["observations"] += check_export(real, policy, exported)
    if real.is_recurrent:
        COUNTED["sequences of an LSTM"] += check_recurrence(real, policy, exported)


@pytest.mark.parametrize("setup", each(EXPORTED))
def test_a_module_acts_as_in_sb3(setup: Any, tmp_path: Path) -> None:
    agent = build_agent(setup)
    real, policy = RealPolicy(agent.model), sbformat.load_policy(agent.raw)
    exported = export(policy, tmp_path / "policy.py")
    compare(real, policy, exported)
    check_gradients(real.observation_space, exported)
    check_action_alone(real, export(policy, tmp_path / "action.py", ["action"]))
    COUNTED["agents"] += 1


def check_gradients(space: Any, exported: TorchPolicy) -> None:
    """Every parameter has a gradient of the sum of all outputs."""
    observations = stack_observations(draw_observations(space, 3))
    inputs, _, _ = exported._read(observations, None, None, None)
    outputs = exported.module(*exported.arguments(inputs))
    tensors = [item for item in outputs if isinstance(item, torch.Tensor) and item.requires_grad]
    sum(tensor.sum() for tensor in tensors).backward()
    assert [name for name, parameter in exported.module.named_parameters() if parameter.grad is None] == []
    COUNTED["parameters with gradients"] += len(list(exported.module.parameters()))


@pytest.mark.parametrize("setup", each(ONE_OF_EACH))
def test_torch_script_compiles_it(setup: Any, tmp_path: Path) -> None:
    agent = build_agent(setup)
    real, policy = RealPolicy(agent.model), sbformat.load_policy(agent.raw)
    compare(real, policy, export(policy, tmp_path / "policy.py", transform=torch.jit.script))
    COUNTED["agents in TorchScript"] += 1


@pytest.mark.parametrize("name", ["PPO-Mlp-to_multi_discrete", "SAC-Mlp-sde", "RecurrentPPO-MlpLstm-layers"])
def test_torch_compile_takes_it(name: str, tmp_path: Path) -> None:
    agent = build_agent(BY_NAME[name])
    real, policy = RealPolicy(agent.model), sbformat.load_policy(agent.raw)

    def transform(module: Any) -> Any:
        is_whole = not real.is_recurrent  # torch leaves nn.LSTM out
        module.forward, module.act = (torch.compile(call, fullgraph=is_whole) for call in (module.forward, module.act))
        return module

    COUNTED["observations, compiled"] += check_export(
        real, policy, export(policy, tmp_path / "policy.py", None, transform)
    )


@pytest.mark.parametrize("name", VECTORS)
def test_the_vectors_are_predicted(name: str, tmp_path: Path) -> None:
    policy = load_vector(name)
    if any(node.op == "Call" for node in policy.graph.nodes):
        pytest.skip("a function of the caller")
    assert_predictions(name, export(policy, tmp_path / "policy.py"))


@pytest.mark.parametrize("setup", each(ONE_OF_EACH))
def test_state_dicts_fit_that_of_sb3_both_ways(setup: Any, tmp_path: Path) -> None:
    agent = build_agent(setup)
    exported = export(sbformat.load_policy(agent.raw), tmp_path / "policy.py").module
    module = type(exported)()
    missing, _ = module.load_state_dict(agent.model.policy.state_dict(), strict=False)
    assert set(missing) <= {"action_low", "action_high"}
    own, expected = module.state_dict(), exported.state_dict()
    assert all(torch.equal(own[key], expected[key]) for key in own if key not in missing)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.5)
    back = agent.model.policy
    back.load_state_dict(module.state_dict(), strict=False)
    assert all(torch.equal(array, back.state_dict()[key]) for key, array in module.state_dict().items()
               if key not in missing)  # fmt: skip
    COUNTED["state dicts of SB3"] += 1


@pytest.mark.parametrize("policy", ["MultiInputActorCriticPolicy", "RecurrentMultiInputActorCriticPolicy"])
@pytest.mark.parametrize("keys", [["\u043a", " ", "\u0446", "\u0451"], ["k" * 200, "\xe9" * 20, "a/b", "a"]])
def test_keys_are_read_whatever_they_are(policy: str, keys: list[str], tmp_path: Path) -> None:
    parts = dict(zip(keys, (box(2), images(1, 36, 36), discrete(3), multi_discrete(2, 3))))
    loaded = sbformat.load_policy(make_agent(policy, dict_space(**parts), box(2)))
    arrays = ([[0.5, -1.0]] * 3, np.full((3, 1, 36, 36), 7, np.uint8), [0, 2, 1], [[1, 2]] * 3)
    observation = {key: np.asarray(array) for key, array in zip(keys, arrays)}
    expected, _ = loaded.predict(observation, deterministic=True)
    for transform in (None, torch.jit.script):
        exported = export(loaded, tmp_path / "policy.py", transform=transform)
        assert np.allclose(exported.predict(observation, deterministic=True)[0], expected, atol=1e-5)


# -- sampling -----------------------------------------------------------------------------------------

DRAWS: Final = 20_000


def draw_actions(name: str, folder: Path) -> tuple[Any, Any, np.ndarray]:
    """Return the module of an agent, its outputs for one observation, and many actions that it draws for it."""
    policy = sbformat.load_policy(build_agent(BY_NAME[name]).raw)
    module = export(policy, folder / "policy.py").module
    torch.manual_seed(3)
    observation = torch.randn(1, 3)
    if policy.graph.sampling.kind == "gsde":
        module.reset_noise(DRAWS)
    actions = module.act(observation.expand(DRAWS, -1), deterministic=False)
    with torch.no_grad():
        return module, module(observation), actions.double().numpy()


def test_gaussian_actions_have_their_mean_and_deviation(tmp_path: Path) -> None:
    _, outputs, actions = draw_actions("PPO-Mlp-to_unbounded", tmp_path)
    std = outputs.log_std[0].detach().exp().numpy()
    assert (abs(actions.mean(0) - outputs.mean[0].numpy()) < 5 * std / DRAWS**0.5).all()
    assert np.allclose(actions.std(0), std, rtol=0.03)


def test_gsde_draws_its_noise_once(tmp_path: Path) -> None:
    module, outputs, actions = draw_actions("PPO-Mlp-sde_squash", tmp_path)
    low, high = module.action_low.numpy(), module.action_high.numpy()
    noisy = np.arctanh((actions - low) / (high - low) * 2 - 1)
    std = outputs.log_std[0].exp().numpy()
    assert (abs(noisy.mean(0) - outputs.mean[0].numpy()) < 5 * std / DRAWS**0.5).all()
    assert np.allclose(noisy.std(0), std, rtol=0.03)
    observation = torch.randn(3)
    module.reset_noise()
    first = module.act(observation, deterministic=False)
    assert torch.equal(first, module.act(observation, deterministic=False))
    module.reset_noise()
    assert not torch.equal(first, module.act(observation, deterministic=False))


@pytest.mark.parametrize("name", ["PPO-Mlp-sde", "SAC-Mlp-sde"])
def test_the_noise_of_gsde_trains_the_features_of_sac_alone(name: str, tmp_path: Path) -> None:
    module = export(sbformat.load_policy(build_agent(BY_NAME[name]).raw), tmp_path / "policy.py").module
    module(torch.randn(1, 3)).log_std.sum().backward()
    trained = {key for key, parameter in module.named_parameters() if parameter.grad is not None}
    latent = {key for key, _ in module.named_parameters() if key.startswith("actor.latent_pi.")}
    assert trained == {*latent, "actor.log_std" if latent else "log_std"}


@pytest.mark.parametrize("label", ["discrete", "multi_discrete", "bits"])
def test_choices_have_their_probabilities(label: str, tmp_path: Path) -> None:
    _, outputs, actions = draw_actions(f"PPO-Mlp-to_{label}", tmp_path)
    expected = outputs.probabilities[0].numpy()
    if label == "bits":
        found = actions.mean(0)
    else:
        columns = actions.reshape(DRAWS, -1).T
        sizes = {"discrete": [4], "multi_discrete": [3, 2, 4]}[label]
        found = np.concatenate([np.bincount(column.astype(int), minlength=size) / DRAWS
                                for column, size in zip(columns, sizes)])  # fmt: skip
    assert np.allclose(found, expected, atol=0.02)


def test_a_share_of_actions_is_random(tmp_path: Path) -> None:
    module, _, actions = draw_actions("DQN-Mlp-to_discrete", tmp_path)
    observation = torch.randn(3)
    greedy = module.act(observation)
    others = np.mean([module.act(observation, deterministic=False) != greedy for _ in range(4000)])
    assert abs(others - 0.3 * 3 / 4) < 0.04
    assert set(actions) <= {0, 1, 2, 3}


# -- masks and statistics -----------------------------------------------------------------------------


@pytest.mark.parametrize("setup", each(MASKED))
def test_masks_are_an_argument(setup: Any, tmp_path: Path) -> None:
    agent = build_agent(setup)
    real, policy = RealPolicy(agent.model), sbformat.load_policy(agent.raw)
    masks = draw_masks(real.action_space, COUNT)
    exported = export(policy, tmp_path / "policy.py")
    COUNTED["masked observations"] += check_export(real, policy, exported, action_masks=masks)


@pytest.mark.parametrize("label", NORMALIZED)
def test_statistics_are_in_the_module(label: str, tmp_path: Path) -> None:
    COUNTED["observations behind VecNormalize"] += check_normalized(
        *NORMALIZED[label], tmp_path, lambda policy: export(policy, tmp_path / "policy.py")
    )
