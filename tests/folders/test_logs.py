"""Logs of training beside an agent: evaluations.npz, monitor.csv, progress.csv and event files of TensorBoard."""

from __future__ import annotations

import base64
import io
import json
import random
import struct
import zipfile
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest

import sbformat
from sbformat.errors import DataError, LimitError, SbformatError
from sbformat.folders.logs import METRICS_FILE, Curve, Log, Training, is_log, read_log, read_training
from sbformat.limits import DEFAULT_LIMITS, Limits
from tests.cli.test_commands import run
from tests.helpers.bundled import zipped
from tests.helpers.reports import REPORT
from tests.helpers.run_folders import AGENT, PENDULUM, make_evaluations, make_folder

if TYPE_CHECKING:
    from pathlib import Path

EVENTS: Final = base64.b64decode(
    "SAAAAAAAAAD+kkidCfQitlrgwtpBGg1icmFpbi5FdmVudDoyUi4KLHRlbnNvcmJvYXJkLnN1bW1hcnkud3JpdGVyLmV2ZW50X2Zp"
    "bGVfd3JpdGVyUbEEgCkAAAAAAAAAN/9fAAkjMbZa4MLaQRBkKhwKGgoTcm9sbG91dC9lcF9yZXdfbWVhbhUAAMA/HcbZASAAAAAA"
    "AAAAKe2pUAmcMbZa4MLaQRBkKhMKEQoKdHJhaW4vbG9zcxXNzMw9n+JDACoAAAAAAAAAro2R9QnFMbZa4MLaQRDIASocChoKE3Jv"
    "bGxvdXQvZXBfcmV3X21lYW4VAAAQwB0QcIohAAAAAAAAAAF77PYJ6jG2WuDC2kEQyAEqEwoRCgp0cmFpbi9sb3NzFc3MzD1DEmVs"
    "KgAAAAAAAACujZH1CQsytlrgwtpBEKwCKhwKGgoTcm9sbG91dC9lcF9yZXdfbWVhbhUAAIBASbWb6CEAAAAAAAAAAXvs9gknMrZa"
    "4MLaQRCsAioTChEKCnRyYWluL2xvc3MVzczMPRjMEsMnAAAAAAAAALvhsUYJSDK2WuDC2kEQyAEqGQoXChBldmFsL21lYW5fcmV3"
    "YXJkFQAAYEBTzTbiOgAAAAAAAAASleriCfkytlrgwtpBKi8KLQoUaHBhcmFtcy90ZXh0X3N1bW1hcnlCCwgHEgQSAggBQgF4SggK"
    "BgoEdGV4dE9WTzA="
)
"""Written by ``torch.utils.tensorboard`` of torch 2.13: two scalars at each of three steps, an evaluation, a text."""
MONITOR: Final = b'#{"t_start": 100.0, "env_id": "CartPole-v1"}\nr,l,t\n10.0,10,1.0\n30.0,30,5.0\n'
SECOND: Final = b'#{"t_start": 102.0, "env_id": "CartPole-v1"}\nr,l,t\n20.0,20,1.0\n4'
PROGRESS: Final = (
    b"time/total_timesteps,rollout/ep_rew_mean,eval/mean_reward\n128,1.5,\n256,,7.0\n,3,\n512,nan,9\n640,2.5,\n"
)


def read(path: Path, name: str, content: bytes) -> Log:
    (path / name).write_bytes(content)
    assert is_log(name)
    return read_log(str(path / name), DEFAULT_LIMITS)


def test_evaluations_are_means_of_episodes(tmp_path: Path) -> None:
    found = read(tmp_path, "evaluations.npz", make_evaluations(ep_lengths=np.ones((3, 2))))
    assert found == Log(evaluations=Curve((100, 200, 300), (1.5, 5.5, 3.5)))
    assert found.evaluations is not None
    assert found.evaluations.best == 1


@pytest.mark.parametrize(
    "arrays",
    [{"results": None}, {"results": np.ones(3)}, {"results": np.ones((2, 2))}, {"results": np.ones((3, 0))}],
    ids=["none", "flat", "other length", "empty"],
)
def test_other_arrays_are_refused(tmp_path: Path, arrays: Any) -> None:
    with pytest.raises(DataError, match="expected the arrays timesteps"):
        read(tmp_path, "evaluations.npz", make_evaluations(**arrays))


