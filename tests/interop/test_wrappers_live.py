"""Agents whose networks torch wraps: what sbformat computes and what SB3 loads is what the wrapped modules compute."""

# ruff: noqa: E402 -- importorskip stands before what needs it
from __future__ import annotations

import functools
from io import BytesIO
from typing import TYPE_CHECKING, Any, Final

import pytest

torch = pytest.importorskip("torch")
sb3 = pytest.importorskip("stable_baselines3")
contrib = pytest.importorskip("sb3_contrib")

import numpy as np
from gymnasium import spaces
from stable_baselines3.common.envs import FakeImageEnv, IdentityEnvBox
from torch import nn
from torch.nn.utils import parametrizations, parametrize, prune

import sbformat
import sbformat.sb3

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = [pytest.mark.filterwarnings("ignore")]

BRANCH: Final = "mlp_extractor.policy_net"
HEAD: Final = "action_net"
ACTOR: Final = ("actor", "critic")
CNN: Final = ("features_extractor", "pi_features_extractor", "vf_features_extractor")


compile_module: Final = functools.partial(torch.compile, backend="eager")


class Unknown(nn.Module):
    """A parametrization of the user's."""

    def forward(self, weight: Any) -> Any:
        return 2 * weight


def within(wrap: Callable[..., Any], *names: str, **options: Any) -> Callable[[Any], None]:
    """Wrap modules of the policy: in place, or by what a function returns."""

    def apply(model: Any) -> None:
        for name in names:
            parent, _, last = name.rpartition(".")
            owner = model.policy.get_submodule(parent)
            made = wrap(getattr(owner, last), **options)
            if isinstance(made, nn.Module) and made is not getattr(owner, last):
                setattr(owner, last, made)

    return apply


def mask(module: Any, name: str = "weight", *, structured: bool = False) -> None:
    if structured:
        prune.ln_structured(module, name, 0.5, 2, 0)
    else:
        prune.l1_unstructured(module, name, 0.5)


def whole(model: Any) -> None:
    """Compile the policy, with the names that older releases of SB3 save: 2.9 removes the wrapper itself."""
    state_dict = torch.compile(model.policy).state_dict()
    model.policy.state_dict = lambda: state_dict


def both(*steps: Callable[[Any], None]) -> Callable[[Any], None]:
    return lambda model: [step(model) for step in steps] and None


PPO: Final = ("PPO", "MlpPolicy")
WRAPPED: Final[dict[str, tuple[tuple[str, str], Callable[[Any], Any]]]] = {
    "compiled": (PPO, whole),
    "compiled-branch": (PPO, within(compile_module, BRANCH)),
    "compiled-layer": (PPO, within(compile_module, HEAD)),
    "compiled-sac": (("SAC", "MlpPolicy"), within(compile_module, *ACTOR)),
    "compiled-td3": (("TD3", "MlpPolicy"), within(compile_module, *ACTOR, "actor_target", "critic_target.qf0")),
    "parallel-dqn": (("DQN", "MlpPolicy"), within(nn.DataParallel, "q_net.q_net")),
    "parallel-cnn": (("PPO", "CnnPolicy"), within(nn.DataParallel, *CNN)),
    "spectral": (PPO, within(parametrizations.spectral_norm, f"{BRANCH}.0", f"{BRANCH}.2", HEAD)),
    "spectral-old": (PPO, within(nn.utils.spectral_norm, f"{BRANCH}.0", HEAD)),
    "spectral-axis-1": (PPO, within(parametrizations.spectral_norm, HEAD, dim=1)),
    "spectral-cnn": (("PPO", "CnnPolicy"), within(parametrizations.spectral_norm, "features_extractor.cnn.0")),
    "weight-norm": (PPO, within(parametrizations.weight_norm, f"{BRANCH}.0", HEAD)),
    "weight-norm-axis-1": (PPO, within(parametrizations.weight_norm, HEAD, dim=1)),
    "weight-norm-of-all": (PPO, within(parametrizations.weight_norm, HEAD, dim=None)),
    "weight-norm-old": (PPO, within(nn.utils.weight_norm, HEAD)),
    "weight-norm-lstm": (
        ("RecurrentPPO", "MlpLstmPolicy"), within(nn.utils.weight_norm, "lstm_actor", name="weight_hh_l0"),
    ),
    "pruned": (PPO, within(mask, f"{BRANCH}.2", HEAD)),
    "pruned-rows": (PPO, within(mask, f"{BRANCH}.2", structured=True)),
    "pruned-bias": (PPO, both(within(mask, HEAD, name="bias"), within(mask, HEAD))),
    "pruned-compiled": (PPO, both(within(mask, f"{BRANCH}.2"), within(nn.DataParallel, f"{BRANCH}.2"), whole)),
}  # fmt: skip
REFUSED: Final = {
    "orthogonal": within(parametrizations.orthogonal, HEAD),
    "a parametrization that is not known": both(
        within(parametrizations.spectral_norm, HEAD),
        lambda model: parametrize.register_parametrization(model.policy.get_submodule(HEAD), "weight", Unknown()),
    ),
}


