"""Make the bundled archives: needs stable-baselines3 (the extra ``interop``); run from the project's root.

    python tests/archives/make.py

They are small real archives, trained for a moment on CartPole and Pendulum, so that the README's commands
and the tests have something to read on a machine without torch.
"""

from __future__ import annotations

import platform
from pathlib import Path

import stable_baselines3 as sb3

HERE = Path(__file__).parent


def main() -> None:
    """Train for a moment and save, with a plain system in place of the one that happens to run this."""
    platform.platform = lambda *_, **__: "Linux-6.1-x86_64-with-glibc2.36"
    platform.version = lambda: "#1 SMP"
    net = {"net_arch": [8, 8]}
    ppo = sb3.PPO("MlpPolicy", "CartPole-v1", n_steps=32, batch_size=32, n_epochs=1, policy_kwargs=net, seed=0)
    ppo.learn(32).save(HERE / "ppo-cartpole.zip")
    sac = sb3.SAC(
        "MlpPolicy", "Pendulum-v1", buffer_size=64, learning_starts=4, batch_size=4, policy_kwargs=net, seed=0
    )
    sac.learn(8).save(HERE / "sac-pendulum.zip")


if __name__ == "__main__":
    main()
