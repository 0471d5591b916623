"""The panel of interactive pages in the browser: it shows what ``Policy`` computes, for agents of every kind."""

from __future__ import annotations

import base64
import re
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest

import sbformat
from conformance.runner.vectors import decode_file
from sbformat.policies.graph import Sampling
from sbformat.policies.javascript.export import make_program
from tests.helpers.browser import NARROW, WIDE
from tests.helpers.bundled import ARCHIVES, PPO, SAC
from tests.helpers.hostile_archives import KEYS, hostile_keys
from tests.helpers.policy_vectors import VECTORS
from tests.policies.run.models import Model, box, categorical, dict_space, discrete, gaussian, images, multi_discrete

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.helpers.browser import Browser

STATISTICS: Final = (ARCHIVES / "vecnormalize-pendulum.pkl").read_bytes()
TOLERANCE: Final = 1e-4  # the panel shows five digits
AGENTS: Final = {
    "discrete": PPO,
    "continuous": SAC,
    "dict": "policy-ppo-observes-dict",
    "image": "policy-cnn",
    "frames": "policy-cnn-channels-last",
    "image in a dict": "policy-cnn-multi-input",
    "lstm": "policy-lstm",
    "masks": "policy-maskable-multi-discrete",
    "choices": "policy-ppo-observes-multi-discrete",
    "flags": "policy-ppo-multi-binary",
    "quantiles": "policy-qrdqn",
    "squashed": "policy-ppo-gsde-squashed",
    "sb2": "policy-sb2-ppo2-lstm",
}


