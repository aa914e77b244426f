// Lines over time, drawn as SVG. Each line has a pattern of its own beside its colour; values can be read with the arrow keys.
"use strict";
window.headwaterPlots = (() => {
  const SVG = "http://www.w3.org/2000/svg", KEPT = 900, SPAN_MS = 10 * 60e3, SPAN_MIN_MS = 60e3, GAP_MS = 15e3;
  const LEFT = 58, RIGHT = 10, TOP = 8, BOTTOM = 22, HEIGHT = 210;
  const DASHES = ["", "7 4", "2 3", "10 3 2 3", "1 4", "12 3 2 3 2 3"];
  const points = [], plots = [];

  const make = (name, attributes = {}, text) => {
    const made = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    return made;
  };
  const html = (name, cls, text = "") => { const made = document.createElement(name); made.className = cls; made.textContent = text; return made; };

  const short = (n) => (n >= 100 || n === Math.round(n) ? Math.round(n).toLocaleString("en") : n.toFixed(1));
  const said = (value, unit) => {
    if (value == null) return "–";
    if (unit === "ms") return value < 1000 ? `${Math.round(value)} ms` : value < 60e3 ? `${(value / 1000).toFixed(1)} s` : `${short(value / 60e3)} min`;
    if (unit === "B") { let n = value, i = 0; while (n >= 1000 && i < 4) { n /= 1000; i += 1; } return `${short(n)} ${["B", "kB", "MB", "GB", "TB"][i]}`; }
    return `${short(value)}${unit}`;
  };
  const nice = (most) => {
    if (!(most > 0)) return 1;
    const size = 10 ** Math.floor(Math.log10(most));
    return [1, 2, 2.5, 5, 10].map((d) => d * size).find((n) => n >= most);
  };

  class Plot {
    constructor(element) {
      this.element = element;
      this.series = JSON.parse(element.dataset.plot).map((line, i) => ({ line: i + 1, ...line })); // `line`: how it is drawn
      this.card = element.closest("[data-unless-empty]");
      this.unit = element.dataset.unit;
      this.svg = make("svg", { role: "img", tabindex: "0", height: HEIGHT });
      this.legend = html("ul", "legend");
      this.readout = html("p", "readout");
      this.readout.setAttribute("aria-live", "polite");
      this.items = this.series.map((line) => {
        const item = html("li", "");
        const swatch = make("svg", { width: 26, height: 10, "aria-hidden": "true" });
        swatch.append(make("line", { x1: 1, y1: 5, x2: 25, y2: 5, class: `line-${line.line}`, "stroke-dasharray": DASHES[line.line - 1] }));
        const value = html("strong", "", "–");
        item.append(swatch, html("span", "", line.name), value);
        this.legend.append(item);
        return { item, value };
      });
      element.append(this.legend, this.svg, this.readout);
      this.at = null;
      this.svg.addEventListener("pointermove", (event) => this.point(event));
      this.svg.addEventListener("pointerleave", () => { this.at = null; this.draw(); });
      this.svg.addEventListener("keydown", (event) => this.key(event));
      // What was read stays: if the page moved under a pointer that is pressed, its click would be lost.
      this.svg.addEventListener("blur", () => { this.at = null; this.draw(); });
      new ResizeObserver(() => this.draw()).observe(element);
    }

    shown() {
      const last = points.at(-1)?.at ?? Date.now();
      return points.filter((p) => p.at >= last - SPAN_MS);
    }

    // Lines of which anything is known: there may be no such sink.
    known() {
      const all = this.shown(), known = this.series.filter((line) => all.some((p) => p[line.key] != null));
      return known.length ? known : this.series;
    }

    said(point) { return this.known().map((line) => `${line.name} ${said(point[line.key], this.unit)}`).join(", "); }

    point(event) {
      const box = this.svg.getBoundingClientRect(), all = this.shown();
      if (!all.length) return;
      const at = this.from + ((event.clientX - box.left - LEFT) / Math.max(1, box.width - LEFT - RIGHT)) * (this.to - this.from);
      this.at = all.reduce((best, p) => (Math.abs(p.at - at) < Math.abs(best.at - at) ? p : best)).at;
      this.draw();
    }

    key(event) {
      const all = this.shown(), step = { ArrowLeft: -1, ArrowRight: 1, PageUp: -30, PageDown: 30, Home: -1e6, End: 1e6 }[event.key];
      if (!step || !all.length) return;
      event.preventDefault();
      const now = this.at === null ? all.length - 1 : all.findIndex((p) => p.at >= this.at);
      const chosen = all[Math.min(all.length - 1, Math.max(0, (now < 0 ? all.length - 1 : now) + step))];
      this.at = chosen.at;
      this.readout.textContent = `${new Date(chosen.at).toLocaleTimeString()}: ${this.said(chosen)}`;
      this.draw();
    }

    draw() {
      const width = Math.max(260, this.element.clientWidth), all = this.shown();
      this.svg.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
      this.svg.setAttribute("width", width);
      if (!all.length) { this.svg.replaceChildren(make("text", { x: width / 2, y: HEIGHT / 2, class: "tick", "text-anchor": "middle" }, "waiting for the first point")); return; }
      this.to = all.at(-1).at;
      this.from = Math.max(this.to - SPAN_MS, Math.min(all[0].at, this.to - SPAN_MIN_MS));
      const known = all.flatMap((p) => this.series.map((l) => p[l.key])).filter((v) => v != null), lines = this.known();
      this.items.forEach(({ item }, i) => { item.hidden = !lines.includes(this.series[i]); });
      if (this.card) this.card.hidden = !known.length;
      const top = nice(Math.max(0, ...known) * 1.02);
      const x = (at) => LEFT + ((at - this.from) / (this.to - this.from)) * (width - LEFT - RIGHT);
      const y = (v) => HEIGHT - BOTTOM - (v / top) * (HEIGHT - TOP - BOTTOM);
      const parts = [];
      for (const share of [0, 0.25, 0.5, 0.75, 1]) {
        parts.push(make("line", { x1: LEFT, x2: width - RIGHT, y1: y(top * share), y2: y(top * share), class: share ? "gridline" : "axis" }));
        if (share * 4 % 2 === 0) parts.push(make("text", { x: LEFT - 8, y: y(top * share) + 4, class: "tick", "text-anchor": "end" }, said(top * share, this.unit)));
      }
      const minutes = (this.to - this.from) / 60e3;
      for (const share of [0, 0.5, 1]) {
        const ago = minutes * (1 - share);
        const label = share === 1 ? "now" : ago < 1.5 ? `${Math.round(ago * 60)} s ago` : `${Math.round(ago)} min ago`;
        parts.push(make("text", { x: x(this.from + share * (this.to - this.from)), y: HEIGHT - 5, class: "tick", "text-anchor": ["start", "middle", "end"][share * 2] }, label));
      }
      this.series.forEach((line) => {
        let path = "", before = null;
        for (const p of all) {
          const v = p[line.key];
          if (v == null) { before = null; continue; }
          path += `${before !== null && p.at - before < GAP_MS ? "L" : "M"}${x(p.at).toFixed(1)} ${y(v).toFixed(1)}`;
          before = p.at;
        }
        if (path) parts.push(make("path", { d: path, class: `line line-${line.line}`, "stroke-dasharray": DASHES[line.line - 1] }));
      });
      const chosen = this.at === null ? null : all.find((p) => p.at >= this.at) ?? all.at(-1);
      if (chosen) {
        parts.push(make("line", { x1: x(chosen.at), x2: x(chosen.at), y1: TOP, y2: HEIGHT - BOTTOM, class: "cross" }));
        this.series.forEach((line) => { if (chosen[line.key] != null) parts.push(make("circle", { cx: x(chosen.at), cy: y(chosen[line.key]), r: 4, class: `dot-${line.line}` })); });
        parts.push(make("text", { x: Math.min(Math.max(x(chosen.at), LEFT + 32), width - RIGHT - 32), y: TOP + 6, class: "tick strong", "text-anchor": "middle" }, new Date(chosen.at).toLocaleTimeString()));
      }
      const told = chosen ?? all.at(-1);
      this.items.forEach(({ value }, i) => { value.textContent = said(told[this.series[i].key], this.unit); });
      const last = all.at(-1);
      this.svg.setAttribute("aria-label", `${this.element.dataset.title}, the last ${Math.max(1, Math.round(minutes))} minutes. Now: ${this.said(last)}. Arrow keys read single values.`);
      this.svg.replaceChildren(...parts);
    }
  }

  for (const element of document.querySelectorAll("[data-plot]")) plots.push(new Plot(element));
  return {
    add(more) {
      const last = points.at(-1)?.at ?? 0;
      points.push(...more.filter((p) => p.at > last));
      points.splice(0, Math.max(0, points.length - KEPT));
      if (!document.hidden) plots.forEach((plot) => plot.draw());
    },
  };
})();
