"""The observations of an off-policy agent as SB3 gives them to its networks.

SB3 has its own order of an observation's items: it moves the channels of images first (:mod:`.images`), and sorts the
parts of a Dict. So the columns of the first layers are reordered, and the result saves SB3's observation space.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sbformat.errors import UnsupportedError
from sbformat.immutable import Record
from sbformat.known.spaces import DictSpace
from sbformat.nets.arguments import flattened_size
from sbformat.nets.sb2_agents import GOAL_KEYS
from sbformat.tools.rebuild.sb2.images import convert_cnn, describe_images

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sbformat.known.spaces import Space
    from sbformat.nets.sb2 import Cnn, InputStage
    from sbformat.tools.rebuild.report import Row
    from sbformat.tools.rebuild.sb2.interface import Sb2Agent


class Inputs(Record):
    """The observations of SB2 and those of SB3."""

    kind: str
    """``Mlp``, ``Cnn`` or ``MultiInput``: the start of the name of SB3's policy."""
    space: Space | None
    """The observation space that SB3 saves; None if it is the file's."""
    columns: np.ndarray
    """The position in SB3's flattened observation of each item of SB2's; int64. Of a CNN, those of its features."""
    policy_kwargs: Mapping[str, object]
    """Arguments that the policy needs so that the networks get the observations as in SB2."""
    rows: tuple[Row, ...]
    """What the user has to do differently."""
    cnn: Cnn | None

    @property
    def size(self) -> int:
        """The number of items, of a CNN its features."""
        return len(self.columns)

    def convert_cnn(self, agent: Sb2Agent, scope: str, module: str) -> dict[str, np.ndarray]:
        """Return the features extractor of a module: SB2's CNN in a scope, or nothing.

        :raises UnsupportedError: when SB3 has no such CNN
        """
        return {} if self.cnn is None else convert_cnn(agent, self.cnn, scope, f"{module}.features_extractor")


def read_inputs(agent: Sb2Agent, inputs: InputStage) -> Inputs:
    """Return how SB3 gives an agent its observations.

    :param inputs: the input stage of its network
    :raises UnsupportedError: when SB3 cannot give them to a network as SB2 does
    """
    if agent.model.goal_space is not None and inputs.cnn is None:
        return _read_goals(agent.model.goal_space, inputs.width)
    images = describe_images(agent, inputs.cnn)
    columns = np.arange(inputs.width)
    if inputs.cnn is not None:
        return Inputs("Cnn", images.space, columns, images.policy_kwargs, images.rows, inputs.cnn)
    order = images.order(columns)  # of SB2's items in SB3
    columns[order] = np.arange(inputs.width)
    return Inputs("Mlp", images.space, columns, images.policy_kwargs, images.rows, None)


def _read_goals(space: Space, width: int) -> Inputs:
    """Return the parts of a goal environment's observation in the order of SB3's Dict, which sorts its keys.

    :param width: of the observation that SB2 made of them
    """
    sizes = {}
    parts = space.parts()
    for key in GOAL_KEYS:
        part = parts.get(key)
        if part is None:
            message = f"the goal environment's observation has no part {key!r}"
            raise UnsupportedError(message)
        if part.is_image():
            message = f"SB3 makes a CNN for the images of the part {key!r}"
            raise UnsupportedError(message)
        sizes[key] = int(flattened_size(part, key))
    if sum(sizes.values()) != width:
        total = sum(sizes.values())
        message = f"the parts of the goal environment's observation have {total} items, its network gets {width}"
        raise UnsupportedError(message)
    starts, start = {}, 0
    for key in sorted(sizes):
        starts[key], start = start, start + sizes[key]
    columns = np.concatenate([np.arange(starts[key], starts[key] + size) for key, size in sizes.items()])
    ordered = {key: parts[key] for key in sorted(sizes)}
    return Inputs("MultiInput", DictSpace("gymnasium", ordered, None), columns, {}, (), None)
