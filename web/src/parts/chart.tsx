// A chart over time: uPlot draws lines; cells of a heat map and unrecorded time are painted below them.
import { useEffect, useRef, useState } from 'preact/hooks';
import uPlot from 'uplot';
import { logShare, palette, shade, type Palette } from '../colours.ts';
import { rowStart } from '../histogram.ts';
import type { Gap } from '../recording.ts';
import type { Range } from '../selection.ts';
import { useSettings } from '../settings.ts';
import { dateAndTime, type Zone } from '../time.ts';

export interface Line {
  label: string;
  colour: keyof Palette;
  values: (number | null)[];
  /** Painted down to the line before it, or to zero. */
  area?: boolean;
  dash?: number[];
  /** Below a line on a heat map, so that it is seen on every colour. */
  isHalo?: boolean;
}

/** A moment that may explain a change: a mark, a stall, a restart. */
export interface Moment {
  time: number;
  about: string;
}

export interface Heat {
  /** Counts by rows, for each window. */
  cells: Map<number, number>[];
  most: number;
}

export interface ChartProps {
  label: string;
  range: Range;
  step: number;
  times: number[];
  lines: Line[];
  heat?: Heat;
  gaps: Gap[];
  isLog?: boolean;
  isBytes?: boolean;
  height: number;
  showValue: (value: number) => string;
  /** Moments that are drawn as lines. */
  moments: Moment[];
  onZoom: (since: number, until: number) => void;
  onCompare: (since: number, until: number) => void;
  onBack: () => void;
  /** The point under the cursor was clicked. */
  onCell?: () => void;
  onPoint: (index: number | null, value: number | null) => void;
}

const AXIS_WIDTH = 78;
/** Steps of an axis of bytes: its labels are round numbers of KiB, MiB and so on. */
const BYTE_STEPS = Array.from({ length: 6 }, (_, power) => [1, 2, 4, 8, 16, 32, 64, 128, 256, 512].map((of) => of * 1024 ** power)).flat();

function drawHeat(u: uPlot, { heat, times, step }: ChartProps, isDark: boolean): void {
  if (heat === undefined) {
    return;
  }
  const { ctx } = u;
  const y = new Map<number, number>();
  const at = (row: number) => {
    const known = y.get(row) ?? Math.round(u.valToPos(rowStart(row), 'y', true));
    y.set(row, known);
    return known;
  };
  times.forEach((time, i) => {
    const left = Math.round(u.valToPos(time / 1000, 'x', true));
    const right = Math.round(u.valToPos((time + step) / 1000, 'x', true));
    for (const [row, count] of heat.cells[i] ?? []) {
      ctx.fillStyle = shade(logShare(count, heat.most), isDark);
      ctx.fillRect(left, at(row + 1), Math.max(1, right - left), Math.max(1, at(row) - at(row + 1)));
    }
  });
}

/** Diagonal lines where nothing was recorded; sparser ones where a part was. */
export function drawHatch(ctx: CanvasRenderingContext2D, box: { left: number; top: number; width: number; height: number }, colour: string, distance: number): void {
  ctx.save();
  ctx.beginPath();
  ctx.rect(box.left, box.top, box.width, box.height);
  ctx.clip();
  ctx.strokeStyle = colour;
  ctx.lineWidth = devicePixelRatio;
  ctx.beginPath();
  const first = Math.floor((box.left - box.height) / distance) * distance;
  for (let x = first; x < box.left + box.width; x += distance) {
    ctx.moveTo(x, box.top + box.height);
    ctx.lineTo(x + box.height, box.top);
  }
  ctx.stroke();
  ctx.restore();
}

