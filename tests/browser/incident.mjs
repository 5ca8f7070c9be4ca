// Opens the page and finds culprit and victim without a click. tests/browser.rs plants the incident.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { launch, settled, violations } from './chromium.mjs';

const { ADDRESS, CULPRIT, VICTIM, PICTURES } = process.env;
const SIZES = [['wide', 1280, 1000], ['narrow', 800, 1000], ['phone', 390, 844]];

const { browser, end } = await launch();
const page = await browser.newPage();
await page.goto(ADDRESS);
for (const theme of ['light', 'dark']) {
  await page.emulateMedia({ colorScheme: theme });
  for (const [name, width, height] of SIZES) {
    const where = `${name}, ${theme}`;
    await page.setViewportSize({ width, height });
    // As a user opens it: the address has no range.
    await page.goto(new URL('/', ADDRESS).href);
    await settled(page);
    const verdict = page.getByRole('region', { name: 'What was slow' });
    await verdict.getByRole('link').first().waitFor();
    const said = await verdict.innerText();
    assert.ok(said.includes(CULPRIT) && said.includes(VICTIM), `${where}: ${said}`);
    const files = page.locator('section.figure').filter({ has: page.getByRole('heading', { name: 'Files', exact: true }) });
    const first = (await files.locator('td[data-column="path"]').allInnerTexts()).slice(0, 10);
    assert.ok(first.includes(CULPRIT) && first.includes(VICTIM), `${where}: ${first}`);
    assert.ok((await page.locator('.u-over').first().boundingBox()).y < height, `${where}: the first picture is below the screen`);
    assert.deepEqual(await violations(page), [], where);
    if (PICTURES !== undefined) {
      await page.evaluate(() => scrollTo(0, 0));
      await page.screenshot({ path: join(PICTURES, `page-${name}-${theme}.png`) });
    }
  }
}
await end();
