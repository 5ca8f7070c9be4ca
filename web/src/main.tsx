import { render } from 'preact';
import { useEffect } from 'preact/hooks';
import { useAsk, type Meta } from './api.ts';
import { setStores } from './command.ts';
import { ComparePage } from './pages/compare.tsx';
import { FilePage } from './pages/file.tsx';
import { FilesPage } from './pages/files.tsx';
import { Home } from './pages/home.tsx';
import { AboutReport } from './report/about.tsx';
import { load } from './report/data.ts';
import { SettingsContext, useNewSettings, useSettings, type Theme } from './settings.ts';
import './style.css';
import { address, followLinks, usePlace, type Place } from './url.ts';
import { kept } from './parts/breakdown.tsx';

const PAGES: { path: string; name: string; page: (props: { place: Place; meta: Meta }) => preact.JSX.Element; inMenu: boolean }[] = [
  { path: '/', name: 'Overview', page: Home, inMenu: true },
  { path: '/files', name: 'Files over time', page: FilesPage, inMenu: true },
  { path: '/compare', name: 'What changed', page: ComparePage, inMenu: true },
  { path: '/file', name: 'File', page: FilePage, inMenu: false },
];

const NEXT: Record<Theme, Theme> = { auto: 'light', light: 'dark', dark: 'auto' };

function Header({ place, meta }: { place: Place; meta: Meta | null }) {
  const { theme, setTheme, zone, setZone } = useSettings();
  return (
    <header class="top">
      <a class="skip" href="#main">
        skip to the content
      </a>
      <strong>TrackIOps</strong>
      <nav aria-label="Pages">
        {PAGES.filter((page) => page.inMenu).map(({ path, name }) => (
          <a key={path} href={address(path, kept(place.words, ['since', 'until', 'op', 'dir', 'mount']))} {...(path === place.path ? { 'aria-current': 'page' as const } : {})}>
            {name}
          </a>
        ))}
      </nav>
      <span class="hosts">{meta === null ? '' : meta.hosts.length > 3 ? `${meta.hosts.length} hosts` : meta.hosts.join(', ')}</span>
      <button type="button" onClick={() => setZone(zone === 'utc' ? 'local' : 'utc')}>
        time: {zone === 'utc' ? 'UTC' : 'local'}
      </button>
      <button type="button" onClick={() => setTheme(NEXT[theme])}>
        theme: {theme}
      </button>
    </header>
  );
}

function App() {
  const settings = useNewSettings();
  const place = usePlace();
  const meta = useAsk<Meta>('meta', []);
  setStores(meta.data?.stores ?? []);
  const page = PAGES.find(({ path }) => path === place.path);
  useEffect(() => {
    document.title = page === undefined || page.path === '/' ? 'TrackIOps' : `${page.name} - TrackIOps`;
  }, [page]);
  return (
    <SettingsContext.Provider value={settings}>
      <Header place={place} meta={meta.data} />
      <main id="main" tabIndex={-1}>
        <AboutReport />
        {meta.error !== null && (
          <p class="error" role="alert">
            {meta.error}
          </p>
        )}
        {meta.data !== null && page !== undefined && <page.page key={page.path} place={place} meta={meta.data} />}
        {page === undefined && <p class="error">There is no such page.</p>}
      </main>
    </SettingsContext.Provider>
  );
}

followLinks();
const root = document.getElementById('app');
if (root !== null) {
  load().then(
    () => render(<App />, root),
    (error: unknown) => {
      root.textContent = `This report cannot be read: ${error instanceof Error ? error.message : String(error)}`;
    },
  );
}