function drawGaps(u: uPlot, gaps: Gap[], colour: string): void {
  for (const gap of gaps) {
    const left = Math.max(u.bbox.left, u.valToPos(gap.since / 1000, 'x', true));
    const right = Math.min(u.bbox.left + u.bbox.width, u.valToPos(gap.until / 1000, 'x', true));
    if (right > left) {
      const distance = (gap.partly ? 16 : 7) * devicePixelRatio;
      drawHatch(u.ctx, { left, top: u.bbox.top, width: right - left, height: u.bbox.height }, colour, distance);
    }
  }
}

/** Dotted vertical lines, as far as they are in a box. */
export function drawLines(ctx: CanvasRenderingContext2D, box: { left: number; top: number; width: number; height: number }, places: number[], colour: string): void {
  ctx.save();
  ctx.strokeStyle = colour;
  ctx.lineWidth = 1.5 * devicePixelRatio;
  ctx.setLineDash([2 * devicePixelRatio, 3 * devicePixelRatio]);
  ctx.beginPath();
  for (const x of places) {
    if (x >= box.left && x <= box.left + box.width) {
      ctx.moveTo(x, box.top);
      ctx.lineTo(x, box.top + box.height);
    }
  }
  ctx.stroke();
  ctx.restore();
}

/** Labels of the time axis: a date where it changes, seconds where they matter. */
function timeLabels(splits: number[], increment: number, zone: Zone): string[] {
  let before = '';
  return splits.map((split, i) => {
    const { date, time } = dateAndTime(split * 1000, zone);
    const clock = increment < 60 ? time.slice(0, increment < 1 ? 12 : 8) : time.slice(0, 5);
    // There is no room below the last label.
    const isAlone = date === before || i === splits.length - 1;
    const text = isAlone ? clock : `${clock}\n${date}`;
    before = date;
    return increment >= 86_400 ? date.slice(5) : text;
  });
}

function logSplits(min: number, max: number): number[] {
  const decades = Math.log10(max / min);
  const factors = decades < 1.6 ? [1, 2, 5] : decades < 4 ? [1, 3] : [1];
  const splits: number[] = [];
  for (let power = Math.floor(Math.log10(min)); power <= Math.ceil(Math.log10(max)); power += 1) {
    splits.push(...factors.map((factor) => factor * 10 ** power));
  }
  return splits.filter((split) => split >= min && split <= max);
}

/** From a row of the heat map to another, so that no cell is cut. */
function logRange(props: ChartProps): [number, number] {
  const rows = props.heat?.cells.flatMap((cells) => [...cells.keys()]) ?? [];
  const values = props.lines.flatMap((line) => line.values.filter((value): value is number => value !== null && value > 0));
  if (rows.length === 0 && values.length === 0) {
    return [10, 100_000];
  }
  const low = Math.min(...rows.map((row) => rowStart(row)), ...values.map((value) => value * 0.9));
  const high = Math.max(...rows.map((row) => rowStart(row + 1)), ...values.map((value) => value * 1.1));
  return [low, high];
}

function drawn({ lines, heat }: ChartProps): Line[] {
  return heat === undefined ? lines : lines.flatMap((line) => [{ ...line, colour: 'background' as const, isHalo: true }, line]);
}

function dataOf(props: ChartProps): uPlot.AlignedData {
  const values: (number | null)[][] = [];
  let before: (number | null)[] | null = null;
  for (const line of drawn(props)) {
    const below: (number | null)[] | null = before;
    const stacked = line.area === true && below !== null;
    const own: (number | null)[] = stacked ? line.values.map((value, i) => (value === null ? null : value + (below[i] ?? 0))) : line.values;
    values.push(own);
    before = line.area === true ? own : null;
  }
  return [props.times.map((time) => (time + props.step / 2) / 1000), ...values] as uPlot.AlignedData;
}

/** A time that was chosen by dragging, and where it is. */
interface Chosen {
  since: number;
  until: number;
  left: number;
}

