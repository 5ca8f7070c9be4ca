// Numbers in the format of the command line's tables.

const BYTES = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];

function digits(value: number): string {
  if (value === 0) {
    return '0';
  }
  const size = Math.abs(value);
  return value.toFixed(size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2);
}

export function showBytes(value: number): string {
  let at = 0;
  while (Math.abs(value) >= 999.5 && at < BYTES.length - 1) {
    value /= 1024;
    at += 1;
  }
  return `${at === 0 ? Math.round(value) : digits(value)} ${BYTES[at]}`;
}

export function showMicros(us: number): string {
  const size = Math.abs(us);
  if (size < 999.5) {
    return `${digits(us)} us`;
  }
  if (size < 999_500) {
    return `${digits(us / 1000)} ms`;
  }
  return `${digits(us / 1e6)} s`;
}

export function showCount(value: number): string {
  return Math.round(value).toLocaleString('en-US');
}

export function showRate(value: number): string {
  return value >= 10_000 ? showCount(value) : digits(value);
}

/** Short, for axes. */
export function showShort(value: number): string {
  const units: [number, string][] = [[1e9, 'G'], [1e6, 'M'], [1e3, 'k']];
  const unit = units.find(([size]) => Math.abs(value) >= size);
  const text = (of: number) => String(Number(of.toPrecision(3)));
  return unit === undefined ? text(value) : `${text(value / unit[0])}${unit[1]}`;
}

/** A percentile beside the longest one: it is the middle of a bucket, which may lie up to 1.1 % above. */
export function atMost(percentile: unknown, max: unknown): number | null {
  return typeof percentile !== 'number' ? null : typeof max === 'number' && max > 0 ? Math.min(percentile, max) : percentile;
}

export type Kind = 'text' | 'count' | 'rate' | 'bytes' | 'throughput' | 'us' | 'share' | 'time' | 'us/s' | 'factor';

export function show(value: unknown, kind: Kind): string {
  if (value === null || value === undefined || value === '') {
    return '-';
  }
  if (typeof value !== 'number') {
    return String(value);
  }
  switch (kind) {
    case 'count':
      return showCount(value);
    case 'rate':
      return showRate(value);
    case 'bytes':
      return showBytes(value);
    case 'throughput':
      return `${showBytes(value)}/s`;
    case 'us':
      return showMicros(value);
    case 'us/s':
      return `${showMicros(value)}/s`;
    case 'share':
      return `${digits(value * 100)} %`;
    case 'factor':
      return `${digits(value)} x`;
    default:
      return String(value);
  }
}
