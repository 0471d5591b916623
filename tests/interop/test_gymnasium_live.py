"""A decoded space becomes the space of gymnasium that was pickled, for every kind; in every real archive, too.

Run with real gymnasium: ``python -m pytest -m interop tests/interop/test_gymnasium_live.py``.
"""

from __future__ import annotations

import pickle
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("gymnasium")

from gymnasium import spaces

import sbformat
from sbformat import UnsupportedError
from sbformat.known.spaces import SPACE_TYPES, Space
from tests.helpers.build_blobs import understood
from tests.helpers.shared_files import generated_files

BOX = spaces.Box(np.array([-1, -np.inf], "f4"), np.array([np.inf, 2], "f4"))
REAL: dict[str, Any] = {
    "Box": BOX,
    "Box of bytes": spaces.Box(0, 255, (3, 4, 1), np.uint8),
    "Box of float64": spaces.Box(-np.inf, np.inf, (2, 2), np.float64),
    "Box of integers without bounds": spaces.Box(-np.inf, np.inf, (2,), np.int32),
    "Box without dimensions": spaces.Box(-1, 1, ()),
    "Discrete": spaces.Discrete(5, start=-2),
    "Discrete of int32": spaces.Discrete(5, dtype=np.int32),
    "MultiDiscrete": spaces.MultiDiscrete([3, 4]),
    "MultiDiscrete with start": spaces.MultiDiscrete(np.array([[3, 4], [5, 6]]), start=np.array([[1, 2], [3, -4]])),
    "MultiDiscrete of uint8": spaces.MultiDiscrete([3, 4], dtype=np.uint8),
    "MultiBinary": spaces.MultiBinary(4),
    "MultiBinary of a shape": spaces.MultiBinary((2, 3)),
    "Dict": spaces.Dict(OrderedDict(z=BOX, a=spaces.Dict(b=spaces.Discrete(2)))),
    "Dict that sorts nothing": spaces.Dict({"z": BOX, "a": BOX}, sort_keys=False),
    "Tuple": spaces.Tuple((BOX, spaces.Discrete(2), BOX)),
    "OneOf": spaces.OneOf((BOX, spaces.Text(3))),
    "Text": spaces.Text(7, min_length=0, charset="zyxa"),
    "Sequence": spaces.Sequence(spaces.Discrete(3)),
    "Sequence in one array": spaces.Sequence(BOX, stack=True),
    "Graph": spaces.Graph(BOX, spaces.Discrete(3)),
    "Graph without edges": spaces.Graph(BOX, None),
}


def test_every_kind_is_here() -> None:
    assert {type(real).__name__ for real in REAL.values()} == set(SPACE_TYPES)


@pytest.mark.parametrize("seed", [None, 3])
@pytest.mark.parametrize("what", REAL)
def test_it_is_the_space_that_was_pickled(what: str, seed: int | None) -> None:
    real = pickle.loads(pickle.dumps(REAL[what]))
    if seed is not None:
        real.seed(seed)
    found = understood(pickle.dumps(real))
    made = found.to_gymnasium()
    assert made == real
    assert real == made
    assert plain_state(made) == plain_state(real)
    made.seed(1)
    real.seed(1)
    assert str(made.sample()) == str(real.sample())


@pytest.mark.filterwarnings("ignore:.*Casting input x to numpy array")
def test_elements_are_those_of_gymnasium() -> None:
    """What either draws is an element for both; a space without others within draws the same."""
    values = [0, -2, 2.5, "ab", (), (0, 1), [1, 1], {"a": 1}, np.array([1, 0]), np.zeros((2, 2)), np.int32(3), True]
    rng = np.random.default_rng(0)
    for what, real in REAL.items():
        ours = understood(pickle.dumps(real))
        if what.startswith("Graph") or what == "Sequence in one array":
            continue
        made = [ours.sample(rng) for _ in range(10)]
        drawn = [real.sample() for _ in range(10)]
        assert all(map(ours.contains, drawn)), what
        assert all(map(real.contains, made)), what
        assert [ours.contains(value) for value in values] == [real.contains(value) for value in values], what
        if not ours.inner_spaces():
            real.seed(7)
            same = np.random.default_rng(np.random.SeedSequence(7))
            assert repr([ours.sample(same) for _ in range(20)]) == repr([real.sample() for _ in range(20)]), what


def plain_state(space: Any) -> Any:
    """The attributes of a space, but for its generator, with their types."""
    if isinstance(space, spaces.Space):
        kept = {key: part for key, part in vars(space).items() if key not in ("_np_random", "low_repr", "high_repr")}
        return type(space), {key: plain_state(part) for key, part in sorted(kept.items())}
    if isinstance(space, dict):
        return [(key, plain_state(part)) for key, part in space.items()]
    if isinstance(space, (list, tuple)):
        return [plain_state(part) for part in space]
    return (space.dtype, space.shape, space.tobytes()) if isinstance(space, np.ndarray) else space


def test_parts_that_are_shared_stay_shared() -> None:
    nested = spaces.Discrete(2)
    for _ in range(40):
        nested = spaces.Tuple((nested, nested))
    made = understood(pickle.dumps(nested)).to_gymnasium()
    assert made[0] is made[1]


@pytest.mark.filterwarnings("ignore:numpy.core:DeprecationWarning")  # older pickles, when numpy 2 runs them
@pytest.mark.parametrize("path", generated_files("*.zip", "[0-9]*", "extra"))
def test_the_spaces_of_real_archives(path: Path) -> None:
    archive = sbformat.read(path)
    for key in ("observation_space", "action_space"):
        found = archive.decode(key)
        assert isinstance(found, Space)
        made = found.to_gymnasium()
        assert type(made).__name__ == found.class_name
        if found.library == "gymnasium":
            assert made == pickle.loads(archive.data[key].pickle)


def test_what_gymnasium_refuses_is_an_error_of_ours() -> None:
    found = understood(pickle.dumps(spaces.Discrete(5)))
    broken = type(found)(found.library, 0, 0, found.dtype, None)
    with pytest.raises(UnsupportedError, match="gymnasium refuses a Discrete space: "):
        broken.to_gymnasium()
