// Alerts with their distance to each tier, and what is nearest to be one.

import { ask } from "./api.js";
import { distanceBar, distanceWords, drawDistance, formatOf, nearness } from "./distance.js";
import { button, byId, keyed, make, setAttribute, setClass, setHidden, setText, tag } from "./dom.js";
import { clock, DASH, severityTone } from "./format.js";
import { mayAct, silence, unsilence } from "./steer.js";

const SHOWN_NEAR = 5;
const MOST_NAMED = 2;
const MOST_ALIKE = 6;
const APART = 3; // so many alike have a row each; more share one, until somebody opens it
const PHASES = ["firing", "pending", "resolved"];
const SEVERITIES = ["critical", "warning", "info", "none"];
const rank = (order, value) => (order.includes(value) ? order.indexOf(value) : order.length);

let rules = [];
let alerts = []; // groups
const opened = new Set();

const byWorst = (one, other) => rank(PHASES, one.phase) - rank(PHASES, other.phase)
  || rank(SEVERITIES, one.severity) - rank(SEVERITIES, other.severity)
  || one.since - other.since;

function tone(alert) {
  if (alert.phase === "resolved") return "good";
  return alert.phase === "pending" ? "" : severityTone(alert.severity);
}

// ---- one alert, with all its tiers ---------------------------------------------------------------

// Those of the shipped rules come from the daemon itself; others are a whole address, or not reached.
function runbookOf({ runbook_url: url = "" }) {
  const own = /^docs\/runbooks\/([A-Za-z0-9]+\.md)$/.exec(url);
  if (own) return `/runbooks/${own[1]}`;
  return /^https?:\/\//.test(url) ? url : "";
}

const unsevere = ({ severity, ...labels }) => JSON.stringify(Object.entries(labels).sort());
const isSilenced = (alert) => (alert.silenced_by ?? []).length > 0;

// Tiers of one alert are one thing to look at: the worst leads.
function grouped(found) {
  const groups = new Map();
  for (const alert of found.toSorted(byWorst)) {
    const key = `${alert.name} ${unsevere(alert.labels ?? {})}`;
    groups.set(key, [...(groups.get(key) ?? []), alert]);
  }
  return [...groups].map(([key, tiers]) => ({ key, worst: tiers[0], tiers }));
}

function alertRow() {
  const row = make("li", "alert");
  row.phase = tag("");
  row.name = make("strong");
  row.severity = make("span", "quiet");
  row.silenced = tag("silenced", "info");
  row.held = tag("held: no data", "warn");
  const head = make("div", "alert-head");
  row.button = button("", () => (row.isSilenced ? unsilence(row.group.tiers) : silence(row.group.worst)), "small");
  head.append(row.phase, row.name, row.severity, row.silenced, row.held, row.button);
  row.summary = make("p");
  row.told = make("span");
  row.runbook = make("a", "", "Runbook");
  row.summary.append(row.told, " ", row.runbook);
  row.more = make("div");
  row.bar = distanceBar();
  row.words = make("ul", "tiers quiet");
  row.more.append(row.bar, row.words);
  row.append(head, row.summary, row.more);
  return row;
}

function showWords(list, rule) {
  keyed(list, rule ? distanceWords(rule) : [], ([severity]) => severity, ([severity]) => {
    const item = make("li");
    item.words = make("span");
    item.append(make("span", `dot ${severityTone(severity)}`), make("span", "", `${severity} `), item.words);
    return item;
  }, (item, [, words]) => setText(item.words, words));
}

// The thresholds are the rule's; value and phases are this alert's own.
function ruleOf({ worst, tiers }) {
  const found = rules.find((rule) => rule.name === worst.name
    && rule.tiers.some((tier) => tier.severity === worst.severity));
  if (!found) return null;
  const sign = found.op.startsWith("<") ? -1 : 1;
  const known = Object.fromEntries(tiers.map((alert) => [alert.severity, alert.phase]));
  const own = found.tiers.map((tier) => {
    const beyond = worst.value === null ? null : sign * (worst.value - tier.threshold);
    const phase = known[tier.severity] ?? null;
    const isActive = phase === "firing" || phase === "pending";
    return { ...tier, phase, beyond, holds: beyond > 0 || (beyond === 0 && isActive), guarded: tier.guarded && !isActive };
  });
  return { ...found, value: worst.value, tiers: own };
}

function updateAlert(row, group) {
  const { worst } = group;
  row.group = group;
  row.isSilenced = group.tiers.some(isSilenced);
  setText(row.phase, worst.phase);
  setClass(row.phase, `tag ${tone(worst)}`);
  setClass(row, `alert ${tone(worst)}${row.isSilenced ? " muted" : ""}`);
  setText(row.name, worst.name);
  const isOver = worst.phase === "resolved";
  setText(row.severity, `${worst.severity}${isOver ? ", fired" : " since"} ${clock(worst.since)}`);
  setHidden(row.silenced, !row.isSilenced);
  setHidden(row.held, !worst.held);
  setHidden(row.button, !mayAct() || isOver);
  setText(row.button, row.isSilenced ? "End silence" : "Silence 1 h");
  setAttribute(row.button, "aria-label", `${row.button.textContent}: ${worst.name}`);
  setText(row.told, isOver && worst.summary ? `Last: ${worst.summary}` : worst.summary ?? "");
  const runbook = runbookOf(worst);
  setHidden(row.runbook, !runbook);
  setAttribute(row.runbook, "href", runbook || "#");
  setAttribute(row.runbook, "aria-label", `Runbook: ${worst.name}`);
  const rule = isOver ? null : ruleOf(group);
  setHidden(row.more, !rule);
  if (rule) drawDistance(row.bar, rule);
  showWords(row.words, rule);
}

