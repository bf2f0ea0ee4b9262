// The fleet as a grid: of each worker its state, memory, queue, hit rate and speed.

import { queryRange } from "./api.js";
import { byId, keyed, make, setAttribute, setClass, setHidden, setText, tag } from "./dom.js";
import { clock, DASH, gib, isNumber, number, percent, phaseTone, rate, span } from "./format.js";
import { drawSpark, sparkline } from "./spark.js";

const SHOWN_STANDSTILL_SECONDS = 10;
const HISTORY_SECONDS = 900;
const STEP_SECONDS = 15;
const MOST_CARDS = 24; // in trouble or not: more are shown when asked for
const HIT = '1 - max by (worker) (ds4_cache_miss_ratio{worker!=""})';
const HISTORY = {
  memory: 'max by (worker) (ds4_kv_usage_ratio{worker!=""})',
  queue: 'sum by (worker) (ds4_queue_depth{worker!=""})',
  hit: HIT,
  speed: 'sum by (worker) (ds4_tokens_per_second{worker!=""})',
};
const TOPS = { memory: 1, hit: 1 };

let isAllShown = false;
let last = null;
let history = { memory: {}, queue: {}, hit: {}, speed: {} };

function firstOf(signals, ...names) {
  for (const name of names) if (isNumber(signals?.[name])) return signals[name];
  return null;
}

function rates(signals) {
  const of = (kind) => firstOf(
    signals, `ds4_tokens_per_second{kind="${kind}"}`, `ds4_tokens_per_second_${kind}`,
  );
  return [of("prompt"), of("generated")];
}

const flow = (prompt, generated) => `${rate(generated)} out, ${rate(prompt)} in`;

function cell(term) {
  const wrapper = make("div", "cell");
  const value = make("dd", "value");
  const more = make("dd", "quiet more");
  const spark = sparkline();
  const line = make("dd", "history");
  line.append(spark);
  wrapper.append(make("dt", "", term), value, more, line);
  return Object.assign(wrapper, { value, more, spark });
}

function card() {
  const found = make("li", "card");
  const title = make("h3");
  found.name = make("span", "name");
  found.phase = tag("");
  found.blind = tag("", "warn");
  title.append(found.name, found.blind, found.phase);
  found.about = make("p", "quiet");
  found.reason = make("p", "reason");
  found.cells = {
    memory: cell("KV memory"), queue: cell("Queue"), hit: cell("Cache hits"), speed: cell("Tokens/s"),
  };
  const numbers = make("dl", "numbers");
  numbers.append(...Object.values(found.cells));
  found.append(title, found.about, found.reason, numbers);
  return found;
}

function reasonOf(worker) {
  const told = worker.phase === "ready" ? [] : [worker.reason];
  const blind = blindness(worker);
  if (blind) told.push(`no metrics since ${clock(blind.since)}: ${blind.why}`);
  if (worker.standstill_seconds >= SHOWN_STANDSTILL_SECONDS) {
    told.push(`its requests have stood still for ${span(worker.standstill_seconds)}`);
  }
  return told.filter(Boolean).join(" · ");
}

function blindness(worker) {
  const seen = worker.monitoring;
  return seen && seen.state !== "monitored" ? seen : null;
}

function gpuMemory(signals) {
  const used = firstOf(signals, "ds4_gpu_memory_used_bytes");
  return used === null ? "" : `GPU ${gib(used)} of ${gib(signals.ds4_gpu_memory_total_bytes)}`;
}

