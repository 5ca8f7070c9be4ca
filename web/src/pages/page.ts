// What all pages over time share: selection, recording, keys.
import { useEffect, useMemo, useState } from 'preact/hooks';
import type { Meta } from '../api.ts';
import { moves as movesOf, useKeys, type Moves } from '../parts/controls.tsx';
import { useRecording, type Recording } from '../recording.ts';
import { useSelection, type Selection } from '../selection.ts';
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
  return { selection: same, recording, moves, again, refresh };
}
