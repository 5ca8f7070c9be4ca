// The command line that gives the data of a picture or a table.
import type { Parameters } from './api.ts';

/** A word of a POSIX shell. */
export function quoted(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}

let stores: string[] = [];

/** The stores of all commands from now on. */
export function setStores(of: string[]): void {
  stores = of;
}

/** The command, on the host of the server. */
export function command(name: string, parameters: Parameters): string {
  const words = [...parameters, ...stores.map((store): [string, string] => ['store', store])].flatMap(([flag, value]) => [`--${flag}`, ...(value === '' ? [] : [quoted(value)])]);
  return ['trackiops', name, ...words].join(' ');
}
