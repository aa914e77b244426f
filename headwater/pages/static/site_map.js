// A map without tiles: coasts and borders as two paths, the matches as dots and bunches. Web Mercator, plain SVG.
"use strict";
(() => {
  const map = document.getElementById("map");
  if (!map) return;
  const SVG = "http://www.w3.org/2000/svg", svg = map.querySelector("svg"), tip = map.querySelector(".map-tip");
  const said = map.querySelector(".map-said"), area = map.querySelector("[data-map=area]");
  const NEAR = 26, ZOOM_MAX = 5e6, FIT_MAX = 1.2e6, LABELS_MAX = 40, LABELS_SCALE = 2e4, EARTH_M = 40075016, GRID = [90, 45, 20, 10, 5, 2, 1, .5, .2, .1, .05, .02, .01, .005];
  const make = (name, given, text) => { const e = document.createElementNS(SVG, name); for (const [k, v] of Object.entries(given)) e.setAttribute(k, v); if (text !== undefined) e.textContent = text; return e; };
  const layers = { world: make("g", {}), grid: make("g", {}), box: make("g", {}), dots: make("g", {}), ruler: make("g", {}) };
  svg.append(...Object.values(layers));

  // Of the world, 0 to 1 each way.
  const place = (lat, lon) => { const s = Math.sin(Math.max(-84, Math.min(84, lat)) * Math.PI / 180); return [(lon + 180) / 360, .5 - Math.log((1 + s) / (1 - s)) / (4 * Math.PI)]; };
  const degrees = (x, y) => [Math.atan(Math.sinh(Math.PI * (1 - 2 * y))) * 180 / Math.PI, x * 360 - 180];
  const seen = { x: .5, y: .35, scale: 400 }; // the middle, and how many pixels the world is wide
  let points = [], world = null, moved = false, held = null, labelled = false;
  const size = () => [map.clientWidth, map.clientHeight];
  const onScreen = (x, y) => { const [w, h] = size(); return [(x - seen.x) * seen.scale + w / 2, (y - seen.y) * seen.scale + h / 2]; };
  const onWorld = (px, py) => { const [w, h] = size(); return [(px - w / 2) / seen.scale + seen.x, (py - h / 2) / seen.scale + seen.y]; };

  const listed = new Map();
  for (const card of document.querySelectorAll(".hit[data-lat]")) listed.set(card.dataset.key, card);

  function fit(places) {
    if (!places.length) return;
    const xs = places.map((p) => p[0]), ys = places.map((p) => p[1]), [w, h] = size();
    const [x1, x2, y1, y2] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
    seen.x = (x1 + x2) / 2; seen.y = (y1 + y2) / 2;
    seen.scale = Math.min((w - 90) / Math.max(x2 - x1, 2e-5), (h - 90) / Math.max(y2 - y1, 2e-5), FIT_MAX);
  }

  const radius = (bunch) => bunch.points.length === 1 ? 6.5 : Math.min(size()[1] < 300 ? 18 : 26, 10 + 2.4 * Math.log2(bunch.points.length));

  function bunches() {
    const [w, h] = size(), cells = new Map();
    for (const point of points) {
      const [px, py] = onScreen(point.x, point.y);
      if (px < -40 || py < -40 || px > w + 40 || py > h + 40) continue;
      const cell = `${Math.round(px / NEAR)},${Math.round(py / NEAR)}`;
      const found = cells.get(cell) || { px: 0, py: 0, points: [] };
      found.px += px; found.py += py; found.points.push(point); cells.set(cell, found);
    }
    // Neighbours whose middles are close become one.
    const made = [...cells.values()].map((c) => ({ px: c.px / c.points.length, py: c.py / c.points.length, points: c.points })).sort((a, b) => b.points.length - a.points.length);
    const left = [];
    for (const one of made) {
      const near = left.find((other) => Math.hypot(other.px - one.px, other.py - one.py) < .85 * (radius(other) + radius(one)));
      if (near) near.points.push(...one.points); else left.push(one);
    }
    return left;
  }

  function dot(bunch) {
    const [point] = bunch.points, isListed = bunch.points.some((p) => listed.has(p.key));
    if (bunch.points.length === 1) {
      const made = make("g", { class: `dot${isListed ? " is-listed" : ""}` });
      if (labelled && point.mark) {
        const width = 14 + 7.1 * point.mark.length;
        made.append(make("rect", { x: bunch.px - width / 2, y: bunch.py - 11, width, height: 22, rx: 11 }), make("text", { x: bunch.px, y: bunch.py }, point.mark));
      } else made.append(make("circle", { cx: bunch.px, cy: bunch.py, r: 6.5 }));
      made.addEventListener("click", () => pick(point));
      made.addEventListener("pointerenter", () => show(point, bunch));
      made.addEventListener("pointerleave", () => { tip.hidden = true; });
      point.dot = made;
      return made;
    }
    const made = make("g", { class: `bunch${isListed ? " is-listed" : ""}` }), r = radius(bunch);
    made.append(make("circle", { cx: bunch.px, cy: bunch.py, r }), make("text", { x: bunch.px, y: bunch.py }, bunch.points.length));
    made.addEventListener("click", () => { const before = seen.scale; fit(bunch.points.map((p) => [p.x, p.y])); seen.scale = Math.max(seen.scale, before * 2); moved = true; draw(); });
    return made;
  }

  function pick(point) {
    const card = listed.get(point.key);
    document.querySelectorAll(".hit.is-picked").forEach((e) => e.classList.remove("is-picked"));
    if (card) { card.classList.add("is-picked"); card.scrollIntoView({ block: "center", behavior: "smooth" }); }
  }

  function show(point, bunch) {
    const name = document.createElement("b"), more = document.createElement("span");
    name.textContent = point.name; more.textContent = point.headline;
    tip.replaceChildren(name, more);
    tip.style.left = `${bunch.px}px`; tip.style.top = `${bunch.py}px`;
    tip.hidden = false;
  }

  function grid() {
    const [w, h] = size(), step = GRID.find((g) => g / 360 * seen.scale < 190) || .005, made = [];
    const [north, west] = degrees(...onWorld(0, 0)), [south, east] = degrees(...onWorld(w, h)), digits = step < 1 ? Math.ceil(-Math.log10(step)) : 0;
    for (let lon = Math.ceil(west / step) * step; lon < east && made.length < 80; lon += step) {
      const [x] = onScreen(...place(0, lon));
      made.push(make("line", { x1: x, x2: x, y1: 0, y2: h, class: "grid-line" }), make("text", { x: x + 3, y: h - 32, class: "grid-text" }, `${Math.abs(lon).toFixed(digits)}°${lon < 0 ? "W" : "E"}`));
    }
    for (let lat = Math.ceil(south / step) * step; lat < north && made.length < 160; lat += step) {
      const [, y] = onScreen(...place(lat, 0));
      made.push(make("line", { x1: 0, x2: w, y1: y, y2: y, class: "grid-line" }), make("text", { x: 4, y: y - 3, class: "grid-text" }, `${Math.abs(lat).toFixed(digits)}°${lat < 0 ? "S" : "N"}`));
    }
    layers.grid.replaceChildren(...made);
  }

  function ruler() {
    const [w, h] = size(), [lat] = degrees(seen.x, seen.y), metres = EARTH_M * Math.cos(lat * Math.PI / 180) / seen.scale;
    const most = metres * 110, power = 10 ** Math.floor(Math.log10(most)), length = [5, 2, 1].map((n) => n * power).find((n) => n <= most), wide = length / metres;
    layers.ruler.replaceChildren(make("path", { d: `M${w - 14 - wide} ${h - 22}v6h${wide}v-6`, class: "ruler" }), make("text", { x: w - 14 - wide / 2, y: h - 22, class: "ruler-text" }, length >= 1000 ? `${length / 1000} km` : `${length} m`));
  }

  function box() {
    layers.box.replaceChildren();
    if (!map.dataset.box) return;
    const [north, west, south, east] = map.dataset.box.split(",").map(Number);
    const [x1, y1] = onScreen(...place(north, west)), [x2, y2] = onScreen(...place(south, east));
    layers.box.append(make("rect", { x: x1, y: y1, width: Math.max(0, x2 - x1), height: Math.max(0, y2 - y1), class: "box" }));
  }

  function draw() {
    const [w, h] = size();
    svg.setAttribute("viewBox", `0 0 ${w} ${h}`);
    if (world) { const [x, y] = onScreen(0, 0), k = seen.scale / world.size; layers.world.setAttribute("transform", `translate(${x} ${y}) scale(${k})`); }
    grid(); box();
    const found = bunches();
    labelled = found.filter((b) => b.points.length === 1).length <= LABELS_MAX && seen.scale > LABELS_SCALE;
    layers.dots.replaceChildren(...found.map(dot));
    ruler();
    area.hidden = !moved;
    tip.hidden = true;
  }

  function zoom(by, px = size()[0] / 2, py = size()[1] / 2) {
    const [x, y] = onWorld(px, py);
    seen.scale = Math.max(200, Math.min(ZOOM_MAX, seen.scale * by));
    const [nx, ny] = onWorld(px, py);
    seen.x += x - nx; seen.y += y - ny; moved = true; draw();
  }
  const pan = (dx, dy) => { seen.x -= dx / seen.scale; seen.y -= dy / seen.scale; moved = true; draw(); };
  const all = () => { fit(points.length ? points.map((p) => [p.x, p.y]) : []); moved = false; draw(); };

  map.addEventListener("wheel", (event) => { event.preventDefault(); const at = map.getBoundingClientRect(); zoom(Math.exp(-event.deltaY * .0016), event.clientX - at.left, event.clientY - at.top); }, { passive: false });
  const down = new Map();
  map.addEventListener("pointerdown", (event) => { if (event.target.closest("button")) return; down.set(event.pointerId, [event.clientX, event.clientY]); held = null; });
  addEventListener("pointermove", (event) => {
    const from = down.get(event.pointerId);
    if (!from) return;
    const [x, y] = [event.clientX, event.clientY];
    if (down.size === 2) {
      const [other] = [...down].filter(([id]) => id !== event.pointerId).map(([, at]) => at), rect = map.getBoundingClientRect();
      const before = Math.hypot(from[0] - other[0], from[1] - other[1]), now = Math.hypot(x - other[0], y - other[1]);
      if (before > 0) zoom(now / before, (x + other[0]) / 2 - rect.left, (y + other[1]) / 2 - rect.top);
    } else if (held || Math.hypot(x - from[0], y - from[1]) > 3) { held = true; map.classList.add("is-held"); pan(x - from[0], y - from[1]); } else return;
    down.set(event.pointerId, [x, y]);
  });
  const up = (event) => { down.delete(event.pointerId); map.classList.remove("is-held"); };
  addEventListener("pointerup", up); addEventListener("pointercancel", up);
  map.addEventListener("keydown", (event) => {
    const step = 60, keys = { ArrowLeft: () => pan(step, 0), ArrowRight: () => pan(-step, 0), ArrowUp: () => pan(0, step), ArrowDown: () => pan(0, -step), "+": () => zoom(1.5), "=": () => zoom(1.5), "-": () => zoom(1 / 1.5), 0: all };
    if (event.target === map && keys[event.key]) { event.preventDefault(); keys[event.key](); }
  });
  const acts = { in: () => zoom(1.7), out: () => zoom(1 / 1.7), fit: all, area: () => {
    const [w, h] = size(), [north, west] = degrees(...onWorld(0, 0)), [south, east] = degrees(...onWorld(w, h));
    const to = new URL(map.dataset.points, location.href), round = (n) => n.toFixed(4);
    to.pathname = new URL(map.dataset.here, location.href).pathname;
    to.searchParams.set("box", [Math.min(north, 85), Math.max(west, -180), Math.max(south, -85), Math.min(east, 180)].map(round).join(","));
    location.href = to.href;
  } };
  for (const button of map.querySelectorAll("[data-map]")) button.addEventListener("click", () => acts[button.dataset.map]());
  for (const [key, card] of listed) {
    const mark = (on) => { const point = points.find((p) => p.key === key); if (point && point.dot) point.dot.classList.toggle("is-picked", on); };
    card.addEventListener("pointerenter", () => mark(true));
    card.addEventListener("pointerleave", () => mark(false));
  }
  new ResizeObserver(() => { if (moved) draw(); else all(); }).observe(map);

  document.getElementById("map-pane").hidden = false;
  const load = async (address) => { const answer = await fetch(address); if (!answer.ok) throw new Error(String(answer.status)); return answer.json(); };
  load(map.dataset.world).then((found) => {
    world = found;
    layers.world.append(make("path", { d: found.land, class: "land" }), make("path", { d: found.borders, class: "borders" }));
    draw();
  }).catch(() => {});
  load(map.dataset.points).then((found) => {
    points = found.points.map(([lat, lon, key, name, headline, mark]) => { const [x, y] = place(lat, lon); return { x, y, key, name, headline, mark }; });
    said.textContent = found.total > points.length ? `${points.length} of ${found.total.toLocaleString("en")} on the map` : `${points.length} on the map`;
    map.dataset.ready = "true";
    all();
  }).catch(() => { said.textContent = "The map could not be loaded"; });
})();
