// The service level in force and why; holds; actions that wait for a person.

import { button, byId, keyed, make, redraw, setAttribute, setClass, setHidden, setText, tag } from "./dom.js";
import { clock, DASH, isNumber, span, words } from "./format.js";
import { hold, mayAct, resume, steer } from "./steer.js";

// Only what concerns this fleet: the shipped ladder names models that may not run here.
function swapsOf(limits, fleet) {
  const models = new Set((fleet ?? []).flatMap((worker) => worker.models ?? []));
  const swaps = (limits.substitutions ?? []).filter(([asked]) => models.has(asked));
  return swaps.map(([asked, serves]) => `${serves} for ${asked}`);
}

function effects(limits, fleet) {
  return [
    isNumber(limits.max_tokens_cap) ? `at most ${limits.max_tokens_cap} tokens an answer` : "",
    isNumber(limits.max_inflight) ? `at most ${limits.max_inflight} in flight` : "",
    ...swapsOf(limits, fleet),
    isNumber(limits.shed_below_priority) ? `priority under ${limits.shed_below_priority} shed` : "",
    isNumber(limits.max_turns) ? `conversations cut to ${limits.max_turns} turns` : "",
    limits.thinking_off ? "thinking off" : "",
  ].filter(Boolean);
}

function showPips(level, highest) {
  const pips = byId("pips");
  setAttribute(pips, "aria-label", `Level ${level} of ${highest}`);
  const steps = () => Array.from({ length: highest }, (_, step) => (
    make("span", step < level ? `pip on level-${Math.min(4, level)}` : "pip")
  ));
  redraw(pips, `${level}/${highest}`, steps);
}

// A level outlives what raised it: while calm is waited for, or as long as a hold forbids a change.
function keptBy(level, { alerts, holds }) {
  if (level === 0 || !alerts || alerts.some((it) => it.phase === "firing" && it.severity !== "none")) return "";
  return holds?.length ? ". That is over; a hold keeps the level." : ". That is over; the level follows.";
}

export function showLevel(status) {
  const policy = status.policy;
  const level = policy?.level ?? 0;
  const name = policy ? (level === 0 ? policy.level_name : `${level}: ${policy.level_name}`) : DASH;
  setText("level", name);
  const steps = status.steering?.levels?.default ?? (policy?.ladder?.length || 5) - 1;
  showPips(level, Math.max(1, steps, level));
  setText("level-why", (policy?.reason || (policy ? "Nothing asks for less." : "")) + keptBy(level, status));
  const raised = (policy?.pools ?? []).filter((it) => it.level > 0);
  const told = effects(policy?.limits ?? {}, status.fleet)
    .concat(raised.map((it) => `${it.pool}: level ${it.level}, ${it.level_name}`));
  redraw(byId("level-effects"), told.join("|"), () => told.map((text) => make("li", "tag", text)));
  setText("level-since", level > 0 && isNumber(policy.since) ? `for ${span(status.at - policy.since)}` : "");
  showDry(status.steering);
  setClass("level-tile", `tile wide ${policy ? (level === 0 && !raised.length ? "good" : "warn") : ""}`);
}

// What is only told: all of a policy in dry run; in the first days, what changes how many workers run.
function showDry(steering) {
  const trial = steering?.trial_until;
  const isDry = Boolean(steering?.dry_run || trial);
  setHidden("level-dry", !isDry);
  setText("level-dry", isNumber(trial) && !steering.dry_run ? `scaling only told until ${clock(trial)}` : "dry run: told, not done");
}

// ---- holds --------------------------------------------------------------------------------------

let status = { fleet: [], holds: [] };
let actions = [];

function targets() {
  const pools = new Set(actions.map((it) => it.target).filter((it) => it !== "*"));
  const workers = (status.fleet ?? []).map((worker) => worker.id);
  const names = [...new Set([...pools, ...workers])].sort();
  return [["*", "everything"], ...names.map((name) => [name, name])];
}

