// The curves of a figure answer to a pointer and to the keyboard: the nearest point has its name, step and value,
// and its curve is lit while the others are dimmed. Without this script the figures are whole.
"use strict";
(() => {
  const SVG = "http://www.w3.org/2000/svg", FAR = 40;
  const made = (name, attributes) => {
    const one = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) one.setAttribute(key, value);
    return one;
  };
  const number = (value) => value.toLocaleString("en", { maximumSignificantDigits: 6 });

  for (const data of document.querySelectorAll("script.curves")) {
    const figure = data.closest("figure"), holder = figure.querySelector(".scroll"), image = holder.querySelector("img");
    const curves = JSON.parse(data.textContent).map(([name, colour, flat]) => {
      const points = [];
      for (let i = 0; i < flat.length; i += 4) points.push(flat.slice(i, i + 4));
      return { name, colour, points };
    });
    const layer = made("svg", { "aria-hidden": "true" });
    holder.classList.add("pointed");
    holder.append(layer);

    const names = document.createElement("p"), said = document.createElement("output");
    names.className = "names";
    const buttons = curves.map((curve, i) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = curve.name;
      button.style.setProperty("--of", curve.colour);
      button.addEventListener("click", () => { held = held === i ? -1 : i; held < 0 ? clear() : light(i, last(i)); });
      button.addEventListener("focus", () => light(i, last(i)));
      button.addEventListener("mouseenter", () => light(i, last(i)));
      button.addEventListener("mouseleave", () => held < 0 && clear());
      button.addEventListener("keydown", move);
      return button;
    });
    names.append(...buttons, said);
    holder.after(names);
    let held = -1, curve = -1, point = 0;

    const last = (i) => curves[i].points.length - 1;
    const box = () => {
      const style = getComputedStyle(image), inner = image.getBoundingClientRect(), outer = holder.getBoundingClientRect();
      const left = parseFloat(style.paddingLeft) + parseFloat(style.borderLeftWidth);
      const top = parseFloat(style.paddingTop) + parseFloat(style.borderTopWidth);
      return {
        left: inner.left - outer.left + holder.scrollLeft + left, top: inner.top - outer.top + top,
        width: inner.width - 2 * left, height: inner.height - 2 * top, x: inner.left + left, y: inner.top + top,
      };
    };
    const wide = () => image.currentSrc === image.src; // a phone shows a narrower drawing

    function light(i, j) {
      if (!wide()) return;
      [curve, point] = [i, j];
      const { left, top, width, height } = box(), one = curves[i], [x, y, step, value] = one.points[j];
      Object.assign(layer.style, { left: `${left}px`, top: `${top}px`, width: `${width}px`, height: `${height}px` });
      const end = x > 0.7, text = `${one.name}: ${number(value)} at step ${number(step)}`;
      const label = made("text", { x: x * width + (end ? -9 : 9), y: Math.max(y * height - 9, 14), "text-anchor": end ? "end" : "start" });
      label.textContent = text;
      layer.replaceChildren(
        made("rect", { width, height, fill: "#fff", opacity: 0.65 }),
        made("polyline", {
          points: one.points.map(([px, py]) => `${px * width},${py * height}`).join(" "),
          fill: "none", stroke: one.colour, "stroke-width": 2.5,
        }),
        made("circle", { cx: x * width, cy: y * height, r: 5, fill: one.colour, stroke: "#fff", "stroke-width": 1.5 }),
        label,
      );
      said.textContent = text;
      buttons.forEach((button, k) => button.setAttribute("aria-pressed", k === i));
    }
    function clear() {
      layer.replaceChildren();
      said.textContent = "";
      curve = -1;
      buttons.forEach((button) => button.setAttribute("aria-pressed", false));
    }
    function move(event) {
      const steps = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (event.key === "Escape") { held = -1; clear(); }
      if (steps && curve >= 0) {
        event.preventDefault();
        light(curve, Math.min(Math.max(point + steps, 0), last(curve)));
      }
    }
    holder.addEventListener("pointermove", (event) => {
      const { x, y, width, height } = box();
      let best = [FAR * FAR, -1, 0];
      curves.forEach((one, i) => (held < 0 || held === i) && one.points.forEach(([px, py], j) => {
        const far = (px * width + x - event.clientX) ** 2 + (py * height + y - event.clientY) ** 2;
        if (far < best[0]) best = [far, i, j];
      }));
      if (best[1] >= 0) light(best[1], best[2]);
      else if (held < 0) clear();
    });
    holder.addEventListener("pointerleave", () => (held < 0 ? clear() : light(held, last(held))));
    addEventListener("resize", () => { held = -1; clear(); });
  }
})();
