// The address is the state of the page: its parameters are command-line flags, so a link shows what its sender saw.
import { useEffect, useState } from 'preact/hooks';

export interface Place {
  path: string;
  words: URLSearchParams;
}

const ORDER = ['since', 'until', 'before-since', 'before-until', 'file', 'dir', 'mount', 'volume', 'tenant', 'level', 'op', 'step', 'by', 'of', 'where', 'sort', 'measure', 'frame', 'cell'];
const MOVED = 'trackiops-moved';

/** A report is a file, so its pages have addresses behind `#`. */
const PREFIX = document.getElementById('report') === null ? '' : '#';

/** The place of an address. */
export function placeOf(href: string): Place {
  const url = new URL(href, location.href);
  const inside = PREFIX === '' ? url : new URL(url.hash.slice(1) || '/', 'http://report');
  return { path: inside.pathname, words: inside.searchParams };
}

export function place(): Place {
  return placeOf(location.href);
}

/** An address with these words, in an order that does not depend on how the user came there. */
export function address(path: string, words: URLSearchParams): string {
  const sorted = new URLSearchParams();
  for (const name of ORDER) {
    for (const value of words.getAll(name)) {
      if (value !== '') {
        sorted.append(name, value);
      }
    }
  }
  // These need no escape in a query (RFC 3986), and people read them.
  const query = sorted.toString().replace(/%3A/g, ':').replace(/%2F/g, '/').replace(/%2C/g, ',');
  return PREFIX + (query === '' ? path : `${path}?${query}`);
}

/** Words with some of them changed; null removes one. */
export function withWords(words: URLSearchParams, changes: Record<string, string | string[] | null>): URLSearchParams {
  const changed = new URLSearchParams(words);
  for (const [name, value] of Object.entries(changes)) {
    changed.delete(name);
    for (const one of value === null ? [] : [value].flat()) {
      changed.append(name, one);
    }
  }
  return changed;
}

/** Steps that the user can go back without leaving the page. */
function depth(): number {
  const state: unknown = history.state;
  return typeof state === 'object' && state !== null && 'depth' in state ? Number(state.depth) : 0;
}

export function go(path: string, words: URLSearchParams, how: 'push' | 'replace' = 'push'): void {
  const to = address(path, words);
  if (how === 'replace') {
    history.replaceState({ depth: depth() }, '', to);
  } else if (to !== (PREFIX === '' ? location.pathname + location.search : location.hash)) {
    history.pushState({ depth: depth() + 1 }, '', to);
  }
  dispatchEvent(new Event(MOVED));
}

/** Whether there was a step to go back to. */
export function goBack(): boolean {
  if (depth() === 0) {
    return false;
  }
  history.back();
  return true;
}

export function usePlace(): Place {
  const [current, setCurrent] = useState(place);
  useEffect(() => {
    const moved = () => setCurrent(place());
    addEventListener('popstate', moved);
    addEventListener(MOVED, moved);
    return () => {
      removeEventListener('popstate', moved);
      removeEventListener(MOVED, moved);
    };
  }, []);
  return current;
}

/** Follows links to pages of this server without loading the program again. */
export function followLinks(): void {
  document.addEventListener('click', (event) => {
    const target = event.target instanceof Element ? event.target.closest('a') : null;
    const plain = event.button === 0 && !event.ctrlKey && !event.metaKey && !event.shiftKey && !event.altKey;
    if (target === null || !plain || target.origin !== location.origin || event.defaultPrevented) {
      return;
    }
    event.preventDefault();
    const within = target.getAttribute('href');
    if (within === '#main') {
      document.getElementById('main')?.focus();
      return;
    }
    const to = placeOf(target.href);
    go(to.path, to.words);
    scrollTo(0, 0);
  });
}
