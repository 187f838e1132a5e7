// A measure of every matrix, head or layer of one run, by step.
import { view } from "./address.js";
import { get, html, select, short } from "./dom.js";
import { buttons } from "./save.js";

const FULL = 600; // columns at which the map stops growing: twice what the server sends
const RELOAD = 60_000; // milliseconds between two fetches of a full map

// From dark blue to yellow in even steps of lightness; readable without colour vision.
const STOPS = [[0, 32, 76], [49, 68, 107], [102, 105, 112], [149, 143, 120], [203, 186, 105], [255, 233, 69]];

function colour(share) {
  const place = Math.min(Math.max(share, 0), 1) * (STOPS.length - 1);
  const i = Math.min(Math.floor(place), STOPS.length - 2);
  return STOPS[i].map((from, k) => Math.round(from + (STOPS[i + 1][k] - from) * (place - i)));
}

export class Heat {
  constructor(place, page) {
    Object.assign(this, { place, page, run: view.get("run"), key: view.get("map"), role: view.get("role") });
  }

  get subscription() {
    return `h:${this.key}|${this.run}`;
  }

  async open() {
    const { runs, maps } = this.page.index;
    if (!maps.length) return this.place.replaceChildren(html("p", { class: "soft" }, "This store has no features of single matrices, heads or layers."));
    if (!runs.some((one) => one.run === this.run)) this.run = runs[0].run;
    if (!maps.some((one) => one.key === this.key)) this.key = maps[0].key;
    const change = (name) => async (value) => { this[name] = value; await this.open(); this.page.listen(); };
    this.canvas = html("canvas", { tabindex: "0", role: "img" });
    this.reading = html("p", { class: "reading" });
    this.scale = html("p", { class: "reading" });
    this.roles = html("span");
    this.tools = html("div", { class: "tools" },
      select("run", runs.map((one) => [one.run, one.run]), this.run, change("run")),
      select("measure", maps.map((one) => [one.key, `${one.title} (${one.where})`]), this.key, change("key")),
      this.roles,
      ...buttons("layers", () => this.canvas, () => this.rows()));
    this.place.replaceChildren(this.tools, this.canvas, this.scale, this.reading);
    view.set({ run: this.run, map: this.key, role: this.role });
    this.at = null;
    this.listen();
    await this.load();
  }

  rows() {
    return [["step", ...this.data.lines.map((line) => line.name)], ...this.data.steps.map((step, i) => [step, ...this.data.values.map((line) => line[i])])];
  }

  async load() {
    try {
      this.data = await get("/panel/heat", { run: this.run, key: this.key });
    } catch {
      this.data = null;
      this.scale.textContent = "This run has no values of this feature.";
      return;
    }
    this.page.seen(this.data.version);
    this.loaded = performance.now();
    this.choose();
    this.draw();
  }

  // Keeps the lines of the chosen role, or all lines if this map lacks that role.
  choose() {
    const roles = [...new Set(this.data.lines.map((line) => line.role))].filter(Boolean).sort();
    const role = roles.includes(this.role) ? this.role : "";
    this.roles.replaceChildren(select("role", [["", "all"], ...roles.map((one) => [one, one])], role, (chosen) => {
      this.role = chosen;
      view.set({ role: chosen });
      this.at = null;
      return this.load();
    }));
    const kept = this.data.lines.map((line) => !role || line.role === role);
    this.data.lines = this.data.lines.filter((_, row) => kept[row]);
    this.data.values = this.data.values.filter((_, row) => kept[row]);
  }

  draw() {
    const { steps, lines, values } = this.data;
    const cell = Math.max(Math.round(340 / lines.length), 3);
    const wide = Math.max(Math.floor(1000 / steps.length), 1);
    Object.assign(this.canvas, { width: steps.length * wide, height: lines.length * cell });
    const good = values.flat().filter((value) => value !== null);
    const [low, high] = good.reduce(([a, b], value) => [Math.min(a, value), Math.max(b, value)], [Infinity, -Infinity]);
    const brush = this.canvas.getContext("2d");
    values.forEach((line, row) => line.forEach((value, column) => {
      brush.fillStyle = value === null ? "rgba(128,128,128,.25)" : `rgb(${colour((value - low) / (high - low || 1))})`;
      brush.fillRect(column * wide, row * cell, wide, cell);
    }));
    this.canvas.setAttribute("aria-label", `${this.data.title} of ${lines.length} lines in ${this.run}, steps ${steps[0].toLocaleString("en")} to ${steps.at(-1).toLocaleString("en")}, from ${short(low)} to ${short(high)}`);
    this.scale.textContent = `Steps ${steps[0].toLocaleString("en")} to ${steps.at(-1).toLocaleString("en")} from left to right, the first layer on top; dark ${short(low)}, bright ${short(high)}${this.data.unit && ` ${this.data.unit}`}. Click a line, or press Enter, to open it as a curve.`;
    this.place.dataset.columns = String(steps.length);
  }

  listen() {
    const read = () => {
      const line = this.data.lines[this.at[0]];
      const value = this.data.values[this.at[0]][this.at[1]];
      this.reading.textContent = `${line.name}${line.role && `, ${line.role}`}, layer ${line.layer}, step ${this.data.steps[this.at[1]].toLocaleString("en")}: ${value === null ? "not measured" : short(value)}`;
    };
    const place = (event) => {
      const box = this.canvas.getBoundingClientRect();
      const bound = (share, n) => Math.min(Math.max(Math.floor(share * n), 0), n - 1);
      this.at = [bound((event.clientY - box.top) / box.height, this.data.lines.length), bound((event.clientX - box.left) / box.width, this.data.steps.length)];
    };
    this.canvas.addEventListener("pointermove", (event) => { if (this.data) { place(event); read(); } });
    this.canvas.addEventListener("click", (event) => { if (this.data) { place(event); this.page.drill(this.data.lines[this.at[0]].key); } });
    this.canvas.addEventListener("keydown", (event) => {
      const way = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
      if (!this.data || (!way && event.key !== "Enter")) return;
      this.at ??= [0, 0];
      if (event.key === "Enter") return this.page.drill(this.data.lines[this.at[0]].key);
      event.preventDefault();
      const limits = [this.data.lines.length, this.data.steps.length];
      this.at = this.at.map((one, i) => Math.min(Math.max(one + way[i], 0), limits[i] - 1));
      read();
    });
  }

  async take(points, stale) {
    if (!this.scale) return; // not open yet: opening it loads the latest data
    const mine = this.data && this.data.lines.map((line) => points[line.id]);
    if (!mine || stale.includes(this.subscription)) return this.load();
    if (!mine.some(Boolean)) return;
    const full = this.data.steps.length >= FULL;
    if (full && performance.now() - this.loaded > RELOAD) return this.load();
    const steps = new Set(mine.flatMap((more) => (more ? more.x : [])));
    const last = this.data.steps.at(-1);
    for (const step of [...steps].sort((a, b) => a - b)) {
      let column = full ? this.data.steps.length - 1 : this.data.steps.indexOf(step); // the last column takes the new steps
      if (column < 0 && step < last) return this.load();
      if (column < 0) {
        column = this.data.steps.push(step) - 1;
        this.data.values.forEach((line) => line.push(null));
      }
      mine.forEach((more, row) => { const i = more ? more.x.indexOf(step) : -1; if (i >= 0) this.data.values[row][column] = more.y[i]; });
    }
    this.draw();
  }

  owns(id) {
    return Boolean(this.data?.lines.some((line) => String(line.id) === id));
  }
}
