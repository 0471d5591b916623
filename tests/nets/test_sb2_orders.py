"""The names of parameters without names, held to the lists of real Stable Baselines 2.

``sb2_lists.txt`` has what SB2 2.0 to 2.10 would save for each algorithm and policy, and for the keywords, spaces and
settings that change the list; ``archives/make_sb2_lists.py`` made it.
"""

from __future__ import annotations

import json
import struct
from collections import Counter
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

import sbformat
from sbformat.data import Serialized
from sbformat.formats.sb2 import Names, infer_algorithm
from sbformat.known.spaces import Box, Discrete, MultiBinary, MultiDiscrete
from sbformat.known.types import CarriedClass, Instance, Partial, Reference
from sbformat.nets.sb2_orders import name_parameters
from sbformat.pkl import Global
from sbformat.pkl.numpy import ArrayInfo
from sbformat.values import decode
from tests.helpers.build_blobs import decode_outcome
from tests.helpers.count_work import count_calls
from tests.helpers.many_cases import check_all, check_each
from tests.helpers.sampling import with_exhaustive
from tests.helpers.shared_files import CORPUS, GENERATED, summarize_counts

TABLE: Final = Path(__file__).parent / "sb2_lists.txt"
OFF_POLICY: Final = {"DQN": "deepq", "DDPG": "ddpg", "SAC": "sac", "TD3": "td3"}
NEWER_NAMES: Final = (("model/logstd:", "model/pi/logstd:"), ("/qf/qf/", "/qf/qf_output/"))
"""Two variables that releases named differently: their newer names stand for both."""
CUSTOM: Final = Global("utils", "CustomPolicy")

DECODED: Final[Counter[str]] = Counter()
_summary = summarize_counts(DECODED, "test_sb2_orders.py named")


# -- the table ----------------------------------------------------------------------------------------


class Row(NamedTuple):
    releases: tuple[str, ...]
    algorithms: tuple[str, ...]
    policy: str
    keywords: dict[str, Any]
    seen: str
    action: str
    settings: dict[str, Any]
    variables: list[tuple[str, tuple[int, ...]]]

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        return [shape for _, shape in self.variables]

    @property
    def names(self) -> tuple[str, ...]:
        found: list[str] = []
        copies: Counter[str] = Counter()
        for name, _ in self.variables:
            copies[name] += 1
            newer = f"{name}:0"
            for old, new in NEWER_NAMES:
                newer = newer.replace(old, new)
            found.append(newer if copies[name] == 1 else f"{newer}#{copies[name]}")
        return tuple(found)


def variables(text: str) -> list[tuple[str, tuple[int, ...]]]:
    """Read a list of ``scope/name=3x4``.

    A bare ``name`` is in the same scope, ``../`` a neighbour's; ``other:=scope`` is a copy, ``twice`` all so far again.
    """
    rows: list[tuple[str, tuple[int, ...]]] = []
    folder = ""
    for word in text.split():
        if word == "twice":
            rows *= 2
        elif ":=" in word:
            scope, source = word.split(":=")
            copied = dict.fromkeys(row for row in rows if row[0].startswith(f"{source}/"))
            rows += [(scope + name.removeprefix(source), shape) for name, shape in copied]
        else:
            name, _, size = word.partition("=")
            if name.startswith("../"):
                name = folder.rpartition("/")[0] + name.removeprefix("..")
            name = name if "/" in name else f"{folder}/{name}"
            folder = name.rpartition("/")[0]
            rows.append((name, () if size == "-" else tuple(map(int, size.split("x")))))
    return rows


def table() -> list[Row]:
    rows = []
    for line in TABLE.read_text(encoding="utf-8").splitlines():
        releases, algorithms, *cells, listed = line.split("\t")
        rows.append(Row(tuple(releases.split()), tuple(algorithms.split()), *map(json.loads, cells), variables(listed)))
    return rows


ROWS: Final = table()


def array(*items: int) -> ArrayInfo:
    return ArrayInfo("<i8", (len(items),), "C", struct.pack(f"<{len(items)}q", *items), is_scalar=False)


def box(*shape: int) -> Box:
    bound = ArrayInfo("<f4", (), "C", bytes(4), is_scalar=True)
    return Box("gym", shape, "float32", bound, bound, None)


