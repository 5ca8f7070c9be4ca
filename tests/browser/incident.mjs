// Opens the page on a planted incident and finds culprit and victim without a click. tests/browser.rs plants it.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { answerOf, launch, rowsOf, settled, tableOf, violations } from './chromium.mjs';

/** `CULPRIT` and `VICTIM` begin the paths of files; empty where there is none. Without `SLOW`, nothing was; with `TRANSFERS`, the culprit reads or writes. */
const { ADDRESS, CAUSE, CULPRIT, VICTIM, SLOW, TRANSFERS, EVERY, PICTURES } = process.env;
/** Sizes of screens and themes. Only `EVERY` looks at all of them. */
const [WIDE, NARROW, PHONE] = [['wide', 1280, 1000], ['narrow', 800, 1000], ['phone', 390, 844]];
const FIRST = [[...WIDE, 'light'], [...PHONE, 'dark']];
const VIEWS = EVERY ? [...FIRST, [...WIDE, 'dark'], [...NARROW, 'light'], [...NARROW, 'dark'], [...PHONE, 'light']] : FIRST;

const { browser, end } = await launch();
const page = await browser.newPage();
await page.goto(ADDRESS);
const files = page.locator('section.figure').filter({ has: page.getByRole('heading', { name: 'Files', exact: true }) });
const verdict = page.getByRole('region', { name: 'What was slow' });

/** The verdict names both, and is what the command answers. */
async function isSaid(where) {
  if (!SLOW) {
    await verdict.getByText('Nothing was slow in this range.').waitFor();
    return;
  }
  await verdict.getByRole('link').first().waitFor();
  const [first] = await verdict.locator('p').allInnerTexts();
  for (const part of [CAUSE, CULPRIT, VICTIM]) {
    assert.ok(first.includes(part), `${where}: ${first} lacks ${part}`);
  }
  const [answer] = rowsOf(await verdict.locator('button.copy').getAttribute('title'), 'why');
  assert.ok(first.endsWith(answer.text), `${where}: ${first} is not ${answer.text}`);
}

/** Both are among the first ten files, whose figures are what the command answers. */
async function isListed(where) {
  const rows = await tableOf(files);
  const first = rows.slice(0, 10).map((row) => row.path);
  for (const begin of TRANSFERS ? [CULPRIT, VICTIM] : [VICTIM]) {
    assert.ok(first.some((path) => path.startsWith(begin)), `${where}: ${begin} is not in ${first.join(', ')}`);
  }
  const answer = await answerOf(files);
  const columns = Object.keys(rows[0]);
  assert.deepEqual(rows, answer.map((row) => Object.fromEntries(columns.map((name) => [name, String(row[name] ?? '')]))), where);
}

for (const [name, width, height, theme] of VIEWS) {
  const where = `${name}, ${theme}`;
  await page.emulateMedia({ colorScheme: theme });
  await page.setViewportSize({ width, height });
  // As a user opens it: the address has no range.
  await page.goto(new URL('/', ADDRESS).href);
  await settled(page);
  await isSaid(where);
  await isListed(where);
  assert.ok((await page.locator('.u-over').first().boundingBox()).y < height, `${where}: the first picture is below the screen`);
  assert.deepEqual(await violations(page), [], where);
  if (PICTURES !== undefined) {
    await page.evaluate(() => scrollTo(0, 0));
    await page.screenshot({ path: join(PICTURES, `page-${name}-${theme}.png`) });
  }
}
await end();
