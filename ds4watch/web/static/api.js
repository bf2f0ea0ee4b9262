// Asking the daemon. Writes go with the session's cookie and the page's own origin, which is what
// the daemon wants of them.

const API = "/api/ds4/v1";
const TIMEOUT_MS = 5000;

// One that gives no answer at all has status 0, so that it is told from a fault of the page's own.
async function fetched(path, options) {
  const signal = AbortSignal.timeout(TIMEOUT_MS);
  try {
    const answer = await fetch(path, { ...options, cache: "no-store", signal });
    const text = await answer.text(); // it may stop in the middle of its answer, too
    return { answer, text };
  } catch (error) {
    throw Object.assign(new Error("the daemon does not answer", { cause: error }), { status: 0 });
  }
}

function problemOf(text) {
  try {
    return JSON.parse(text) ?? {};
  } catch {
    return {};
  }
}

async function answerOf(path, options = {}) {
  const { answer, text } = await fetched(path, options);
  if (answer.ok) return text === "" ? null : JSON.parse(text);
  const told = problemOf(text);
  const detail = told.detail ?? told.error ?? `it answers with ${answer.status}`;
  throw Object.assign(new Error(detail), { status: answer.status });
}

export const ask = (path) => answerOf(API + path);

export function send(method, path, body) {
  const headers = body === undefined ? {} : { "Content-Type": "application/json" };
  const text = body === undefined ? undefined : JSON.stringify(body);
  return answerOf(API + path, { method, headers, body: text });
}

// Returns [{labels, values: [[at, value], …]}]; what is no number is null.
export async function queryRange(query, start, end, step) {
  const asked = new URLSearchParams({ query, start, end, step });
  const answer = await answerOf(`/api/v1/query_range?${asked}`);
  return answer.data.result.map((series) => ({
    labels: series.metric,
    values: series.values.map(([at, text]) => {
      const value = Number(text);
      return [at, Number.isFinite(value) ? value : null];
    }),
  }));
}

const LOOKS = 20;
const LOOK_MS = 250;

// A command is a row; this waits for what comes of it. Returns the row, done, refused or waiting.
export async function settled(command) {
  let found = command;
  for (let look = 0; look < LOOKS && found.status === "waiting"; look += 1) {
    await new Promise((resolve) => { setTimeout(resolve, LOOK_MS); });
    found = await ask(`/commands/${command.id}`);
  }
  return found;
}