SPACES: Final[dict[str, Any]] = {
    "box4": box(4),
    "box2": box(2),
    "box2x3": box(2, 3),
    "image": box(44, 44, 3),
    "discrete5": Discrete("gym", 5, 0, "int64", None),
    "discrete3": Discrete("gym", 3, 0, "int64", None),
    "multi3x4": MultiDiscrete("gym", array(3, 4), None, "int64", None),
    "multi2x3": MultiDiscrete("gym", array(2, 3), None, "int64", None),
    "bits6": MultiBinary("gym", (6,), "int8", None),
    "bits4": MultiBinary("gym", (4,), "int8", None),
}


def module_of(algorithm: str) -> str:
    return f"stable_baselines.{OFF_POLICY.get(algorithm, 'common')}.policies"


def has_keywords(release: str) -> bool:
    return number(release) >= (2, 4)


def number(release: str) -> tuple[int, ...]:
    return tuple(map(int, release.split(".")))[:2]


def data_of(row: Row, algorithm: str, release: str) -> dict[str, Any]:
    """What SB2 saves beside such a list, as far as it matters."""
    data = {
        "policy": Reference(module_of(algorithm), row.policy),
        "observation_space": SPACES[row.seen],
        "action_space": SPACES[row.action],
    }
    if has_keywords(release):
        data["policy_kwargs"] = row.keywords
    elif row.keywords:  # they stood in the constructor of a user's class
        data["policy"] = CUSTOM
    if algorithm in ("TRPO", "GAIL"):
        data["using_gail"] = algorithm == "GAIL"
    elif algorithm == "DQN":
        data["param_noise"] = row.settings.get("param_noise", False)
    elif algorithm == "DDPG":
        noise = row.settings.get("param_noise")
        data["param_noise"] = noise and Instance(Reference("stable_baselines.ddpg.noise", "AdaptiveParamNoiseSpec"), {})
        for key in ("normalize_returns", "normalize_observations"):
            data[key] = row.settings.get(key, False)
    elif algorithm == "SAC":
        data["ent_coef"] = row.settings.get("ent_coef", "auto")
    if number(release) >= (2, 6):
        data["buffer_size" if algorithm == "DDPG" else "random_exploration"] = 0
    return data


def spelled(row: Row) -> str:
    settings = " ".join(f"{key}={value}" for key, value in {**row.keywords, **row.settings}.items())
    return f"{'-'.join(row.algorithms)} {row.policy} {settings} {row.seen} {row.action} {row.releases[0]}"


# -- real lists ---------------------------------------------------------------------------------------


def choose_releases(row: Row) -> list[str]:
    """One of the releases that save the same ``data``."""
    return [*{(has_keywords(release), number(release) >= (2, 6)): release for release in row.releases}.values()]


def test_lists_of_real_sb2() -> None:
    check_all(check_list, ((row,) for row in ROWS))


def check_list(row: Row) -> None:
    for algorithm in row.algorithms:
        for release in choose_releases(row):
            data = data_of(row, algorithm, release)
            found = name_parameters(algorithm, data, row.shapes)
            if data["policy"] != CUSTOM or found.names is not None:
                assert found.names == row.names


def test_a_users_class_never_gets_wrong_names() -> None:
    check_all(check_users_class, ((row,) for row in ROWS))


def check_users_class(row: Row) -> None:
    for algorithm in row.algorithms:
        for release in choose_releases(row):
            data = {**data_of(row, algorithm, release), "policy": CUSTOM, "policy_kwargs": {}}
            if not has_keywords(release):
                del data["policy_kwargs"]
            found = name_parameters(algorithm, data, row.shapes)
            assert found.names in (None, row.names)
            assert "'utils.CustomPolicy'" in found.source
            if algorithm in OFF_POLICY:  # their layers stand in one order alone
                assert found.names == row.names


@pytest.mark.parametrize("rows", with_exhaustive([ROWS[::3]], [ROWS]))
def test_any_other_shape_leaves_the_names_uncertain(rows: list[Row]) -> None:
    check_all(check_other_shapes, ((row,) for row in rows))


