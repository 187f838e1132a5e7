// The page: panels open on demand, and one stream brings new points to the open ones.
import { view } from "./address.js";
import { Curves } from "./curves.js";
import { Diagram } from "./diagram.js";
import { get } from "./dom.js";
import { Heat } from "./heat.js";

const state = document.querySelector("#state");
const LOSS = "metrics///loss";

class Page {
  constructor() {
    this.version = Number(document.body.dataset.version);
    this.answered = Number(document.body.dataset.answered);
    this.loss = new Curves(document.querySelector('[data-panel="loss"]'), this, { mark: "l", otherwise: LOSS, choose: false, logy: true });
    const of = (name) => document.querySelector(`[data-drill="${name}"]`);
    this.drills = { curve: of("curve"), heat: of("heat"), diagram: of("diagram") };
    const inside = (name) => this.drills[name].querySelector(".panel");
    this.panels = {
      curve: new Curves(inside("curve"), this, { mark: "", otherwise: "", choose: true, logy: false }),
      heat: new Heat(inside("heat"), this),
      diagram: new Diagram(inside("diagram"), this),
    };
  }

  async start() {
    this.index = await get("/panel/index");
    await this.loss.open();
    const open = view.list("open");
    for (const [name, drill] of Object.entries(this.drills)) {
      if (open.includes(name)) { drill.open = true; await this.openPanel(name); }
      drill.addEventListener("toggle", () => this.toggled(name));
    }
    this.listen();
    this.keys();
  }

  async openPanel(name) {
    if (this.panels[name].isOpen) return;
    this.panels[name].isOpen = true;
    this.index = await get("/panel/index");
    await this.panels[name].open();
  }

  async toggled(name) {
    const { open } = this.drills[name];
    view.set({ open: Object.keys(this.drills).filter((one) => this.drills[one].open) });
    if (open === Boolean(this.panels[name].isOpen)) return;
    if (open) await this.openPanel(name);
    else this.panels[name].isOpen = false;
    this.listen();
  }

  // Opens one line of the heat map as a curve.
  async drill(key) {
    const { curve } = this.panels;
    if (!curve.isOpen) { this.drills.curve.open = true; await this.openPanel("curve"); }
    await curve.show(key);
    this.drills.curve.scrollIntoView({ block: "nearest" });
  }

  active() {
    return [this.loss, ...Object.values(this.panels).filter((panel) => panel.isOpen)];
  }

  owned(id, besides) {
    return this.active().some((panel) => panel !== besides && panel.owns(id));
  }

  redraw() {
    for (const panel of [this.loss, this.panels.curve]) if (panel.chart) { panel.chart.key(); panel.chart.later(); }
  }

  // The stream resumes from the oldest version shown; points that arrive twice overwrite themselves.
  seen(version) {
    this.version = Math.min(this.version, version) || version;
  }

  listen() {
    this.stream?.close();
    const asked = new URLSearchParams({ since: this.version, answered: this.answered });
    for (const panel of this.active()) if (panel.subscription) asked.append("panel", panel.subscription);
    this.stream = new EventSource(`/events?${asked}`);
    this.stream.addEventListener("open", () => this.say("live"));
    this.stream.addEventListener("error", () => this.say("not connected; retrying"));
    this.stream.addEventListener("reload", () => this.reload());
    this.stream.addEventListener("parts", (event) => {
      const { names, answered } = JSON.parse(event.data);
      this.answered = answered;
      this.parts(names);
    });
    this.stream.addEventListener("points", (event) => this.points(JSON.parse(event.data)));
  }

  async points({ version, traces, stale }) {
    this.version = version;
    const some = Object.keys(traces).length || stale.length;
    if (some) for (const panel of this.active()) await panel.take(traces, stale);
    this.say(`live, updated at ${new Date().toLocaleTimeString()}`);
  }

  async parts(names) {
    if (names.includes("alarms") && this.loss.chart) this.loss.load();
    for (const name of names) {
      const answer = await fetch(`/fragment/${name}`, { credentials: "same-origin" });
      const place = document.querySelector(`[data-part="${name}"]`);
      const text = answer.ok ? await answer.text() : null;
      if (text !== null && this.shown?.[name] !== text) {
        (this.shown ??= {})[name] = text;
        const open = [...place.querySelectorAll("details[open]")].map((one) => one.dataset.key);
        place.innerHTML = text; // the server escaped it, and the page's policy runs no inline script
        for (const one of place.querySelectorAll("details")) one.open = open.includes(one.dataset.key);
      }
    }
    if (names.includes("forecasts")) this.cones();
  }

  async cones() {
    const { chart } = this.loss;
    if (!chart) return this.loss.load();
    const now = await get("/panel/curves", { key: LOSS, from: 1, to: 0 });
    chart.cones = now.cones;
    chart.later();
  }

  async reload() {
    this.index = await get("/panel/index");
    this.version = Infinity;
    for (const panel of this.active()) await (panel.load ? panel.load() : panel.open());
    await this.parts([...document.querySelectorAll("[data-part]")].map((place) => place.dataset.part));
    this.listen();
  }

  say(text) {
    state.textContent = text;
    document.body.dataset.state = text.split(",")[0];
  }

  keys() {
    const to = { c: "curve", h: "heat", d: "diagram" };
    document.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
      if (to[event.key]) {
        const drill = this.drills[to[event.key]];
        drill.open = !drill.open;
        drill.querySelector("summary").focus();
      }
      if (event.key === "t") theme();
      if (event.key === "l") this.loss.chart?.drawing.focus();
      if (event.key === "a") document.querySelector("#alarms-heading").scrollIntoView();
    });
  }
}

const shown = () => document.documentElement.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");

function theme() {
  document.documentElement.dataset.theme = shown() === "dark" ? "light" : "dark";
  view.set({ theme: document.documentElement.dataset.theme });
}

if (["dark", "light"].includes(view.get("theme"))) document.documentElement.dataset.theme = view.get("theme");
document.querySelector("#theme").addEventListener("click", theme);
document.querySelector("#link").addEventListener("click", async (event) => {
  await navigator.clipboard?.writeText(location.href);
  event.target.textContent = navigator.clipboard ? "copied" : "copy the address above";
});
new Page().start().catch((error) => { state.textContent = `the panels could not be opened: ${error.message}`; });
