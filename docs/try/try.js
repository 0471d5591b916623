// The page "Try it": it passes the files that the user chooses to worker.js, and shows what that returns.
//
// Every text of a file is inserted as text. Python runs in the worker: if it takes too long, fails or is stopped, the
// worker is ended, and another one begins.
import { FILES } from "./files.js";
import { createPanel } from "./panel.js";
import { createPolicy } from "./runtime.js";

const MOST_FILES = 2000;
const MOST_BYTES = 512 * 2 ** 20;
const MOST_SECONDS = 120;
const MOST_ROWS = 500;
const LONG_CELL = 24; // characters of a cell that is broken into lines
const LOADING = "Loading Python \u2026 (13 MB, once)";
const SVG = "http://www.w3.org/2000/svg";
const UNREADABLE = "unreadable"; // in place of a verdict
const EXPLAINED = [UNREADABLE, "broken"]; // verdicts that say why the contents cannot be shown
const WITH_OR_WITHOUT = { true: "With the statistics", false: "Without statistics" };
const SENTENCES = {
  clean: "Every byte was understood: loading the file runs nothing that sbformat does not know.",
  unknown: "Loading the file uses something that sbformat does not know.",
  code: "The file has code that loading it may run.",
  broken: "A part of the file cannot be read, so that nobody knows what loading it does.",
  dangerous: "Loading the file may run code, reach files, open connections or end the process.",
};
const CLEAN_FILES = "Every byte was understood: loading the files runs nothing that sbformat does not know.";
const OTHERS = ["zip", "npz", "unknown"]; // formats of files that are not archives of SB3
const OTHER_SENTENCES = {
  clean: "Nothing was found that loading could run, but it is not an archive of Stable-Baselines3.",
  unknown: "It is not an archive of Stable-Baselines3. sbformat does not know its type, nor what loading it does.",
};
const NO_ACTIONS =
  "Actions are computed here for clean files; sbformat predict computes them for others, too, and executes nothing.";
const NO_NUMPY =
  "statistics, logs and sparse tensors are read with numpy, which could not be loaded from cdn.jsdelivr.net";
const byId = (id) => document.getElementById(id);

// -- elements ------------------------------------------------------------------------------------------

/** Return a text with escapes for characters that are invisible, or change the direction of text. */
function show(text) {
  const escaped = (character) => `\\u{${character.codePointAt(0).toString(16)}}`;
  return String(text).replace(/(?![ \n])[\p{C}\p{Z}]|\p{M}{4,}/gu, (found) =>
    found.length > 8 ? "\u2026" : escaped(found),
  );
}

/** Return an element with attributes and content: texts and elements. */
function make(tag, attributes = {}, ...content) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...content.map((part) => (typeof part === "string" ? show(part) : part)));
  return element;
}

/** Return a table; without titles of columns it is one of names and values. */
function makeTable(title, header, rows) {
  const shown = [];
  for (const row of rows.slice(0, MOST_ROWS)) {
    if (!header.length && row[0] === "" && shown.length)
      shown.at(-1)[1] += `\n${row[1]}`; // the next line of a text
    else shown.push([...row]);
  }
  if (rows.length > MOST_ROWS) shown.push([`\u2026 and ${rows.length - MOST_ROWS} more`]);
  const makeCell = (cell, at) => {
    const isWrapped = !header.length || cell.length > LONG_CELL;
    const parts = isWrapped
      ? show(cell)
          .split(header.length ? /(?<=\p{L}[./])(?=\p{L})/u : /(?<=\p{L}[._/])(?=\p{L})/u)
          .flatMap((part) => [part, make("wbr")])
      : [cell];
    const style = isWrapped ? { class: "text" } : {};
    return at || !cell ? make("td", style, ...parts) : make("th", { scope: "row", ...style }, ...parts);
  };
  const body = shown.map((row) => make("tr", {}, ...row.map(makeCell)));
  const parts = [make("tbody", {}, ...body)];
  if (header.length) {
    const titles = header.map((cell) => (cell ? make("th", { scope: "col" }, cell) : make("td")));
    parts.unshift(make("thead", {}, make("tr", {}, ...titles)));
  }
  const table = make(
    "table",
    header.length ? {} : { class: "facts-table" },
    make("caption", {}, capitalize(title)),
    ...parts,
  );
  return header.length
    ? make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": title }, table)
    : table;
}

const capitalize = (text) => text.charAt(0).toUpperCase() + text.slice(1);
const makeNote = (text) => make("p", { class: "note" }, capitalize(text));

