// Curves of a measure in every run, with bands, null models and forecast cones.
import { html, short, svg } from "./dom.js";

const MOST = 1500;
const EDGE = { left: 56, right: 12, top: 20, bottom: 24 };

function at(steps, step) {
  let [low, high] = [0, steps.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (steps[middle] < step) low = middle + 1;
    else high = middle;
  }
  return low;
}

// Keeps the minimum and maximum of every stretch of points, as the server does, once a trace is twice too long.
function thin(trace) {
  if (trace.x.length <= 2 * MOST) return;
  const keep = new Set([0, trace.x.length - 1]);
  const size = trace.x.length / (MOST / 2 - 2);
  for (let from = 0; from < trace.x.length; from += size) {
    let [least, most] = [-1, -1];
    for (let i = Math.floor(from); i < Math.min(from + size, trace.x.length); i++) {
      if (trace.y[i] === null) continue;
      if (least < 0 || trace.y[i] < trace.y[least]) least = i;
      if (most < 0 || trace.y[i] > trace.y[most]) most = i;
    }
    if (least >= 0) keep.add(least).add(most);
  }
  const chosen = [...keep].sort((a, b) => a - b);
  for (const name of ["x", "y", "low", "high"]) if (trace[name]) trace[name] = chosen.map((i) => trace[name][i]);
}

function ticks(low, high, log, count) {
  if (log) {
    const made = [];
    for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power++)
      for (const digit of high / low > 1000 ? [1] : high / low > 8 ? [1, 2, 5] : [1, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8, 9]) made.push(digit * 10 ** power);
    const inside = made.filter((value) => value >= low && value <= high);
    if (inside.length > 1) return inside.filter((_, i) => i % Math.ceil(inside.length / (count + 2)) === 0);
  }
  const raw = (high - low) / count || 1;
  const unit = 10 ** Math.floor(Math.log10(raw));
  const size = [1, 2, 5, 10].find((digit) => digit * unit >= raw) * unit;
  const made = [];
  for (let value = Math.ceil(low / size) * size; value <= high * (1 + 1e-12); value += size) made.push(value);
  return made;
}

export class Chart {
  constructor(place, options) {
    Object.assign(this, { place, options, traces: new Map(), cones: [], cursor: null, range: null, named: null, height_at: null });
    this.legend = html("ul", { class: "legend", "aria-label": "Runs" });
    this.reading = html("p", { class: "reading", "aria-live": "off" });
    this.drawing = svg("svg", { tabindex: "0", role: "img" });
    place.replaceChildren(this.legend, this.drawing, this.reading);
    this.listen();
    new ResizeObserver(() => this.later()).observe(place);
  }

  set(data) {
    this.data = data;
    this.cones = data.cones ?? [];
    this.traces = new Map(data.traces.map((trace) => [String(trace.id), trace]));
    this.key();
    this.later();
  }

  // Returns whether every point found its trace.
  push(points) {
    for (const [id, more] of Object.entries(points)) {
      const trace = this.traces.get(id);
      if (!trace) continue;
      if (more.low && !trace.low) [trace.low, trace.high] = [[...trace.y], [...trace.y]];
      more.x.forEach((step, i) => {
        if (this.range && (step < this.range[0] || step > this.range[1])) return;
        const place = at(trace.x, step);
        const same = trace.x[place] === step ? 1 : 0;
        trace.x.splice(place, same, step);
        trace.y.splice(place, same, more.y[i]);
        if (trace.low) {
          trace.low.splice(place, same, more.low ? more.low[i] : more.y[i]);
          trace.high.splice(place, same, more.high ? more.high[i] : more.y[i]);
        }
      });
      thin(trace);
    }
    this.later();
  }

