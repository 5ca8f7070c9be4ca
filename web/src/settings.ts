// The user's preferences, which are not in the address: the browser stores them.
import { createContext } from 'preact';
import { useContext, useEffect, useState } from 'preact/hooks';
import type { Zone } from './time.ts';

export type Theme = 'auto' | 'light' | 'dark';

export interface Settings {
  theme: Theme;
  /** The theme in effect. */
  isDark: boolean;
  zone: Zone;
  setTheme: (theme: Theme) => void;
  setZone: (zone: Zone) => void;
}

const dark = matchMedia('(prefers-color-scheme: dark)');

function stored(name: string): string | null {
  try {
    return localStorage.getItem(name);
  } catch {
    return null;
  }
}

function store(name: string, value: string): void {
  try {
    localStorage.setItem(name, value);
  } catch {
    // A browser may forbid storage; then the choice lasts as long as the page.
  }
}

function storedTheme(): Theme {
  const theme = stored('theme');
  return theme === 'light' || theme === 'dark' ? theme : 'auto';
}

function applyTheme(theme: Theme): void {
  document.documentElement.dataset.theme = theme;
}

applyTheme(storedTheme());

export const SettingsContext = createContext<Settings | null>(null);

export function useSettings(): Settings {
  const settings = useContext(SettingsContext);
  if (settings === null) {
    throw new Error('no settings');
  }
  return settings;
}

export function useNewSettings(): Settings {
  const [theme, setTheme] = useState(storedTheme);
  const [zone, setZone] = useState<Zone>(stored('zone') === 'local' ? 'local' : 'utc');
  const [systemDark, setSystemDark] = useState(dark.matches);
  useEffect(() => {
    const changed = () => setSystemDark(dark.matches);
    dark.addEventListener('change', changed);
    return () => dark.removeEventListener('change', changed);
  }, []);
  return {
    theme,
    isDark: theme === 'dark' || (theme === 'auto' && systemDark),
    zone,
    setTheme: (to) => {
      store('theme', to);
      applyTheme(to);
      setTheme(to);
    },
    setZone: (to) => {
      store('zone', to);
      setZone(to);
    },
  };
}
