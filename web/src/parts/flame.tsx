// The tree of directories as a flame graph, on a canvas; buttons move down and up in its table.
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import type { Stack } from '../api.ts';
import { useSettings } from '../settings.ts';

export interface Node {
  name: string;
  value: number;
  children: Map<string, Node>;
}

const ROW = 20;
const FEWEST_ROWS = 8;
const MOST_ROWS = 24;

export function tree(stacks: Stack[]): Node {
  const root: Node = { name: 'all', value: 0, children: new Map() };
  for (const { frames, value } of stacks) {
    let node = root;
    node.value += value;
    for (const name of frames) {
      let child = node.children.get(name);
      if (child === undefined) {
        child = { name, value: 0, children: new Map() };
        node.children.set(name, child);
      }
      child.value += value;
      node = child;
    }
  }
  return root;
}

/** The nodes from the root to a path, as far as it exists. */
export function along(root: Node, path: string[]): Node[] {
  const nodes = [root];
  for (const name of path) {
    const next = nodes.at(-1)?.children.get(name);
    if (next === undefined) {
      break;
    }
    nodes.push(next);
  }
  return nodes;
}

interface Box {
  path: string[];
  node: Node;
  left: number;
  width: number;
  row: number;
}

function sorted(node: Node): Node[] {
  return [...node.children.values()].sort((a, b) => b.value - a.value || (a.name < b.name ? -1 : 1));
}

function boxesOf(nodes: Node[], path: string[], width: number): Box[] {
  const boxes: Box[] = [];
  const put = (node: Node, at: string[], left: number, size: number, row: number) => {
    if (size < 0.6 || row >= MOST_ROWS) {
      return;
    }
    boxes.push({ path: at, node, left, width: size, row });
    let x = left;
    for (const child of sorted(node)) {
      const part = (size * child.value) / node.value;
      put(child, [...at, child.name], x, part, row + 1);
      x += part;
    }
  };
  // Ancestors are as wide as the picture.
  nodes.slice(0, -1).forEach((node, i) => boxes.push({ path: path.slice(0, i), node, left: 0, width, row: i }));
  const last = nodes.at(-1);
  if (last !== undefined && last.value > 0) {
    put(last, path.slice(0, nodes.length - 1), 0, width, nodes.length - 1);
  }
  return boxes;
}

/** The same name has the same colour everywhere. */
function colourOf(name: string, isDark: boolean): string {
  let hash = 0;
  for (const character of name) {
    hash = (hash * 31 + (character.codePointAt(0) ?? 0)) % 997;
  }
  const hue = 190 + (hash % 60);
  return isDark ? `hsl(${hue} 32% ${26 + (hash % 5) * 2}%)` : `hsl(${hue} 50% ${80 + (hash % 5) * 2}%)`;
}

function fitted(ctx: CanvasRenderingContext2D, text: string, width: number): string {
  if (ctx.measureText(text).width <= width) {
    return text;
  }
  const letters = Math.floor(width / (ctx.measureText('m').width * 0.8)) - 1;
  return letters < 2 ? '' : `…${text.slice(-letters)}`;
}

interface FlameProps {
  root: Node;
  path: string[];
  showValue: (value: number) => string;
  onPath: (path: string[]) => void;
}

export function Flame({ root, path, showValue, onPath }: FlameProps) {
  const { isDark } = useSettings();
  const canvas = useRef<HTMLCanvasElement>(null);
  const [width, setWidth] = useState(0);
  const [over, setOver] = useState<Box | null>(null);
  const nodes = useMemo(() => along(root, path), [root, path]);
  const boxes = useMemo(() => boxesOf(nodes, path, width), [nodes, width]);
  const rows = boxes.reduce((most, box) => Math.max(most, box.row + 1), FEWEST_ROWS);
  useEffect(() => {
    const element = canvas.current;
    const resized = new ResizeObserver(() => setWidth(element?.parentElement?.clientWidth ?? 0));
    if (element?.parentElement) {
      resized.observe(element.parentElement);
    }
    return () => resized.disconnect();
  }, []);
  useEffect(() => {
    const element = canvas.current;
    const ctx = element?.getContext('2d');
    if (!element || !ctx) {
      return;
    }
    const scale = devicePixelRatio;
    element.width = width * scale;
    element.height = ROW * rows * scale;
    element.style.height = `${ROW * rows}px`;
    ctx.scale(scale, scale);
    ctx.font = '12px system-ui, sans-serif';
    ctx.textBaseline = 'middle';
    for (const box of boxes) {
      ctx.fillStyle = colourOf(box.node.name, isDark);
      const inner = Math.max(0.5, box.width - 1);
      ctx.fillRect(box.left, box.row * ROW, inner, ROW - 1);
      if (box === over) {
        ctx.strokeStyle = isDark ? '#fff' : '#000';
        ctx.strokeRect(box.left + 0.5, box.row * ROW + 0.5, inner - 1, ROW - 2);
      }
      if (box.width > 30) {
        ctx.fillStyle = isDark ? '#f2f5f8' : '#14181d';
        ctx.fillText(fitted(ctx, box.node.name, box.width - 8), box.left + 4, box.row * ROW + ROW / 2);
      }
    }
  }, [boxes, over, isDark, width]);
  const find = (event: MouseEvent) => {
    const row = Math.floor(event.offsetY / ROW);
    return boxes.find((box) => box.row === row && box.left <= event.offsetX && event.offsetX < box.left + box.width) ?? null;
  };
  const shown = over?.node ?? nodes.at(-1) ?? root;
  const name = over === null ? ['all', ...path.slice(0, nodes.length - 1)].join(' / ') : ['all', ...over.path].join(' / ');
  return (
    <>
      <p class="readout">
        {name}: {showValue(shown.value)}, {((100 * shown.value) / Math.max(1, root.value)).toFixed(1)} %
      </p>
      <div class="flame">
        <canvas
          ref={canvas}
          role="img"
          aria-label="Flame graph of the tree of directories. The table shows the same and can be used with the keyboard."
          onMouseMove={(event) => setOver(find(event))}
          onMouseLeave={() => setOver(null)}
          onClick={(event) => {
            const box = find(event);
            if (box !== null) {
              onPath(box.path);
            }
          }}
        />
      </div>
    </>
  );
}

/** One level of the tree, with buttons down and up. */
export function FlameTable({ root, path, showValue, onPath }: FlameProps) {
  const nodes = along(root, path);
  const node = nodes.at(-1) ?? root;
  const rows = sorted(node).map((child) => ({ name: child.name, value: child.value, share: child.value / Math.max(1, node.value), below: child.children.size }));
  return (
    <>
      <p class="crumbs">
        {nodes.map((at, i) => (
          <button type="button" key={i} disabled={i === nodes.length - 1} onClick={() => onPath(path.slice(0, i))}>
            {at.name}
          </button>
        ))}
      </p>
      <div class="scroll" role="region" aria-label="Tree of directories" tabIndex={0}>
        <table>
          <thead>
            <tr>
              <th scope="col" class="text">name</th>
              <th scope="col" class="number">value</th>
              <th scope="col" class="number">share</th>
            </tr>
          </thead>
          <tbody>
            {rows.map((row) => (
              <tr key={row.name}>
                <td class="text">
                  {row.below > 0 ? (
                    <button type="button" onClick={() => onPath([...path.slice(0, nodes.length - 1), row.name])}>
                      {row.name}
                    </button>
                  ) : (
                    row.name
                  )}
                </td>
                <td class="number">{showValue(row.value)}</td>
                <td class="number">{(row.share * 100).toFixed(1)} %</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </>
  );
}
