// What a person may do from the page. Every way ends in one told line, good or bad.

import { ask, send, settled } from "./api.js";
import { question, tell } from "./dialog.js";
import { clock } from "./format.js";

const HOUR_SECONDS = 3600;
const FOR = [["900", "15 minutes"], ["3600", "1 hour"], ["14400", "4 hours"], ["86400", "1 day"]];
const WHY = "from the status page";

let session = { role: null, name: null };
let refresh = () => {};

export const mayAct = () => session.role === "operator" || session.role === "admin";
export const sessionNow = () => session;
export const afterwards = (callback) => { refresh = callback; };

// Returns whether the session is another than before.
export async function lookWho() {
  const found = await ask("/session");
  const isOther = found.role !== session.role || found.name !== session.name;
  session = found;
  return isOther;
}

async function attempt(what, work) {
  try {
    const told = await work();
    if (told) tell(told);
  } catch (error) {
    const isOut = error.status === 401 || error.status === 403;
    if (isOut) await lookWho().catch(() => {});
    tell(`${what}: ${error.message}`, "bad");
  } finally {
    refresh();
  }
}

export async function hold(targets) {
  const given = await question({
    title: "Hold actions",
    text: "ds4watch goes on watching and telling, and does nothing to the target meanwhile.",
    verb: "Hold",
    choices: [
      { name: "target", label: "Target", options: targets, chosen: targets[0][0] },
      { name: "seconds", label: "For", options: FOR, chosen: "3600" },
    ],
  });
  if (given === null) return;
  const body = { seconds: Number(given.seconds), why: given.why || WHY };
  await attempt("Hold", async () => {
    const placed = await send("PUT", `/holds/${encodeURIComponent(given.target)}`, body);
    return `Held until ${clock(placed.until_at)}.`;
  });
}

export const resume = (target) => attempt("Resume", async () => {
  await send("DELETE", `/holds/${encodeURIComponent(target)}`);
  return "Resumed: actions go on.";
});

const TITLES = {
  approve: ["Approve this action?", "Approve", ""],
  refuse: ["Refuse this action?", "Refuse", "danger"],
  undo: ["Undo this action?", "Undo", "danger"],
};

export async function steer(action, verb) {
  const [title, label, tone] = TITLES[verb];
  const told = [`${action.kind.replaceAll("_", " ")} on ${action.target}`, action.reason];
  const given = await question({
    title, text: told.filter(Boolean).join(": "), verb: label, tone,
  });
  if (given === null) return;
  await attempt(label, async () => {
    const path = `/actions/${encodeURIComponent(action.id)}/${verb}`;
    const found = await settled(await send("POST", path, { why: given.why || WHY }));
    if (found.status === "refused") throw new Error(found.told || "it was refused");
    return found.told || (found.status === "waiting" ? `${label}: asked for.` : `${label}: done.`);
  });
}

const quoted = (value) => `"${value.replaceAll("\\", "\\\\").replaceAll('"', '\\"').replaceAll("\n", "\\n")}"`;

// Exactly this alert, in all its labels but its tier: a worse tier of it is silenced as well.
export function matchersOf(labels) {
  return Object.entries(labels)
    .filter(([name]) => name !== "severity")
    .map(([name, value]) => `${name}=${quoted(String(value))}`);
}

export const silence = (alert) => attempt("Silence", async () => {
  const labels = { alertname: alert.name, ...alert.labels };
  const body = { matchers: matchersOf(labels), seconds: HOUR_SECONDS, why: WHY };
  const placed = await send("POST", "/silences", body);
  return `${alert.name} is silenced until ${clock(placed.ends_at)}.`;
});

export const unsilence = (tiers) => attempt("End silence", async () => {
  const ids = new Set(tiers.flatMap((alert) => alert.silenced_by ?? []));
  for (const id of ids) await send("DELETE", `/silences/${id}`);
  return `${tiers[0].name} is told again.`;
});

export const leave = () => attempt("Log out", async () => {
  await send("DELETE", "/session");
  await lookWho();
  return "Logged out.";
});
