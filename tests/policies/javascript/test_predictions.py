"""Policies in JavaScript: what they compute, draw, keep between steps, and refuse."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest

import sbformat
from sbformat.policies.graph import Sampling
from sbformat.policies.javascript.export import make_program
from tests.helpers.javascript_policy import JavaScriptPolicy, Node, run_node
from tests.helpers.policy_vectors import assert_predictions, load_vector
from tests.helpers.sb2_predictions import assert_same_recording, recorded_agents
from tests.policies.run.models import (
    Model,
    box,
    categorical,
    dict_space,
    discrete,
    gaussian,
    images,
    make_policy,
    multi_discrete,
    numbers,
)
from tests.policies.run.test_policy import (
    FOUR,
    HIDDEN,
    assert_mean,
    bernoulli,
    epsilon_greedy,
    frequencies,
    gsde,
    recurrent,
    softmax,
)
from tests.policies.sampled import MARKED_VECTORS, mark_sb2_agents

if TYPE_CHECKING:
    from sbformat.policies.builder import PolicyModel

_node = pytest.fixture(scope="module", name="node")(run_node)
SB2: Final = recorded_agents(Path(__file__).parents[2] / "nets" / "archives" / "sb2")


def export(policy: sbformat.Policy, node: Node, folder: Path) -> JavaScriptPolicy:
    path = folder / "policy.mjs"
    return JavaScriptPolicy(policy, node, path, sbformat.export_javascript(policy, path))


@pytest.mark.parametrize("name", MARKED_VECTORS)
def test_a_vector(node: Node, tmp_path: Path, name: str) -> None:
    assert_predictions(name, export(load_vector(name), node, tmp_path))


@pytest.mark.parametrize("agent", mark_sb2_agents(SB2, 4), ids=lambda path: path.name)
def test_an_agent_of_stable_baselines_2(node: Node, tmp_path: Path, agent: Path) -> None:
    assert_same_recording(export(sbformat.load_policy(agent), node, tmp_path), agent)


# -- drawn actions ------------------------------------------------------------------------------------

DRAWS: Final = 4000
GENERATOR: Final = """\
  let seed = 1;
  const random = () => {
    let x = (seed = (seed + 0x6d2b79f5) | 0);
    x = Math.imul(x ^ (x >>> 15), x | 1);
    x ^= x + Math.imul(x ^ (x >>> 7), x | 61);
    return ((x ^ (x >>> 14)) >>> 0) / 2 ** 32;
  };
