// The load ahead beside the load that was, by profile, and the workers that it asks for.

import { ask, queryRange } from "./api.js";
import { byId, keyed, make, setAttribute, setHidden, setText } from "./dom.js";
import { clock, DASH, hourMinute, isNumber, number, span } from "./format.js";
import { Plot } from "./plot.js";

const HOURS_AHEAD = 2;
const BACK_SECONDS = 3600;
const STEP_SECONDS = 60;
const MOST_PLOTS = 4;
const ARRIVED = "sum by (profile) (rate(ds4_finished_requests_total[5m]))";

const shown = (value) => number(isNumber(value) ? value : null, 3);

function figure(profile) {
  const found = make("figure", "chart");
  const title = make("figcaption");
  title.append(make("h3", "", profile.profile));
  found.told = make("p", "legend quiet");
  found.plot = new Plot({
    lines: ["answered", "expected", "high", "low"], bands: [[2, 3]], shown, isSynced: false,
    onPoint: (index) => tell(found, index),
  });
  found.append(title, found.told, found.plot.element);
  return found;
}

function tell(found, index) {
  const { data } = found;
  if (!data) return;
  const now = data[1].findLastIndex(isNumber);
  const at = index ?? Math.max(0, now);
  const [ats, was, expected, high, low] = data;
  const time = index === null ? "now" : hourMinute(ats[at]);
  const ahead = isNumber(expected[at]) ? `, expected ${shown(expected[at])} (${shown(low[at])} to ${shown(high[at])})` : "";
  setText(found.told, `${time}: ${isNumber(was[at]) ? shown(was[at]) : DASH} req/s${ahead}`);
}

// Measured and expected on one row of instants.
export function joined(past, points) {
  const ats = [...new Set([...past.map(([at]) => at), ...points.map((it) => it.at)])].sort((a, b) => a - b);
  const was = new Map(past);
  const ahead = new Map(points.map((it) => [it.at, it]));
  const pick = (name) => ats.map((at) => ahead.get(at)?.[name] ?? null);
  return [ats, ats.map((at) => was.get(at) ?? null), pick("expected"), pick("high"), pick("low")];
}

function update(found, { profile, past }) {
  found.data = joined(past, profile.points);
  found.plot.draw(found.data);
  tell(found, found.plot.at);
  const last = profile.points.at(-1);
  const most = Math.max(...profile.points.map((it) => it.expected));
  setAttribute(
    found.plot.element, "aria-label",
    `${profile.profile}: until ${clock(last.at)} at most ${shown(most)} requests a second are expected. The table tells more.`,
  );
}

function row() {
  const found = make("tr");
  const head = make("th");
  head.scope = "row";
  const cells = ["in flight", "expected, req/s", "when", "workers", "note"].map((name) => {
    const cell = make("td");
    cell.dataset.name = name;
    return cell;
  });
  found.columns = [head, ...cells];
  found.append(...found.columns);
  return found;
}

function updateRow(found, profile) {
  const ahead = profile.ahead ?? profile.forecast;
  const point = isNumber(ahead) ? shown(ahead)
    : ahead ? `${shown(ahead.expected)} (${shown(ahead.low)} to ${shown(ahead.high)})` : "not known yet";
  const workers = `${profile.hot}${profile.starting ? ` + ${profile.starting} starting` : ""} of ${profile.wanted}`;
  const texts = [
    profile.profile, number(profile.in_flight, 3), `${point}`, `in ${span(profile.lead_seconds)}`, workers, profile.refused || "",
  ];
  found.columns.forEach((cell, index) => setText(cell, texts[index]));
}

export async function lookAhead(now) {
  const found = await ask(`/fleet/forecast?hours=${HOURS_AHEAD}`);
  const known = found.profiles.filter((it) => it.points?.length).slice(0, MOST_PLOTS);
  const end = Math.floor(now / STEP_SECONDS) * STEP_SECONDS;
  const past = known.length ? await queryRange(ARRIVED, end - BACK_SECONDS, end, STEP_SECONDS) : [];
  const of = (name) => past.find((it) => it.labels.profile === name)?.values ?? [];
  const items = known.map((profile) => ({ profile, past: of(profile.profile) }));
  keyed(byId("forecasts"), items, (it) => it.profile.profile, ({ profile }) => figure(profile), update);
  keyed(byId("ahead"), found.profiles, (it) => it.profile, row, updateRow);
  setHidden("ahead-table", found.profiles.length === 0);
  setHidden("forecast-none", known.length > 0);
  setText("forecast-note", found.dry_run ? "dry run: told, not done" : "");
  setHidden("forecast-note", !found.dry_run);
}
