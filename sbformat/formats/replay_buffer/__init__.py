"""Replay buffers of Stable-Baselines3, read without running anything and in little memory (REPLAY-BUFFERS.md 18).

``save_replay_buffer`` pickles the buffer: numbers, spaces, and arrays of ``buffer_size`` rows by ``n_envs``, which may
be larger than memory. Here the arrays stay in the file until one is requested, and the rows are split into
trajectories.
"""

from sbformat.formats.replay_buffer.episodes import ENDS, Episode
from sbformat.formats.replay_buffer.reading import is_of_sb3, read_replay_buffer, replay_buffer_of
from sbformat.formats.replay_buffer.values import Hindsight, ReplayBuffer

__all__ = ["ENDS", "Episode", "Hindsight", "ReplayBuffer", "is_of_sb3", "read_replay_buffer", "replay_buffer_of"]
