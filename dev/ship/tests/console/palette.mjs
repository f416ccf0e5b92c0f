// Small pictures: a PNG with a palette in place of one with three or four bytes for each pixel.

import { crc32, deflateSync, inflateSync } from "node:zlib";

const SIGNATURE = Buffer.from([137, 80, 78, 71, 13, 10, 26, 10]);
/** Colours of a palette. A page has few, and the shades at the edges of its letters. */
const COLOURS_MAX = 128;
/** So many of them are the most frequent ones. The others are those that the palette lacks most, so that a red word stays red. */
const FREQUENT = 32;

/**
 * The same picture with a palette: its most frequent colours, and for each other one the nearest of them.
 * @param {Uint8Array} png Eight bits a channel, without interlacing, as browsers write it.
 * @returns {Buffer}
 */
export function withPalette(png) {
  const { width, height, channels, pixels } = decoded(Buffer.from(png));
  /** @type {Map<number, number>} */
  const counts = new Map();
  const colours = new Uint32Array(width * height);
  for (let at = 0; at < colours.length; at += 1) {
    const from = at * channels;
    const colour = (pixels[from] << 16) | (pixels[from + 1] << 8) | pixels[from + 2];
    colours[at] = colour;
    counts.set(colour, (counts.get(colour) ?? 0) + 1);
  }
  const palette = chosen(counts);
  const places = new Map([...counts.keys()].map((colour) => [colour, nearest(palette, colour)]));
  const rows = Buffer.alloc((width + 1) * height);
  for (let y = 0; y < height; y += 1) for (let x = 0; x < width; x += 1) rows[y * (width + 1) + 1 + x] = places.get(colours[y * width + x]);
  const head = Buffer.alloc(13);
  head.writeUInt32BE(width, 0);
  head.writeUInt32BE(height, 4);
  // Eight bits a pixel, by a palette.
  head.set([8, 3, 0, 0, 0], 8);
  const table = Buffer.from(palette.flatMap((colour) => [colour >> 16, (colour >> 8) & 255, colour & 255]));
  return Buffer.concat([SIGNATURE, chunk("IHDR", head), chunk("PLTE", table), chunk("IDAT", deflateSync(rows, { level: 9 })), chunk("IEND", Buffer.alloc(0))]);
}

/** The colours of a palette. @param {Map<number, number>} counts How many pixels have each colour. */
function chosen(counts) {
  const palette = [...counts].sort((one, other) => other[1] - one[1]).slice(0, FREQUENT).map(([colour]) => colour);
  const far = new Map([...counts.keys()].map((colour) => [colour, Math.min(...palette.map((one) => distance(one, colour)))]));
  while (palette.length < Math.min(COLOURS_MAX, counts.size)) {
    // Large surfaces do not count for more than a word does.
    const lack = (/** @type {number} */ colour) => (far.get(colour) ?? 0) * Math.sqrt(counts.get(colour) ?? 0);
    const most = [...counts.keys()].reduce((one, other) => (lack(other) > lack(one) ? other : one));
    palette.push(most);
    for (const [colour, least] of far) far.set(colour, Math.min(least, distance(most, colour)));
  }
  return palette;
}

/** @param {number} one @param {number} other */
function distance(one, other) {
  return [16, 8, 0].reduce((sum, shift) => sum + (((one >> shift) & 255) - ((other >> shift) & 255)) ** 2, 0);
}

/** @param {number[]} palette @param {number} colour */
function nearest(palette, colour) {
  return palette.reduce((best, one, at) => (distance(one, colour) < distance(palette[best], colour) ? at : best), 0);
}

/** @param {Buffer} png */
function decoded(png) {
  const [width, height] = [png.readUInt32BE(16), png.readUInt32BE(20)];
  const channels = { 2: 3, 6: 4 }[png[25]];
  if (png[24] !== 8 || !channels || png[28] !== 0) throw new Error("expected a PNG with eight bits of red, green and blue, without interlacing");
  const parts = [];
  for (let at = SIGNATURE.length; at < png.length; at += 12 + png.readUInt32BE(at)) {
    const body = png.subarray(at + 8, at + 8 + png.readUInt32BE(at));
    if (png.toString("latin1", at + 4, at + 8) === "IDAT") parts.push(body);
  }
  const packed = inflateSync(Buffer.concat(parts));
  const len = width * channels;
  const pixels = Buffer.alloc(len * height);
  for (let y = 0; y < height; y += 1) {
    const filter = packed[y * (len + 1)];
    for (let x = 0; x < len; x += 1) {
      const here = y * len + x;
      const left = x >= channels ? pixels[here - channels] : 0;
      const up = y ? pixels[here - len] : 0;
      const corner = y && x >= channels ? pixels[here - len - channels] : 0;
      pixels[here] = packed[y * (len + 1) + 1 + x] + [0, left, up, (left + up) >> 1, paeth(left, up, corner)][filter];
    }
  }
  return { width, height, channels, pixels };
}

/** Of these three, the nearest to left + up - corner: the PNG specification, 9.4. */
function paeth(left, up, corner) {
  const guess = left + up - corner;
  const [toLeft, toUp, toCorner] = [left, up, corner].map((one) => Math.abs(guess - one));
  if (toLeft <= toUp && toLeft <= toCorner) return left;
  return toUp <= toCorner ? up : corner;
}

/** @param {string} name @param {Buffer} body */
function chunk(name, body) {
  const named = Buffer.concat([Buffer.from(name, "latin1"), body]);
  const [len, sum] = [Buffer.alloc(4), Buffer.alloc(4)];
  len.writeUInt32BE(body.length);
  sum.writeUInt32BE(crc32(named));
  return Buffer.concat([len, named, sum]);
}
