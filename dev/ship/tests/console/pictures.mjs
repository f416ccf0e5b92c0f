// Pictures of pages, for the documentation.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { madeFleet } from "./made.mjs";
import { withPalette } from "./palette.mjs";

/** A page of the documentation has several of them. */
const LEN_MAX = 60_000;

/** Time in which the page of a process sees something: two minutes of a heat map. */
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
    ["fleet", `${madeAt}#/`, "light", 1000, 0],
    ["cluster", `${madeAt}#/cluster/ads`, "light", 700, 0],
    ["server", `${madeAt}#/server/ads-m3`, "dark", 760, 0],
    ["routers", `${madeAt}#/routers`, "light", 480, 0],
    ["host", `${madeAt}#/host/host-3`, "light", 870, 0],
    ["key", `${madeAt}#/key/user:1`, "dark", 280, 0],
    ["change", `${madeAt}#/change/7`, "light", 390, 0],
    ["history", `${madeAt}#/history`, "light", 640, 0],
    ["lab", `${madeAt}#/lab`, "dark", 740, 0],
    ["one-server", at.server, "light", 1100, SEEN_MS],
    ["one-router", at.router, "dark", 1100, SEEN_MS],
  ];
  // One after the other: a tab that is not seen asks nothing.
  for (const [name, address, scheme, height, seen] of shots) {
    const page = await browser.newPage();
    await page.setViewport({ width: 1200, height });
    await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
    await page.goto(address);
    await page.waitForSelector("#main h1");
    await new Promise((done) => setTimeout(done, seen));
    // Of the page of a process, what the pictures of the fleet do not show: below the courses.
    const y = seen ? await page.evaluate(() => document.querySelector("#main h2").getBoundingClientRect().top - 16) : 0;
    const picture = withPalette(await page.screenshot({ clip: { x: 0, y, width: 1200, height } }));
    if (picture.length > LEN_MAX) throw new Error(`${name} has ${picture.length} bytes, at most ${LEN_MAX}`);
    writeFileSync(join(folder, name + ".png"), picture);
    await page.close();
  }
  await made.end();
}
