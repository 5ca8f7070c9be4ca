// Drives Chromium for tests, runs axe on pages, and asks the command what they show.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
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

/** Rows of a table, as raw values; one that says that there are none is not among them. */
export const tableOf = (section) =>
  section.locator('tbody tr').evaluateAll((rows) => rows.map((row) => [...row.querySelectorAll('td[data-column]')]).filter((cells) => cells.length > 0).map((cells) => Object.fromEntries(cells.map((cell) => [cell.dataset.column, cell.dataset.value]))));

/** What the command answers, as a page offers to copy it. `TRACKIOPS` and `STORE` of the environment are the program and the store. */
export function rowsOf(command, name) {
  assert.ok(command.startsWith(`trackiops ${name}`), command);
  // The line as a shell reads it, with the program, the store and a format added.
  const line = `${command.replace(/^trackiops/, '"$TRACKIOPS"')} --json --store "$STORE"`;
  const { status, stdout } = spawnSync('/bin/sh', ['-c', line], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'], maxBuffer: 64 << 20 });
  // Status 1: nothing matched.
  assert.ok(status === 0 || status === 1, `${line}: ${status}`);
  return stdout.split('\n').filter((one) => one !== '').map((one) => JSON.parse(one));
}

/** The same for a picture or a table. */
export const answerOf = async (section) => rowsOf(await section.locator('button.copy').getAttribute('title'), 'query ');
