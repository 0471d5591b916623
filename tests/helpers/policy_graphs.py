"""Small graphs, made by hand over the tensors of the bundled archives."""

from __future__ import annotations

import sbformat
from sbformat.limits import Budget, Limits
from sbformat.policies.builder import GraphBuilder, Value
from sbformat.policies.graph import Graph, Input, Sampling
from tests.helpers.bundled import PPO


def ppo_graph() -> Graph:
    """The network of the bundled PPO agent: 4 observations, two layers of 8 and Tanh, 2 actions."""
    tensors = sbformat.read(PPO).parameters["policy"]
    builder = GraphBuilder(Budget(Limits()))

    def linear(module: str, value: Value, name: str = "") -> Value:
        weight, bias = (
            builder.weight(f"{module}.{part}", tensors.info(f"{module}.{part}"), f"policy.pth:{module}.{part}")
            for part in ("weight", "bias")
        )
        return builder.add("Gemm", value, weight, bias, transB=True, module=module, name=name)

    observation = builder.input(Input("observation", "float32", (4,)))
    latent = {}
    for net in ("policy_net", "value_net"):
        hidden = observation
        for at in (0, 2):
            hidden = linear(f"mlp_extractor.{net}.{at}", hidden)
            hidden = builder.add("Tanh", hidden, module=f"mlp_extractor.{net}.{at + 1}")
        latent[net] = hidden
    logits = linear("action_net", latent["policy_net"], "logits")
    value = linear("value_net", latent["value_net"], "value")
    action = builder.add("ArgMax", logits, axis=-1, name="action")
    sampling = Sampling("categorical", "action", {"logits": "logits"}, (2,))
    return builder.build({"action": action, "logits": logits, "value": value}, sampling)
