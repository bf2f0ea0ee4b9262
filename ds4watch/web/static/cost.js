// This hour's money: what it went to, and why it is not what was expected.

import { ask } from "./api.js";
import { byId, make, redraw, setClass, setHidden, setText, svg } from "./dom.js";
import { DASH, money, nanos, words } from "./format.js";

const WIDTH = 100;
const MEASURES = { spent: "spent", used: "used by requests", used_per_1k_tokens: "used per 1,000 tokens" };

let why = null;
let sums = null;
let measure = "spent";

export function showCost(cost) {
  const currency = cost?.currency;
  setText("cost-hour", cost?.per_hour == null ? DASH : money(cost.per_hour, currency));
  const today = `today ${money(cost?.spent_today, currency)}`;
  setText("cost-spent", `${today} · in all ${money(cost?.spent_total, currency)}`);
}

function barCell(from, to, low, high, tone) {
  const x = (value) => ((value - low) / (high - low || 1)) * WIDTH;
  const left = Math.min(x(from), x(to));
  const width = Math.max(0.6, Math.abs(x(to) - x(from)));
  const cell = make("td", "bar-cell");
  const box = { class: "fall", viewBox: `0 0 ${WIDTH} 10`, preserveAspectRatio: "none", "aria-hidden": "true" };
  cell.append(svg("svg", box, svg("rect", { class: tone, x: left.toFixed(2), y: 0, width: width.toFixed(2), height: 10 })));
  return cell;
}

function line(name, amount, bar, className = "") {
  const row = make("tr", className);
  const head = make("th", "", name);
  head.scope = "row";
  row.append(head, bar, make("td", "amount", amount));
  return row;
}

const signed = (amount, currency) => `${amount > 0 ? "+" : amount < 0 ? "−" : ""}${nanos(Math.abs(amount), currency)}`;

// From what was expected, cause by cause, to what it is: the causes sum to the difference exactly.
function waterfall(found, currency) {
  let level = found.expected;
  const steps = Object.entries(found.causes).filter(([, amount]) => amount !== 0).map(([cause, amount]) => {
    const from = level;
    level += amount;
    return { cause, amount, from, to: level };
  });
  const edges = [0, found.expected, found.actual, ...steps.flatMap((it) => [it.from, it.to])];
  const [low, high] = [Math.min(...edges), Math.max(...edges)];
  const bar = (from, to, tone) => barCell(from, to, low, high, tone);
  return [
    line("expected", nanos(found.expected, currency), bar(0, found.expected, "whole")),
    ...steps.map((it) => line(
      words(it.cause), signed(it.amount, currency), bar(it.from, it.to, it.amount > 0 ? "bad" : "good"),
    )),
    line("this hour", nanos(found.actual, currency), bar(0, found.actual, "whole"), "sum"),
  ];
}

function parts() {
  const most = Math.max(...sums.sums.map((it) => it.nanos), 1);
  return sums.sums.map((it) => (
    line(words(it.part), nanos(it.nanos, sums.currency), barCell(0, it.nanos, 0, most, "part"))
  ));
}

function draw() {
  const measures = why?.measures ?? [];
  const found = measures.find((it) => it.measure === measure) ?? measures[0];
  setHidden("why-none", measures.length > 0);
  setHidden("why-table", !found);
  setHidden("measure-field", measures.length < 2);
  const options = () => measures.map((it) => {
    const option = make("option", "", MEASURES[it.measure] ?? words(it.measure));
    option.value = it.measure;
    option.selected = it === found;
    return option;
  });
  redraw(byId("measure"), measures.map((it) => it.measure).join(), options);
  if (found) {
    const more = found.actual - found.expected;
    const tone = more > found.expected * 0.2 ? "warn" : "good";
    setClass("why-sum", `tag ${tone}`);
    setText("why-sum", `${signed(more, why.currency)} beside the usual`);
    redraw(byId("why"), JSON.stringify(found), () => waterfall(found, why.currency));
  }
  setHidden("why-sum", !found);
  if (sums) redraw(byId("parts"), JSON.stringify(sums.sums), parts);
  setHidden("parts-none", Boolean(sums?.sums.length));
}

export async function lookAtCost() {
  [why, sums] = await Promise.all([ask("/cost/why"), ask("/cost/sums?by=part&span=hour")]);
  draw();
}

byId("measure").addEventListener("change", (event) => {
  measure = event.target.value;
  draw();
});
