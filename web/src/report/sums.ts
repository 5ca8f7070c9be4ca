// Sums of a report's rows, and the columns of the command line that follow from them.
import { atMost } from '../format.ts';
import { quantile, type Bucket, type Histogram } from '../histogram.ts';
import type { Columns } from './data.ts';

export interface Sums {
  requests: number;
  bytes: number;
  errors: number;
  untimed: number;
  unsplit: number;
  folded: number;
  latency_us_sum: number;
  latency_us_max: number;
  queue_us_sum: number;
  rtt_us_sum: number;
  histogram: Histogram;
}

const ADDED = ['requests', 'bytes', 'errors', 'untimed', 'unsplit', 'folded', 'latency_us_sum', 'queue_us_sum', 'rtt_us_sum'] as const;

export function nothing(): Sums {
  return { requests: 0, bytes: 0, errors: 0, untimed: 0, unsplit: 0, folded: 0, latency_us_sum: 0, latency_us_max: 0, queue_us_sum: 0, rtt_us_sum: 0, histogram: new Map() };
}

/** Where the histogram of each row begins. */
export function starts(histograms: number[], rows: number): number[] {
  const all: number[] = [];
  for (let at = 0; all.length < rows; at += 1 + 2 * (histograms[at] ?? 0)) {
    all.push(at);
  }
  return all;
}

/** Adds the histogram that begins at a place. */
export function addHistogram(to: Histogram, histograms: number[], at: number): void {
  const end = at + 2 * (histograms[at] ?? 0);
  let bucket = 0;
  for (let i = at + 1; i < end; i += 2) {
    bucket += histograms[i] ?? 0;
    to.set(bucket, (to.get(bucket) ?? 0) + (histograms[i + 1] ?? 0));
  }
}

/** Adds a row. */
export function addRow(to: Sums, of: Columns, row: number, histogramAt: number): void {
  for (const name of ADDED) {
    to[name] += of[name][row] ?? 0;
  }
  to.latency_us_max = Math.max(to.latency_us_max, of.latency_us_max[row] ?? 0);
  addHistogram(to.histogram, of.histogram, histogramAt);
}

export function added(a: Sums, b: Sums): Sums {
  const sum = nothing();
  for (const of of [a, b]) {
    for (const name of ADDED) {
      sum[name] += of[name];
    }
    sum.latency_us_max = Math.max(sum.latency_us_max, of.latency_us_max);
    for (const [bucket, count] of of.histogram) {
      sum.histogram.set(bucket, (sum.histogram.get(bucket) ?? 0) + count);
    }
  }
  return sum;
}

/** As the command line rounds figures, and shares. */
export const rounded = (value: number, scale = 1000) => Math.round(value * scale) / scale;

export function perSecond(count: number, recordedMs: number): number | null {
  return recordedMs > 0 ? rounded((count * 1000) / recordedMs) : null;
}

const QUANTILES: Record<string, number> = { p50: 0.5, p90: 0.9, p99: 0.99, p999: 0.999 };

/** The percentile that ends a column's name, at most the longest. */
export function percentile(histogram: Histogram, name: string, max: number): number | null {
  const us = atMost(quantile(histogram, QUANTILES[name.split('_').at(-1) ?? ''] ?? NaN), max);
  return us === null ? null : rounded(us);
}

export function buckets(histogram: Histogram): Bucket[] {
  return [...histogram].sort((a, b) => a[0] - b[0]).map(([bucket, count]) => ({ bucket, count }));
}

/** A column of a direction, or of both, named without it. */
export function column(sums: Sums, name: string, recordedMs: number): unknown {
  if (name in sums && name !== 'histogram') {
    return sums[name as Exclude<keyof Sums, 'histogram'>];
  }
  switch (name) {
    case 'latency_hist':
      return buckets(sums.histogram);
    case 'iops':
      return perSecond(sums.requests, recordedMs);
    case 'throughput':
      return perSecond(sums.bytes, recordedMs);
    default:
      return percentile(sums.histogram, name, sums.latency_us_max);
  }
}
