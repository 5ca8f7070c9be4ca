import { useEffect } from 'preact/hooks';
import { useAsk, now, type Answer, type Meta, type Parameters } from '../api.ts';
import { command } from '../command.ts';
import { show } from '../format.ts';
import { fileAddress, fileKey, hosted, fileName } from '../parts/breakdown.tsx';
import { Controls, Field, moves as movesOf, useKeys } from '../parts/controls.tsx';
import { Figure, Notes } from '../parts/figure.tsx';
import { Table, type Column } from '../parts/table.tsx';
import { report } from '../report/data.ts';
import { wholeWindows } from '../report/select.ts';
import { rangeParameters, typedTime, useSelection, type Range } from '../selection.ts';
import { useSettings } from '../settings.ts';
import { parseTime, rfc3339, showTime } from '../time.ts';
import { go, withWords, type Place } from '../url.ts';
import { answeredByOf, type Row } from '../windows.ts';

const SUBJECTS = ['file', 'dir', 'mount', 'tenant'] as const;
type By = (typeof SUBJECTS)[number];
const LABELS: Record<By, string> = { file: 'files', dir: 'trees', mount: 'mounts', tenant: 'tenants' };
const NAMES: Record<By, string> = { file: 'host,mount,path,dev,fileid,file_key', dir: 'host,mount,path', mount: 'host,mount', tenant: 'host,tenant' };
const PARTS = ['queue', 'network', 'completion'] as const;
/** What bars are made of: time of which no parts are known is not painted as one of them. */
const DRAWN_PARTS = [...PARTS, 'unknown'] as const;
/** Rows of each range that are compared. */
const MOST = 1000;
/** Rows that are drawn. */
const DRAWN = 25;
const DAY_MS = 86_400_000;
/** The same time of day, earlier. */
const EARLIER = { 'a day before': DAY_MS, 'a week before': 7 * DAY_MS };

/** Time that requests took, us in each second that was recorded, so that ranges of different lengths compare. */
interface Side {
  total: number;
  queue: number;
  network: number;
  completion: number;
  /** All of it, where no parts are known. */
  unknown: number;
  iops: number;
  p99: number | null;
}

interface Change {
  name: string;
  row: Row;
  before: Side;
  after: Side;
}

const NONE: Side = { total: 0, queue: 0, network: 0, completion: 0, unknown: 0, iops: 0, p99: null };

function sideOf(row: Row, prefix: string): Side {
  const of = (name: string) => Number(row[prefix + name] ?? 0);
  const seconds = of('iops') > 0 ? of('requests') / of('iops') : 0;
  if (seconds === 0) {
    return NONE;
  }
  const completion = Math.max(0, of('latency_us_sum') - of('queue_us_sum') - of('rtt_us_sum'));
  const p99 = row[`${prefix}latency_us_p99`];
  const total = of('latency_us_sum') / seconds;
  const isSplit = of('requests') - of('untimed') > of('unsplit');
  const parts = isSplit
    ? { queue: of('queue_us_sum') / seconds, network: of('rtt_us_sum') / seconds, completion: completion / seconds, unknown: 0 }
    : { queue: 0, network: 0, completion: 0, unknown: total };
  return {
    total, ...parts,
    iops: of('iops'), p99: typeof p99 === 'number' ? p99 : null,
  };
}

function nameOf(by: By, row: Row, hosts: number): string {
  return hosted(by === 'file' || by === 'dir' ? fileName(row) : String(row[by] ?? '(unknown)'), row, hosts);
}

function changesOf(by: By, before: Row[], after: Row[], prefix: string, hosts: number): Change[] {
  const changes = new Map<string, Change>();
  const key = (row: Row) => (by === 'file' ? fileKey(row) : NAMES[by].split(',').map((name) => String(row[name])).join('\n'));
  for (const row of before) {
    changes.set(key(row), { name: nameOf(by, row, hosts), row, before: sideOf(row, prefix), after: NONE });
  }
  for (const row of after) {
    const known = changes.get(key(row));
    changes.set(key(row), { name: nameOf(by, row, hosts), row, before: known?.before ?? NONE, after: sideOf(row, prefix) });
  }
  const added = (change: Change) => change.after.total - change.before.total;
  return [...changes.values()].sort((a, b) => added(b) - added(a));
}

