// Answers the questions to a server from the data of a report: the same rows, in the same order.
import type { Answer, Parameters, Stack } from '../api.ts';
import { rfc3339, showLength } from '../time.ts';
import type { Row } from '../windows.ts';
import type { Data, Times } from './data.ts';
import { Asked, dirBelow, NotInReport, rangeOf, select, stepOf, type Selected } from './select.ts';
import { addHistogram, added, addRow, column, nothing, percentile, perSecond, rounded, starts, type Sums } from './sums.ts';

const OTHER_FILES = '(other files)';
const OTHER_TREES = '(other trees)';
const OTHER_TENANTS = '(other tenants)';

/** A row of an answer before its columns are chosen. */
interface Group {
  /** What the row stands for, on any host. */
  entity: string;
  /** The first place or tenant of it: a last resort for the order. */
  order: number;
  host: string;
  time: number;
  /** It is a sum of files, and comes after those that are one by one. */
  isOther: boolean;
  /** The latest window of which it has something. */
  last: number;
  names: Row;
  read: Sums;
  write: Sums;
}

const at = <T>(list: T[], i: number | undefined): T | null => list[i ?? -1] ?? null;

const timesOfHosts = new WeakMap<Times, Map<string, number[]>>();

/** Places of a host's times. */
function timesOf({ names }: Data, times: Times, host: string): number[] {
  let known = timesOfHosts.get(times);
  if (known === undefined) {
    known = new Map(names.hosts.map((name) => [name, []]));
    times.host.forEach((of, i) => known?.get(names.hosts[of] ?? '')?.push(i));
    timesOfHosts.set(times, known);
  }
  return known.get(host) ?? [];
}

/** Recorded time of a host, ms. */
function recordedMs(data: Data, times: Times, host: string, since: number, until: number): number {
  let sum = 0;
  for (const i of timesOf(data, times, host)) {
    const [start, end] = [times.since[i] ?? 0, times.until[i] ?? 0];
    const inside = Math.min(end, until) - Math.max(start, since);
    sum += inside > 0 ? ((times.recorded_ms[i] ?? 0) * inside) / (end - start) : 0;
  }
  return Math.round(sum);
}

/** As the command line has it: what is recorded of a window of a second or longer that has rates; of shorter ones a twentieth. */
const LEAST_RATE_MS = 50;

/** The windows of a question: the start of each, and where they begin and end in the range. */
class Windows {
  readonly since: number;
  readonly until: number;
  private readonly first: number;

  constructor(
    private readonly data: Data,
    asked: Asked,
    private readonly step = stepOf(data, asked),
  ) {
    [this.since, this.until] = rangeOf(data, asked);
    this.first = Math.floor(data.since / data.step) * data.step;
  }

  /** Where a window of the report lies in the answer; null if it is not in the range. */
  of(window: number): number | null {
    const time = this.first + window * this.data.step;
    if (time >= this.until || time + this.data.step <= this.since) {
      return null;
    }
    return this.step === null ? this.since : Math.floor(time / this.step) * this.step;
  }

  /** Recorded time of a host, by which rates divide; 0 where it is too short for a rate. */
  recorded(times: Times, host: string, time: number): number {
    const end = this.step === null ? this.until : Math.min(time + this.step, this.until);
    const ms = recordedMs(this.data, times, host, Math.max(time, this.since), end);
    return ms < Math.min(LEAST_RATE_MS, (this.step ?? this.until - this.since) / 20) ? 0 : ms;
  }
}

