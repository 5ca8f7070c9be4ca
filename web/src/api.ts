// Asks the server: /api/v1, whose parameters are command-line flags. In a report, the report's own data answer.
import { useEffect, useRef, useState } from 'preact/hooks';
import { answer } from './report/answers.ts';
import { report } from './report/data.ts';
import { visibleIn } from './visible.ts';
import type { Row } from './windows.ts';

export type Parameters = [name: string, value: string][];

export interface Answer<R = Row> {
  rows: R[];
  notes: string[];
  /** Length of the rows' windows. */
  step?: string;
}

export interface Stack {
  frames: string[];
  value: number;
}

export interface Meta {
  version: string;
  stores: string[];
  hosts: string[];
  since: string | null;
  until: string | null;
  granularities: string[];
  recorder: unknown;
  /** Absent in an answer. */
  rows?: undefined;
}

export class ApiError extends Error {
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message);
  }
}

/** Milliseconds by which the server's clock is ahead of this one. */
let clockAhead = 0;

/** The server's time. In a report it is always the time of its end. */
export function now(): number {
  return report()?.until ?? Date.now() + clockAhead;
}

function setClock(response: Response, asked: number): void {
  const date = Date.parse(response.headers.get('date') ?? '');
  // The header has whole seconds; a clock that agrees within them is right.
  const ahead = date - (asked + Date.now()) / 2;
  if (!Number.isNaN(ahead) && Math.abs(ahead) > 1500) {
    clockAhead = ahead;
  }
}

export function apiAddress(name: string, parameters: Parameters): string {
  const query = new URLSearchParams(parameters).toString();
  return `/api/v1/${name}${query === '' ? '' : `?${query}`}`;
}

function wait(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener('abort', () => {
      clearTimeout(timer);
      reject(signal.reason);
    });
  });
}

async function errorOf(response: Response): Promise<ApiError> {
  if (response.status === 401) {
    return new ApiError(401, 'no access: open the address that `trackiops serve` has printed, with its token');
  }
  const text = await response.text();
  try {
    return new ApiError(response.status, String((JSON.parse(text) as { error: unknown }).error));
  } catch {
    return new ApiError(response.status, `status ${response.status}: ${text.slice(0, 300)}`);
  }
}

/** Asks until there is an answer: a server that is busy says when to ask again. Names in it are visible. */
export async function ask<T extends { rows?: unknown }>(name: string, parameters: Parameters, signal: AbortSignal): Promise<T> {
  const data = report();
  if (data !== null) {
    try {
      return answer(data, name, parameters) as T;
    } catch (error) {
      throw new ApiError(404, error instanceof Error ? error.message : String(error));
    }
  }
  for (;;) {
    const asked = Date.now();
    let response: Response;
    try {
      response = await fetch(apiAddress(name, parameters), { signal });
    } catch (error) {
      signal.throwIfAborted();
      throw new ApiError(0, `the server does not answer: ${error instanceof Error ? error.message : String(error)}`);
    }
    setClock(response, asked);
    if (response.ok) {
      const answered = (await response.json()) as T;
      return 'rows' in answered ? { ...answered, rows: visibleIn(answered.rows) } : answered;
    }
    const error = await errorOf(response);
    if (response.status !== 503) {
      throw error;
    }
    await wait(1000 * (Number(response.headers.get('retry-after')) || 1), signal);
  }
}

export interface Asked<T> {
  /** The last answer, also while the next one is on its way. */
  data: T | null;
  error: string | null;
  loading: boolean;
}

/** Asks again whenever the question changes, or `again` does; null asks nothing. */
export function useAsk<T extends { rows?: unknown } = Answer>(name: string, parameters: Parameters | null, again = 0): Asked<T> {
  const key = parameters === null ? null : apiAddress(name, parameters);
  const [asked, setAsked] = useState<Asked<T>>({ data: null, error: null, loading: key !== null });
  const latest = useRef(parameters);
  latest.current = parameters;
  useEffect(() => {
    if (key === null) {
      setAsked({ data: null, error: null, loading: false });
      return undefined;
    }
    const abort = new AbortController();
    setAsked((before) => ({ ...before, loading: true }));
    ask<T>(name, latest.current ?? [], abort.signal).then(
      (data) => setAsked({ data, error: null, loading: false }),
      (error: unknown) => {
        if (!abort.signal.aborted) {
          const message = error instanceof Error ? error.message : String(error);
          setAsked({ data: null, error: message, loading: false });
        }
      },
    );
    return () => abort.abort();
  }, [key, again]);
  return asked;
}
