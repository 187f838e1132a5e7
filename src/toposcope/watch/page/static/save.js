// Saves a panel as SVG, PNG or CSV; the browser makes the file from what the panel shows.
import { html } from "./dom.js";

const STYLES = ["fill", "stroke", "stroke-width", "stroke-dasharray", "stroke-linecap", "opacity", "font-size", "text-anchor"];

function alone(drawing) {
  const copy = drawing.cloneNode(true);
  const [from, to] = [[drawing, ...drawing.querySelectorAll("*")], [copy, ...copy.querySelectorAll("*")]];
  from.forEach((one, i) => {
    const seen = getComputedStyle(one);
    for (const name of STYLES) to[i].setAttribute(name, seen.getPropertyValue(name));
    to[i].removeAttribute("class");
  });
  const [, , width, height] = drawing.getAttribute("viewBox").split(" ");
  for (const [key, value] of Object.entries({ xmlns: "http://www.w3.org/2000/svg", width, height })) copy.setAttribute(key, value);
  const paper = document.createElementNS("http://www.w3.org/2000/svg", "rect");
  for (const [key, value] of Object.entries({ width, height, fill: getComputedStyle(document.body).backgroundColor })) paper.setAttribute(key, value);
  copy.prepend(paper);
  copy.setAttribute("font-family", "sans-serif");
  return new Blob([new XMLSerializer().serializeToString(copy)], { type: "image/svg+xml" });
}

export function download(blob, name) {
  const link = html("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

async function png(drawing) {
  if (drawing instanceof HTMLCanvasElement) return new Promise((done) => drawing.toBlob(done));
  const address = URL.createObjectURL(alone(drawing));
  const image = new Image();
  await new Promise((done, fail) => Object.assign(image, { onload: done, onerror: fail, src: address }));
  const canvas = html("canvas", { width: image.width * 2, height: image.height * 2 });
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  URL.revokeObjectURL(address);
  return new Promise((done) => canvas.toBlob(done));
}

// A canvas is embedded in the SVG as an image.
async function vector(drawing) {
  if (!(drawing instanceof HTMLCanvasElement)) return alone(drawing);
  const { width, height } = drawing;
  const box = `xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}"`;
  return new Blob([`<svg ${box}><image width="${width}" height="${height}" href="${drawing.toDataURL()}"/></svg>`], { type: "image/svg+xml" });
}

export const cell = (value) => {
  let text = String(value ?? "");
  if (typeof value === "string" && /^[=+\-@\t\r]/.test(text)) text = `'${text}`;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
};

// `drawing` returns the SVG or canvas, `csv` a URL or rows.
export function buttons(name, drawing, csv) {
  const button = (text, act) => html("button", { type: "button", onclick: act, "aria-label": `Save ${name} as ${text}` }, text);
  return [
    button("PNG", async () => download(await png(drawing()), `${name}.png`)),
    button("SVG", async () => download(await vector(drawing()), `${name}.svg`)),
    button("CSV", () => {
      const made = csv();
      if (typeof made === "string") html("a", { href: made, download: `${name}.csv` }).click();
      else download(new Blob([made.map((row) => row.map(cell).join(",") + "\n").join("")], { type: "text/csv" }), `${name}.csv`);
    }),
  ];
}
