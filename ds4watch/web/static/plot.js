// uPlot in the page's own colours, with a cursor for mouse, finger and arrow keys.

import uPlot from "./vendor/uPlot.esm.js";
import { make } from "./dom.js";
import { hourMinute, isNumber } from "./format.js";

const HEIGHT = 150;
const cursors = uPlot.sync("page");
const plots = new Set();

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function axes(shown) {
  const line = { stroke: colour("--quiet"), font: "11px system-ui, sans-serif" };
  const grid = { stroke: colour("--line"), width: 1 };
  return [
    { ...line, grid: { show: false }, ticks: { ...grid, size: 4 }, size: 24, gap: 4, space: 60, values: (_, ats) => ats.map(hourMinute) },
    { ...line, grid, ticks: { show: false }, size: 54, gap: 6, space: 34, values: (_, values) => values.map(shown) },
  ];
}

export class Plot {
  #options;
  #plot = null;
  #data = null;

  // lines: labels; bands: [[upper, lower], …] by line; top: the largest value that is possible;
  // isSynced: the cursor moves in all charts at once.
  constructor(options) {
    this.#options = { bands: [], top: null, isSynced: true, onPoint: () => {}, ...options };
    this.at = null;
    this.element = make("div", "plot");
    Object.assign(this.element, { tabIndex: 0 });
    this.element.setAttribute("role", "img");
    this.element.setAttribute("aria-label", "A chart, not read yet");
    this.element.addEventListener("keydown", (event) => this.#onKey(event));
    this.element.addEventListener("blur", () => this.#move(null));
    new ResizeObserver(() => this.#fit()).observe(this.element);
    plots.add(this);
  }

  draw(data) {
    const isSame = this.#data?.length === data.length;
    this.#data = data;
    if (this.#plot && isSame) this.#plot.setData(data);
    else this.rebuild();
  }

  rebuild() {
    this.#plot?.destroy();
    this.#plot = null;
    const width = this.element.clientWidth;
    if (!this.#data || !width) return;
    this.#plot = new uPlot(this.#built(width), this.#data, this.element);
  }

  #built(width) {
    const { lines, bands, shown, top, isSynced } = this.#options;
    const edges = new Set(bands.flat());
    return {
      width, height: HEIGHT, padding: [8, 18, 0, 0], axes: axes(shown),
      legend: { show: false },
      cursor: {
        y: false, drag: { x: false, y: false }, points: { size: 7 },
        ...(isSynced ? { sync: { key: cursors.key, setSeries: false } } : {}),
      },
      scales: { x: { time: true }, y: { range: (_, low, high) => [0, top ?? (high > 0 ? high * 1.12 : 1)] } },
      bands: bands.map(([upper, lower]) => ({ series: [upper + 1, lower + 1], fill: `${colour("--series-0")}2b` })),
      series: [{}, ...lines.map((label, index) => this.#series(label, index, edges.has(index)))],
      hooks: { setCursor: [(plot) => this.#onPoint(plot.cursor.idx ?? null)] },
    };
  }

  #series(label, index, isEdge) {
    const stroke = colour(`--series-${index % 4}`);
    const fill = index === 0 && !this.#options.bands.length ? `${stroke}1f` : undefined;
    return isEdge
      ? { label, stroke: `${colour("--series-0")}66`, width: 1, points: { show: false } }
      : { label, stroke, width: 1.75, fill, points: { show: false }, spanGaps: false };
  }

  #fit() {
    const width = this.element.clientWidth;
    if (!this.#plot) this.rebuild();
    else if (width && width !== this.#plot.width) this.#plot.setSize({ width, height: HEIGHT });
  }

  #onPoint(index) {
    this.at = index;
    this.#options.onPoint(index);
  }

  #onKey(event) {
    const steps = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10 };
    const last = (this.#data?.[0].length ?? 0) - 1;
    if (last < 0) return;
    if (event.key === "Escape") this.#move(null);
    else if (event.key === "Home") this.#move(0);
    else if (event.key === "End") this.#move(last);
    else if (event.key in steps) this.#move(Math.min(last, Math.max(0, (this.at ?? last + 1) + steps[event.key])));
    else return;
    event.preventDefault();
  }

  #move(index) {
    if (!this.#plot) return;
    const isKnown = isNumber(index);
    const left = isKnown ? this.#plot.valToPos(this.#data[0][index], "x") : -10;
    this.#plot.setCursor({ left, top: isKnown ? 0 : -10 });
    if (!isKnown) this.#onPoint(null);
  }
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  for (const plot of plots) plot.rebuild();
});
