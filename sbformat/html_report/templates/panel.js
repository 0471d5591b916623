// The panel "Actions": controls for the observation of a policy, and what the policy answers, on every change.
//
//   createPanel(element, createPolicy(program), program)
//
// In: an element, which the panel replaces the content of, a policy and its program, as the JavaScript export has them.
// Texts of files (keys of a Dict) become text nodes and attributes alone. The panel is styled by panel.css.

const SHOWN_ITEMS = 32; // controls of an input before the folded ones
const MOST_ITEMS = 1024; // controls of an input at all
const MOST_BARS = 64; // bars of a diagram: of more choices, the highest
const MOST_NUMBERS = 12; // of an action in one line
const MOST_CHOICES = 64; // of a list: of more, a field for a number
const HUGE = 1e6; // bounds beyond this are as good as none
const MOST_EXACT = 1e15; // statistics beyond this, or that are no numbers, say nothing
const LARGEST_PICTURE = 8192; // pixels of a side: browsers draw no larger ones
const WIDTH = 3; // half the range of a slider without bounds, in standard deviations
const ROUNDING = 1e-6; // how far a number may be beyond a bound, relative to it: bounds are rounded
const CHANNELS = 8; // of an image, drawn side by side unless they are red, green and blue

export function createPanel(root, policy, program) {
  const actionSpace = JSON.parse(program.metadata.action_space);
  const observed = program.inputs.filter((input) => input.role === "observation");
  const isDict = observed.some((input) => input.key !== null);
  const parts = observed.map((input) => makePart(input, input.space, program, update));
  const maskInput = program.inputs.find((input) => input.role === "action_masks");
  const mask = maskInput && new Uint8Array(countItems(maskInput.shape)).fill(1);
  const hasState = program.states.length > 0;
  const episode = {state: undefined, isStart: true, steps: 0};
  let last = null;

  const sampled = element("input", {type: "checkbox"});
  const again = makeButton("Draw again", () => {
    policy.resetNoise();
    update();
  });
  const steps = element("span", {class: "actions-muted"});
  const output = element("output", {class: "actions-output"});
  const answer = element("div", {class: "actions-answer"});

  function observe() {
    const values = parts.map((part) => (part.input.shape.length ? part.values.slice() : part.values[0]));
    return isDict ? new Map(observed.map((input, at) => [input.key, values[at]])) : values[0];
  }

  function update() {
    again.disabled = !sampled.checked;
    steps.textContent = hasState ? `step ${episode.steps + 1} of the episode` : "";
    try {
      last = policy.predict(observe(), {
        ...(hasState ? {state: episode.state, episodeStart: episode.isStart} : {}),
        mask, deterministic: !sampled.checked,
      });
    } catch (error) {
      last = null;
      output.replaceChildren(element("span", {class: "actions-error"}, escapeText(`No action: ${error.message}`, 500)));
      answer.replaceChildren();
      return;
    }
    const shown = listNumbers(last.action).slice(0, MOST_NUMBERS).map((number) => formatNumber(number)).join(", ");
    const more = listNumbers(last.action).length > MOST_NUMBERS ? ", \u2026" : "";
    output.replaceChildren(element("span", {}, "Action "), element("strong", {}, shown + more));
    answer.replaceChildren(...describeAnswer(last, actionSpace, program.sampling));
  }

  function setAll(choose) {
    parts.forEach((part) => part.fill(choose));
    update();
  }

  const buttons = [
    makeButton("Zeros", () => setAll((item) => item.zero)), makeButton("Random", () => setAll((item) => item.draw())),
  ];
  if (hasState) {
    buttons.push(makeButton("Step", () => {
      if (last) Object.assign(episode, {state: last.state, isStart: false, steps: episode.steps + 1});
      update();
    }), makeButton("New episode", () => {
      Object.assign(episode, {state: undefined, isStart: true, steps: 0});
      update();
    }), steps);
  }
  if (program.sampling.kind !== "none") {
    sampled.addEventListener("change", update);
    buttons.push(element("label", {class: "actions-check"}, sampled, "Sample the action"), again);
  }
  const groups = parts.map((part) => part.group);
  if (mask) groups.push(makeMasks(mask, program.sampling.sizes, update));
  const normalized = program.metadata.normalized === "true"
    ? "Observations are normalized inside, with the statistics of VecNormalize: give them as the environment does."
    : "Observations are used as they are, without statistics of VecNormalize.";
  root.replaceChildren(element("div", {class: "actions-panel"},
    element("p", {class: "actions-muted"}, normalized),
    element("div", {class: "actions-buttons"}, ...buttons),
    output,
    element("div", {class: "actions-columns"}, element("div", {}, ...groups), answer)));
  update();
}

