// What happened: the audit as a list, and what of it is drawn on a time axis.

import { ask } from "./api.js";
import { byId, keyed, make, setHidden, setText, tag } from "./dom.js";
import { clock } from "./format.js";

const LISTED = 60;
const MOST_KEPT = 2000;
const FIRST = 300;

let rows = [];
let isReading = false;
let arrived = []; // while the audit is being read: what is read may be from before

export const audit = () => rows;

function merge(found) {
  const known = new Map(rows.map((row) => [row.id, row]));
  for (const row of found) known.set(row.id, row);
  rows = [...known.values()].sort((one, other) => other.id - one.id).slice(0, MOST_KEPT);
}

function storyRow(entry) {
  const row = make("li");
  const text = make("span", "what");
  const summary = entry.summary ?? "";
  if (entry.target && !summary.includes(entry.target)) text.append(make("strong", "", entry.target), " ");
  text.append(summary);
  if (entry.who && entry.who !== "ds4watch") text.append(make("span", "quiet", ` by ${entry.who}`));
  row.append(make("time", "", clock(entry.at)), tag(entry.kind ?? ""), text);
  return row;
}

export function showStory() {
  keyed(byId("audit"), rows.slice(0, LISTED), (row) => row.id, storyRow, () => {});
  setHidden("audit-none", rows.length > 0);
}

export function happened(row) {
  if (isReading) arrived.push(row);
  merge([row]);
  showStory();
  if (row.kind === "alert" && row.detail?.new === "firing" || row.kind === "outcome") {
    setText("said", row.summary);
  }
}

// The newest of all kinds, and more of alerts, which are most of what is drawn.
export async function readAudit() {
  const paths = [`/audit?limit=${FIRST}`, `/audit?limit=${FIRST}&kind=alert`, `/audit?limit=${FIRST}&kind=outcome`];
  isReading = true;
  const pages = await Promise.all(paths.map(ask)).finally(() => { isReading = false; });
  rows = [];
  for (const page of pages) merge(page.audit);
  merge(arrived);
  arrived = [];
  showStory();
}
