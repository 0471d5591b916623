"""What findings and errors say is true of the file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

import sbformat
from sbformat import Limits, pkl
from tests.helpers import bundled
from tests.helpers.attacks import CONSTANT, function, in_blob, pickle
from tests.helpers.build_blobs import new

if TYPE_CHECKING:
    from sbformat.tools.scan.findings import ScanReport


CARRIED: Final = pickle(function((*CONSTANT[:7], (None, 1), *CONSTANT[8:])))


def sentences(report: ScanReport) -> str:
    return "\n".join(finding.message for finding in report.findings)


@pytest.mark.parametrize(
    ("key", "when"),
    [
        ("learning_rate", "SB3 calls a learning rate when it loads the agent"),
        ("clip_range", "SB3 calls this schedule when the agent trains"),
        ("policy_kwargs", "SB3 instantiates classes under this key when it loads the agent"),
        ("mine", "runs when it is called"),
    ],
)
def test_when_a_function_runs(key: str, when: str) -> None:
    found = sentences(sbformat.scan(in_blob(CARRIED, key)))
    assert when in found
    assert ("SB3 calls" in found or "SB3 instantiates" in found) == (key != "mine")


def test_an_object_of_a_class_that_is_known_only_by_name() -> None:
    """torch.save of a module writes this."""
    made = new("torch.nn.modules.linear", "Linear", {"training": True})
    found = sentences(sbformat.scan(in_blob(pkl.dumps(made), "x")))
    assert "sbformat knows torch.nn.modules.linear.Linear" in found
    assert "loading runs __new__, __setstate__" in found


def test_a_limit_is_named_where_it_ends_a_pickle() -> None:
    report = sbformat.scan(pkl.dumps([b"x" * 5000]), limits=Limits(pickle_bytes=1000))
    assert "pickle_bytes <= 1,000" in sentences(report)


def test_an_agent_is_named_where_statistics_are_expected() -> None:
    with pytest.raises(sbformat.MissingEntryError, match="this is an agent of PPO without statistics"):
        sbformat.read_vecnormalize(bundled.PPO)


def test_a_name_that_the_pickle_calls_is_not_said_to_be_only_imported() -> None:
    imported = "sbformat does not know my.Thing: loading imports its module"
    called = sentences(sbformat.scan(pkl.dumps(new("my", "Thing", {"a": 1})))).splitlines()
    assert any(line.startswith("an object of my.Thing() is created") for line in called)
    assert imported in called
    assert sentences(sbformat.scan(b"\x80\x02cmy\nThing\n.")) == f"{imported}, and calls nothing in it"
