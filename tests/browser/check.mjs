// Compares what `trackiops serve` shows in a browser with the answers of the command. tests/browser.rs starts it.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { answerOf, launch, settled as settledOf, tableOf, violations as violationsOf } from './chromium.mjs';

const { ADDRESS, TRACKIOPS, STORE, KNOWN } = process.env;
const origin = new URL(ADDRESS).origin;
/** Where this machine reaches that: a guest's address is forwarded from another one. */
const reached = new URL(origin);
reached.hostname = process.env.REACHED ?? reached.hostname;
const token = new URL(ADDRESS).searchParams.get('token');

/** Of a recorder that runs, what is older than this was sealed: until then a mean comes from nanoseconds, and then from microseconds. */
const SEALED_MS = 30_000;

/** The range and a file: those of the test's own recording, or of all that another store has. */
const question = async () => {
  const { SINCE, UNTIL } = process.env;
  if (SINCE !== undefined) {
    return { SINCE, UNTIL, FILE: '/mnt/nfs/db/orders.db', STEP: '10s' };
  }
  const get = async (path) => (await fetch(new URL(`/api/v1/${path}`, reached), { headers: { authorization: `Bearer ${token}` } })).json();
  const { since, until } = await get('meta');
  if (KNOWN === 'files') {
    return { SINCE: since, UNTIL: new Date(Date.parse(until) - SEALED_MS).toISOString(), FILE: '/mnt/nfs/db/orders.db', STEP: '1s' };
  }
  const { rows } = await get(`top?since=${since}&until=${until}&top=20`);
  const named = rows.find((row) => row.path !== null && row.read_requests > 1);
  const minutes = (Date.parse(until) - Date.parse(since)) / 60_000;
  return { SINCE: since, UNTIL: until, FILE: named.path, STEP: minutes > 600 ? '1h' : minutes > 20 ? '1m' : minutes > 2 ? '10s' : '1s' };
};
const { SINCE, UNTIL, FILE, STEP } = await question();
/** How checks begin of a store of which nothing is known, of a running recorder whose files are known, and of the test's own recording. */
const OF_ANY = ['the printed address', 'every page loads', 'every page has rows', 'what a table shows', 'windows of a picture'];
const CHOSEN = { nothing: OF_ANY, files: [...OF_ANY, 'a command is copied', 'windows of a running recorder'], all: [''] }[KNOWN];
/** How long after its end a window may be shown. A guest is emulated, and its clock was set to a second. */
const LATEST_MS = KNOWN === 'files' ? 5000 : 2000;
const RANGE = `since=${SINCE}&until=${UNTIL}`;
const PAGES = [`/?${RANGE}`, `/file?${RANGE}&file=${FILE}`, `/files?${RANGE}`, `/compare?${RANGE}`];
const { browser, profile, end } = await launch(`--host-resolver-rules=MAP ${new URL(origin).hostname} ${reached.hostname}`);

/** Where a report is, which is a page without a server. */
const report = `file://${join(profile, 'incident.html')}`;
const makeReport = (...flags) => execFileSync(TRACKIOPS, ['report', 'incident', '--store', STORE, '--since', SINCE, '--until', UNTIL, '-o', join(profile, 'incident.html'), ...flags]);

/** What went wrong in any page, but for errors that a check expects. */
const wrong = [];
let expected = null;
/** What Chromium says of each page that comes neither from loopback nor by TLS. Nothing else changes there but that nothing can be copied. */
const OF_PLAIN_HTTP = /^console: The Cross-Origin-Opener-Policy header has been ignored/;
const complain = (what) => {
  if (!expected?.test(what) && !(KNOWN === 'files' && OF_PLAIN_HTTP.test(what))) {
    wrong.push(what);
  }
};
const statuses = [];
browser.on('request', (request) => {
  if (new URL(request.url()).origin !== origin && !request.url().startsWith('data:') && request.url().split('#')[0] !== report) {
    complain(`a request to ${request.url()}`);
  }
});
browser.on('response', (response) => statuses.push(response.status()));
browser.on('console', (message) => {
  if (['error', 'warning'].includes(message.type())) {
    complain(`console: ${message.text()}`);
  }
});
browser.on('weberror', (error) => complain(`error: ${error.error().stack}`));
await browser.addInitScript(() => {
  window.shift = 0;
  window.shifted = [];
  new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) {
      window.shift += entry.hadRecentInput ? 0 : entry.value;
      window.shifted.push(...entry.sources.map((source) => source.node?.className || source.node?.nodeName));
    }
  }).observe({ type: 'layout-shift', buffered: true });
  document.addEventListener('securitypolicyviolation', (event) => console.error(`CSP: ${event.violatedDirective} ${event.blockedURI}`));
});