function makeSection(title, ...content) {
  return make("section", {}, make("h2", {}, title), ...content);
}

// -- verdict -------------------------------------------------------------------------------------------

function makeVerdict({ files, skipped, numpy }, path) {
  if (numpy) return makeSection("Is it safe to load?", makeNote(`There is no verdict: ${NO_NUMPY}.`));
  const name = (file) => (file.path === path ? "" : file.path.slice(path.length + 1));
  const clean = files.filter((file) => file.verdict === "clean");
  const parts = files.filter((file) => file.verdict !== "clean").map((file) => makeFile(file, name(file)));
  if (clean.length === 1) parts.push(makeFile(clean[0], name(clean[0])));
  if (clean.length > 1) {
    const names = clean.slice(0, MOST_ROWS).map((file) => {
      const badge = make("span", { class: `badge verdict-${isOther(file) ? "" : "clean"}` }, nameVerdict(file));
      return make("li", {}, `${name(file)} `, badge);
    });
    parts.push(makeBox("clean", "clean", make("p", {}, CLEAN_FILES), make("ul", { class: "names" }, ...names)));
  }
  if (!files.length) parts.push(makeNote("There is nothing to judge: no archive, torch file or pickle was found."));
  const others = Object.entries(skipped.counts).map(([reason, count]) => `${count} (${reason})`);
  if (others.length) parts.push(make("p", { class: "muted" }, `Files without a verdict: ${others.join(", ")}.`));
  return makeSection(files.length > 1 ? "Are they safe to load?" : "Is it safe to load?", ...parts);
}

const isOther = ({ format, verdict }) => OTHERS.includes(format) && verdict in OTHER_SENTENCES;

function nameVerdict(file) {
  if (file.outcome !== "ok") return UNREADABLE;
  const reason = isOther(file) ? "not an archive of SB3" : file.reason;
  return reason ? `${file.verdict} (${reason})` : file.verdict;
}

/** Return the verdicts of files in a line, each once. */
function listVerdicts({ files = [] }) {
  return [...new Set(files.map(nameVerdict))].join(", ") || "no verdict";
}

function makeBox(word, style, ...content) {
  return make(
    "div",
    { class: `panel verdict-panel verdict-${style}` },
    make("p", { class: "verdict-word" }, word),
    ...content,
  );
}

function makeFile(file, name) {
  const title = name ? [make("p", { class: "lead" }, name)] : [];
  if (file.outcome !== "ok")
    return makeBox(UNREADABLE, "broken", ...title, make("p", {}, `${file.outcome}: ${file.message}`));
  const findings = file.findings.slice(0, MOST_ROWS).map(makeFinding);
  return makeBox(
    nameVerdict(file),
    isOther(file) && file.verdict === "clean" ? "other" : file.verdict,
    ...title,
    make("p", {}, (isOther(file) ? OTHER_SENTENCES : SENTENCES)[file.verdict]),
    ...(findings.length ? [make("ul", { class: "findings" }, ...findings)] : []),
    ...(file.sha256 ? [make("p", { class: "digest muted" }, `sha256 ${file.sha256}`)] : []),
  );
}

function makeFinding({ verdict, message, entry, key, offset, rule }) {
  const where = [entry, key].filter((part) => part !== null && part !== "").join(":") || "the file";
  const place = make("small", {}, offset === null ? where : `${where} at byte ${offset}`, " \u00b7 ");
  place.append(make("a", { href: `../reference/rules/#${rule}` }, rule));
  return make(
    "li",
    {},
    make("span", { class: `badge verdict-${verdict}` }, verdict),
    make("div", {}, make("p", {}, message), place),
  );
}

// -- contents ------------------------------------------------------------------------------------------

const isNetwork = ([title]) => title.startsWith("network");
const isLayers = ([title]) => title.startsWith("network: layers");

function makeContents({ remarks, page, details, diagram }) {
  const tables = (list) => list.map((table) => makeTable(...table));
  const facts = make("div", { class: "columns" }, ...tables(page.filter((table) => !isNetwork(table))));
  const sections = [makeSection("What it is", ...remarks.map(makeNote), facts)];
  const parts = [...(diagram ? [makeDiagram(diagram)] : []), ...tables(details.filter(isLayers))];
  const network = tables(page.filter(isNetwork).map(([, ...table]) => ["parts", ...table]));
  if (network.length) sections.push(makeSection("Network", ...network, make("div", { class: "beside" }, ...parts)));
  const folded = details
    .filter((table) => !isLayers(table))
    .map((table) => {
      return make("details", {}, make("summary", {}, capitalize(table[0])), makeTable(...table));
    });
  if (folded.length) sections.push(makeSection("Everything else", ...folded));
  return sections;
}

