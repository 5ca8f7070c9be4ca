// Tables of a selection: files, trees, mounts, volumes, tenants, operations. The server ranks them.
import { useAsk, type Answer, type Meta, type Parameters } from '../api.ts';
import { command } from '../command.ts';
import { atMost, show, showMicros } from '../format.ts';
import { granularities } from '../recording.ts';
import { report } from '../report/data.ts';
import { rangeParameters, type Selection } from '../selection.ts';
import { niceStep, showLength } from '../time.ts';
import { address, withWords, type Place } from '../url.ts';
import { answeredByOf, type Op, type Row } from '../windows.ts';
import { Field, type Moves } from './controls.tsx';
import { Figure, Notes } from './figure.tsx';
import { Course, Table, type Column } from './table.tsx';

export type By = 'file' | 'dir' | 'mount' | 'volume' | 'tenant' | 'op';

const LABELS: Record<By, string> = { file: 'files', dir: 'trees', mount: 'mounts', volume: 'volumes', tenant: 'tenants', op: 'operations' };
const TOP = '100';

function sides(op: Op): ('read' | 'write')[] {
  return op === 'both' ? ['read', 'write'] : [op];
}

function percentile(name: string, label: string, max: string): Column {
  return { name, label, kind: 'us', text: (row) => show(atMost(row[name], row[max]), 'us') };
}

/** How a column of reads, of writes or of both begins. */
const prefixOf = (op: Op) => (op === 'both' ? '' : `${op}_`);

function numbers(op: Op): Column[] {
  const prefix = prefixOf(op);
  return [
    { name: `${prefix}latency_us_sum`, label: 'took', kind: 'us' },
    // A report does not compare files with the time before.
    ...(report() === null ? [{ name: `${prefix}lost_us`, label: 'lost', kind: 'us' } as const] : []),
    ...sides(op).map((side): Column => ({ name: `${side}_bytes`, label: `${side} bytes`, kind: 'bytes' })),
    { name: `${prefix}requests`, label: 'requests', kind: 'count' },
    { name: `${prefix}iops`, label: 'iops', kind: 'rate' },
    ...sides(op).flatMap((side): Column[] => [
      percentile(`${side}_latency_us_p50`, `${side} p50`, `${side}_latency_us_max`),
      percentile(`${side}_latency_us_p99`, `${side} p99`, `${side}_latency_us_max`),
      // Without requests, there is no longest one.
      { name: `${side}_latency_us_max`, label: `${side} max`, kind: 'us', text: (row) => show(row[`${side}_latency_us_max`] || null, 'us') },
    ]),
    { name: `${prefix}errors`, label: 'errors', kind: 'count' },
  ];
}

/** What applications called for, beside what was requested of servers or devices. */
function calls(op: Op): Column[] {
  return sides(op).flatMap((side): Column[] => [
    { name: `app_${side}_called_bytes`, label: `${side} called for`, kind: 'bytes' },
    { name: `app_${side}_direct_bytes`, label: `${side} called for, direct`, kind: 'bytes' },
    { name: `${side}_bytes`, label: `${side} requested`, kind: 'bytes' },
    ...(side === 'read' ? [{ name: 'app_read_hit_share', label: 'cache hits', kind: 'share' } as const] : []),
    { name: `app_${side}_amplification`, label: `${side} amplification`, kind: 'factor' },
    { name: `app_${side}_calls`, label: `${side} calls`, kind: 'count' },
    { name: `app_${side}_iops`, label: `${side} calls/s`, kind: 'rate' },
    { name: `app_${side}_latency_us_p99`, label: `${side} calls p99`, kind: 'us' },
    { name: `${side}_latency_us_p99`, label: `${side} requests p99`, kind: 'us' },
    { name: `app_${side}_errors`, label: `${side} errors`, kind: 'count' },
  ]);
}

const operations = (part: string): Column[] => [
  { name: 'op', label: 'operation', kind: 'text' },
  { name: 'mount', label: 'mount', kind: 'text' },
  { name: 'requests', label: 'requests', kind: 'count' },
  { name: 'requests_share', label: 'share', kind: 'share' },
  { name: 'iops', label: 'iops', kind: 'rate' },
  { name: 'execute_us_sum', label: 'took', kind: 'us' },
  { name: 'execute_us_mean', label: 'mean', kind: 'us' },
  percentile('execute_us_p99', 'p99', 'execute_us_max'),
  { name: 'execute_us_max', label: 'max', kind: 'us' },
  { name: 'queue_us_mean', label: 'queue', kind: 'us' },
  { name: 'rtt_us_mean', label: part, kind: 'us' },
  { name: 'errors', label: 'errors', kind: 'count' },
];