def make_model(algorithm: str, policy: str) -> Any:
    """A new agent with two hidden layers of 8."""
    torch.manual_seed(1)
    cls = getattr(sb3, algorithm, None) or getattr(contrib, algorithm)
    env: Any = IdentityEnvBox(-1, 1)
    if policy == "CnnPolicy" or algorithm == "DQN":
        env = FakeImageEnv(screen_height=36, screen_width=36, n_channels=1, discrete=True)
    if algorithm == "DQN":
        env.observation_space = spaces.Box(-1, 1, (3,), np.float32)
    sizes = {"n_steps": 8, "batch_size": 8} if "PPO" in algorithm else {"buffer_size": 10}
    return cls(policy, env, device="cpu", policy_kwargs={"net_arch": [8, 8]}, **sizes)


def iter_weights(model: Any) -> Iterator[tuple[str, np.ndarray]]:
    """Yield each weight as its module computes it, by the name that SB3 has for it."""
    wrappers = ("_orig_mod", "module", "parametrizations")
    for path, module in model.policy.named_modules(remove_duplicate=False):
        parts = path.split(".")
        if "parametrizations" in parts or type(module).__name__ in ("OptimizedModule", "DataParallel"):
            continue
        for name in ("weight", "bias", "weight_hh_l0"):
            if not isinstance(getattr(module, name, None), torch.Tensor):
                continue
            plain = ".".join([part for part in parts if part not in wrappers] + [name])
            yield plain, getattr(module, name).detach().numpy()


def save(model: Any) -> BytesIO:
    file = BytesIO()
    model.save(file)
    file.seek(0)
    return file


@pytest.mark.parametrize("case", WRAPPED)
def test_wrapped_agents_compute_what_torch_does(case: str) -> None:
    (algorithm, policy), wrap = WRAPPED[case]
    model = make_model(algorithm, policy)
    names = list(model.policy.state_dict())
    wrap(model)
    model.policy.eval()
    observations = np.stack([model.observation_space.sample() for _ in range(5)])
    expected, _ = model.policy.predict(observations, deterministic=True)
    file = save(model)
    archive = sbformat.read(file)
    assert list(archive.parameters["policy"]) != names
    found, _ = sbformat.load_policy(archive).predict(observations, deterministic=True)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    reports: list[Any] = []
    loaded = sbformat.sb3.load(type(model), file, device="cpu", report=reports)
    assert any("removed from" in row.message or "computed from" in row.message for row in reports[0].rows)
    found, _ = loaded.policy.predict(observations, deterministic=True)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    state_dict = loaded.policy.state_dict()
    for name, weight in iter_weights(model):
        np.testing.assert_allclose(state_dict[name], weight, rtol=1e-6, atol=1e-6 * abs(weight).max())


@pytest.mark.parametrize("wrapper", REFUSED)
def test_what_the_file_does_not_determine_is_refused(wrapper: str) -> None:
    model = make_model(*PPO)
    REFUSED[wrapper](model)
    file = save(model)
    for use in (sbformat.load_policy, sbformat.rebuild, lambda source: sbformat.sb3.load(sb3.PPO, source)):
        with pytest.raises(sbformat.UnsupportedError, match=rf"{wrapper}: {HEAD}\.weight cannot be computed"):
            use(file)
