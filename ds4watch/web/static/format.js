// How values read. A dash means "not reported", which is not zero.

export const DASH = "–";
export const isNumber = (value) => typeof value === "number" && Number.isFinite(value);

export function number(value, digits = 4) {
  if (!isNumber(value)) return DASH;
  if (Number.isInteger(value)) return value.toLocaleString("en");
  return value.toLocaleString("en", { maximumSignificantDigits: digits });
}

export const percent = (value) => (isNumber(value) ? `${(value * 100).toFixed(1)}\u00a0%` : DASH);
export const seconds = (value) => (isNumber(value) ? `${number(value, 3)}\u00a0s` : DASH);
export const gib = (value) => (isNumber(value) ? `${(value / 2 ** 30).toFixed(1)}\u00a0GiB` : DASH);

// A rate is shown to the whole: its decimals are noise.
export const rate = (value) => (isNumber(value) ? Math.round(value).toLocaleString("en") : DASH);

export function valueOf(name, value) {
  if (name.includes("_ratio")) return percent(value);
  if (name.includes("_bytes")) return gib(value);
  return number(value);
}

export function clock(at) {
  if (!isNumber(at)) return DASH;
  const date = new Date(at * 1000);
  const isToday = date.toDateString() === new Date().toDateString();
  const time = date.toLocaleTimeString("en-GB");
  return isToday ? time : `${date.toLocaleDateString("en-CA")} ${time}`;
}

export function hourMinute(at) {
  return new Date(at * 1000).toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" });
}

export function span(value) {
  if (!isNumber(value)) return DASH;
  const whole = Math.max(0, Math.round(value));
  if (whole < 120) return `${whole}\u00a0s`;
  if (whole < 7200) return `${Math.floor(whole / 60)}\u00a0min`;
  if (whole < 172800) return `${Math.floor(whole / 3600)}\u00a0h`;
  return `${Math.floor(whole / 86400)}\u00a0d`;
}

export function money(amount, currency) {
  if (amount === null || amount === undefined) return DASH;
  const value = Number(amount);
  if (!Number.isFinite(value)) return DASH;
  const small = Math.abs(value) < 1 && value !== 0;
  return `${value.toFixed(small ? 4 : 2)}\u00a0${currency ?? ""}`.trim();
}

export const nanos = (amount, currency) => money(amount / 1e9, currency);
export const words = (name) => name.replaceAll("_", " ");

const PHASE_TONE = { ready: "good", failed: "bad", quarantined: "bad", unknown: "bad" };
export const phaseTone = (phase) => PHASE_TONE[phase] ?? "warn";

const SEVERITY_TONE = { critical: "bad", warning: "warn", info: "info" };
export const severityTone = (severity) => SEVERITY_TONE[severity] ?? "";
