"""From an archive of SB3 to the graph of its policy, without importing anything that it names.

Theory of operation (POLICIES.md 19)
----------------------------------
In: an archive, a lone ``policy.pth``, or a file of ``policy.save()``. Out: a
:class:`~sbformat.policies.model.PolicyModel`. The tensors' names and shapes determine the layers, so that
``net_arch`` is not interpreted here: :mod:`sbformat.policies.shapes` did so, and compared the result with the tensors.

1. ``settings.read_settings`` decides on the policy class, spaces and arguments, and refuses tensors that differ from
   those that SB3 makes. Without ``data``, ``inference.infer_settings`` takes from the tensors what they determine.
2. ``features`` adds the inputs, VecNormalize, ``preprocess_obs`` and the features extractors.
3. ``on_policy`` and ``off_policy`` follow each policy's ``_predict``; ``network`` has the layers that they share,
   ``activations`` and ``lstm`` the larger ones.
4. ``actions`` adds the distribution, and what ``predict`` does to the action in numpy, in numpy's dtype.

Outputs: ``action`` first; ``logits`` (of the last layer; masked ones are -1e8), ``probabilities``, ``mean``,
``log_std`` (of the distribution, also with gSDE), ``value``; ``q_values``, for each action, or for each critic and the
deterministic action; ``quantiles``.

Worked example: a PPO for 4 observations and 2 actions, with ``net_arch=[8]``::

    mlp_extractor.policy_net.0/Gemm   observation, mlp_extractor.policy_net.0.weight (8, 4), ....bias
    mlp_extractor.policy_net.1/Tanh   the activation has the next position of the Sequential, and no tensor
    logits                            Gemm of that, action_net.weight (2, 8), action_net.bias
    action                            ArgMax(logits)

Invariants: whatever the file says, nodes are charged to the budget; a tensor without data that explains it is refused
(``_require_all_used``); what is not known is an ``UnsupportedError`` with its name, what contradicts a
``ValidationError``.

Where to change it: a new algorithm is a function in ``on_policy`` or ``off_policy`` and a row of ``BUILDERS``; a
release that computes something else, a condition on ``settings.agent.release``.
"""

from __future__ import annotations

from sbformat.policies.sb3.build import build_sb3_policy

__all__ = ["build_sb3_policy"]
