// Being up to date: the status is asked for gently while the page is seen, and events say at once
// that something happened. When the daemon is gone, it is asked ever more seldom, until it is back.

import { ask } from "./api.js";

const PERIOD_MS = 2000;
const FIRST_WAIT_MS = 1000;
const LONGEST_WAIT_MS = 15000;
const SETTLE_MS = 150;

export class Live {
  #timer = null;
  #isAsking = false;
  #isAgain = false;
  #fails = 0;
  #goneSince = null;
  #source = null;
  #sourceTimer = null;
  #sourceFails = 0;
  #lastId = null;

  // on: {status, event, gone(error, since, waitMs), back(since), live(isLive), missed}
  constructor(on) {
    this.on = on;
  }

  start() {
    document.addEventListener("visibilitychange", () => this.#seen());
    addEventListener("online", () => this.now());
    this.#seen();
  }

  // Ask at once; again afterwards if it is being asked already.
  now() {
    clearTimeout(this.#timer);
    if (this.#isAsking) this.#isAgain = true;
    else this.#ask();
  }

  soon() {
    if (this.#goneSince !== null) return;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.now(), SETTLE_MS);
  }

  #seen() {
    if (document.hidden) {
      clearTimeout(this.#timer);
      this.#listenNoMore();
      return;
    }
    this.now();
    this.#listen();
  }

  async #ask() {
    this.#isAsking = true;
    let status = null;
    try {
      status = await ask("/status");
    } catch (error) {
      this.#isGone(error);
    }
    this.#isAsking = false;
    this.#next();
    if (status === null) return;
    this.#isBack();
    this.on.status(status);
  }

  #next() {
    if (document.hidden) return;
    clearTimeout(this.#timer);
    const wait = this.#isAgain ? 0 : this.#wait();
    this.#isAgain = false;
    this.#timer = setTimeout(() => this.now(), wait);
  }

  #wait() {
    if (this.#fails === 0) return PERIOD_MS;
    return Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** (this.#fails - 1));
  }

  #isGone(error) {
    this.#fails += 1;
    this.#goneSince ??= Date.now() / 1000;
    this.on.gone(error, this.#goneSince, this.#wait());
  }

  #isBack() {
    this.#fails = 0;
    if (this.#goneSince === null) return;
    const since = this.#goneSince;
    this.#goneSince = null;
    this.on.back(since);
    this.#sourceFails = 0;
    this.#listenNoMore();
    this.#listen();
  }

  #listen() {
    if (this.#source !== null || document.hidden) return;
    clearTimeout(this.#sourceTimer);
    const after = this.#lastId === null ? "" : `?after=${this.#lastId}`;
    const source = new EventSource(`/api/ds4/v1/events${after}`);
    this.#source = source;
    source.addEventListener("open", () => {
      this.#sourceFails = 0;
      this.on.live(true);
      if (after === "") this.on.missed();
    });
    source.addEventListener("error", () => this.#onSourceError(source));
    for (const name of ["alert", "action", "hold", "silence", "worker", "audit"]) {
      source.addEventListener(name, (event) => this.#onEvent(event));
    }
    for (const name of ["reset", "dropped"]) {
      source.addEventListener(name, (event) => {
        if (event.lastEventId) this.#lastId = event.lastEventId;
        this.on.missed();
      });
    }
  }

  #onEvent(event) {
    this.#lastId = event.lastEventId;
    this.on.event(JSON.parse(event.data));
    this.soon();
  }

  // The browser comes back by itself, unless it was refused; then we do, ever more seldom.
  #onSourceError(source) {
    this.on.live(false);
    if (source.readyState !== EventSource.CLOSED || source !== this.#source) return;
    this.#source = null;
    this.#sourceFails += 1;
    const wait = Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** this.#sourceFails);
    this.#sourceTimer = setTimeout(() => this.#listen(), wait);
  }

  #listenNoMore() {
    clearTimeout(this.#sourceTimer);
    this.#source?.close();
    this.#source = null;
    this.on.live(false);
  }
}
