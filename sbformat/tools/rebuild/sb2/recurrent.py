"""Policies of SB2 with an LSTM as RecurrentPPO's.

RecurrentPPO has an LSTM after the features extractor, then the layers of ``net_arch``. So has SB2 where nothing but a
CNN is before the LSTM: ``CnnLstmPolicy``, ``net_arch=["lstm", ...]``, ``layers=[]``. Policy and value function of SB2
share the LSTM: ``shared_lstm``. The cell is the same, with its gates in another order and one bias instead of two:

    SB2      input, forget, output, candidate      x @ wx + h @ wh + b
    torch    input, forget, candidate, output      weight_ih @ x + bias_ih + weight_hh @ h + bias_hh
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from sbformat.errors import UnsupportedError
from sbformat.nets.sb2 import LSTM_SCOPE, ActorCriticPolicy
from sbformat.tools.rebuild.sb2.images import describe_images
from sbformat.tools.rebuild.sb2.interface import ConvertedNetwork, parameter_row
from sbformat.tools.rebuild.sb2.layers import convert_activation, convert_branches

if TYPE_CHECKING:
    from sbformat.tools.rebuild.report import Row
    from sbformat.tools.rebuild.sb2.images import Images
    from sbformat.tools.rebuild.sb2.interface import Keys, Sb2Agent

_SCOPE: Final = ActorCriticPolicy.scope
_GATES: Final = (0, 1, 3, 2)
"""The gates of torch, by their position in SB2."""
_ALGORITHMS: Final = ("A2C", "PPO2")
"""The algorithms whose agents with an LSTM RecurrentPPO can train: A2C is PPO with one epoch of one batch."""


def convert_recurrent(agent: Sb2Agent, net: ActorCriticPolicy) -> ConvertedNetwork:
    """Return the network of a policy with an LSTM.

    :raises UnsupportedError: when RecurrentPPO does not have such a network
    """
    _refuse_others(agent, net)
    cnn = net.inputs.cnn
    images = describe_images(agent, cnn)
    arrays, widths = convert_branches(agent, net, net.steps[1:], None)
    arrays |= _convert_lstm(agent, None if cnn else images)
    arguments = {
        "net_arch": widths, "lstm_hidden_size": net.steps[0].width, "shared_lstm": True, "enable_critic_lstm": False,
        **images.policy_kwargs, **convert_activation(agent, net.activation),
    }  # fmt: skip
    policy = "MlpLstmPolicy" if cnn is None else "CnnLstmPolicy"
    rows = (*images.rows, *_list_rows(agent, net))
    return ConvertedNetwork("RecurrentPPO", policy, arguments, arrays, {}, rows, images.space)


def _refuse_others(agent: Sb2Agent, net: ActorCriticPolicy) -> None:
    """Refuse what RecurrentPPO does not have.

    :raises UnsupportedError: with the reason
    """
    before = [step.name for step in net.steps[: [step.name for step in net.steps].index(LSTM_SCOPE)]]
    message = ""
    if net.is_normed:
        message = "its LSTM is normalized (LnLstm), and SB3 has no such cell"
    elif before:
        message = f"it has layers before its LSTM ({', '.join(before)}), and RecurrentPPO has only a features extractor"
    elif agent.algorithm not in _ALGORITHMS:
        message = "its policy has an LSTM, which SB3 has for PPO alone"
    if message:
        raise UnsupportedError(message)


def _convert_lstm(agent: Sb2Agent, images: Images | None) -> dict[str, np.ndarray]:
    """Return the LSTM as torch has it.

    :param images: for an LSTM that gets the observation itself
    """
    weights = agent.array(f"{_SCOPE}/{LSTM_SCOPE}/wx:0")
    if images is not None:
        weights = images.order(weights)
    bias = _order_gates(agent.array(f"{_SCOPE}/{LSTM_SCOPE}/b:0").reshape(-1))
    return {
        "lstm_actor.weight_ih_l0": _order_gates(weights.T),
        "lstm_actor.weight_hh_l0": _order_gates(agent.array(f"{_SCOPE}/{LSTM_SCOPE}/wh:0").T),
        "lstm_actor.bias_ih_l0": bias,
        "lstm_actor.bias_hh_l0": np.zeros_like(bias),
    }


def _order_gates(rows: np.ndarray) -> np.ndarray:
    """Return rows of gates, one gate after another, in torch's order."""
    parts = np.split(rows, len(_GATES))
    return np.ascontiguousarray(np.concatenate([parts[gate] for gate in _GATES]))


def _list_rows(agent: Sb2Agent, net: ActorCriticPolicy) -> list[Row]:
    """Return the rows of shared layers, and of the parameters that SB3 does not have."""
    message = "the same cell, with the gates in torch's order; the value function does not train it in SB3"
    rows = [parameter_row(f"{_SCOPE}/{LSTM_SCOPE}", message)]
    shared = "in the policy network and in the value network, with the same weights; they are trained apart"
    rows += [parameter_row(f"{_SCOPE}/{step.name}", shared) for step in net.steps[1:] if step.branch == "both"]
    return rows + agent.drop_parameters(f"{_SCOPE}/q", f"{agent.algorithm} neither trains nor uses it")


def convert_recurrent_keys(agent: Sb2Agent, keys: Keys) -> None:
    """Complete the hyper-parameters of an agent with an LSTM.

    With one epoch of one batch, the policy is the one that collected the batch. Then the ratio of PPO's loss is 1, its
    gradient is that of A2C, and nothing is clipped.
    """
    if agent.algorithm != "A2C":
        return
    message = "SB3 has no A2C with an LSTM"
    keys.report_algorithm(message, "RecurrentPPO, with one epoch of one batch: the same steps of the policy")
    keys.set("n_epochs", 1, None, "A2C takes one step for each batch")
    steps, count = keys.get("n_steps"), keys.get("n_envs", 1)
    if type(steps) is int and type(count) is int:
        keys.set("batch_size", steps * count, None, f"n_steps {steps} * n_envs {count}: one batch")
    keys.set("clip_range", 0.2, None, "nothing is clipped in the first step of a batch")
    keys.set("clip_range_vf", None, None, "A2C does not clip the value function")
    keys.set("target_kl", None, None, "A2C does not stop an update early")