/** What a row of a place and a tenant stands for, and its names. As on the command line, a tenant of another host is another one. */
function placeNames(data: Data, by: string, place: number, tenant: number, { dirs }: Selected): [entity: string, names: Row] {
  const { places, names } = data;
  const kind = places.kind[place];
  const mount = at(names.mounts, places.mount[place]);
  const path = at(names.paths, places.path[place]);
  switch (by) {
    case 'host':
      return [String(places.host[place]), {}];
    case 'mount':
      return [mount ?? '', { mount }];
    case 'tenant': {
      const { uid, user, cgroup, container, tenant_name } = names.tenants;
      const one = { uid: at(uid, tenant), user: tenant < 0 ? OTHER_TENANTS : at(user, tenant), cgroup: at(cgroup, tenant), container: at(container, tenant), tenant_name: at(tenant_name, tenant) };
      const known = one.uid !== null || one.cgroup !== null;
      const group = one.tenant_name ?? (known ? `${one.uid ?? '?'}${one.cgroup === null ? '' : `:${one.cgroup}`}` : null);
      return [`${places.host[place]}\n${tenant}`, { ...one, tenant: tenant < 0 ? OTHER_TENANTS : group }];
    }
    case 'dir': {
      const base = dirs.find((dir) => path === dir || path?.startsWith(`${dir}/`)) ?? at(names.paths, places.root[place]) ?? '';
      const dir = kind === 'other' ? OTHER_TREES : kind === 'file' && path !== null ? dirBelow(path, base) : path;
      return [`${mount}\n${dir}`, { mount, path: dir }];
    }
    case 'file': {
      const file = places.file[place] ?? -1;
      if (kind === 'file') {
        return [String(file), { mount, path, dev: places.dev[place], fileid: at(names.fileids, places.fileid[place]), file_key: String(file) }];
      }
      const other = kind === 'dir' ? `(other files in ${path})` : kind === 'unnamed' ? '(other files without a name)' : OTHER_FILES;
      return [`${mount}\n${other}`, { mount, path: other, dev: null, fileid: null, file_key: null }];
    }
    default:
      throw new NotInReport(`rows by ${by} are not in this report`);
  }
}

/** Rows that a question selects, added up by what its rows stand for. */
function groups(data: Data, by: string, windows: Windows, selected: Selected): Group[] {
  const { rows, places, names } = data;
  const found = new Map<string, Group>();
  const [readAt, writeAt] = histogramStarts(data);
  rows.window.forEach((window, i) => {
    const time = windows.of(window);
    const place = rows.place[i] ?? -1;
    if (time === null || selected.places[place] !== true) {
      return;
    }
    const tenant = rows.tenant[i] ?? -1;
    const [entity, of] = placeNames(data, by, place, tenant, selected);
    const host = names.hosts[places.host[place] ?? -1] ?? '';
    const key = [time, host, entity].join('\n');
    let group = found.get(key);
    if (group === undefined) {
      group = { entity, order: by === 'tenant' ? tenant : place, host, time, isOther: by === 'file' && places.kind[place] !== 'file', last: window, names: of, read: nothing(), write: nothing() };
      found.set(key, group);
    } else if (window > group.last) {
      // A file keeps its last name.
      group.last = window;
      group.names = of;
    }
    addRow(group.read, rows.read, i, readAt[i] ?? 0);
    addRow(group.write, rows.write, i, writeAt[i] ?? 0);
  });
  return [...found.values()];
}

let known: [number[], number[]] | null = null;

function histogramStarts({ rows }: Data): [number[], number[]] {
  const count = rows.window.length;
  known ??= [starts(rows.read.histogram, count), starts(rows.write.histogram, count)];
  return known;
}

function valueOf(group: Group, name: string, recorded: number, level?: string): unknown {
  if (name === 'level') {
    return level;
  }
  if (name === 'time') {
    return rfc3339(group.time);
  }
  if (name === 'host') {
    return group.host;
  }
  if (name in group.names) {
    return group.names[name];
  }
  const [, direction, plain] = /^(read_|write_)?(.+)$/.exec(name) ?? [];
  const sums = direction === 'read_' ? group.read : direction === 'write_' ? group.write : added(group.read, group.write);
  return column(sums, plain ?? '', recorded);
}

const text = (value: unknown) => (typeof value === 'string' ? value : '');
const compare = (a: string | number, b: string | number) => (a < b ? -1 : a > b ? 1 : 0);

