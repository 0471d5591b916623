"""From an archive of SBX (Stable Baselines Jax) to the graph of its policy (SBX.md 22.3).

**Theory of operation.** In: an archive of SBX, whose state dict ``policy`` has the weights of flax by path
(:mod:`sbformat.formats.sbx.states`), and whose pickled policy names the classes of its networks and their activation
(:mod:`sbformat.formats.sbx.modules`). Out: a graph that computes what ``predict`` of SBX returns. The steps:

1. ``observations`` adds the inputs: numbers as float32, not one-hot, images not divided; a Dict is concatenated.
2. ``branches`` has the layers of flax: ``Dense`` with weights (inputs, outputs), ``LayerNorm`` with an epsilon of
   1e-6, ``BatchRenorm`` with its running statistics and 1e-3, ``NatureCNN`` with images (height, width, channels).
3. ``networks`` adds the layers of each known class in the order of their names: flax numbers the layers of a class in
   the order in which they are called, ``Dense_0``, ``Dense_1``, ... The layers of ``n`` critics are one array with a
   first axis of ``n``.
4. ``build`` adds the distribution and the action, as ``predict`` returns it. numpy clips and scales actions as SB3.

Worked example, SAC with ``net_arch=[16]`` for 3 observations and 2 actions::

    actor_state/params/params/Dense_0   observation (3), kernel (3, 16), bias (16), then the activation
    actor_state/params/params/Dense_1   mean (2)
    actor_state/params/params/Dense_2   log_std (2), clipped to -20 and 2
    action                              tanh(mean), scaled to the bounds

Invariants: a weight of the network that acts, and that no layer of its class uses, is refused; a class that is not
known is refused with its name; nothing of the code in the pickle is looked at.
"""

from __future__ import annotations

from sbformat.policies.sbx.build import build_sbx_policy

__all__ = ["build_sbx_policy"]