def check_other_shapes(row: Row) -> None:
    data = data_of(row, row.algorithms[0], row.releases[0])
    shapes = row.shapes
    middle = next(index for index in range(len(shapes) // 2, len(shapes)) if len(shapes[index]) > 1)
    wider = (*shapes[middle][:-1], shapes[middle][-1] + 1)
    others = (
        [*shapes[:middle], wider, *shapes[middle + 1 :]],
        [*shapes[:middle], shapes[middle][::-1][1:], *shapes[middle + 1 :]],
        shapes[:-1],
        shapes[1:],
        [*shapes, ()],
        [],
    )
    for other in others:
        assert name_parameters(row.algorithms[0], data, other).names is None


def test_the_table_has_every_algorithm_and_policy() -> None:
    found = {(name, row.policy) for row in ROWS for name in row.algorithms}
    assert {name for name, _ in found} == {
        "A2C", "ACER", "ACKTR", "DDPG", "DQN", "GAIL", "PPO1", "PPO2", "SAC", "TD3", "TRPO",
    }  # fmt: skip
    for name in OFF_POLICY:
        assert {policy for other, policy in found if other == name} == {
            "MlpPolicy", "LnMlpPolicy", "CnnPolicy", "LnCnnPolicy",
        }  # fmt: skip
    assert {policy for name, policy in found if name == "PPO2"} == {
        "MlpPolicy", "CnnPolicy", "MlpLstmPolicy", "MlpLnLstmPolicy", "CnnLstmPolicy", "CnnLnLstmPolicy",
    }  # fmt: skip


# -- single facts -------------------------------------------------------------------------------------


def row_of(algorithm: str, policy: str = "MlpPolicy", release: str = "2.10.1", **settings: Any) -> Row:
    """The row of a policy without keywords, a box observed."""
    return next(
        row
        for row in ROWS
        if algorithm in row.algorithms and row.policy == policy and release in row.releases
        and row.keywords == {} and row.seen in ("box4", "image") and row.settings == settings
    )  # fmt: skip


def named(algorithm: str | None, row: Row, release: str = "2.10.1", **changed: Any) -> Names:
    data = data_of(row, algorithm or row.algorithms[0], release)
    return name_parameters(algorithm, {**data, **changed}, row.shapes)


def test_names_are_those_of_the_graph() -> None:
    names = named("PPO2", row_of("PPO2")).names
    assert names is not None
    assert names[:4] == ("model/pi_fc0/w:0", "model/pi_fc0/b:0", "model/vf_fc0/w:0", "model/vf_fc0/b:0")


def test_the_second_copy_has_a_name_of_its_own_and_the_source_says_so() -> None:
    row = row_of("SAC", release="2.5.0")
    found = named("SAC", row, "2.5.0")
    assert found.names is not None
    assert found.names[33:] == tuple(f"{name}#2" for name in found.names[:33])
    assert "the file contains 33 of them twice" in found.source


def test_versions_between_2_5_and_2_6_have_the_keys_of_one_and_the_list_of_the_other() -> None:
    counts = set()
    for row in ROWS:
        algorithm = row.algorithms[0]
        if "2.5.1" in row.releases and algorithm in ("DDPG", "SAC"):
            data = {**data_of(row, algorithm, "2.5.1"), "buffer_size": 0, "random_exploration": 0}
            found = name_parameters(algorithm, data, row.shapes)
            assert found.names == row.names
            counts.add(len(row.names))
    assert 2 * (10 + 10 + 2 * 10 + 20) + 6 in counts  # LnMlpPolicy of DDPG: model, noise, target; statistics


def test_a_renamed_variable_has_its_newer_name_and_the_source_says_so() -> None:
    row = next(row for row in ROWS if "2.0.0" in row.releases and ("model/logstd", (1, 2)) in row.variables)
    found = named("PPO2", row, "2.0.0")
    assert found.names is not None
    assert "model/pi/logstd:0" in found.names
    assert found.source.endswith("pi/logstd is the name since 2.1")
    row = row_of("DDPG", release="2.4.0")
    assert named("DDPG", row, "2.4.0").source.endswith("qf_output is the name since 2.5.1")


def test_her_has_the_parameters_of_its_model() -> None:
    row = row_of("SAC")
    data = data_of(row, "SAC", "2.10.1")
    for reference in (Reference("stable_baselines.sac.sac", "SAC"), Global("stable_baselines.sac.sac", "SAC")):
        assert name_parameters("HER", {**data, "model_class": reference}, row.shapes).names == row.names
    for other in (None, "SAC", Reference("elsewhere", "SAC"), Reference("stable_baselines.ppo2.ppo2", "PPO2")):
        assert name_parameters("HER", {**data, "model_class": other}, row.shapes).names is None


def test_gail_is_known_by_its_adversary_where_the_flag_is_missing() -> None:
    row = row_of("GAIL")
    assert named("TRPO", row, using_gail=None).names == row.names
    assert named("TRPO", row, using_gail=False).names is None
    assert named("GAIL", row, using_gail=True).names == row.names


def test_keywords_in_a_partial() -> None:
    row = next(row for row in ROWS if row.keywords == {"dueling": False} and "2.10.1" in row.releases)
    policy = Reference(module_of("DQN"), "MlpPolicy")
    for partial, certain in (
        (Partial(policy, (), {"dueling": False}), True),
        (Partial(policy, (), {}), False),
        (Partial(policy, (1,), {"dueling": False}), False),
        (Partial(policy, (), {1: 2}), False),
    ):
        found = named("DQN", row, policy=partial, policy_kwargs={})
        assert found.names == (row.names if certain else None)


def test_a_class_carried_by_value_is_the_users() -> None:
    row = row_of("SAC")
    found = named("SAC", row, policy=CarriedClass("__main__", "Mine\x1b", (), {}))
    assert found.names == row.names
    assert found.source.startswith("'Mine\\x1b' is a user's class")


def layers(*sizes: int, heads: tuple[int, int] = (3, 3)) -> list[tuple[int, ...]]:
    """The shapes of an actor-critic policy whose layers have these inputs and outputs, in pairs."""
    hidden = [shape for size in zip(sizes[::2], sizes[1::2]) for shape in (size, size[1:])]
    policy, value = heads
    return [*hidden, (value, 1), (1,), (policy, 3), (3,), (value, 3), (3,)]


@check_each(
    ("shapes", "first"),
    [
        (layers(4, 16, 4, 16, heads=(16, 16)), "model/pi_fc0/w:0"),  # apart, or the chain would not close
        (layers(4, 16, 16, 8, heads=(8, 8)), "model/shared_fc0/w:0"),
        (layers(4, 16, 16, 16, heads=(16, 16)), None),  # is the second one shared, the policy's or the value function's
        (layers(4, 16, heads=(16, 4)), "model/pi_fc0/w:0"),
        (layers(4, 16, heads=(4, 16)), "model/vf_fc0/w:0"),
        (layers(4, 16, heads=(16, 16)), "model/shared_fc0/w:0"),
        (layers(4, 16, 4, 16, 16, 16, 16, 16, heads=(16, 16)), None),  # 2 and 2, or 3 and 1
        (layers(heads=(4, 4)), "model/vf/w:0"),
    ],
)
def test_the_layers_of_a_users_class(shapes: list[tuple[int, ...]], first: str | None) -> None:
    data = {"policy": CUSTOM, "observation_space": SPACES["box4"], "action_space": SPACES["discrete3"]}
    names = name_parameters("PPO2", data, shapes).names
    if first is None or names is None:
        assert names is None
        assert first is None
    else:
        assert names[0] == first


# -- what a file may say ------------------------------------------------------------------------------


def wrong_values() -> list[Any]:
    loop: list[Any] = []
    loop.append(loop)
    many = [64] * 100_000
    return [
        None, True, False, 0, -1, 1 << 70, 1.5, float("nan"), "", "auto", b"x", (), [], {}, loop, many, {1: 2},
        [64, "x"], [0], [True], [-1], ["lstm", "lstm"], [{"pi": 1}], [{"pi": [None], "vf": many}], "SAME", set(),
        Reference("", ""), Reference("stable_baselines", "MlpPolicy"), Global("os", "system"), array(1, 2),
        ArrayInfo("<U4", (1,), "C", bytes(16), is_scalar=False), box(), box(0), box(1, 2, 3), box(*[9] * 64),
        Discrete("gym", 0, 0, "int64", None), MultiDiscrete("gym", array(), None, "int64", None), Partial(None, (), {}),
        {f"key{index}": index for index in range(1000)}, object(),
    ]  # fmt: skip


HOSTILE: Final = [
    row_of("PPO2"), row_of("PPO2", "CnnPolicy"), row_of("PPO2", "MlpLnLstmPolicy", "2.10.1"), row_of("GAIL"),
    row_of("DQN", param_noise=True), row_of("DDPG", normalize_returns=True), row_of("SAC"), row_of("TD3"),
]  # fmt: skip


@pytest.mark.parametrize("step", with_exhaustive([5], [1]))
@pytest.mark.parametrize("row", HOSTILE, ids=spelled)
def test_wrong_values_leave_the_names_uncertain(row: Row, step: int) -> None:
    algorithm = row.algorithms[0]
    data = data_of(row, algorithm, "2.10.1")
    keys = [*data, "net_arch", "layers", "n_lstm", "layer_norm", "dueling", "pad", "one_dim_bias", "act_fun", "other"]
    for at, key in enumerate(keys):
        for value in wrong_values()[at % step :: step]:
            for policy in (data["policy"], CUSTOM):
                changed = {**data, "policy": policy}
                if key in data:
                    changed[key] = value
                else:
                    changed["policy_kwargs"] = {key: value}
                found = name_parameters(algorithm, changed, row.shapes)
                assert found.names in (None, row.names)
                assert len(found.source) < 1000
                assert found.source.isprintable()


@check_each("row", HOSTILE)
def test_missing_keys_leave_the_names_uncertain(row: Row) -> None:
    algorithm = row.algorithms[0]
    data = data_of(row, algorithm, "2.10.1")
    for key in data:
        less = {other: value for other, value in data.items() if other != key}
        assert name_parameters(algorithm, less, row.shapes).names in (None, row.names)
    assert name_parameters(algorithm, {}, row.shapes).names is None


def test_without_an_algorithm_there_are_no_names() -> None:
    for algorithm in (None, "", "HER", "PPO", "TD4", "ppo2"):
        found = named(algorithm, row_of("PPO2"))
        assert found == Names(None, "by index, for the algorithm that wrote the file is not known")


def test_a_policy_of_another_algorithm_is_none_of_this() -> None:
    found = named("PPO2", row_of("PPO2"), policy=Reference(module_of("SAC"), "MlpPolicy"))
    assert found == Names(None, "by index, for 'stable_baselines.sac.policies.MlpPolicy' is not a policy of PPO2")


@pytest.mark.parametrize("algorithm", ["PPO2", "GAIL", "DQN", "DDPG", "SAC", "TD3"])
@pytest.mark.parametrize("count", with_exhaustive([80, 6000], [512, 60_000]))
def test_the_work_is_bounded_by_the_parameters(algorithm: str, count: int) -> None:
    shapes = [shape for _ in range(count // 2) for shape in ((4, 4), (4,))]
    data: dict[str, Any] = {
        "policy_kwargs": {"layers": [4] * count},
        "observation_space": SPACES["box4"],
        "action_space": SPACES["discrete3" if algorithm == "DQN" else "box2"],
        **dict.fromkeys(("param_noise", "normalize_returns", "normalize_observations"), False),
        "ent_coef": "auto",
    }
    for policy in (CUSTOM, Reference(module_of(algorithm), "MlpPolicy")):
        data["policy"] = policy
        with count_calls() as calls:
            assert name_parameters(algorithm, data, shapes).names is None
        assert calls.number < 3_000_000


# -- files --------------------------------------------------------------------------------------------


def files(kind: str, generated: str) -> list[Path]:
    manifest = CORPUS / "manifest.json"
    rows = json.loads(manifest.read_text(encoding="utf-8")) if manifest.exists() else []
    return [CORPUS / row["file"] for row in rows if row["kind"] == kind] + sorted((GENERATED / "sb2").glob(generated))


@pytest.mark.parametrize("path", files("sb2zip", "*.zip"), ids=lambda path: path.name)
def test_zips_of_the_corpus_without_their_names(path: Path) -> None:
    archive = sbformat.read(path)
    data = {key: decode(value) if isinstance(value, Serialized) else value for key, value in archive.data.items()}
    parameters = archive.parameters["parameters"]
    shapes = [parameters.info(name.replace("/", "~1")).shape for name in parameters]
    found = name_parameters(infer_algorithm(archive.data).name, data, shapes)
    DECODED[f"zips without their names {'named' if found.names else 'left by index'}"] += 1
    assert found.names in (None, tuple(parameters))
    assert found.names is not None or "more than one network" in found.source


@pytest.mark.parametrize("path", files("sb2pkl", "*-*.pkl"), ids=lambda path: path.name)
def test_pickles_of_the_corpus(path: Path) -> None:
    value = decode_outcome(path.read_bytes()).value
    if not isinstance(value, tuple):
        pytest.skip("statistics, not an agent")
    data, parameters = value
    has_names = not isinstance(parameters, list)
    arrays = list(parameters.values()) if has_names else parameters
    found = name_parameters(infer_algorithm(data).name, data, [array.shape for array in arrays])
    what = f"{'OrderedDicts' if has_names else 'lists'} {'named' if found.names else 'left by index'}"
    DECODED[what] += 1
    if has_names:
        assert found.names in (None, tuple(parameters))
        assert found.names is not None or "more than one network" in found.source
    else:
        assert found.names is not None, found.source
        by_name = dict(zip(found.names, arrays))
        assert len(by_name) == len(arrays)
        for name, copy in by_name.items():  # both are the same variable
            assert copy.buffer == by_name[name.removesuffix("#2")].buffer
            DECODED["second copies, equal to the first"] += name.endswith("#2")
