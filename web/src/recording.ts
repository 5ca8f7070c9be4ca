// Windows of a range: fetched once, then followed while the recording continues.
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { apiAddress, ApiError, ask, now, type Answer, type Meta, type Parameters } from './api.ts';
import { rangeParameters, type Range, type Selection } from './selection.ts';
import { autoStep, niceStep, parseLength, showLength } from './time.ts';
import { visibleIn } from './visible.ts';
import { joined, together, windowColumns, windowsOf, type Row, type Window } from './windows.ts';

/** Below it a picture has too few columns to show much, and finer windows are asked for. */
const FEW_WINDOWS = 100;
const ENOUGH_WINDOWS = 400;
/** A window does not come again after so long. */
const LATE_MS = 120_000;
/** How long a server may say nothing after a connection broke. */
const SILENCE_MS = 5000;
/** After which a recorder that has ended is looked for again. */
const AGAIN_MS = 10_000;

export interface Recording {
  windows: Window[];
  step: number;
  /** What was asked, for the command line. */
  parameters: Parameters;
  notes: string[];
  error: string | null;
  loading: boolean;
  /** Why the recording is no longer followed. */
  ended: string | null;
  isLive: boolean;
  /** The range, whose end has moved with the windows that came. */
  range: Range;
  gaps: Gap[];
  /** All of it was recorded, as far as is known. */
  isWhole: boolean;
}

/** A time that was not recorded, or only partly. */
export interface Gap {
  since: number;
  until: number;
  partly: boolean;
}

interface Fetched {
  key: string;
  step: number;
  windows: Map<number, Window>;
  notes: string[];
  parameters: Parameters;
}

export function granularities(meta: Meta): number[] {
  return meta.granularities.map((name) => parseLength(name) ?? 0).filter((length) => length > 0);
}

/** Steps to ask for, one after the other: the quick answer first, then one that a picture can use. */
function stepsOf(range: Range, meta: Meta, asked: string | null): (number | 'auto')[] {
  const fixed = asked === null ? null : parseLength(asked);
  if (fixed !== null) {
    return [fixed];
  }
  const stored = granularities(meta);
  const length = range.until - range.since;
  const quick = autoStep(length, stored);
  if (length / quick >= FEW_WINDOWS) {
    return [quick];
  }
  const fine = niceStep(length, stored, ENOUGH_WINDOWS);
  return fine < quick ? [quick, fine] : [quick];
}

async function fetchStep(base: Parameters, columns: string, step: number | 'auto', guess: number, signal: AbortSignal): Promise<[Parameters, Answer, number]> {
  const parameters: Parameters = [...base, ['by', 'host'], ['step', step === 'auto' ? 'auto' : showLength(step)], ['columns', columns]];
  const answer = await ask<Answer>('series', parameters, signal);
  return [parameters, answer, parseLength(answer.step ?? '') ?? (step === 'auto' ? guess : step)];
}

/** What goes on has no gap at its end. */
function endOf(rows: Row[], range: Range, goesOn: boolean): number {
  const last = Math.max(...rows.map((row) => Date.parse(String(row.until))));
  return goesOn && range.moves && range.until - last < LATE_MS ? Math.min(last, range.until) : range.until;
}

/** Times that were not recorded. Without any recorded time that is all of it. */
export function gapsOf(rows: Row[], whole: Range, step: number, goesOn: boolean): Gap[] {
  const range = { ...whole, until: endOf(rows, whole, goesOn) };
  const first = Math.floor(range.since / step);
  const count = Math.ceil(range.until / step) - first;
  const hosts = new Map<unknown, Float64Array>();
  for (const row of rows) {
    const since = Date.parse(String(row.since));
    const until = Date.parse(String(row.until));
    const share = Number(row.recorded_ms) / Math.max(1, until - since);
    const windows = hosts.get(row.host) ?? new Float64Array(Math.max(0, count));
    hosts.set(row.host, windows);
    for (let at = Math.max(0, Math.floor(since / step) - first); at < count && (first + at) * step < until; at += 1) {
      const start = Math.max(since, (first + at) * step);
      const end = Math.min(until, (first + at + 1) * step);
      windows[at] = (windows[at] ?? 0) + Math.max(0, end - start) * share;
    }
  }
  const gaps: Gap[] = [];
  for (let at = 0; at < count; at += 1) {
    const since = Math.max(range.since, (first + at) * step);
    const until = Math.min(range.until, (first + at + 1) * step);
    const recorded = [...hosts.values()].map((windows) => windows[at] ?? 0);
    // A recorder starts and stops within a window; a millisecond is not a gap.
    if (recorded.length > 0 && recorded.every((ms) => ms >= (until - since) * 0.99)) {
      continue;
    }
    const partly = recorded.some((ms) => ms > 0);
    const last = gaps.at(-1);
    if (last !== undefined && last.until === since && last.partly === partly) {
      last.until = until;
    } else {
      gaps.push({ since, until, partly });
    }
  }
  return gaps;
}

