// One stored diagram and its barcode, with a slider over the steps.
import { view } from "./address.js";
import { get, html, select, short, svg } from "./dom.js";
import { buttons } from "./save.js";

const SIZE = 340;
const EDGE = 44;
const BARS = 200;

export class Diagram {
  constructor(place, page) {
    Object.assign(this, { place, page, run: view.get("drun"), cloud: view.get("cloud"), step: Number(view.get("step", "-1")) });
    this.subscription = null;
  }

  async open() {
    const { runs } = this.page.index;
    if (!runs.some((one) => one.run === this.run)) this.run = runs[0]?.run ?? "";
    this.clouds = await get("/panel/clouds", { run: this.run });
    const choice = select("run", runs.map((one) => [one.run, one.run]), this.run, (run) => { this.run = run; this.cloud = ""; this.open(); });
    if (!this.clouds.length) {
      const why = this.page.index.no_diagram;
      return this.place.replaceChildren(html("div", { class: "tools" }, choice), html("p", { class: "soft" }, why));
    }
    const name = (one) => [one.probe, one.filtration, one.name].join("/");
    this.chosen = this.clouds.find((one) => name(one) === this.cloud) ?? this.clouds[0];
    this.cloud = name(this.chosen);
    const { steps } = this.chosen;
    if (!steps.includes(this.step)) this.step = steps.at(-1);
    const slider = html("input", { type: "range", min: 0, max: steps.length - 1, value: steps.indexOf(this.step), "aria-label": "Step" });
    const told = html("output", {}, `step ${this.step.toLocaleString("en")}`);
    slider.addEventListener("input", () => {
      this.step = steps[slider.value];
      told.textContent = `step ${this.step.toLocaleString("en")}`;
      this.load();
    });
    this.pair = svg("svg", { viewBox: `0 0 ${SIZE} ${SIZE}`, role: "img" });
    this.bars = svg("svg", { viewBox: `0 0 ${SIZE} ${SIZE}`, role: "img" });
    this.reading = html("p", { class: "reading" });
    this.place.replaceChildren(
      html("div", { class: "tools" }, choice, select("of", this.clouds.map((one) => [name(one), one.title]), this.cloud, (cloud) => { this.cloud = cloud; this.open(); }),
        html("label", {}, slider, told), ...buttons("diagram", () => this.pair, () => this.rows())),
      html("div", { class: "sides" }, this.pair, this.bars), this.reading);
    await this.load();
  }

  rows() {
    return [["dim", "birth", "death"], ...this.data.dims.flatMap((one) => one.birth.map((birth, i) => [one.dim, birth, one.death[i] ?? "inf"]))];
  }

  async load() {
    const asked = this.step;
    view.set({ drun: this.run, cloud: this.cloud, step: asked });
    const { probe, filtration, name } = this.chosen;
    let data;
    try {
      data = await get("/panel/diagram", { run: this.run, probe, filtration, name, step: asked });
    } catch {
      this.reading.textContent = "This diagram is no longer stored.";
      return;
    }
    if (asked !== this.step) return; // the slider has moved on
    this.data = data;
    this.draw();
  }

  draw() {
    const ends = this.data.dims.flatMap((one) => [...one.birth, ...one.death.filter((death) => death !== null)]);
    const low = Math.min(0, ...ends.slice(0, 5000));
    const high = Math.max(...ends.slice(0, 20000), low + 1e-9) * 1.04;
    const place = (value) => EDGE + ((value - low) / (high - low)) * (SIZE - EDGE - 12);
    const up = (value) => SIZE - place(value);
    const dots = [svg("line", { class: "grid", x1: place(low), y1: up(low), x2: place(high), y2: up(high) })];
    const bars = [];
    const falls = this.data.dims.some((one) => one.birth.some((birth, i) => one.death[i] !== null && one.death[i] < birth));
    const never = falls ? low : high;
    const listed = this.data.dims.flatMap((one) => one.birth.map((birth, i) => ({ dim: one.dim, birth, death: one.death[i] })));
    for (const { dim, birth, death } of listed) {
      const end = death ?? never;
      dots.push(death === null
        ? svg("rect", { class: `f${dim % 8}`, x: place(birth) - 3, y: up(end) - 3, width: 6, height: 6 })
        : svg("circle", { class: `f${dim % 8}`, cx: place(birth), cy: up(end), r: 2.6, opacity: 0.7 }));
    }
    const long = listed.map((one) => ({ ...one, end: one.death ?? never })).sort((a, b) => Math.abs(b.end - b.birth) - Math.abs(a.end - a.birth)).slice(0, BARS);
    long.sort((a, b) => a.dim - b.dim || a.birth - b.birth || a.end - b.end);
    long.forEach(({ dim, birth, end }, i) => {
      const y = 8 + ((i + 0.5) / long.length) * (SIZE - EDGE - 12);
      bars.push(svg("line", { class: `line g${dim % 8}`, x1: place(birth), x2: place(end), y1: y, y2: y }));
    });
    const axis = (text) => [
      svg("text", { class: "tick", x: EDGE, y: SIZE - 22 }, short(low)), svg("text", { class: "tick end", x: SIZE - 12, y: SIZE - 22 }, short(high)),
      svg("text", { class: "tick middle", x: SIZE / 2, y: SIZE - 8 }, text)];
    this.pair.replaceChildren(...dots, ...axis("birth"), svg("text", { class: "tick", x: 4, y: 16 }, "death"));
    this.pair.append(...this.data.dims.map((one, i) => svg("text", { class: `tick f${one.dim % 8}`, x: SIZE - 40, y: SIZE - 110 + 18 * i }, `H${one.dim}`)));
    this.bars.replaceChildren(...bars, ...axis(`filtration value; the ${long.length} longest bars`));
    const counts = this.data.dims.map((one) => `H${one.dim}: ${one.bars.toLocaleString("en")} bars`).join(", ");
    this.pair.setAttribute("aria-label", `Persistence diagram of ${this.data.of} at step ${this.data.step.toLocaleString("en")}: ${counts}`);
    this.bars.setAttribute("aria-label", `Barcode of ${this.data.of} at step ${this.data.step.toLocaleString("en")}`);
    const most = this.data.dims.some((one) => one.bars > one.birth.length) ? " Only the longest of each dimension are drawn." : "";
    this.reading.textContent = `${this.data.of}, step ${this.data.step.toLocaleString("en")}: ${counts}. Squares: bars that never die.${most}`;
    this.place.dataset.step = String(this.data.step);
  }

  async take() {}

  owns() {
    return false;
  }
}
