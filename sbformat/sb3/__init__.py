"""Load agents, statistics and replay buffers into the real Stable-Baselines3, without any pickle of their files.

Each function takes the arguments of SB3's own, and what it returns is SB3's own object. The file is decoded without
executing anything and encoded again for the installed release, and SB3 reads the result::

    import sbformat.sb3

    env = sbformat.sb3.load_vecnormalize("vecnormalize.pkl", env)       # VecNormalize.load("vecnormalize.pkl", env)
    model = sbformat.sb3.load(SAC, "agent.zip", env=env)                # SAC.load("agent.zip", env=env)
    sbformat.sb3.load_replay_buffer(model, "replay_buffer.pkl")         # model.load_replay_buffer("replay_buffer.pkl")

:func:`replace_loaders` does the same to the methods of SB3 itself, for programs that cannot be changed.
The extra ``sb3`` installs Stable-Baselines3. Nothing else in the package imports this one.
"""

from sbformat.sb3.agents import EvaluatedSchedule, load, replace_loaders
from sbformat.sb3.installed import load_vecnormalize
from sbformat.sb3.replay_buffers import load_replay_buffer

__all__ = ["EvaluatedSchedule", "load", "load_replay_buffer", "load_vecnormalize", "replace_loaders"]
