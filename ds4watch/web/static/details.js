// The rest: gateways, signals, jobs.

import { byId, keyed, make, redraw, setHidden, setText, tag } from "./dom.js";
import { clock, DASH, isNumber, number, valueOf } from "./format.js";

function fact(term, text) {
  const group = make("div");
  group.append(make("dt", "", term), make("dd", "", text));
  return group;
}

function showSignals(signals) {
  const entries = Object.entries(signals ?? {}).sort(([a], [b]) => (a < b ? -1 : 1));
  keyed(byId("signals"), entries, ([name]) => name, ([name]) => fact(name, ""), (found, [name, value]) => {
    setText(found.lastElementChild, valueOf(name, value));
  });
}

function gatewayRow(gateway) {
  const row = make("li");
  const isUp = gateway.connected;
  row.append(
    make("strong", "", gateway.name),
    tag(isUp ? "connected" : "not connected", isUp ? "good" : "bad"),
    make("span", "", `${number(gateway.inflight)} in flight`),
    make("span", "quiet", `policy ${number(gateway.policy_version)} · pid ${gateway.pid ?? DASH}`),
  );
  return row;
}

function jobRow(job) {
  const row = make("li");
  const isRunning = job.last_finished_at === null || job.last_finished_at < job.last_started_at;
  const [tone, word] = isRunning ? ["", "running"] : job.ok ? ["good", "done"] : ["bad", "failed"];
  const took = !isRunning && isNumber(job.took_seconds) ? `, took ${job.took_seconds.toFixed(1)} s` : "";
  row.append(tag(word, tone), make("strong", "", job.name), make("time", "", `${clock(job.last_started_at)}${took}`));
  if (!isRunning) row.append(make("span", "quiet", job.result || DASH));
  return row;
}

export function showDetails(status) {
  const gateways = status.gateways ?? [];
  redraw(byId("gateways"), JSON.stringify(gateways), () => gateways.map(gatewayRow));
  setHidden("gateways-none", gateways.length > 0);
  showSignals(status.signals);
  setText("gpus", status.gpus?.why_not ? `No GPU readings: ${status.gpus.why_not}` : "");
  const jobs = status.jobs ?? [];
  setHidden("jobs-section", jobs.length === 0);
  redraw(byId("jobs"), JSON.stringify(jobs), () => jobs.map(jobRow));
}
