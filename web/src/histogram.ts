// Latency histograms: bucket i counts latencies in (2^(i/32), 2^((i+1)/32)] us (docs/reference/format.md). Adding counts is exact.

export interface Bucket {
  bucket: number;
  count: number;
}

export type Histogram = Map<number, number>;

const BUCKETS_PER_OCTAVE = 32;
/** Rows of a heat map per octave. A row is a whole number of buckets, so drawing moves no request. */
export const ROWS_PER_OCTAVE = 4;
const BUCKETS_PER_ROW = BUCKETS_PER_OCTAVE / ROWS_PER_OCTAVE;

export function add(to: Histogram, buckets: Iterable<Bucket>): void {
  for (const { bucket, count } of buckets) {
    to.set(bucket, (to.get(bucket) ?? 0) + count);
  }
}

export function merged(of: Iterable<Histogram>): Histogram {
  const sum: Histogram = new Map();
  for (const one of of) {
    for (const [bucket, count] of one) {
      sum.set(bucket, (sum.get(bucket) ?? 0) + count);
    }
  }
  return sum;
}

export function total(histogram: Histogram): number {
  let sum = 0;
  for (const count of histogram.values()) {
    sum += count;
  }
  return sum;
}

/** The latency that a share q of the requests does not exceed, us, within 1.1 %: as the command line computes it. */
export function quantile(histogram: Histogram, q: number): number | null {
  const all = total(histogram);
  if (all === 0) {
    return null;
  }
  const rank = Math.max(1, Math.ceil(q * all));
  let below = 0;
  for (const [bucket, count] of [...histogram].sort((a, b) => a[0] - b[0])) {
    below += count;
    if (below >= rank) {
      return 2 ** ((bucket + 0.5) / BUCKETS_PER_OCTAVE);
    }
  }
  return null;
}

/** Counts by rows of the heat map. */
export function rows(histogram: Histogram): Map<number, number> {
  const counts = new Map<number, number>();
  for (const [bucket, count] of histogram) {
    const row = Math.floor(bucket / BUCKETS_PER_ROW);
    counts.set(row, (counts.get(row) ?? 0) + count);
  }
  return counts;
}

/** Where a row of the heat map begins, us; it ends where the next begins. */
export function rowStart(row: number): number {
  return 2 ** (row / ROWS_PER_OCTAVE);
}

export function rowOf(us: number): number {
  return Math.ceil(Math.log2(us) * ROWS_PER_OCTAVE) - 1;
}
