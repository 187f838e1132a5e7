// A panel of curves: which measure, which axes, which range of steps.
import { view } from "./address.js";
import { Chart } from "./chart.js";
import { get, html, select } from "./dom.js";
import { buttons } from "./save.js";

export class Curves {
  // `mark` prefixes this panel's keys in the URL; `choose` says whether the measure can be chosen.
  constructor(place, page, { mark, otherwise, choose, logy }) {
    Object.assign(this, { place, page, mark, choose });
    this.key = view.get(`${mark}key`, otherwise);
    this.logx = view.get(`${mark}logx`) === "1";
    this.logy = view.get(`${mark}logy`, logy ? "1" : "0") === "1";
    this.usual = logy;
    const span = view.get(`${mark}x`).split(",").map(Number);
    this.range = span.length === 2 && span.every(Number.isFinite) ? span : null;
  }

  get subscription() {
    return `c:${this.key}`;
  }

  async open() {
    if (!this.chart) {
      this.tools = html("div", { class: "tools" });
      const area = html("div");
      this.place.replaceChildren(this.tools, area);
      this.area = area;
    }
    if (this.choose && !this.page.index.measures.some((one) => one.key === this.key)) this.key = this.measures()[0]?.[0] ?? this.key;
    this.paint();
    await this.load();
  }

  measures() {
    const listed = this.page.index.measures.map((one) => [one.key, one.title]);
    return listed.some(([key]) => key === this.key) || !this.key ? listed : [[this.key, this.key], ...listed];
  }

  paint() {
    const toggle = (text, name) => html("button", {
      type: "button", "aria-pressed": String(this[name]),
      onclick: () => { this[name] = !this[name]; this.remember(); this.paint(); name === "logx" ? this.load() : this.chart.later(); },
    }, text);
    const back = html("button", { type: "button", onclick: () => this.zoom(null) }, "whole run");
    const choice = this.choose ? [select("measure", this.measures(), this.key, (key) => this.show(key))] : [];
    const saving = buttons(this.choose ? "curve" : "loss", () => this.chart.drawing, () => `/csv?${new URLSearchParams({ key: this.key })}`);
    this.tools.replaceChildren(...choice, toggle("log step", "logx"), toggle("log value", "logy"), ...(this.range ? [back] : []), ...saving);
  }

  async show(key) {
    this.key = key;
    this.remember();
    this.paint();
    await this.load();
    this.page.listen();
  }

  async zoom(range) {
    this.range = range;
    this.remember();
    this.paint();
    await this.load();
  }

  remember() {
    view.set({
      [`${this.mark}key`]: this.choose ? this.key : "",
      [`${this.mark}logx`]: this.logx ? "1" : "",
      [`${this.mark}logy`]: this.logy === this.usual ? "" : Number(this.logy),
      [`${this.mark}x`]: this.range ? this.range.join(",") : "",
    });
  }

  async load() {
    const known = () => this.choose || this.page.index.measures.some((one) => one.key === this.key);
    if (!known()) this.page.index = await get("/panel/index");
    if (!known() || !this.key) {
      if (!this.chart) this.area.replaceChildren(html("p", { class: "soft" }, "No data yet."));
      return;
    }
    const span = this.range ? { from: this.range[0], to: this.range[1] } : {};
    const data = await get("/panel/curves", { key: this.key, log: this.logx ? "1" : "0", ...span });
    this.page.seen(data.version);
    this.chart ??= new Chart(this.area, {
      hidden: () => view.list("hide"), hide: (runs) => { view.set({ hide: runs }); this.page.redraw(); },
      logs: () => ({ logx: this.logx, logy: this.logy }), zoom: (range) => this.zoom(range), note: () => this.note(),
    });
    this.chart.range = this.range;
    this.chart.set(data);
  }

  note() {
    const kinds = new Set([...this.chart.traces.values()].map((trace) => trace.kind));
    const colours = new Map([...this.chart.traces.values()].map((trace) => [trace.run, trace.group]));
    const said = new Set(colours.values()).size < colours.size ? ["Seeds of the same size share a colour."] : [];
    if (kinds.has("null")) said.push("Dashed with a band: the null model, from its smallest to its largest draw.");
    if (kinds.has("held-out")) said.push("Dotted: held-out loss.");
    if (this.chart.cones.some((cone) => cone.step.length)) said.push("Dashed beyond the last step: the forecast, with its interval.");
    return said.join(" ");
  }

  async take(points, stale) {
    if (!this.tools) return; // not open yet: opening it loads the latest data
    const missing = this.chart && Object.keys(points).some((id) => !this.chart.traces.has(id) && !this.page.owned(id, this));
    if (!this.chart || stale.includes(this.subscription) || missing) await this.load();
    else this.chart.push(points);
  }

  owns(id) {
    return Boolean(this.chart?.traces.has(id));
  }
}
