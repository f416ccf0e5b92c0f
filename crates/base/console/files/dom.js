// Elements without markup: whatever comes from a fleet is text, never HTML.

const SVG = "http://www.w3.org/2000/svg";

/**
 * An element. `null` attributes and children are left out.
 * @param {string} name
 * @param {Record<string, any>} [attributes] A function is a listener of the event with this name.
 * @param {...any} children Elements, texts, numbers, or lists of them.
 * @returns {HTMLElement}
 */
export function h(name, attributes = {}, ...children) {
  return /** @type {HTMLElement} */ (fill(document.createElement(name), attributes, children));
}

/**
 * The same of a drawing.
 * @param {string} name
 * @param {Record<string, any>} [attributes]
 * @param {...any} children
 * @returns {SVGElement}
 */
export function svg(name, attributes = {}, ...children) {
  return /** @type {SVGElement} */ (fill(document.createElementNS(SVG, name), attributes, children));
}

/**
 * @param {Element} element
 * @param {Record<string, any>} attributes
 * @param {any[]} children
 * @returns {Element}
 */
function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name, value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : String(child));
  }
  return element;
}

/**
 * A name of the fleet's or of a client's. It keeps its own direction, so that it changes nothing of the text around it.
 * @param {string} text
 * @returns {HTMLElement}
 */
export function name(text) {
  return h("bdi", { class: "name", title: text }, visible(text));
}

/**
 * A text whose invisible letters are seen: control characters, and those that change the direction of others.
 * @param {string} text
 * @returns {string}
 */
export function visible(text) {
  const hidden = /[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;
  return text.replace(hidden, (letter) => "\\u{" + letter.charCodeAt(0).toString(16) + "}");
}

/**
 * A command to type, with a button that copies it.
 * @param {string} text
 * @returns {HTMLElement}
 */
export function command(text) {
  const button = h("button", { type: "button", class: "copy", "aria-label": "Copy the command: " + text }, "Copy");
  button.addEventListener("click", async () => {
    button.textContent = (await copied(text)) ? "Copied" : "Select and copy it";
    setTimeout(() => (button.textContent = "Copy"), 2000);
  });
  return h("span", { class: "command" }, h("code", {}, visible(text)), button);
}

/**
 * @param {string} text
 * @returns {Promise<boolean>}
 */
async function copied(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // Browsers lend the clipboard to pages of this host and to those over TLS only.
    return false;
  }
}
