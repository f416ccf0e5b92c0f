// Pictures of pages, for the documentation.

import { join } from "node:path";
import { madeFleet } from "./made.mjs";

/** Time in which pages of one process see something: two minutes of a heat map. */
const SEEN_MS = 120_000;

/**
 * @param {any} browser
 * @param {any} at Where the pages are.
 * @param {string} folder
 */
export async function takePictures(browser, at, folder) {
  const made = madeFleet(at.files, at.headers, []);
  const madeAt = `http://127.0.0.1:${await made.start()}/`;
  const shots = [
    ["fleet", `${madeAt}#/`, "light", 900],
    ["cluster", `${at.fleet}#/cluster/cache`, "dark", 420],
    ["server", `${at.fleet}#/server/server-1`, "light", 640],
    ["routers", `${at.fleet}#/routers`, "dark", 360],
    ["one-server", at.server, "light", 1500],
    ["one-router", at.router, "dark", 1500],
  ];
  const pages = [];
  for (const [name, address, scheme, height] of shots) {
    const page = await browser.newPage();
    await page.setViewport({ width: 1200, height });
    await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
    await page.goto(address);
    pages.push([name, page]);
  }
  await new Promise((done) => setTimeout(done, SEEN_MS));
  for (const [name, page] of pages) {
    await page.bringToFront();
    await page.screenshot({ path: join(folder, name + ".png"), optimizeForSpeed: false });
    await page.close();
  }
  await made.end();
}