// ---- many alike -----------------------------------------------------------------------------------

const about = ({ worst: { labels = {} } }) => labels.worker ?? labels.profile ?? labels.key ?? "";

function folded(groups) {
  const kinds = new Map();
  for (const group of groups) {
    const kind = `${group.worst.name} ${group.worst.phase} ${group.worst.severity}`;
    kinds.set(kind, [...(kinds.get(kind) ?? []), group]);
  }
  return [...kinds].flatMap(([kind, alike]) => {
    if (alike.length <= APART) return alike;
    return [...(opened.has(kind) ? alike : alike.slice(0, 1)), { key: `more ${kind}`, kind, rest: alike.slice(1) }];
  });
}

function moreRow({ kind }) {
  const row = make("li", "alike");
  row.names = make("span", "quiet");
  row.button = button("", () => {
    if (!opened.delete(kind)) opened.add(kind);
    showRows();
  }, "small");
  row.append(row.names, row.button);
  return row;
}

function updateMore(row, { kind, rest }) {
  const isOpen = opened.has(kind);
  const { name, phase } = rest[0].worst;
  const named = rest.map(about).filter(Boolean);
  const more = named.length > MOST_ALIKE ? ` and ${named.length - MOST_ALIKE} more` : "";
  setText(row.names, isOpen ? "" : `${name}, ${phase}, of ${rest.length} more: ${named.slice(0, MOST_ALIKE).join(", ")}${more}`);
  setText(row.button, isOpen ? "Show fewer" : `Show ${rest.length} more`);
  setAttribute(row.button, "aria-expanded", String(isOpen));
  setAttribute(row.button, "aria-label", `${row.button.textContent}: ${name}, ${phase}`);
}

function showRows() {
  const create = (item) => (item.rest ? moreRow(item) : alertRow());
  const update = (row, item) => (item.rest ? updateMore(row, item) : updateAlert(row, item));
  keyed(byId("alerts"), folded(alerts), (it) => it.key, create, update);
}

function names(groups) {
  const found = [...new Set(groups.map((it) => it.worst.name))];
  const more = found.length - MOST_NAMED;
  return found.slice(0, MOST_NAMED).join(", ") + (more > 0 ? ` and ${more} more` : "");
}

export function showAlerts(status) {
  const all = status.alerts ?? [];
  const watchdog = all.some((it) => it.severity === "none" && it.phase === "firing");
  alerts = grouped(all.filter((it) => it.severity !== "none"));
  const firing = alerts.filter((it) => it.worst.phase === "firing");
  const pending = alerts.filter((it) => it.worst.phase === "pending").length;
  const muted = alerts.filter((it) => it.tiers.some(isSilenced)).length;
  setText("alert-count", firing.length ? `${firing.length} firing` : "none firing");
  const parts = [names(firing), pending ? `${pending} pending` : "", muted ? `${muted} silenced` : ""];
  setText("alert-why", parts.filter(Boolean).join(" · ") || "nothing is pending");
  const isBad = firing.some((it) => it.worst.severity === "critical");
  setClass("alert-tile", `tile ${isBad ? "bad" : firing.length || pending ? "warn" : "good"}`);
  setHidden("alerts-none", alerts.length > 0);
  setText("watchdog", watchdog ? "The watchdog fires, as it should: rules are evaluated." : "");
  document.title = firing.length ? `(${firing.length}) ds4watch` : "ds4watch";
  showRows();
}

// ---- rules --------------------------------------------------------------------------------------

function ruleRow(rule) {
  const row = make("li", "near");
  row.shown = make("span", "value");
  row.bar = distanceBar();
  row.words = make("ul", "tiers quiet");
  const head = make("div", "near-head");
  row.who = make("span", "quiet");
  head.append(make("strong", "", rule.name), row.who, row.shown);
  row.append(head, row.bar, row.words);
  row.title = rule.expression;
  return row;
}

function updateRule(row, rule) {
  setText(row.shown, rule.value === null ? DASH : formatOf(rule.expression)(rule.value));
  const labels = rule.labels ?? {};
  setText(row.who, labels.worker ?? labels.profile ?? "");
  drawDistance(row.bar, rule);
  showWords(row.words, rule);
}

const keyOf = (rule) => `${rule.name} ${rule.op} ${rule.expression}`;

function showRules() {
  const active = new Set(alerts.filter((it) => it.worst.phase !== "resolved").map((it) => it.worst.name));
  const quiet = rules.filter((rule) => !active.has(rule.name) && rule.value !== null);
  // One whose value is past a tier while the rule is not: another condition decides there.
  const near = quiet.filter((rule) => !rule.tiers.some((tier) => tier.holds));
  near.sort((one, other) => nearness(other) - nearness(one));
  keyed(byId("near"), near.slice(0, SHOWN_NEAR), keyOf, ruleRow, updateRule);
  setHidden("near-section", near.length === 0);
  if (byId("rules-box").open) keyed(byId("rules"), rules, keyOf, ruleRow, updateRule);
  setText("rules-title", `All ${rules.length} rules`);
}

export async function lookAtRules() {
  ({ rules } = await ask("/rules"));
  showRules();
  showRows();
}

byId("rules-box").addEventListener("toggle", showRules);