// -- spaces -------------------------------------------------------------------------------------------

const countItems = (shape) => shape.reduce((product, size) => product * size, 1);

// Returns a bound of an item: arrays have all items, or when they are many the least and the greatest.
function findBound(array, at, end) {
  const found = array && (Array.isArray(array.items) ? array.items[at] : array[end]);
  return found === undefined ? NaN : Number(found);
}

const findBounds = (space, at) => [findBound(space.low, at, "min"), findBound(space.high, at, "max")];

// Returns low and high of the slider of an item: the bounds, or else what is usual by the statistics.
function findRange(space, at, statistics) {
  let [low, high] = findBounds(space, at).map((bound) => (Math.abs(bound) <= HUGE ? bound : NaN));
  if (Number.isNaN(low) && Number.isNaN(high)) {
    const [mean, std] = statistics ? statistics.map((array) => array[at]) : [0, 1];
    const isUsual = Math.abs(mean) + WIDTH * std < MOST_EXACT && std > 0;
    [low, high] = isUsual ? [mean - WIDTH * std, mean + WIDTH * std] : [-WIDTH, WIDTH];
  }
  if (Number.isNaN(low)) low = high - 2 * WIDTH;
  if (!(high >= low)) high = low + 2 * WIDTH;
  return [low, high];
}

// Returns the means and standard deviations that an input is normalized with: (x - mean) / sqrt(variance + epsilon).
function findStatistics(program, position) {
  if (program.metadata.normalized !== "true") return null;
  const first = program.inputs.length, nodes = first + program.weights.length;
  const nodeOf = (value) => program.nodes[value - nodes];
  const isCast = (value) => nodeOf(value)?.op === "Cast" && nodeOf(value).operands[0] === position;
  const isInput = (value) => value === position || isCast(value);
  const at = program.nodes.findIndex((node) => node.op === "Sub" && isInput(node.operands[0]));
  const divided = program.nodes.find((node) => node.op === "Div" && node.operands[0] === nodes + at);
  const added = nodeOf(nodeOf(divided?.operands[1])?.operands[0]);
  if (at < 0 || added?.op !== "Add") return null;
  const [mean, variance] = [program.nodes[at].operands[1], added.operands[0]].map((value) => {
    const weight = program.weights[value - first];
    if (!weight || weight.dtype !== "float64") return null;
    const start = Math.floor(weight.at / 3) * 4, end = Math.ceil((weight.at + 8 * countItems(weight.shape)) / 3) * 4;
    const bytes = Uint8Array.from(atob(program.data.slice(start, end)), (letter) => letter.charCodeAt(0));
    const view = new DataView(bytes.buffer, weight.at % 3);
    return Float64Array.from({length: countItems(weight.shape)}, (_, index) => view.getFloat64(8 * index, true));
  });
  return mean && variance ? [mean, variance.map(Math.sqrt)] : null;
}

// -- controls of the observation ----------------------------------------------------------------------

// Returns an input with its values and a group of controls; fill(choose) sets each item to what choose(item) returns.
function makePart(input, space, program, update) {
  const values = new Float64Array(countItems(input.shape));
  const position = program.inputs.indexOf(input);
  const statistics = findStatistics(program, position);
  const items = Array.from(values, (_, at) => describeItem(input, space, at, statistics));
  const title = input.key === null ? "Observation" : escapeText(input.key, 80) || '""';
  const kind = `${space.kind ?? input.dtype} ${input.shape.join(" \u00d7 ")}`;
  const legend = element("legend", {}, title, element("span", {class: "actions-muted"}, ` ${kind}`));
  const part = {input, values, group: element("fieldset", {class: "actions-group"}, legend)};
  const isImage = input.is_image || (input.shape.length === 3 && values.length > SHOWN_ITEMS);
  const show = isImage ? addImage(part, items, title, update) : addItems(part, items, title, update);
  part.fill = (choose) => {
    items.forEach((item, at) => { values[at] = choose(item, at); });
    show();
  };
  part.fill((item) => item.zero);
  return part;
}