/** The range and windows of a selection. `asked` is the step of the address. */
export function useRecording(selection: Selection, meta: Meta, asked: string | null): Recording {
  const base = useMemo(() => [...rangeParameters(selection.range), ...selection.files], [selection]);
  const key = JSON.stringify([base, asked]);
  const [fetched, setFetched] = useState<Fetched | null>(null);
  const [recorded, setRecorded] = useState<{ key: string; rows: Row[] } | null>(null);
  const [error, setError] = useState<string | null>(null);
  const [loading, setLoading] = useState(true);
  /** The question whose gaps are known, or cannot be. */
  const [whole, setWhole] = useState<string | null>(null);
  const steps = stepsOf(selection.range, meta, asked);
  const columns = windowColumns(selection.ofCalls);

  // Ask before the pictures below the first one do: the server answers two questions at a time.
  useLayoutEffect(() => {
    const abort = new AbortController();
    const { signal } = abort;
    const guess = autoStep(selection.range.until - selection.range.since, granularities(meta));
    const run = async () => {
      setLoading(true);
      let shown: number | null = null;
      for (const step of steps) {
        let found;
        try {
          found = await fetchStep(base, columns, step, guess, signal);
        } catch (failed) {
          // Windows of this length may have expired, or be too many; then the quick answer stays.
          if (failed instanceof ApiError && [400, 413, 504].includes(failed.status) && step !== steps[0]) {
            break;
          }
          if (!(failed instanceof ApiError) || failed.status !== 400 || asked !== null || selection.error !== null) {
            throw failed;
          }
          found = await fetchStep(base, columns, 'auto', guess, signal);
        }
        const [parameters, answer, length] = found;
        setFetched({ key, step: length, windows: windowsOf(answer.rows, selection.ofCalls), notes: answer.notes, parameters });
        setError(null);
        shown = length;
      }
      setLoading(false);
      // Notes say the same in words, so a failure hides nothing.
      if (shown !== null) {
        const times = await ask<Answer>('recorded', [...base, ['step', showLength(shown)]], signal).catch(() => null);
        if (times !== null) {
          setRecorded({ key, rows: times.rows });
        }
      }
      setWhole(key);
    };
    run().catch((failed: unknown) => {
      if (!signal.aborted) {
        setError(failed instanceof Error ? failed.message : String(failed));
        setFetched(null);
        setLoading(false);
        setWhole(key);
      }
    });
    return () => abort.abort();
  }, [key]);

  const isFollowed = selection.range.moves && meta.recorder !== null && fetched?.key === key && !loading;
  const live = useLive(isFollowed ? selection : null, isFollowed ? fetched : null, meta);
  const range = live.until === null ? selection.range : moved(selection.range, live.until);
  const windows = useMemo(() => {
    const all = new Map(fetched?.windows);
    live.windows.forEach((window, time) => all.set(time, window));
    return [...all.values()].filter((window) => window.time + (fetched?.step ?? 0) > range.since);
  }, [fetched, live, range.since]);
  const step = fetched?.step ?? 1000;
  const gaps = useMemo(() => {
    if (recorded === null || fetched === null || recorded.key !== fetched.key) {
      return [];
    }
    return gapsOf(recorded.rows, selection.range, step, isFollowed);
  }, [recorded, fetched, step, isFollowed]);
  return {
    windows,
    step,
    parameters: fetched?.parameters ?? [...base, ['by', 'host'], ['step', 'auto']],
    notes: fetched?.notes ?? [],
    error,
    loading: loading || whole !== key,
    ended: live.ended,
    isLive: isFollowed && live.ended === null,
    range,
    gaps,
    isWhole: gaps.length === 0 && recorded !== null && recorded.key === key && recorded.rows.length > 0,
  };
}