/** As the command line sorts: unknown values come last, either way. */
function bySort(sort: string): (a: unknown, b: unknown) => number {
  const sign = sort.endsWith(':asc') ? 1 : -1;
  return (a, b) => (typeof a !== 'number' || typeof b !== 'number' ? Number(typeof a !== 'number') - Number(typeof b !== 'number') : sign * compare(a, b));
}

/** The entities that come first over the whole range, by all hosts together. */
function ranks(all: Group[], sort: string, top: number, recorded: (group: Group) => number): Map<string, number> {
  const whole = new Map<string, { group: Group; hosts: Map<string, number> }>();
  for (const group of all) {
    const before = whole.get(group.entity);
    const hosts = before?.hosts ?? new Map<string, number>();
    hosts.set(group.host, recorded(group));
    whole.set(group.entity, { group: before === undefined ? group : { ...before.group, read: added(before.group.read, group.read), write: added(before.group.write, group.write) }, hosts });
  }
  const order = bySort(sort);
  const places = [...whole.values()].map(({ group, hosts }) => ({ group, value: valueOf(group, sort.replace(/:asc$/, ''), Math.max(...hosts.values())) }));
  places.sort((a, b) => Number(a.group.isOther) - Number(b.group.isOther) || order(a.value, b.value) || compare(a.group.order, b.group.order));
  return new Map(places.slice(0, top).map(({ group }, i) => [group.entity, i]));
}

function rowsOf(data: Data, asked: Asked, usualBy: string): Answer {
  const by = asked.first('by') ?? usualBy;
  const windows = new Windows(data, asked);
  const selected = select(data, asked);
  const sort = asked.first('sort') ?? 'latency_us_sum';
  const top = Number(asked.first('top') ?? Infinity);
  const isWhole = stepOf(data, asked) === null;
  let all = groups(data, by, windows, selected);
  const times = new Map<string, number>();
  const recorded = (group: Group) => {
    const key = `${group.host}\n${group.time}`;
    const ms = times.get(key) ?? windows.recorded(data.recorded, group.host, group.time);
    times.set(key, ms);
    return ms;
  };
  let order = (_a: Group, _b: Group) => 0;
  if (top < Infinity) {
    const whole = isWhole ? all : groups(data, by, new Windows(data, asked, null), selected);
    const ranked = ranks(whole, sort, top, recorded);
    all = all.filter((group) => ranked.has(group.entity));
    order = (a, b) => (ranked.get(a.entity) ?? 0) - (ranked.get(b.entity) ?? 0);
  }
  const columns = (asked.first('columns') ?? '').split(',');
  const sorted = sort.replace(/:asc$/, '');
  const places = all.map((group) => ({ group, value: isWhole ? valueOf(group, sorted, recorded(group)) : null }));
  const bySize = bySort(sort);
  places.sort(
    ({ group: a, value: x }, { group: b, value: y }) =>
      Number(a.isOther) - Number(b.isOther) || order(a, b) || (isWhole ? bySize(x, y) : 0) || compare(a.time, b.time) || Number(a.names.path === null) - Number(b.names.path === null) || compare(text(a.names.path), text(b.names.path)) || compare(a.order, b.order) || compare(a.host, b.host),
  );
  const rows = places.map(({ group }) => Object.fromEntries(columns.map((name) => [name, valueOf(group, name, recorded(group), data.level)])));
  const step = stepOf(data, asked);
  return { rows, notes: [...data.notes, ...selected.notes], ...(step === null ? {} : { step: showLength(step) }) };
}

function refuseFiles(asked: Asked): void {
  if (asked.all('file').length + asked.all('dir').length > 0) {
    throw new NotInReport('operations of files are not in this report, only those of mounts; the command below asks the store for them');
  }
}

interface OperationSums {
  host: string;
  mount: string | null;
  op: string;
  requests: number;
  errors: number;
  queue: number;
  rtt: number;
  execute: number;
  max: number;
  histogram: Map<number, number>;
}

