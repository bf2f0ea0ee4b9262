// The status page: asks the daemon each second, shows what it says. A dash means "not reported",
// which is not zero. All text goes in by textContent, so nothing that a worker says becomes markup.
"use strict";

const API = "/api/ds4/v1";
const PERIOD_MS = 1000;
const TIMEOUT_MS = 4000;
const BACK_BANNER_MS = 5000;
const SHOWN_STANDSTILL_SECONDS = 10;
const DASH = "–";

const byId = (id) => document.getElementById(id);
const isNumber = (value) => typeof value === "number" && Number.isFinite(value);

function make(tag, className, text) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  return element;
}

// Writing the same text again would make screen readers say it again.
function setText(id, text) {
  const element = byId(id);
  if (element.textContent !== text) element.textContent = text;
}

const shown = new Map();
function setChildren(id, key, children) {
  if (shown.get(id) === key) return;
  shown.set(id, key);
  byId(id).replaceChildren(...children());
}

function number(value) {
  if (!isNumber(value)) return DASH;
  if (Number.isInteger(value)) return value.toLocaleString("en");
  return value.toLocaleString("en", { maximumSignificantDigits: 4 });
}

const whole = (ratio) => `${Math.round(ratio * 100)}\u00a0%`;
const percent = (value) => (isNumber(value) ? `${(value * 100).toFixed(1)} %` : DASH);

function valueOf(name, value) {
  if (name.includes("_ratio")) return percent(value);
  if (name.includes("_bytes") && isNumber(value)) return `${(value / 2 ** 30).toFixed(2)} GiB`;
  return number(value);
}

function clock(at) {
  if (!isNumber(at)) return DASH;
  const date = new Date(at * 1000);
  const isToday = date.toDateString() === new Date().toDateString();
  const time = date.toLocaleTimeString("en-GB");
  return isToday ? time : `${date.toLocaleDateString("en-CA")} ${time}`;
}

function span(seconds) {
  if (!isNumber(seconds)) return DASH;
  const whole = Math.max(0, Math.round(seconds));
  if (whole < 120) return `${whole} s`;
  if (whole < 7200) return `${Math.floor(whole / 60)} min`;
  if (whole < 172800) return `${Math.floor(whole / 3600)} h`;
  return `${Math.floor(whole / 86400)} d`;
}

function money(amount, currency) {
  if (amount === null || amount === undefined) return DASH;
  const value = Number(amount);
  if (!Number.isFinite(value)) return DASH;
  return `${value.toFixed(Math.abs(value) < 1 ? 4 : 2)} ${currency ?? ""}`.trim().replace(" ", "\u00a0");
}

const PHASE_TONE = { ready: "good", failed: "bad", quarantined: "bad", unknown: "bad" };
const SEVERITY_TONE = { critical: "bad", warning: "warn" };

function alertTone(alert) {
  if (alert.phase === "resolved") return "good";
  if (alert.phase === "pending") return "";
  return SEVERITY_TONE[alert.severity] ?? "";
}

function fact(term, text) {
  const group = make("div");
  group.append(make("dt", "", term), make("dd", "", text));
  return group;
}

// ---- sections -----------------------------------------------------------------------------------

function firstOf(signals, ...names) {
  for (const name of names) if (isNumber(signals?.[name])) return signals[name];
  return null;
}