/** Draw the boxes and the lines that sbformat.html_report.diagram has placed. */
function makeDiagram({ width, height, lines, boxes }) {
  const draw = (tag, attributes, ...content) => {
    const element = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.append(...content);
    return element;
  };
  const paths = draw("g", { class: "lines" }, ...lines.map((line) => draw("path", { d: line })));
  const drawn = boxes.map(([kind, x, y, boxWidth, boxHeight, middle, texts]) => {
    const rounding = kind === "layer" || kind === "step" ? 8 : 17;
    const rows = texts.map(([at, text], row) =>
      draw("text", { x: middle, y: at, class: row ? "" : "name" }, show(text)),
    );
    return draw(
      "g",
      { class: `box box-${kind}` },
      draw("rect", { x, y, width: boxWidth, height: boxHeight, rx: rounding }),
      ...rows,
    );
  });
  const label = "Diagram of the network, which the tables below describe";
  const size = { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label };
  const picture = draw("svg", { class: width <= 460 ? "diagram fits" : "diagram", ...size }, paths, ...drawn);
  return make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Diagram" }, picture);
}

// -- actions -------------------------------------------------------------------------------------------

function makeActions({ remarks, program, error, choices, is_withheld: isWithheld }) {
  if (isWithheld) return makeSection("Actions", makeNote(NO_ACTIONS));
  if (program) {
    const root = make("div");
    createPanel(root, createPolicy(program), program);
    return makeSection("Actions", ...remarks.map(makeNote), root);
  }
  const note = makeNote(`There are none: ${error ?? NO_NUMPY}.`);
  const asked = choices ?? (error || job.statistics === false ? [] : [false]);
  const buttons = asked.map((statistics) => makeAsk(WITH_OR_WITHOUT[statistics], { agent: job.agent, statistics }));
  const parts = buttons.length ? [make("p", { class: "asks statistics" }, ...buttons)] : [];
  return makeSection("Actions", note, ...parts);
}

/** Return a button that asks for another part of the files that the worker has. */
function makeAsk(text, asked) {
  const button = make("button", { type: "button" }, text);
  button.addEventListener("click", () => {
    for (const other of button.parentElement.children) other.setAttribute("aria-pressed", other === button);
    ask(asked);
  });
  return button;
}

function makeChoice(agents) {
  const buttons = agents.slice(0, MOST_ROWS).map((agent) => makeAsk(agent, { agent }));
  const text = `There are ${agents.length} agents. Choose the one to look at, which is shown with the files beside it.`;
  return makeSection("Which agent?", make("p", {}, text), make("p", { class: "asks agents" }, ...buttons));
}

const MAKERS = {
  scan: (value, path) => [makeVerdict(value, path)],
  contents: (value) => [
    ...(value.agents ? [makeChoice(value.agents)] : []),
    ...(value.page ? makeContents(value) : []),
    ...(value.error && !EXPLAINED.includes(job.verdict) ? [makeSection("What it is", makeNote(value.error))] : []),
    ...(value.numpy ? [makeNote(`Some of the contents are missing: ${NO_NUMPY}.`)] : []),
  ],
  actions: (value) => [makeActions(value)],
};

// -- the worker ----------------------------------------------------------------------------------------

let worker = null;
let workerAddress = ""; // of a blob, see worker.js
let loaded = null; // a promise of whether a worker was started
let isReady = false;
let job = null; // what the worker does: its number, the name, the path in the worker, the verdict, and what was asked
let examined = null; // the job whose files the worker has
let timer = 0;
let count = 0;

function setState(text, { isBusy = false } = {}) {
  byId("state").textContent = show(text);
  byId("progress").hidden = !isBusy;
  byId("stop").hidden = !isBusy || job === null;
}

/** Start a worker; the files that are passed to it before it is ready wait there. */
function startWorker() {
  worker?.terminate();
  isReady = false;
  examined = null;
  for (const button of byId("result").querySelectorAll(".asks button")) button.disabled = true;
  worker = new Worker(workerAddress, { type: "module" });
  worker.onmessage = ({ data }) => receive(data);
  worker.onerror = () => receive({ kind: "failed", id: job?.id, reason: "its worker ended" });
  worker.postMessage({ base: new URL("./", location.href).href, digests: FILES });
}

