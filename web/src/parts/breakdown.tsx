// Tables of a selection: files, trees, mounts, volumes, tenants, operations. The server ranks them.
import { useAsk, type Answer, type Parameters } from '../api.ts';
import { command } from '../command.ts';
import { atMost, show } from '../format.ts';
import { report } from '../report/data.ts';
import { rangeParameters, type Selection } from '../selection.ts';
import { address, withWords, type Place } from '../url.ts';
import { answeredByOf, type Op, type Row } from '../windows.ts';
import { Field, type Moves } from './controls.tsx';
import { Figure, Notes } from './figure.tsx';
import { Table, type Column } from './table.tsx';

export type By = 'file' | 'dir' | 'mount' | 'volume' | 'tenant' | 'op';

const LABELS: Record<By, string> = { file: 'files', dir: 'trees', mount: 'mounts', volume: 'volumes', tenant: 'tenants', op: 'operations' };
const TOP = '100';

function sides(op: Op): ('read' | 'write')[] {
  return op === 'both' ? ['read', 'write'] : [op];
}

function percentile(name: string, label: string, max: string): Column {
  return { name, label, kind: 'us', text: (row) => show(atMost(row[name], row[max]), 'us') };
}

function numbers(op: Op): Column[] {
  return sides(op).flatMap((side): Column[] => [
    { name: `${side}_bytes`, label: `${side} bytes`, kind: 'bytes' },
    { name: `${side}_requests`, label: `${side} requests`, kind: 'count' },
    { name: `${side}_iops`, label: `${side} iops`, kind: 'rate' },
    percentile(`${side}_latency_us_p50`, `${side} p50`, `${side}_latency_us_max`),
    percentile(`${side}_latency_us_p99`, `${side} p99`, `${side}_latency_us_max`),
    { name: `${side}_latency_us_max`, label: `${side} max`, kind: 'us' },
    { name: `${side}_errors`, label: `${side} errors`, kind: 'count' },
  ]);
}

/** What applications called for, beside what was requested of servers or devices. */
function calls(op: Op): Column[] {
  return sides(op).flatMap((side): Column[] => [
    { name: `app_${side}_bytes`, label: `${side} called for`, kind: 'bytes' },
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
      return { columns: [{ name: 'path', label: 'file', kind: 'text', text: fileName, href: (row) => fileAddress(row, place.words) }, ...host], asked: ['host', 'mount', 'path', 'dev', 'fileid'] };
  }
}

interface BreakdownProps {
  place: Place;
  selection: Selection;
  moves: Moves;
  hosts: number;
  tabs: By[];
  again: number;
  /** Notes that the page shows already. */
  known: string[];
}

export function Breakdown({ place, selection, moves, hosts, tabs, again, known: shown }: BreakdownProps) {
  const { words } = place;
  const asked = words.get('by');
  const by = tabs.find((tab) => tab === asked) ?? tabs[0] ?? 'file';
  const where = words.get('where') ?? '';
  const { columns: names, asked: more } = subject(by, place, hosts > 1);
  // A report has requests only.
  const hasCalls = by !== 'op' && report() === null;
  const ofCalls = hasCalls && words.get('of') === 'calls';
  const figures = by === 'op' ? operations('network').slice(2) : ofCalls ? calls(selection.op) : numbers(selection.op);
  const usual = by === 'op' ? 'requests' : `${ofCalls ? 'app_' : ''}${selection.op === 'write' ? 'write' : 'read'}_bytes`;
  const known = (sort: string) => figures.some((column) => column.name === sort.replace(/:asc$/, ''));
  const wanted = words.get('sort') ?? '';
  const sort = known(wanted) ? wanted : usual;
  const columns = [...names, ...figures];
  const shared: Parameters = [...rangeParameters(selection.range), ...selection.files];
  const conditions: Parameters = where === '' ? [] : [['where', where]];
  const one: Parameters = [
    ['by', by], ...conditions, ['sort', sort], ['top', TOP], ['columns', [...new Set([...more, ...columns.map((column) => column.name)])].join(',')],
  ];
  const name = by === 'op' ? 'operations' : 'top';
  const parameters = selection.error === null ? [...shared, ...one] : null;
  const answer = useAsk<Answer>(name, parameters, again);
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
