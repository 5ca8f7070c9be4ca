// The pictures of a selection over time: latency, IOPS, throughput and the parts of latency.
import { useMemo, useState } from 'preact/hooks';
import { command } from '../command.ts';
import { shade, logShare } from '../colours.ts';
import { show, showBytes, showCount, showMicros, showShort } from '../format.ts';
import { rowOf, rowStart } from '../histogram.ts';
import type { Recording } from '../recording.ts';
import { report } from '../report/data.ts';
import type { Range, Selection } from '../selection.ts';
import { useSettings } from '../settings.ts';
import { showLength, showTime } from '../time.ts';
import { answeredBy, points, type Op, type Point, type Row } from '../windows.ts';
import { Chart, type ChartProps, type Line, type Moment } from './chart.tsx';
import type { Moves } from './controls.tsx';
import { Events } from './events.tsx';
import { Figure } from './figure.tsx';
import { cellWord } from './requests.tsx';
import { Table, type Column } from './table.tsx';

export const OP_NAMES: Record<Op, string> = { both: 'reads and writes', read: 'reads', write: 'writes' };

/** Windows without requests have no row; a line must not cross them. Where a time is idle, its first and last window say so. */
function withIdle(found: Point[], step: number, range: Range): (Point | number)[] {
  const all: (Point | number)[] = [];
  const idle = (from: number, before: number) => {
    if (before - from > step / 2) {
      all.push(from);
    }
    if (before - from > step * 1.5) {
      all.push(before - step);
    }
  };
  let next = Math.ceil(range.since / step) * step;
  for (const point of found) {
    idle(next, point.time);
    all.push(point);
    next = point.time + step;
  }
  // The last window of a moving range may not be closed yet.
  idle(next, Math.floor(range.until / step) * step - (range.moves ? 2 * step : 0));
  return all;
}

const windowTable = (part: string): Column[] => [
  { name: 'time', label: 'time', kind: 'time' },
  { name: 'requests', label: 'requests', kind: 'count' },
  { name: 'read_iops', label: 'read iops', kind: 'rate' },
  { name: 'write_iops', label: 'write iops', kind: 'rate' },
  { name: 'read_throughput', label: 'read throughput', kind: 'throughput' },
  { name: 'write_throughput', label: 'write throughput', kind: 'throughput' },
  ...['p50', 'p99'].map((name): Column => ({ name, label: name, kind: 'us' })),
  { name: 'max', label: 'max', kind: 'us' },
  { name: 'queue', label: 'queue', kind: 'us' },
  { name: 'network', label: part, kind: 'us' },
  { name: 'completion', label: 'completion', kind: 'us' },
  { name: 'errors', label: 'errors', kind: 'count' },
];

/** A column in the words of the command line: of both directions together (`+`), or of each that is shown. */
function shownOf(column: string, op: Op): string[] {
  const name = column.replace('+', '');
  if (op !== 'both') {
    return [`${op}_${name}`];
  }
  return column.startsWith('+') ? [name] : [`read_${name}`, `write_${name}`];
}

function Legend({ most }: { most: number }) {
  const { isDark } = useSettings();
  const shares = [0, 0.25, 0.5, 0.75, 1];
  const counts = [...new Set(shares.map((share) => Math.round(most ** share)))];
  return (
    <span class="legend">
      requests in a cell:{' '}
      {counts.map((count) => (
        <span key={count}>
          <i style={{ background: shade(logShare(count, most), isDark) }} /> {showShort(count)}{' '}
        </span>
      ))}
    </span>
  );
}

/** A number, where it is known. */
const known = (value: number | null | undefined) => (typeof value === 'number' && Number.isFinite(value) ? value : null);

function Keys({ keys }: { keys: [string, string][] }) {
  return (
    <span class="legend">
      {keys.map(([label, name]) => (
        <span key={label}>
          <i class={`key ${name}`} /> {label}{' '}
        </span>
      ))}
    </span>
  );
}