@pytest.fixture(autouse=True)
def few_plots(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw one histogram: the tests are about the panel."""
    monkeypatch.setattr("sbformat.html_report.archive_page.MOST_PLOTS", 1)


class Panel:
    """The panel of a page that is open."""

    def __init__(self, browser: Browser, folder: Path, source: Any, **options: Any) -> None:
        self.browser = browser
        source = decode_file(VECTORS[source]) if isinstance(source, str) else source
        size = {name: options.pop(name) for name in ("width", "scheme") if name in options}
        sbformat.report(source, folder / "page.html", interactive=True, overwrite=True, **options)
        self.policy = sbformat.load_policy(source, **options)
        browser.open(folder / "page.html", **size)

    def set(self, values: dict[str, Any]) -> None:
        """Set controls by their labels, as a user does."""
        self.browser.run(
            """
            for (const [label, value] of arguments[0]) {
              const control = document.querySelector(`#actions [aria-label=${CSS.escape(label)}]`);
              if (control.type === "checkbox") control.checked = value;
              else control.value = value;
              for (const name of ["input", "change"]) control.dispatchEvent(new Event(name, {bubbles: true}));
            }""",
            list(values.items()),
        )

    def observe(self, observation: Any, title: str = "Observation") -> None:
        """Set the fields of a vector."""
        self.set({f"{title} {at}, as a number": float(value) for at, value in enumerate(observation)})

    def press(self, button: str) -> None:
        """Press a button by its text."""
        self.browser.driver.find_element("xpath", f"//*[@id='actions']//button[.='{button}']").click()

    def read(self, part: str, column: int = 2) -> list[float]:
        """The numbers of a table by its caption, in a column; or those after a word: ``Action``, ``Value``."""
        text = self.browser.run(
            """
            const find = (selector) => [...document.querySelectorAll(`#actions ${selector}`)];
            const table = find("table").find((one) => one.caption.textContent === arguments[0]);
            if (table) return [...table.tBodies[0].rows].map((row) => row.cells[arguments[1]].textContent).join(" ");
            return find("output, p").find((one) => one.textContent.startsWith(arguments[0])).lastChild.textContent;""",
            part,
            column,
        )
        return [float(number.replace("\u2212", "-")) for number in re.findall(r"[^\s,]+", text)]

    def find_error(self) -> str:
        """What the panel shows instead of an action."""
        return str(
            self.browser.run("return document.querySelector('#actions output .actions-error')?.textContent ?? ''")
        )

    def list_notes(self) -> list[str]:
        """What the panel says about fields, choices and pictures."""
        script = "return [...document.querySelectorAll('#actions fieldset .actions-error')].map((one) => one.innerText)"
        return [text for text in self.browser.run(script) if text]

    def check(self, expected: dict[str, np.ndarray], **parts: str) -> None:
        """Compare the action, and parts by what they show."""
        for name, part in {"action": "Action", **parts}.items():
            np.testing.assert_allclose(self.read(part), np.ravel(expected[name]), TOLERANCE, TOLERANCE, err_msg=name)
        assert self.find_error() == ""
        assert self.browser.list_console() == []
        assert self.browser.list_requests() == []


def draw_observations(count: int, size: int) -> np.ndarray:
    return np.random.default_rng(0).normal(0, 1, (count, size)).round(2)


def test_probabilities_and_value_follow_the_fields(browser: Browser, tmp_path: Path) -> None:
    panel = Panel(browser, tmp_path, PPO)
    found = []
    for observation in draw_observations(8, 4):
        panel.observe(observation)
        panel.check(panel.policy.outputs(observation), probabilities="Probabilities", value="Value")
        found += panel.read("Action")
    assert set(found) == {0, 1}
    panel.press("Zeros")
    panel.check(panel.policy.outputs(np.zeros(4)), probabilities="Probabilities")


def test_a_field_says_when_its_number_is_not_of_the_space(browser: Browser, tmp_path: Path) -> None:
    panel = Panel(browser, tmp_path, PPO)
    invalid = "return document.querySelectorAll('#actions [aria-invalid=true]').length"
    observation = [5.0, 100, 0.41887903, 0]  # the bounds are 4.8, none, 0.418879032 and none
    panel.observe(observation)
    assert panel.list_notes() == ["outside of the space: \u22124.8 to 4.8"]
    panel.check(panel.policy.outputs(np.array(observation)), probabilities="Probabilities")
    panel.set({"Observation 1, as a number": ""})
    assert panel.list_notes()[1:] == ["not a number: 100 is used"]
    panel.check(panel.policy.outputs(np.array(observation)), probabilities="Probabilities")
    assert browser.run(invalid) == 2
    browser.picture("interactive-marked")
    panel.set({"Observation 0": 1})
    panel.set({"Observation 1": 0})
    assert panel.list_notes() == []
    assert browser.run(invalid) == 0


def test_a_slider_moves_by_keys_and_changes_the_action(browser: Browser, tmp_path: Path) -> None:
    panel = Panel(browser, tmp_path, PPO)
    slider = "#actions [aria-label='Observation 2']"
    low, high = (float(browser.run(f'return document.querySelector("{slider}").{end}')) for end in ("min", "max"))
    bounds = [
        array.to_numpy()[2] for array in (panel.policy.observation_space.low, panel.policy.observation_space.high)
    ]
    assert bounds[0] <= low < 0 < high <= bounds[1]
    np.testing.assert_allclose((low, high), bounds, 0.03)
    browser.run(f'document.querySelector("{slider}").focus()')
    for key, expected in (("\ue010", low), ("\ue011", high), ("\ue012", None)):  # Home, End, the arrow to the left
        browser.press({"\ue010": "\ue011", "\ue011": "\ue010"}.get(key, key))
        value = float(browser.run(f'return document.querySelector("{slider}").value'))
        assert expected is None or value == expected
        panel.check(panel.policy.outputs(np.array([0, 0, value, 0])), probabilities="Probabilities")


def test_an_action_between_bounds_with_statistics(browser: Browser, tmp_path: Path) -> None:
    panel = Panel(browser, tmp_path, SAC, vecnormalize=STATISTICS)
    assert "normalized inside" in browser.run("return document.getElementById('actions').textContent")
    for observation in draw_observations(5, 3):
        panel.observe(observation)
        expected = panel.policy.outputs(observation)
        panel.check(expected, q_values="Q-values of the critics")
        for column, values in ((1, expected["action"]), (3, expected["mean"]), (4, np.exp(expected["log_std"]))):
            np.testing.assert_allclose(panel.read("Action between its bounds", column), values, rtol=1e-3)
    without = sbformat.load_policy(SAC, vecnormalize=False).outputs(observation)
    assert abs(panel.read("Action")[0] - without["action"][0]) > TOLERANCE


def test_statistics_give_the_range_of_an_item_without_bounds(browser: Browser, tmp_path: Path) -> None:
    stored = base64.b64decode(VECTORS["policy-sac-normalized"]["input"]["vecnormalize"])
    panel = Panel(browser, tmp_path, "policy-sac-normalized", vecnormalize=stored)
    assert panel.policy.vecnormalize is not None
    statistics: Any = panel.policy.vecnormalize.obs_rms
    sliders = browser.run("""
        const sliders = [...document.querySelectorAll("#actions [type=range]")];
        return sliders.map((one) => [Number(one.min), Number(one.max)]);""")
    mean, std = np.asarray(statistics.mean), np.sqrt(np.asarray(statistics.var))
    np.testing.assert_allclose(sliders, np.stack([mean - 3 * std, mean + 3 * std], -1), atol=0.06 * std.max())


def test_parts_of_a_dict(browser: Browser, tmp_path: Path) -> None:
    panel = Panel(browser, tmp_path, "policy-ppo-observes-dict")
    panel.set({"axes 0": "1", "axes 1": "2", "gear": "2", "lights 1": True, "grid 1, 0": "1"})
    panel.observe([0.25, -0.5], "speed")
    grid = [[0, 0], [1, 0]]
    observation = {"axes": [1, 2], "gear": 2, "grid": grid, "lights": [0, 1], "speed": [0.25, -0.5]}
    panel.check(panel.policy.outputs(observation), probabilities="Probabilities", value="Value")


def test_hostile_keys_are_texts(browser: Browser, tmp_path: Path) -> None:
    panel = Panel(browser, tmp_path, hostile_keys(decode_file(VECTORS["policy-ppo-observes-dict"])))
    legends = browser.run("return [...document.querySelectorAll('#actions legend')].map((one) => one.firstChild.data)")
    assert legends == [key.replace("\u2028", "\\u{2028}").replace("\u202e", "\\u{202e}") for key in KEYS]
    panel.set({"__proto__": "2"})
    panel.observe([0.25, -0.5], "1")
    values = [[0, 0], 2, [[0, 0], [0, 0]], [0, 0], [0.25, -0.5]]
    panel.check(panel.policy.outputs(dict(zip(KEYS, values))), probabilities="Probabilities")
    assert browser.run("return typeof attacked") == "undefined"


@pytest.mark.parametrize("name", ["policy-cnn", "policy-cnn-channels-last"])
def test_a_picture(browser: Browser, tmp_path: Path, name: str) -> None:
    panel = Panel(browser, tmp_path, name)
    channels, height, width = panel.policy.observation_space.shape
    shades = 255 * (np.arange(width) / width + np.arange(height)[:, None] / height) / 2
    picture = np.broadcast_to(np.floor(shades + 0.5).astype(np.uint8), (channels, height, width))
    output = "q_values" if "q_values" in panel.policy.graph.outputs else "probabilities"
    table = {"q_values": "Q-values", "probabilities": "Probabilities"}[output]
    panel.press("Gradient")
    panel.check(panel.policy.outputs(picture), **{output: table})
    before = panel.read(table)
    panel.press("Noise")
    assert panel.read(table) != before
    panel.press("Black")
    panel.check(panel.policy.outputs(np.zeros_like(picture)), **{output: table})


def test_a_picture_file_is_scaled(browser: Browser, tmp_path: Path) -> None:
    panel = Panel(browser, tmp_path, "policy-cnn")
    panel.press("Black")
    before = panel.read("Probabilities")
    (tmp_path / "picture.png").write_bytes(browser.picture())
    field = browser.driver.find_element("css selector", "#actions [type=file]")
    field.send_keys(str(tmp_path / "picture.png"))
    browser.driver.execute_async_script("setTimeout(arguments[0], 500)")
    after = panel.read("Probabilities")
    assert after != before
    field.send_keys(str(tmp_path / "page.html"))
    browser.driver.execute_async_script("setTimeout(arguments[0], 500)")
    assert panel.read("Probabilities") == after
    [note] = panel.list_notes()
    assert note.startswith("page.html is not a picture")
    panel.press("Black")
    assert panel.list_notes() == []


def test_the_state_is_kept_from_step_to_step(browser: Browser, tmp_path: Path) -> None:
    panel = Panel(browser, tmp_path, "policy-lstm")
    state = None
    for observation in draw_observations(3, 4):
        panel.observe(observation)
        panel.check(panel.policy.outputs(observation, state), probabilities="Probabilities", value="Value")
        found = panel.policy.outputs(observation, state)
        state = tuple(found[name] for name in found if re.search("hidden|cell", name))
        panel.press("Step")
    panel.check(panel.policy.outputs(observation, state), probabilities="Probabilities", value="Value")
    assert "step 4 of the episode" in browser.run("return document.getElementById('actions').textContent")
    panel.press("New episode")
    panel.check(panel.policy.outputs(observation), probabilities="Probabilities", value="Value")


def test_choices_can_be_masked(browser: Browser, tmp_path: Path) -> None:
    panel = Panel(browser, tmp_path, "policy-maskable-multi-discrete")
    observation = draw_observations(1, 4)[0]
    panel.observe(observation)
    masks = [False, True, True, True, False]
    panel.set({"choice 0: 0 is valid": False, "choice 1: 1 is valid": False})
    expected = panel.policy.outputs(observation, action_masks=masks)
    panel.check(expected)
    found = panel.read("Probabilities of component 0") + panel.read("Probabilities of component 1")
    np.testing.assert_allclose(found, expected["probabilities"], TOLERANCE, TOLERANCE)
    assert panel.list_notes() == []
    panel.set({"choice 1: 0 is valid": False})
    [note] = panel.list_notes()
    assert note.startswith("At least one choice of component 1 must be valid")
    panel.check(panel.policy.outputs(observation, action_masks=[False, True, True, False, False]))


def test_actions_are_sampled_on_request(browser: Browser, tmp_path: Path) -> None:
    panel = Panel(browser, tmp_path, SAC, vecnormalize=STATISTICS)
    [before] = panel.read("Action")
    browser.driver.find_element("xpath", "//label[contains(., 'Sample the action')]").click()
    drawn = []
    for _ in range(5):
        panel.press("Draw again")
        drawn += panel.read("Action")
    assert len({*drawn, before}) > 3
    assert all(-2 <= action <= 2 for action in drawn)


def test_an_observation_without_an_action_is_an_error_in_the_panel(browser: Browser, tmp_path: Path) -> None:
    panel = Panel(browser, tmp_path, PPO)
    panel.observe([1e300, 1e300, -1e300, 1e300])
    with pytest.raises(ValueError, match="NaN"):
        panel.policy.predict([1e300, 1e300, -1e300, 1e300], deterministic=True)
    assert panel.find_error().startswith("No action: ")
    panel.press("Zeros")
    panel.check(panel.policy.outputs(np.zeros(4)), probabilities="Probabilities")


# -- programs without a file --------------------------------------------------------------------------


@pytest.fixture(name="show")
def _show(browser: Browser, tmp_path: Path) -> Callable[..., Any]:
    """Show the panel of a program, and return what an expression about it is."""
    Panel(browser, tmp_path, PPO)

    def show(program: dict[str, Any], expression: str) -> Any:
        return browser.run(
            f"""
            const root = document.createElement("div");
            createPanel(root, createPolicy(arguments[0]), arguments[0]);
            const find = (selector) => [...root.querySelectorAll(selector)];
            return {expression};""",
            program,
        )

    return show


SLIDERS: Final = "find('[type=range]').map((one) => [one.min, one.max, one.value].map(Number))"


def test_keys_that_metadata_write_alike(show: Callable[..., Any]) -> None:
    space = dict_space(**{"\u2028": box(1, low=-1, high=2), "\\u2028": box(1, low=-3, high=4)})
    assert show(make_program(gaussian(space, box(1))), SLIDERS) == [[-1, 2, 0], [-3, 4, 0]]


def test_equal_bounds(show: Callable[..., Any]) -> None:
    program = make_program(gaussian(box(2, low=0.5, high=0.5), box(1)))
    press = "find('button').find((one) => one.textContent === 'Random').click()"
    assert show(program, f"({press}, {SLIDERS})") == [[0.5, 0.5, 0.5]] * 2


@pytest.mark.parametrize("variance", [np.nan, -1, np.inf])
def test_statistics_that_are_no_numbers(show: Callable[..., Any], variance: float) -> None:
    model = Model(box(1, low=-np.inf, high=np.inf), box(1))
    add, constant = model.builder.add, model.builder.constant
    wide = add("Cast", model.features(), to="float64")
    spread = add("Sqrt", add("Add", constant(variance, "float64"), constant(1e-8, "float64")))
    model.outputs = {"action": add("Div", add("Sub", wide, constant(2.0, "float64")), spread)}
    program = make_program(model.build(Sampling("none")))
    program["metadata"]["normalized"] = "true"
    assert show(program, SLIDERS) == [[-3, 3, 0]]


def test_many_choices_and_components(show: Callable[..., Any]) -> None:
    program = make_program(categorical(box(1), discrete(130_000)))
    program["outputs"][1]["name"] = "q_values"
    assert show(program, "find('caption')[0].textContent") == "Q-values (the 64 highest of 130000)"
    program = make_program(categorical(box(1), multi_discrete(*[2] * 100)))
    program["outputs"].append({**program["outputs"][1], "name": "probabilities"})
    text = "[find('table').length, find('.actions-answer p')[0].textContent]"
    assert show(program, text) == [64, "The first 64 components of 100."]


def test_a_picture_too_wide_to_be_shown(show: Callable[..., Any]) -> None:
    program = make_program(gaussian(images(1, 2, 9000), box(1)))
    press = "find('button').find((one) => one.textContent === 'Noise').click()"
    text = f"({press}, [find('canvas, [type=file]:not([hidden])').length, find('fieldset p')[0].textContent])"
    assert show(program, text) == [0, "A picture of this size is not shown."]


@pytest.mark.parametrize(("width", "scheme"), [(NARROW, "dark"), (WIDE, "light")])
@pytest.mark.parametrize("kind", AGENTS)
def test_the_panel_is_accessible_and_fits_the_window(
    browser: Browser, axe: None, tmp_path: Path, kind: str, width: int, scheme: str
) -> None:
    panel = Panel(browser, tmp_path, AGENTS[kind], width=width, scheme=scheme)
    panel.press("Random")
    assert panel.find_error() == ""
    browser.picture(f"interactive-{kind}-{width}-{scheme}")
    assert browser.find_overflow() == []
    assert browser.find_violations(within="#actions") == []
    assert browser.list_console() == []
