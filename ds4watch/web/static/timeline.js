// Alerts as bars and deeds as points on one time axis. The list below says the same in words.

import { byId, redraw, setAttribute, setHidden, svg } from "./dom.js";
import { clock, hourMinute, severityTone, span } from "./format.js";
import { audit } from "./story.js";

const LANE = 22;
const TOP = 6;
const AXIS = 22;
const MOST_LANES = 14;
const NAMES = 150;
const NARROW_NAMES = 96;
const NARROW = 520;
const SHORT = 24;
const DEEDS = {
  plan: "actions", outcome: "actions", refusal: "actions", command: "actions", effect: "actions",
  hold: "holds", silence: "silences", worker: "workers", fleet: "fleet", daemon: "daemon",
};
const STEPS = [60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400];
const ACTIVE = ["pending", "firing"];

// Rows of alerts, oldest first, become spans: from a phase that is active to the next change.
export function spansOf(rows, start, end) {
  const open = new Map();
  const found = [];
  const close = (span, until) => {
    if (until > start && span.from < end) found.push({ ...span, until });
  };
  for (const row of rows) {
    const { fingerprint, old, new: phase, labels } = row.detail ?? {};
    if (fingerprint === undefined) continue;
    const name = labels?.alertname ?? row.target;
    const severity = labels?.severity ?? "";
    const before = open.get(fingerprint);
    open.delete(fingerprint);
    if (before) close(before, row.at);
    else if (ACTIVE.includes(old)) close({ name, severity, phase: old, from: start, text: row.summary }, row.at);
    if (ACTIVE.includes(phase)) open.set(fingerprint, { name, severity, phase, from: row.at, text: row.summary });
  }
  for (const span of open.values()) close(span, end);
  return found.filter((span) => span.severity !== "none");
}

function lanesOf(spans, points) {
  const lanes = new Map();
  for (const point of points) lanes.set(point.lane, lanes.get(point.lane) ?? []);
  const deeds = [...lanes.keys()].sort();
  const names = [...new Set(spans.map((it) => it.name))].sort();
  return [...deeds, ...names].slice(0, MOST_LANES);
}

function axis(start, end, x, height) {
  const step = STEPS.find((it) => (end - start) / it <= Math.max(2, (x(end) - x(start)) / 90)) ?? 86400;
  const offset = new Date(start * 1000).getTimezoneOffset() * 60;
  const marks = [];
  for (let at = Math.ceil((start - offset) / step) * step + offset; at < end; at += step) {
    marks.push(svg("line", { class: "grid", x1: x(at), x2: x(at), y1: 0, y2: height }));
    const text = svg("text", { class: "tick", x: x(at), y: height + 15, "text-anchor": "middle" });
    text.textContent = hourMinute(at);
    marks.push(text);
  }
  return marks;
}

function withTitle(element, text) {
  const title = svg("title");
  title.textContent = text;
  element.append(title);
  return element;
}

function bar(it, x, y, end) {
  const left = x(it.from);
  const width = Math.max(3, x(Math.min(it.until, end)) - left);
  const box = { class: `bar ${it.phase} ${severityTone(it.severity)}`, x: left, y: y + 4, width, height: LANE - 8, rx: 3 };
  const text = `${it.text} (${it.phase} for ${span(it.until - it.from)}, from ${clock(it.from)})`;
  return withTitle(svg("rect", box), text);
}

function dot(it, x, y) {
  const made = svg("circle", { class: `deed ${it.lane}`, cx: x(it.at), cy: y + LANE / 2, r: 4.5 });
  return withTitle(made, `${clock(it.at)} ${it.text}`);
}

function label(name, y, most) {
  const text = svg("text", { class: "lane", x: 0, y: y + LANE / 2 + 4 });
  const length = Math.floor(most / 6.6);
  text.textContent = name.length > length ? `${name.slice(0, length - 1)}…` : name;
  return withTitle(text, name);
}

function drawing(spans, points, start, end, width) {
  const lanes = lanesOf(spans, points);
  const names = width < NARROW ? NARROW_NAMES : NAMES;
  const height = TOP + lanes.length * LANE;
  const x = (at) => names + ((Math.max(start, at) - start) / (end - start)) * (width - names - SHORT);
  const y = (lane) => TOP + lanes.indexOf(lane) * LANE;
  const firingLast = (one, other) => one.phase.localeCompare(other.phase) * -1;
  return svg(
    "svg", { width, height: height + AXIS, viewBox: `0 0 ${width} ${height + AXIS}`, "aria-hidden": "true" },
    ...axis(start, end, x, height),
    ...lanes.map((lane) => label(lane, y(lane), names)),
    ...spans.filter((it) => lanes.includes(it.name)).sort(firingLast).map((it) => bar(it, x, y(it.name), end)),
    ...points.filter((it) => lanes.includes(it.lane)).map((it) => dot(it, x, y(it.lane))),
  );
}

export function drawTimeline(now, range) {
  const place = byId("timeline");
  const width = place.clientWidth;
  if (!width) return;
  const rows = audit().toReversed();
  const [start, end] = [now - range, now];
  const spans = spansOf(rows.filter((row) => row.kind === "alert"), start, end);
  const points = rows
    .filter((row) => row.kind in DEEDS && row.at >= start)
    .map((row) => ({ lane: DEEDS[row.kind], at: row.at, text: `${row.target}: ${row.summary}` }));
  const isEmpty = spans.length + points.length === 0;
  setHidden("timeline-none", !isEmpty);
  const key = `${Math.floor(now / Math.max(1, range / 400))}/${range}/${width}/${rows.at(-1)?.id}`;
  redraw(place, key, () => (isEmpty ? [] : [drawing(spans, points, start, end, width)]));
  const firing = new Set(spans.filter((it) => it.phase === "firing").map((it) => it.name)).size;
  const told = `The last ${span(range)}: ${firing} alerts fired, ${points.length} deeds. The list below tells them.`;
  setAttribute(place, "aria-label", told);
}