  key() {
    const hidden = this.options.hidden();
    const runs = new Map();
    for (const trace of this.traces.values()) if (!runs.has(trace.run)) runs.set(trace.run, trace.group);
    const items = [...runs].map(([run, group]) => {
      const mark = svg("svg", { viewBox: "0 0 20 8", "aria-hidden": "true" });
      mark.append(svg("line", { x1: 0, x2: 20, y1: 4, y2: 4, class: `line g${group % 8}` }));
      const press = () => {
        const now = new Set(this.options.hidden());
        if (!now.delete(run)) now.add(run);
        this.options.hide([...now]);
        this.key();
        this.later();
      };
      const name = (one) => { this.named = one; this.read(); };
      return html("li", {}, html("button", { type: "button", "aria-pressed": String(!hidden.includes(run)), onclick: press, onfocus: () => name(run), onblur: () => name(null), onpointerenter: () => name(run), onpointerleave: () => name(null) }, mark, run));
    });
    this.legend.replaceChildren(...items);
  }

  later() {
    if (this.waiting || !this.data) return;
    this.waiting = requestAnimationFrame(() => {
      this.waiting = null;
      this.draw();
    });
  }

  shown() {
    const hidden = new Set(this.options.hidden());
    return [...this.traces.values()].filter((trace) => !hidden.has(trace.run) && trace.x.length);
  }

  scale() {
    const { logx, logy } = this.options.logs();
    const shown = this.shown();
    const hidden = new Set(this.options.hidden());
    const cones = this.range ? [] : this.cones.filter((cone) => !hidden.has(cone.run) && cone.step.length);
    let [x0, x1, y0, y1] = [Infinity, -Infinity, Infinity, -Infinity];
    const take = (x, y) => {
      if (y === null || !Number.isFinite(y) || (logy && y <= 0)) return;
      [x0, x1, y0, y1] = [Math.min(x0, x), Math.max(x1, x), Math.min(y0, y), Math.max(y1, y)];
    };
    for (const trace of shown) trace.x.forEach((x, i) => [trace.y, trace.low, trace.high].forEach((y) => y && take(x, y[i])));
    for (const cone of cones) cone.step.forEach((x, i) => [cone.loss, cone.curve_low, cone.curve_high].forEach((y) => y.length && take(x, y[i])));
    if (x0 > x1) [x0, x1, y0, y1] = [0, 1, logy ? 0.1 : 0, 1];
    if (y0 === y1) [y0, y1] = logy ? [y0 / 1.05, y1 * 1.05] : [y0 - Math.abs(y0) * 0.05 - 1e-9, y1 + Math.abs(y1) * 0.05 + 1e-9];
    const fx = logx ? (x) => Math.log(Math.max(x, 1)) : (x) => x;
    const fy = logy ? Math.log : (y) => y;
    const { width, height } = this;
    const [left, right, top, bottom] = [EDGE.left, width - EDGE.right, EDGE.top, height - EDGE.bottom];
    const [a, b, c, d] = [fx(x0), fx(x1), fy(y0), fy(y1)];
    return {
      shown, cones, x0: logx ? Math.max(x0, 1) : x0, x1, y0, y1, logx, logy, left, right, top, bottom,
      px: (x) => left + ((fx(x) - a) / (b - a || 1)) * (right - left),
      py: (y) => bottom - ((fy(y) - c) / (d - c || 1)) * (bottom - top),
      step: (pixel) => { const value = a + ((pixel - left) / (right - left)) * (b - a); return logx ? Math.exp(value) : value; },
    };
  }