function moved(range: Range, until: number): Range {
  return { ...range, since: range.since + until - range.until, until };
}

interface Live {
  windows: Map<number, Window>;
  until: number | null;
  ended: string | null;
}

/** A window of the recorder. One from the store has all of its rows; one from the recorder adds to it. */
interface Frame {
  since: string;
  until: string | null;
  from: 'store' | 'recorder';
  rows: Row[];
}

const NOT_LIVE: Live = { windows: new Map(), until: null, ended: null };

/** Follows the recorder's own windows, and adds them up to those of the picture. */
function useLive(selection: Selection | null, fetched: Fetched | null, meta: Meta): Live {
  const [live, setLive] = useState<Live>(NOT_LIVE);
  const short = useRef(new Map<number, Window>());
  useEffect(() => {
    short.current = new Map();
    setLive(NOT_LIVE);
    if (selection === null || fetched === null) {
      return undefined;
    }
    const { step } = fetched;
    const finest = granularities(meta)[0] ?? 1000;
    // The last window of the answer may have been incomplete; it comes again.
    const last = Math.max(...fetched.windows.keys(), Math.floor((now() - step) / step) * step);
    const parameters: Parameters = [...selection.files, ['by', 'host'], ['columns', windowColumns(selection.ofCalls)]];
    const take = ({ since, until, from, rows }: Frame) => {
      const start = Date.parse(since);
      const end = Date.parse(until ?? since);
      const came = windowsOf(visibleIn(rows).map((row) => ({ ...row, time: since })), selection.ofCalls).get(start);
      const known = from === 'recorder' ? short.current.get(start) : undefined;
      if (came !== undefined) {
        short.current.set(start, known === undefined ? came : together(known, came));
      } else if (from === 'store') {
        short.current.delete(start);
      }
      for (const time of short.current.keys()) {
        if (time < end - 3 * step - LATE_MS) {
          short.current.delete(time);
        }
      }
      const time = Math.floor(start / step) * step;
      setLive((before) => {
        const windows = new Map(before.windows);
        const inside = [...short.current.values()].filter((window) => window.time >= time && window.time < time + step);
        // Of an older window, only a part is here.
        if (inside.length > 0 && time >= end - 2 * step - LATE_MS) {
          const only = inside.length === 1 && step === finest ? inside[0] : undefined;
          windows.set(time, only ?? joined(time, inside, Math.max(finest, Math.min(time + step, end) - time) / 1000));
        }
        return { windows, until: Math.max(before.until ?? 0, end), ended: null };
      });
    };
    let source: EventSource;
    let timer = 0;
    let from = last;
    const ended = (why: string) => setLive((before) => ({ ...before, ended: why }));
    const follow = () => {
      const words: Parameters = [...parameters, ['since', new Date(from).toISOString()]];
      source = new EventSource(apiAddress('live', words));
      source.onopen = () => clearTimeout(timer);
      source.onerror = () => {
        // A connection lasts two minutes, and the next one follows at once.
        clearTimeout(timer);
        timer = setTimeout(() => ended('the server does not answer'), SILENCE_MS);
      };
      source.onmessage = (event: MessageEvent<string>) => {
        const frame = JSON.parse(event.data) as Frame;
        from = Math.max(from, Date.parse(frame.since));
        take(frame);
      };
      source.addEventListener('end', (event) => {
        source.close();
        clearTimeout(timer);
        ended((JSON.parse(String((event as MessageEvent).data)) as { error: string }).error);
        // There may be another recorder by then.
        timer = setTimeout(follow, AGAIN_MS);
      });
    };
    follow();
    return () => {
      clearTimeout(timer);
      source.close();
    };
  }, [fetched, selection !== null]);
  return live;
}