function holdRow(placed) {
  const row = make("li");
  row.told = make("span");
  row.time = make("time");
  row.end = button("Resume", () => resume(placed.target), "small");
  row.append(tag("held", "info"), row.told, row.time, row.end);
  return row;
}

function updateHold(row, placed) {
  const what = placed.target === "*" ? "everything" : placed.target;
  setText(row.told, `${what}, by ${placed.who}: ${placed.why}`);
  setText(row.time, `until ${clock(placed.until_at)}`);
  setAttribute(row.end, "aria-label", `Resume ${what}`);
  setHidden(row.end, !mayAct());
}

export function showHolds(found) {
  status = found;
  const holds = found.holds ?? [];
  setHidden("holds", holds.length === 0);
  keyed(byId("holds"), holds, (it) => it.target, holdRow, updateHold);
  showButtons();
}

function showButtons() {
  setHidden("hold", !mayAct());
  const last = actions.find((it) => it.status === "applied" && !it.undoes);
  setHidden("undo", !mayAct() || !last);
  if (last) setAttribute(byId("undo"), "title", `${words(last.kind)} on ${last.target}`);
}

byId("hold").addEventListener("click", () => hold(targets()));
byId("undo").addEventListener("click", () => {
  const last = actions.find((it) => it.status === "applied" && !it.undoes);
  if (last) steer(last, "undo");
});

// ---- actions ------------------------------------------------------------------------------------

// What it will do beside its name, in words; what says nothing to a person is left out.
const PLAIN = {
  level: (value) => `level ${value}`,
  action: (value) => `“${value}” in the policy`,
  verify_seconds: (value) => `it has ${span(value)} to show that it helps`,
  otherwise: (value) => (value === "undo" ? "taken back if it does not" : "somebody is told if it does not"),
  undo_after_seconds: (value) => `taken back ${span(value)} after its alert is over`,
};

function particulars(action) {
  const given = action.parameters ?? {};
  const known = Object.entries(PLAIN).filter(([name]) => given[name] !== undefined && given[name] !== null && given[name] !== "");
  return known.map(([name, told]) => told(given[name])).join("; ");
}

// Who may say yes and until when is in the status, not with the action.
function terms(action) {
  const own = (status.steering?.actions ?? []).find((it) => it.id === action.id);
  const who = (own?.approvers ?? []).filter((name) => name !== "*");
  const until = own?.expires_at ?? action.expires_at;
  return [
    `asked at ${clock(action.planned_at)}`,
    isNumber(until) ? `no answer until ${clock(until)} means no` : "",
    who.length ? `only ${who.join(", ")} may approve` : "",
  ].filter(Boolean).join("; ");
}

function waitingRow(action) {
  const row = make("li", "approval");
  const told = make("div");
  row.what = make("strong");
  row.how = make("p");
  row.why = make("p");
  row.when = make("p", "quiet");
  told.append(row.what, row.why, row.how, row.when);
  row.buttons = make("div", "buttons");
  const yes = button("Approve", () => steer(action, "approve"), "primary");
  const no = button("Refuse", () => steer(action, "refuse"));
  for (const it of [yes, no]) it.setAttribute("aria-label", `${it.textContent} ${words(action.kind)} on ${action.target}`);
  row.buttons.append(yes, no);
  row.append(told, row.buttons);
  return row;
}

function updateWaiting(row, action) {
  setText(row.what, `${words(action.kind)} on ${action.target}`);
  setText(row.why, action.reason || action.cause);
  setText(row.how, particulars(action));
  setText(row.when, terms(action));
  setHidden(row.buttons, !mayAct());
}

export function showActions(found) {
  actions = found;
  const waiting = found.filter((it) => it.status === "waiting");
  setHidden("approvals-section", waiting.length === 0);
  const one = waiting.length === 1;
  setText("approvals-title", `${waiting.length} ${one ? "action waits" : "actions wait"} for approval`);
  keyed(byId("approvals"), waiting, (it) => it.id, waitingRow, updateWaiting);
  showButtons();
}
