// Several hosts side by side: p99 over time, on one scale.
import { useAsk, type Meta, type Parameters } from '../api.ts';
import { command } from '../command.ts';
import { showMicros } from '../format.ts';
import { granularities } from '../recording.ts';
import { rangeParameters, type Selection } from '../selection.ts';
import { niceStep, showLength } from '../time.ts';
import { Figure } from './figure.tsx';
import { Course } from './table.tsx';

const WINDOWS = 60;
/** Hosts that are drawn: those whose requests took most time. */
const MOST = 24;

export function Hosts({ selection, meta, again }: { selection: Selection; meta: Meta; again: number }) {
  const { range, op } = selection;
  const column = `${selection.ofCalls ? 'app_' : ''}${op === 'both' ? '' : `${op}_`}latency_us_p99`;
  const step = niceStep(range.until - range.since, granularities(meta), WINDOWS);
  const parameters: Parameters = [...rangeParameters(range), ...selection.files, ['by', 'host'], ['step', showLength(step)], ['top', String(MOST)], ['columns', `time,host,${column}`]];
  const hasSeveral = meta.hosts.length > 1;
  const answer = useAsk('series', hasSeveral && selection.error === null ? parameters : null, again);
  if (!hasSeveral) {
    return null;
  }
  const hosts = new Map<string, Map<number, number>>();
  for (const row of answer.data?.rows ?? []) {
    const host = String(row.host);
    const values = hosts.get(host) ?? new Map<number, number>();
    hosts.set(host, values);
    if (typeof row[column] === 'number') {
      values.set(Date.parse(String(row.time)), row[column]);
    }
  }
  const most = Math.max(1, ...[...hosts.values()].flatMap((values) => [...values.values()]));
  return (
    <Figure title="p99 by host" command={command('query', parameters)} loading={answer.loading} error={answer.error} about={<span>all on one scale, up to {showMicros(most)}</span>}>
      <ul class="hosts-map">
        {[...hosts].map(([host, values]) => (
          <li key={host}>
            <span>{host}</span>
            <Course values={values} range={range} step={step} most={most} about={`up to ${showMicros(Math.max(0, ...values.values()))}`} />
          </li>
        ))}
      </ul>
    </Figure>
  );
}
