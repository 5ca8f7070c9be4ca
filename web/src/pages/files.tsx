import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { useAsk, type Answer, type Meta, type Parameters } from '../api.ts';
import { logShare, palette, shade } from '../colours.ts';
import { command } from '../command.ts';
import { show, type Kind } from '../format.ts';
import { fileAddress, fileKey, hostedName } from '../parts/breakdown.tsx';
import { drawHatch, drawLines, type Moment } from '../parts/chart.tsx';
import { Controls, moves as movesOf, useKeys } from '../parts/controls.tsx';
import { Events } from '../parts/events.tsx';
import { Figure, Notes } from '../parts/figure.tsx';
import { Table, type Column } from '../parts/table.tsx';
import { gapsOf, granularities, type Gap } from '../recording.ts';
import { fixedWords, rangeParameters, useSelection, type Range } from '../selection.ts';
import { useSettings } from '../settings.ts';
import { niceStep, parseLength, showLength, showTime } from '../time.ts';
import { go, placeOf, withWords, type Place } from '../url.ts';
import type { Row } from '../windows.ts';
import { useMoments } from './page.ts';

const MEASURES = ['p99', 'time', 'bytes'] as const;
type Measure = (typeof MEASURES)[number];
const OF: Record<Measure, { column: string; kind: Kind; about: string }> = {
  p99: { column: 'latency_us_p99', kind: 'us', about: 'p99 of latency in a window' },
  time: { column: 'latency_us_sum', kind: 'us', about: 'sum of latencies in a window' },
  bytes: { column: 'bytes', kind: 'bytes', about: 'bytes in a window' },
};
const MOST_FILES = 200;
const WINDOWS = 120;
const ROW = 18;
/** Windows around the one that was clicked. */
const AROUND = 5;

interface Line {
  row: Row;
  name: string;
  values: Map<number, number>;
}

function linesOf(rows: Row[], column: string, hosts: number): Line[] {
  const lines = new Map<string, Line>();
  for (const row of rows) {
    // A renamed file stays one line, under its last name.
    const key = fileKey(row);
    let line = lines.get(key);
    if (line === undefined) {
      line = { row, name: '', values: new Map() };
      lines.set(key, line);
    }
    line.row = row;
    line.name = hostedName(row, hosts);
    if (typeof row[column] === 'number') {
      line.values.set(Date.parse(String(row.time)), row[column]);
    }
  }
  return [...lines.values()];
}

interface MapProps {
  lines: Line[];
  range: Range;
  step: number;
  gaps: Gap[];
  moments: Moment[];
  low: number;
  high: number;
  showValue: (value: number) => string;
  addressOf: (line: Line, time?: number) => string | null;
}

function FilesMap({ lines, range, step, gaps, moments, low, high, showValue, addressOf }: MapProps) {
  const { isDark, zone } = useSettings();
  const canvas = useRef<HTMLCanvasElement>(null);
  const [width, setWidth] = useState(0);
  const [over, setOver] = useState<{ line: number; time: number } | null>(null);
  useEffect(() => {
    const parent = canvas.current?.parentElement;
    const resized = new ResizeObserver(() => setWidth(parent?.clientWidth ?? 0));
    if (parent) {
      resized.observe(parent);
    }
    return () => resized.disconnect();
  }, []);
  const length = range.until - range.since;
  useEffect(() => {
    const element = canvas.current;
    const ctx = element?.getContext('2d');
    if (!element || !ctx) {
      return;
    }
    const scale = devicePixelRatio;
    const height = Math.max(1, lines.length) * ROW;
    element.width = width * scale;
    element.height = height * scale;
    const x = (time: number) => Math.round(((time - range.since) / length) * width * scale);
    lines.forEach((line, i) => {
      for (const [time, value] of line.values) {
        const left = Math.max(0, x(time));
        ctx.fillStyle = shade(logShare(value / low, high / low), isDark);
        ctx.fillRect(left, i * ROW * scale, Math.max(1, x(time + step) - left), (ROW - 2) * scale);
      }
    });
    for (const gap of gaps) {
      drawHatch(ctx, { left: x(gap.since), top: 0, width: x(gap.until) - x(gap.since), height: height * scale }, palette(isDark).hatch, (gap.partly ? 16 : 7) * scale);
    }
    const box = { left: 0, top: 0, width: width * scale, height: height * scale };
    drawLines(ctx, box, moments.map(({ time }) => x(time)), palette(isDark).text);
  }, [lines, width, isDark, range.since, range.until, step, gaps, moments, low, high]);
  const find = (event: MouseEvent) => {
    const line = Math.floor(event.offsetY / ROW);
    const time = Math.floor((range.since + (event.offsetX / Math.max(1, width)) * length) / step) * step;
    return line < lines.length ? { line, time } : null;
  };
  const line = over === null ? undefined : lines[over.line];
  const value = line?.values.get(over?.time ?? 0);
  return (
    <>
      <p class="readout">
        {line === undefined || over === null ? `windows of ${showLength(step)}; click a cell to see the file at that time` : `${showTime(over.time, zone)}: ${value === undefined ? (gaps.some((gap) => !gap.partly && gap.since <= over.time && over.time < gap.until) ? 'not recorded' : 'no request') : showValue(value)}, ${line.name}`}
      </p>
      <div class="files-map">
        <ul>
          {lines.map((of, i) => {
            const to = addressOf(of);
            return (
              <li key={i} class={over?.line === i ? 'over' : ''} title={of.name}>
                <bdi dir="ltr">{to === null ? of.name : <a href={to}>{of.name}</a>}</bdi>
              </li>
            );
          })}
        </ul>
        <div class="cells">
          <canvas
            ref={canvas}
            style={{ height: `${lines.length * ROW}px` }}
            role="img"
            aria-label="Files by time. The table shows the highest window of each file."
            onMouseMove={(event) => setOver(find(event))}
            onMouseLeave={() => setOver(null)}
            onClick={(event) => {
              const at = find(event);
              const clicked = at === null ? undefined : lines[at.line];
              const to = at === null || clicked === undefined ? null : addressOf(clicked, at.time);
              if (to !== null) {
                const { path, words } = placeOf(to);
                go(path, words);
                scrollTo(0, 0);
              }
            }}
          />
          <p class="ends">
            <span>{showTime(range.since, zone)}</span>
            <span>{showTime(range.until, zone)}</span>
          </p>
        </div>
      </div>
    </>
  );
}

