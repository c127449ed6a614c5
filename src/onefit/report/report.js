"use strict";
// The heat map. Names from the user's data only ever become textContent or attribute values.
(function () {
  const data = JSON.parse(document.getElementById("data").textContent);
  const [first, second] = data.axes;
  if (!first) return;
  // The shorter axis goes across: a phone is narrow.
  const across = second && second.levels.length < first.levels.length ? second : first;
  const down = second ? (across === first ? second : first) : null;
  const others = data.axes.filter((axis) => axis !== across && axis !== down);
  const chosen = new Map(others.map((axis) => [axis, axis.codes[data.best]]));
  const heat = document.getElementById("heat");
  const plain = document.getElementById("plain");
  const readout = document.getElementById("readout");
  const slice = document.getElementById("slice");
  const selects = new Map();

  function element(tag, properties, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(properties || {})) {
      if (name === "class") made.className = value;
      else made.setAttribute(name, value);
    }
    made.append(...children);
    return made;
  }

  function number(value) {
    const size = Math.abs(value);
    if (size < 100) return value.toFixed(3);
    return size < 1e5 ? value.toFixed(0) : value.toExponential(2);
  }

  function scoreText(index) {
    if (data.mean[index] === null) return "no score";
    return number(data.mean[index]) + " ± " + number(data.std[index]);
  }

  // Position of a score on the colour scale, from 0 to 1; the low end takes all that is lower.
  function level(mean) {
    const span = data.high - data.low;
    return span > 0 ? Math.min(1, Math.max(0, (mean - data.low) / span)) : 1;
  }

  function channels(position) {
    const last = data.palette.length - 1;
    const at = Math.min(last - 1, Math.floor(position * last));
    const hex = (text) => [1, 3, 5].map((i) => parseInt(text.slice(i, i + 2), 16));
    const [low, high] = [hex(data.palette[at]), hex(data.palette[at + 1])];
    return low.map((value, i) => Math.round(value + (high[i] - value) * (position * last - at)));
  }

  // Black or white, whichever is easier to read: the better of the two is always above 4.5:1.
  function ink(rgb) {
    const linear = rgb.map((value) => {
      const share = value / 255;
      return share <= 0.04045 ? share / 12.92 : Math.pow((share + 0.055) / 1.055, 2.4);
    });
    const light = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
    return light > 0.179 ? "#000" : "#fff";
  }

  function better(a, b) {
    if (b === undefined) return true;
    if (data.mean[a] === null) return false;
    if (data.mean[a] === data.mean[b]) return a === data.best;
    return data.mean[b] === null || data.mean[a] > data.mean[b];
  }

  // Best candidate of every cell of the slice, and the levels that occur in it.
  function cells() {
    const found = new Map();
    const rows = new Set();
    const columns = new Set();
    for (let i = 0; i < data.mean.length; i += 1) {
      if (!others.every((axis) => axis.codes[i] === chosen.get(axis))) continue;
      const row = down ? down.codes[i] : 0;
      const key = row + "," + across.codes[i];
      rows.add(row);
      columns.add(across.codes[i]);
      if (better(i, found.get(key))) found.set(key, i);
    }
    const sorted = (set) => [...set].sort((a, b) => a - b);
    return { found, rows: sorted(rows), columns: sorted(columns) };
  }

  function place(row, column) {
    const parts = [across.label + " " + across.levels[column]];
    if (down) parts.push(down.label + " " + down.levels[row]);
    return parts.join(", ");
  }

  function describe(index) {
    const where = place(down ? down.codes[index] : 0, across.codes[index]);
    const mark = index === data.best ? " (chosen)" : "";
    return where + ": " + data.score + " " + scoreText(index) + mark;
  }

  function header(columns) {
    const corner = element("td", { class: "corner" });
    const row = element("tr", {}, corner);
    for (const column of columns) {
      row.append(element("th", { scope: "col" }, across.levels[column]));
    }
    return row;
  }

  function body(slices, makeCell) {
    return slices.rows.map((row) => {
      const made = element("tr", {});
      made.append(element("th", { scope: "row" }, down ? down.levels[row] : ""));
      for (const column of slices.columns) {
        made.append(makeCell(slices.found.get(row + "," + column), row, column));
      }
      return made;
    });
  }

  function table(slices, className, makeCell) {
    const names = down ? down.label + " ↓   " + across.label + " →" : across.label + " →";
    const caption = element("caption", {}, names);
    const head = element("thead", {}, header(slices.columns));
    const rows = element("tbody", {}, ...body(slices, makeCell));
    return element("table", { class: className }, caption, head, rows);
  }

  function heatCell(index, bestHere, showText) {
    const cell = element("td", { role: "gridcell", tabindex: "-1" });
    if (index === undefined) {
      cell.className = "empty";
      cell.setAttribute("aria-label", "not tried");
      return cell;
    }
    cell.setAttribute("aria-label", describe(index));
    cell.dataset.candidate = String(index);
    if (data.mean[index] !== null) {
      const rgb = channels(level(data.mean[index]));
      cell.style.backgroundColor = "rgb(" + rgb.join(",") + ")";
      cell.style.color = ink(rgb);
      if (showText) cell.textContent = number(data.mean[index]).replace(/^(-?)0\./, "$1.");
    }
    if (index === bestHere) cell.classList.add("best-here");
    if (index === data.best) {
      cell.classList.add("best");
      cell.textContent = showText ? cell.textContent : "★";
    }
    return cell;
  }

  function bestOf(slices) {
    let best;
    for (const index of slices.found.values()) if (better(index, best)) best = index;
    return best;
  }

  function show(cell) {
    const index = cell && cell.dataset.candidate;
    readout.textContent = index === undefined ? "Not tried." : describe(Number(index));
  }

  function draw() {
    const slices = cells();
    const best = bestOf(slices);
    if (best === undefined) {
      slice.textContent = "No candidate has this combination.";
      heat.replaceChildren();
      plain.replaceChildren();
      readout.textContent = "";
      return;
    }
    const widest = Math.max(...[...slices.found.values()].map((i) => number(data.mean[i] || 0).length));
    const showText = widest <= 6 && slices.columns.length <= 9;
    const grid = table(slices, "heat", (index) => heatCell(index, best, showText));
    grid.setAttribute("role", "grid");
    grid.setAttribute("aria-label", "Mean " + data.score + " of the candidates");
    heat.replaceChildren(grid);
    plain.replaceChildren(table(slices, "plain", (index) =>
      element("td", {}, index === undefined ? "–" : scoreText(index))));
    const start = grid.querySelector(".best, .best-here") || grid.querySelector("[role=gridcell]");
    start.tabIndex = 0;
    show(start);
    slice.textContent = best === data.best
      ? "The ring marks the chosen candidate."
      : "Best in this picture: " + scoreText(best) + ". Best of all: " + scoreText(data.best) + ".";
  }

  function target(cell, event) {
    const row = cell.parentElement;
    const rows = [...row.parentElement.children];
    const at = { x: cell.cellIndex, y: rows.indexOf(row) };
    const last = { x: row.cells.length - 1, y: rows.length - 1 };
    const moves = {
      ArrowLeft: () => { at.x -= 1; },
      ArrowRight: () => { at.x += 1; },
      ArrowUp: () => { at.y -= 1; },
      ArrowDown: () => { at.y += 1; },
      Home: () => { at.x = 1; if (event.ctrlKey) at.y = 0; },
      End: () => { at.x = last.x; if (event.ctrlKey) at.y = last.y; },
    };
    if (!moves[event.key]) return null;
    moves[event.key]();
    const y = Math.min(last.y, Math.max(0, at.y));
    return rows[y].cells[Math.min(last.x, Math.max(1, at.x))];
  }

  function activate(cell) {
    for (const other of heat.querySelectorAll("[tabindex='0']")) other.tabIndex = -1;
    cell.tabIndex = 0;
    show(cell);
  }

  const cellOf = (event) => event.target.closest("[role=gridcell]");
  heat.addEventListener("keydown", (event) => {
    const next = cellOf(event) && target(cellOf(event), event);
    if (!next) return;
    event.preventDefault();
    next.focus();
  });
  heat.addEventListener("focusin", (event) => cellOf(event) && activate(cellOf(event)));
  heat.addEventListener("mouseover", (event) => cellOf(event) && show(cellOf(event)));
  heat.addEventListener("click", (event) => cellOf(event) && cellOf(event).focus());
  heat.addEventListener("mouseleave", () => show(heat.querySelector("[tabindex='0']")));

  function addSelect(axis, i) {
    const select = element("select", { id: "axis" + i });
    axis.levels.forEach((text, code) => {
      select.append(element("option", { value: String(code) }, text));
    });
    select.value = String(chosen.get(axis));
    select.addEventListener("change", () => {
      chosen.set(axis, Number(select.value));
      draw();
    });
    selects.set(axis, select);
    const label = element("label", { for: "axis" + i }, axis.label);
    controls.append(element("div", { class: "control" }, label, select));
  }

  const controls = document.getElementById("controls");
  others.forEach(addSelect);
  if (others.length) {
    const back = element("button", { type: "button", id: "to-best" }, "Show the choice");
    back.addEventListener("click", () => {
      for (const axis of others) {
        chosen.set(axis, axis.codes[data.best]);
        selects.get(axis).value = String(axis.codes[data.best]);
      }
      draw();
    });
    controls.append(back);
  }
  document.getElementById("surface").hidden = false;
  draw();
})();
