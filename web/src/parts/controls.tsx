// Chooses what a page shows: range, files and direction, and the keys that change the range.
import { useEffect, useId, useRef, useState } from 'preact/hooks';
import { now, useAsk, type Meta, type Parameters } from '../api.ts';
import { granularities } from '../recording.ts';
import { report } from '../report/data.ts';
import { fixedWords, rangeParameters, typedTime, type Range, type Selection } from '../selection.ts';
import { useSettings } from '../settings.ts';
import { parseLength, showLength, showTime, stepsFor, zoneName } from '../time.ts';
import { go, goBack, place, withWords, type Place } from '../url.ts';

const LENGTHS = ['10m', '1h', '6h', '24h', '7d'];
/** Screens up to this width, in pixels, begin with a picture: filters are folded. */
const NARROW = 760;
/** Nothing is shorter than a few of the shortest windows. */
const SHORTEST = 5000;

export interface Moves {
  zoom: (since: number, until: number) => void;
  back: () => void;
  /** Opens "What changed" with a range, and the time before it. */
  compare: (since: number, until: number) => void;
  change: (words: Record<string, string | string[] | null>) => void;
  by: (factor: number) => void;
  pan: (share: number) => void;
}

/** How a page's range changes. Keys can be faster than the page is drawn: each change begins with the address as it is then. */
export function moves(selection: Selection): Moves {
  const range = (): [number, number] => {
    const { words } = place();
    const [since, until] = ['since', 'until'].map((name) => (words.get(name)?.endsWith('Z') === true ? Date.parse(words.get(name) ?? '') : NaN));
    return since === undefined || until === undefined || Number.isNaN(since + until) ? [selection.range.since, selection.range.until] : [since, until];
  };
  const change = (words: Record<string, string | string[] | null>) => go(place().path, withWords(place().words, words));
  const zoom = (from: number, to: number) => {
    const middle = (from + to) / 2;
    const half = Math.max(to - from, SHORTEST) / 2;
    // A chosen step may be too long or too short for another range.
    change({ ...fixedWords(middle - half, Math.min(middle + half, Math.max(now(), to))), step: null });
  };
  const by = (factor: number) => {
    const [since, until] = range();
    const half = ((until - since) * factor) / 2;
    zoom((since + until) / 2 - half, (since + until) / 2 + half);
  };
  return {
    change,
    zoom,
    by,
    compare: (since, until) => go('/compare', withWords(place().words, { ...fixedWords(since, until), 'before-since': null, 'before-until': null, step: null, by: null, sort: null, where: null })),
    pan: (share) => {
      const [since, until] = range();
      zoom(since + (until - since) * share, until + (until - since) * share);
    },
    back: () => {
      if (!goBack()) {
        by(2);
      }
    },
  };
}

const isIn = (target: EventTarget | null, where: string) => target instanceof Element && target.closest(where) !== null;

/** + - and arrows change the range, Escape goes back. */
export function useKeys(to: Moves): void {
  useEffect(() => {
    const pressed = (event: KeyboardEvent) => {
      // Arrows scroll a table that has the focus.
      const has = event.key.startsWith('Arrow') ? 'input, select, .scroll' : 'input, select';
      if (isIn(event.target, has) || event.ctrlKey || event.metaKey || event.altKey) {
        return;
      }
      const keys: Record<string, () => void> = {
        '+': () => to.by(0.5),
        '=': () => to.by(0.5),
        '-': () => to.by(2),
        ArrowLeft: () => to.pan(-0.25),
        ArrowRight: () => to.pan(0.25),
        Escape: to.back,
      };
      const action = keys[event.key];
      if (action !== undefined) {
        event.preventDefault();
        action();
      }
    };
    addEventListener('keydown', pressed);
    return () => removeEventListener('keydown', pressed);
  }, [to]);
}

interface FieldProps {
  label: string;
  name: string;
  value: string;
  onSet: (text: string) => void;
  placeholder?: string;
  wide?: boolean;
  /** Hears what is typed, and has what it may become. */
  onText?: (text: string) => void;
  choices?: string[];
}