// Returns what an item may be: the number of choices or a range, its value closest to zero, a random one, and what the
// space has: its bounds, and whether its numbers are whole.
function describeItem(input, space, at, statistics) {
  const isFlag = space.kind === "MultiBinary";
  const choices = input.choices !== null ? input.choices[at] : isFlag ? 2 : 0;
  const draw = () => Math.floor(Math.random() * choices);
  if (choices) return {choices, isFlag, zero: 0, draw, allowed: [0, choices - 1], isWhole: true};
  const bounds = findRange(space, at, statistics);
  const isWhole = /^.[iu]/.test(space.dtype ?? "") || (space.dtype === undefined && /^u?int/.test(input.dtype));
  const width = bounds[1] - bounds[0];
  const digits = isWhole || !width ? 0 : Math.min(15, Math.max(0, 2 - Math.floor(Math.log10(width))));
  const scale = 10 ** digits;
  const [low, high] = width ? [Math.ceil(bounds[0] * scale) / scale, Math.floor(bounds[1] * scale) / scale] : bounds;
  const round = (value) => Math.min(high, Math.max(low, Number(value.toFixed(digits))));
  return {
    choices: 0, low, high, step: 1 / scale, zero: round(0), draw: () => round(low + Math.random() * (high - low)),
    allowed: findBounds(space, at), isWhole,
  };
}

// Returns why a number is not of the space, which the policy computes with nevertheless; empty if it may be.
function describeOutside({allowed: [low, high], isWhole}, value) {
  if (value < low - ROUNDING * Math.abs(low) || value > high + ROUNDING * Math.abs(high)) {
    return `outside of the space: ${formatNumber(low, 7)} to ${formatNumber(high, 7)}`;
  }
  return isWhole && !Number.isInteger(value) ? "outside of the space: not a whole number" : "";
}

// Adds a control for each item, and returns what shows the values in them.
function addItems(part, items, title, update) {
  const {values, group, input} = part;
  const shown = items.slice(0, MOST_ITEMS).map((item, at) => {
    const name = nameItem(input.shape, at);
    const set = (value) => {
      values[at] = value;
      update();
    };
    return (item.choices ? makeChoice : makeSlider)(item, name, name ? `${title} ${name}` : title, set);
  });
  const rows = shown.map((control) => control.row);
  group.append(...rows.slice(0, SHOWN_ITEMS));
  if (rows.length > SHOWN_ITEMS) {
    const more = values.length > MOST_ITEMS ? `; the others, to ${values.length - 1}, only by the buttons` : "";
    const summary = `Items ${SHOWN_ITEMS} to ${rows.length - 1}${more}`;
    group.append(element("details", {}, element("summary", {}, summary), ...rows.slice(SHOWN_ITEMS)));
  }
  return () => shown.forEach((control, at) => control.show(values[at]));
}

// Returns the index of an item as text: "2, 0".
function nameItem(shape, at) {
  return shape.map((_, axis) => Math.floor(at / countItems(shape.slice(axis + 1))) % shape[axis]).join(", ");
}

// Passes the numbers of a field to set. Returns show, which changes the field, and a note that belongs below it: that
// its number is outside of the space, or that it has none, so that the last one is used.
function addCheck(field, item, set) {
  const note = element("small", {class: "actions-error", role: "status"});
  let used = item.zero;
  const mark = (text) => {
    field.setAttribute("aria-invalid", String(text !== ""));
    note.textContent = text;
  };
  field.addEventListener("input", () => {
    const value = field.valueAsNumber;
    if (!Number.isFinite(value)) {
      mark(`not a number: ${formatNumber(used)} is used`);
      return;
    }
    used = value;
    mark(describeOutside(item, value));
    set(value);
  });
  const show = (value) => {
    used = value;
    field.value = String(value);
    mark("");
  };
  return {note, show};
}

