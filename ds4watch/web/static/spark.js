// A line of a few pixels: the shape of the last quarter of an hour.

import { setAttribute, svg } from "./dom.js";
import { isNumber } from "./format.js";

const WIDTH = 100;
const HEIGHT = 24;

export function sparkline() {
  const area = svg("path", { class: "area" });
  const line = svg("path", { class: "line", "vector-effect": "non-scaling-stroke" });
  const box = { class: "spark", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", "aria-hidden": "true" };
  const found = svg("svg", box, area, line);
  return Object.assign(found, { area, line });
}

// values: [[at, value or null], …]; most: what is the top, or null for the largest value.
export function drawSpark(element, values, most = null) {
  const known = values.filter(([, value]) => isNumber(value));
  if (known.length < 2) {
    setAttribute(element.line, "d", "");
    setAttribute(element.area, "d", "");
    return;
  }
  const [first] = known[0];
  const length = known.at(-1)[0] - first || 1;
  const top = most ?? Math.max(...known.map(([, value]) => value), 1e-9);
  const points = known.map(([at, value]) => {
    const x = ((at - first) / length) * WIDTH;
    const y = HEIGHT - 1.5 - Math.min(1, Math.max(0, value / top)) * (HEIGHT - 3);
    return `${x.toFixed(1)},${y.toFixed(1)}`;
  });
  const path = `M${points.join("L")}`;
  setAttribute(element.line, "d", path);
  setAttribute(element.area, "d", `${path}L${WIDTH},${HEIGHT}L0,${HEIGHT}Z`);
}
