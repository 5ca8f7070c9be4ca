// Times, lengths and steps, in milliseconds since 1970 and in the words of the command line.

export type Zone = 'utc' | 'local';

const UNITS: Record<string, number> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 };
const NAMES: [string, number][] = [['w', 604_800_000], ['d', 86_400_000], ['h', 3_600_000], ['m', 60_000], ['s', 1000], ['ms', 1]];
/** Lengths of windows that people read easily. */
const NICE = ['1s', '2s', '5s', '10s', '15s', '30s', '1m', '2m', '5m', '10m', '15m', '30m', '1h', '2h', '3h', '6h', '12h', '1d', '1w'];
/** As `--step auto` of the command line: the finest stored length that gives no more windows than this. */
const MOST_WINDOWS = 600;

/** A length such as `90s` or `2d12h`. */
export function parseLength(text: string): number | null {
  const parts = [...text.matchAll(/(\d+)\s*(ms|s|m|h|d|w)/g)];
  if (parts.length === 0 || parts.map((part) => part[0]).join('') !== text.replace(/\s/g, '')) {
    return null;
  }
  return parts.reduce((sum, part) => sum + Number(part[1]) * (UNITS[part[2] ?? ''] ?? 0), 0);
}

export function showLength(ms: number): string {
  if (ms <= 0) {
    return '0s';
  }
  let rest = Math.round(ms);
  let text = '';
  for (const [name, unit] of NAMES) {
    const count = Math.floor(rest / unit);
    // Days and weeks mix badly: 8d reads better than 1w1d.
    if (count > 0 && (name !== 'w' || rest % unit === 0)) {
      text += `${count}${name}`;
      rest -= count * unit;
    }
  }
  return text;
}

/** Whether it moves with the clock. */
export function isRelative(text: string): boolean {
  return text === 'now' || parseLength(text) !== null;
}

/** A time as `--since` takes it, or null if it is none that the page knows. */
export function parseTime(text: string, now: number, zone: Zone): number | null {
  const word = text.trim().replace(/ ago$/, '');
  const length = parseLength(word);
  if (length !== null) {
    return now - length;
  }
  if (word === 'now') {
    return now;
  }
  const seconds = /^@(\d+)$/.exec(word);
  if (seconds !== null) {
    return Number(seconds[1]) * 1000;
  }
  const date = /^(\d{4}-\d\d-\d\d)(?:[ T](\d\d:\d\d(?::\d\d(?:\.\d+)?)?)(Z|[+-]\d\d:\d\d)?)?$/.exec(word);
  if (date === null) {
    return null;
  }
  const offset = date[3] ?? (zone === 'utc' ? 'Z' : '');
  const time = Date.parse(`${date[1]}T${date[2] ?? '00:00'}${offset}`);
  return Number.isNaN(time) ? null : time;
}

/** RFC 3339, UTC. */
export function rfc3339(ms: number): string {
  return new Date(ms).toISOString().replace('.000Z', 'Z');
}

const two = (value: number) => String(value).padStart(2, '0');

/** Date and time of day in a zone, each as text. */
export function dateAndTime(ms: number, zone: Zone): { date: string; time: string } {
  const at = new Date(ms);
  const local = zone === 'local' ? new Date(ms - at.getTimezoneOffset() * 60_000) : at;
  const [date, time] = local.toISOString().split('T');
  return { date: date ?? '', time: (time ?? '').replace('Z', '').replace(/\.000$/, '') };
}

export function showTime(ms: number, zone: Zone): string {
  const { date, time } = dateAndTime(ms, zone);
  return `${date} ${time}`;
}

/** `UTC`, or the offset of the browser's zone at a time. */
export function zoneName(ms: number, zone: Zone): string {
  if (zone === 'utc') {
    return 'UTC';
  }
  const minutes = -new Date(ms).getTimezoneOffset();
  const size = Math.abs(minutes);
  return `UTC${minutes < 0 ? '-' : '+'}${two(Math.floor(size / 60))}:${two(size % 60)}`;
}

/** The step that `--step auto` takes for a range, if all of it is stored in the shortest windows. */
export function autoStep(length: number, stored: number[]): number {
  const fits = stored.find((step) => Math.ceil(length / step) <= MOST_WINDOWS);
  return fits ?? stored.at(-1) ?? 1000;
}

/** A multiple of a stored length that gives up to `most` windows. */
export function niceStep(length: number, stored: number[], most: number): number {
  const isMultiple = (step: number) => stored.some((of) => step % of === 0);
  const steps = NICE.map((name) => parseLength(name) ?? 0).filter(isMultiple);
  return steps.find((step) => Math.ceil(length / step) <= most) ?? steps.at(-1) ?? 1000;
}

/** Steps to choose from for a range. */
export function stepsFor(length: number, stored: number[]): string[] {
  const possible = (name: string) => {
    const step = parseLength(name) ?? 0;
    return stored.some((of) => step % of === 0) && step < length && length / step <= 1500;
  };
  return NICE.filter(possible);
}
