// The slowest single requests of a selection, if the store kept them: from the range, or from a cell of the heat map.
import { useState } from 'preact/hooks';
import { useAsk, type Parameters } from '../api.ts';
import { command } from '../command.ts';
import { showMicros } from '../format.ts';
import { rangeParameters, type Selection } from '../selection.ts';
import { useSettings } from '../settings.ts';
import { parseTime, rfc3339, showTime } from '../time.ts';
import { withWords, type Place } from '../url.ts';
import { fileAddress, fileName } from './breakdown.tsx';
import type { Moves } from './controls.tsx';
import { CopyCommand, Figure } from './figure.tsx';
import { Table, type Column } from './table.tsx';

const TOP = '20';
/** Around a request that is opened. */
const AROUND_MS = 5000;

/** A window and a range of latencies, us. */
export interface Cell {
  since: number;
  until: number;
  from: number;
  to: number;
}

/** A cell as a word of an address. */
export const cellWord = ({ since, until, from, to }: Cell) => [rfc3339(since), rfc3339(until), from, to].join('_');

function cellOf(word: string | null): Cell | null {
  const [since = '', until = '', from, to] = word?.split('_') ?? [];
  const times = [since, until].map((time) => parseTime(time, 0, 'utc'));
  const [start, end] = times;
  const bounds = [Number(from), Number(to)];
  return typeof start === 'number' && typeof end === 'number' && bounds.every(Number.isFinite) ? { since: start, until: end, from: bounds[0] ?? 0, to: bounds[1] ?? 0 } : null;
}

interface RequestsProps {
  place: Place;
  selection: Selection;
  moves: Moves;
  again: number;
  /** Reads all single requests of the range only after a click. */
  isOnDemand?: boolean;
}

export function Requests({ place, selection, moves, again, isOnDemand = false }: RequestsProps) {
  const { zone } = useSettings();
  const [isAsked, setAsked] = useState(!isOnDemand);
  const chosen = cellOf(place.words.get('cell'));
  // Another range has other cells.
  const cell = chosen !== null && chosen.until > selection.range.since && chosen.since < selection.range.until ? chosen : null;
  const range = cell === null ? selection.range : { since: cell.since, until: cell.until, moves: false };
  const where: Parameters = cell === null ? [] : [['where', `latency >= ${cell.from}us and latency < ${cell.to}us`]];
  const op: Parameters = selection.op === 'both' ? [] : [['op', selection.op]];
  const at = (row: Record<string, unknown>) => Date.parse(String(row.end_time));
  const columns: Column[] = [
    { name: 'end_time', label: 'end', kind: 'time', text: (row) => showTime(at(row), zone) },
    {
      name: 'path', label: 'file', kind: 'text', text: fileName,
      href: (row) => fileAddress(row, withWords(place.words, { since: rfc3339(at(row) - AROUND_MS), until: rfc3339(at(row) + AROUND_MS) })),
    },
    { name: 'op', label: 'operation', kind: 'text' },
    { name: 'latency', label: 'latency', kind: 'us' },
    { name: 'queue', label: 'queue', kind: 'us' },
    { name: 'network', label: 'answer', kind: 'us' },
    { name: 'completion', label: 'completion', kind: 'us' },
    { name: 'done_bytes', label: 'bytes', kind: 'bytes' },
    { name: 'offset_bytes', label: 'offset', kind: 'count' },
    { name: 'process', label: 'process', kind: 'text', text: (row) => (row.pid === null ? '-' : `${String(row.process ?? '')}[${String(row.pid)}]`) },
    { name: 'host', label: 'host', kind: 'text' },
  ];
  const asked = ['mount', 'dev', 'fileid', 'pid', ...columns.map((column) => column.name)].join(',');
  const parameters: Parameters = [...rangeParameters(range), ...selection.files, ...op, ...where, ['top', TOP], ['columns', asked]];
  const answer = useAsk('requests', selection.error === null && (isAsked || cell !== null) ? parameters : null, again);
  const rows = answer.data?.rows ?? [];
  // The requests, their parts and marks on a timeline, in a file for ui.perfetto.dev.
  const timeline = command('export', [...rangeParameters(range), ...selection.files, ['requests', ''], ['output', 'requests.pftrace']]);
  if (rows.length === 0 && cell === null && !isOnDemand) {
    return null;
  }
  return (
    <Figure
      title={cell === null ? 'Slowest single requests' : `Single requests of ${showTime(cell.since, zone)} from ${showMicros(cell.from)} to ${showMicros(cell.to)}`}
      command={command('requests', parameters)}
      loading={answer.loading}
      error={answer.error}
      controls={
        <>
          {rows.length > 0 && <CopyCommand command={timeline} />}
          {cell !== null && <button type="button" onClick={() => moves.change({ cell: null })}>of the whole range</button>}
        </>
      }
    >
      {isAsked || cell !== null ? (
        <Table label="Single requests" columns={columns} rows={rows} empty={answer.loading ? 'loading' : 'none was kept: record --requests keeps them'} />
      ) : (
        <button type="button" onClick={() => setAsked(true)}>list them</button>
      )}
    </Figure>
  );
}
