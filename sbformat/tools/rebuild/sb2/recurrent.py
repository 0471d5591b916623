"""Policies of SB2 with an LSTM as RecurrentPPO's."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from sbformat.errors import UnsupportedError

if TYPE_CHECKING:
    from sbformat.formats.sb2.networks import ActorCritic
    from sbformat.tools.rebuild.sb2.interface import Sb2Agent


def convert_recurrent(agent: Sb2Agent, net: ActorCritic) -> NoReturn:  # noqa: ARG001
    """Return the network of a policy with an LSTM.

    :raises UnsupportedError: when RecurrentPPO does not have such a network
    """
    message = "its policy has an LSTM, which is not converted"
    raise UnsupportedError(message)