/** A name as the page shows it. */
const visible = (name) => (typeof name === 'string' ? name.replaceAll('\u202e', '\\u{202e}') : name);

let page = await browser.newPage();

const settled = () => settledOf(page);
const open = async (path) => {
  await page.goto(origin + path);
  await settled();
};
/** Opens a page of the report anew. */
const openReport = async (path) => {
  await page.goto('about:blank');
  await page.goto(`${report}#${path}`);
  await settled();
};
/** The words of the address of a report. */
const wordsOfReport = () => new URL(new URL(page.url()).hash.slice(1), origin).searchParams;
const figure = (title) => page.locator('section.figure').filter({ has: page.getByRole('heading', { name: title, exact: true }) });
const words = () => new URL(page.url()).searchParams;
const span = () => Date.parse(words().get('until')) - Date.parse(words().get('since'));

const violations = () => violationsOf(page);
const showTables = async () => {
  for (const button of await page.getByRole('button', { name: 'table', exact: true }).all()) {
    await button.click();
  }
};

const text = (value) => (value === null || value === undefined ? '' : String(value));

const checks = {
  async 'the printed address opens the page, and the token leaves the address'() {
    await page.goto(ADDRESS);
    await settled();
    assert.equal(new URL(page.url()).searchParams.has('token'), false);
    assert.equal(await page.title(), 'TrackIOps');
  },

  async 'every page loads without a shift, fits 360 px, and axe finds nothing, in both themes'() {
    for (const theme of ['light', 'dark']) {
      await page.emulateMedia({ colorScheme: theme });
      for (const width of [1280, 360]) {
        await page.setViewportSize({ width, height: 900 });
        for (const path of PAGES) {
          await open(path);
          const where = `${path}, ${theme}, ${width} px`;
          const { shift, shifted } = await page.evaluate(() => ({ shift: window.shift, shifted: window.shifted }));
          // Web Vitals call this good.
          assert.ok(shift < 0.1, `${where}: ${shifted.join(', ')} shifted by ${shift}`);
          assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `${where}: wider than the window`);
          for (const toggled of [false, true]) {
            if (toggled) {
              await showTables();
            }
            assert.deepEqual(await violations(), [], where);
          }
        }
      }
    }
    await page.emulateMedia({ colorScheme: 'light' });
    await page.setViewportSize({ width: 1280, height: 900 });
  },

  async 'every page has rows of the recorded files'() {
    const [home, file, files, compare] = PAGES;
    for (const [path, column] of [[home, 'path'], [files, 'path'], [compare, 'name']]) {
      await open(path);
      await showTables();
      const shown = await page.locator(`td[data-column="${column}"]`).allTextContents();
      assert.ok(shown.includes(FILE), `${path} shows ${shown.join(', ')}`);
    }
    await open(file);
    await figure('IOPS').getByRole('button', { name: 'table', exact: true }).click();
    assert.ok((await tableOf(figure('IOPS'))).length > 5, file);
    assert.ok((await tableOf(figure('Names over time'))).some((row) => row.name === FILE), file);
  },

  async 'what a table shows is what the command answers'() {
    for (const [by, title] of [['', 'Files'], ['dir', 'Trees'], ['mount', 'Mounts'], ['tenant', 'Tenants'], ['op', 'Operations']]) {
      const others = by === 'op' ? ['&sort=execute_us_max:asc'] : ['&op=read&sort=read_latency_us_p99&where=read_requests%20%3E%201', '&of=calls'];
      for (const more of ['', ...others]) {
        await open(`/?${RANGE}${by === '' ? '' : `&by=${by}`}${more}`);
        const section = figure(title);
        const shown = await tableOf(section);
        const answer = await answerOf(section);
        assert.ok(shown.length > 0 || (KNOWN === 'nothing' && by === 'op'), title);
        const columns = Object.keys(shown[0] ?? {});
        assert.deepEqual(shown, answer.map((row) => Object.fromEntries(columns.map((name) => [name, visible(text(row[name]))]))), `${title}${more}`);
      }
    }
  },

  async 'each connection is shown once, as the command answers, and none of a file'() {
    await open(`/?${RANGE}`);
    const section = figure('Connections');
    const shown = await tableOf(section);
    assert.deepEqual(shown.map((row) => [row.transport, row.mount]), [['tcp-2', ''], ['tcp-1', 'srv:/export']]);
    const answer = await answerOf(section);
    const names = Object.keys(shown[0]).filter((name) => name !== 'mount');
    for (const row of shown) {
      const one = answer.find(({ transport }) => transport === row.transport);
      assert.deepEqual(names.map((name) => row[name]), names.map((name) => text(one[name])));
    }
    await open(`/?${RANGE}&file=${FILE}`);
    assert.equal(await figure('Connections').count(), 0);
    assert.equal(await page.locator('.error').count(), 0);
  },

  async 'windows of a picture are those of the command, and its percentiles come from merged histograms'() {
    for (const path of PAGES.slice(0, 2)) {
      for (const op of ['', 'read', 'write']) {
        await open(`${path}&step=${STEP}${op === '' ? '' : `&op=${op}`}`);
        const title = `Latency of ${{ '': 'reads and writes', read: 'reads', write: 'writes' }[op]}`;
        const section = figure(title);
        await section.getByRole('button', { name: 'table', exact: true }).click();
        const shown = await tableOf(section);
        const prefix = op === '' ? '' : `${op}_`;
        const columns = ['requests', 'latency_us_p50', 'latency_us_p99', 'latency_us_max'].map((name) => prefix + name);
        const answer = await answerOf(section);
        assert.equal(shown.length, answer.length);
        assert.ok(answer.length > 5);
        answer.forEach((row, i) => {
          assert.equal(`${shown[i].time.replace(' ', 'T')}.000Z`, row.time);
          ['requests', 'p50', 'p99', 'max'].forEach((name, n) => {
            assert.ok(Math.abs(Number(shown[i][name]) - row[columns[n]]) < 0.002, `${row.time} ${name}: ${shown[i][name]} and ${row[columns[n]]}`);
          });
        });
      }
    }
  },

  async 'time that was not recorded is shown, in words too'() {
    await open(`/?${RANGE}`);
    await page.getByText('hatched: not recorded').first().waitFor();
    assert.match(await page.locator('.note').first().innerText(), /not recorded/);
  },

  async 'events are listed in words, and in a report as well'() {
    const listed = async () => {
      await page.locator('details.events').waitFor();
      return page.locator('details.events li').allTextContents();
    };
    await open(`/?${RANGE}`);
    const shown = await listed();
    assert.ok(shown.some((text) => text.endsWith('the recorder started')), shown.join(', '));
    makeReport();
    await openReport(`/?${RANGE}`);
    assert.deepEqual(await listed(), shown);
  },

  async 'an address restores what was seen'() {
    await open(`/?${RANGE}`);
    await page.getByRole('button', { name: 'trees' }).click();
    await page.getByRole('combobox', { name: /^op/ }).selectOption('write');
    await settled();
    await page.getByRole('button', { name: 'write max' }).click();
    await page.getByRole('button', { name: 'bytes', exact: true }).click();
    await settled();
    const before = await tableOf(figure('Trees'));
    const address = page.url();
    for (const word of ['by=dir', 'op=write', 'sort=write_latency_us_max', 'measure=bytes', `since=${SINCE}`]) {
      assert.ok(address.includes(word), `${address} lacks ${word}`);
    }
    page = await browser.newPage();
    await page.goto(address);
    await settled();
    assert.deepEqual(await tableOf(figure('Trees')), before);
    assert.equal(await page.getByRole('button', { name: 'bytes', exact: true }).getAttribute('aria-pressed'), 'true');
    assert.equal(await page.getByRole('combobox', { name: /^op/ }).inputValue(), 'write');
  },

  async 'keys alone zoom, move, and go back, and open a file'() {
    await open(`/?${RANGE}`);
    const whole = page.url();
    const length = span();
    await page.keyboard.press('+');
    await page.waitForURL((url) => url.href !== whole);
    assert.equal(span(), length / 2);
    const zoomed = page.url();
    await page.keyboard.press('ArrowLeft');
    await page.waitForURL((url) => url.href !== zoomed);
    assert.equal(span(), length / 2);
    await page.keyboard.press('-');
    assert.equal(span(), length);
    await settled();
    for (let i = 0; i < 3; i += 1) {
      const here = page.url();
      await page.keyboard.press('Escape');
      await page.waitForURL((url) => url.href !== here);
    }
    assert.equal(page.url(), whole);
    await settled();
    const isFile = () => page.evaluate(() => document.activeElement?.closest('td[data-column="path"]') !== null && document.activeElement?.tagName === 'A');
    for (let i = 0; i < 120 && !(await isFile()); i += 1) {
      await page.keyboard.press('Tab');
    }
    assert.ok(await isFile(), 'no link to a file can be reached');
    const outline = await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle);
    assert.notEqual(outline, 'none', 'the focus is not visible');
    await page.keyboard.press('Enter');
    await page.waitForURL(/\/file\?/);
    await settled();
    await page.goBack();
    assert.equal(page.url(), whole);
  },

  async 'dragging zooms, a double click goes back, and so does the browser'() {
    await open(`/?${RANGE}`);
    const whole = page.url();
    const drag = async () => {
      // The browser keeps the scroll position of a page.
      await page.evaluate(() => scrollTo(0, 0));
      const chart = await page.locator('.u-over').first().boundingBox();
      await page.mouse.move(chart.x + chart.width * 0.25, chart.y + 60);
      await page.mouse.down();
      await page.mouse.move(chart.x + chart.width * 0.5, chart.y + 60, { steps: 5 });
      await page.mouse.up();
      await page.getByRole('group', { name: 'The chosen time' }).getByRole('button', { name: 'zoom' }).click();
      await page.waitForURL((url) => url.href !== whole);
    };
    await drag();
    assert.ok(Math.abs(span() - (Date.parse(UNTIL) - Date.parse(SINCE)) / 4) < 5000);
    await settled();
    await page.locator('.u-over').first().dblclick();
    await page.waitForURL(whole);
    await settled();
    await drag();
    await page.goBack();
    await page.waitForURL(whole);
    await page.goForward();
    await page.waitForURL((url) => url.href !== whole);
  },

  async 'a chosen time leads to what changed, and Escape drops it'() {
    await open(`/?${RANGE}`);
    const whole = page.url();
    const choose = async () => {
      const chart = await page.locator('.u-over').first().boundingBox();
      await page.mouse.move(chart.x + chart.width * 0.5, chart.y + 60);
      await page.mouse.down();
      await page.mouse.move(chart.x + chart.width * 0.75, chart.y + 60, { steps: 5 });
      await page.mouse.up();
      await page.getByRole('group', { name: 'The chosen time' }).waitFor();
    };
    await choose();
    await page.keyboard.press('Escape');
    assert.equal(await page.getByRole('group', { name: 'The chosen time' }).count(), 0);
    assert.equal(page.url(), whole);
    await choose();
    await page.getByRole('button', { name: 'what changed here?' }).click();
    await page.waitForURL(/\/compare\?/);
    await settled();
    assert.ok(Math.abs(span() - (Date.parse(UNTIL) - Date.parse(SINCE)) / 4) < 5000);
    assert.ok((await page.locator('.changes li').count()) > 0, 'no changes');
  },

  async 'tables begin with who took most time, and show when'() {
    await open(`/?${RANGE}`);
    const rows = await tableOf(figure('Files'));
    const took = rows.map((row) => Number(row.latency_us_sum));
    assert.deepEqual(took, [...took].sort((a, b) => b - a));
    assert.ok(took[0] > 0);
    assert.ok(rows.every((row) => 'lost_us' in row));
    await figure('Files').locator('svg.course polyline').first().waitFor({ state: 'attached' });
  },

  async 'a part of a name is completed'() {
    await open(`/?${RANGE}`);
    const field = page.getByRole('combobox', { name: 'file' }).first();
    await field.pressSequentially('orders');
    await page.waitForFunction((file) => [...document.querySelectorAll('datalist option')].some((option) => option.value === file), FILE);
    await field.fill(FILE);
    await field.press('Enter');
    await page.waitForURL((url) => url.searchParams.get('file') === FILE);
  },

  async 'the flame graph zooms, also by its table'() {
    await open(`/?${RANGE}`);
    const section = figure('Flame graph of time');
    await section.locator('canvas').click({ position: { x: 40, y: 50 } });
    await page.waitForURL(/frame=/);
    await section.getByRole('button', { name: 'table', exact: true }).click();
    await section.locator('.crumbs button').first().click();
    await page.waitForURL((url) => !url.href.includes('frame='));
    await section.locator('tbody button').first().click();
    await page.waitForURL(/frame=/);
  },

  async 'a cell of the files leads to the file at that time'() {
    await open(`/files?${RANGE}`);
    const canvas = page.locator('.files-map canvas');
    const box = await canvas.boundingBox();
    await canvas.click({ position: { x: box.width * 0.2, y: 9 } });
    await page.waitForURL(/\/file\?/);
    assert.ok(span() < Date.parse(UNTIL) - Date.parse(SINCE));
    await settled();
  },

  async 'a tenant leads to what it did, in every figure'() {
    await open(`/?${RANGE}&by=tenant`);
    await figure('Tenants').locator('tbody a').first().click();
    await settled();
    assert.ok(words().get('tenant') !== null, page.url());
    const section = figure('Files');
    const shown = await tableOf(section);
    const answer = await answerOf(section);
    const columns = Object.keys(shown[0] ?? {});
    assert.ok(columns.length > 0);
    assert.deepEqual(shown, answer.map((row) => Object.fromEntries(columns.map((name) => [name, visible(text(row[name]))]))));
    assert.equal(await page.locator('.error').count(), 0);
  },

  async 'a file is shown with the names that it had'() {
    await open(`/file?${RANGE}&file=0:49:2`);
    const shown = (await tableOf(figure('Names over time'))).map((row) => row.name);
    assert.deepEqual(shown.sort(), ['/mnt/nfs/db/orders.db', '/mnt/nfs/db/orders.new']);
  },

  async 'what changed is ranked by added time, which its parts add up to'() {
    await open(`/compare?${RANGE}`);
    await page.getByRole('button', { name: 'table', exact: true }).click();
    const shown = await tableOf(figure('Added time: what took longer, or more often'));
    const added = shown.map((row) => Number(row.added));
    assert.ok(added.length > 0);
    assert.deepEqual(added, [...added].sort((a, b) => b - a));
    for (const row of shown) {
      const parts = ['queue', 'network', 'completion'].reduce((sum, part) => sum + Number(row[`added_${part}`]), 0);
      assert.ok(Math.abs(parts - Number(row.added)) < 1, JSON.stringify(row));
    }
  },

  async 'names are text, whatever is in them'() {
    await open(`/?${RANGE}`);
    await page.getByText('/mnt/nfs/scratch/<b>bold[\\u{202e}.tmp').first().waitFor();
    assert.equal(await page.locator('td b').count(), 0);
    // A name with pattern characters, and one that reverses text, must each link to exactly that file.
    await page.getByRole('link', { name: 'bold[' }).first().click();
    await settled();
    assert.equal(await page.locator('h1').innerText(), '/mnt/nfs/scratch/<b>bold[\\u{202e}.tmp');
    assert.equal(await page.locator('.error').count(), 0);
    const rows = await tableOf(figure('Tenants'));
    assert.equal(rows.length, 1, JSON.stringify(rows));
    assert.ok(!(await page.content()).includes('\u202e'));
  },

  async 'time that is not recorded is not drawn as idle'() {
    const gap = Date.parse(SINCE) + 195_000;
    await open(`/?since=${new Date(gap - 60_000).toISOString()}&until=${new Date(gap + 60_000).toISOString()}`);
    for (const [title, words] of [['IOPS', /not recorded/], ['Throughput', /not recorded/]]) {
      const over = figure(title).locator('.u-over');
      const { width, height } = await over.boundingBox();
      await over.hover({ position: { x: width / 2, y: height / 2 } });
      assert.match(await figure(title).locator('.readout').innerText(), words);
    }
  },

  async 'a command is copied, and shown where there is no clipboard'() {
    await open(`/?${RANGE}`);
    // Browsers allow the clipboard only for loopback and TLS.
    const isLocal = KNOWN !== 'files';
    assert.equal(await page.evaluate(() => isSecureContext), isLocal);
    const button = figure('Files').locator('button.copy');
    await button.click();
    const shown = figure('Files').locator('.command');
    await shown.getByText(isLocal ? 'copied:' : 'copy it from here:').waitFor();
    assert.equal(await shown.locator('code').innerText(), await button.getAttribute('title'));
  },

  async 'windows of a running recorder come soon after their end'() {
    await page.goto(`${origin}/`);
    await page.waitForURL(/since=10m/);
    await page.locator('.live').waitFor();
    const section = figure('IOPS');
    await section.getByRole('button', { name: 'table', exact: true }).click();
    const last = async () => Date.parse(`${(await tableOf(section)).at(-1).time.replace(' ', 'T')}Z`);
    // A window of a second closes soon after its end.
    let late = [];
    let before = await last();
    for (const begun = Date.now(); late.length < 5; await page.waitForTimeout(50)) {
      const time = await last();
      if (time > before) {
        late.push(Date.now() - (time + 1000));
        before = time;
      }
      assert.ok(Date.now() - begun < 60_000, 'no windows come');
    }
    late = late.sort((a, b) => a - b);
    console.log(`  windows were shown ${late.join(', ')} ms after their end`);
    assert.ok(late[2] < LATEST_MS, `${late}`);
    await page.getByRole('button', { name: 'pause' }).click();
    await page.waitForURL(/until=/);
    assert.match(words().get('since'), /Z$/);
    await settled();
  },

  async 'an error is shown in the words of the server'() {
    expected = /status of 400/;
    await page.goto(`${origin}/?${RANGE}&where=nonsense%20%3E`);
    const shown = await page.getByRole('alert').first().innerText();
    const answer = await page.request.get(`${origin}/api/v1/top?where=nonsense%20%3E`);
    assert.equal(shown, (await answer.json()).error);
    await settled();
    expected = null;
  },

  async 'a server that is busy is asked again'() {
    await open(`/?${RANGE}`);
    expected = /status of 503/;
    statuses.length = 0;
    const headers = { authorization: `Bearer ${token}` };
    // As many connections as may be answered or wait at once; with more, the oldest ones would end.
    const many = Array.from({ length: 20 }, (_, i) => fetch(`${origin}/api/v1/series?by=file&step=1s&${RANGE}&top=${100 + i}`, { headers }).then((response) => response.text()));
    await page.waitForTimeout(100);
    await page.getByRole('button', { name: 'mounts' }).click();
    await page.getByText('srv:/export').first().waitFor();
    await settled();
    await Promise.all(many);
    assert.ok(statuses.includes(503), 'the server was not busy');
    assert.equal((await tableOf(figure('Mounts'))).length, 1);
    expected = null;
  },

  async 'a report opens from a file without a network, and its tables are what the command answers'() {
    makeReport();
    await browser.setOffline(true);
    const [since, until] = [Date.parse(SINCE) + 40_000, Date.parse(UNTIL) - 70_000].map((time) => new Date(time).toISOString());
    const part = `since=${since}&until=${until}`;
    for (const range of [RANGE, part]) {
      for (const [by, title] of [['', 'Files'], ['dir', 'Trees'], ['mount', 'Mounts'], ['tenant', 'Tenants'], ['op', 'Operations']]) {
        for (const more of by === 'op' ? ['', '&sort=execute_us_max:asc'] : ['', '&op=read&sort=read_latency_us_p99', '&op=write&sort=write_requests:asc', '&dir=/mnt/nfs/db']) {
          await openReport(`/?${range}${by === '' ? '' : `&by=${by}`}${more}`);
          const section = figure(title);
          const shown = await tableOf(section);
          const answer = await answerOf(section);
          assert.ok(shown.length > 0, title);
          const columns = Object.keys(shown[0]);
          assert.deepEqual(shown, answer.map((row) => Object.fromEntries(columns.map((name) => [name, visible(text(row[name]))]))), `${title}${more}`);
        }
      }
    }
    for (const path of [`/?${RANGE}&step=10s`, `/file?${RANGE}&step=10s&file=0:49:2`, `/file?${part}&file=${FILE}`]) {
      await openReport(path);
      const section = figure('Latency of reads and writes');
      await section.getByRole('button', { name: 'table', exact: true }).click();
      const shown = await tableOf(section);
      const answer = await answerOf(section);
      assert.ok(shown.length === answer.length && shown.length > 5, `${path}: ${shown.length} and ${answer.length} windows`);
      answer.forEach((row, i) => {
        assert.equal(`${shown[i].time.replace(' ', 'T')}.000Z`, row.time);
        for (const [name, column] of [['requests', 'requests'], ['p50', 'latency_us_p50'], ['p99', 'latency_us_p99'], ['max', 'latency_us_max']]) {
          assert.ok(Math.abs(Number(shown[i][name]) - row[column]) < 0.002, `${row.time} ${name}: ${shown[i][name]} and ${row[column]}`);
        }
      });
    }
  },

  async 'gaps, files over time, what changed, names and the flame graph of a report are those of the server'() {
    const views = [
      [`/?${RANGE}`, 'IOPS'], [`/?${RANGE}`, 'Flame graph of time'], [`/?${RANGE}&measure=requests&op=read`, 'Flame graph of requests'], [`/files?${RANGE}`, null], [`/files?${RANGE}&measure=bytes&op=write`, null],
      [`/compare?since=${SINCE}&until=${UNTIL}&before-since=${SINCE}&before-until=${UNTIL}&by=tenant`, null], [`/file?${RANGE}&file=0:49:2`, 'Names over time'],
    ];
    const see = async (title) => {
      await showTables();
      const sections = page.locator('section.figure');
      const section = title === null ? sections.first() : figure(title);
      const rows = (await section.locator('tbody tr').allInnerTexts()).sort();
      // The time when a name was last seen changes while the recording continues.
      return title === 'Names over time' ? rows.map((row) => row.split('\t').toSpliced(2, 1)) : rows;
    };
    for (const [path, title] of views) {
      await browser.setOffline(false);
      await open(path);
      const hatched = await page.getByText('hatched: not recorded').count();
      const expected = await see(title);
      assert.ok(expected.length > 0, path);
      await browser.setOffline(true);
      await openReport(path);
      assert.equal(await page.getByText('hatched: not recorded').count(), hatched, path);
      assert.deepEqual(await see(title), expected, path);
    }
  },

  async 'every page of a report fits 360 px, and axe finds nothing, in both themes'() {
    for (const theme of ['light', 'dark']) {
      await page.emulateMedia({ colorScheme: theme });
      for (const width of [1280, 360]) {
        await page.setViewportSize({ width, height: 900 });
        for (const path of PAGES) {
          await openReport(path);
          const where = `${path}, ${theme}, ${width} px`;
          assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `${where}: wider than the window`);
          const head = await page.locator('body > section > p').first().boundingBox();
          assert.ok(head.x >= 8, `${where}: the verdict begins at ${head.x} px`);
          assert.deepEqual(await violations(), [], where);
          await showTables();
          assert.deepEqual(await violations(), [], where);
        }
      }
    }
    await page.emulateMedia({ colorScheme: 'light' });
    await page.setViewportSize({ width: 1280, height: 900 });
  },

  async 'ranges, links and addresses work in a report'() {
    await page.goto('about:blank');
    await page.goto(report);
    await settled();
    assert.equal(Date.parse(wordsOfReport().get('since')), Date.parse(SINCE));
    assert.equal(Date.parse(wordsOfReport().get('until')), Date.parse(UNTIL));
    assert.match(await page.locator('p.report').innerText(), /windows of 1s, all 4 files one by one/);
    const whole = page.url();
    await page.keyboard.press('+');
    await page.waitForURL((url) => url.href !== whole);
    await settled();
    await page.getByRole('link', { name: FILE, exact: true }).first().click();
    await page.waitForURL(/#\/file\?/);
    await settled();
    await page.goBack();
    await page.goBack();
    assert.equal(page.url(), whole);
    await page.getByRole('link', { name: 'What changed' }).click();
    await page.waitForURL(/#\/compare/);
    await settled();
    assert.ok((await page.locator('ol.changes li').count()) > 0, 'it is not compared with the time before');
    await openReport(`/file?${RANGE}&file=/mnt/nfs/nowhere`);
    assert.ok((await page.getByText('nothing matched').count()) > 0);
    await openReport('/?since=2020-01-01&until=2020-01-02');
    assert.match(await page.getByRole('alert').first().innerText(), /this report is from/);
  },

  async 'an anonymized report shows no name'() {
    execFileSync(TRACKIOPS, ['anonymize-key', join(profile, 'key')]);
    makeReport('--anonymize', join(profile, 'key'));
    for (const path of [...PAGES.filter((of) => !of.includes('file=')), `/?${RANGE}&by=tenant`, `/?${RANGE}&by=op`]) {
      await openReport(path);
      const shown = await page.locator('main').innerText();
      for (const name of ['orders', 'nfs', 'srv', 'export', 'somebody', 'slice']) {
        assert.ok(!shown.replaceAll(/trackiops \w+/g, '').includes(name), `${path} shows ${name}`);
      }
    }
    await browser.setOffline(false);
  },

  async 'without access the page says what to open'() {
    await open(`/?${RANGE}`);
    expected = /status of 401/;
    await browser.clearCookies();
    await page.getByRole('button', { name: 'trees' }).click();
    const alert = page.getByRole('alert').first();
    await alert.waitFor();
    assert.match(await alert.innerText(), /open the address that `trackiops serve` has printed/);
    expected = null;
  },
};

let failed = 0;
const only = process.env.ONLY;
for (const [name, check] of Object.entries(checks)) {
  if (!CHOSEN.some((begin) => name.startsWith(begin)) || (only !== undefined && !name.includes(only) && name !== Object.keys(checks)[0])) {
    continue;
  }
  try {
    await check();
    assert.deepEqual(wrong, []);
    console.log(`ok: ${name}`);
  } catch (error) {
    failed += 1;
    console.error(`FAILED: ${name}\n${error.stack}`);
    if (process.env.KEEP !== undefined) {
      await page.screenshot({ path: join(process.env.KEEP, `failed-${failed}.png`) });
    }
  }
  wrong.length = 0;
  expected = null;
}
await end();
process.exit(failed === 0 ? 0 : 1);