function Bar({ side, most, label }: { side: Side; most: number; label: string }) {
  return (
    <div class="bar">
      <span class="when">{label}</span>
      <span class="track">
        {DRAWN_PARTS.map((part) => (
          <i key={part} class={`key ${part}`} style={{ width: `${(100 * side[part]) / most}%` }} />
        ))}
      </span>
      <span class="value">{show(side.total, 'us/s')}</span>
    </div>
  );
}

/** The range before: as the address says, or as long as the other one and just before it. */
function rangeBefore(place: Place, after: Range, zone: 'utc' | 'local'): Range | string {
  const since = place.words.get('before-since');
  const until = place.words.get('before-until');
  const end = until === null ? after.since : parseTime(until, now(), zone);
  const start = since === null ? (end ?? 0) - (after.until - after.since) : parseTime(since, now(), zone);
  const data = report();
  if (data !== null && start !== null && end !== null && start < end) {
    const [first, last] = wholeWindows(data, start, end);
    return first < last ? { since: first, until: last, moves: false } : `before: this report begins at ${rfc3339(data.since)}; choose a later range, or another one to compare it with`;
  }
  if (start === null || end === null || start >= end) {
    return 'before: this is no range; both ends take the times that since and until take';
  }
  return { since: start, until: end, moves: false };
}