/** A name as a pattern that matches nothing else. */
const escaped = (name: string) => name.replace(/[[*?]/g, '[$&]');

/** The name that `escaped` was made of. */
export const unescaped = (word: string) => word.replace(/\[([[*?])\]/g, '$1');

/** What `file` takes for a row: its path, or its number where it has none. */
export function fileWord(row: Row): string | null {
  if (typeof row.path === 'string' && row.path !== '' && !row.path.startsWith('(')) {
    return escaped(row.path);
  }
  return typeof row.dev === 'string' && row.fileid !== null && row.fileid !== undefined ? `${row.dev}:${String(row.fileid)}` : null;
}

/** What a row of a file is about, whatever name it has at the time: a file of a host, or the rest of a mount such as `(other)`. */
export function fileKey(row: Row): string {
  const isRest = typeof row.path === 'string' && row.path.startsWith('(');
  return JSON.stringify([row.host, isRest ? [row.mount, row.path] : (row.file_key ?? [row.mount, row.dev, row.fileid, row.path])]);
}

/** A name, and its host where there are several. */
export function hosted(name: string, row: Row, hosts: number): string {
  return hosts > 1 ? `${name} on ${String(row.host)}` : name;
}

export const hostedName = (row: Row, hosts: number) => hosted(fileName(row), row, hosts);

export function fileName(row: Row): string {
  return typeof row.path === 'string' && row.path !== '' ? row.path : (fileWord(row) ?? '(no name)');
}

/** Some words of an address, for another page. */
export function kept(words: URLSearchParams, names: string[]): URLSearchParams {
  return new URLSearchParams(names.flatMap((name) => words.getAll(name).map((value) => [name, value])));
}

export function fileAddress(row: Row, words: URLSearchParams): string | null {
  const file = fileWord(row);
  if (file === null) {
    return null;
  }
  // Not the directory, because a file would be added to it.
  return address('/file', withWords(kept(words, ['since', 'until', 'op', 'mount', 'volume', 'tenant']), { file }));
}

function subject(by: By, place: Place, hasHosts: boolean): { columns: Column[]; asked: string[] } {
  const filtered = (name: string) => (row: Row) => {
    const value = row[name];
    return typeof value === 'string' && value !== '' && !value.startsWith('(') ? address(place.path, withWords(place.words, { [name === 'path' ? 'dir' : name]: value, by: null, sort: null })) : null;
  };
  // A tenant with a name is not selected by user or cgroup.
  const tenant = (name: string) => (row: Row) =>
    report() === null && typeof row[name] === 'string' && (name === 'tenant_name' || row.tenant_name === null) ? address(place.path, withWords(place.words, { tenant: row[name], by: null, sort: null })) : null;
  const host: Column[] = hasHosts ? [{ name: 'host', label: 'host', kind: 'text' }] : [];
  switch (by) {
    case 'dir':
      return { columns: [{ name: 'path', label: 'tree', kind: 'text', text: fileName, href: filtered('path') }, ...host], asked: ['host', 'mount', 'path'] };
    case 'mount':
      return { columns: [{ name: 'mount', label: 'mount', kind: 'text', href: filtered('mount') }, ...host], asked: ['host', 'mount'] };
    case 'volume':
      return { columns: [{ name: 'volume', label: 'volume', kind: 'text', href: filtered('volume') }, { name: 'claim', label: 'claim', kind: 'text' }, ...host], asked: ['host', 'volume', 'claim'] };
    case 'tenant':
      return {
        columns: [...['user', 'container', 'cgroup', 'tenant_name'].map((name): Column => ({ name, label: name.replace('_name', ''), kind: 'text', href: tenant(name) })), ...host],
        asked: ['host', 'tenant_name', 'uid', 'user', 'container', 'cgroup'],
      };
    case 'op':
      return { columns: [...operations('network').slice(0, 2), ...host], asked: ['host', 'level'] };
    default:
      return { columns: [{ name: 'path', label: 'file', kind: 'text', text: fileName, href: (row) => fileAddress(row, place.words) }, ...host], asked: ['host', 'mount', 'path', 'dev', 'fileid', 'file_key'] };
  }
}

interface BreakdownProps {
  place: Place;
  selection: Selection;
  moves: Moves;
  meta: Meta;
  tabs: By[];
  again: number;
  /** Notes that the page shows already. */
  known: string[];
}

const COURSE_ROWS = 30;
const COURSE_WINDOWS = 32;

/** What selects the first rows. Files are named by their numbers: so they need not be ranked once more. */
function coursesAsked(by: By, first: Row[], selection: Selection, conditions: Parameters): Parameters {
  const range = rangeParameters(selection.range);
  if (by !== 'file') {
    return [...range, ...selection.files, ...conditions];
  }
  const others = selection.files.filter(([name]) => name !== 'file' && name !== 'dir');
  return [...range, ...others, ...first.filter((row) => typeof row.dev === 'string').map((row): [string, string] => ['file', `${String(row.dev)}:${String(row.fileid)}`])];
}

/** What the first rows did over time, by `keyOf` of a row. */
function useCourses(asked: Parameters | null, by: By, names: string[], column: string, selection: Selection, meta: Meta, again: number) {
  const keyOf = (row: Row) => (by === 'file' ? fileKey(row) : JSON.stringify(names.map((name) => row[name])));
  const step = niceStep(selection.range.until - selection.range.since, granularities(meta), COURSE_WINDOWS);
  const parameters: Parameters | null = asked && [...asked, ['step', showLength(step)], ['top', String(COURSE_ROWS)], ['columns', ['time', ...names, column].join(',')]];
  const answer = useAsk<Answer>('series', parameters, again);
  const courses = new Map<string, Map<number, number>>();
  for (const row of answer.data?.rows ?? []) {
    const key = keyOf(row);
    const course = courses.get(key) ?? new Map<number, number>();
    courses.set(key, course);
    course.set(Date.parse(String(row.time)), Number(row[column] ?? 0));
  }
  return { keyOf, step, courses };
}

export function Breakdown({ place, selection, moves, meta, tabs, again, known: shown }: BreakdownProps) {
  const { words } = place;
  const hosts = meta.hosts.length;
  const asked = words.get('by');
  const by = tabs.find((tab) => tab === asked) ?? tabs[0] ?? 'file';
  const where = words.get('where') ?? '';
  const { columns: names, asked: more } = subject(by, place, hosts > 1);
  // A report has requests only.
  const hasCalls = by !== 'op' && report() === null;
  const ofCalls = hasCalls && (selection.ofCalls || words.get('of') === 'calls');
  const figures = by === 'op' ? operations('network').slice(2) : ofCalls ? calls(selection.op) : numbers(selection.op);
  const usual = by === 'op' ? 'execute_us_sum' : ofCalls ? `app_${prefixOf(selection.op)}called_bytes` : `${prefixOf(selection.op)}latency_us_sum`;
  const known = (sort: string) => figures.some((column) => column.name === sort.replace(/:asc$/, ''));
  const wanted = words.get('sort') ?? '';
  const sort = known(wanted) ? wanted : usual;
  const shared: Parameters = [...rangeParameters(selection.range), ...selection.files];
  const conditions: Parameters = where === '' ? [] : [['where', where]];
  const one: Parameters = [
    ['by', by], ...conditions, ['sort', sort], ['top', TOP], ['columns', [...new Set([...more, ...[...names, ...figures].map((column) => column.name)])].join(',')],
  ];
  const name = by === 'op' ? 'operations' : 'top';
  const parameters = selection.error === null ? [...shared, ...one] : null;
  const answer = useAsk<Answer>(name, parameters, again);
  const isDrawn = by !== 'op' && !sort.endsWith(':asc') && selection.error === null;
  const drawn = ofCalls ? usual : `${prefixOf(selection.op)}latency_us_sum`;
  const first = (answer.data?.rows ?? []).slice(0, COURSE_ROWS);
  const courseOf = useCourses(isDrawn && first.length > 0 ? [...coursesAsked(by, first, selection, conditions), ['by', by], ['sort', sort]] : null, by, more, drawn, selection, meta, again);
  const course: Column = {
    name: 'course', label: ofCalls ? 'bytes over time' : 'over time', kind: 'text',
    draw: (row) => {
      const values = courseOf.courses.get(courseOf.keyOf(row));
      const most = Math.max(1, ...(values?.values() ?? []));
      return values !== undefined && <Course values={values} range={selection.range} step={courseOf.step} most={most} about={`up to ${ofCalls ? show(most, 'bytes') : showMicros(most)} in ${showLength(courseOf.step)}`} />;
    },
  };
  const columns = [...names.slice(0, 1), ...(isDrawn ? [course] : []), ...names.slice(1), ...figures];
  const label = LABELS[by];
  const part = answeredByOf(answer.data?.rows ?? []);
  const shownColumns = columns.map((column) => (column.label === 'network' ? { ...column, label: part } : column));
  return (
    <Figure
      title={label.replace(/^./, (letter) => letter.toUpperCase())}
      command={command('query', [...shared, ['step', 'all'], ...one])}
      loading={answer.loading}
      error={answer.error}
      controls={report() === null && <Field name="where" label="where" value={where} placeholder="read_p99 > 20ms" onSet={(text) => moves.change({ where: text || null })} />}
    >
      <div class="tabs" role="group" aria-label="Rows stand for">
        {tabs.map((tab) => (
          <button type="button" key={tab} aria-pressed={tab === by} onClick={() => moves.change({ by: tab === tabs[0] ? null : tab, sort: null })}>
            {LABELS[tab]}
          </button>
        ))}
        {hasCalls && (
          <button type="button" class="apart" aria-pressed={ofCalls} onClick={() => moves.change({ of: ofCalls ? null : 'calls', sort: null })}>
            calls of applications
          </button>
        )}
      </div>
      <Notes notes={answer.data?.notes ?? []} known={shown} />
      <Table label={label} columns={shownColumns} rows={answer.data?.rows ?? []} sort={sort} onSort={(to) => moves.change({ sort: to === usual ? null : to })} empty={answer.loading ? 'loading' : 'nothing matched'} />
    </Figure>
  );
}