@pytest.mark.parametrize(
    "arrays",
    [{"timesteps": np.array([1.0, 2, 3])}, {"results": np.full((3, 2), "a")}, {"results": np.ones((3, 2), complex)}],
    ids=["steps with fractions", "texts", "complex"],
)
def test_arrays_of_other_types_are_refused(tmp_path: Path, arrays: Any) -> None:
    with pytest.raises(SbformatError, match="expected integers and numbers|dtype|numbers"):
        read(tmp_path, "evaluations.npz", make_evaluations(**arrays))


def test_points_that_are_not_finite_are_left_out(tmp_path: Path) -> None:
    results = np.array([[1e308, 1e308], [np.nan, 1], [2, 4]])
    assert read(tmp_path, "evaluations.npz", make_evaluations(results=results)).evaluations == Curve((300,), (3.0,))
    results[2] = np.inf
    assert read(tmp_path, "evaluations.npz", make_evaluations(results=results)) == Log()
    monitor = b"#{}\nr,l,t\n1e308,1,1\nnan,1,2\n-inf,1,3\n7,5,4\n"
    assert read(tmp_path, "monitor.csv", monitor).episodes == ((4.0, 7.0, 5),)


def read_zip(path: Path, data: bytes, limits: Limits = DEFAULT_LIMITS, **others: bytes) -> Training:
    make_folder(path, {METRICS_FILE: data, **{name.replace("_csv", ".csv"): others[name] for name in others}})
    names = [METRICS_FILE, *(name.replace("_csv", ".csv") for name in others)]
    return read_training(str(path), names, [], limits)


def test_a_zip_of_logs_is_read_like_the_logs_in_it(tmp_path: Path) -> None:
    inside = {"run/evaluations.npz": make_evaluations(), "0.monitor.csv": MONITOR, "notes.txt": b"", "a.zip": b"PK"}
    found = read_zip(tmp_path, zipped(inside))
    assert found.evaluations == Curve((100, 200, 300), (1.5, 5.5, 3.5))
    assert found.training == Curve((10, 40), (10.0, 20.0))
    assert (found.env, found.problems) == ("CartPole-v1", {})
    assert found.files == (f"{METRICS_FILE}/run/evaluations.npz", f"{METRICS_FILE}/0.monitor.csv")


def test_logs_that_are_also_beside_the_agent_count_once(tmp_path: Path) -> None:
    found = read_zip(tmp_path, zipped({"progress.csv": b"steps\n", "0.monitor.csv": MONITOR}), progress_csv=PROGRESS)
    assert found.files == ("progress.csv", f"{METRICS_FILE}/0.monitor.csv")


def test_a_log_in_a_zip_that_cannot_be_read_stops_no_other(tmp_path: Path) -> None:
    objects = make_evaluations(results=np.array([[1, "a"]] * 3, object))
    found = read_zip(tmp_path, zipped({METRICS_FILE: b"", "evaluations.npz": objects, "0.monitor.csv": MONITOR}))
    assert list(found.problems) == [f"{METRICS_FILE}/evaluations.npz"]
    assert found.files == (f"{METRICS_FILE}/0.monitor.csv",)


def test_a_zip_of_logs_that_is_large_when_inflated_is_refused(tmp_path: Path) -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr("0.monitor.csv", bytes(10_001))
        made.writestr("1.monitor.csv", MONITOR)
        made.writestr("2.monitor.csv", bytes(10_000))
    found = read_zip(tmp_path, file.getvalue(), Limits(json_bytes=10_000))
    assert found.files == (f"{METRICS_FILE}/1.monitor.csv",)
    assert list(found.problems) == [f"{METRICS_FILE}/0.monitor.csv", f"{METRICS_FILE}/2.monitor.csv"]
    assert all("expected json_bytes <= 10,000" in problem for problem in found.problems.values())