export function Series({ recording, selection, moves, moments }: { recording: Recording; selection: Selection; moves: Moves; moments: Moment[] }) {
  const { op, ofCalls } = selection;
  const { zone } = useSettings();
  const [at, setAt] = useState<{ index: number; us: number | null } | null>(null);
  const { step, range, gaps } = recording;
  const part = answeredBy(recording.windows.map((window) => window.level));
  const slots = useMemo(() => withIdle(points(recording.windows, op), step, range), [recording.windows, op, step, range.since, range.until]);
  const read = useMemo(() => withIdle(points(recording.windows, 'read'), step, range), [recording.windows, step, range.since, range.until]);
  const write = useMemo(() => withIdle(points(recording.windows, 'write'), step, range), [recording.windows, step, range.since, range.until]);
  const times = useMemo(() => slots.map((slot) => (typeof slot === 'number' ? slot : slot.time)), [slots]);
  const heat = useMemo(() => {
    const cells = slots.map((slot) => (typeof slot === 'number' ? new Map<number, number>() : slot.heat));
    return { cells, most: Math.max(1, ...cells.flatMap((of) => [...of.values()])) };
  }, [slots]);
  const isGap = (time: number) => gaps.some((gap) => !gap.partly && gap.since <= time && time < gap.until);
  const values = (of: (Point | number)[], value: (point: Point) => number | null) => of.map((slot) => (typeof slot === 'number' ? null : value(slot)));
  const rates = (of: (Point | number)[], value: (point: Point) => number) => of.map((slot) => (typeof slot !== 'number' ? known(value(slot)) : isGap(slot) ? null : 0));
  const lines = useMemo(() => {
    const directions: [Op, (Point | number)[]][] = [['read', read], ['write', write]];
    const shown = directions.filter(([of]) => op === 'both' || op === of);
    const ofRates = (value: (point: Point) => number): Line[] => shown.map(([of, data]) => ({ label: of, colour: of as 'read' | 'write', values: rates(data, value) }));
    const partLine = (name: 'queue' | 'network' | 'completion'): Line => ({ label: name === 'network' ? part : name, colour: name, area: true, values: values(slots, (point) => point.parts?.[name] ?? null) });
    return {
      latency: [
        { label: 'p50', colour: 'p50', values: values(slots, (point) => point.p50) },
        { label: 'p99', colour: 'p99', values: values(slots, (point) => point.p99) },
        { label: 'max', colour: 'max', dash: [4, 3], values: values(slots, (point) => (point.max > 0 ? point.max : null)) },
      ] satisfies Line[] as Line[],
      iops: ofRates((point) => point.iops),
      throughput: ofRates((point) => point.throughput),
      parts: [partLine('queue'), partLine('network'), partLine('completion')],
    };
  }, [slots, read, write, op, gaps, part]);
  const zoom = moves.zoom;
  const shared: Omit<ChartProps, 'label' | 'lines' | 'height' | 'showValue'> = {
    range, step, times, gaps, moments, onZoom: zoom, onCompare: moves.compare, onBack: moves.back,
    onPoint: (index, us) => setAt(index === null ? null : { index, us }),
  };
  const slot: Point | number | undefined = at === null ? undefined : slots[at.index];
  const point = typeof slot === 'object' ? slot : undefined;
  const when = slot === undefined ? null : showTime(typeof slot === 'number' ? slot : slot.time, zone);
  const isUnrecorded = typeof slot === 'number' && isGap(slot);
  /** The numbers of a picture: as few columns as have them. */
  const asked = (...columns: string[]) => {
    const names = columns.flatMap((column) => shownOf(column, op)).map((name) => (ofCalls ? `app_${name.replace('requests', 'calls')}` : name));
    return command('query', [...recording.parameters.filter(([name]) => name !== 'columns'), ['columns', ['time', 'host', ...names].join(',')]]);
  };
  const ratesAt = (of: (Point | number)[], i: number, name: string) => {
    const one = of[i];
    return typeof one === 'object' ? { [`${name}_iops`]: known(one.iops), [`${name}_throughput`]: known(one.throughput) } : {};
  };
  // The three lists have the same windows at the same positions.
  const rows: Row[] = slots.flatMap((one, i) => (typeof one === 'object' ? [{ ...one, ...one.parts, ...ratesAt(read, i, 'read'), ...ratesAt(write, i, 'write'), time: showTime(one.time, zone) }] : []));
  const table = (name: string, columns: string[]) => () => <Table label={name} columns={windowTable(part).filter((column) => ['time', ...columns].includes(column.name))} rows={rows} empty="no requests" />;
  const figure = { loading: recording.loading, error: null };
  const untimed = slots.reduce<number>((sum, one) => sum + (typeof one === 'object' ? one.untimed + one.folded : 0), 0);
  const cell = () => {
    if (point === undefined || at === null || at.us === null || at.us <= 0) {
      return '';
    }
    const row = rowOf(at.us);
    return `; ${showCount(point.heat.get(row) ?? 0)} from ${showMicros(rowStart(row))} to ${showMicros(rowStart(row + 1))}`;
  };
  const near = when === null || at === null ? [] : moments.filter(({ time }) => Math.abs(time - (times[at.index] ?? NaN) - step / 2) <= Math.max(step, (range.until - range.since) / 200)).map(({ about }) => about);
  const nearText = near.length > 0 ? `; ${near.join(', ')}` : '';
  const hint = `windows of ${showLength(step)}; drag to choose a time${moments.length > 0 ? '; dotted: events' : ''}`;
  const gapText = gaps.length > 0 ? '; hatched: not recorded' : '';
  const unit = (value: number | null | undefined, kind: 'us' | 'rate' | 'throughput') => show(known(value), kind);
  const direction = (of: (Point | number)[]): Point | null => {
    const one = at === null ? undefined : of[at.index];
    return typeof one === 'object' ? one : null;
  };
  const what = ofCalls ? `calls: ${OP_NAMES[op]}` : OP_NAMES[op];
  const openCell = () => {
    if (point !== undefined && at !== null && at.us !== null && at.us > 0 && report() === null) {
      const row = rowOf(at.us);
      moves.change({ cell: cellWord({ since: point.time, until: point.time + step, from: rowStart(row), to: rowStart(row + 1) }) });
    }
  };
  const shownOps: Op[] = op === 'both' ? ['read', 'write'] : [op];
  const rateText = (value: (point: Point) => number, kind: 'rate' | 'throughput') =>
    when === null ? `${hint}${gapText}` : isUnrecorded ? `${when}: not recorded` : `${when}: ${shownOps.map((of) => `${of} ${unit(value(direction(of === 'read' ? read : write) ?? ({ iops: 0, throughput: 0 } as Point)), kind)}`).join(', ')}`;
  return (
    <>
      <Figure
        {...figure}
        command={asked('+requests', '+latency_us_p50', '+latency_us_p99', '+latency_us_max', '+errors')}
        title={`Latency of ${what}`}
        table={table('Latency by window', ['requests', 'p50', 'p99', 'max', 'errors'])}
        about={
          <>
            <Keys keys={[['p50', 'p50'], ['p99', 'p99'], ['max', 'max']]} /> <Legend most={heat.most} />
            {untimed > 0 && <span>{showCount(untimed)} requests without a latency of their own are not in the cells.</span>}
          </>
        }
      >
        <Chart {...shared} onCell={openCell} label={`Heat map of latencies over time, ${what}, with lines of p50, p99 and max`} lines={lines.latency} heat={heat} isLog height={280} showValue={(us) => showMicros(us).replace('.00', '').replace('.0 ', ' ')} />
        <p class="readout">
          {when === null ? `${hint}${gapText}` : isUnrecorded ? `${when}: not recorded` : `${when}: ${showCount(point?.requests ?? 0)} requests, p50 ${unit(point?.p50, 'us')}, p99 ${unit(point?.p99, 'us')}, max ${unit(point?.max, 'us')}${cell()}${nearText}`}
        </p>
      </Figure>
      <div class="pair">
        <Figure {...figure} command={asked('iops')} title="IOPS" table={table('IOPS by window', shownOf('iops', op))} about={<Keys keys={shownOps.map((of) => [of, of])} />}>
          <Chart {...shared} label="IOPS over time" lines={lines.iops} height={150} showValue={showShort} />
          <p class="readout">{rateText((of) => of.iops, 'rate')}</p>
        </Figure>
        <Figure {...figure} command={asked('throughput')} title="Throughput" table={table('Throughput by window', shownOf('throughput', op))} about={<Keys keys={shownOps.map((of) => [of, of])} />}>
          <Chart {...shared} label="Throughput over time" lines={lines.throughput} isBytes height={150} showValue={(value) => `${showBytes(value).replace(/\.\d+/, '')}/s`} />
          <p class="readout">{rateText((of) => of.throughput, 'throughput')}</p>
        </Figure>
      </div>
      {!ofCalls && <Figure
        {...figure}
        command={asked('+requests', '+queue_us_mean', '+rtt_us_mean', '+completion_us_mean')}
        title={`Parts of the mean latency of ${OP_NAMES[op]}`}
        table={table('Parts of the mean latency by window', ['requests', 'queue', 'network', 'completion'])}
        about={<Keys keys={[['queue', 'queue'], [part, 'network'], ['completion', 'completion']]} />}
      >
        <Chart {...shared} label={`Parts of the mean latency over time: queue, ${part}, completion`} lines={lines.parts} height={150} showValue={(us) => showMicros(us).replace('.00', '').replace('.0 ', ' ')} />
        <p class="readout">
          {when === null ? `${hint}${gapText}` : isUnrecorded ? `${when}: not recorded` : `${when}: queue ${unit(point?.parts?.queue, 'us')}, ${part} ${unit(point?.parts?.network, 'us')}, completion ${unit(point?.parts?.completion, 'us')}`}
        </p>
      </Figure>}
      <Events moments={moments} />
    </>
  );
}