export function ComparePage({ place, meta }: { place: Place; meta: Meta }) {
  const { zone } = useSettings();
  const { refresh, ...selection } = useSelection(place, meta, zone);
  const moves = movesOf(selection);
  useKeys(moves);
  const { range } = selection;
  useEffect(() => {
    // There is no time before a whole report, so compare its halves.
    const data = report();
    if (data !== null && range.since === data.since && range.until === data.until && !place.words.has('before-since')) {
      const middle = rfc3339(wholeWindows(data, data.since, (data.since + data.until) / 2)[1]);
      go(place.path, withWords(place.words, { since: middle, 'before-since': rfc3339(data.since), 'before-until': middle }), 'replace');
    }
  }, [range.since, range.until]);
  const by = SUBJECTS.find((one) => one === place.words.get('by')) ?? 'file';
  const prefix = selection.op === 'both' ? '' : `${selection.op}_`;
  const found = rangeBefore(place, selection.range, zone);
  const earlier = typeof found === 'string' ? null : found;
  const measures = ['requests', 'untimed', 'unsplit', 'iops', 'latency_us_sum', 'queue_us_sum', 'rtt_us_sum', 'latency_us_p99'].map((name) => prefix + name);
  const about: Parameters = [...selection.files, ['by', by], ['sort', `${prefix}latency_us_sum`], ['top', String(MOST)], ['columns', `${NAMES[by]},level,${measures.join(',')}`]];
  const isValid = earlier !== null && selection.error === null;
  const asked = (range: Range): Parameters => [...rangeParameters(range), ...about];
  const before = useAsk<Answer>('top', isValid ? asked(earlier) : null);
  const after = useAsk<Answer>('top', isValid ? asked(selection.range) : null);
  const both = before.data !== null && after.data !== null ? changesOf(by, before.data.rows, after.data.rows, prefix, meta.hosts.length) : [];
  const answeredBy = answeredByOf([...(before.data?.rows ?? []), ...(after.data?.rows ?? [])]);
  const labelOf = (part: string) => (part === 'network' ? answeredBy : part);
  const isCut = [before, after].some((answer) => (answer.data?.rows.length ?? 0) >= MOST);
  const drawn = both.slice(0, DRAWN);
  const most = Math.max(1e-9, ...drawn.flatMap((change) => [change.before.total, change.after.total]));
  const href = (change: Change) => (by === 'file' ? fileAddress(change.row, place.words) : null);
  const columns: Column[] = [
    { name: 'name', label: LABELS[by].replace(/s$/, ''), kind: 'text', href: (row) => row.href as string | null },
    { name: 'added', label: 'added time', kind: 'us/s' },
    ...PARTS.map((part): Column => ({ name: `added_${part}`, label: `added ${labelOf(part)}`, kind: 'us/s' })),
    { name: 'before', label: 'time before', kind: 'us/s' },
    { name: 'after', label: 'time after', kind: 'us/s' },
    { name: 'iops_before', label: 'iops before', kind: 'rate' },
    { name: 'iops_after', label: 'iops after', kind: 'rate' },
    { name: 'p99_before', label: 'p99 before', kind: 'us' },
    { name: 'p99_after', label: 'p99 after', kind: 'us' },
  ];
  const rows = both.map((change): Row => ({
    name: change.name, href: href(change), added: change.after.total - change.before.total, before: change.before.total, after: change.after.total,
    ...Object.fromEntries(PARTS.map((part) => [`added_${part}`, change.before.unknown + change.after.unknown > 0 ? null : change.after[part] - change.before[part]])),
    iops_before: change.before.iops, iops_after: change.after.iops, p99_before: change.before.p99, p99_after: change.after.p99,
  }));
  const set = (name: string) => (text: string) => moves.change({ [name]: typedTime(text, zone) || null });
  const command2 = earlier === null ? '' : [earlier, selection.range].map((range) => command('query', [...rangeParameters(range), ['step', 'all'], ...about])).join('; ');
  const isEmpty = both.length === 0;
  return (
    <>
      <h1>What changed</h1>
      <Controls place={place} selection={selection} meta={meta} moves={moves} refresh={refresh} isLive={false} without={['step']} />
      <div class="panel"><div class="row">
        <Field name="before-since" label="compared with: since" value={earlier === null ? (place.words.get('before-since') ?? '') : showTime(earlier.since, zone)} onSet={set('before-since')} />
        <Field name="before-until" label="until" value={earlier === null ? (place.words.get('before-until') ?? '') : showTime(earlier.until, zone)} onSet={set('before-until')} />
        <button type="button" onClick={() => moves.change(earlier === null ? {} : { 'before-since': rfc3339(earlier.since), 'before-until': rfc3339(earlier.until) })}>
          keep this range
        </button>
        <button type="button" onClick={() => moves.change({ 'before-since': null, 'before-until': null })}>
          just before
        </button>
        {report() === null &&
          Object.entries(EARLIER).map(([name, ms]) => (
            <button type="button" key={name} onClick={() => moves.change({ 'before-since': rfc3339(range.since - ms), 'before-until': rfc3339(range.until - ms) })}>
              {name}
            </button>
          ))}
      </div></div>
      <Notes notes={[...(before.data?.notes ?? []), ...(after.data?.notes ?? [])]} error={selection.error ?? (typeof found === 'string' ? found : (before.error ?? after.error))} none="" />
      <Figure
        title="Added time: what took longer, or more often"
        command={command2}
        loading={before.loading || after.loading}
        error={null}
        table={() => <Table label="What changed" columns={columns} rows={rows} />}
        controls={
          <div class="group" role="group" aria-label="Rows stand for">
            {SUBJECTS.map((one) => (
              <button type="button" key={one} aria-pressed={one === by} onClick={() => moves.change({ by: one === 'file' ? null : one })}>
                {LABELS[one]}
              </button>
            ))}
          </div>
        }
        about={
          <>
            <span class="legend">
              {DRAWN_PARTS.filter((part) => part !== 'unknown' || drawn.some((change) => change.before.unknown + change.after.unknown > 0)).map((part) => (
                <span key={part}>
                  <i class={`key ${part}`} /> {labelOf(part)}{' '}
                </span>
              ))}
            </span>
            <span>sum of latencies in each second that was recorded</span>
            {isCut && <span>Only the {MOST.toLocaleString('en-US')} with the most time of each range are compared.</span>}
            {both.length > DRAWN && <span>The first {DRAWN} of {both.length}; the table has all.</span>}
          </>
        }
      >
        {isEmpty && <p class="readout">{before.loading || after.loading ? 'loading' : 'nothing matched'}</p>}
        <ol class="changes">
          {drawn.map((change, i) => {
            const to = href(change);
            const added = change.after.total - change.before.total;
            return (
              <li key={i}>
                <p>
                  {to === null ? change.name : <a href={to}>{change.name}</a>} <strong>{`${added > 0 ? '+' : ''}${show(added, 'us/s')}`}</strong>
                </p>
                <Bar side={change.before} most={most} label="before" />
                <Bar side={change.after} most={most} label="after" />
              </li>
            );
          })}
        </ol>
      </Figure>
    </>
  );
}
