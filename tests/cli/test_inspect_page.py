"""The page that ``inspect`` prints of one file: it fits a screen, and says what is unusual in the file."""

from __future__ import annotations

import base64
import io
import pickle
import re
import runpy
import sys
import zipfile
from collections import deque
from typing import TYPE_CHECKING, Any

import pytest

import sbformat
from sbformat.cli import _inspect_page, main
from sbformat.cli._inspect_page import render_space
from sbformat.data import Serialized
from tests.helpers.bundled import ARCHIVES, PPO, SAC, changed, with_data
from tests.helpers.forks import run_fresh
from tests.helpers.http_server import HttpServer
from tests.helpers.large_agents import make_many_tensors
from tests.helpers.run_folders import make_evaluations, make_folder, make_zoo
from tests.policies.run.models import box, dict_space

if TYPE_CHECKING:
    from pathlib import Path

EVIL = b"\x80\x02cos\nsystem\nX\x04\0\0\0true\x85R."
DANGEROUS = ARCHIVES / "dangerous.zip"
LINES, COLUMNS = 40, 100
PAGE = """\
agent.zip
  verdict of scan: clean

  summary
    format             Stable-Baselines3 archive of SB3 2.9.2
    algorithm          PPO
    policy class       stable_baselines3.common.policies.ActorCriticPolicy
    observation space  Box([-4.8, -inf, -0.41887903, -inf], [4.8, inf, 0.41887903, inf], (4,), <f4)
    action space       Discrete(2)
    saved with         Python 3.11.7, PyTorch 2.13.0+cpu, Numpy 2.4.6, Gymnasium 1.4.0
    contents           6 entries, 28.7 KiB, 251 parameters

  network
    policy  4 -> 8 -> 8 -> 2 Tanh
    value   4 -> 8 -> 8 -> 1 Tanh

  training
    timesteps  32 of 32 planned
    run        1 update, 1 environment, seed 0, started 2026-11-20 12:19 UTC

  hyper-parameters that differ from the defaults of PPO in SB3 2.9
    n_steps                 32  (default 2048)
    batch_size              32  (default 64)
    n_epochs                1  (default 10)
    policy_kwargs.net_arch  [8, 8]  (not set by default)

  --long shows everything: all hyper-parameters, entries, layers and tensors

"""


def show(capsys: pytest.CaptureFixture[str], *args: object, status: int = 0) -> str:
    assert main(["inspect", *map(str, args)]) == status
    out, err = capsys.readouterr()
    assert err == ""
    return out


def test_the_page_of_an_agent(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "agent.zip").write_bytes(PPO.read_bytes())
    assert show(capsys, "agent.zip") == PAGE


BUNDLED = sorted(path for path in ARCHIVES.iterdir() if path.suffix in (".zip", ".pth", ".pkl"))


@pytest.mark.parametrize("path", BUNDLED, ids=lambda path: path.name)
def test_every_page_fits_a_screen(
    capsys: pytest.CaptureFixture[str], path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ARCHIVES)
    lines = show(capsys, path.name).splitlines()
    assert len(lines) <= LINES
    assert max(map(len, lines)) <= COLUMNS
    assert lines[-2].startswith("  --long shows everything")
    assert len(show(capsys, path.name, "--long").splitlines()) > len(lines)