function makeSlider(item, name, title, set) {
  const range = element("input", {type: "range", min: item.low, max: item.high, step: item.step, "aria-label": title});
  const field = element("input", {type: "number", step: "any", "aria-label": `${title}, as a number`});
  const check = addCheck(field, item, (value) => {
    range.value = String(value);
    set(value);
  });
  range.addEventListener("input", () => {
    check.show(range.valueAsNumber);
    set(range.valueAsNumber);
  });
  const show = (value) => {
    range.value = String(value);
    check.show(value);
  };
  return {row: element("div", {class: "actions-item"}, element("span", {}, name), range, field, check.note), show};
}

function makeChoice(item, name, title, set) {
  const isList = !item.isFlag && item.choices <= MOST_CHOICES;
  const options = Array.from({length: isList ? item.choices : 0}, (_, at) => element("option", {}, String(at)));
  const field = isList ? element("select", {}, ...options)
    : element("input", item.isFlag ? {type: "checkbox"} : {type: "number", min: 0, max: item.choices - 1, step: 1});
  field.setAttribute("aria-label", title);
  const row = element("div", {class: "actions-item"}, element("span", {}, name), field);
  if (field.type === "number") {
    const check = addCheck(field, item, set);
    row.append(check.note);
    return {row, show: check.show};
  }
  field.addEventListener("input", () => set(Number(item.isFlag ? field.checked : field.value)));
  const show = (value) => {
    if (item.isFlag) field.checked = value === 1;
    else field.value = String(value);
  };
  return {row, show};
}

function makeMasks(mask, sizes, update) {
  const starts = sizes.map((_, at) => sizes.slice(0, at).reduce((sum, size) => sum + size, 0));
  const note = element("p", {class: "actions-error", role: "status"});
  const check = () => {
    const empty = starts.filter((start, at) => !mask.subarray(start, start + sizes[at]).some(Boolean));
    const names = sizes.length > 1 ? ` of component ${empty.map((start) => starts.indexOf(start)).join(", ")}` : "";
    const text = `At least one choice${names} must be valid: without any, all are equally likely.`;
    note.textContent = empty.length ? text : "";
  };
  const boxes = Array.from(mask.subarray(0, MOST_ITEMS), (_, at) => {
    const component = starts.findLastIndex((start) => start <= at);
    const name = sizes.length > 1 ? `${component}: ${at - starts[component]}` : String(at);
    const box = element("input", {type: "checkbox", "aria-label": `choice ${name} is valid`});
    box.checked = true;
    box.addEventListener("change", () => {
      mask[at] = Number(box.checked);
      check();
      update();
    });
    return element("label", {class: "actions-check"}, box, name);
  });
  const legend = element("legend", {}, "Valid choices", element("span", {class: "actions-muted"}, " action mask"));
  return element("fieldset", {class: "actions-group actions-masks"}, legend, ...boxes, note);
}

// -- images -------------------------------------------------------------------------------------------