function options(latest: { current: ChartProps }, drag: { begin: () => void; choose: (chosen: Chosen) => void }, width: number, isDark: boolean, zone: Zone): uPlot.Options {
  const colours = palette(isDark);
  const { height, heat, isLog, isBytes } = latest.current;
  const lines = drawn(latest.current);
  const axis = { stroke: colours.text, grid: { stroke: colours.grid, width: 1 }, ticks: { stroke: colours.grid, width: 1 }, font: '12px system-ui, sans-serif' };
  const last = lines.length;
  return {
    width,
    height,
    // Half the width of a time at the end of the axis.
    padding: [8, 28, 0, 0],
    legend: { show: false },
    tzDate: (seconds) => (zone === 'utc' ? uPlot.tzDate(new Date(seconds * 1000), 'Etc/UTC') : new Date(seconds * 1000)),
    cursor: {
      sync: { key: 'time', setSeries: false, scales: ['x', null] },
      drag: { x: true, y: false, setScale: false, dist: 4 },
      points: { show: false },
      bind: {
        dblclick: () => () => (latest.current.onBack(), null),
        click: (u) => () => {
          // A drag also ends with a click.
          if (u.select.width === 0) {
            latest.current.onCell?.();
          }
          return null;
        },
        mousedown: (_u, _target, handle) => (event: MouseEvent) => {
          const handled = handle(event);
          // Start after uPlot has begun to listen, so that uPlot sees the end first.
          drag.begin();
          return handled;
        },
      },
    },
    scales: {
      x: { time: true, range: () => [latest.current.range.since / 1000, latest.current.range.until / 1000] },
      y: isLog === true ? { distr: 3, log: 10, range: () => logRange(latest.current) } : { range: (_u, _min, max) => [0, max > 0 ? max * 1.08 : 1] },
    },
    axes: [
      { ...axis, space: 70, size: 48, values: (_u, splits, _axis, _space, increment) => timeLabels(splits, increment, zone) },
      {
        ...axis,
        size: AXIS_WIDTH,
        ...(isBytes === true ? { incrs: BYTE_STEPS } : {}),
        ...(isLog === true ? { splits: (_u: uPlot, _axis: number, min: number, max: number) => logSplits(min, max), filter: (_u: uPlot, splits: number[]) => splits } : {}),
        values: (_u, splits) => splits.map((split) => latest.current.showValue(split)),
      },
    ],
    series: [
      {},
      ...lines.map((line) => ({
        label: line.label,
        stroke: colours[line.colour],
        width: line.isHalo === true ? 5 : line.area === true ? 1 : heat === undefined ? 1.5 : 2,
        ...(line.dash === undefined ? {} : { dash: line.dash }),
        ...(line.area === true && !lines.slice(0, lines.indexOf(line)).some((of) => of.area) ? { fill: `${colours[line.colour]}aa` } : {}),
        points: { show: latest.current.times.length < 60 && line.isHalo !== true, size: 4, fill: colours[line.colour] },
        spanGaps: false,
      })),
    ],
    // A band lies between two lines and has the upper line's colour.
    bands: lines.flatMap((line, i) => (i > 0 && i < last && line.area === true && lines[i - 1]?.area === true ? [{ series: [i + 1, i] as [number, number], fill: `${colours[line.colour]}aa` }] : [])),
    hooks: {
      drawAxes: [
        (u) => {
          drawHeat(u, latest.current, isDark);
          drawGaps(u, latest.current.gaps, colours.hatch);
          const places = latest.current.moments.map(({ time }) => Math.round(u.valToPos(time / 1000, 'x', true)));
          drawLines(u.ctx, u.bbox, places, colours.text);
        },
      ],
      setSelect: [
        (u) => {
          const { left, width: selected } = u.select;
          if (selected > 0) {
            drag.choose({ since: u.posToVal(left, 'x') * 1000, until: u.posToVal(left + selected, 'x') * 1000, left: left + u.bbox.left / devicePixelRatio });
          }
        },
      ],
      setCursor: [
        (u) => {
          const { idx, top } = u.cursor;
          const inside = idx !== null && idx !== undefined && (u.cursor.left ?? -1) >= 0;
          latest.current.onPoint(inside ? idx : null, inside && top !== undefined && top >= 0 ? u.posToVal(top, 'y') : null);
        },
      ],
    },
  };
}

