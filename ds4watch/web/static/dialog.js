// What a person is asked before something is done, and what they are told afterwards.

import { byId, make, setText } from "./dom.js";

const TOLD_MS = 6000;
const MOST_TOLD = 3;

// Says what came of something, without taking the focus.
export function tell(text, tone = "good") {
  const told = make("p", `toast ${tone}`, text);
  const place = byId("toasts");
  place.append(told);
  while (place.children.length > MOST_TOLD) place.firstElementChild.remove();
  setTimeout(() => told.remove(), TOLD_MS);
}

function choice(label, options, chosen) {
  const wrapper = make("label", "field", label);
  const select = make("select");
  for (const [value, text] of options) {
    const option = make("option", "", text);
    option.value = value;
    option.selected = value === chosen;
    select.append(option);
  }
  wrapper.append(select);
  return [wrapper, select];
}

function reason() {
  const wrapper = make("label", "field", "Why (it goes into the audit)");
  const input = make("input");
  Object.assign(input, { type: "text", maxLength: 400, required: true, autocomplete: "off" });
  input.value = "from the status page";
  wrapper.append(input);
  return [wrapper, input];
}

// Asks; returns {why, and what was chosen by name}, or null if it is not to be.
// choices: [{name, label, options: [[value, text], …], chosen}]
export function question({ title, text, verb, tone = "", choices = [] }) {
  const dialog = byId("dialog");
  setText("dialog-title", title);
  setText("dialog-text", text ?? "");
  const selects = choices.map((it) => [it.name, ...choice(it.label, it.options, it.chosen)]);
  const [field, input] = reason();
  byId("dialog-fields").replaceChildren(...selects.map(([, wrapper]) => wrapper), field);
  const go = byId("dialog-go");
  setText(go, verb);
  go.className = `primary ${tone}`;
  return new Promise((resolve) => {
    const form = byId("dialog-form");
    const onGo = (event) => {
      event.preventDefault();
      dialog.close("go");
    };
    const onClose = () => {
      form.removeEventListener("submit", onGo);
      const chosen = Object.fromEntries(selects.map(([name, , select]) => [name, select.value]));
      resolve(dialog.returnValue === "go" ? { ...chosen, why: input.value.trim() } : null);
    };
    form.addEventListener("submit", onGo);
    dialog.addEventListener("close", onClose, { once: true });
    dialog.returnValue = "";
    dialog.showModal();
    go.focus();
  });
}

byId("dialog-no").addEventListener("click", () => byId("dialog").close(""));
