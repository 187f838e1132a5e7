// Builds elements from text only: nothing from a store is ever parsed as markup.
const SVG = "http://www.w3.org/2000/svg";

export function svg(name, attributes = {}, text = "") {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text) made.textContent = text;
  return made;
}

export function html(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value !== false) made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children);
  return made;
}

export function select(label, options, chosen, change) {
  const made = html("select", { onchange: () => change(made.value) });
  for (const [value, text] of options) made.append(html("option", { value, selected: value === chosen }, text));
  return html("label", {}, label, made);
}

export async function get(path, query = {}) {
  const answer = await fetch(`${path}?${new URLSearchParams(query)}`, { credentials: "same-origin" });
  if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
  return answer.json();
}

export function short(value) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "not finite";
  if (value !== 0 && (Math.abs(value) >= 1e5 || Math.abs(value) < 1e-3)) return value.toExponential(2);
  return String(Number(value.toPrecision(4)));
}