def test_every_truncation_of_a_zip_of_logs_is_a_problem(tmp_path: Path) -> None:
    data = zipped({"0.monitor.csv": MONITOR})
    for size in range(len(data)):
        found = read_zip(tmp_path, data[:size])
        assert (list(found.problems), found.files) == ([METRICS_FILE], ())


def test_objects_are_not_unpickled(tmp_path: Path) -> None:
    with pytest.raises(SbformatError):
        read(tmp_path, "evaluations.npz", make_evaluations(results=np.array([[1, "a"]] * 3, object)))


def test_a_monitor_has_the_environment_and_episodes(tmp_path: Path) -> None:
    found = read(tmp_path, "0.monitor.csv", MONITOR)
    assert (found.env, found.episodes) == ("CartPole-v1", ((101.0, 10.0, 10), (105.0, 30.0, 30)))
    assert read(tmp_path, "monitor.csv", b"#{}\nr,l,t\nx,1,2\n1,2\n").episodes == ((0.0, 1.0, 2),)
    assert read(tmp_path, "monitor.csv", b"#[[[\n\xff").episodes == ()


def test_monitors_are_joined_in_the_order_of_time(tmp_path: Path) -> None:
    make_folder(tmp_path, {"0.monitor.csv": MONITOR, "1.monitor.csv": SECOND})
    found = read_training(str(tmp_path), ["0.monitor.csv", "1.monitor.csv"], [], DEFAULT_LIMITS)
    assert found.training == Curve((10, 30, 60), (10.0, 15.0, 20.0))


def test_rewards_are_means_of_a_hundred_episodes(tmp_path: Path) -> None:
    lines = "".join(f"{number},1,{number}\n" for number in range(300))
    make_folder(tmp_path, {"monitor.csv": f"#{{}}\nr,l,t\n{lines}".encode()})
    curve = read_training(str(tmp_path), ["monitor.csv"], [], DEFAULT_LIMITS).training
    assert curve is not None
    assert (curve.steps[-1], curve.rewards[99], curve.rewards[-1]) == (300, 49.5, 249.5)
    thin = curve.thin(7)
    assert (len(thin.steps), thin.steps[-1]) == (7, 300)


def test_progress_has_both_curves(tmp_path: Path) -> None:
    found = read(tmp_path, "progress.csv", PROGRESS)
    assert found == Log(evaluations=Curve((256, 512), (7.0, 9.0)), training=Curve((128, 640), (1.5, 2.5)))
    assert read(tmp_path, "progress.csv", b"steps,mean 100 episode reward\n5,2\n").training == Curve((5,), (2.0,))
    with pytest.raises(DataError, match="expected lines of at most 100,000 characters in a CSV file"):
        read(tmp_path, "progress.csv", b"a,b\n" + b"x" * 200_000)


def test_an_event_file_has_both_curves(tmp_path: Path) -> None:
    found = read(tmp_path, "events.out.tfevents.1.host", EVENTS)
    assert found == Log(evaluations=Curve((200,), (3.5,)), training=Curve((100, 200, 300), (1.5, -2.25, 4.0)))


def test_an_event_file_that_was_cut_off_has_what_is_whole(tmp_path: Path) -> None:
    counts = []
    for size in range(len(EVENTS)):
        try:
            found = read(tmp_path, "events.out.tfevents.1.host", EVENTS[:size])
        except DataError:
            assert size < 100
            continue
        counts.append(len(found.training.steps) if found.training else 0)
    assert counts == sorted(counts)
    assert set(counts) == {0, 1, 2, 3}


def test_other_bytes_give_our_errors(tmp_path: Path) -> None:
    random_numbers = random.Random(0)  # noqa: S311
    for _ in range(500):
        data = bytearray(EVENTS)
        for _ in range(random_numbers.choice((1, 1, 5))):
            data[random_numbers.randrange(len(data))] = random_numbers.randrange(256)
        try:
            read(tmp_path, "events.out.tfevents.1.host", bytes(data))
        except SbformatError:
            continue
    for message in (b"\x0b", b"\x2a\x05a", b"\x10" + b"\xff" * 11, b"\x2d\0"):
        with pytest.raises(DataError, match="the event file has a"):
            read(tmp_path, "events.out.tfevents.1.host", struct.pack("<QI", len(message), 0) + message + b"0000")


