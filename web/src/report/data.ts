// The data of a report. `crates/render/src/incident/text.rs` writes them into the document, which also contains this program.
import { visibleIn } from '../visible.ts';

/** How many of them have rows of their own; others are in sums. */
export interface Count {
  kept: number;
  all: number;
}

export interface Columns {
  requests: number[];
  bytes: number[];
  errors: number[];
  untimed: number[];
  unsplit: number[];
  folded: number[];
  latency_us_sum: number[];
  latency_us_max: number[];
  queue_us_sum: number[];
  rtt_us_sum: number[];
  histogram: number[];
}

export interface Times {
  host: number[];
  since: number[];
  until: number[];
  recorded_ms: number[];
}

/** Lists of the same length are columns; their numbers are places in the lists of names, or -1. Times are ms. */
export interface Data {
  format: number;
  version: string;
  made: string;
  since: number;
  until: number;
  /** What the report is about; the time before it is there to compare with. */
  incident_since: number;
  incident_until: number;
  step: number;
  level: string;
  is_anonymized: boolean;
  files: Count;
  trees: Count;
  tenants: Count;
  names: {
    hosts: string[];
    mounts: string[];
    paths: string[];
    operations: string[];
    fileids: string[];
    tenants: { uid: (number | null)[]; user: (string | null)[]; cgroup: (string | null)[]; container: (string | null)[]; tenant_name: (string | null)[] };
  };
  places: {
    host: number[];
    mount: number[];
    root: number[];
    kind: ('file' | 'dir' | 'unnamed' | 'other')[];
    path: number[];
    file: number[];
    dev: (string | null)[];
    fileid: number[];
  };
  rows: { window: number[]; place: number[]; tenant: number[]; read: Columns; write: Columns };
  operations: {
    window: number[];
    host: number[];
    mount: number[];
    operation: number[];
    requests: number[];
    errors: number[];
    queue_us_sum: number[];
    rtt_us_sum: number[];
    execute_us_sum: number[];
    execute_us_max: number[];
    histogram: number[];
  };
  no_operations: string | null;
  recorded: Times;
  operations_recorded: Times;
  had_names: { host: number[]; file: number[]; path: number[]; first: number[]; last: number[] };
  events: { time: number[]; kind: string[]; text: string[] };
  notes: string[];
}

const FORMAT = 3;
const element = document.getElementById('report');

let loaded: Data | null = null;

/** The data of this document; null if it is the page of a server. */
export function report(): Data | null {
  return loaded;
}

/** Reads the data, if this document has any. */
export async function load(): Promise<void> {
  if (element === null) {
    return;
  }
  const binary = atob(element.textContent ?? '');
  const bytes = Uint8Array.from(binary, (character) => character.charCodeAt(0));
  const text = await new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'))).text();
  const data = JSON.parse(text) as Data;
  if (data.format !== FORMAT) {
    throw new Error(`the data have format ${data.format}, and this program reads ${FORMAT}`);
  }
  // There are many numbers, but few names.
  loaded = { ...data, names: visibleIn(data.names), events: visibleIn(data.events) };
}
