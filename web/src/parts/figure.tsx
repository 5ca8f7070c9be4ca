// A picture with its heading, table, command and error.
import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';

export interface FigureProps {
  title: string;
  /** What the picture shows, in words below the heading. */
  about?: ComponentChildren;
  /** The same numbers as a table; without it there is only the picture, which is one. */
  table?: () => ComponentChildren;
  command: string;
  loading: boolean;
  error: string | null;
  controls?: ComponentChildren;
  children: ComponentChildren;
}

export function Figure(props: FigureProps) {
  const [asTable, setAsTable] = useState(false);
  return (
    <section class="figure" aria-busy={props.loading}>
      <header>
        <h2>{props.title}</h2>
        <span class={props.loading ? 'loading on' : 'loading'} role="status">{props.loading ? 'loading' : ''}</span>
        <div class="controls">
          {props.controls}
          {props.table !== undefined && (
            <button type="button" aria-pressed={asTable} onClick={() => setAsTable(!asTable)}>
              table
            </button>
          )}
          <CopyCommand command={props.command} />
        </div>
      </header>
      {props.about !== undefined && <p class="about">{props.about}</p>}
      {props.error !== null && <p class="error" role="alert">{props.error}</p>}
      {asTable && props.table !== undefined ? props.table() : props.children}
    </section>
  );
}

async function copy(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // Browsers have a clipboard only for localhost and https.
    return false;
  }
}

export function CopyCommand({ command }: { command: string }) {
  const [state, setState] = useState<'' | 'copied' | 'shown'>('');
  const clicked = async () => {
    setState((await copy(command)) ? 'copied' : 'shown');
  };
  return (
    <>
      <button type="button" class="copy" title={command} onClick={() => void clicked()}>
        copy as <code>{command.split(' ').slice(0, 2).join(' ')}</code>
      </button>
      {state !== '' && (
        <span class="command">
          <span role="status">{state === 'copied' ? 'copied:' : 'copy it from here:'}</span> <code tabIndex={0}>{command}</code>
          <button type="button" aria-label="close the command" onClick={() => setState('')}>
            close
          </button>
        </span>
      )}
    </>
  );
}

interface NotesProps {
  notes: string[];
  /** Notes that are shown elsewhere. */
  known?: string[];
  error?: string | null;
  ended?: string | null;
  /** In place of notes, where there are none. */
  none?: string;
}

/** What was not recorded, lost or damaged. Room for a line is kept, so that nothing moves when it comes. */
export function Notes({ notes, known = [], error, ended, none }: NotesProps) {
  const shown = [...new Set(notes)].filter((note) => !known.includes(note));
  const isError = error !== null && error !== undefined;
  const isEnded = ended !== null && ended !== undefined;
  if (none === undefined && shown.length === 0 && !isError && !isEnded) {
    return null;
  }
  return (
    <div class="notes" aria-live="polite">
      {isError && (
        <p class="error" role="alert">
          {error}
        </p>
      )}
      {isEnded && <p class="note">live: {ended}</p>}
      {shown.length > 0 && (
        <details class="note">
          <summary>{shown.length === 1 ? shown[0] : `${shown.length} notes: ${shown[0]}`}</summary>
          <ul>
            {shown.map((note) => (
              <li key={note}>{note}</li>
            ))}
          </ul>
          <p>Times in notes are UTC.</p>
        </details>
      )}
      {shown.length === 0 && !isError && !isEnded && <p class="none">{none}</p>}
    </div>
  );
}
