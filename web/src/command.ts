// The command line that asks what a picture or a table shows.
import type { Parameters } from './api.ts';

/** A word of a POSIX shell. */
export function quoted(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}

export function command(name: string, parameters: Parameters): string {
  const words = parameters.flatMap(([flag, value]) => [`--${flag}`, ...(value === '' ? [] : [quoted(value)])]);
  return ['trackiops', name, ...words].join(' ');
}
