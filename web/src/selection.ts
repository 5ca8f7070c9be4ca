// The range and the files of a page, from its address.
import { useEffect, useMemo, useState } from 'preact/hooks';
import { now, type Meta, type Parameters } from './api.ts';
import { report } from './report/data.ts';
import { wholeWindows } from './report/select.ts';
import { isRelative, parseLength, parseTime, rfc3339, type Zone } from './time.ts';
import { go, withWords, type Place } from './url.ts';
import type { Op } from './windows.ts';

const HOUR = 3_600_000;
/** The level of calls of applications. */
const CALLS = 'app';
/** What is shown of a recording that goes on, unless the address says it. */
const USUAL = '10m';

export interface Range {
  since: number;
  until: number;
  /** Its end moves with the clock. */
  moves: boolean;
}

export interface Selection {
  range: Range;
  /** Words of the address that choose files. */
  files: Parameters;
  op: Op;
  /** Shows calls of applications in place of requests. */
  ofCalls: boolean;
  /** Why the range of the address is none. */
  error: string | null;
}

function rangeOf(since: string | null, until: string | null, meta: Meta, zone: Zone, at: number): Range | string {
  const stored = { since: Date.parse(meta.since ?? ''), until: Date.parse(meta.until ?? '') };
  const end = until === null || until === '' ? at : parseTime(until, at, zone);
  if (end === null) {
    return `until: \`${until}\` is no time that the page knows; it takes 10m (ago), now, 2026-11-21 03:10, 2026-11-21T03:10:00Z and @1795233120`;
  }
  const start = since === null || since === '' ? (Number.isNaN(stored.since) ? end - HOUR : Math.min(stored.since, end - 1000)) : parseTime(since, at, zone);
  if (start === null) {
    return `since: \`${since}\` is no time that the page knows; it takes 10m (ago), now, 2026-11-21 03:10, 2026-11-21T03:10:00Z and @1795233120`;
  }
  if (start >= end) {
    return `the range ends at ${rfc3339(end)}, before it begins at ${rfc3339(start)}`;
  }
  const data = report();
  if (data !== null) {
    const [first, last] = wholeWindows(data, start, end);
    return first < last ? { since: first, until: last, moves: false } : `this report is from ${rfc3339(data.since)} to ${rfc3339(data.until)}`;
  }
  return { since: start, until: end, moves: until === null || until === '' || until === 'now' };
}

export function filesOf(words: URLSearchParams): Parameters {
  // A report has neither the tenant of a window nor volumes.
  const names = ['file', 'dir', 'mount', ...(report() === null ? ['volume', 'tenant', 'level'] : [])];
  return names.flatMap((name) => words.getAll(name).map((value): [string, string] => [name, value]));
}

export function opOf(words: URLSearchParams): Op {
  const op = words.get('op');
  return op === 'read' || op === 'write' ? op : 'both';
}

/** The range of an address without one: what a report is about, the last minutes of a recording that goes on, else the last hour that was recorded. */
function usualRange(meta: Meta): { since: string; until: string | null } {
  const data = report();
  if (data !== null) {
    return { since: rfc3339(data.incident_since), until: rfc3339(data.incident_until) };
  }
  const until = Date.parse(meta.until ?? '');
  if (meta.recorder !== null || Number.isNaN(until)) {
    return { since: USUAL, until: null };
  }
  const since = Math.max(until - HOUR, Date.parse(meta.since ?? ''));
  return { since: rfc3339(since), until: rfc3339(until) };
}

/** The selection of a place. A range that moves is the one at `at`. */
export function useSelection(place: Place, meta: Meta, zone: Zone): Selection & { refresh: () => void } {
  const { words } = place;
  const [at, setAt] = useState(now);
  const since = words.get('since');
  const until = words.get('until');
  useEffect(() => {
    if (since === null && until === null) {
      go(place.path, withWords(words, usualRange(meta)), 'replace');
    }
  }, [since, until, place.path]);
  const key = words.toString();
  const selection = useMemo(() => {
    const range = rangeOf(since, until, meta, zone, at);
    const failed = typeof range === 'string';
    return {
      range: failed ? { since: at - HOUR, until: at, moves: false } : range,
      files: filesOf(words),
      op: opOf(words),
      ofCalls: words.get('level') === CALLS && report() === null,
      error: failed ? range : null,
    };
  }, [key, meta, zone, at]);
  return { ...selection, refresh: () => setAt(now()) };
}

/** The words of a range: times that stay, because they were chosen in a picture. */
export function fixedWords(since: number, until: number): { since: string; until: string } {
  return { since: rfc3339(Math.floor(since)), until: rfc3339(Math.ceil(until)) };
}

/** What a user typed as a time, in words that mean the same everywhere. */
export function typedTime(text: string, zone: Zone): string {
  const trimmed = text.trim();
  if (trimmed === '' || isRelative(trimmed.replace(/ ago$/, ''))) {
    return parseLength(trimmed.replace(/ ago$/, '')) === null ? trimmed : trimmed.replace(/ ago$/, '').replace(/\s/g, '');
  }
  const time = parseTime(trimmed, now(), zone);
  return time === null ? trimmed : rfc3339(time);
}

/** A range as parameters. The end is left open where the recording goes on. */
export function rangeParameters(range: Range): Parameters {
  const since: [string, string] = ['since', rfc3339(range.since)];
  return range.moves ? [since] : [since, ['until', rfc3339(range.until)]];
}