function workerCard(worker, at) {
  const card = make("li", "card");
  const title = make("h3");
  title.append(
    make("span", "", worker.id),
    make("span", `tag ${PHASE_TONE[worker.phase] ?? "warn"}`, worker.phase),
  );
  const blind = worker.monitoring && worker.monitoring.state !== "monitored" ? worker.monitoring : null;
  if (blind) title.append(make("span", "tag warn", blind.state));
  const models = (worker.models ?? []).join(", ") || DASH;
  card.append(title, make("p", "quiet", `${models} · for ${span(at - worker.since)}`));
  if (worker.reason) card.append(make("p", "quiet", worker.reason));
  if (blind) card.append(make("p", "quiet", `no metrics since ${clock(blind.since)}: ${blind.why}`));
  if (worker.standstill_seconds >= SHOWN_STANDSTILL_SECONDS) {
    const still = `its requests have stood still for ${span(worker.standstill_seconds)}`;
    card.append(make("p", "quiet", still));
  }
  const load = worker.load ?? {};
  const signals = worker.signals ?? {};
  const miss = firstOf(signals, "ds4_cache_miss_ratio");
  const rate = (kind) => firstOf(
    signals, `ds4_tokens_per_second{kind="${kind}"}`, `ds4_tokens_per_second_${kind}`,
  );
  const numbers = make("dl", "numbers");
  numbers.append(
    fact("Running", number(load.running)),
    fact("Waiting", number(load.waiting)),
    fact("KV cache", percent(load.kv_usage_ratio)),
    fact("Cache hit / miss", miss === null ? DASH : `${whole(1 - miss)} / ${whole(miss)}`),
    fact("Prompt tok/s", number(rate("prompt"))),
    fact("Generated tok/s", number(rate("generated"))),
  );
  card.append(numbers);
  if (isNumber(load.kv_usage_ratio)) {
    const meter = make("meter");
    Object.assign(meter, { min: 0, max: 1, low: 0.7, high: 0.9, optimum: 0 });
    meter.value = load.kv_usage_ratio;
    meter.setAttribute("aria-label", `KV cache in use on ${worker.id}`);
    card.append(meter);
  }
  return card;
}

function showFleet(status) {
  const fleet = status.fleet ?? [];
  const ready = fleet.filter((worker) => worker.phase === "ready").length;
  setText("ready", fleet.length ? `${ready} of ${fleet.length}` : DASH);
  const isAll = fleet.length > 0 && ready === fleet.length;
  byId("ready").parentElement.className = `tile ${isAll ? "good" : "warn"}`;
  const phases = [...new Set(fleet.filter((w) => w.phase !== "ready").map((w) => w.phase))];
  setText("ready-why", phases.length ? `others: ${phases.join(", ")}` : "");
  const empty = () => [make("li", "quiet", "No workers yet.")];
  const cards = () => fleet.map((worker) => workerCard(worker, status.at));
  setChildren("fleet", JSON.stringify([fleet, status.at]), fleet.length ? cards : empty);
}

// Only what concerns this fleet: the shipped ladder names models that may not run here.
function swapsOf(limits, fleet) {
  const models = new Set((fleet ?? []).flatMap((worker) => worker.models ?? []));
  const swaps = (limits.substitutions ?? []).filter(([asked]) => models.has(asked));
  return swaps.map(([asked, serves]) => `${serves} for ${asked}`);
}

function showLevel(status) {
  const policy = status.policy;
  const tile = byId("level-tile");
  if (!policy) {
    setText("level", DASH);
    setText("level-why", "");
    tile.className = "tile";
    return;
  }
  const name = policy.level === 0 ? policy.level_name : `${policy.level}: ${policy.level_name}`;
  setText("level", name);
  const limits = policy.limits ?? {};
  const parts = [
    policy.reason,
    isNumber(limits.max_tokens_cap) ? `at most ${limits.max_tokens_cap} tokens an answer` : "",
    isNumber(limits.max_inflight) ? `at most ${limits.max_inflight} in flight` : "",
    swapsOf(limits, status.fleet).join(", "),
    isNumber(limits.shed_below_priority) ? `priority under ${limits.shed_below_priority} shed` : "",
    isNumber(limits.max_turns) ? `conversations cut to ${limits.max_turns} turns` : "",
  ];
  setText("level-why", parts.filter(Boolean).join(" · "));
  tile.className = `tile ${policy.level === 0 ? "good" : "warn"}`;
}

