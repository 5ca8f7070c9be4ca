import { useMemo } from 'preact/hooks';
import { useAsk, type Answer, type Meta, type Parameters, type Stack } from '../api.ts';
import { command } from '../command.ts';
import { showBytes, showCount, showMicros } from '../format.ts';
import { Breakdown } from '../parts/breakdown.tsx';
import { Connections } from '../parts/connections.tsx';
import { Hosts } from '../parts/hosts.tsx';
import { Requests } from '../parts/requests.tsx';
import { Controls, type Moves } from '../parts/controls.tsx';
import { Figure, Notes } from '../parts/figure.tsx';
import { Flame, FlameTable, tree } from '../parts/flame.tsx';
import { Series } from '../parts/series.tsx';
import { Verdict } from '../parts/verdict.tsx';
import { report } from '../report/data.ts';
import { rangeParameters, type Selection } from '../selection.ts';
import type { Place } from '../url.ts';
import { usePage } from './page.ts';

// A report has requests only.
const ALL_MEASURES = ['time', 'bytes', 'requests', 'app-bytes'] as const;
const MEASURES = ALL_MEASURES.slice(0, report() === null ? 4 : 3);
type Measure = (typeof ALL_MEASURES)[number];
const SHOW: Record<Measure, (value: number) => string> = { bytes: showBytes, requests: (value) => `${showCount(value)} requests`, time: showMicros, 'app-bytes': showBytes };

function FlameFigure({ place, selection, moves, again }: { place: Place; selection: Selection; moves: Moves; again: number }) {
  const measure = MEASURES.find((one) => one === place.words.get('measure')) ?? 'time';
  const parameters: Parameters = [...rangeParameters(selection.range), ...selection.files, ['by', measure], ['direction', selection.op]];
  const answer = useAsk<Answer<Stack>>('flame', selection.error === null ? parameters : null, again);
  const root = useMemo(() => tree(answer.data?.rows ?? []), [answer.data]);
  const path = place.words.getAll('frame');
  const shared = { root, path, showValue: SHOW[measure], onPath: (to: string[]) => moves.change({ frame: to }) };
  return (
    <Figure
      title={`Flame graph of ${measure}`}
      command={command('flamegraph', [...parameters, ['folded', '']])}
      loading={answer.loading}
      error={answer.error}
      table={() => <FlameTable {...shared} />}
      controls={
        <div class="group" role="group" aria-label="Width of a tree">
          {MEASURES.map((one) => (
            <button type="button" key={one} aria-pressed={one === measure} onClick={() => moves.change({ measure: one === 'time' ? null : one })}>
              {one}
            </button>
          ))}
        </div>
      }
    >
      <Flame {...shared} />
    </Figure>
  );
}

export function Home({ place, meta }: { place: Place; meta: Meta }) {
  const { selection, recording, moves, again, refresh, moments } = usePage(place, meta);
  const shown = { ...selection, range: recording.isLive ? recording.range : selection.range };
  return (
    <>
      <h1>Latency, IOPS and throughput</h1>
      <Controls place={place} selection={shown} meta={meta} moves={moves} refresh={refresh} isLive={recording.isLive} />
      {/* The document of a report begins with it. */}
      {report() === null && <Verdict place={place} selection={selection} again={Math.floor(again / 6)} />}
      <Notes notes={recording.notes} error={selection.error ?? recording.error} ended={recording.ended} none={recording.isWhole ? 'no gaps in this range, and nothing lost' : ''} />
      <Series recording={recording} selection={selection} moves={moves} moments={moments} />
      <Hosts selection={selection} meta={meta} again={again} />
      <Breakdown place={place} selection={selection} moves={moves} meta={meta} tabs={['file', 'dir', 'mount', ...(report() === null ? ['volume' as const] : []), 'tenant', 'op']} again={again} known={recording.notes} />
      {report() === null && <Connections selection={selection} meta={meta} again={again} />}
      <FlameFigure place={place} selection={selection} moves={moves} again={again} />
      {report() === null && <Requests place={place} selection={selection} moves={moves} again={again} isOnDemand />}
    </>
  );
}
