// Tables: text on the left, numbers on the right, sorted by the server or in order of arrival.
import type { ComponentChildren } from 'preact';
import { show, type Kind } from '../format.ts';
import type { Range } from '../selection.ts';
import type { Row } from '../windows.ts';

export interface Column {
  name: string;
  label: string;
  kind: Kind;
  /** Where a row leads. */
  href?: (row: Row) => string | null;
  text?: (row: Row) => string;
  /** A picture in place of the text. */
  draw?: (row: Row) => ComponentChildren;
}

interface CourseProps {
  values: Map<number, number>;
  range: Range;
  step: number;
  /** The top of the picture. */
  most: number;
  about: string;
}

const COURSE = { width: 96, height: 18 };

/** A small line over time. Windows without a value are 0. */
export function Course({ values, range, step, most, about }: CourseProps) {
  const first = Math.floor(range.since / step);
  const count = Math.max(1, Math.ceil(range.until / step) - first);
  const points = Array.from({ length: count }, (_, i) => {
    const share = Math.min(1, (values.get((first + i) * step) ?? 0) / most);
    return `${((i + 0.5) * COURSE.width) / count},${(COURSE.height - 1 - share * (COURSE.height - 2)).toFixed(1)}`;
  });
  return (
    <svg class="course" viewBox={`0 0 ${COURSE.width} ${COURSE.height}`} preserveAspectRatio="none" role="img" aria-label={about}>
      <title>{about}</title>
      <polyline points={points.join(' ')} />
    </svg>
  );
}

export interface TableProps {
  label: string;
  columns: Column[];
  rows: Row[];
  /** The column that rows are sorted by, with `:asc` for smallest first. */
  sort?: string;
  onSort?: (sort: string) => void;
  empty?: string;
}

function Cell({ column, row }: { column: Column; row: Row }) {
  if (column.draw !== undefined) {
    return <td class="drawn">{column.draw(row)}</td>;
  }
  const value = row[column.name];
  const text = column.text === undefined ? show(value, column.kind) : column.text(row);
  const href = column.href?.(row) ?? null;
  const isText = column.kind === 'text' || column.kind === 'time';
  const inside = href === null ? text : <a href={href}>{text}</a>;
  return (
    <td class={isText ? 'text' : 'number'} data-column={column.name} data-value={value === null || value === undefined ? '' : String(value)} title={isText ? text : String(value ?? '')}>
      {isText ? <span class="cut"><bdi dir="ltr">{inside}</bdi></span> : inside}
    </td>
  );
}

export function Table({ label, columns, rows, sort, onSort, empty }: TableProps) {
  const [sorted, ascending] = sort === undefined ? ['', false] : [sort.replace(/:asc$/, ''), sort.endsWith(':asc')];
  return (
    <div class="scroll" role="region" aria-label={label} tabIndex={0}>
      <table>
        <thead>
          <tr>
            {columns.map((column) => {
              const isSorted = column.name === sorted;
              const isNumber = column.kind !== 'text' && column.kind !== 'time';
              const order = isSorted ? (ascending ? 'ascending' : 'descending') : undefined;
              return (
                <th key={column.name} scope="col" class={isNumber ? 'number' : 'text'} {...(order === undefined ? {} : { 'aria-sort': order })}>
                  {onSort === undefined || !isNumber ? (
                    column.label
                  ) : (
                    <button type="button" onClick={() => onSort(isSorted && !ascending ? `${column.name}:asc` : column.name)}>
                      {column.label}
                      <span aria-hidden="true">{isSorted ? (ascending ? ' ▲' : ' ▼') : ''}</span>
                    </button>
                  )}
                </th>
              );
            })}
          </tr>
        </thead>
        <tbody>
          {rows.map((row, i) => (
            <tr key={i}>
              {columns.map((column) => (
                <Cell key={column.name} column={column} row={row} />
              ))}
            </tr>
          ))}
          {rows.length === 0 && (
            <tr>
              <td class="text" colSpan={columns.length}>
                {empty ?? 'nothing matched'}
              </td>
            </tr>
          )}
        </tbody>
      </table>
    </div>
  );
}
