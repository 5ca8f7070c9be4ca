// Cividis (Nunez, Anderton and Renslow, 2018): alike to people with and without colour vision deficiency, with rising lightness.
const CIVIDIS: [number, number, number][] = [
  [0, 34, 78], [18, 53, 112], [59, 73, 108], [87, 93, 109], [112, 113, 115], [138, 134, 120], [165, 156, 116], [195, 179, 105], [225, 204, 85], [254, 232, 56],
];

/** Blues (ColorBrewer, Harrower and Brewer, 2003): one hue, so that on white little is faint. */
const BLUES: [number, number, number][] = [
  [222, 235, 247], [198, 219, 239], [158, 202, 225], [107, 174, 214], [66, 146, 198], [33, 113, 181], [8, 81, 156], [8, 48, 107],
];

/** A colour for a share from 0 to 1, as CSS. The more, the further from the background. */
export function shade(share: number, isDark: boolean): string {
  const place = Math.min(1, Math.max(0, share));
  const ramp = isDark ? CIVIDIS : BLUES;
  const at = (isDark ? 0.12 + 0.88 * place : place) * (ramp.length - 1);
  const low = Math.min(ramp.length - 2, Math.floor(at));
  const [from, to] = [ramp[low], ramp[low + 1]];
  if (from === undefined || to === undefined) {
    return '#000';
  }
  const mixed = from.map((value, i) => Math.round(value + ((to[i] ?? 0) - value) * (at - low)));
  return `rgb(${mixed.join(',')})`;
}

/** Counts span orders of magnitude: each doubling is the same step of colour. */
export function logShare(value: number, most: number): number {
  return most <= 1 ? 1 : 0.06 + (0.94 * Math.log(Math.max(1, value))) / Math.log(most);
}

/** Colours of lines and areas (Okabe and Ito, 2008), by theme. */
export interface Palette {
  text: string;
  grid: string;
  hatch: string;
  read: string;
  write: string;
  p50: string;
  p99: string;
  max: string;
  queue: string;
  network: string;
  completion: string;
  background: string;
}

export function palette(isDark: boolean): Palette {
  return isDark
    ? {
        text: '#c9d1d9', grid: '#2b333d', hatch: '#6b7682', background: '#14181d',
        read: '#56b4e9', write: '#e69f00', p50: '#ffffff', p99: '#ff8c66', max: '#e69fd0', queue: '#e69f00', network: '#56b4e9', completion: '#39c09a',
      }
    : {
        text: '#3a424c', grid: '#e3e6ea', hatch: '#9aa3ad', background: '#ffffff',
        read: '#0072b2', write: '#c25700', p50: '#111111', p99: '#d1201f', max: '#a3438a', queue: '#e69f00', network: '#3d94d1', completion: '#009e73',
      };
}