function alertRow(alert) {
  const row = make("li");
  row.append(make("span", `tag ${alertTone(alert)}`, alert.phase), make("strong", "", alert.name));
  row.append(make("span", "quiet", alert.severity ?? ""));
  row.append(make("span", "", `value ${number(alert.value)}`));
  if (alert.held) row.append(make("span", "tag warn", "held: no data"));
  const since = make("time", "", `since ${clock(alert.since)}`);
  row.append(since, make("span", "quiet", alert.summary ?? ""));
  return row;
}

// Worst first; the watchdog (severity none) is there to be last, and is no reason to worry.
const PHASES = ["firing", "pending", "resolved"];
const SEVERITIES = ["critical", "warning", "info", "none"];
const rank = (order, value) => (order.includes(value) ? order.indexOf(value) : order.length);

function worstFirst(one, other) {
  return Number(one.severity === "none") - Number(other.severity === "none")
    || rank(PHASES, one.phase) - rank(PHASES, other.phase)
    || rank(SEVERITIES, one.severity) - rank(SEVERITIES, other.severity)
    || one.since - other.since;
}

function showAlerts(status) {
  const alerts = (status.alerts ?? []).toSorted(worstFirst);
  const counted = alerts.filter((alert) => alert.severity !== "none");
  const count = (phase) => counted.filter((alert) => alert.phase === phase).length;
  const firing = counted.filter((alert) => alert.phase === "firing");
  setText("alert-count", firing.length ? `${firing.length} firing` : "none firing");
  const pending = count("pending");
  const names = [...new Set(firing.map((alert) => alert.name))].join(", ");
  setText("alert-why", [names, pending ? `${pending} pending` : ""].filter(Boolean).join(" · "));
  const isBad = firing.some((alert) => alert.severity === "critical");
  const tone = isBad ? "bad" : firing.length || pending ? "warn" : "good";
  byId("alert-count").parentElement.className = `tile ${tone}`;
  const quiet = () => [make("li", "quiet", "Nothing is pending or firing.")];
  setChildren("alerts", JSON.stringify(alerts), alerts.length ? () => alerts.map(alertRow) : quiet);
}

function showCost(cost) {
  const currency = cost?.currency;
  setText("cost-hour", cost?.per_hour == null ? DASH : `${money(cost.per_hour, currency)} / h`);
  const today = `today ${money(cost?.spent_today, currency)}`;
  setText("cost-spent", `${today} · in all ${money(cost?.spent_total, currency)}`);
}

function showSignals(signals) {
  const entries = Object.entries(signals ?? {}).sort(([a], [b]) => (a < b ? -1 : 1));
  const facts = () => entries.map(([name, value]) => fact(name, valueOf(name, value)));
  const none = () => [make("p", "quiet", "Nothing reported yet.")];
  setChildren("signals", JSON.stringify(entries), entries.length ? facts : none);
}

function gatewayRow(gateway) {
  const row = make("li");
  const isUp = gateway.connected;
  row.append(
    make("strong", "", gateway.name),
    make("span", `tag ${isUp ? "good" : "bad"}`, isUp ? "connected" : "not connected"),
    make("span", "", `${number(gateway.inflight)} in flight`),
    make("span", "quiet", `policy ${number(gateway.policy_version)} · pid ${gateway.pid ?? DASH}`),
  );
  return row;
}

function showGateways(status) {
  const gateways = status.gateways ?? [];
  const none = () => [make("li", "quiet", "No gateway yet.")];
  const rows = () => gateways.map(gatewayRow);
  setChildren("gateways", JSON.stringify(gateways), gateways.length ? rows : none);
}

function holdRow(hold) {
  const row = make("li");
  row.append(
    make("strong", "", hold.target === "*" ? "everything" : hold.target),
    make("time", "", `until ${clock(hold.until_at)}`),
    make("span", "quiet", `${hold.who}: ${hold.why}`),
  );
  return row;
}

function showHolds(holds) {
  byId("holds-section").hidden = !holds?.length;
  setChildren("holds", JSON.stringify(holds ?? []), () => (holds ?? []).map(holdRow));
}

