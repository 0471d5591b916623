"""Networks as trees of modules: what SB3, sb3-contrib, SB2 and SBX store of a policy, and what it computes.

A network is written down once, as its authors do (FORMAT.md 6.8, POLICIES.md 19): a
:class:`~sbformat.nets.layers.Module` creates its tensors and its parts in a constructor, and ``forward`` adds the nodes
that compute its result to a graph. From the constructor follow ``parameters()``, the names and shapes of the tensors in
the order of ``state_dict()``; so ``validate``, ``new``, ``load_policy``, ``edit`` and ``rebuild`` agree about every
layer. Nothing that a file names is imported, and no array is read: a forged size costs nothing.

1. ``reading.read_agent`` decodes the policy class, spaces and arguments of ``data``: an ``Agent``. Of a lone state dict
   ``building`` takes them from the names and shapes.
2. ``sb3.make_policy`` makes the policy of the agent and its release: a tree.
3. ``reading.match_network`` compares the tree's parameters with the stored tensors; optimizers are compared with them.
4. ``building.build_sb3_policy`` lets the tree add its nodes to a graph.

``sb2_agents`` and ``sbx`` do the same for SB2 and SBX. PPO's ``ActorCriticPolicy``, four observations, two discrete
actions, ``net_arch=[8]``::

    ActorCriticPolicy
      features_extractor    FlattenExtractor        4 features
      mlp_extractor         MlpExtractor
        policy_net          Sequential
          0                 Linear                  weight (8, 4)  bias (8,)     Gemm
          1                 Activation                                           Tanh
        value_net           the same
      action_net            Linear                  weight (2, 8)  bias (2,)     Gemm, the logits
      value_net             Linear                  weight (1, 8)  bias (1,)

Where to change it: a network is a class of modules and its row in ``sb3.NETWORKS``; the name of a module that a release
changed, and whatever else it changed, is a row of :mod:`sbformat.known.changes`.
"""
