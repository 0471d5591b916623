"""From an agent of Stable Baselines 2 to an archive of SB3 (REBUILDING.md 15.7).

Theory of operation
-------------------
In: a zip or pickle of SB2. Out: an archive in the form that SB3 writes, whose values of ``data`` are still those of the
file, under SB3's names; the rebuild of SB3's archives then encodes every value for the target, checks the keys and the
weights against the network that SB3 makes, and starts the optimizers. So everything that holds for archives of SB3
(schedules, spaces, ``--set``) holds for those of SB2.

1. :mod:`sbformat.nets.sb2_agents` reads the agent: its algorithm, policy, spaces, and its parameters by name.
2. :mod:`.algorithms` has, for each algorithm of SB2, the function that converts its network, and the one that converts
   its hyper-parameters; both are in the modules of its family.
3. :mod:`.convert` calls them and assembles the archive.
4. :mod:`.merge` makes one report: each key of SB2's ``data`` has a row, with SB2's name.

Invariants: a network is converted exactly or refused: the same outputs for the same observations, up to the rounding
of float32; every key and every parameter of SB2 that is not in the result has a row.

Worked example, PPO2 with two shared layers::

    data/cliprange            clip_range, the same number
    data/nminibatches         batch_size = n_steps * n_envs / nminibatches
    model/shared_fc0/w:0      mlp_extractor.policy_net.0.weight and mlp_extractor.value_net.0.weight, transposed
    model/pi/w:0              action_net.weight, transposed
    model/q/w:0               dropped: PPO does not use it
"""

from __future__ import annotations

from sbformat.tools.rebuild.sb2.convert import Conversion, convert_agent
from sbformat.tools.rebuild.sb2.merge import merge_reports

__all__ = ["Conversion", "convert_agent", "merge_reports"]