function operations(data: Data, asked: Asked): Answer {
  refuseFiles(asked);
  const { names, operations: of } = data;
  if (data.no_operations !== null) {
    return { rows: [], notes: [...data.notes, data.no_operations] };
  }
  const windows = new Windows(data, asked, null);
  const selectedMounts = new Set(select(data, asked).places.flatMap((is, i) => (is ? [data.places.mount[i] ?? -1] : [])));
  const histogramAt = starts(of.histogram, of.window.length);
  const found = new Map<string, OperationSums>();
  const perMount = new Map<string, number>();
  of.window.forEach((window, i) => {
    const place = of.mount[i] ?? -1;
    if (windows.of(window) === null || (asked.all('mount').length > 0 && !selectedMounts.has(place))) {
      return;
    }
    const [host, mount, op] = [names.hosts[of.host[i] ?? -1] ?? '', at(names.mounts, place), names.operations[of.operation[i] ?? -1] ?? ''];
    const key = [host, place, op].join('\n');
    const sums = found.get(key) ?? { host, mount, op, requests: 0, errors: 0, queue: 0, rtt: 0, execute: 0, max: 0, histogram: new Map<number, number>() };
    found.set(key, sums);
    const requests = of.requests[i] ?? 0;
    sums.requests += requests;
    sums.errors += of.errors[i] ?? 0;
    sums.queue += of.queue_us_sum[i] ?? 0;
    sums.rtt += of.rtt_us_sum[i] ?? 0;
    sums.execute += of.execute_us_sum[i] ?? 0;
    sums.max = Math.max(sums.max, of.execute_us_max[i] ?? 0);
    addHistogram(sums.histogram, of.histogram, histogramAt[i] ?? 0);
    perMount.set(`${host}\n${mount}`, (perMount.get(`${host}\n${mount}`) ?? 0) + requests);
  });
  const mean = (sum: number, count: number) => (count > 0 ? rounded(sum / count) : null);
  const all = [...found.values()].map((sums): Row => {
    const recorded = windows.recorded(data.operations_recorded, sums.host, windows.since);
    const whole = perMount.get(`${sums.host}\n${sums.mount}`) ?? 0;
    return {
      host: sums.host, mount: sums.mount, op: sums.op, requests: sums.requests, errors: sums.errors,
      requests_share: whole > 0 ? rounded(sums.requests / whole, 1e6) : null,
      iops: perSecond(sums.requests, recorded),
      execute_us_sum: sums.execute, execute_us_mean: mean(sums.execute, sums.requests), queue_us_mean: mean(sums.queue, sums.requests), rtt_us_mean: mean(sums.rtt, sums.requests),
      execute_us_p99: percentile(sums.histogram, 'p99', sums.max), execute_us_max: sums.max,
    };
  });
  const sort = asked.first('sort') ?? 'execute_us_sum';
  const order = bySort(sort);
  const sorted = sort.replace(/:asc$/, '');
  const names3 = (row: Row) => [row.host, row.mount, row.op].map(text);
  all.sort((a, b) => order(a[sorted], b[sorted]) || compare(names3(a).join('\n'), names3(b).join('\n')));
  return { rows: all.slice(0, Number(asked.first('top') ?? Infinity)), notes: data.notes };
}

