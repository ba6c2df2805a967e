// @ts-check
"use strict";
// The atlas of heads: draws maps from the page's data, and follows the slider, pointer and keyboard.
// Names come from data: they are only ever written as text.
(() => {
  const SVG = "http://www.w3.org/2000/svg";
  const COLOURS = 8;
  const TIP_ROWS = 8;

  /** @param {string} id @returns {any} */
  const at = (id) => document.getElementById(id);

  /** @param {string} tag @param {Record<string, any>} [attributes] @param {string} [text] @returns {any} */
  function make(tag, attributes = {}, text) {
    const node = document.createElement(tag);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, String(value));
    if (text !== undefined) node.textContent = text;
    return node;
  }

  /** @param {string} tag @param {Record<string, any>} attributes @param {string} [text] @returns {any} */
  function draw(tag, attributes, text) {
    const node = document.createElementNS(SVG, tag);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, String(value));
    if (text !== undefined) node.textContent = text;
    return node;
  }

  /** @param {string} text @returns {any} */
  const nameOf = (text) => make("bdi", { class: "name", title: text }, text);

  /** @param {number} value */
  const digits = (value) =>
    value !== 0 && Math.abs(value) < 0.001 ? value.toExponential(1) : value.toPrecision(3);

  for (const button of document.querySelectorAll(".copy"))
    button.addEventListener("click", async () => {
      const text = button.parentElement?.querySelector("pre")?.textContent ?? "";
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
    });

  // A printed page shows what is folded away on the screen.
  /** @type {HTMLDetailsElement[]} */
  let opened = [];
  addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("details")].filter((fold) => !fold.open);
    for (const fold of opened) fold.open = true;
  });
  addEventListener("afterprint", () => {
    for (const fold of opened) fold.open = false;
  });

  if (!at("atlas-data")) return;
  const data = JSON.parse(at("atlas-data").textContent);
  let run = data.runs[0];
  let percent = data.percent;
  let cursor = 0; // the head under the pointer or the keyboard
  let pinned = -1;
  /** @type {{svg: any, task: number, frames: any[], cells: any[]}[]} */
  let maps = [];

  const chosen = () => Math.floor((percent * run.present) / 100 + 1e-9);
  /** @param {number} task @param {number} head */
  const isTop = (task, head) => run.ranks[task][head] >= 0 && run.ranks[task][head] < chosen();
  /** @param {number} head */
  const place = (head) => `layer ${Math.floor(head / run.heads)}, head ${head % run.heads}`;
  /** @param {number} head */
  const isRemoved = (head) => run.ranks[0][head] < 0;

  /** With one task there are no owners to tell apart: its importance is the large map. */
  const isAlone = () => run.tasks.length === 1;

  /** One grid of heads; task -1 is the joined map.
   * @param {number} task @param {string} label */
  function map(task, label) {
    const joined = task < 0, large = joined || isAlone();
    const size = large ? 22 : 14;
    const left = 30, bottom = 26;
    const width = left + run.heads * size + 2, height = run.layers * size + bottom + 2;
    const svg = draw("svg", {
      class: "map", viewBox: `0 0 ${width} ${height}`, tabindex: 0, role: "application",
      "aria-label": `${label}: heads by layer; arrow keys move, Enter keeps a head`,
    });
    svg.style.maxWidth = large ? `${Math.max(300, width * 2.2)}px` : `${Math.max(150, width * 1.6)}px`;
    const most = joined ? 1 : Math.max(...run.scores[task], 0) || 1;
    const frames = [], cells = [];
    const every = Math.max(1, Math.ceil(run.layers / 12));
    for (let layer = 0; layer < run.layers; layer += every)
      svg.append(draw("text", { class: "axis-text", "text-anchor": "end", x: left - 4, y: (run.layers - layer - 0.5) * size + 4 }, String(layer)));
    const beside = Math.max(1, Math.ceil(run.heads / (large ? 16 : 8)));
    for (let head = 0; head < run.heads; head += beside)
      svg.append(draw("text", { class: "axis-text", "text-anchor": "middle", x: left + (head + 0.5) * size, y: height - 15 }, String(head)));
    svg.append(draw("text", { class: "axis-text", "text-anchor": "middle", x: left + (run.heads * size) / 2, y: height - 4 }, "head"));
    svg.append(draw("text", { class: "axis-text", "text-anchor": "middle", transform: `translate(8 ${(run.layers * size) / 2}) rotate(-90)` }, "layer"));
    for (let index = 0; index < run.layers * run.heads; index++) {
      const x = left + (index % run.heads) * size + 1;
      const y = (run.layers - 1 - Math.floor(index / run.heads)) * size + 1;
      const box = { x, y, width: size - 2, height: size - 2 };
      const cell = draw("g", {});
      cell.append(draw("rect", { class: "back", ...box }));
      if (isRemoved(index)) {
        cell.append(draw("path", { class: "removed", d: `M${x} ${y}l${size - 2} ${size - 2}m0 ${2 - size}l${2 - size} ${size - 2}` }));
      } else if (joined) {
        const owner = run.owner[index];
        if (owner >= 0) cell.append(draw("rect", { class: `cell c${owner % COLOURS}`, "fill-opacity": 0.2 + 0.7 * run.strength[index], ...box }));
        if (owner >= 0)
          cell.append(draw("text", { "text-anchor": "middle", x: x + size / 2 - 1, y: y + size / 2 + 2.4 }, String(owner + 1)));
      } else {
        const share = Math.max(run.scores[task][index], 0) / most;
        cell.append(draw("rect", { class: "heat", "fill-opacity": Math.pow(share, 0.75), ...box }));
      }
      const frame = draw("rect", { class: "frame", "data-head": index, ...box });
      svg.append(cell, frame);
      frames.push(frame);
      cells.push(cell);
    }
    const entry = { svg, task, frames, cells };
    svg.addEventListener("pointermove", (/** @type {any} */ event) => {
      const head = event.target.dataset?.head;
      if (head === undefined) return hideTip();
      move(Number(head));
      showTip(task, event.clientX, event.clientY);
    });
    svg.addEventListener("pointerleave", () => { hideTip(); unmark(); });
    svg.addEventListener("click", (/** @type {any} */ event) => {
      if (event.target.dataset?.head !== undefined) pin(Number(event.target.dataset.head));
    });
    svg.addEventListener("focus", () => move(cursor));
    svg.addEventListener("blur", () => { hideTip(); unmark(); });
    svg.addEventListener("keydown", (/** @type {any} */ event) => keyboard(event, entry));
    return entry;
  }

  /** @param {any} event @param {{svg: any, task: number, frames: any[]}} entry */
  function keyboard(event, entry) {
    const layer = Math.floor(cursor / run.heads), head = cursor % run.heads;
    /** @type {Record<string, [number, number]>} */
    const ways = { ArrowUp: [layer + 1, head], ArrowDown: [layer - 1, head], ArrowLeft: [layer, head - 1], ArrowRight: [layer, head + 1] };
    if (event.key in ways) {
      const [toLayer, toHead] = ways[event.key];
      if (toLayer >= 0 && toLayer < run.layers && toHead >= 0 && toHead < run.heads) move(toLayer * run.heads + toHead);
      const box = entry.frames[cursor].getBoundingClientRect();
      showTip(entry.task, box.right, box.bottom);
    } else if (event.key === "Enter" || event.key === " ") pin(cursor);
    else if (event.key === "Escape") {
      hideTip();
      if (pinned >= 0) pin(pinned);
    }
    else return;
    event.preventDefault();
  }

  function unmark() {
    if (cursor !== pinned) for (const entry of maps) entry.frames[cursor]?.classList.remove("same");
  }

  /** @param {number} head */
  function move(head) {
    unmark();
    cursor = head;
    for (const entry of maps) entry.frames[cursor].classList.add("same");
    if (pinned < 0) profile(head);
  }

  /** @param {number} head */
  function pin(head) {
    const before = pinned;
    pinned = pinned === head ? -1 : head;
    if (before >= 0 && before !== cursor) for (const entry of maps) entry.frames[before].classList.remove("same");
    profile(head);
  }

  /** Tasks from the one that needs the head most. @param {number} head @returns {number[]} */
  function byNeed(head) {
    return run.tasks.map((/** @type {string} */ _, /** @type {number} */ task) => task)
      .sort((/** @type {number} */ a, /** @type {number} */ b) => run.ranks[a][head] - run.ranks[b][head]);
  }

  /** @param {number} task @param {number} x @param {number} y */
  function showTip(task, x, y) {
    const tip = at("tip");
    tip.replaceChildren(make("strong", {}, place(cursor)));
    if (isRemoved(cursor)) {
      tip.append(make("div", {}, "removed from the model"));
    } else {
      const table = make("table");
      const order = byNeed(cursor);
      const shown = order.slice(0, TIP_ROWS);
      if (task >= 0 && !shown.includes(task)) shown[shown.length - 1] = task;
      for (const other of shown) {
        const row = make("tr", other === task ? { class: "here" } : {});
        const name = make("td");
        name.append(nameOf(run.tasks[other]));
        row.append(name, make("td", {}, `rank ${run.ranks[other][cursor] + 1}`), make("td", {}, `score ${digits(run.scores[other][cursor])}`));
        table.append(row);
      }
      tip.append(table);
      if (order.length > shown.length) tip.append(make("div", {}, `${order.length - shown.length} more tasks: click`));
    }
    tip.hidden = false;
    const { width, height } = tip.getBoundingClientRect();
    tip.style.left = `${Math.max(4, Math.min(x + 14, innerWidth - width - 6))}px`;
    tip.style.top = `${y + 16 + height > innerHeight ? Math.max(4, y - height - 10) : y + 16}px`;
  }

  function hideTip() {
    at("tip").hidden = true;
  }

  /** @param {number} head */
  function profile(head) {
    const panel = at("profile");
    panel.replaceChildren(make("h3", {}, place(head) + (pinned === head ? " (kept)" : "")));
    if (isRemoved(head)) return panel.append(make("p", { class: "why" }, "removed from the model"));
    const tops = run.tasks.filter((/** @type {string} */ _, /** @type {number} */ task) => isTop(task, head)).length;
    panel.append(make("p", { class: "why" }, isAlone()
      ? `${tops ? "in" : "not in"} the top ${percent} %`
      : `in the top ${percent} % of ${tops} of ${run.tasks.length} tasks`));
    for (const task of byNeed(head)) {
      const most = Math.max(...run.scores[task], 0) || 1;
      const row = make("div", { class: isTop(task, head) ? "profile-row chosen" : "profile-row" });
      const bar = make("div", { class: "profile-bar" });
      const inner = make("i");
      inner.style.width = `${(100 * Math.max(run.scores[task][head], 0)) / most}%`;
      bar.append(inner);
      row.append(nameOf(run.tasks[task]), make("span", { class: "why" }, `rank ${run.ranks[task][head] + 1} of ${run.present} · score ${digits(run.scores[task][head])}`), bar);
      panel.append(row);
    }
  }

  /** D at the measured share next to the chosen one, named as what it is. */
  function dissociation() {
    if (isAlone()) return "";
    const measured = run.measured.filter((/** @type {any} */ point) => point.mean !== null);
    if (!measured.length) return run.measured.length ? "D is undefined" : "D was not measured";
    const near = measured.reduce((/** @type {any} */ best, /** @type {any} */ point) =>
      Math.abs(100 * point.alpha - percent) < Math.abs(100 * best.alpha - percent) ? point : best);
    const ends = near.interval ? ` [${near.interval.map((/** @type {number} */ end) => (100 * end).toFixed(1)).join(", ")}]` : "";
    return `D = ${(100 * near.mean).toFixed(1)} %${ends}, measured at ${Math.round(1000 * near.alpha) / 10} %`;
  }

  function follow() {
    at("alpha-value").textContent = `${Math.round(10 * percent) / 10} %`;
    at("alpha").setAttribute("aria-valuetext", `${percent} % of heads, ${chosen()} heads per task`);
    at("alpha-d").textContent = dissociation();
    const count = run.tasks.length, every = run.layers * run.heads;
    const uses = Array(every).fill(0);
    for (let task = 0; task < count; task++) for (let head = 0; head < every; head++) if (isTop(task, head)) uses[head]++;
    for (const { task, frames, cells } of maps)
      for (let head = 0; head < every; head++) {
        frames[head].classList.toggle("top", task < 0 ? uses[head] === 1 : isTop(task, head));
        if (task < 0) cells[head].classList.toggle("faded", uses[head] === 0);
      }
    const alone = uses.filter((use) => use === 1).length, shared = uses.filter((use) => use > 1).length;
    const none = run.present - alone - shared;
    at("counts").textContent = isAlone()
      ? `${chosen()} of ${run.present} heads.`
      : `${chosen()} heads per task: ${alone} heads are top heads of one task only, ${shared} of several, ${none} of none.`;
    overlap();
    if (pinned >= 0) profile(pinned);
  }

  /** @type {any[][]} */
  let overlapCells = [];
  function buildOverlap() {
    const table = make("table", { class: "matrix" });
    const heading = make("tr");
    heading.append(make("td"));
    run.tasks.forEach((/** @type {string} */ name, /** @type {number} */ i) => heading.append(make("th", { scope: "col", title: name }, String(i + 1))));
    const body = make("tbody");
    table.append(heading, body);
    overlapCells = run.tasks.map((/** @type {string} */ name, /** @type {number} */ i) => {
      const row = make("tr"), label = make("th", { scope: "row" });
      label.append(make("span", { class: "number" }, `${i + 1} `), nameOf(name));
      row.append(label);
      const cells = run.tasks.map(() => make("td", { class: "shaded" }));
      row.append(...cells);
      body.append(row);
      return cells;
    });
    at("overlap").replaceChildren(table);
    at("overlap-figure").hidden = isAlone();
  }

  function overlap() {
    const count = chosen(), every = run.layers * run.heads;
    for (let i = 0; i < run.tasks.length; i++)
      for (let j = i; j < run.tasks.length; j++) {
        let both = 0;
        for (let head = 0; head < every; head++) if (isTop(i, head) && isTop(j, head)) both++;
        const share = count ? (100 * both) / count : 0;
        for (const cell of [overlapCells[i][j], overlapCells[j][i]]) {
          cell.textContent = count ? share.toFixed(0) : "–";
          cell.style.setProperty("--shade", `${0.55 * share}%`);
        }
      }
  }

  function build() {
    pinned = -1;
    cursor = 0;
    const alone = isAlone();
    const joined = alone ? map(0, run.tasks[0]) : map(-1, "the owner of each head");
    at("joined").replaceChildren(joined.svg);
    maps = [joined];
    at("maps").replaceChildren();
    at("owners").replaceChildren();
    for (const about of /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll("[data-tasks]")))
      about.hidden = (about.dataset.tasks === "one") !== alone;
    if (!alone) buildTasks();
    buildOverlap();
    follow();
  }

  /** One map and one entry of the legend per task. */
  function buildTasks() {
    run.tasks.forEach((/** @type {string} */ name, /** @type {number} */ task) => {
      const entry = map(task, name);
      const figure = make("figure"), caption = make("figcaption");
      caption.append(make("span", { class: "number" }, `${task + 1} `), nameOf(name));
      figure.append(caption, entry.svg);
      at("maps").append(figure);
      maps.push(entry);
      const owned = run.owner.filter((/** @type {number} */ owner, /** @type {number} */ head) => owner === task && !isRemoved(head)).length;
      const key = make("span");
      key.append(make("i", { class: `key c${task % COLOURS}` }), make("span", {}, `${task + 1}`), nameOf(name), make("span", { class: "why" }, `${owned} heads`));
      at("owners").append(key);
    });
    const nobody = run.owner.filter((/** @type {number} */ owner, /** @type {number} */ head) => owner < 0 && !isRemoved(head)).length;
    if (nobody) at("owners").append(make("span", { class: "why" }, `${nobody} nobody's`));
  }

  const slider = at("alpha");
  slider.value = String(percent);
  slider.addEventListener("input", () => {
    percent = Number(slider.value);
    follow();
  });
  if (data.runs.length > 1) {
    at("atlas-run-label").hidden = false;
    data.runs.forEach((/** @type {any} */ one, /** @type {number} */ i) => at("atlas-run").append(make("option", { value: i }, one.name)));
    at("atlas-run").addEventListener("change", () => {
      run = data.runs[Number(at("atlas-run").value)];
      build();
    });
  }
  build();
})();