function jobRow(job) {
  const row = make("li");
  const isRunning = job.last_finished_at === null || job.last_finished_at < job.last_started_at;
  const [tone, word] = isRunning ? ["", "running"] : job.ok ? ["good", "done"] : ["bad", "failed"];
  row.append(make("span", `tag ${tone}`, word), make("strong", "", job.name));
  const took = !isRunning && isNumber(job.took_seconds) ? `, took ${job.took_seconds.toFixed(1)} s` : "";
  row.append(make("time", "", `${clock(job.last_started_at)}${took}`));
  if (!isRunning) row.append(make("span", "quiet", job.result || DASH));
  return row;
}

function showJobs(jobs) {
  byId("jobs-section").hidden = !jobs?.length;
  setChildren("jobs", JSON.stringify(jobs ?? []), () => (jobs ?? []).map(jobRow));
}

function storyRow(entry) {
  const row = make("li");
  const text = make("span");
  const about = entry.target ?? entry.subject;
  const summary = entry.summary ?? "";
  if (about && !summary.includes(about)) text.append(make("strong", "", about), " ");
  text.append(summary);
  if (entry.who && entry.who !== "ds4watch") text.append(make("span", "quiet", ` by ${entry.who}`));
  row.append(make("time", "", clock(entry.at)), make("span", "tag", entry.kind ?? DASH), text);
  return row;
}

function showAudit(rows) {
  const none = () => [make("li", "quiet", "Nothing has happened yet.")];
  setChildren("audit", JSON.stringify(rows), rows.length ? () => rows.map(storyRow) : none);
}

function showStatus(status) {
  setText("about", `${status.version ?? ""} · gateway ${status.gateway_url ?? DASH}`);
  const waiting = status.waiting_for ?? [];
  byId("waiting").hidden = waiting.length === 0;
  setText("waiting", waiting.length ? `Waiting for: ${waiting.join("; ")}` : "");
  showLevel(status);
  showFleet(status);
  showAlerts(status);
  showCost(status.cost);
  showSignals(status.signals);
  setText("gpus", status.gpus?.why_not ? `No GPU readings: ${status.gpus.why_not}` : "");
  showGateways(status);
  showHolds(status.holds);
  showJobs(status.jobs);
  setText("at", `As of ${clock(status.at)}; up for ${span(status.at - status.started_at)}`);
}

// ---- asking -------------------------------------------------------------------------------------

let goneSince = null;

function banner(className, text) {
  byId("banner").className = className;
  setText("banner", text);
}

function onGone(error) {
  goneSince ??= Date.now() / 1000;
  document.body.classList.add("stale");
  const what = error.status ? `The daemon answers with ${error.status}` : "The daemon does not answer";
  banner("gone", `${what} since ${clock(goneSince)}; below is what it said last. Still asking.`);
}

function onBack() {
  if (goneSince === null) return;
  banner("back", `The daemon is back, after ${span(Date.now() / 1000 - goneSince)}.`);
  goneSince = null;
  document.body.classList.remove("stale");
  setTimeout(() => { if (goneSince === null) banner("", ""); }, BACK_BANNER_MS);
}

async function ask(path) {
  const answer = await fetch(API + path, { signal: AbortSignal.timeout(TIMEOUT_MS) });
  if (!answer.ok) throw Object.assign(new Error(path), { status: answer.status });
  return answer.json();
}

async function askAll() {
  try {
    const [status, page] = await Promise.all([ask("/status"), ask("/audit?limit=100")]);
    onBack();
    return { status, rows: page.audit };
  } catch (error) {
    onGone(error);
    return null;
  }
}

async function refresh() {
  const answer = await askAll();
  try {
    if (answer) {
      showStatus(answer.status);
      showAudit(answer.rows);
    }
  } finally {
    setTimeout(refresh, PERIOD_MS);
  }
}

refresh();
