"""``rebuild``: values of ``data`` that SB3 cannot load, and keys that it cannot do without (FORMAT.md 15.2)."""

from __future__ import annotations

from typing import Any

import pytest

from making_known import call, new
from making_old import BASES, blob, rebuilt, with_keys
from sbformat import Serialized, UnsupportedError, ValidationError
from sbformat.pkl import Call, Global
from sbformat.pth import StateDict
from sbformat.tools.rebuild import rebuild

NUMPY_FALSE = Call(
    "REDUCE", Global("numpy.core.multiarray", "scalar"), (Call("REDUCE", Global("numpy", "dtype"), ("b1", False, True)), b"\0")
)
SYSTEM = call("os", "system", "true")


# -- the shapes ---------------------------------------------------------------------------------------


def test_a_numpy_bool_does_not_turn_the_check_of_shapes_off() -> None:
    made, _, report = rebuilt(with_keys(use_sde=blob(NUMPY_FALSE)))
    assert made.data["use_sde"] is False
    assert report.findings == ()
    with pytest.raises(UnsupportedError, match="its weights do not fit"):
        rebuild(with_keys(use_sde=blob(NUMPY_FALSE), policy_kwargs={"net_arch": [9]}))