  draw() {
    this.width = Math.max(this.place.clientWidth, 280);
    this.height = Math.round(Math.min(Math.max(this.width * 0.42, 240), 420));
    const s = (this.scaled = this.scale());
    const axes = svg("g");
    for (const value of ticks(s.y0, s.y1, s.logy, 5)) {
      axes.append(svg("line", { class: "grid", x1: s.left, x2: s.right, y1: s.py(value), y2: s.py(value) }));
      axes.append(svg("text", { class: "tick end", x: s.left - 6, y: s.py(value) + 4 }, short(value)));
    }
    for (const value of ticks(s.x0, s.x1, s.logx, this.width < 500 ? 3 : 6))
      axes.append(svg("text", { class: s.px(value) > s.right - 24 ? "tick end" : "tick middle", x: s.px(value), y: s.bottom + 17 }, Math.round(value).toLocaleString("en")));
    axes.append(svg("text", { class: "tick end", x: s.left - 12, y: s.bottom + 17 }, "step"));
    axes.append(svg("text", { class: "tick", x: s.left, y: 12 }, this.data.unit));
    const bands = svg("g");
    const lines = svg("g");
    const path = (xs, ys) => {
      let [text, pen] = ["", "M"];
      xs.forEach((x, i) => {
        const y = ys[i];
        if (y === null || y === undefined || (s.logy && y <= 0)) pen = "M";
        else { text += `${pen}${s.px(x).toFixed(1)},${s.py(y).toFixed(1)}`; pen = "L"; }
      });
      return text;
    };
    const band = (xs, low, high, group) => {
      const good = xs.map((_, i) => i).filter((i) => low[i] !== null && high[i] !== null && (!s.logy || low[i] > 0));
      const up = good.map((i) => `${s.px(xs[i]).toFixed(1)},${s.py(low[i]).toFixed(1)}`);
      const down = good.reverse().map((i) => `${s.px(xs[i]).toFixed(1)},${s.py(high[i]).toFixed(1)}`);
      bands.append(svg("polygon", { class: `band f${group % 8}`, points: [...up, ...down].join(" ") }));
    };
    for (const trace of s.shown) {
      if (trace.low) band(trace.x, trace.low, trace.high, trace.group);
      const line = svg("path", { class: `line g${trace.group % 8} ${trace.kind}`, "data-run": trace.run, d: path(trace.x, trace.y) });
      line.append(svg("title", {}, `${trace.run}${trace.kind === "value" ? "" : ` (${trace.kind})`}`));
      lines.append(line);
    }
    const group = new Map([...this.traces.values()].map((trace) => [trace.run, trace.group]));
    for (const cone of s.cones) {
      if (cone.curve_low.length) band(cone.step, cone.curve_low, cone.curve_high, group.get(cone.run) ?? 0);
      lines.append(svg("path", { class: `line cone null g${(group.get(cone.run) ?? 0) % 8}`, "data-run": cone.run, d: path(cone.step, cone.loss) }));
    }
    const hidden = new Set(this.options.hidden());
    for (const alarm of (this.data.alarms ?? []).filter((one) => !hidden.has(one.run) && one.step >= s.x0 && one.step <= s.x1)) {
      const mark = svg("line", { class: "alarm", x1: s.px(alarm.step), x2: s.px(alarm.step), y1: s.top, y2: s.bottom });
      mark.append(svg("title", {}, `alarm: ${alarm.run}, step ${alarm.step.toLocaleString("en")}: ${alarm.test}`));
      lines.append(mark);
    }
    this.drawn = lines;
    this.overlay = svg("g");
    this.drawing.setAttribute("viewBox", `0 0 ${this.width} ${this.height}`);
    this.drawing.setAttribute("aria-label", `${this.data.title}: ${s.shown.length} curves, steps ${Math.round(s.x0).toLocaleString("en")} to ${Math.round(s.x1).toLocaleString("en")}, values ${short(s.y0)} to ${short(s.y1)}`);
    this.drawing.replaceChildren(axes, bands, lines, this.overlay);
    this.place.dataset.points = String([...this.traces.values()].reduce((sum, trace) => sum + trace.x.length, 0));
    this.read();
  }

  // Lights the curves of a run and dims the others; null lights all.
  light(run) {
    for (const line of this.drawn?.querySelectorAll("[data-run]") ?? []) line.classList.toggle("dim", run !== null && line.dataset.run !== run);
  }

