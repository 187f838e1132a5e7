// The sampled surface as a wire of filled tiles on a canvas: drag or arrow keys turn it, the slider is the step.
(() => {
  const box = document.getElementById("surface-view");
  const scene = JSON.parse(document.getElementById("surface-view-data").textContent);
  const canvas = box.querySelector("canvas"), pen = canvas.getContext("2d");
  const slider = box.querySelector("input[type=range]"), common = box.querySelector("input[type=checkbox]");
  const said = box.querySelector("output");
  const colours = [[255, 255, 229], [255, 247, 188], [254, 227, 145], [254, 196, 79], [254, 153, 41],
    [236, 112, 20], [204, 76, 2], [153, 52, 4], [102, 37, 6]]; // as the contours: YlOrBr of ColorBrewer
  let turn = -0.7, tilt = 0.75;

  const finite = (rows) => rows.flat().filter((value) => value !== null);
  const ends = (values) => [Math.min(...values), Math.max(...values)];
  const whole = ends(scene.frames.flatMap((frame) => ends(finite(frame.values))));

  function colour(share) {
    const at = Math.min(Math.max(share, 0), 1) * (colours.length - 1), low = Math.min(Math.floor(at), colours.length - 2);
    const mix = colours[low].map((part, i) => Math.round(part + (at - low) * (colours[low + 1][i] - part)));
    return `rgb(${mix.join(",")})`;
  }

  function draw() {
    const frame = scene.frames[slider.value], rows = frame.values.length, columns = frame.values[0].length;
    const [low, high] = common.checked ? whole : ends(finite(frame.values));
    const ratio = window.devicePixelRatio || 1, width = canvas.clientWidth, height = canvas.clientHeight;
    canvas.width = width * ratio; canvas.height = height * ratio;
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    const share = (value) => (value - low) / Math.max(high - low, 1e-12);
    const seen = (x, y, z) => {
      const across = x * Math.cos(turn) - y * Math.sin(turn), away = x * Math.sin(turn) + y * Math.cos(turn);
      const depth = away * Math.cos(tilt) - z * Math.sin(tilt), near = 1 / (1 + 0.35 * depth);
      return [across * near, (z * Math.cos(tilt) + away * Math.sin(tilt)) * near, depth];
    };
    const corners = [0, 1, 2, 3, 4, 5, 6, 7].map((k) =>
      seen(k & 1 ? 0.5 : -0.5, k & 2 ? 0.5 : -0.5, k & 4 ? 0.35 : -0.35));
    const widest = (axis) => Math.max(...corners.map((corner) => Math.abs(corner[axis])));
    const size = Math.min((0.49 * width) / widest(0), (0.49 * height) / widest(1)); // nothing leaves the canvas
    const place = (i, j, value) => {
      const [x, y, depth] = seen(i / (rows - 1) - 0.5, j / (columns - 1) - 0.5, 0.7 * (share(value) - 0.5));
      return [width / 2 + size * x, height / 2 - size * y, depth];
    };
    const tiles = [];
    for (let i = 0; i + 1 < rows; i++) for (let j = 0; j + 1 < columns; j++) {
      const held = [[i, j], [i + 1, j], [i + 1, j + 1], [i, j + 1]].map(([a, b]) => [a, b, frame.values[a][b]]);
      if (held.some((corner) => corner[2] === null)) continue; // masked places stay open
      const corners = held.map((corner) => place(...corner));
      tiles.push({ corners, depth: corners.reduce((sum, c) => sum + c[2], 0),
        colour: colour(share(held.reduce((sum, c) => sum + c[2], 0) / 4)) });
    }
    tiles.sort((a, b) => b.depth - a.depth);
    pen.lineWidth = 0.6; pen.lineJoin = "round";
    for (const tile of tiles) {
      pen.beginPath();
      tile.corners.forEach((c, k) => (k ? pen.lineTo(c[0], c[1]) : pen.moveTo(c[0], c[1])));
      pen.closePath();
      pen.fillStyle = tile.colour; pen.strokeStyle = "rgba(255,255,255,.35)";
      pen.fill(); pen.stroke();
    }
    const drawn = [...frame.branches.map((branch) => [branch, 1.4, 4.5]), ...frame.confirmed.map((branch) => [branch, 3.4, 6])];
    for (const [branch, thick, dot] of drawn) {
      const way = branch.map(([i, j]) => place(i, j, frame.values[i][j]));
      for (const [ink, line] of [["#1d2733", thick + 2], ["#ffffff", thick]]) { // seen on dark tiles and light ones
        pen.strokeStyle = ink; pen.lineWidth = line; pen.beginPath();
        way.forEach((c, k) => (k ? pen.lineTo(c[0], c[1]) : pen.moveTo(c[0], c[1])));
        pen.stroke();
      }
      if (way.length > 1) {
        pen.strokeStyle = "#d55e00"; pen.lineWidth = 2; pen.beginPath();
        for (const d of [-4, 4]) { pen.moveTo(way[1][0] - d, way[1][1] - 4); pen.lineTo(way[1][0] + d, way[1][1] + 4); }
        pen.stroke();
      }
      pen.fillStyle = "#e69f00"; pen.strokeStyle = "#ffffff"; pen.lineWidth = 1; pen.beginPath();
      pen.arc(way[0][0], way[0][1], dot, 0, 2 * Math.PI); pen.fill(); pen.stroke();
    }
    const masked = frame.values.flat().length - finite(frame.values).length;
    const minima = frame.branches.length;
    said.textContent = `step ${frame.step.toLocaleString("en")}: loss ${low.toFixed(3)} to ${high.toFixed(3)} ` +
      `nats, ${minima} ${minima === 1 ? "minimum" : "minima"}, ` +
      `${frame.confirmed.length} ${frame.confirmed.length === 1 ? "branch" : "branches"} confirmed` + (masked ? `, ${masked} places masked` : "");
  }

  let held = null;
  canvas.addEventListener("pointerdown", (event) => { held = [event.clientX, event.clientY]; canvas.setPointerCapture(event.pointerId); });
  canvas.addEventListener("pointerup", () => { held = null; });
  canvas.addEventListener("pointercancel", () => { held = null; });
  canvas.addEventListener("pointermove", (event) => {
    if (held === null) return;
    turned((event.clientX - held[0]) / 120, (event.clientY - held[1]) / 160);
    held = [event.clientX, event.clientY];
  });
  canvas.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: [-0.1, 0], ArrowRight: [0.1, 0], ArrowUp: [0, -0.1], ArrowDown: [0, 0.1] }[event.key];
    if (step) { event.preventDefault(); turned(...step); }
  });
  function turned(sideways, up) {
    turn += sideways;
    tilt = Math.min(Math.max(tilt + up, 0.05), 1.5);
    draw();
  }
  slider.addEventListener("input", draw);
  common.addEventListener("change", draw);
  new ResizeObserver(draw).observe(canvas); // also when the fold around it opens
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  box.hidden = false;
  draw();
})();