def test_the_page_of_a_large_agent_fits_a_screen(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Long values are shortened, long notes folded, and of many rows the first are shown."""
    keys: dict[str, Any] = dict.fromkeys(("gamma", "gae_lambda", "ent_coef", "vf_coef", "target_kl"), 0.123456789)
    keys |= {"sde_sample_freq": 4, "max_grad_norm": 0.7, "n_epochs": 3, "normalize_advantage": False}
    keys |= {"policy_kwargs": {f"argument_{number}": "long " * 40 for number in range(30)}}
    archive = sbformat.read(PPO)
    observation = sbformat.read(SAC).data["_last_original_obs"]
    sbformat.write(
        archive.replace(data={**archive.data, **keys, "_last_original_obs": observation}), tmp_path / "a.zip"
    )
    lines = show(capsys, tmp_path / "a.zip").splitlines()
    assert len(lines) <= LINES + 5  # of a policy that nobody has
    assert max(map(len, lines[1:])) <= COLUMNS
    assert "    \u2026 and 27 more" in lines
    assert re.search(r"note +trained behind VecNormalize: .*\n {23}\S", "\n".join(lines))


@pytest.mark.parametrize("path", BUNDLED, ids=lambda path: path.name)
def test_long_has_the_page_and_below_it_the_details(
    capsys: pytest.CaptureFixture[str], path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tables that are whole among the details are not on the page above them."""
    monkeypatch.chdir(ARCHIVES)
    monkeypatch.setattr(_inspect_page, "_WIDTH", 1000)
    page, whole = (show(capsys, path.name, *words).splitlines() for words in ((), ("--long",)))
    titles = [line for line in whole if re.match(r"  [^ ]", line)]
    assert len(set(titles)) == len(titles)
    left_out = ("  normalization", "  attributes", "  arrays", "  tensors", "  hyper-parameters")
    kept = [part for part in "\n".join(page[:-2]).split("\n\n") if not part.startswith(left_out)]
    assert all(line in whole for part in kept for line in part.split("\n") if "\u2026" not in line)
    assert "  summary" in titles
    assert any(title.startswith("  entries") for title in titles)


def test_long_says_why_an_algorithm_is_named_and_shortens_no_sentence(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    shown = " ".join(show(capsys, "--long", DANGEROUS, PPO).split())
    assert shown.count("verdict of scan: ") == 2
    assert "verdict of scan: dangerous (harmful), 2 findings" in shown
    assert shown.count("because policy_class is stable_baselines3.common.policies.ActorCriticPolicy, and data") == 2
    own = tmp_path / "own.zip"
    serialized = base64.b64encode(b"\x80\x02}X\x18\0\0\0features_extractor_classcmine\nExtractor\ns.").decode()
    own.write_bytes(with_data(lambda data: data.update(policy_kwargs={":serialized:": serialized})))
    page, whole = (show(capsys, own, *words) for words in ((), ("--long",)))
    page, whole = (text.partition("\n  network\n")[2].partition("\n\n")[0] for text in (page, whole))
    assert page.endswith("\u2026")
    assert whole.startswith(page.splitlines()[0])
    assert "\u2026" not in whole


def test_layers_that_are_shared_are_counted_once(capsys: pytest.CaptureFixture[str]) -> None:
    out = show(capsys, "--long", ARCHIVES / "ppo-cartpole-1.0.zip")
    counts = [line.split()[-1] for line in out.partition("network: layers")[2].partition("\n\n")[0].splitlines()[2:]]
    assert counts.count("shared") == 1
    total = sum(int(count) for count in counts if count != "shared")
    assert f"network: layers ({total} parameters)" in out


def test_keys_that_are_left_out_are_named_with_their_limit(capsys: pytest.CaptureFixture[str]) -> None:
    out = show(capsys, PPO, "--limit", "json_bytes=3000", status=1)
    assert "verdict of scan: broken, 1 finding" in out
    option = re.search(r"\n  keys of data that are left out, .*\n    policy_class +3\.2 KiB  .* (--limit \S+)\n", out)
    assert option is not None
    assert "left out" not in show(capsys, PPO, *option[1].split())
    assert "(default null)" not in out  # of a value that is not known


def test_data_beyond_a_limit_is_broken(capsys: pytest.CaptureFixture[str]) -> None:
    out = show(capsys, PPO, "--limit", "json_bytes=100", status=1)
    assert re.search(r"\n  broken\n    entry +outcome +why\n    data +limit exceeded +expected json_bytes <= 100", out)


def test_a_bundle_has_the_settings_of_its_statistics(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    sbformat.write(sbformat.bundle(SAC, ARCHIVES / "vecnormalize-pendulum.pkl"), tmp_path / "a.zip")
    out = show(capsys, tmp_path / "a.zip")
    assert "settings       norm_obs true, norm_reward true, clip_obs 10.0, epsilon 1e-08, gamma 0.99\n" in out
    assert "normalis" not in out


# -- the run of an agent ------------------------------------------------------------------------------


def test_the_page_of_an_agent_of_a_run_has_its_environment_and_evaluations(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("yaml")
    zoo = make_folder(make_zoo(tmp_path), {"evaluations.npz": make_evaluations()})
    best, environment = zoo / "best_model.zip", "    environment  Pendulum-v1  (Pendulum-v1/args.yml)\n"
    out = show(capsys, best)
    assert environment in out
    assert "    evaluations  3: best 5.5 at 200, last 3.5 at 300\n" in out
    assert environment in show(capsys, "--long", best)
    assert environment not in show(capsys, zoo / "Pendulum-v1" / "vecnormalize.pkl")
    monkeypatch.setattr(_inspect_page, "_MOST_LOGGED", (zoo / "evaluations.npz").stat().st_size - 1)
    out = show(capsys, best)
    assert (environment in out, "evaluations" in out) == (True, False)
    (zoo / "0.monitor.csv").write_text('#{"env_id": "Walk-v4"}\nr,l,t\n')
    assert "    environment  Walk-v4  (0.monitor.csv)\n" in show(capsys, zoo / "rl_model_200_steps.zip")


# -- the verdict --------------------------------------------------------------------------------------


def test_a_dangerous_file_names_the_next_command(capsys: pytest.CaptureFixture[str]) -> None:
    out = show(capsys, DANGEROUS)
    assert f"\n  verdict of scan: dangerous (harmful), 2 findings: sbformat scan {DANGEROUS}\n" in out
    assert "policy  4 -> 8 -> 8 -> 2 Tanh" in out


def test_the_bundled_dangerous_file_is_what_its_program_makes() -> None:
    made = runpy.run_path(str(ARCHIVES / "make_dangerous.py"))
    assert made["make"]() == DANGEROUS.read_bytes()
    assert sbformat.scan(DANGEROUS).verdict == "dangerous"


def test_the_verdict_is_that_of_scan(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "damaged.zip").write_bytes(changed(policy_pth=b"x"))
    (tmp_path / "code.zip").write_bytes(with_data(lambda data: data.update(lr_schedule={":type:": "x"})))
    for path, status in ((tmp_path / "damaged.zip", 1), (tmp_path / "code.zip", 0), (DANGEROUS, 0), (PPO, 0)):
        found = sbformat.scan(path)
        out = show(capsys, path, status=status)
        assert f"verdict of scan: {found.verdict}" in out
        assert (f" {len(found.findings)} finding" in out) == (found.verdict != "clean")


def test_a_damaged_file_shows_what_can_be_read(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "a.zip").write_bytes(changed(policy_pth=b"x"))
    out = show(capsys, tmp_path / "a.zip", status=1)
    assert "verdict of scan: broken" in out
    assert "contents           6 entries" in out
    assert "parameters" not in out.partition("network")[0]
    assert "    n_steps                 32  (default 2048)" in out
    assert re.search(r"\n  broken\n    entry +outcome +why\n    policy\.pth ", out)


def test_an_unzipped_archive_has_a_verdict(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with zipfile.ZipFile(DANGEROUS) as file:
        file.extractall(tmp_path)
    assert "verdict of scan: dangerous (harmful), 2 findings" in show(capsys, tmp_path)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("below/evil.pkl", EVIL), (".evil.pkl", EVIL),
        (".hidden/evil.pkl", EVIL),
        ("env/args.yml", b'!!python/object/apply:os.system ["true"]'),
    ],
)  # fmt: skip
def test_the_verdict_of_an_unzipped_archive_is_on_all_that_is_in_the_folder(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str, content: bytes
) -> None:
    with zipfile.ZipFile(PPO) as archive:
        archive.extractall(tmp_path)
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_bytes(content)
    assert main(["inspect", str(tmp_path)]) == 0
    assert "verdict of scan: dangerous (harmful), " in capsys.readouterr().out


def test_standard_input_is_read_once(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.TextIOWrapper(io.BytesIO(DANGEROUS.read_bytes()))
    monkeypatch.setattr(sys, "stdin", stream)
    out = show(capsys, "-")
    assert out.startswith("<stdin>\n  verdict of scan: dangerous (harmful), 2 findings: sbformat scan -\n")


def test_a_large_file_is_not_scanned(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_inspect_page, "_MOST_SCANNED", PPO.stat().st_size)
    assert "verdict of scan: clean" in show(capsys, PPO)
    monkeypatch.setattr(_inspect_page, "_MOST_SCANNED", PPO.stat().st_size - 1)
    out = show(capsys, PPO)
    assert f"\n  verdict of scan: not checked, because it is larger than 29.4 KiB: sbformat scan {PPO}\n" in out


def test_a_remote_file_is_not_fetched_for_its_verdict(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("aiohttp")
    with HttpServer({"/small.zip": PPO.read_bytes(), "/large.zip": make_many_tensors(3, 200_000)}) as server:
        assert "verdict of scan: clean" in show(capsys, server.url("/small.zip"))
        url = server.url("/large.zip")
        out = show(capsys, url)
    assert f"verdict of scan: not checked, because not all of it was fetched: sbformat scan {url}" in out
    assert re.search(r"^    not checked +parts of 2 entries that were not fetched$", out, re.MULTILINE)


def test_only_the_page_is_scanned() -> None:
    assert any(name.startswith("sbformat.tools.scan") for name in run_fresh("inspect", PPO).modules)
    for words in (("--format", "json"), (PPO,)):
        loaded = run_fresh("inspect", PPO, *words).modules
        assert not [name for name in loaded if name.startswith("sbformat.tools.scan")]


# -- what the rows say --------------------------------------------------------------------------------


def test_of_an_unknown_algorithm_all_hyperparameters_are_shown(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    values = {key: value for key, value in sbformat.read(PPO).data.items() if key in ("gamma", "observation_space")}
    sbformat.write(sbformat.read(PPO).replace(data={**values, "temperature": 7}), tmp_path / "a.zip")
    out = show(capsys, tmp_path / "a.zip")
    assert re.search(r"\n  hyper-parameters\n    gamma +0\.99\n    temperature +7\n", out)
    assert "algorithm          unknown (not certain)" in out


def test_an_agent_of_all_defaults_says_so(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    archive = sbformat.read(PPO)
    usual = {"n_steps": 2048, "batch_size": 64, "n_epochs": 10, "policy_kwargs": {}}
    sbformat.write(archive.replace(data={**archive.data, **usual}), tmp_path / "a.zip")
    assert "\n  hyper-parameters that differ from the defaults of PPO in SB3 2.9\n    none\n" in show(
        capsys, tmp_path / "a.zip"
    )


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        ({"start_time": 1_600_000_000.5}, "started 2020-09-13 12:26 UTC"),
        ({"start_time": 1_600_000_000 * 10**9}, "started 2020-09-13 12:26 UTC"),
        ({"start_time": 0.0}, "seed 0"),
        ({"start_time": 10**400}, "seed 0"),
        ({"seed": None}, "1 environment"),
        ({"n_envs": 8, "seed": 3}, "8 environments, seed 3"),
    ],
    ids=str,
)
def test_the_line_of_the_run(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, values: dict[str, Any], shown: str
) -> None:
    start = {"start_time": 0.0}
    (tmp_path / "a.zip").write_bytes(with_data(lambda data: data.update({**start, **values})))
    assert re.search(rf"^    run +1 update, .*\b{re.escape(shown)}$", show(capsys, tmp_path / "a.zip"), re.MULTILINE)


def test_the_mean_reward_of_the_last_episodes(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    episodes = deque([{"r": 1.0, "l": 10, "t": 0.1}, {"r": 2.0, "l": 20, "t": 0.2}], maxlen=100)
    rows = {"ep_info_buffer": Serialized("<class 'collections.deque'>", pickle.dumps(episodes, 4)), "_episode_num": 9}
    archive = sbformat.read(SAC)
    for values, shown in (
        (rows, "mean reward  1.5 over the last 2 episodes of 9, mean length 15"),
        ({"_episode_num": 9}, "episodes   9"),
        ({"num_timesteps": 1200, "_total_timesteps": 1e6}, "timesteps  1,200 of 1,000,000 planned"),
    ):
        sbformat.write(archive.replace(data={**archive.data, **values}), tmp_path / "a.zip", overwrite=True)
        assert f"    {shown}\n" in show(capsys, tmp_path / "a.zip")


def test_a_long_space_is_shown_by_its_sizes() -> None:
    short = box(3)
    assert render_space(short, "action_space") == "Box(-1.5, 2.0, (3,), <f4)"
    text = render_space(dict_space(**{f"part_{number}": short for number in range(40)}), "observation_space")
    assert text.startswith("Dict(part_0: Box((3,), <f4), part_1: Box((3,), <f4), ")
    assert len(text) <= COLUMNS - len("    observation space  ")