def test_the_size_of_a_log_is_limited(tmp_path: Path) -> None:
    path = tmp_path / "monitor.csv"
    path.write_bytes(MONITOR)
    assert read_log(str(path), Limits(json_bytes=len(MONITOR))).episodes
    with pytest.raises(LimitError, match="json_bytes"):
        read_log(str(path), Limits(json_bytes=len(MONITOR) - 1))


def test_exact_values_come_before_those_of_tensorboard(tmp_path: Path) -> None:
    files = {"events.out.tfevents.1": EVENTS, "evaluations.npz": make_evaluations(), "progress.csv": PROGRESS}
    make_folder(tmp_path, {**files, "monitor.csv": b'#{"env_id": "None"}\nr,l,t\n'})
    found = read_training(str(tmp_path), [*files, "monitor.csv", "lost.monitor.csv"], [], DEFAULT_LIMITS)
    assert found.evaluations == Curve((100, 200, 300), (1.5, 5.5, 3.5))
    assert found.training == Curve((128, 640), (1.5, 2.5))
    assert (found.env, list(found.problems)) == (None, ["lost.monitor.csv"])
    assert Training(None, None, None, None, (), {}).to_json()["evaluations"] is None


def test_logs_belong_to_the_run_of_an_agent(tmp_path: Path) -> None:
    make_folder(tmp_path, {
        "a/best_model.zip": AGENT, "a/final.zip": AGENT, "a/evaluations.npz": make_evaluations(),
        "a/checkpoints/rl_model_10_steps.zip": AGENT,
        "b/one.zip": AGENT, "b/two.zip": PENDULUM, "b/progress.csv": PROGRESS,
        "b/one/monitor.csv": MONITOR,
    })  # fmt: skip
    found = {row.path: row.logs for row in sbformat.inspect_folder(tmp_path).agents}
    assert found == {
        "a/best_model.zip": ("a/evaluations.npz",),
        "a/final.zip": ("a/evaluations.npz",),
        "a/checkpoints/rl_model_10_steps.zip": ("a/evaluations.npz",),
        "b/one.zip": (),
        "b/two.zip": (),
    }


def test_inspect_shows_the_training_of_a_run(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    make_folder(tmp_path, {
        "best_model.zip": AGENT, "ppo.zip": AGENT, "evaluations.npz": make_evaluations(), "0.monitor.csv": MONITOR,
        "progress.csv": b"a,b\n" + b"x" * 200_000,
    })  # fmt: skip
    status, text = run(capsys, "inspect", tmp_path)
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert status == 0
    assert "best_model.zip and 1 more CartPole-v1 3 evaluations 5.5 at 200 3.5 at 300" in lines
    (tmp_path / "evaluations.npz").unlink()
    shown = [" ".join(line.split()) for line in run(capsys, "inspect", tmp_path)[1].splitlines()]
    assert "best_model.zip and 1 more CartPole-v1 2 means of 100 episodes 20 at 40 20 at 40" in shown
    make_folder(tmp_path, {"evaluations.npz": make_evaluations()})
    assert any(line.startswith("progress.csv expected lines of at most") for line in lines)
    status, text = run(capsys, "inspect", tmp_path, "--format", "json")
    document = json.loads(text)
    REPORT.validate(document)
    training = document["folders"][0]["agents"][0]["training"]
    assert training["evaluations"] == {
        "points": 3, "best": {"steps": 200, "reward": 5.5}, "last": {"steps": 300, "reward": 3.5},
    }  # fmt: skip


def test_the_environment_may_be_in_the_settings(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    pytest.importorskip("yaml")
    make_folder(tmp_path, {
        "Pendulum-v1.zip": PENDULUM, "evaluations.npz": make_evaluations(),
        "Pendulum-v1/args.yml": b"algo: sac\nenv: Pendulum-v1\nseed: 7\n",
    })  # fmt: skip
    _, text = run(capsys, "inspect", tmp_path, "--format", "json")
    document = json.loads(text)
    REPORT.validate(document)
    training = document["folders"][0]["agents"][0]["training"]
    assert (training["env"], training["seed"]) == ("Pendulum-v1", 7)
