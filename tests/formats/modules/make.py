"""Make the files of this folder, with torch 2.13 and SB3 2.9.2: whole modules, and TorchScript.

python tests/formats/modules/make.py
"""

from __future__ import annotations

from pathlib import Path

import torch as th
from sb3_contrib import RecurrentPPO
from stable_baselines3 import PPO

HERE = Path(__file__).parent


class Net(th.nn.Module):
    """A module that is used twice, a buffer that is not persistent, and modules that hold parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.a = self.b = th.nn.Linear(3, 4)
        self.bn = th.nn.BatchNorm1d(4)
        self.register_buffer("t", th.ones(2), persistent=False)
        self.l = th.nn.ModuleList([th.nn.LSTM(3, 2), th.nn.GRU(2, 2)])
        self.e = th.nn.ParameterDict({"k": th.nn.Parameter(th.ones(3))})


class Constant(th.nn.Module):
    """A module whose traced program has a constant."""

    def forward(self, x: th.Tensor) -> th.Tensor:
        """Add the constant."""
        return x + th.tensor([1.0, 2.0, 3.0])


if __name__ == "__main__":
    th.save({"model": Net(), "epoch": 3}, HERE / "net.pt")
    layers = th.nn.Sequential(th.nn.Linear(3, 4), th.nn.BatchNorm1d(4), th.nn.LSTM(4, 2))
    th.jit.script(layers).save(str(HERE / "script.pt"))
    th.jit.trace(Constant(), th.zeros(3)).save(str(HERE / "const.pt"))
    th.save(PPO("MlpPolicy", "Pendulum-v1", policy_kwargs={"net_arch": [8]}, device="cpu").policy, HERE / "ppo.pt")
    lstm = {"net_arch": [8], "lstm_hidden_size": 6}
    th.save(RecurrentPPO("MlpLstmPolicy", "CartPole-v1", policy_kwargs=lstm, device="cpu").policy, HERE / "rppo.pt")
