"""Make the bundled archive of an old release; run from the project's root, on Python 3.8.

    pip install stable-baselines3==1.0 gym==0.17.3 torch==1.8.1 numpy==1.19.5 cloudpickle==1.6.0
    python tests/archives/make_old.py

What today's SB3 cannot load: spaces of gym, schedules that are functions, layers that policy and value network share.
"""

from __future__ import annotations

from pathlib import Path

import stable_baselines3 as sb3


def main() -> None:
    """Train for a moment and save."""
    net = {"net_arch": [8, {"pi": [8], "vf": [8]}]}
    ppo = sb3.PPO("MlpPolicy", "CartPole-v1", n_steps=32, batch_size=32, n_epochs=1, policy_kwargs=net, seed=0)
    ppo.learn(32)
    ppo.tensorboard_log = "/home/user/logs"
    ppo.save(Path(__file__).parent / "ppo-cartpole-1.0.zip")


if __name__ == "__main__":
    main()
