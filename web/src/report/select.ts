// Selects from a report by parameters: times and places. A place is a file, or the other files of a tree.
import type { Parameters } from '../api.ts';
import { parseLength } from '../time.ts';
import type { Data } from './data.ts';

/** A question that the report has no answer to, and why. */
export class NotInReport extends Error {}

export class Asked {
  constructor(private readonly parameters: Parameters) {}

  all(name: string): string[] {
    return this.parameters.filter(([of]) => of === name).map(([, value]) => value);
  }

  first(name: string): string | undefined {
    return this.all(name)[0];
  }
}

/** The range of a question, in whole windows. */
export function rangeOf(data: Data, asked: Asked): [since: number, until: number] {
  const [since, until] = ['since', 'until'].map((name) => Date.parse(asked.first(name) ?? ''));
  const begin = since === undefined || Number.isNaN(since) ? data.since : since;
  const end = until === undefined || Number.isNaN(until) ? data.until : until;
  return wholeWindows(data, begin, end);
}

/** A range in whole windows, as far as the report has it. */
export function wholeWindows({ since, until, step }: Data, begin: number, end: number): [number, number] {
  return [Math.max(since, Math.floor(begin / step) * step), Math.min(until, Math.ceil(end / step) * step)];
}

/** The length of an answer's windows; all of the range is one if there is none. */
export function stepOf(data: Data, asked: Asked): number | null {
  const word = asked.first('step');
  if (word === undefined || word === 'all') {
    return null;
  }
  const step = word === 'auto' ? data.step : parseLength(word);
  if (step === null || step <= 0 || step % data.step !== 0) {
    throw new NotInReport(`a step of ${word} is not in this report: its windows are multiples of ${data.step / 1000} s`);
  }
  return step;
}

/** A pattern of names, in which only ** is more than one component. */
function pattern(text: string): RegExp | null {
  if (!/[*?[]/.test(text)) {
    return null;
  }
  const OF: Record<string, string> = { '*': '[^/]*', '?': '[^/]', '**/': '(?:.*/)?', '**': '.*' };
  const set = (of: string) => `[${of.slice(1, -1).replace(/[\\\][^]/g, '\\$&').replace(/^!/, '^')}]`;
  const parts = text.replace(/\[!?\]?[^\]]*\]|\*\*\/?|[*?]|[.+^${}()|\\[\]]/g, (of) => OF[of] ?? (of.length > 2 ? set(of) : `\\${of}`));
  try {
    return new RegExp(`^${parts}$`, 'u');
  } catch {
    return null;
  }
}

function matcher(word: string): (name: string) => boolean {
  const of = pattern(word);
  return (name) => name === word || (of?.test(name) ?? false);
}

export const isIn = (path: string, dir: string) => path === dir || path.startsWith(`${dir}/`);
const withoutSlash = (dir: string) => dir.replace(/\/+$/, '');

export interface Selected {
  /** For each place, whether it is selected. */
  places: boolean[];
  /** Directories that the question names, deepest first. */
  dirs: string[];
  /** What else might have been selected. */
  notes: string[];
}

/** The places that a question is about. */
export function select(data: Data, asked: Asked): Selected {
  const { places, names } = data;
  const files = asked.all('file').map((word) => ({ word, matches: matcher(word) }));
  const dirs = asked.all('dir').map(withoutSlash);
  const mounts = asked.all('mount').map(matcher);
  let others = files.some(({ word }) => pattern(word) !== null);
  const selected = places.kind.map((kind, i) => {
    const path = names.paths[places.path[i] ?? -1];
    const mount = names.mounts[places.mount[i] ?? -1] ?? '';
    const root = names.paths[places.root[i] ?? -1] ?? '';
    if (mounts.length > 0 && !mounts.some((matches) => matches(mount) || matches(root))) {
      return false;
    }
    if (files.length + dirs.length === 0) {
      return true;
    }
    const number = `${places.dev[i] ?? ''}:${names.fileids[places.fileid[i] ?? -1] ?? ''}`;
    const isFile = kind === 'file' && files.some(({ word, matches }) => word === number || (path !== undefined && matches(path)));
    others ||= dirs.some((dir) => kind === 'other' || (kind === 'dir' && path !== undefined && path !== dir && isIn(dir, path)));
    return isFile || (path !== undefined && dirs.some((dir) => isIn(path, dir)));
  });
  const { kept, all } = data.files;
  if (kept < all && files.length > 0 && !selected.includes(true)) {
    throw new NotInReport(`${files.map(({ word }) => word).join(', ')} is not among the ${kept} of ${all} files that this report has one by one; the command below asks the store for it`);
  }
  const notes = others && kept < all ? [`this report has ${kept} of ${all} files one by one; of the others, which are in sums of trees, some may match as well`] : [];
  return { places: selected, dirs: dirs.sort((a, b) => b.length - a.length), notes };
}

/** The directory of a name, at most one component below a base: as `--by dir`. */
export function dirBelow(path: string, base: string): string {
  if (path === base || !path.startsWith('/')) {
    return path;
  }
  const parent = path.slice(0, path.lastIndexOf('/'));
  const above = isIn(path, base) ? base.length : 0;
  const second = parent.indexOf('/', parent.indexOf('/', above) < 0 ? parent.length : parent.indexOf('/', above) + 1);
  return (second < 0 ? parent : parent.slice(0, second)) || '/';
}