// Adds a picture and buttons that set it, and returns what draws the values.
function addImage(part, items, title, update) {
  const {values, group, input} = part;
  const shape = input.shape.length === 3 ? input.shape : [1, ...input.shape];
  const isFirst = shape[0] <= shape[2]; // the axis of channels is the shorter one
  const [channels, height, width] = isFirst ? shape : [shape[2], shape[0], shape[1]];
  const offset = (channel, y, x) => (
    isFirst ? (channel * height + y) * width + x : (y * width + x) * channels + channel);
  const frames = channels === 3 ? 1 : Math.min(channels, CHANNELS, Math.max(1, Math.floor(LARGEST_PICTURE / width)));
  const isShown = width <= LARGEST_PICTURE && height <= LARGEST_PICTURE;
  const canvas = isShown
    ? element("canvas", {width: width * frames, height, role: "img", "aria-label": `picture of ${title}`})
    : element("p", {}, "A picture of this size is not shown.");
  canvas.style.setProperty("max-width", `${16 * frames}rem`);
  const context = isShown ? canvas.getContext("2d") : null;
  const level = (at) => 255 * (values[at] - items[at].low) / (items[at].high - items[at].low);
  const show = () => {
    if (!context) return;
    const pixels = context.createImageData(width * frames, height);
    for (let frame = 0; frame < frames; frame += 1) {
      for (let y = 0; y < height; y += 1) {
        for (let x = 0; x < width; x += 1) {
          const at = 4 * (y * width * frames + frame * width + x);
          for (let color = 0; color < 3; color += 1) {
            pixels.data[at + color] = level(offset(channels === 3 ? color : frame, y, x));
          }
          pixels.data[at + 3] = 255;
        }
      }
    }
    context.putImageData(pixels, 0, 0);
  };
  const paint = (shade) => { // of a channel at a place, from 0 to 1
    for (let channel = 0; channel < channels; channel += 1) {
      for (let y = 0; y < height; y += 1) {
        for (let x = 0; x < width; x += 1) {
          const item = items[offset(channel, y, x)];
          const value = item.low + (item.high - item.low) * shade(channel, y, x);
          values[offset(channel, y, x)] = item.step === 1 && item.high > item.low ? Math.round(value) : value;
        }
      }
    }
    note.textContent = "";
    show();
    update();
  };
  const note = element("p", {class: "actions-error", role: "status"});
  const file = element("input", {type: "file", accept: "image/*", "aria-label": `a picture as ${title}`});
  file.addEventListener("change", async () => {
    const [chosen] = file.files;
    if (!chosen) return;
    const scaled = element("canvas", {width, height}).getContext("2d");
    try {
      scaled.drawImage(await createImageBitmap(chosen), 0, 0, width, height);
    } catch {
      file.value = "";
      const name = escapeText(chosen.name, 80);
      note.textContent = `${name} is not a picture that this browser can read: the observation is as before.`;
      return;
    }
    const {data} = scaled.getImageData(0, 0, width, height);
    paint((channel, y, x) => {
      const [red, green, blue] = data.subarray(4 * (y * width + x));
      return (channels === 3 ? [red, green, blue][channel] : 0.299 * red + 0.587 * green + 0.114 * blue) / 255;
    });
  });
  file.hidden = !isShown;
  const buttons = element("div", {class: "actions-buttons"},
    makeButton("Black", () => paint(() => 0)), makeButton("Noise", () => paint(() => Math.random())),
    makeButton("Gradient", () => paint((channel, y, x) => (x / width + y / height) / 2)), file);
  group.append(canvas, buttons, note);
  return show;
}

// -- the answer ---------------------------------------------------------------------------------------

// Returns elements with all that the policy says: probabilities or values of choices, a mean, bounds, the value.
function describeAnswer({action, outputs}, space, sampling) {
  const {probabilities, q_values: qValues, value, mean, log_std: logStd} = outputs;
  const chosen = listNumbers(action);
  const made = [];
  const chances = probabilities ? listNumbers(probabilities) : [], count = chances.length;
  const sizes = sampling.sizes.reduce((sum, size) => sum + size, 0) === count ? sampling.sizes : [];
  if (space.kind === "Box") made.push(makeBounds(chosen, space, mean, logStd));
  else if (count && space.kind === "MultiBinary" && sampling.kind === "bernoulli") {
    const mark = (at) => (chosen[at] === 1 ? " is 1" : "");
    made.push(makeBars("Probability of 1", chances, [0, 1], mark));
  } else if (count) {
    let start = 0;
    (sizes.length ? sizes : [count]).slice(0, MOST_BARS).forEach((size, at) => {
      const title = sizes.length > 1 ? `Probabilities of component ${at}` : "Probabilities";
      const mark = (choice) => (choice === chosen[at] ? " chosen" : "");
      made.push(makeBars(title, chances.slice(start, start + size), [0, 1], mark));
      start += size;
    });
    if (sizes.length > MOST_BARS) {
      made.push(element("p", {class: "actions-muted"}, `The first ${MOST_BARS} components of ${sizes.length}.`));
    }
  }
  const values = qValues === undefined ? [] : listNumbers(qValues);
  if (values.length > 1 && space.kind === "Discrete") {
    const ends = [Math.min, Math.max].map((choose) => values.reduce((end, item) => choose(end, item), 0));
    made.push(makeBars("Q-values", values, ends, (choice) => (choice === chosen[0] ? " chosen" : "")));
  } else if (values.length) made.push(makeNumber(values.length > 1 ? "Q-values of the critics" : "Q-value", values));
  if (value !== undefined) made.push(makeNumber("Value", listNumbers(value)));
  return made;
}

const makeNumber = (name, numbers) => element("p", {class: "actions-number"},
  element("span", {}, `${name} `), element("strong", {}, numbers.map((number) => formatNumber(number)).join(", ")));