export function FilesPage({ place, meta }: { place: Place; meta: Meta }) {
  const { zone, isDark } = useSettings();
  const { refresh, ...selection } = useSelection(place, meta, zone);
  const moves = movesOf(selection);
  useKeys(moves);
  const { range, op } = selection;
  const measure = MEASURES.find((one) => one === place.words.get('measure')) ?? 'p99';
  const { kind, about } = OF[measure];
  const column = op === 'both' ? OF[measure].column : `${op}_${OF[measure].column}`;
  const stored = granularities(meta);
  const step = parseLength(place.words.get('step') ?? '') ?? niceStep(range.until - range.since, stored, WINDOWS);
  const shared: Parameters = [...rangeParameters(range), ...selection.files];
  const parameters: Parameters = [
    ...shared, ['by', 'file'], ['step', showLength(step)], ['sort', column], ['top', String(MOST_FILES)], ['columns', `time,host,mount,path,dev,fileid,file_key,${column}`],
  ];
  const answer = useAsk<Answer>('series', selection.error === null ? parameters : null);
  const recorded = useAsk<Answer>('recorded', answer.data === null ? null : [...shared, ['step', showLength(step)]]);
  const lines = useMemo(() => linesOf(answer.data?.rows ?? [], column, meta.hosts.length), [answer.data]);
  const gaps = useMemo(() => (recorded.data === null ? [] : gapsOf(recorded.data.rows, range, step, meta.recorder !== null)), [recorded.data, answer.data]);
  const moments = useMoments(selection, meta);
  const values = lines.flatMap((line) => [...line.values.values()]).filter((value) => value > 0);
  const [low, high] = values.reduce(([least, most], value) => [Math.min(least, value), Math.max(most, value)], [Infinity, 0]);
  const showValue = (value: number) => show(value, kind);
  const addressOf = (line: Line, time?: number) => {
    const words = time === undefined ? place.words : withWords(place.words, fixedWords(time - AROUND * step, time + (AROUND + 1) * step));
    return fileAddress(line.row, words);
  };
  const table = () => {
    const columns: Column[] = [
      { name: 'path', label: 'file', kind: 'text', text: (row) => hostedName(row, meta.hosts.length), href: (row) => fileAddress(row, place.words) },
      { name: 'highest', label: `highest ${measure}`, kind },
      { name: 'when', label: 'when', kind: 'time', text: (row) => showTime(Number(row.when), zone), href: (row) => fileAddress(row, withWords(place.words, fixedWords(Number(row.when) - AROUND * step, Number(row.when) + (AROUND + 1) * step))) },
      { name: 'windows', label: 'windows with requests', kind: 'count' },
    ];
    const rows = lines.map((line): Row => {
      const [when, highest] = [...line.values].reduce<[number | null, number | null]>((most, [time, value]) => (most[1] === null || value > most[1] ? [time, value] : most), [null, null]);
      return { ...line.row, highest, when, windows: line.values.size };
    });
    return <Table label="Files over time" columns={columns} rows={rows} />;
  };
  return (
    <>
      <h1>Files over time</h1>
      <Controls place={place} selection={selection} meta={meta} moves={moves} refresh={refresh} isLive={false} without={['file']} />
      <Notes notes={answer.data?.notes ?? []} error={selection.error ?? answer.error} none="" />
      <Figure
        title={`Up to ${MOST_FILES} files, ${measure === 'p99' ? 'highest p99' : `most ${measure}`} first`}
        command={command('query', parameters)}
        loading={answer.loading || recorded.loading}
        error={null}
        table={table}
        controls={
          <div class="group" role="group" aria-label="Colour of a cell">
            {MEASURES.map((one) => (
              <button type="button" key={one} aria-pressed={one === measure} onClick={() => moves.change({ measure: one === 'p99' ? null : one })}>
                {one}
              </button>
            ))}
          </div>
        }
        about={
          <span class="legend files-legend">
            {about}:{' '}
            {values.length > 0 &&
              [0, 0.25, 0.5, 0.75, 1].map((share) => {
                const value = low * (high / low) ** share;
                return (
                  <span key={share}>
                    <i style={{ background: shade(logShare(value / low, high / low), isDark) }} /> {showValue(value)}{' '}
                  </span>
                );
              })}
            {gaps.length > 0 && 'hatched: not recorded '}
            {moments.length > 0 && 'dotted: events'}
          </span>
        }
      >
        {lines.length === 0 ? <p class="readout">{answer.loading ? 'loading' : 'nothing matched'}</p> : <FilesMap lines={lines} range={range} step={step} gaps={gaps} moments={moments} low={low} high={high} showValue={showValue} addressOf={addressOf} />}
      </Figure>
      <Events moments={moments} />
    </>
  );
}
