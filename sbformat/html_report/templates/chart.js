"use strict";
(() => {
  const table = document.getElementById("files");
  const headers = Array.from(table.tHead.rows[0].cells);
  const keys = headers.map((header) => header.dataset.key);
  const titles = headers.map((header) => header.textContent.trim());
  const [ySelect, xSelect, bySelect, envSelect] = ["chart-y", "chart-x", "chart-by", "chart-env"]
    .map((id) => document.getElementById(id));
  const svg = document.getElementById("chart-plot");
  const collator = new Intl.Collator(undefined, {numeric: true, sensitivity: "base"});
  const mostBands = 12; // values of a text column that have a place of their own
  const symbols = [
    "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0", "M-3.6-3.6h7.2v7.2h-7.2z", "M0-4.8L4.6 3.4H-4.6z", "M0-5L5 0 0 5-5 0z",
    "M-1.4-4.6h2.8v3.2h3.2v2.8h-3.2v3.2h-2.8v-3.2h-3.2v-2.8h3.2z", "M-4-4L4 4M-4 4L4-4",
  ];

  // -- values ---------------------------------------------------------------------------------------

  const textOf = (row, index) => row.cells[index].textContent.trim();
  const numberOf = (row, index) => {
    const text = row.cells[index].dataset.value ?? textOf(row, index).replaceAll(",", "");
    const value = text ? Number(text) : NaN;
    return Math.abs(value) < 1e300 ? value : NaN; // so that differences are finite
  };
  const format = (value) => (value !== 0 && (Math.abs(value) < 1e-4 || Math.abs(value) >= 1e9)
    ? value.toExponential(2) : value.toLocaleString("en", {maximumSignificantDigits: 5})).replace("-", "\u2212");
  const shorten = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}\u2026` : text);
  const countBy = (texts) => {
    const counts = new Map();
    for (const text of texts) counts.set(text, (counts.get(text) || 0) + 1);
    return Array.from(counts.keys()).sort((one, other) => counts.get(other) - counts.get(one));
  };
  const sorted = (texts) => texts.sort(collator.compare);

  // -- scales ---------------------------------------------------------------------------------------

  const scaleNumbers = (numbers, canBeLogarithmic, from, to, most) => {
    let low = Math.min(...numbers), high = Math.max(...numbers);
    const isLog = canBeLogarithmic && low > 0 && high / low >= 20;
    const convert = isLog ? Math.log10 : (value) => value;
    [low, high] = [convert(low), convert(high)];
    const margin = (high - low) * 0.05 || Math.abs(low) * 0.05 || 1;
    [low, high] = [low - margin, high + margin];
    const rough = (high - low) / most, power = 10 ** Math.floor(Math.log10(rough));
    const step = isLog ? Math.ceil(rough) : power * [1, 2, 2.5, 5, 10].find((one) => one * power >= rough);
    const first = Math.floor(low / step), count = Math.min(14, Math.ceil(high / step) - first + 1) || 0;
    const steps = Array.from({length: count}, (_, at) => (first + at) * step);
    const ticks = isLog ? steps.flatMap((at) => [10 ** at, ...(rough < 0.5 ? [3 * 10 ** at] : [])]) : steps;
    const of = (value) => from + (convert(value) - low) / (high - low) * (to - from);
    const isInside = (value) => convert(value) >= low && convert(value) <= high;
    return {of, isLog, ticks: ticks.filter(isInside).map((value) => [of(value), format(value)])};
  };

  const scaleTexts = (texts, from, to) => {
    const shown = sorted(countBy(texts).slice(0, mostBands));
    const width = (to - from) / shown.length;
    const of = (text, spread) => from + (shown.indexOf(text) + 0.5 + spread) * width;
    return {of, has: (text) => shown.includes(text), ticks: shown.map((text) => [of(text, 0), text]), width};
  };

  // -- drawing --------------------------------------------------------------------------------------

  const add = (parent, name, attributes, text) => {
    const element = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const key of Object.keys(attributes)) element.setAttribute(key, attributes[key]);
    if (text !== undefined) element.textContent = text;
    parent.append(element);
    return element;
  };

  const drawAxes = (box, x, y, isNumber, xTitle, yTitle) => {
    for (const [at, text] of y.ticks) {
      add(svg, "path", {class: "grid", d: `M${box.left} ${at}H${box.right}`});
      add(svg, "text", {x: box.left - 8, y: at + 4, "text-anchor": "end"}, text);
    }
    add(svg, "path", {class: "axis", d: `M${box.left} ${box.bottom}H${box.right}`});
    const isTurned = !isNumber && x.ticks.some(([, text]) => text.length * 7 > x.width);
    for (const [at, text] of x.ticks) {
      const turn = isTurned ? {"text-anchor": "end", transform: `rotate(-35 ${at} ${box.bottom + 14})`} : {};
      add(svg, "text", {x: at, y: box.bottom + 18, "text-anchor": "middle", ...turn}, shorten(text, isTurned ? 17 : 40));
    }
    add(svg, "text", {class: "title", x: box.left, y: 14}, yTitle);
    add(svg, "text", {class: "title", x: box.right, y: box.height - 6, "text-anchor": "end"}, xTitle);
  };

  const drawLegend = (groups, by) => {
    const list = document.getElementById("chart-legend");
    list.replaceChildren(...(by < 0 ? [] : groups).map((group) => {
      const item = document.createElement("li");
      const mark = add(item, "svg", {viewBox: "-6 -6 12 12", "aria-hidden": "true"});
      add(mark, "path", {class: `s${group.place}`, d: symbols[Math.max(0, group.place - 1)]});
      item.append(` ${shorten(group.name, 60)}`);
      return item;
    }));
  };

  const listGroups = (groups, title) => {
    const body = document.getElementById("chart-rows");
    document.getElementById("chart-group").textContent = title;
    body.replaceChildren(...groups.map(({name, points}) => {
      const values = points.map((point) => point.y);
      const mean = values.reduce((sum, value) => sum + value / values.length, 0);
      const row = document.createElement("tr");
      const cells = [values.length, mean, Math.min(...values), Math.max(...values)].map(format);
      for (const [at, text] of [shorten(name, 60), ...cells].entries()) {
        const cell = document.createElement(at ? "td" : "th");
        if (at) cell.className = "right"; else cell.scope = "row";
        cell.textContent = text;
        row.append(cell);
      }
      return row;
    }));
  };

  const makeGroups = (points, nameOf) => {
    const names = countBy(points.map(nameOf));
    const own = sorted(names.slice(0, symbols.length));
    const groups = own.map((name, at) => ({name, place: at + 1, points: points.filter((point) => nameOf(point) === name)}));
    const others = points.filter((point) => !own.includes(nameOf(point)));
    if (others.length) groups.push({name: `${names.length - own.length} others`, place: 0, points: others});
    return groups;
  };

  // rewards of several environments cannot be compared: that of the most files is shown until another one is chosen
  const envIndex = keys.indexOf("env");
  const envOf = (row) => textOf(row, envIndex);
  const allRows = Array.from(table.tBodies[0].rows);
  const envs = envIndex < 0 ? [] : sorted(countBy(allRows.map(envOf)));
  let isChosen = false;

  const chooseEnv = (rows, y) => {
    if (envs.length < 2) return rows;
    const [most] = countBy(rows.filter((row) => !Number.isNaN(numberOf(row, y))).map(envOf));
    if (!isChosen && most !== undefined) envSelect.value = envs.indexOf(most);
    return envSelect.value ? rows.filter((row) => envOf(row) === envs[envSelect.value]) : rows;
  };

  const draw = () => {
    const [y, x, by] = [ySelect, xSelect, bySelect].map((select) => keys.indexOf(select.value));
    const rows = chooseEnv(allRows.filter((row) => !row.hidden), y);
    let points = rows.map((row) => ({row, y: numberOf(row, y), x: numberOf(row, x), text: textOf(row, x)}));
    points = points.filter((point) => !Number.isNaN(point.y));
    const isNumber = headers[x].classList.contains("number");
    points = points.filter((point) => (isNumber ? !Number.isNaN(point.x) : point.text));
    const width = Math.max(260, svg.clientWidth), height = 340;
    const box = {left: 58, right: width - 14, bottom: height - (isNumber ? 46 : 96), height};
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.replaceChildren();
    const scale = isNumber ? scaleNumbers(points.map((point) => point.x), true, box.left + 6, box.right - 6, width / 110)
      : scaleTexts(points.map((point) => point.text), box.left, box.right);
    if (!isNumber) points = points.filter((point) => scale.has(point.text));
    const heights = scaleNumbers(points.map((point) => point.y), false, box.bottom, 28, 6);
    const groups = makeGroups(points, (point) => (by < 0 ? "All" : textOf(point.row, by) || "\u2013"));
    const missing = rows.length - points.length;
    const env = envs.length > 1 && envSelect.value ? ` in ${envs[envSelect.value] || "unknown environments"}` : "";
    const what = `${titles[y]} over ${titles[x]}${env}`;
    const range = points.length ? `, from ${format(Math.min(...points.map((point) => point.y)))} to ` +
      `${format(Math.max(...points.map((point) => point.y)))}` : "";
    svg.setAttribute("aria-label", `${what} of ${points.length} files${range}; the table below has the groups`);
    document.getElementById("chart-status").textContent = `${what}: ${points.length} of ${rows.length} files` +
      (missing ? `; the others have no such numbers${isNumber ? "" : `, or are beyond the first ${mostBands} values`}` : "");
    if (points.length) drawAxes(box, scale, heights, isNumber, titles[x] + (scale.isLog ? " (logarithmic)" : ""), titles[y]);
    for (const group of groups) {
      for (const [at, point] of group.points.entries()) {
        const spread = group.points.length > 1 ? (at * 0.618 % 1 - 0.5) * 0.6 : 0;
        const left = isNumber ? scale.of(point.x) : scale.of(point.text, spread);
        const mark = add(svg, "path", {class: `s${group.place}`, d: symbols[Math.max(0, group.place - 1)],
          transform: `translate(${left.toFixed(1)} ${heights.of(point.y).toFixed(1)})`});
        add(mark, "title", {}, `${textOf(point.row, 0)}\n${titles[y]} ${format(point.y)}\n${titles[x]} ${point.text}`);
      }
    }
    drawLegend(groups, by);
    const isByText = by < 0 && !isNumber;
    listGroups(isByText ? makeGroups(points, (point) => point.text) : groups, isByText ? titles[x] : by < 0 ? "" : titles[by]);
  };

  // -- start ----------------------------------------------------------------------------------------

  const fill = (select, indexes, preferred) => {
    select.append(...indexes.map((index) => new Option(titles[index], keys[index])));
    select.value = preferred.find((key) => indexes.some((index) => keys[index] === key)) ?? select.options[0].value;
    select.addEventListener("change", draw);
  };
  const rewards = ySelect.dataset.keys.split(" ").map((key) => keys.indexOf(key));
  const others = headers.map((header, index) => index).filter((index) => index && !rewards.includes(index));
  fill(ySelect, rewards, []);
  fill(xSelect, others, ["timesteps", "learning_rate", "gamma", "algorithm"]);
  bySelect.append(new Option("nothing", ""));
  fill(bySelect, others, ["algorithm", "env"]);
  envSelect.append(...envs.map((env, at) => new Option(env || "not known", at)), new Option("all", ""));
  envSelect.parentElement.hidden = envs.length < 2;
  envSelect.addEventListener("change", () => {
    isChosen = true;
    draw();
  });
  table.addEventListener("filtered", draw);
  window.addEventListener("resize", draw);
  document.getElementById("chart").hidden = false;
  draw();
})();