function Field({ label, value, name, onSet, placeholder, wide, onText, choices }: FieldProps) {
  const [text, setText] = useState(value);
  useEffect(() => setText(value), [value]);
  const list = useId();
  const set = () => {
    if (text !== value) {
      onSet(text);
    }
  };
  return (
    <label class={wide === true ? 'field wide' : 'field'}>
      <span>{label}</span>
      <input
        type="text"
        name={name}
        value={text}
        placeholder={placeholder ?? ''}
        autocomplete="off"
        spellcheck={false}
        {...(choices === undefined ? {} : { list })}
        onInput={(event) => {
          setText(event.currentTarget.value);
          onText?.(event.currentTarget.value);
        }}
        onBlur={set}
        onKeyDown={(event) => {
          if (event.key === 'Enter') {
            set();
          }
          if (event.key === 'Escape') {
            setText(value);
            event.currentTarget.blur();
          }
        }}
      />
      {choices !== undefined && <datalist id={list}>{choices.map((choice) => <option key={choice} value={choice} />)}</datalist>}
    </label>
  );
}

/** Waits for the end of typing. */
const TYPING_MS = 250;
const CHOICES = '20';

/** A field for a file, which offers those whose names have what was typed. */
function FileField({ range, ...field }: FieldProps & { range: Range }) {
  const [text, setText] = useState('');
  useEffect(() => () => clearTimeout(timer.current), []);
  const timer = useRef(0);
  const hear = (typed: string) => {
    clearTimeout(timer.current);
    timer.current = setTimeout(() => setText(typed), TYPING_MS);
  };
  // A pattern, or a part of a name below the directory typed so far.
  const dir = text.startsWith('/') ? text.slice(0, text.lastIndexOf('/')) : '';
  const pattern = /[*?[]/.test(text) ? text : `${dir}/**/*${text.slice(text.lastIndexOf('/') + 1)}*`;
  const parameters: Parameters = [...rangeParameters(range), ['file', pattern], ['top', CHOICES], ['columns', 'path']];
  const found = useAsk('files', text.length < 2 || report() !== null ? null : parameters);
  const paths = (found.data?.rows ?? []).flatMap((row) => (typeof row.path === 'string' ? [row.path] : []));
  return <Field {...field} onText={hear} choices={[...new Set(paths)]} />;
}

/** That it is live, and how old the last window is. */
function Live({ until }: { until: number }) {
  const [at, setAt] = useState(now);
  useEffect(() => {
    const timer = setInterval(() => setAt(now()), 1000);
    return () => clearInterval(timer);
  }, []);
  return (
    <>
      <span class="live">live</span>
      <span class="zone">{showLength(Math.max(0, Math.round((Math.max(at, until) - until) / 1000)) * 1000)} behind</span>
    </>
  );
}

export { Field };

interface ControlsProps {
  place: Place;
  selection: Selection;
  meta: Meta;
  moves: Moves;
  refresh: () => void;
  isLive: boolean;
  /** Leave out what the page does not use. */
  without?: ('step' | 'op' | 'file')[];
}

export function Controls({ place: { words }, selection, meta, moves: to, refresh, isLive, without = [] }: ControlsProps) {
  const { zone } = useSettings();
  const { range } = selection;
  const data = report();
  const shown = (name: 'since' | 'until') => {
    if (report() !== null) {
      return showTime(range[name], zone);
    }
    const word = words.get(name) ?? '';
    const time = Date.parse(word);
    return word.endsWith('Z') && !Number.isNaN(time) ? showTime(time, zone) : word;
  };
  const setTime = (name: string) => (text: string) => to.change({ [name]: typedTime(text, zone) || null, step: null });
  const length = range.until - range.since;
  const step = words.get('step') ?? '';
  const steps = stepsFor(length, granularities(meta));
  /** A field for each value of a word that can be given several times; one that is emptied goes. */
  const fields = (name: string, placeholder: string) => {
    const values = words.getAll(name);
    const set = (at: number) => (text: string) => to.change({ [name]: (values.length === 0 ? [text] : values.map((value, i) => (i === at ? text : value))).filter((one) => one !== '') });
    return (values.length === 0 ? [''] : values).map((value, i) => {
      const field = { name, label: name, value, placeholder, onSet: set(i), wide: true };
      return name === 'file' ? <FileField key={i} {...field} range={range} /> : <Field key={i} {...field} />;
    });
  };
  return (
    <div class="panel">
      <div class="row">
        <Field name="since" label="since" value={shown('since')} placeholder="10m" onSet={setTime('since')} />
        <Field name="until" label="until" value={shown('until')} placeholder="now" onSet={setTime('until')} />
        <span class="zone">
          {showLength(Math.round(length / 1000) * 1000)}, {zoneName(range.since, zone)}
        </span>
        <div class="group" role="group" aria-label="Change the range">
          {data !== null && (
            <>
              <button type="button" onClick={() => to.change({ since: null, until: null, step: null })}>
                what it is about
              </button>
              <button type="button" onClick={() => to.change({ ...fixedWords(data.since, data.until), step: null })}>
                and before
              </button>
            </>
          )}
          {(report() === null ? LENGTHS : []).map((of) => (
            <button type="button" key={of} aria-pressed={words.get('since') === of && !words.has('until')} onClick={() => to.change({ since: of, until: null, step: null })}>
              {of}
            </button>
          ))}
        </div>
        <div class="group" role="group" aria-label="Zoom and move">
          <button type="button" title="Earlier (left arrow)" aria-label="earlier" onClick={() => to.pan(-0.25)}>←</button>
          <button type="button" title="Later (right arrow)" aria-label="later" onClick={() => to.pan(0.25)}>→</button>
          <button type="button" title="Zoom in (+)" aria-label="zoom in" onClick={() => to.by(0.5)}>+</button>
          <button type="button" title="Zoom out (-)" aria-label="zoom out" onClick={() => to.by(2)}>−</button>
          <button type="button" title="Back (Escape)" onClick={to.back}>back</button>
        </div>
        {range.moves ? (
          <div class="group">
            {isLive ? <Live until={range.until} /> : <button type="button" onClick={refresh}>refresh</button>}
            <button type="button" title="Keep this range" onClick={() => to.zoom(range.since, range.until)}>pause</button>
          </div>
        ) : (
          meta.recorder !== null && (
            <button type="button" onClick={() => to.change({ since: length <= (parseLength('24h') ?? 0) ? showLength(Math.ceil(length / 60_000) * 60_000) : '10m', until: null, step: null })}>
              follow live
            </button>
          )
        )}
      </div>
      <details class="filters" open={innerWidth > NARROW || ['file', 'dir', 'mount', 'volume', 'tenant', 'level', 'op', 'step'].some((name) => words.has(name))}>
      <summary>filters</summary>
      <div class="row">
        {!without.includes('file') && fields('file', 'path or pattern')}
        {fields('dir', 'directory')}
        {fields('mount', 'server:/export')}
        {report() === null && fields('volume', 'volume or claim')}
        {report() === null && fields('tenant', 'name, user or cgroup')}
        {!without.includes('op') && (
          <label class="field">
            <span>op</span>
            <select value={selection.op} onChange={(event) => to.change({ op: event.currentTarget.value === 'both' ? null : event.currentTarget.value })}>
              <option value="both">read, write</option>
              <option value="read">read</option>
              <option value="write">write</option>
            </select>
          </label>
        )}
        {report() === null && (
          <label class="field">
            <span>level</span>
            <select value={words.get('level') ?? ''} onChange={(event) => to.change({ level: event.currentTarget.value || null })}>
              <option value="">as recorded</option>
              <option value="wire">NFS</option>
              <option value="block">devices</option>
              <option value="app">calls</option>
            </select>
          </label>
        )}
        {!without.includes('step') && (
          <label class="field">
            <span>step</span>
            <select value={step} onChange={(event) => to.change({ step: event.currentTarget.value || null })}>
              <option value="">auto</option>
              {(step === '' || steps.includes(step) ? steps : [step, ...steps]).map((of) => (
                <option key={of} value={of}>
                  {of}
                </option>
              ))}
            </select>
          </label>
        )}
      </div>
      </details>
    </div>
  );
}