  // The point at the cursor's step that is nearest to the pointer; by keyboard, that of the chosen or first run.
  nearest() {
    const s = this.scaled;
    let found = null;
    for (const trace of s.shown.filter((one) => one.kind === "value")) {
      const i = Math.min(at(trace.x, this.cursor), trace.x.length - 1);
      if (trace.y[i] === null || (s.logy && trace.y[i] <= 0)) continue;
      const away = this.height_at === null ? (trace.run === this.named ? 0 : 1) : Math.abs(s.py(trace.y[i]) - this.height_at);
      if (!found || away < found.away) found = { away, run: trace.run, x: trace.x[i], y: trace.y[i], group: trace.group };
    }
    return found;
  }

  read() {
    const s = this.scaled;
    if (!s) return;
    this.overlay.replaceChildren();
    this.light(this.cursor === null ? this.named : null);
    if (this.dragged) {
      const [from, to] = [...this.dragged].sort((a, b) => a - b);
      this.overlay.append(svg("rect", { class: "zoom", x: from, y: s.top, width: to - from, height: s.bottom - s.top }));
    }
    if (this.cursor === null) return void (this.reading.textContent = this.options.note());
    this.overlay.append(svg("line", { class: "cursor", x1: s.px(this.cursor), x2: s.px(this.cursor), y1: s.top, y2: s.bottom }));
    const near = this.nearest();
    if (near) {
      this.light(near.run);
      this.overlay.append(svg("circle", { class: `point f${near.group % 8}`, cx: s.px(near.x), cy: s.py(near.y), r: 4 }));
    }
    const values = s.shown.filter((trace) => trace.kind === "value" && trace.run !== near?.run).slice(0, 11).map((trace) => {
      const i = Math.min(at(trace.x, this.cursor), trace.x.length - 1);
      return `${trace.run} ${short(trace.y[i])}`;
    });
    const first = near ? [`${near.run} ${short(near.y)}`] : [];
    const step = Math.round(near ? near.x : this.cursor).toLocaleString("en");
    this.reading.textContent = `step ${step}: ${[...first, ...values].join(", ")}`;
  }

  listen() {
    const pixel = (event) => ((event.clientX - this.drawing.getBoundingClientRect().left) / this.drawing.clientWidth) * this.width;
    this.drawing.addEventListener("pointermove", (event) => {
      if (!this.scaled) return;
      const now = Math.min(Math.max(pixel(event), this.scaled.left), this.scaled.right);
      this.cursor = this.scaled.step(now);
      const box = this.drawing.getBoundingClientRect();
      this.height_at = ((event.clientY - box.top) / box.height) * this.height;
      if (this.dragged) this.dragged[1] = now;
      this.read();
    });
    this.drawing.addEventListener("pointerdown", (event) => {
      if (event.pointerType === "mouse") this.dragged = [pixel(event), pixel(event)];
    });
    this.drawing.addEventListener("pointerup", () => {
      const dragged = this.dragged;
      this.dragged = null;
      if (dragged && Math.abs(dragged[1] - dragged[0]) > 8) this.options.zoom(dragged.sort((a, b) => a - b).map((one) => Math.round(this.scaled.step(one))));
      this.read();
    });
    this.drawing.addEventListener("pointerleave", () => { this.cursor = this.dragged = null; this.read(); });
    this.drawing.addEventListener("dblclick", () => this.options.zoom(null));
    this.drawing.addEventListener("keydown", (event) => {
      const way = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      const first = this.scaled?.shown[0];
      if (event.key === "Escape") this.options.zoom(null);
      if (!way || !first) return;
      event.preventDefault();
      this.height_at = null;
      const i = this.cursor === null ? first.x.length - 1 : at(first.x, this.cursor) + way;
      this.cursor = first.x[Math.min(Math.max(i, 0), first.x.length - 1)];
      this.read();
    });
  }
}
