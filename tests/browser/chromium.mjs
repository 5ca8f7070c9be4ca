// Drives Chromium for tests, and runs axe on pages.
import { mkdtempSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const require = createRequire(new URL('../../web/package.json', import.meta.url));
const { chromium } = require('playwright-core');
const axe = require('axe-core');

const FLAGS = [
  '--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync',
];

/** A browser of its own, with more flags; `end` closes it and removes its files, which are in `profile`. */
export async function launch(...flags) {
  const profile = mkdtempSync(join(tmpdir(), 'trackiops-browser-'));
  const browser = await chromium.launchPersistentContext(profile, {
    executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
    args: [...FLAGS, ...flags],
    viewport: { width: 1280, height: 900 },
    timeout: 120_000,
  });
  browser.setDefaultTimeout(60_000);
  const end = async () => {
    await browser.close();
    rmSync(profile, { recursive: true, force: true });
  };
  return { browser, profile, end };
}

/** What axe finds in a page as it is. */
export async function violations(page) {
  await page.evaluate(axe.source);
  const { violations: all } = await page.evaluate(() => window.axe.run());
  return all.map((of) => `${of.id}: ${of.help}: ${of.nodes.map((node) => node.html.slice(0, 200)).join(' | ')}`);
}

/** Waits until nothing is loading. */
export async function settled(page) {
  await page.waitForFunction(() => document.querySelector('section.figure') !== null && document.querySelector('[aria-busy="true"]') === null);
  await page.waitForTimeout(150);
}
