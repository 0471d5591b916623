"""What predicts actions, one per row: sbformat, SB3, and others beside it. Each imports what it needs when it runs.

A predictor is made from the archive of one of :mod:`benchmarks.agents`. It takes an observation or a batch, and returns
the deterministic action or actions.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from benchmarks.rivals import US

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np

    Predict = Callable[[np.ndarray], Any]

SB3: Final = "stable-baselines3"
BARE: Final = "bare numpy"
TORCH: Final = "torch"
ONNX: Final = "onnxruntime"
WHOLE: Final = "onnxruntime, whole policy"
LAYERS: Final = {
    "DQN": ("q_net.q_net.0", "q_net.q_net.2", "q_net.q_net.4"),
    "PPO": ("mlp_extractor.policy_net.0", "mlp_extractor.policy_net.2", "action_net"),
    "SAC": ("actor.latent_pi.0", "actor.latent_pi.2", "actor.mu"),
}
"""The linear layers of networks that the bare one computes."""


class Predictor(NamedTuple):
    """A way to predict."""

    name: str
    modules: tuple[str, ...]
    """The modules that must be installed."""
    make: Callable[[str], Predict]
    agents: frozenset[str] = frozenset({"DQN", "PPO", "SAC", "NatureCNN"})


def with_sbformat(path: str) -> Predict:
    import sbformat

    policy = sbformat.load_policy(path)
    return lambda observations: policy.predict(observations, deterministic=True)[0]


def load_with_sb3(path: str) -> Any:
    """Load an agent as its users do; its class is chosen by the name of the file."""
    import stable_baselines3
    import torch

    from benchmarks.agents import AGENTS

    torch.set_num_threads(1)
    return getattr(stable_baselines3, AGENTS[name_of(path)].algorithm).load(path, device="cpu")


def name_of(path: str) -> str:
    """Return the name of the agent in a file of :func:`benchmarks.policies.agent_file`."""
    return path.rsplit("agent-", 1)[1].removesuffix(".zip")


def with_sb3(path: str) -> Predict:
    model = load_with_sb3(path)
    return lambda observations: model.predict(observations, deterministic=True)[0]


def with_torch(path: str) -> Predict:
    """Only the network, from tensor to tensor: what no prediction with torch can do without."""
    import torch

    policy = load_with_sb3(path).policy
    policy.set_training_mode(False)

    def predict(observations: np.ndarray) -> Any:
        with torch.no_grad():
            return policy._predict(torch.as_tensor(observations), deterministic=True).numpy()  # noqa: SLF001

    return predict


def with_numpy(path: str) -> Predict:
    """The shortest code that computes the network of a known agent: no checks, no conversions."""
    import numpy as np

    import sbformat

    name = name_of(path)
    weights = sbformat.read(path, copy=True).parameters["policy"].to_numpy()
    (w1, b1), (w2, b2), (w3, b3) = ((weights[f"{layer}.weight"], weights[f"{layer}.bias"]) for layer in LAYERS[name])

    def with_tanh(x: np.ndarray) -> Any:
        return (w3 @ np.tanh(w2 @ np.tanh(w1 @ x + b1) + b2) + b3).argmax()

    def with_relu(x: np.ndarray) -> Any:
        return (w3 @ np.maximum(w2 @ np.maximum(w1 @ x + b1, 0) + b2, 0) + b3).argmax()

    def with_squashing(x: np.ndarray) -> Any:
        return np.tanh(w3 @ np.maximum(w2 @ np.maximum(w1 @ x + b1, 0) + b2, 0) + b3)

    return {"PPO": with_tanh, "DQN": with_relu, "SAC": with_squashing}[name]


def with_whole_policy(path: str) -> Predict:
    """All that ``predict`` computes, as sbformat exports it: preprocessing, network, bounds, action."""
    import sbformat

    file = Path(path).with_suffix(".onnx")
    sbformat.export_onnx(path, file, overwrite=True)
    session = start_session(str(file))
    name = session.get_inputs()[0].name
    return lambda observations: session.run(None, {name: observations})[0]


def start_session(model: Any) -> Any:
    """Open a session of one thread."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def with_onnxruntime(path: str) -> Predict:
    """The network as torch exports it."""
    import torch

    policy = load_with_sb3(path).policy
    policy.set_training_mode(False)

    class Network(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.policy = policy

        def forward(self, observations: Any) -> Any:
            return self.policy._predict(observations, deterministic=True)  # noqa: SLF001

    output, space = io.BytesIO(), policy.observation_space
    example = torch.zeros((1, *space.shape), dtype=torch.as_tensor(space.sample()).dtype)
    names = {"input_names": ["x"], "dynamic_axes": {"x": {0: "batch"}}}
    torch.onnx.export(Network(), (example,), output, dynamo=False, **names)
    session = start_session(output.getvalue())
    return lambda observations: session.run(None, {"x": observations})[0]


PREDICTORS: Final = {
    predictor.name: predictor
    for predictor in (
        Predictor(US, (), with_sbformat),
        Predictor(SB3, ("stable_baselines3",), with_sb3),
        Predictor(TORCH, ("stable_baselines3",), with_torch),
        Predictor(BARE, (), with_numpy, frozenset(LAYERS)),
        Predictor(ONNX, ("stable_baselines3", "onnx", "onnxruntime"), with_onnxruntime),
        Predictor(WHOLE, ("onnx", "onnxruntime"), with_whole_policy),
    )
}
"""By name. ``WHOLE`` computes what sbformat and SB3 return, the others what a network does; only these two check and
convert an observation."""
WITH_BATCH: Final = frozenset({TORCH, ONNX, WHOLE})
"""Those that take one observation as a batch of one."""
