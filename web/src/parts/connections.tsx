// What TCP knows of the connections to servers: it tells a slow network from a slow server.
import { useAsk, type Meta, type Parameters } from '../api.ts';
import { command } from '../command.ts';
import { rangeParameters, type Selection } from '../selection.ts';
import type { Row } from '../windows.ts';
import { Figure } from './figure.tsx';
import { Table, type Column } from './table.tsx';

/** The server has a row for each operation of a connection, of some 30; 64 connections are read. */
const TOP = '2000';

// Named as in the tables of the command line.
const FIGURES: Column[] = [
  { name: 'tcp_rtt_us_mean', label: 'tcp-rtt', kind: 'us' },
  { name: 'tcp_rtt_us_min', label: 'tcp-rtt-min', kind: 'us' },
  { name: 'tcp_retrans', label: 'tcp-retrans', kind: 'count' },
  { name: 'tcp_retrans_share', label: 'tcp-retrans-share', kind: 'share' },
  { name: 'tcp_reconnects', label: 'tcp-reconnects', kind: 'count' },
  { name: 'tcp_receiver_limited_us', label: 'tcp-receiver-limited', kind: 'us' },
];

/** One row for each connection, with all of its mounts. Each of its operations repeats its figures. */
function once(rows: Row[]): Row[] {
  const found = new Map<string, { row: Row; mounts: Set<string> }>();
  for (const row of rows) {
    const key = JSON.stringify([row.host, row.transport]);
    const one = found.get(key) ?? { row, mounts: new Set<string>() };
    found.set(key, one);
    if (typeof row.mount === 'string') {
      one.mounts.add(row.mount);
    }
  }
  return [...found.values()].map(({ row, mounts }) => ({ ...row, mount: [...mounts].sort().join(', ') }));
}

/** Connections are known of mounts, not of files, tenants or other levels. */
const isOfMounts = ({ files }: Selection) => files.every(([name, value]) => ['mount', 'volume'].includes(name) || (name === 'level' && value === 'wire'));

export function Connections({ selection, meta, again }: { selection: Selection; meta: Meta; again: number }) {
  const host: Column[] = meta.hosts.length > 1 ? [{ name: 'host', label: 'host', kind: 'text' }] : [];
  const columns: Column[] = [{ name: 'transport', label: 'transport', kind: 'text' }, ...host, { name: 'mount', label: 'mount', kind: 'text' }, ...FIGURES];
  const asked = [...new Set(['host', ...columns.map((column) => column.name)])].join(',');
  const parameters: Parameters = [...rangeParameters(selection.range), ...selection.files, ['by', 'transport'], ['where', 'tcp_readings > 0'], ['sort', 'tcp_retrans'], ['top', TOP], ['columns', asked]];
  const answer = useAsk('operations', selection.error === null && isOfMounts(selection) ? parameters : null, again);
  const rows = once(answer.data?.rows ?? []);
  if (rows.length === 0) {
    return null;
  }
  return (
    <Figure title="Connections" command={command('query', [...parameters, ['step', 'all']])} loading={answer.loading} error={answer.error}>
      <Table label="Connections" columns={columns} rows={rows} />
    </Figure>
  );
}
