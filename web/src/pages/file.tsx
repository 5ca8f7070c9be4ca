import { useAsk, type Answer, type Meta, type Parameters } from '../api.ts';
import { command } from '../command.ts';
import { Breakdown, fileAddress, unescaped } from '../parts/breakdown.tsx';
import { Controls } from '../parts/controls.tsx';
import { Figure, Notes } from '../parts/figure.tsx';
import { Requests } from '../parts/requests.tsx';
import { Series } from '../parts/series.tsx';
import { report } from '../report/data.ts';
import { Table, type Column } from '../parts/table.tsx';
import { rangeParameters, type Selection } from '../selection.ts';
import { useSettings } from '../settings.ts';
import { showTime, type Zone } from '../time.ts';
import { withWords, type Place } from '../url.ts';
import type { Row } from '../windows.ts';
import { usePage } from './page.ts';

interface Name {
  path: string;
  first_seen: string;
  last_seen: string;
}

/** A row for each name that a file had. */
function names(files: Row[], zone: Zone): Row[] {
  const at = (time: string) => showTime(Date.parse(time), zone);
  return files.flatMap((file) => {
    const number = `${String(file.dev)}:${String(file.fileid)}`;
    const had = (file.names as Name[] | undefined) ?? [];
    return had.map((name) => ({ name: name.path, first: at(name.first_seen), last: at(name.last_seen), number, mount: file.mount, host: file.host, dev: file.dev, fileid: file.fileid }));
  });
}

function Names({ place, selection, again }: { place: Place; selection: Selection; again: number }) {
  const { zone } = useSettings();
  const parameters: Parameters = [...rangeParameters(selection.range), ...selection.files];
  const answer = useAsk<Answer>('files', parameters, again);
  const columns: Column[] = [
    { name: 'name', label: 'name', kind: 'text' },
    { name: 'first', label: 'first seen', kind: 'time' },
    { name: 'last', label: 'last seen', kind: 'time' },
    { name: 'number', label: 'number', kind: 'text', href: (row) => fileAddress({ dev: row.dev, fileid: row.fileid }, place.words) },
    { name: 'mount', label: 'mount', kind: 'text' },
    { name: 'host', label: 'host', kind: 'text' },
  ];
  return (
    <Figure title="Names over time" command={command('files', parameters)} loading={answer.loading} error={answer.error}>
      <Table label="Names over time" columns={columns} rows={names(answer.data?.rows ?? [], zone)} empty={answer.loading ? 'loading' : 'no names in this range'} />
    </Figure>
  );
}

export function FilePage({ place, meta }: { place: Place; meta: Meta }) {
  const { selection, recording, moves, again, refresh, moments } = usePage(place, meta);
  const files = place.words.getAll('file');
  const shown = { ...selection, range: recording.isLive ? recording.range : selection.range };
  const table = { place, selection, moves, meta, again, known: recording.notes };
  return (
    <>
      <h1>{files.length === 0 ? 'Choose a file' : files.map(unescaped).join(', ')}</h1>
      <Controls place={place} selection={shown} meta={meta} moves={moves} refresh={refresh} isLive={recording.isLive} />
      {files.length === 0 ? (
        <Breakdown {...table} tabs={['file']} />
      ) : (
        <>
          <Notes notes={recording.notes} error={selection.error ?? recording.error} ended={recording.ended} none={recording.isWhole ? 'no gaps in this range, and nothing lost' : ''} />
          <Series recording={recording} selection={selection} moves={moves} moments={moments} />
          <Breakdown {...table} tabs={['tenant', 'op', 'file']} />
          {report() === null && <Requests place={place} selection={selection} moves={moves} again={again} />}
          <Names place={{ ...place, words: withWords(place.words, { by: null }) }} selection={selection} again={again} />
        </>
      )}
    </>
  );
}
