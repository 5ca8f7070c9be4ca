// Windows of an answer with `by=host`: sums over hosts of all columns that can be added.
import { atMost } from './format.ts';
import { add, merged, quantile, rows as heatRows, type Bucket, type Histogram } from './histogram.ts';

export type Row = Record<string, unknown>;
export type Op = 'read' | 'write' | 'both';

const PER_DIRECTION = [
  'requests', 'bytes', 'errors', 'untimed', 'unsplit', 'folded', 'latency_us_sum', 'latency_us_max', 'queue_us_sum', 'rtt_us_sum', 'iops', 'throughput', 'latency_hist',
];
const PER_CALL = ['calls', 'bytes', 'direct_bytes', 'errors', 'timed', 'latency_us_sum', 'latency_us_max', 'iops', 'throughput', 'latency_hist'];

/** The columns of windows: of requests, or of calls. */
export function windowColumns(ofCalls: boolean): string {
  const [prefix, names] = ofCalls ? ['app_', PER_CALL] : ['', PER_DIRECTION];
  return ['time', 'host', 'level', ...['read', 'write'].flatMap((of) => names.map((name) => `${prefix}${of}_${name}`))].join(',');
}

/** One direction of a window. */
export interface Sums {
  requests: number;
  bytes: number;
  errors: number;
  untimed: number;
  unsplit: number;
  folded: number;
  sum: number;
  queue: number;
  rtt: number;
  max: number;
  /** Rates are NaN where too little of the window was recorded for one. */
  iops: number;
  throughput: number;
  histogram: Histogram;
}

export interface Window {
  time: number;
  /** Where it was recorded: the wire, or block devices. */
  level: string;
  read: Sums;
  write: Sums;
}

function nothing(): Sums {
  return { requests: 0, bytes: 0, errors: 0, untimed: 0, unsplit: 0, folded: 0, sum: 0, queue: 0, rtt: 0, max: 0, iops: 0, throughput: 0, histogram: new Map() };
}

const number = (value: unknown) => (typeof value === 'number' ? value : 0);

/** A rate; NaN where it is not known. */
const rate = (value: unknown) => (value === null ? NaN : number(value));

function addRow(to: Sums, row: Row, direction: 'read' | 'write'): void {
  const of = (name: string) => number(row[`${direction}_${name}`]);
  to.requests += of('requests');
  to.bytes += of('bytes');
  to.errors += of('errors');
  to.untimed += of('untimed');
  to.unsplit += of('unsplit');
  to.folded += of('folded');
  to.sum += of('latency_us_sum');
  to.queue += of('queue_us_sum');
  to.rtt += of('rtt_us_sum');
  to.max = Math.max(to.max, of('latency_us_max'));
  to.iops += rate(row[`${direction}_iops`]);
  to.throughput += rate(row[`${direction}_throughput`]);
  add(to.histogram, (row[`${direction}_latency_hist`] as Bucket[] | undefined) ?? []);
}

function addCalls(to: Sums, row: Row, direction: 'read' | 'write'): void {
  const of = (name: string) => number(row[`app_${direction}_${name}`]);
  to.requests += of('calls');
  to.bytes += of('bytes') + of('direct_bytes');
  to.errors += of('errors');
  to.untimed += of('calls') - of('timed');
  to.unsplit += of('timed');
  to.sum += of('latency_us_sum');
  to.max = Math.max(to.max, of('latency_us_max'));
  to.iops += rate(row[`app_${direction}_iops`]);
  to.throughput += rate(row[`app_${direction}_throughput`]);
  add(to.histogram, (row[`app_${direction}_latency_hist`] as Bucket[] | undefined) ?? []);
}

/** Both directions, or several windows, as one. Rates of directions add up; those of windows have to be set. */
export function addUp(all: Sums[]): Sums {
  const to = nothing();
  for (const of of all) {
    to.requests += of.requests;
    to.bytes += of.bytes;
    to.errors += of.errors;
    to.untimed += of.untimed;
    to.unsplit += of.unsplit;
    to.folded += of.folded;
    to.sum += of.sum;
    to.queue += of.queue;
    to.rtt += of.rtt;
    to.max = Math.max(to.max, of.max);
    to.iops += of.iops;
    to.throughput += of.throughput;
  }
  to.histogram = merged(all.map((of) => of.histogram));
  return to;
}

const WIRE = 'wire';

function levelOf(row: Row): string {
  return typeof row.level === 'string' ? row.level : WIRE;
}

/** What answers requests of these levels: the part of their latency between queue and completion has its name, as in tables of the command line. */
export function answeredBy(levels: string[]): 'network' | 'device' {
  return levels.length > 0 && levels.every((level) => level === 'block') ? 'device' : 'network';
}

export const answeredByOf = (rows: Row[]) => answeredBy(rows.map(levelOf));

export function windowsOf(rows: Row[], ofCalls: boolean): Map<number, Window> {
  const addTo = ofCalls ? addCalls : addRow;
  const windows = new Map<number, Window>();
  for (const row of rows) {
    const time = Date.parse(String(row.time));
    let window = windows.get(time);
    if (window === undefined) {
      window = { time, level: levelOf(row), read: nothing(), write: nothing() };
      windows.set(time, window);
    }
    addTo(window.read, row, 'read');
    addTo(window.write, row, 'write');
  }
  return windows;
}

/** Two parts of one window, which has lasted as long for both. */
export function together(a: Window, b: Window): Window {
  return { time: a.time, level: a.level, read: addUp([a.read, b.read]), write: addUp([a.write, b.write]) };
}

/** Short windows as one, which has lasted for some seconds so far. */
export function joined(time: number, windows: Window[], seconds: number): Window {
  const one = (direction: 'read' | 'write') => {
    const sums = addUp(windows.map((window) => window[direction]));
    sums.iops = sums.requests / seconds;
    sums.throughput = sums.bytes / seconds;
    return sums;
  };
  return { time, level: windows[0]?.level ?? WIRE, read: one('read'), write: one('write') };
}

export function of(window: Window, op: Op): Sums {
  return op === 'both' ? addUp([window.read, window.write]) : window[op];
}

/** What a chart shows of a window. */
export interface Point extends Sums {
  time: number;
  p50: number | null;
  p99: number | null;
  /** Means of the latency's parts, us: exact, because they are sums divided by counts. */
  parts: { queue: number; network: number; completion: number } | null;
  heat: Map<number, number>;
}

const known = new WeakMap<Window, Map<Op, Point>>();

function pointOf(window: Window, op: Op): Point {
  const before = known.get(window)?.get(op);
  if (before !== undefined) {
    return before;
  }
  const sums = of(window, op);
  const point = {
    ...sums,
    time: window.time,
    p50: atMost(quantile(sums.histogram, 0.5), sums.max),
    p99: atMost(quantile(sums.histogram, 0.99), sums.max),
    parts: parts(sums),
    heat: heatRows(sums.histogram),
  };
  known.set(window, (known.get(window) ?? new Map()).set(op, point));
  return point;
}

/** In order of time. */
export function points(windows: Iterable<Window>, op: Op): Point[] {
  return [...windows].sort((a, b) => a.time - b.time).map((window) => pointOf(window, op));
}

function parts(sums: Sums): Point['parts'] {
  const timed = sums.requests - sums.untimed;
  if (timed <= sums.unsplit) {
    return null;
  }
  const completion = Math.max(0, sums.sum - sums.queue - sums.rtt);
  return { queue: sums.queue / timed, network: sums.rtt / timed, completion: completion / timed };
}
