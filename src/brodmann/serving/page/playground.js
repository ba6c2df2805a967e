// @ts-check
"use strict";
// The playground: asks the server what is typed, and shows how every task answers.
// Texts, names and answers are only ever written as text.
(() => {
  const SVG = "http://www.w3.org/2000/svg";
  const COLOURS = 8;
  const PAUSE = 150; // milliseconds without typing before the server is asked
  const SPOKEN_AFTER = 1200; // milliseconds of quiet before the answers are read aloud
  const BARS = 6; // labels shown per task
  const MAIN = ["text", "tokens", "context"]; // roles of the first field; the second is the other text
  const SECOND = ["text_pair", "question"];

  /** @param {string} id @returns {any} */
  const at = (id) => document.getElementById(id);

  /** @param {string} tag @param {Record<string, any>} [attributes] @param {...any} inside @returns {any} */
  function make(tag, attributes = {}, ...inside) {
    const node = document.createElement(tag);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, String(value));
    node.append(...inside); // texts become text nodes
    return node;
  }

  /** @param {string} tag @param {Record<string, any>} attributes @param {...any} inside @returns {any} */
  function draw(tag, attributes, ...inside) {
    const node = document.createElementNS(SVG, tag);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, String(value));
    node.append(...inside);
    return node;
  }

  /** @param {string} text */
  const nameOf = (text) => make("bdi", { class: "name", title: text }, text);
  /** @param {number} share */
  const percent = (share) => `${(100 * share).toFixed(share > 0.995 || share < 0.005 ? 1 : 0)} %`;
  /** @param {number} value */
  const plain = (value) => String(Number(value.toPrecision(4)));

  let key = "";
  /** @type {any} */
  let model = { tasks: [], limits: { length: 0 }, atlas: false };
  /** @type {any} */
  let atlas = null;
  /** @type {Map<string, any>} */
  const cards = new Map();

  // ------------------------------------------------------------------ asking

  class Refusal extends Error {
    /** @param {number} status @param {string} reason @param {number} later */
    constructor(status, reason, later) {
      super(reason);
      this.status = status;
      this.later = later;
    }
  }

  /** @param {string} path @param {any} [body] @param {AbortSignal} [signal] @returns {Promise<any>} */
  async function fetched(path, body, signal) {
    /** @type {Record<string, string>} */
    const headers = {};
    if (key) headers.Authorization = `Bearer ${key}`;
    if (body !== undefined) headers["Content-Type"] = "application/json";
    const response = await fetch(path, {
      method: body === undefined ? "GET" : "POST",
      headers, signal, body: body === undefined ? undefined : JSON.stringify(body),
    });
    const found = await response.json().catch(() => ({ error: `status ${response.status}` }));
    if (response.ok) return found;
    throw new Refusal(response.status, String(found.error), Number(response.headers.get("Retry-After")));
  }

  /** What was typed, as one row with every role that some task reads. */
  function row() {
    const text = at("text").value, second = at("second").value;
    const choices = at("choices").value.split("\n").map((/** @type {string} */ line) => line.trim()).filter(Boolean);
    /** @type {Record<string, any>} */
    const found = {};
    const roles = new Set(model.tasks.flatMap((/** @type {any} */ task) => task.roles));
    if (text.trim()) for (const role of MAIN) if (roles.has(role)) found[role] = text;
    if (second.trim()) for (const role of SECOND) if (roles.has(role)) found[role] = second;
    if (choices.length > 1 && roles.has("choices")) found.choices = choices;
    return found;
  }

  /** @param {any} task @param {any} given */
  const reads = (task, given) => task.roles.every((/** @type {string} */ role) => role in given);

  /** @param {any} given */
  function question(given) {
    /** @type {Record<string, any>} */
    const asked = { input: simple(given) };
    const level = Number(at("level").value) / 100, share = Number(at("share").value) / 100;
    if (!at("abstain-label").hidden && at("abstain").checked && level > 0 && level < 1) asked.abstain = level;
    if (!at("coverage-label").hidden && at("coverage").checked && share > 0 && share < 1) asked.coverage = share;
    return asked;
  }

  /** A lone text as such: the command is then as short as a reader would write it.
   * @param {any} given */
  function simple(given) {
    const others = [...SECOND, "choices"].some((role) => role in given);
    return others ? given : Object.values(given)[0];
  }

  let sent = 0; // questions so far; only the answer to the latest is shown
  /** @type {AbortController | undefined} */
  let open;
  /** @type {any} */
  let timer, speaking;

  function soon(delay = PAUSE) {
    clearTimeout(timer);
    timer = setTimeout(ask, delay);
  }

  async function ask() {
    clearTimeout(timer);
    const number = ++sent;
    open?.abort();
    at("heads").classList.toggle("stale", shownHeads !== null && JSON.stringify(row()) !== shownHeads);
    const given = row();
    const able = model.tasks.filter((/** @type {any} */ task) => reads(task, given));
    if (!able.length) {
      at("request").hidden = true;
      for (const task of model.tasks) show(task, undefined, given);
      say(Object.keys(given).length ? "No task reads this alone: fill the other fields." : "");
      return;
    }
    const asked = question(given);
    at("request").hidden = false;
    at("command").textContent = command(asked);
    const controller = new AbortController();
    open = controller;
    const late = setTimeout(() => at("answers").classList.add("waiting"), 400);
    const begin = performance.now();
    try {
      const found = await fetched("predict", asked, controller.signal);
      if (number !== sent) return;
      for (const task of model.tasks) show(task, found.answer[task.name], given);
      say(`${Object.keys(found.answer).length} of ${model.tasks.length} tasks answered in ${Math.max(1, Math.round(performance.now() - begin))} ms.`);
      clearTimeout(speaking);
      speaking = setTimeout(() => { at("spoken").textContent = spoken(found.answer); }, SPOKEN_AFTER);
    } catch (error) {
      if (number !== sent) return;
      trouble(error);
    } finally {
      clearTimeout(late);
      if (number === sent) at("answers").classList.remove("waiting");
    }
  }

  /** @param {any} error */
  function trouble(error) {
    if (!(error instanceof Refusal)) return say("The server does not answer: is it still running?", true);
    if (error.status === 401) {
      const first = at("key-field").hidden;
      at("key-field").hidden = false;
      if (first) at("key").focus();
      return say(key ? "The key is wrong." : "This server asks for a key.", true);
    }
    say(error.message, true);
    if (error.status === 503) soon(1000 * (error.later || 1));
  }

  /** @param {string} text @param {boolean} [isTrouble] */
  function say(text, isTrouble = false) {
    at("status").textContent = text;
    at("status").classList.toggle("trouble", isTrouble);
  }

  /** The question for a shell. @param {any} asked */
  function command(asked) {
    const body = JSON.stringify(asked).replaceAll("'", "'\\''");
    const held = key ? ` -H "Authorization: Bearer $BRODMANN_API_KEY"` : "";
    return `curl ${new URL("predict", location.href)} -H "Content-Type: application/json"${held} \\\n  -d '${body}'`;
  }

  // ------------------------------------------------------------------ answers

  function build() {
    for (const task of model.tasks) {
      const kind = task.kind === "tokens" ? "words" : task.kind;
      const title = make("h2", {}, nameOf(task.name), make("span", { class: "kind" }, task.language ? `${kind} · ${task.language}` : kind));
      const body = make("div");
      const card = make("article", { class: ["tokens", "span"].includes(task.kind) ? "card wide" : "card" }, title, body);
      const entry = { card, body, button: null };
      if (task.explains) {
        entry.button = make("button", { type: "button" }, "Which heads carried it?");
        entry.button.setAttribute("aria-label", `Which heads carried the answer of ${task.name}?`);
        entry.button.addEventListener("click", () => explain(task));
        card.append(entry.button);
      }
      at("answers").append(card);
      cards.set(task.name, entry);
    }
  }

  /** @param {any} task @param {any} answer @param {any} given */
  function show(task, answer, given) {
    const { card, body, button } = cards.get(task.name);
    const refused = answer?.abstained === true;
    card.classList.toggle("refused", refused);
    if (button) button.hidden = !answer || refused;
    body.replaceChildren();
    if (!answer) {
      const missing = task.roles.filter((/** @type {string} */ role) => !(role in given));
      body.append(make("p", { class: "answer none" }, "–"), make("p", { class: "why" }, missing.length ? `needs ${needs(missing)}` : "no answer"));
      return;
    }
    if (refused) body.append(make("p", { class: "answer none" }, "not a text for this task"));
    else DRAWN[task.kind](body, answer, task, given);
    if (answer.set) body.append(make("p", { class: "why foot" }, `right in ${at("share").value} %: `, ...setOf(answer, given)));
    if (answer.interval && answer.interval[0] !== null)
      body.append(make("p", { class: "why foot" }, `right in ${at("share").value} %: from ${plain(answer.interval[0])} to ${plain(answer.interval[1])}`));
    if (typeof answer.in_domain === "number")
      body.append(make("p", { class: "why foot" }, `${percent(answer.in_domain)} of this task's own texts are at least as unusual`));
  }

  /** @param {string[]} roles */
  function needs(roles) {
    /** @type {Record<string, string>} */
    const words = { text_pair: "a second text", question: "a question", choices: "two choices or more" };
    return roles.map((role) => words[role] ?? "a text").filter((word, i, all) => all.indexOf(word) === i).join(" and ");
  }

  /** @param {any} answer @param {any} given */
  const setOf = (answer, given) => {
    const names = answer.set.map((/** @type {any} */ one) => (typeof one === "number" ? given.choices?.[one] ?? String(one) : one));
    return [names.join(", ")];
  };

  /** @param {any} body @param {string} text @param {number} [score] */
  function lead(body, text, score) {
    const line = make("p", { class: "answer" }, make("bdi", {}, text));
    if (score !== undefined) line.append(" ", make("span", { class: "score" }, percent(score)));
    body.append(line);
  }

  /** Bars of the most probable names. @param {any} body @param {[string, number][]} shares @param {string[]} given */
  function bars(body, shares, given) {
    const grid = make("div", { class: "share" });
    const order = [...shares].sort((a, b) => b[1] - a[1]);
    for (const [name, share] of order.slice(0, BARS)) {
      const bar = make("i", given.includes(name) ? { class: "given" } : {});
      bar.style.width = `${100 * share}%`;
      grid.append(nameOf(name), make("div", { class: "track" }, bar), make("span", { class: "part" }, percent(share)));
    }
    body.append(grid);
    if (order.length > BARS) body.append(make("p", { class: "why foot" }, `and ${order.length - BARS} less probable`));
  }

  /** A text with marks at places counted in characters, as Python counts them.
   * @param {any} body @param {string} text @param {{start: number, end: number, label: string, score?: number, colour: number}[]} marks */
  function marked(body, text, marks) {
    const letters = Array.from(text), line = make("p", { class: "marked", dir: "auto" });
    let after = 0;
    for (const { start, end, label, score, colour } of marks) {
      line.append(letters.slice(after, start).join(""));
      const mark = make("mark", { class: `entity own${colour % COLOURS}` }, letters.slice(start, end).join(""));
      if (label) mark.append(make("small", {}, score === undefined ? label : `${label} ${percent(score)}`));
      line.append(mark);
      after = end;
    }
    line.append(letters.slice(after).join(""));
    body.append(line);
  }

  /** Names of entity types or tags in the order of the task's labels. @param {any} task @returns {string[]} */
  const types = (task) => {
    const found = (task.labels ?? []).map((/** @type {string} */ label) => label.replace(/^[BI]-/, ""));
    return found.filter((/** @type {string} */ label, /** @type {number} */ i) => label !== "O" && found.indexOf(label) === i);
  };

  /** @type {Record<string, (body: any, answer: any, task: any, given: any) => void>} */
  const DRAWN = {
    classification(body, answer) {
      lead(body, answer.label, answer.score);
      bars(body, Object.entries(answer.probabilities), [answer.label]);
    },
    multilabel(body, answer) {
      if (answer.labels.length) lead(body, answer.labels.join(", "));
      else body.append(make("p", { class: "answer none" }, "no label"));
      bars(body, Object.entries(answer.probabilities), answer.labels);
    },
    regression(body, answer) {
      lead(body, plain(answer.value));
    },
    choice(body, answer, _, given) {
      lead(body, answer.text, answer.score);
      bars(body, answer.probabilities.map((/** @type {number} */ p, /** @type {number} */ i) => [given.choices[i], p]), [given.choices[answer.choice]]);
    },
    span(body, answer, _, given) {
      if (answer.start === null) return body.append(make("p", { class: "answer none" }, "no answer in the text "));
      lead(body, answer.answer, answer.score);
      marked(body, given.context, [{ start: answer.start, end: answer.end, label: "", colour: 0 }]);
    },
    tokens(body, answer, task, given) {
      const order = types(task);
      if (answer.entities) {
        marked(body, given.tokens, answer.entities.map((/** @type {any} */ one) => ({ ...one, colour: Math.max(0, order.indexOf(one.label)) })));
        if (!answer.entities.length) body.append(make("p", { class: "why" }, "none found"));
        return;
      }
      const line = make("p", { class: "marked", dir: "auto" });
      answer.tokens.forEach((/** @type {string} */ word, /** @type {number} */ i) =>
        line.append(make("span", { class: `entity own${Math.max(0, order.indexOf(answer.tags[i])) % COLOURS}` }, word, make("small", {}, answer.tags[i])), " "));
      body.append(line);
    },
  };

  /** The answers in one breath, for a screen reader. @param {any} answers */
  function spoken(answers) {
    return Object.entries(answers).map(([name, one]) => {
      if (one.abstained) return `${name}: not a text for this task.`;
      if (one.label) return `${name}: ${one.label}, ${percent(one.score)}.`;
      if (one.labels) return `${name}: ${one.labels.join(", ") || "no label"}.`;
      if (one.value !== undefined) return `${name}: ${plain(one.value)}.`;
      if (one.entities) return `${name}: ${one.entities.map((/** @type {any} */ e) => `${e.text}, ${e.label}`).join("; ") || "none found"}.`;
      if (one.tags) return `${name}: ${one.tags.length} words tagged.`;
      return `${name}: ${one.text ?? one.answer ?? "no answer"}.`;
    }).join(" ");
  }

  // ------------------------------------------------------------------ heads

  /** @type {string | null} */
  let shownHeads = null; // the text whose heads are shown
  let explained = 0;

  /** @param {any} task */
  async function explain(task) {
    const number = ++explained, given = row(), { button } = cards.get(task.name);
    button.disabled = true;
    try {
      if (model.atlas && !atlas) atlas = await fetched("atlas");
      const found = await fetched("heads", { task: task.name, input: given });
      if (number !== explained) return;
      shownHeads = JSON.stringify(given);
      showHeads(task, found);
    } catch (error) {
      trouble(error);
    } finally {
      button.disabled = false;
    }
  }

  /** @param {any} task @param {any} found */
  function showHeads(task, found) {
    const section = at("heads");
    section.hidden = false;
    section.classList.remove("stale");
    at("heads-title").replaceChildren(nameOf(task.name), ": the heads behind “", make("bdi", {}, found.answer), "”");
    at("heads-about").textContent = "A number is the change of the answer's logit per unit of the head's gate: above 0, the head speaks for the answer; below 0, against it. Layer 0, next to the input, is at the bottom.";
    const select = drawMap(found);
    at("strongest").replaceChildren();
    const most = Math.max(...found.top.map((/** @type {any} */ one) => Math.abs(one.value))) || 1;
    found.top.forEach((/** @type {any} */ one, /** @type {number} */ place) => {
      const bar = make("i", one.value < 0 ? { class: "below" } : {});
      bar.style.width = `${(100 * Math.abs(one.value)) / most}%`;
      bar.style.left = "0";
      const button = make("button", { type: "button", "aria-pressed": "false" },
        make("span", {}, `layer ${one.layer}, head ${one.head}`),
        make("span", {}, `${one.value > 0 ? "+" : "−"}${Math.abs(one.value).toPrecision(2)}`),
        make("span", { class: "track" }, bar));
      const choose = () => {
        for (const other of at("strongest").querySelectorAll("button")) other.setAttribute("aria-pressed", String(other === button));
        select(one.layer, one.head);
        look(found, one);
      };
      button.addEventListener("click", choose);
      at("strongest").append(make("li", {}, button));
      if (place === 0) choose();
    });
    at("heads-title").focus({ preventScroll: true });
    section.scrollIntoView({ block: "nearest", behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth" });
  }

  /** Where one head looks. @param {any} found @param {any} one */
  function look(found, one) {
    const line = at("tokens");
    line.replaceChildren();
    if (!one.sees) {
      at("tokens-title").textContent = "";
      return line.append("This model's attention does not say where its heads look.");
    }
    at("tokens-title").textContent = `Where layer ${one.layer}, head ${one.head} looks`;
    const most = Math.max(...one.sees) || 1;
    found.tokens.forEach((/** @type {string} */ token, /** @type {number} */ i) => {
      const node = make("span", { class: "token", title: `${percent(one.sees[i])} of its attention` }, token);
      node.style.setProperty("--shade", String(Math.round((70 * one.sees[i]) / most)));
      line.append(node, " ");
    });
  }

  /** The atlas, in which the heads of this answer light up.
   * @param {any} found @returns {(layer: number, head: number) => void} */
  function drawMap(found) {
    const values = found.gradients, layers = values.length, heads = values[0].length;
    const size = 22, left = 30, bottom = 26;
    const width = left + heads * size + 2, height = layers * size + bottom + 2;
    const svg = draw("svg", { class: "map", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${layers} layers of ${heads} heads; the strongest are listed beside the map` });
    svg.style.maxWidth = `${Math.max(260, width * 1.9)}px`;
    const most = Math.max(...values.flat().map(Math.abs)) || 1;
    const removed = new Set((atlas?.removed ?? []).map((/** @type {number[]} */ one) => one.join()));
    const every = Math.max(1, Math.ceil(layers / 12)), beside = Math.max(1, Math.ceil(heads / 16));
    for (let layer = 0; layer < layers; layer += every)
      svg.append(draw("text", { class: "axis-text", "text-anchor": "end", x: left - 4, y: (layers - layer - 0.5) * size + 4 }, String(layer)));
    for (let head = 0; head < heads; head += beside)
      svg.append(draw("text", { class: "axis-text", "text-anchor": "middle", x: left + (head + 0.5) * size, y: height - 15 }, String(head)));
    svg.append(draw("text", { class: "axis-text", "text-anchor": "middle", x: left + (heads * size) / 2, y: height - 4 }, "head"));
    svg.append(draw("text", { class: "axis-text", "text-anchor": "middle", transform: `translate(8 ${(layers * size) / 2}) rotate(-90)` }, "layer"));
    for (let layer = 0; layer < layers; layer++)
      for (let head = 0; head < heads; head++) {
        const box = { x: left + head * size + 1, y: (layers - 1 - layer) * size + 1, width: size - 2, height: size - 2 };
        const value = values[layer][head], share = Math.abs(value) / most;
        const owner = atlas ? atlas.owner[layer][head] : -1;
        const cell = draw("g", {});
        cell.append(draw("title", {}, `layer ${layer}, head ${head}: ${value > 0 ? "+" : ""}${value.toPrecision(3)}${owner >= 0 ? ` · most important to ${atlas.tasks[owner]}` : ""}`), draw("rect", { class: "back", ...box }));
        if (removed.has(`${layer},${head}`)) {
          cell.append(draw("path", { class: "removed", d: `M${box.x} ${box.y}l${size - 2} ${size - 2}m0 ${2 - size}l${2 - size} ${size - 2}` }));
        } else {
          const colour = owner >= 0 ? `cell c${owner % COLOURS}` : "heat";
          cell.append(draw("rect", { class: colour, "fill-opacity": (0.06 + 0.94 * Math.pow(share, 0.8)).toFixed(3), ...box }));
          if (value < 0 && share > 0.2) cell.append(draw("rect", { class: "against", ...box }));
          if (owner >= 0) cell.append(draw("text", { class: share > 0.55 ? "on-bright" : "", "text-anchor": "middle", x: box.x + size / 2 - 1, y: box.y + size / 2 + 2.4 }, String(owner + 1)));
        }
        svg.append(cell);
      }
    const looked = draw("rect", { class: "looked", width: size - 2, height: size - 2 });
    svg.append(looked);
    at("map").replaceChildren(svg);
    at("map-caption").textContent = atlas
      ? "Colour and number: the task to which the head matters most. The brighter, the more the head moved this answer; dashed: against it."
      : "The brighter, the more the head moved this answer; dashed: against it.";
    at("owners").replaceChildren();
    (atlas?.tasks ?? []).forEach((/** @type {string} */ name, /** @type {number} */ i) =>
      at("owners").append(make("span", {}, make("i", { class: `key c${i % COLOURS}` }), make("span", {}, String(i + 1)), nameOf(name))));
    return (layer, head) => {
      looked.setAttribute("x", String(left + head * size + 1));
      looked.setAttribute("y", String((layers - 1 - layer) * size + 1));
    };
  }

  // ------------------------------------------------------------------ start

  function arrange() {
    /** @param {string} role @returns {string[]} */
    const with_ = (role) => model.tasks.filter((/** @type {any} */ task) => task.roles.includes(role)).map((/** @type {any} */ task) => task.name);
    const pairs = with_("text_pair"), questions = with_("question"), choices = with_("choices");
    if (pairs.length + questions.length) {
      at("second-field").hidden = false;
      at("second-label").textContent = [pairs.length && "Second text", questions.length && "question"].filter(Boolean).join(" or ").replace(/^q/, "Q");
      at("second-why").textContent = `for ${[...pairs, ...questions].join(", ")}`;
    }
    if (choices.length) {
      at("choices-field").hidden = false;
      at("choices-why").textContent = `one per line, for ${choices.join(", ")}`;
    }
    const sets = model.tasks.filter((/** @type {any} */ task) => task.has_sets);
    at("abstain-label").hidden = !model.tasks.every((/** @type {any} */ task) => task.abstains);
    at("coverage-label").hidden = !sets.length || !sets.every((/** @type {any} */ task) => task.covers);
    at("options").hidden = at("abstain-label").hidden && at("coverage-label").hidden;
    at("text").setAttribute("maxlength", String(model.limits.length));
  }

  async function start() {
    try {
      model = await fetched("tasks");
    } catch (error) {
      return trouble(error);
    }
    at("key-field").hidden = true;
    at("model").textContent = model.model;
    at("model").title = model.model;
    document.title = `${model.model} · Playground`;
    at("about").textContent = `${model.tasks.length} ${model.tasks.length === 1 ? "task answers" : "tasks answer"} while you type.`;
    arrange();
    build();
    say("");
    await ask();
  }

  for (const id of ["text", "second", "choices"]) at(id).addEventListener("input", () => soon());
  for (const id of ["abstain", "coverage", "level", "share"]) at(id).addEventListener("input", () => soon());
  at("key-field").addEventListener("submit", (/** @type {Event} */ event) => {
    event.preventDefault();
    key = at("key").value.trim();
    if (cards.size) soon(0);
    else start();
  });
  at("copy").addEventListener("click", async () => {
    await navigator.clipboard.writeText(at("command").textContent);
    at("copy").textContent = "Copied";
    setTimeout(() => { at("copy").textContent = "Copy"; }, 1500);
  });
  start();
})();
