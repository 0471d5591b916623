"use strict";
(() => {
  const table = document.getElementById("files");
  const body = table.tBodies[0];
  const headers = Array.from(table.tHead.rows[0].cells);
  const rows = Array.from(body.rows);
  const keys = headers.map((header) => header.dataset.key);
  const titles = headers.map((header) => header.textContent.trim());
  const isNumber = headers.map((header) => header.classList.contains("number"));
  const hiddenIfNarrow = matchMedia("(max-width: 40rem)").matches ? ["seed"] : []; // so that a reward is in sight
  const shownAtFirst = headers.map((header, index) => !header.hidden && !hiddenIfNarrow.includes(keys[index]));
  const filter = document.getElementById("filter");
  const status = document.getElementById("status");
  const collator = new Intl.Collator(undefined, {numeric: true, sensitivity: "base"});
  let sorted = {index: -1, direction: 0};

  // -- values ---------------------------------------------------------------------------------------

  const textOf = (row, index) => row.cells[index].textContent.trim();

  const plainOf = (row, index) => textOf(row, index).replaceAll(",", ""); // of a column of numbers

  const numberOf = (row, index) => {
    const value = row.cells[index].dataset.value ?? (isNumber[index] && plainOf(row, index));
    return value ? Number(value) : NaN;
  };

  // -- sort -----------------------------------------------------------------------------------------

  const compare = (index, direction) => (left, right) => {
    const texts = [textOf(left, index), textOf(right, index)];
    if (!texts[0] || !texts[1]) return (texts[0] ? 0 : 1) - (texts[1] ? 0 : 1); // empty cells are last either way
    const numbers = [numberOf(left, index), numberOf(right, index)];
    const are = numbers.map((number) => !Number.isNaN(number));
    if (are[0] !== are[1]) return are[0] ? -1 : 1;
    const order = are[0] ? numbers[0] - numbers[1] : collator.compare(texts[0], texts[1]);
    return order * direction;
  };

  const sortBy = (index, direction) => {
    sorted = {index, direction};
    const order = direction ? rows.slice().sort(compare(index, direction)) : rows;
    const fragment = document.createDocumentFragment();
    fragment.append(...order);
    body.append(fragment);
    headers.forEach((header, other) => {
      header.removeAttribute("aria-sort");
      if (other === index && direction) header.setAttribute("aria-sort", direction > 0 ? "ascending" : "descending");
    });
  };

  const nextDirection = (index) => {
    const first = isNumber[index] || keys[index] === "verdict" ? -1 : 1; // the largest numbers and worst verdicts first
    if (sorted.index !== index || !sorted.direction) return first;
    return sorted.direction === first ? -first : 0;
  };

  // -- filter ---------------------------------------------------------------------------------------

  const indexOf = (name) => keys.findIndex((key) => key.toLowerCase() === name.toLowerCase());

  const relations = {
    ":": (text, number, value) => text.toLowerCase().includes(value),
    "=": (text, number, value) => text.toLowerCase() === value || (value !== "" && number === Number(value)),
    "!=": (text, number, value) => !relations["="](text, number, value),
    "<": (text, number, value) => number < Number(value),
    ">": (text, number, value) => number > Number(value),
    "<=": (text, number, value) => number <= Number(value),
    ">=": (text, number, value) => number >= Number(value),
  };

  const parse = (text) => (text.match(/[^\s"]*"[^"]*"?|[^\s"]+/g) || []).map((part) => {
    const isNegated = part.length > 1 && part.startsWith("-");
    const word = (isNegated ? part.slice(1) : part).replace(/"/g, "").toLowerCase();
    const split = /^([^<>=!:]+)(!=|<=|>=|[<>=:])(.*)$/.exec(word);
    const index = split ? indexOf(split[1]) : -1;
    if (index < 0) return {isNegated, matches: (row, all) => all.includes(word), unknown: split ? split[1] : null};
    const matches = (row) => relations[split[2]](textOf(row, index), numberOf(row, index), split[3]);
    return {isNegated, matches, unknown: null};
  });

  const describeCount = (count) => (count === rows.length
    ? `All ${rows.length.toLocaleString("en")} ${table.dataset.noun}`
    : `${count.toLocaleString("en")} of ${rows.length.toLocaleString("en")} ${table.dataset.noun}`);

  const applyFilter = () => {
    const terms = parse(filter.value);
    let count = 0;
    for (const row of rows) {
      const all = terms.length ? row.textContent.toLowerCase() : "";
      row.hidden = !terms.every((term) => term.matches(row, all) !== term.isNegated);
      count += row.hidden ? 0 : 1;
    }
    const unknown = terms.map((term) => term.unknown).filter((name) => name !== null);
    const hint = unknown.length ? `. No column is called ${unknown.join(", ")}, so the text is searched` : "";
    status.textContent = `${describeCount(count)}${hint}`;
    table.dispatchEvent(new Event("filtered"));
  };

  // -- columns --------------------------------------------------------------------------------------

  const boxes = titles.slice(1).map((title, index) => {
    const [item, label, box] = ["li", "label", "input"].map((name) => document.createElement(name));
    Object.assign(box, {type: "checkbox", value: index + 1, autocomplete: "off"});
    label.append(box, ` ${title}`);
    item.append(label);
    document.getElementById("column-boxes").append(item);
    return box;
  });

  const showColumn = (index, isShown) => {
    headers[index].hidden = !isShown;
    for (const row of rows) row.cells[index].hidden = !isShown;
  };

  const countColumns = () => {
    const count = headers.filter((header) => !header.hidden).length;
    document.getElementById("column-count").textContent = `${count} of ${headers.length}`;
  };

  const showColumns = (isShown) => {
    boxes.forEach((box) => {
      const index = Number(box.value);
      const wanted = isShown(index);
      if (box.checked !== wanted || headers[index].hidden === wanted) showColumn(index, wanted);
      box.checked = wanted;
    });
    countColumns();
  };

  // -- CSV ------------------------------------------------------------------------------------------

  const quoteCell = (text) => {
    const isFormula = /^[=+\-@\t\r]/.test(text) && Number.isNaN(Number(text)); // which a spreadsheet would run
    const safe = isFormula ? `'${text}` : text;
    return /[",\n\r]/.test(safe) ? `"${safe.replace(/"/g, '""')}"` : safe;
  };

  const writeTable = () => {
    const shown = headers.map((header, index) => index).filter((index) => !headers[index].hidden);
    const cellOf = (row, index) => quoteCell(
      isNumber[index] ? row.cells[index].dataset.value ?? plainOf(row, index) : textOf(row, index),
    );
    const lines = [shown.map((index) => quoteCell(keys[index])).join(",")];
    for (const row of body.rows) {
      if (!row.hidden) lines.push(shown.map((index) => cellOf(row, index)).join(","));
    }
    return `${lines.join("\r\n")}\r\n`;
  };

  const download = () => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([writeTable()], {type: "text/csv"}));
    link.download = "files.csv";
    link.click();
    URL.revokeObjectURL(link.href);
  };

  // -- start ----------------------------------------------------------------------------------------

  headers.forEach((header, index) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...header.childNodes);
    button.addEventListener("click", () => sortBy(index, nextDirection(index)));
    header.append(button);
  });
  boxes.forEach((box) => box.addEventListener("change", () => {
    showColumn(Number(box.value), box.checked);
    countColumns();
  }));
  document.getElementById("all-columns").addEventListener("click", () => showColumns(() => true));
  document.getElementById("first-columns").addEventListener("click", () => showColumns((index) => shownAtFirst[index]));
  document.getElementById("download").addEventListener("click", download);
  filter.addEventListener("input", applyFilter);
  filter.value = "";
  showColumns((index) => shownAtFirst[index]);
  applyFilter();
  document.getElementById("controls").hidden = false;
  table.classList.add("sortable");
})();
