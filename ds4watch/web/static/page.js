// The status page: what is asked when, and who shows it.

import { ask } from "./api.js";
import { lookAtRules, showAlerts } from "./alerts.js";
import { drawCharts, POINTS, rangeNow, setCurrency, startCharts } from "./charts.js";
import { lookAtCost, showCost } from "./cost.js";
import { showDetails } from "./details.js";
import { byId, setClass, setHidden, setText } from "./dom.js";
import { lookBack, showFleet } from "./fleet.js";
import { lookAhead } from "./forecast.js";
import { clock, DASH, span } from "./format.js";
import { showActions, showHolds, showLevel } from "./level.js";
import { Live } from "./live.js";
import { afterwards, leave, lookWho, mayAct, sessionNow } from "./steer.js";
import { happened, readAudit } from "./story.js";
import { drawTimeline } from "./timeline.js";

const BACK_BANNER_MS = 5000;
const ACTIONS_ASKED = 100;
const MOST_SECONDS = 60;

let last = null;

function showStatus(status) {
  last = status;
  setText("about", `${status.version ?? ""} · gateway ${status.gateway_url ?? DASH}`);
  const waiting = status.waiting_for ?? [];
  setHidden("waiting", waiting.length === 0);
  setText("waiting", waiting.length ? `Waiting for: ${waiting.join("\n")}` : "");
  setCurrency(status.cost?.currency);
  showLevel(status);
  showHolds(status);
  showFleet(status);
  showAlerts(status);
  showCost(status.cost);
  showDetails(status);
  setText("at", `As of ${clock(status.at)}; up for ${span(status.at - status.started_at)}`);
  drawTimeline(status.at, rangeNow());
  duties.forEach((duty) => duty.maybe());
}

// ---- what is asked for less often ---------------------------------------------------------------

// One thing that is asked for every so often, while the daemon answers and the page is seen; a
// failure of one leaves the others alone, and is seen at the status if the daemon is gone.
class Duty {
  #dueAt = 0;
  #isBusy = false;

  constructor(everySeconds, work) {
    this.every = typeof everySeconds === "function" ? everySeconds : () => everySeconds;
    this.work = work;
  }

  async maybe() {
    if (this.#isBusy || performance.now() < this.#dueAt || document.hidden) return;
    this.#isBusy = true;
    this.#dueAt = performance.now() + this.every() * 1000;
    try {
      await this.work(last.at);
    } catch (error) {
      if (!("status" in error)) throw error;
    } finally {
      this.#isBusy = false;
    }
  }

  again() {
    this.#dueAt = 0;
    if (last) this.maybe();
  }
}

const actions = new Duty(10, async () => showActions((await ask(`/actions?limit=${ACTIONS_ASKED}`)).actions));
// A chart gains a point every step of its own, so that asking sooner shows nothing new.
const charts = new Duty(() => Math.min(MOST_SECONDS, Math.max(15, rangeNow() / POINTS)), drawCharts);
const story = new Duty(3600, async (now) => {
  await readAudit();
  drawTimeline(now, rangeNow());
});
const who = new Duty(60, async () => {
  if (await lookWho()) showWho();
});
const duties = [
  who, actions, new Duty(5, lookAtRules), new Duty(30, lookBack), charts, story,
  new Duty(20, lookAtCost), new Duty(60, lookAhead),
];

// ---- who looks ----------------------------------------------------------------------------------

function showWho() {
  const { role, name } = sessionNow();
  setText("who", role ? `${name ?? ""} (${role})` : "read only");
  setHidden("leave", !role);
  setHidden("login-help", mayAct());
  if (!last) return;
  showHolds(last);
  showAlerts(last);
  actions.again();
}

byId("leave").addEventListener("click", async () => {
  await leave();
  showWho();
});

// ---- gone and back ------------------------------------------------------------------------------

let isGone = false;

function banner(className, text) {
  setClass("banner", className);
  setText("banner-text", text);
  setHidden("retry", className !== "gone");
}

const live = new Live({
  status: showStatus,
  event: (row) => {
    happened(row);
    if (["plan", "outcome", "refusal", "command"].includes(row.kind)) actions.again();
  },
  missed: () => story.again(),
  live: (isLive) => {
    setText("live", isGone ? "offline" : isLive ? "live" : "each 2 s");
    setClass("live", `tag ${isGone ? "bad" : isLive ? "good" : "warn"}`);
  },
  gone: (error, since) => {
    isGone = true;
    document.body.classList.add("stale");
    const what = error.status ? `The daemon answers with ${error.status}` : "The daemon does not answer";
    banner("gone", `${what} since ${clock(since)}; below is what it said last. Still asking.`);
    setText("live", "offline");
    setClass("live", "tag bad");
  },
  back: (since) => {
    isGone = false;
    document.body.classList.remove("stale");
    banner("back", `The daemon is back, after ${span(Date.now() / 1000 - since)}.`);
    setTimeout(() => { if (!isGone) banner("", ""); }, BACK_BANNER_MS);
    // A daemon that was started anew has forgotten sessions, and may have another audit.
    who.again();
    story.again();
  },
});

byId("retry").addEventListener("click", () => live.now());
afterwards(() => {
  live.now();
  actions.again();
  showWho();
});
startCharts(() => {
  charts.again();
  if (last) drawTimeline(last.at, rangeNow());
});
showWho();
live.start();
