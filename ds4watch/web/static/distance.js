// A value beside the thresholds of its tiers: as a bar, and in words.

import { setAttribute, svg } from "./dom.js";
import { isNumber, number, percent, seconds, severityTone } from "./format.js";

const WIDTH = 200;
const HEIGHT = 14;
const ROOM = 1.25;
const MOST_OVER = 2.5;

// What an expression is measured in is in the names that it reads.
export function formatOf(expression) {
  if (/\b(changes|resets|count|count_over_time)\b/.test(expression)) return number;
  if (/_ratio\b/.test(expression)) return percent;
  if (/histogram_quantile.*seconds/.test(expression)) return seconds;
  if (/ \/ /.test(expression)) return percent;
  if (/seconds/.test(expression) && !/seconds_total|rate\(/.test(expression)) return seconds;
  return number;
}

const isBelow = (rule) => rule.op.startsWith("<");

function topOf(rule) {
  const highest = Math.max(...rule.tiers.map((tier) => Math.abs(tier.threshold ?? 0)), 1e-9);
  const value = Math.abs(rule.value ?? 0);
  return Math.max(highest * ROOM, Math.min(value * 1.05, highest * MOST_OVER));
}

export function distanceBar() {
  const box = { class: "distance", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", "aria-hidden": "true" };
  const track = svg("rect", { class: "track", x: 0, y: 4, width: WIDTH, height: 6 });
  const value = svg("rect", { class: "fill", x: 0, y: 4, width: 0, height: 6 });
  const marks = svg("g");
  return Object.assign(svg("svg", box, track, value, marks), { value, marks, told: "" });
}

// The fuller the bar, the nearer: one that alerts when the value is low is drawn from the top down.
export function drawDistance(bar, rule) {
  const top = topOf(rule);
  const along = (value) => Math.min(WIDTH, Math.max(0, (Math.abs(value) / top) * WIDTH));
  const x = (value) => (isBelow(rule) ? WIDTH - along(value) : along(value));
  const passed = rule.tiers.filter((tier) => tier.holds && !tier.guarded);
  const tone = passed.length ? severityTone(passed.at(-1).severity) : "good";
  setAttribute(bar.value, "width", isNumber(rule.value) ? x(rule.value).toFixed(1) : "0");
  setAttribute(bar.value, "class", `fill ${tone}`);
  const told = `${top}|${rule.tiers.map((tier) => tier.threshold)}`;
  if (bar.told === told) return;
  bar.told = told;
  bar.marks.replaceChildren(...rule.tiers.filter((tier) => isNumber(tier.threshold)).map((tier) => (
    svg("rect", {
      class: `mark ${severityTone(tier.severity)}`, x: Math.max(0, x(tier.threshold) - 1), y: 0, width: 2, height: HEIGHT,
    })
  )));
}

// Tiers with one threshold differ by how long it has to be passed.
function waited(rule, tier) {
  const same = rule.tiers.filter((other) => other.threshold === tier.threshold);
  const differs = same.some((other) => other.for_seconds !== tier.for_seconds);
  return differs && isNumber(tier.for_seconds) ? ` for ${seconds(tier.for_seconds)}` : "";
}

// [[severity, words], …]: what each tier is away, or how far it is passed.
export function distanceWords(rule) {
  const shown = formatOf(rule.expression);
  return rule.tiers.map((tier) => {
    const at = `${isBelow(rule) ? "under" : "over"} ${shown(tier.threshold)}${waited(rule, tier)}`;
    if (!isNumber(tier.beyond)) return [tier.severity, `${at}: no value`];
    const gap = shown(Math.abs(tier.beyond));
    if (!tier.holds) return [tier.severity, `${at}: ${gap} to go`];
    if (tier.beyond === 0) return [tier.severity, `${at}: reached, ${tier.phase}`];
    const more = tier.phase ? `, ${tier.phase}` : tier.guarded ? ", but another condition is not met" : "";
    return [tier.severity, `${at}: passed by ${gap}${more}`];
  });
}

// How near a rule is to its next tier, 1 and more for one that is there; for sorting.
export function nearness(rule) {
  const known = rule.tiers.filter((tier) => isNumber(tier.threshold) && isNumber(rule.value));
  const shares = known.map((tier) => {
    const [low, high] = isBelow(rule) ? [tier.threshold, rule.value] : [rule.value, tier.threshold];
    return high === 0 ? 0 : low / high;
  });
  return Math.max(-1, ...shares.filter(Number.isFinite));
}
