// Builds the page into dist/, here or in the directory that is given, and copies the licences of what is inside it beside it.
// The same sources give the same bytes.
import { build } from 'esbuild';
import { createHash } from 'node:crypto';
import { copyFileSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const here = dirname(fileURLToPath(import.meta.url));
const base = process.argv[2] ?? here;
const out = join(base, 'dist');
/** The libraries inside. */
const INSIDE = ['preact', 'uplot'];
/** Bytes of all files together, before compression. */
const MOST = 176 * 1024;

mkdirSync(out, { recursive: true });
const version = (name) => JSON.parse(readFileSync(join(here, 'node_modules', name, 'package.json'), 'utf8')).version;
const inside = INSIDE.map((name) => `${name} ${version(name)}`).join(', ');
const banner = `TrackIOps, MIT OR Apache-2.0. Contains ${inside} (MIT): see THIRD-PARTY.md.`;
await build({
  absWorkingDir: here,
  entryPoints: { app: 'src/main.tsx' },
  outdir: out,
  bundle: true,
  minify: true,
  format: 'esm',
  target: ['es2022'],
  charset: 'utf8',
  legalComments: 'none',
  banner: { js: `/* ${banner} */`, css: `/* ${banner} */` },
  jsx: 'automatic',
  jsxImportSource: 'preact',
  logLevel: 'warning',
});
for (const name of ['index.html', 'favicon.svg']) {
  copyFileSync(join(here, 'src', name), join(out, name));
}
mkdirSync(join(base, 'licences'), { recursive: true });
for (const name of INSIDE) {
  copyFileSync(join(here, 'node_modules', name, 'LICENSE'), join(base, 'licences', `${name}.txt`));
}
// A report has the program and the style inside, and a policy that knows them by their hashes: `src/report/document.rs`.
const hash = (name) => `'sha256-${createHash('sha256').update(readFileSync(join(out, name))).digest('base64')}'`;
const policy = `default-src 'none'; script-src ${hash('app.js')}; style-src ${hash('app.css')}; img-src data:; base-uri 'none'; form-action 'none'`;
writeFileSync(join(out, 'report-policy.txt'), `${policy}\n`);
const total = readdirSync(out).reduce((sum, name) => sum + statSync(join(out, name)).size, 0);
console.log(`${out}: ${total} bytes`);
if (total > MOST) {
  console.error(`error: the page has ${total} bytes; at most ${MOST} are allowed`);
  process.exit(1);
}
