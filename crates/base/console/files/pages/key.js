// A key: which servers routers ask for it, and by which generation.

import { command, h, name as shown, visible } from "../dom.js";

export const title = (/** @type {string} */ name) => (name ? "Key " + name : "Key");
/** @returns {Record<string, string>} */
export const reads = (/** @type {string} */ name) => (name ? { why: "/v1/why?key=" + encodeURIComponent(name) } : {});

/** @param {Record<string, any>} documents @param {string} name */
export function draw({ why }, name) {
  if (!name) return [h("h1", {}, "Key"), h("p", { class: "empty" }, "Type a key above, or press /. It is shown which servers routers ask for it.")];
  const quoted = "'" + name.replaceAll("'", "'\\''") + "'";
  return [h("h1", {}, "Key ", shown(name)), h("pre", { class: "wide", tabindex: 0 }, visible(why.text.replaceAll("\n", "\u0000")).replaceAll("\\u{0}", "\n")), h("p", {}, command("evenkeel control why " + quoted))];
}