/** End what is being examined if it takes too long. */
function watch() {
  setState(`Examining ${job.name} \u2026`, { isBusy: true });
  const text = `${job.name} was not examined within ${MOST_SECONDS} seconds. Try the command line.`;
  timer = setTimeout(() => end(text), MOST_SECONDS * 1000);
}

/** End what is being examined, and say why. */
function end(text) {
  clearTimeout(timer);
  job = null;
  startWorker();
  setState(text);
}

function receive({ kind, id, text, reason }) {
  if (kind === "ready") {
    isReady = true;
    if (job) watch();
    else if (byId("state").textContent === LOADING) setState("Ready."); // and not why the last worker ended
    return;
  }
  if (kind === "failed" && !isReady) {
    clearTimeout(timer);
    job = null;
    worker?.terminate();
    worker = null;
    setState(`Python could not be loaded: ${reason}. Load the page again.`);
    return;
  }
  if (id !== job?.id) return;
  if (kind === "failed") {
    end(`${job.name} could not be examined: ${reason}. Try the command line.`);
  } else if (kind === "done") {
    clearTimeout(timer);
    const { name, verdict, agent } = job;
    job = null;
    const isChosen = agent || !byId("result").querySelector(".agents");
    setState(`${name}: ${isChosen ? `${verdict}; done` : "choose an agent"}.`);
  } else {
    showResult(kind, text);
  }
}

function showResult(kind, text) {
  let parts;
  try {
    const value = JSON.parse(text);
    if (kind === "scan") job.verdict = listVerdicts(value);
    parts = MAKERS[kind](value, job.path);
  } catch (error) {
    parts = [makeNote(`The page cannot show a part: ${error.message}`)];
  }
  const result = byId("result");
  if (kind === "scan") result.replaceChildren(make("h2", { class: "name" }, job.name));
  if (kind === "actions")
    findHead()
      .at(-1)
      .after(...parts);
  else result.append(...parts);
  if (kind === "contents") setState(`${job.name}: computing actions \u2026`, { isBusy: true });
}

/** Return the name, the verdict, and the choice of an agent if there is one. */
function findHead() {
  const parts = [...byId("result").children];
  return parts.slice(0, parts.findIndex((part) => part.querySelector(".agents")) + 1 || 2);
}

/** Ask for an agent of the folder, or for its actions with or without statistics. */
function ask({ agent, statistics }) {
  clearTimeout(timer);
  job = examined = { ...examined, id: ++count, agent, statistics };
  const rest = [...byId("result").children].slice(findHead().length);
  for (const part of statistics === undefined ? rest : rest.slice(0, 1)) part.remove();
  watch();
  worker.postMessage({ id: job.id, path: job.path, agent, statistics });
}

/** Examine files: `[{names, file}]`, whose names begin at what the user chose. */
async function examine(name, chosen) {
  if (!(await loaded) || !worker) return;
  const size = chosen.reduce((sum, { file }) => sum + file.size, 0);
  if (!chosen.length) return setState("There is no file in it.");
  if (chosen.length > MOST_FILES)
    return setState(`${name} has more than ${MOST_FILES} files: choose the folder of one run.`);
  if (size > MOST_BYTES) return setState(`${name} is larger than ${MOST_BYTES / 2 ** 20} MiB. Try the command line.`);
  if (job) end("");
  job = examined = { id: ++count, name, path: "file", verdict: "" };
  const { id } = job;
  byId("result").replaceChildren();
  setState(LOADING, { isBusy: true });
  let files;
  try {
    files = await Promise.all(chosen.map(async ({ names, file }) => ({ names, data: await file.arrayBuffer() })));
  } catch {
    return job?.id === id ? end(`${name} could not be read.`) : undefined;
  }
  if (job?.id !== id) return;
  if (files.length > 1 || files[0].names.length > 1) {
    job.path = "folder";
    const isOne = files.every(({ names }) => names.length > 1 && names[0] === files[0].names[0]); // of one folder
    const renamed = rename(files.map(({ names }) => (isOne ? names.slice(1) : names)));
    files = files.map((file, at) => ({ names: ["folder", ...renamed[at]], data: file.data }));
  } else {
    files[0].names = ["file"];
  }
  if (isReady) watch();
  worker.postMessage(
    { id, path: job.path, files },
    files.map((file) => file.data),
  );
}

