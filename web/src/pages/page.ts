// What all pages over time share: selection, recording, keys.
import { useEffect, useMemo, useState } from 'preact/hooks';
import { useAsk, type Meta, type Parameters } from '../api.ts';
import type { Moment } from '../parts/chart.tsx';
import { moves as movesOf, useKeys, type Moves } from '../parts/controls.tsx';
import { useRecording, type Recording } from '../recording.ts';
import { report } from '../report/data.ts';
import { rangeParameters, useSelection, type Selection } from '../selection.ts';
import { useSettings } from '../settings.ts';
import type { Place } from '../url.ts';

/** Tables of a live range are asked for again after this time. */
const TABLES_MS = 10_000;

interface Page {
  selection: Selection;
  recording: Recording;
  moves: Moves;
  /** Changes when tables are to ask again. */
  again: number;
  refresh: () => void;
  moments: Moment[];
}

/** What people have noted, and when servers stopped and began to answer. A report has neither. */
function useMoments(selection: Selection, again: number): Moment[] {
  const parameters: Parameters | null = report() === null && selection.error === null ? rangeParameters(selection.range) : null;
  const marks = useAsk('marks', parameters, again).data?.rows;
  const stalls = useAsk('stalls', parameters, again).data?.rows;
  return useMemo(() => {
    const noted = (marks ?? []).map((row) => ({ time: Date.parse(String(row.time)), about: String(row.text) }));
    const stalled = (stalls ?? []).flatMap((row) => {
      const server = String(row.server ?? 'a server');
      return [
        { time: Date.parse(String(row.since)), about: `${server} stopped answering` },
        { time: Date.parse(String(row.until)), about: `${server} answers again` },
      ];
    });
    return [...noted, ...stalled];
  }, [marks, stalls]);
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
  return { selection: same, recording, moves, again, refresh, moments: useMoments(same, again) };
}