function flame(data: Data, asked: Asked): Answer<Stack> {
  const { rows, places, names } = data;
  const windows = new Windows(data, asked, null);
  const selected = select(data, asked);
  const measure = { requests: 'requests', bytes: 'bytes' }[asked.first('by') ?? ''] ?? 'latency_us_sum';
  const direction = asked.first('direction') ?? 'both';
  const sides = [direction === 'write' ? [] : [rows.read], direction === 'read' ? [] : [rows.write]].flat();
  const values = new Map<number, number>();
  rows.window.forEach((window, i) => {
    const place = rows.place[i] ?? -1;
    if (selected.places[place] === true && windows.of(window) !== null) {
      const value = sides.reduce((sum, side) => sum + (side[measure as 'bytes'][i] ?? 0), 0);
      values.set(place, (values.get(place) ?? 0) + value);
    }
  });
  const stacks = [...values].filter(([, value]) => value > 0).map(([place, value]): Stack => {
    const kind = places.kind[place];
    const root = at(names.paths, places.root[place]) ?? '';
    const number = `${places.dev[place] ?? ''}:${at(names.fileids, places.fileid[place]) ?? ''}`;
    const path = at(names.paths, places.path[place]) ?? (kind === 'file' ? number : '');
    const below = path === root ? [] : path.startsWith(`${root}/`) ? path.slice(root.length + 1).split('/') : null;
    const frames = below === null ? [path] : [...(root === '' ? [] : [root]), ...below];
    return { frames: [at(names.mounts, places.mount[place]) ?? '(no mount)', ...frames, ...(kind === 'file' ? [] : [OTHER_FILES])].filter((frame) => frame !== ''), value };
  });
  return { rows: stacks, notes: selected.notes };
}

function recorded(data: Data, asked: Asked): Answer {
  const [since, until] = rangeOf(data, asked);
  const { host, since: starts_, until: ends, recorded_ms } = data.recorded;
  const rows = host.map((of, i): Row => ({ host: data.names.hosts[of], since: starts_[i] ?? 0, until: ends[i] ?? 0, recorded_ms: recorded_ms[i] }));
  const inRange = rows.filter((row) => Number(row.since) < until && Number(row.until) > since);
  return { rows: inRange.map((row) => ({ ...row, since: rfc3339(Number(row.since)), until: rfc3339(Number(row.until)) })), notes: [] };
}

/** Files, each with the names that it had. */
function files(data: Data, asked: Asked): Answer {
  const { places, names, had_names: had } = data;
  const selected = select(data, asked);
  const found = new Map<string, Row>();
  places.kind.forEach((kind, i) => {
    const key = `${places.host[i]}\n${places.file[i]}`;
    if (kind !== 'file' || selected.places[i] !== true || found.has(key)) {
      return;
    }
    const own = had.file.flatMap((file, n) => (file === places.file[i] && had.host[n] === places.host[i] ? [n] : []));
    const namesOf = own.map((n) => ({ path: at(names.paths, had.path[n]), first_seen: rfc3339(had.first[n] ?? 0), last_seen: rfc3339(had.last[n] ?? 0) }));
    found.set(key, { host: at(names.hosts, places.host[i]), mount: at(names.mounts, places.mount[i]), dev: places.dev[i], fileid: at(names.fileids, places.fileid[i]), names: namesOf });
  });
  return { rows: [...found.values()], notes: [] };
}

/** Marks, stalls and what else may explain a change. Where there are several hosts, the text names the one. */
function events(data: Data, asked: Asked): Answer {
  const [since, until] = rangeOf(data, asked);
  const { time, kind, text: texts } = data.events;
  const rows = time.flatMap((ms, i): Row[] => (since <= ms && ms < until ? [{ time: rfc3339(ms), host: null, kind: kind[i], text: texts[i] }] : []));
  return { rows, notes: [] };
}

const ANSWERS: Record<string, (data: Data, asked: Asked) => unknown> = {
  meta: ({ version, names, since, until, step }) => ({ version, stores: [], hosts: [...names.hosts].sort(), since: rfc3339(since), until: rfc3339(until), granularities: [`${step}ms`], recorder: null }),
  series: (data, asked) => rowsOf(data, asked, 'file'),
  top: (data, asked) => rowsOf(data, asked, 'file'),
  operations,
  flame,
  recorded,
  files,
  events,
};

/** Answers as `/api/v1/name` does. */
export function answer(data: Data, name: string, parameters: Parameters): unknown {
  const asked = new Asked(parameters);
  const to = ANSWERS[name];
  if (to === undefined || asked.first('where') !== undefined) {
    throw new NotInReport('a report has no conditions (where); the command below asks the store');
  }
  return to(data, asked);
}