// Returns a table with a bar for each number, from zero; of many, the highest. mark returns a word about one.
function makeBars(title, numbers, [low, high], mark) {
  const order = numbers.map((_, at) => at);
  if (order.length > MOST_BARS) order.sort((one, other) => numbers[other] - numbers[one]).splice(MOST_BARS);
  const more = numbers.length > order.length ? ` (the ${order.length} highest of ${numbers.length})` : "";
  const rows = order.map((at) => {
    const name = element("th", {scope: "row"}, `${at}${mark(at)}`);
    const row = element("tr", mark(at) ? {class: "actions-chosen"} : {}, name);
    row.append(element("td", {}, makeBar(low, high, 0, numbers[at])), element("td", {}, formatNumber(numbers[at])));
    return row;
  });
  return element("table", {}, element("caption", {}, title + more), element("tbody", {}, ...rows));
}

// Returns a table of a continuous action between its bounds, with the distribution that it comes from.
function makeBounds(action, space, mean, logStd) {
  const columns = [["Mean", mean], ["Std", logStd && Array.from(logStd, Math.exp)]].filter((column) => column[1]);
  const titles = ["Item", "Action", "Low to high", ...columns.map((column) => column[0])];
  const rows = action.slice(0, MOST_BARS).map((value, at) => {
    const low = Number(space.low?.items?.[at] ?? space.low?.min);
    const high = Number(space.high?.items?.[at] ?? space.high?.max);
    const bar = Number.isFinite(high - low) ? makeBar(low, high, Math.min(high, Math.max(low, 0)), value) : "";
    const ends = [low, high].map((end) => element("span", {}, formatNumber(end, 4)));
    return element("tr", {}, element("th", {scope: "row"}, nameItem(space.shape, at)),
      element("td", {class: "actions-chosen"}, formatNumber(value)),
      element("td", {}, bar, element("span", {class: "actions-ends"}, ...ends)),
      ...columns.map((column) => element("td", {}, formatNumber(column[1][at], 4))));
  });
  const heads = titles.map((title) => element("th", {scope: "col"}, title));
  const table = element("table", {}, element("caption", {}, "Action between its bounds"),
    element("thead", {}, element("tr", {}, ...heads)), element("tbody", {}, ...rows));
  const scroll = {class: "actions-scroll", tabindex: 0, role: "group", "aria-label": "Action between its bounds"};
  const note = columns.length ? "Mean and Std: before the action is squashed, clipped or scaled to its bounds." : "";
  return element("div", {}, element("div", scroll, table), element("p", {class: "actions-muted"}, note));
}

// Returns a bar from one number to another, on a scale from low to high.
function makeBar(low, high, from, to) {
  const fill = element("span");
  const place = (value) => Math.min(100, Math.max(0, 100 * (value - low) / (high - low || 1)));
  const [start, end] = [place(from), place(to)].sort((one, other) => one - other);
  fill.style.setProperty("left", `${start}%`);
  fill.style.setProperty("width", `${Math.max(1, end - start)}%`);
  return element("span", {class: "actions-bar", "aria-hidden": "true"}, fill);
}

// -- elements and texts -------------------------------------------------------------------------------

function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

function makeButton(text, work) {
  const made = element("button", {type: "button"}, text);
  made.addEventListener("click", work);
  return made;
}

const listNumbers = (value) => (typeof value === "number" ? [value] : Array.from(value, Number));

function formatNumber(value, digits = 5) {
  const size = Math.abs(value);
  const text = size !== 0 && (size < 1e-4 || size >= 1e9) && Number.isFinite(size)
    ? value.toExponential(2) : value.toLocaleString("en", {maximumSignificantDigits: digits, useGrouping: false});
  return text.replace("-", "\u2212");
}

// Returns a text of a file without characters that are invisible, turn the direction of text, or pile up.
function escapeText(text, most) {
  const code = (character) => `\\u{${character.codePointAt(0).toString(16)}}`;
  const shown = text.replace(/[\p{C}\p{Zl}\p{Zp}]/gu, code).replace(/(\p{M}{3})\p{M}+/gu, "$1");
  return shown.length > most ? `${shown.slice(0, most)}\u2026` : shown;
}
