// Measures pages of `trackiops serve` in Chromium, and prints a Markdown table. bench/page.sh starts it.
import { mkdtempSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const require = createRequire(new URL('../web/package.json', import.meta.url));
const { chromium } = require('playwright-core');

const { ADDRESS, HOURS, ROUNDS } = process.env;
const origin = new URL(ADDRESS).origin;
/** bench/day begins there. */
const BEGIN = Date.parse('2026-01-01T00:00:00Z');
const RANGE = `since=${new Date(BEGIN).toISOString()}&until=${new Date(BEGIN + HOURS * 3_600_000).toISOString()}`;
/** Half of the range each time. */
const ZOOMS = 8;

const profile = mkdtempSync(join(tmpdir(), 'trackiops-browser-'));
const browser = await chromium.launchPersistentContext(profile, {
  executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
  args: ['--headless', '--no-sandbox', '--disable-gpu', '--disable-background-networking', '--disable-component-update', '--disable-sync'],
  viewport: { width: 1280, height: 900 },
});
browser.setDefaultTimeout(120_000);
const page = await browser.newPage();

/** In the page: when the first figure was drawn and when all were, since it was opened or since `begin`. */
const drawn = (begin) =>
  page.evaluate(async (begin) => {
    const frame = () => new Promise((next) => requestAnimationFrame(next));
    const since = begin ?? 0;
    let picture = null;
    for (;;) {
      await frame();
      const figures = [...document.querySelectorAll('section.figure')];
      const isBusy = (figure) => figure.getAttribute('aria-busy') === 'true';
      // The page draws the quick answer while it requests one with shorter windows.
      if (picture === null && performance.getEntriesByType('resource').some((entry) => entry.name.includes('/api/v1/series?'))) {
        await frame();
        picture = performance.now() - since;
      }
      if (picture !== null && figures.length > 0 && !figures.some(isBusy)) {
        await frame();
        return { picture, all: performance.now() - since };
      }
    }
  }, begin);

/** Presses a key that changes the range. */
const press = async (key) => {
  const { begin, picture } = await page.evaluate(async (key) => {
    const canvases = () => [...document.querySelectorAll('section.figure:first-of-type canvas')].map((canvas) => canvas.toDataURL()).join();
    const before = canvases();
    const begin = performance.now();
    document.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true }));
    let picture = null;
    // The page marks itself busy once it has rendered.
    for (let i = 0; i < 2 || picture === null; i += 1) {
      await new Promise((next) => requestAnimationFrame(next));
      picture ??= canvases() === before ? null : performance.now() - begin;
    }
    return { begin, picture };
  }, key);
  return { ...(await drawn(begin)), picture };
};

const length = (ms) => (ms >= 3_600_000 ? `${ms / 3_600_000} h` : `${Math.round(ms / 6000) / 10} min`);
const taken = new Map();
const note = (name, { picture, all }) => {
  const of = taken.get(name) ?? taken.set(name, { picture: [], all: [] }).get(name);
  of.picture.push(picture);
  of.all.push(all);
};

await page.goto(ADDRESS);
const { rows } = await page.evaluate(async (range) => (await fetch(`/api/v1/top?${range}&top=1`)).json(), RANGE);
const pages = { Overview: '/?', 'Files over time': '/files?', File: `/file?file=${encodeURIComponent(rows[0].path)}&` };
const protocol = await page.context().newCDPSession(page);
for (let round = 0; round < Number(ROUNDS); round += 1) {
  await protocol.send('Network.clearBrowserCache');
  for (const [name, path] of Object.entries(pages)) {
    await page.goto(`${origin}${path}${RANGE}`);
    note(`${name}, opened | ${HOURS} h`, await drawn());
    for (let zoom = 1; zoom <= ZOOMS; zoom += 1) {
      note(`${name}, zoomed to | ${length((HOURS * 3_600_000) / 2 ** zoom)}`, await press('+'));
    }
    note(`${name}, moved by a quarter | ${length((HOURS * 3_600_000) / 2 ** ZOOMS)}`, await press('ArrowRight'));
  }
}
await browser.close();
rmSync(profile, { recursive: true, force: true });

const spread = (times) => {
  const sorted = [...times].sort((a, b) => a - b);
  return `${Math.round(sorted[Math.floor(sorted.length / 2)])} (${Math.round(sorted.at(-1))})`;
};
console.log('| page | range | picture | all |\n|---|---|---|---|');
for (const [name, { picture, all }] of taken) {
  console.log(`| ${name} | ${spread(picture)} | ${spread(all)} |`);
}