"""
"""mulberry32, so that the draws are the same in every run."""


def draw(node: Node, model: PolicyModel, observation: np.ndarray, *, reset: bool = False) -> np.ndarray:
    """Return drawn actions for one observation; the other outputs do not depend on the draw."""
    text = f"""(() => {{
      {GENERATOR}
      const observation = {observation.tolist()}, draws = [];
      const expected = String(Object.values(predict(observation).outputs).slice(1));
      for (let i = 0; i < {DRAWS}; i++) {{
        if ({json.dumps(reset)}) resetNoise();
        const {{ action, outputs }} = predict(observation, {{ deterministic: false, random }});
        draws.push(typeof action === "number" ? action : [...action]);
        if (action !== outputs.action) throw new Error("expected the drawn action");
        if (String(Object.values(outputs).slice(1)) !== expected) throw new Error("expected equal outputs");
      }}
      return JSON.stringify(draws);
    }})()"""
    (found,) = node.evaluate(make_program(model), text)
    return np.array(json.loads(found))


def test_a_gaussian_action_is_clipped_and_has_its_mean_and_deviation(node: Node) -> None:
    space = box(2, low=-np.inf, high=np.inf)
    drawn, deviation = draw(node, gaussian(box(4), space), FOUR), np.exp([-1, 0.5])
    mean = numbers(2, 4) @ FOUR
    assert_mean(drawn, mean, deviation)
    assert_mean((drawn - mean) ** 2, deviation**2, deviation**2 * np.sqrt(2))
    clipped = draw(node, gaussian(box(4), box(2, low=-0.1, high=0.1)), FOUR)
    assert {np.float32(bound) for bound in (-0.1, 0.1)} < set(clipped.astype(np.float32).ravel())
    assert np.abs(clipped).max() <= np.float32(0.1)


def test_choices_have_the_probabilities_of_softmax(node: Node) -> None:
    expected = softmax(numbers(5, 4) @ FOUR)
    found = draw(node, categorical(box(4), discrete(5)), FOUR)
    assert_mean(frequencies(found, 5), expected, np.sqrt(expected * (1 - expected)))
    logits = numbers(6, 4) @ FOUR
    found = draw(node, categorical(box(4), multi_discrete(2, 4)), FOUR)
    for component, part in enumerate((logits[:2], logits[2:])):
        expected = softmax(part)
        assert_mean(frequencies(found[:, component], len(part)), expected, np.sqrt(expected * (1 - expected)))


def test_bits_have_the_probability_of_sigmoid(node: Node) -> None:
    expected = 1 / (1 + np.exp(-numbers(3, 4) @ FOUR))
    assert_mean(draw(node, bernoulli(), FOUR), expected, np.sqrt(expected * (1 - expected)))


def test_some_actions_of_epsilon_greedy_are_random(node: Node) -> None:
    best, drawn = int((numbers(5, 4) @ FOUR).argmax()), draw(node, epsilon_greedy(0.25, start=0), FOUR)
    share = np.where(np.arange(5) == best, 0.8, 0.05)
    assert_mean(frequencies(drawn, 5), share, np.sqrt(share * (1 - share)))
    assert set(draw(node, epsilon_greedy(1.0, start=-2), FOUR)) == {-2, -1, 0, 1, 2}
    assert set(draw(node, epsilon_greedy(0.0), FOUR)) == {best}


def test_gsde_noise_is_kept_until_it_is_reset(node: Node) -> None:
    latent = numbers(3, 4) @ FOUR
    mean = numbers(2, 3, seed=4) @ latent
    kept, drawn = draw(node, gsde(), FOUR), draw(node, gsde(), FOUR, reset=True)
    assert (kept == kept[0]).all()
    deviation = np.sqrt((latent**2) @ np.exp(numbers(3, 2, seed=5)) ** 2)
    assert_mean(drawn, mean, deviation)
    assert_mean((drawn - mean) ** 2, deviation**2, deviation**2 * np.sqrt(2))


def test_what_is_replaced_may_be_a_view(node: Node) -> None:
    """The draw is not written over the value that it is a view of."""
    model = Model(box(2), box(2, low=-np.inf, high=np.inf))
    observation = model.features()
    mean = model.builder.add("Identity", observation, name="mean")
    spread = model.builder.add("Identity", model.weight("log_std", np.zeros(2, np.float32)), name="spread")
    model.outputs = {"action": model.builder.add("Sub", mean, observation, name="action"), "mean": mean}
    drawn = draw(node, model.build(Sampling("gaussian", "mean", {"mean": "mean", "log_std": spread.name})), FOUR[:2])
    assert_mean(drawn, 0, 1)
    assert_mean(drawn**2, 1, np.sqrt(2))


def test_a_masked_choice_is_never_drawn(node: Node) -> None:
    found = node.evaluate(
        make_program(categorical(box(4), discrete(3), masked=True)),
        "new Set(Array(500).fill({ mask: [1, 1, 0], deterministic: false }).map((options) => "
        "predict([0, 0, 0, 0], options).action)).size",
        "predict([0, 0, 0, 0], { mask: [[false, false, true]] }).action",
        "predict([0, 0, 0, 0], { mask: Uint8Array.of(0, 5, 0) }).action",
        "[[0, 0, 0.5], [0, 0.5, 0.5]].map((numbers) => predict([0, 0, 0, 0], { mask: [1, 1, 0], deterministic: false, "
        "random: () => numbers.shift() }).action)",
    )
    assert found == ["2", "2", "1", "0,1"]


def test_the_action_is_found_by_name(node: Node) -> None:
    """Not by its place among the outputs; without it, nothing is drawn."""
    model = categorical(box(4), discrete(5))
    names = [*model.graph.outputs]
    draws = "[0.1, 0.3, 0.5, 0.7, 0.9].map((first) => { const numbers = [first, 0.5, 0.5, 0.5, 0.5]; return predict("
    draws += "[1, 0, 0, 1], { deterministic: false, random: () => numbers.shift() }).action; })"
    expected, found = (node.evaluate(make_program(model, order), draws) for order in (names, names[::-1]))
    assert found == expected
    assert all(text.isdecimal() for text in found[0].split(","))
    assert len(set(found[0].split(","))) > 1
    text = "JSON.stringify(predict([1, 0, 0, 1], { deterministic: false, random: () => 1 }).action)"
    assert node.evaluate(make_program(model, names[1:]), text) == ["undefined"]


def test_masks_by_component(node: Node) -> None:
    program = make_program(categorical(box(4), multi_discrete(2, 4), masked=True))
    taken = ["[0, 1, 0, 0, 0, 1]", "[Uint8Array.of(0, 1), [false, false, 0, 1n]]"]
    refused = ["[[0, 1], [0, 0, 0]]", "[, [0, 0, 0, 1]]", "[[0, 1], [0, , 0, 1]]", "[0, 1, , 0, 0, 1]", "[[[0, 1], 1]]"]
    texts = node.evaluate(program, *(f"predict([0, 0, 0, 0], {{ mask: {mask} }}).action" for mask in taken + refused))
    assert texts[:2] == ["1,3", "1,3"]
    assert all("Error: expected" in text for text in texts[2:])


# -- observations and states --------------------------------------------------------------------------


def read_numbers(text: str) -> list[float]:
    return [float(part) for part in text.split(",")]


def test_observations_in_other_forms(node: Node) -> None:
    policy = make_policy(gaussian(box(2, 2), box(2)))
    expected, _ = policy.predict(FOUR.reshape(2, 2), deterministic=True)
    flat, nested = FOUR.tolist(), FOUR.reshape(2, 2).tolist()
    forms = [f"{nested}", f"[Float32Array.from({nested[0]}), {nested[1]}]", f"Float64Array.from({flat})"]
    for text in node.evaluate(make_program(policy.model), *(f"predict({form}).action" for form in forms)):
        np.testing.assert_allclose(read_numbers(text), expected, 1e-5)


def test_integers_and_images_in_other_forms(node: Node) -> None:
    forms = ("3", "3n", "3.7", "Int32Array.of(3)", "BigInt64Array.of(3n)")
    program = make_program(gaussian(discrete(6), box(2)))
    assert len(set(node.evaluate(program, *(f"predict({form}).outputs.mean" for form in forms)))) == 1
    image = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
    program = make_program(gaussian(images(2, 3, 4), box(2)))
    turned = json.dumps(np.moveaxis(image, 0, -1).tolist())
    forms = (json.dumps(image.tolist()), turned, f"new Uint8ClampedArray({image.ravel().tolist()})")
    assert len(set(node.evaluate(program, *(f"predict({form}).outputs.mean" for form in forms)))) == 1
    assert node.evaluate(make_program(gaussian(box(2, 3, 4), box(2))), f"predict({turned})")[0].startswith("RangeError")


def test_keys_of_a_file_are_only_keys(node: Node) -> None:
    keys = ["__proto__", "constructor", "a'b\"c`${1}\\", "</script>", "\u2028\n", ""]
    space = dict_space(**{key: box(1) for key in keys})
    policy = make_policy(gaussian(space, box(2)))
    parts = {key: [float(at)] for at, key in enumerate(keys)}
    expected, _ = policy.predict({key: np.array(part) for key, part in parts.items()}, deterministic=True)
    program = make_program(policy.model)
    assert json.loads(json.dumps(program)) == program
    pairs = json.dumps(list(parts.items()))
    found = node.evaluate(
        program,
        f"predict(new Map({pairs})).action",
        f"predict(Object.fromEntries({pairs})).action",
        "predict({}).action",
        "predict(Object.create(Object.fromEntries(" + pairs + "))).action",
    )
    for text in found[:2]:
        np.testing.assert_allclose(read_numbers(text), expected, 1e-5)
    for text in found[2:]:
        assert text.startswith('TypeError: expected an object with the keys "__proto__", "constructor"')
        assert text.endswith("got one with none")


REFUSED: Final = [
    (box(4), "predict()", "TypeError: expected arrays of the shape [4] as the observation, got undefined"),
    (box(4), "predict(null)", "got null"),
    (box(4), "predict('1234')", 'got the text "1234"'),
    (box(4), "predict(1)", "got 1"),
    (box(4), "predict({ length: 4 })", "got an object"),
    (box(4), "predict([1, 2, 3])", "RangeError: expected arrays of the shape [4] as the observation, got an array of"),
    (box(4), "predict([1, 2, 3, 4, 5])", "got an array of 5"),
    (box(4), "predict(Float32Array.of(1))", "RangeError: expected 4 numbers as the observation, got an array of 1"),
    (box(4), "predict([1, 2, 3, '4'])", 'TypeError: expected a number in the observation, got the text "4"'),
    (box(4), "predict([1, 2, 3, null])", "got null"),
    (box(4), "predict([1, , 3, 4])", "got undefined"),
    (box(4), "predict([[1, 2, 3, 4]])", "got an array of 1"),
    (box(4), "predict(new DataView(new ArrayBuffer(16)))", "got an object"),
    (box(2, 2), "predict([[1, 2], [3]])", "RangeError: expected arrays of the shape [2,2] as the observation"),
    (box(2, 2), "predict([[1, 2], 3])", "got 3"),
    (box(2, 2), "predict([1, 2, 3, 4])", "got an array of 4"),
    (discrete(6), "predict(6)", "RangeError: expected an integer >= 0 and < 6 in the observation, got 6"),
    (discrete(6), "predict(-1n)", "got -1"),
    (discrete(6), "predict(NaN)", "got NaN"),
    (discrete(6), "predict([1])", "TypeError: expected a number in the observation, got an array of 1"),
    (multi_discrete(3, 4), "predict([1, 4])", "expected an integer >= 0 and < 4 in the observation, got 4"),
    (dict_space(a=box(4)), "predict([1, 2, 3, 4])", 'expected an object with the keys "a" as the observation'),
    (dict_space(a=box(4)), "predict({ a: [1, 2, 3, 4], b: 1 })", '"a" as the observation, got one with "a", "b"'),
    (dict_space(a=box(4), b=box(1)), "predict({ a: [1, 2, 3, 4] })", '"a", "b" as the observation, got one with "a"'),
    (dict_space(a=box(4)), "predict({ a: [1, 2] })", 'as "a" of the observation, got an array of 2'),
    (box(1), "predict([1], { episode_start: true })", 'expected options among "state", "episodeStart", "mask"'),
    (box(1), "predict([1], { mask: [1, 1] })", "TypeError: expected no mask: the policy does not take one"),
    (box(1), "predict([1], { mask: 0 })", "TypeError: expected no mask: the policy does not take one"),
    (box(1), "predict([1], { state: {} })", "TypeError: expected no state: the policy does not take one"),
    (box(1), "predict([1], { episodeStart: false })", "TypeError: expected no episodeStart: the policy does"),
    (box(1), "predict([1], null)", "TypeError: expected a plain object as the options, got null"),
    (box(1), "predict([1], [])", "TypeError: expected a plain object as the options, got an array of 0"),
    (box(1), "predict([1], 'state')", 'TypeError: expected a plain object as the options, got the text "state"'),
    (box(1), "predict([1], new Map())", "TypeError: expected a plain object as the options, got an object"),
    (box(1), "predict([1], { deterministic: 0 })", "TypeError: expected true or false as deterministic, got 0"),
    (box(1), "predict([1], { deterministic: null })", "TypeError: expected true or false as deterministic, got null"),
    (box(1), "predict([1], { random: 3 })", "TypeError: expected a function as random, got 3"),
    (box(1), "predict([1], { deterministic: false, random: () => 1 })", "RangeError: expected a number >= 0 and < 1"),
    (box(1), "predict([1], { deterministic: false, random: () => '0.5' })", 'from random, got the text "0.5"'),
    (box(1), "predict([1], { deterministic: false, random: () => NaN })", "from random, got NaN"),
    (box(1), "predict([1], { deterministic: false, random: () => predict([2]) })", "expected no call of predict"),
    (box(1), "predict([NaN])", "RangeError: expected numbers as the mean of the action, got NaN"),
]  # fmt: skip


@pytest.mark.parametrize(("space", "expression", "message"), REFUSED, ids=[row[1] for row in REFUSED])
def test_arguments_that_do_not_fit_are_refused(node: Node, space: Any, expression: str, message: str) -> None:
    (found,) = node.evaluate(make_program(gaussian(space, box(2))), expression)
    assert "Error: expected" in found
    assert message in found


def test_masks_that_do_not_fit_are_refused(node: Node) -> None:
    program = make_program(categorical(box(4), discrete(3), masked=True))
    masks = {"[1, 1]": "got an array of 2", "5": "as mask, got 5", "[1, 1, 'a']": 'in mask, got the text "a"'}
    found = node.evaluate(program, *(f"predict([0, 0, 0, 0], {{ mask: {mask} }})" for mask in masks))
    for text, message in zip(found, masks.values()):
        assert "Error: expected" in text
        assert message in text


def test_states_from_step_to_step(node: Node) -> None:
    """The result of a call is never changed by another; the argument neither."""
    (found,) = node.evaluate(make_program(recurrent(critic=True)), """(() => {
      const first = predict([1, 2, 3]), kept = JSON.stringify(first);
      Object.freeze(first.state);
      const second = predict([1, 2, 3], { state: first.state });
      const again = predict([1, 2, 3], { state: first.state, episodeStart: true });
      first.outputs.action.fill(9);
      predict([4, 5, 6]).action.fill(9);
      return JSON.stringify({
        names: Object.keys(first.state), first: [...first.state["hidden.1"]], second: [...second.state["hidden.1"]],
        isSame: JSON.stringify(again) === kept && JSON.stringify(predict([1, 2, 3])) === kept,
        isNew: first.state["hidden.1"] !== second.state["hidden.1"],
      });
    })()""")  # fmt: skip
    assert json.loads(found) == {
        "names": ["hidden.1", "critic_cell.1"],  # what the outputs depend on
        "first": [2, 3, 4], "second": [3, 4.5, 6], "isSame": True, "isNew": True,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("{ state: {} }", 'expected an object with the keys "hidden.1" as state, got one with none'),
        ("{ state: { ...state, more: 1 } }", 'as state, got one with "hidden.1", "more"'),
        ("{ state: Object.create(state) }", "as state, got one with none"),
        ("{ state: 7 }", "as state, got 7"),
        ("{ state: 0 }", "as state, got 0"),
        ("{ state: '' }", "as state, got the text"),
        ("{ state: { 'hidden.1': undefined } }", "as state.hidden.1, got null"),
        ("{ state: { 'hidden.1': [1] } }", f"the shape [{HIDDEN}] as state.hidden.1, got an array of 1"),
        ("{ episodeStart: [true] }", "expected a number in episodeStart, got an array of 1"),
    ],
)  # fmt: skip
def test_states_that_do_not_fit_are_refused(node: Node, options: str, message: str) -> None:
    text = f"(() => {{ const {{ state }} = predict([1, 2, 3]); return predict([1, 2, 3], {options}); }})()"
    (found,) = node.evaluate(make_program(recurrent()), text)
    assert "Error: expected" in found
    assert message in found


def test_a_state_of_plain_arrays(node: Node) -> None:
    """As JSON has them; null is the state at the start."""
    text = """(() => {
      const { state } = predict([1, 2, 3], { state: null, episodeStart: null, mask: null });
      const plain = JSON.parse(JSON.stringify({ "hidden.1": [...state["hidden.1"]] }));
      return [state, plain, new Map(Object.entries(plain))].map((state) => predict([1, 2, 3], { state }).action);
    })()"""
    (found,) = node.evaluate(make_program(recurrent()), text)
    numbers_of = read_numbers(found)
    assert numbers_of[: len(numbers_of) // 3] * 3 == numbers_of


def test_an_error_leaves_the_module_as_it_was(node: Node) -> None:
    texts = ("predict([1]).action", "predict([1], { deterministic: false, random: () => 2 })", "predict([1]).action")
    found = node.evaluate(make_program(gaussian(box(1), box(2))), *texts)
    assert "RangeError" in found[1]
    assert found[2] == found[0]


def test_what_a_module_describes_is_frozen(node: Node) -> None:
    program = make_program(gaussian(box(2, 2), box(2)))
    texts = ("inputs[0].shape", "inputs[0]", "inputs", "outputs[0].shape", "outputs", "metadata")
    assert node.evaluate(program, *(f"Object.isFrozen({text})" for text in texts)) == ["true"] * len(texts)


def test_a_map_of_another_window(node: Node) -> None:
    pairs = "[['a', [1, 2, 3, 4]]]"
    (found,) = node.evaluate(
        make_program(gaussian(dict_space(a=box(4)), box(2))),
        f"(() => {{ const Other = process.getBuiltinModule('node:vm').runInNewContext('Map'); "
        f"return String(predict(new Other({pairs})).action) === String(predict(new Map({pairs})).action); }})()",
    )
    assert found == "true"


def test_additions_to_prototypes_change_nothing(node: Node) -> None:
    (found,) = node.evaluate(make_program(categorical(box(4), discrete(3))), """(() => {
      const expected = JSON.stringify(predict([1, 0, 0, 1]));
      const more = {
        deterministic: false, random: () => 0.999, mask: [0, 0, 1], state: {}, isConstant: true, isReplaced: true,
        isDrawn: true, gamma: 7, divisor: 7, axis: 0, none: () => () => {}, bias: 3,
      };
      try {
        Object.assign(Object.prototype, more);
        const other = createPolicy(program);
        return [predict([1, 0, 0, 1]), predict([1, 0, 0, 1], {}), other.predict([1, 0, 0, 1])]
          .every((result) => JSON.stringify(result) === expected);
      } finally {
        for (const name of Object.keys(more)) delete Object.prototype[name];
      }
    })()""")  # fmt: skip
    assert found == "true"


def test_a_mean_of_nan_is_computed_where_sb2_does(node: Node) -> None:
    (found,) = node.evaluate(make_program(gaussian(box(1), box(2), family="sb2")), "predict([NaN]).action")
    assert found == "NaN,NaN"
