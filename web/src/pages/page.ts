// What all pages over time share: selection, recording, keys.
import { useEffect, useMemo, useState } from 'preact/hooks';
import { useAsk, type Meta } from '../api.ts';
import type { Moment } from '../parts/chart.tsx';
import { moves as movesOf, useKeys, type Moves } from '../parts/controls.tsx';
import { useRecording, type Recording } from '../recording.ts';
import { rangeParameters, useSelection, type Selection } from '../selection.ts';
import { useSettings } from '../settings.ts';
import type { Place } from '../url.ts';

/** Tables of a live range are asked for again after this time. */
const TABLES_MS = 10_000;
/** Events are asked for again with each of these times: who began is looked for in all windows, which takes longer than a table. */
const EVENTS_EVERY = 3;

interface Page {
  selection: Selection;
  recording: Recording;
  moves: Moves;
  /** Changes when tables are to ask again. */
  again: number;
  refresh: () => void;
  moments: Moment[];
}

/** What may explain a change: marks, stalls, ends and starts of the recorder, tenants that began. */
export function useMoments({ range, error }: Selection, meta: Meta, again = 0): Moment[] {
  const events = useAsk('events', error === null ? rangeParameters(range) : null, again).data?.rows;
  const hasHosts = meta.hosts.length > 1;
  return useMemo(
    () =>
      (events ?? []).map(({ time, host, text }) => {
        const on = hasHosts && typeof host === 'string' ? ` on ${host}` : '';
        return { time: Date.parse(String(time)), about: `${String(text)}${on}` };
      }),
    [events, hasHosts],
  );
}

export function usePage(place: Place, meta: Meta): Page {
  const { zone } = useSettings();
  const selected = useSelection(place, meta, zone);
  const { refresh, ...selection } = selected;
  const same = useMemo(() => selection, [selection.range, selection.error, place.words.toString()]);
  const recording = useRecording(same, meta, place.words.get('step'));
  const [again, setAgain] = useState(0);
  useEffect(() => {
    if (!recording.isLive) {
      return undefined;
    }
    const timer = setInterval(() => setAgain((count) => count + 1), TABLES_MS);
    return () => clearInterval(timer);
  }, [recording.isLive]);
  const shown = recording.isLive ? { ...same, range: recording.range } : same;
  const moves = movesOf(shown);
  useKeys(moves);
  return { selection: same, recording, moves, again, refresh, moments: useMoments(same, meta, Math.floor(again / EVENTS_EVERY)) };
}