/** Return names of ours for paths: of letters, digits, dots, hyphens and underscores, each once in its folder. */
function rename(paths) {
  const folders = new Map();
  return paths.map((names) => {
    let folder = "";
    return names.map((name) => {
      if (!folders.has(folder)) folders.set(folder, new Map());
      const known = folders.get(folder);
      if (!known.has(name)) {
        const plain = name.replace(/[^\w.-]/g, "_").replace(/^\.+$/, "_") || "_";
        const taken = new Set(known.values());
        let own = plain;
        for (let number = 1; taken.has(own); number++) own = `${number}_${plain}`;
        known.set(name, own);
      }
      folder += `/${known.get(name)}`;
      return known.get(name);
    });
  });
}

// -- choosing files ------------------------------------------------------------------------------------

/** Return the files of a dropped file or folder, up to one more than are examined. */
async function listEntry(entry, names, found) {
  if (found.length > MOST_FILES) return;
  if (entry.isFile) {
    found.push({
      names: [...names, entry.name],
      file: await new Promise((resolve, reject) => entry.file(resolve, reject)),
    });
    return;
  }
  const reader = entry.createReader();
  for (;;) {
    const entries = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
    if (!entries.length) return;
    for (const inner of entries) await listEntry(inner, [...names, entry.name], found);
  }
}

async function drop(event) {
  const items = [...event.dataTransfer.items].filter((item) => item.kind === "file");
  const entries = items.map((item) => item.webkitGetAsEntry() ?? item.getAsFile());
  const found = [];
  try {
    for (const entry of entries) {
      if (entry instanceof File) found.push({ names: [entry.name], file: entry });
      else await listEntry(entry, [], found);
    }
  } catch {
    return setState("What was dropped cannot be read.");
  }
  return examine(nameChoice(entries.map((entry) => entry.name)), found);
}

const nameChoice = (names) => (names.length > 1 ? `${names.length} files` : (names[0] ?? ""));

function choose(input) {
  const files = [...input.files];
  const chosen = files.map((file) => ({ names: (file.webkitRelativePath || file.name).split("/"), file }));
  input.value = "";
  if (chosen.length) examine(nameChoice([...new Set(chosen.map(({ names }) => names[0]))]), chosen);
}

async function chooseSample(name) {
  try {
    const response = await fetch(name, { integrity: FILES[name] });
    await examine(name, [{ names: [name], file: await response.blob() }]);
  } catch {
    setState(`${name} could not be loaded.`);
  }
}

function listen() {
  for (const button of document.querySelectorAll("button")) button.disabled = false;
  const area = byId("drop");
  let depth = 0; // of elements within the area that the pointer has entered
  const mark = (change) => {
    depth = change === 0 ? 0 : depth + change;
    area.classList.toggle("over", depth > 0);
  };
  document.addEventListener("dragover", (event) => event.preventDefault());
  document.addEventListener("dragenter", () => mark(1));
  document.addEventListener("dragleave", () => mark(-1));
  document.addEventListener("drop", (event) => {
    event.preventDefault();
    mark(0);
    drop(event);
  });
  for (const id of ["files", "folder"]) {
    byId(`choose-${id}`).addEventListener("click", () => byId(id).click());
    byId(id).addEventListener("change", (event) => choose(event.target));
  }
  for (const button of document.querySelectorAll(".sample"))
    button.addEventListener("click", () => chooseSample(button.textContent));
  byId("stop").addEventListener("click", () => end("Stopped."));
}

/** Return worker.js, whose digest is checked, as a blob. */
async function loadWorker() {
  const response = await fetch("worker.js", { integrity: FILES["worker.js"] });
  return URL.createObjectURL(new Blob([await response.text()], { type: "text/javascript" }));
}

if (FILES["pyodide/pyodide.mjs"]) {
  listen();
  setState(LOADING, { isBusy: true });
  loaded = loadWorker().then(
    (address) => {
      workerAddress = address;
      startWorker();
      return true;
    },
    () => setState("The page could not be loaded whole. Load it again."),
  );
} else {
  for (const name of ["dragover", "drop"]) document.addEventListener(name, (event) => event.preventDefault());
  byId("drop").classList.add("off");
  byId("drop").querySelector(".lead").textContent = "This copy of the page cannot examine files";
  setState(
    "This copy of the site was built without Pyodide. To build it with Pyodide, install the npm package pyodide, and " +
      "set SBFORMAT_NODE_MODULES to the folder node_modules that has it: ",
  );
  byId("state").append(make("a", { href: "../contributing/#write-a-page" }, "Contributing says how"));
}