export function Chart(props: ChartProps) {
  const { isDark, zone } = useSettings();
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const latest = useRef(props);
  latest.current = props;
  const isDragging = useRef(false);
  const [chosen, setChosen] = useState<Chosen | null>(null);
  const close = () => {
    setChosen(null);
    plot.current?.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
  };
  const drag = {
    // All charts of a page select the same time; the chart with the drag asks what to do with it.
    choose: (found: Chosen) => {
      if (isDragging.current) {
        setChosen(found);
      } else {
        close();
      }
    },
    begin: () => {
      isDragging.current = true;
      setChosen(null);
      const ended = () => {
        isDragging.current = false;
        plot.current?.setData(dataOf(latest.current));
      };
      document.addEventListener('mouseup', ended, { once: true });
    },
  };
  const shape = JSON.stringify([props.lines.map((line) => [line.label, line.colour, line.area]), props.isLog, props.height, props.times.length < 60]);
  useEffect(() => {
    const element = box.current;
    if (element === null) {
      return undefined;
    }
    const made = new uPlot(options(latest, drag, element.clientWidth, isDark, zone), dataOf(latest.current), element);
    plot.current = made;
    // uPlot only listens to the mouse. A finger selects a time from left to right; up and down scrolls the page.
    const relayed = (event: TouchEvent, target: EventTarget, ...names: string[]) => {
      const touch = event.changedTouches[0];
      const at = touch === undefined ? {} : { clientX: touch.clientX, clientY: touch.clientY };
      names.forEach((name) => target.dispatchEvent(new MouseEvent(name, { ...at, bubbles: true, button: 0 })));
    };
    made.over.addEventListener('touchstart', (event) => relayed(event, made.over, 'mousemove', 'mousedown'), { passive: true });
    made.over.addEventListener('touchmove', (event) => relayed(event, made.over, 'mousemove'), { passive: true });
    made.over.addEventListener('touchend', (event) => relayed(event, document, 'mouseup'), { passive: true });
    const resized = new ResizeObserver(() => {
      if (element.clientWidth > 0 && element.clientWidth !== made.width) {
        made.setSize({ width: element.clientWidth, height: latest.current.height });
      }
    });
    resized.observe(element);
    return () => {
      resized.disconnect();
      made.destroy();
      plot.current = null;
    };
  }, [shape, isDark, zone]);
  useEffect(() => {
    // New data would end a selection in progress, so it waits.
    if (!isDragging.current) {
      plot.current?.setData(dataOf(props));
    }
  }, [props.times, props.lines, props.heat, props.gaps, props.moments, props.range.since, props.range.until]);
  useEffect(close, [props.range.since, props.range.until]);
  const act = (action: (since: number, until: number) => void) => () => {
    if (chosen !== null) {
      close();
      action(chosen.since, chosen.until);
    }
  };
  return (
    <div class="charted">
      <div ref={box} class={`chart chart-${props.height}`} role="img" aria-label={props.label} />
      {chosen !== null && (
        <div
          class="chosen group"
          role="group"
          aria-label="The chosen time"
          style={{ left: `${chosen.left}px` }}
          onKeyDown={(event) => {
            if (event.key === 'Escape') {
              event.stopPropagation();
              close();
            }
          }}
        >
          <button type="button" ref={(button) => button?.focus({ preventScroll: true })} onClick={act(props.onZoom)}>zoom</button>
          <button type="button" onClick={act(props.onCompare)}>what changed here?</button>
          <button type="button" aria-label="close" onClick={close}>×</button>
        </div>
      )}
    </div>
  );
}
