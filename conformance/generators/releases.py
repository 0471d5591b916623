"""Archives that SB3 releases wrote, stored unchanged (FORMAT.md 11); see ``released/write.py``.

The expected output was computed by the torch release that wrote each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from conformance.generators.recorded import read_file, read_json
from conformance.generators.vectors import Rule, Vector

if TYPE_CHECKING:
    from collections.abc import Iterator

RELEASES: Final = (
    (
        "ppo-0.6.zip",
        "0.6: the oldest release checked; `tensors.pth`; `_current_progress`; A2C contains PPO's keys",
    ),
    ("sac-0.8.zip", "0.8: `_current_progress_remaining`, `_total_timesteps`, `_last_dones`"),
    ("td3-0.10.zip", "0.10: `remove_time_limit_termination` (to 1.4)"),
    ("a2c-1.0.zip", "1.0: `train_freq` a serialized `TrainFreq`"),
    ("ppo-1.3.zip", "1.3: `system_info.txt`"),
    ("dqn-1.6.zip", "1.6: zip64 requested in every `.pth`; `*batch_norm_stats*`; `start_time` in ns (1.6.1)"),
    ("sac-2.0.zip", "2.0: gymnasium spaces"),
    ("a2c-2.3.zip", "2.3.2: schedules wrapped in a lambda that casts to float: no more numpy learning rates"),
    (
        "ppo-2.6.zip",
        "2.4: `_rebuild_tensor_v3` for complex32 and float8; for uint16, uint32, uint64 seen with 2.6",
    ),
    (
        "ppo-2.9.zip",
        "2.7: schedules are `FloatSchedule`, `ConstantSchedule`, `LinearSchedule` objects; off-policy `n_steps`",
    ),
    (
        "sac-2.9.zip",
        "members have sentinel sizes in the local header; before, actual sizes and a redundant extra field",
    ),
    (
        "ars-2.9.zip",
        "2.7: schedules are `FloatSchedule`, `ConstantSchedule`, `LinearSchedule` objects; off-policy `n_steps`",
    ),
    ("policy-torch-1.4.pth", "1.6, 1.9, 2.1, 2.7: the zip is the default; then its records changed, see 6.1"),
    ("policy-torch-2.13.pth", "1.6, 1.9, 2.1, 2.7: the zip is the default; then its records changed, see 6.1"),
)
"""Files, and the row of section 11 that each shows."""
FEATURES: Final = {
    "ppo-0.6.zip": ("legacy",),
    "sac-0.8.zip": ("legacy",),
    "policy-torch-1.4.pth": ("legacy",),
    "a2c-1.0.zip": ("numpy-values",),
}


def vectors() -> Iterator[Vector]:
    """Yield the vectors of this family."""
    for file, sentence in RELEASES:
        name = f"released-{file.rpartition('.')[0]}"
        rule = Rule("11", sentence, *FEATURES.get(file, ()))
        yield rule.accepts(name, read_file(name), read_json(name, "expect"))
