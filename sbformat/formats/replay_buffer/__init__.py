"""Replay buffers of Stable-Baselines3, read without running them and without holding them (FORMAT.md 18).

``save_replay_buffer`` pickles the buffer: numbers, spaces, and arrays of ``buffer_size`` rows by ``n_envs``, which may
be larger than memory. Here the arrays stay in the file until one is asked for, and the rows are told apart into
trajectories.
"""

from sbformat.formats.replay_buffer.reading import is_of_sb3, read_replay_buffer, replay_buffer_of
from sbformat.formats.replay_buffer.values import ENDS, Episode, Hindsight, ReplayBuffer

__all__ = ["ENDS", "Episode", "Hindsight", "ReplayBuffer", "is_of_sb3", "read_replay_buffer", "replay_buffer_of"]
