// Charts over the chosen time, from the daemon's own history. Each has its numbers as a table too.

import { queryRange } from "./api.js";
import { byId, make, setAttribute, setText, table } from "./dom.js";
import { clock, DASH, hourMinute, isNumber, money, percent, rate, number, seconds } from "./format.js";
import { Plot } from "./plot.js";

export const POINTS = 240;
const TABLE_ROWS = 24;
const currency = { name: "" };
const HIT = "sum(rate(ds4_cached_tokens_total[2m])) / sum(rate(ds4_prompt_tokens_total[2m]))";
const P = (quantile) => `histogram_quantile(${quantile}, sum by (le) (rate(ds4_gateway_request_duration_seconds_bucket[2m])))`;

const priced = (value) => money(isNumber(value) ? value : null, currency.name);
const whole = (value) => (isNumber(value) ? `${Math.round(value * 100)} %` : DASH);

const CHARTS = [
  { id: "speed", title: "Tokens a second", shown: rate, lines: [
    ["generated", 'sum(ds4_tokens_per_second{kind="generated"})'],
    ["prompt", 'sum(ds4_tokens_per_second{kind="prompt"})'],
  ] },
  { id: "queue", title: "Requests", shown: number, lines: [
    ["waiting", "sum(ds4_queue_depth)"], ["running", "sum(ds4_running_requests)"],
  ] },
  { id: "hit", title: "Cache hits, of prompt tokens", shown: percent, top: 1, lines: [["hits", HIT]] },
  { id: "latency", title: "Time of a request", shown: seconds, lines: [["p95", P(0.95)], ["p50", P(0.5)]] },
  { id: "memory", title: "KV memory in use", shown: percent, top: 1, lines: [
    ["fullest", "max(ds4_kv_usage_ratio)"], ["mean", "avg(ds4_kv_usage_ratio)"],
  ] },
  { id: "cost", title: "Cost an hour", shown: priced, onAxis: (value) => number(value, 3), lines: [
    ["rate", "sum(ds4_cost_per_hour)"],
  ] },
];

let range = 3600;
const views = new Map();

export const rangeNow = () => range;
export const setCurrency = (name) => { currency.name = name ?? ""; };

function view(chart) {
  const figure = make("figure", "chart");
  const title = make("figcaption");
  title.append(make("h3", "", chart.title));
  const legend = make("dl", "legend");
  const values = chart.lines.map(([label], index) => {
    const pair = make("div");
    const value = make("dd", "", DASH);
    const term = make("dt");
    term.append(make("span", `swatch series-${index}`), label);
    pair.append(term, value);
    legend.append(pair);
    return value;
  });
  const when = make("p", "quiet when", "now");
  const plot = new Plot({
    lines: chart.lines.map(([label]) => label), shown: chart.onAxis ?? (chart.top === 1 ? whole : chart.shown), top: chart.top,
    onPoint: (index) => point(index),
  });
  const box = make("details", "data");
  const place = make("div", "scroll");
  place.tabIndex = 0;
  place.setAttribute("role", "region");
  place.setAttribute("aria-label", `${chart.title}, as a table`);
  box.append(make("summary", "", "As a table"), place);
  figure.append(title, legend, when, plot.element, box);
  const found = { chart, plot, data: null, isEmpty: true };
  const point = (index) => {
    const { data } = found;
    const last = data ? data[0].length - 1 : -1;
    const at = index ?? last;
    setText(when, index === null || !data ? "now" : clock(data[0][at]));
    values.forEach((value, line) => setText(value, chart.shown(data?.[line + 1]?.[at] ?? null)));
  };
  const fill = () => {
    if (box.open && found.data) place.replaceChildren(tableOf(chart, found.data));
  };
  box.addEventListener("toggle", fill);
  return Object.assign(found, { figure, point, fill });
}

function tableOf(chart, data) {
  const [ats] = data;
  const every = Math.max(1, Math.ceil(ats.length / TABLE_ROWS));
  const rows = [];
  for (let row = ats.length - 1; row >= 0; row -= every) {
    rows.push([clock(ats[row]), ...data.slice(1).map((line) => chart.shown(line[row]))]);
  }
  return table(["Time", ...chart.lines.map(([label]) => label)], rows, `${chart.title}, the newest first`);
}

function told(chart, data) {
  const parts = chart.lines.map(([label], line) => {
    const known = data[line + 1].filter(isNumber);
    if (!known.length) return `${label}: nothing`;
    const [low, high] = [Math.min(...known), Math.max(...known)];
    return `${label}: now ${chart.shown(known.at(-1))}, from ${chart.shown(low)} to ${chart.shown(high)}`;
  });
  return `${chart.title} since ${hourMinute(data[0][0])}. ${parts.join("; ")}. Arrow keys move along.`;
}

// All lines on one row of instants, with gaps where nothing was stored.
export function aligned(series, start, end, step) {
  const ats = [];
  for (let at = start; at <= end + 1e-6; at += step) ats.push(at);
  const place = (at) => Math.round((at - start) / step);
  const lines = series.map((values) => {
    const line = new Array(ats.length).fill(null);
    for (const [at, value] of values) line[place(at)] = value;
    return line.slice(0, ats.length);
  });
  return [ats, ...lines];
}

async function draw(found, start, end, step) {
  const { chart } = found;
  const series = await Promise.all(chart.lines.map(async ([, query]) => {
    const [first] = await queryRange(query, start, end, step);
    return first?.values ?? [];
  }));
  found.data = aligned(series, start, end, step);
  found.plot.draw(found.data);
  setAttribute(found.plot.element, "aria-label", told(chart, found.data));
  found.point(found.plot.at);
  found.fill();
}

export async function drawCharts(now) {
  const step = Math.max(1, Math.round(range / POINTS));
  const end = Math.floor(now / step) * step;
  for (const found of views.values()) await draw(found, end - range, end, step);
}

export function startCharts(onRange) {
  for (const chart of CHARTS) {
    const found = view(chart);
    views.set(chart.id, found);
    byId("charts").append(found.figure);
  }
  byId("range").addEventListener("change", (event) => {
    range = Number(event.target.value);
    onRange();
  });
}