function update(found, { worker, at }) {
  setClass(found, `card ${phaseTone(worker.phase)}`);
  setText(found.name, worker.id);
  setText(found.phase, worker.phase);
  setClass(found.phase, `tag ${phaseTone(worker.phase)}`);
  const blind = blindness(worker);
  setHidden(found.blind, !blind);
  setText(found.blind, blind?.state ?? "");
  setText(found.about, `${(worker.models ?? []).join(", ") || DASH} · for ${span(at - worker.since)}`);
  const reason = reasonOf(worker);
  setText(found.reason, reason);
  setHidden(found.reason, reason === "");
  const load = worker.load ?? {};
  const signals = worker.signals ?? {};
  const miss = firstOf(signals, "ds4_cache_miss_ratio");
  const [prompt, generated] = rates(signals);
  const isMoving = prompt !== null || generated !== null;
  show(found, "memory", worker.id, percent(load.kv_usage_ratio), gpuMemory(signals) || "of its cache");
  const running = isNumber(load.running) ? `${number(load.running)} running` : "";
  show(found, "queue", worker.id, number(load.waiting), running);
  show(found, "hit", worker.id, miss === null ? DASH : percent(1 - miss), miss === null ? "" : `${percent(miss)} missed`);
  const speed = isMoving ? rate((prompt ?? 0) + (generated ?? 0)) : DASH;
  show(found, "speed", worker.id, speed, isMoving ? flow(prompt, generated) : "");
}

function show(found, name, worker, value, more) {
  const shown = found.cells[name];
  setText(shown.value, value);
  setText(shown.more, more);
  drawSpark(shown.spark, history[name][worker] ?? [], TOPS[name] ?? null);
}

const TROUBLE = { quarantined: 0, failed: 1, unknown: 2 };
const order = (phase) => TROUBLE[phase] ?? (phase === "ready" ? 9 : 5);

export function showFleet(status) {
  last = status;
  const fleet = status.fleet ?? [];
  const ready = fleet.filter((worker) => worker.phase === "ready").length;
  setText("ready", fleet.length ? `${ready} of ${fleet.length}` : DASH);
  const isAll = fleet.length > 0 && ready === fleet.length;
  setClass("ready-tile", `tile ${isAll ? "good" : "warn"}`);
  const phases = [...new Set(fleet.filter((it) => it.phase !== "ready").map((it) => it.phase))];
  setText("ready-why", phases.length ? `others: ${phases.join(", ")}` : "all that there are");
  // Those in trouble first; else as the daemon tells them, so that cards keep their places.
  const sorted = fleet.toSorted((one, other) => order(one.phase) - order(other.phase));
  const inTrouble = sorted.filter((worker) => worker.phase !== "ready").length;
  const most = isAllShown ? sorted.length : Math.max(MOST_CARDS, inTrouble);
  showAllButton(sorted.length, most);
  const items = sorted.slice(0, most).map((worker) => ({ worker, at: status.at }));
  keyed(byId("fleet"), items, (it) => it.worker.id, card, update);
  setHidden("fleet-none", fleet.length > 0);
  showSpeed(status.signals ?? {});
}

function showAllButton(count, most) {
  const place = byId("fleet-all");
  setHidden(place, count <= MOST_CARDS);
  setText(place, isAllShown ? "Show fewer workers" : `Show all ${count} workers: ${count - most} more are ready`);
  setAttribute(place, "aria-expanded", String(isAllShown));
}

function showSpeed(signals) {
  const [prompt, generated] = rates(signals);
  const isMoving = prompt !== null || generated !== null;
  setText("speed", isMoving ? rate((prompt ?? 0) + (generated ?? 0)) : DASH);
  const parts = [isMoving ? flow(prompt, generated) : "", `${number(signals.ds4_queue_depth)} waiting`];
  setText("speed-why", parts.filter(Boolean).join(" · "));
}

export async function lookBack(now) {
  const start = now - HISTORY_SECONDS;
  const found = await Promise.all(Object.entries(HISTORY).map(async ([name, query]) => {
    const series = await queryRange(query, start, now, STEP_SECONDS);
    return [name, Object.fromEntries(series.map((it) => [it.labels.worker, it.values]))];
  }));
  history = Object.fromEntries(found);
  for (const found of byId("fleet").children) {
    for (const [name, shown] of Object.entries(found.cells)) {
      drawSpark(shown.spark, history[name][found.dataset.key] ?? [], TOPS[name] ?? null);
    }
  }
}

byId("fleet-all").addEventListener("click", () => {
  isAllShown = !isAllShown;
  if (last) showFleet(last);
});
