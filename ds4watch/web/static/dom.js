// Building and mending the document. All text goes in by textContent: nothing that a worker says
// becomes markup.

const SVG = "http://www.w3.org/2000/svg";

export const byId = (id) => document.getElementById(id);

export function make(tag, className, text) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  return element;
}

export function tag(text, tone = "") {
  return make("span", `tag ${tone}`, text);
}

export function button(text, onClick, className = "") {
  const element = make("button", className, text);
  element.type = "button";
  element.addEventListener("click", onClick);
  return element;
}

export function svg(name, attributes = {}, ...children) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

// Writing the same again would make screen readers say it again, and cost a layout.
export function setText(element, text) {
  const found = typeof element === "string" ? byId(element) : element;
  if (found.textContent !== text) found.textContent = text;
}

export function setClass(element, className) {
  const found = typeof element === "string" ? byId(element) : element;
  if (found.className !== className) found.className = className;
}

export function setHidden(element, isHidden) {
  const found = typeof element === "string" ? byId(element) : element;
  if (found.hidden !== isHidden) found.hidden = isHidden;
}

export function setAttribute(element, name, value) {
  if (element.getAttribute(name) !== value) element.setAttribute(name, value);
}

// Children by key: one that stays keeps its place, its focus and its open menus.
export function keyed(parent, items, keyOf, create, update) {
  const had = new Map([...parent.children].map((child) => [child.dataset.key, child]));
  let place = parent.firstElementChild;
  for (const item of items) {
    const key = String(keyOf(item));
    let child = had.get(key);
    had.delete(key);
    if (!child) {
      child = create(item);
      child.dataset.key = key;
    }
    if (child === place) place = place.nextElementSibling;
    else parent.insertBefore(child, place);
    update(child, item);
  }
  for (const child of had.values()) child.remove();
}

// For what has nothing in it to keep: made anew only when `key` is another.
const drawn = new WeakMap();

export function redraw(element, key, children) {
  if (drawn.get(element) === key) return;
  drawn.set(element, key);
  element.replaceChildren(...children());
}

export function table(head, rows, name) {
  const found = make("table");
  found.setAttribute("aria-label", name);
  const line = make("tr");
  line.append(...head.map((text) => {
    const cell = make("th", "", text);
    cell.scope = "col";
    return cell;
  }));
  const top = make("thead");
  top.append(line);
  const body = make("tbody");
  for (const row of rows) {
    const made = make("tr");
    made.append(...row.map((text) => make("td", "", text)));
    body.append(made);
  }
  found.append(top, body);
  return found;
}
