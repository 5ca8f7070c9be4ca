// Events in words: what the vertical lines of the pictures stand for.
import { useSettings } from '../settings.ts';
import { showTime } from '../time.ts';
import type { Moment } from './chart.tsx';

/** Events that are listed; the command has all. */
const SHOWN = 200;

export function Events({ moments }: { moments: Moment[] }) {
  const { zone } = useSettings();
  if (moments.length === 0) {
    return null;
  }
  return (
    <details class="events">
      <summary>{moments.length === 1 ? '1 event: the dotted line' : `${moments.length.toLocaleString('en-US')} events: the dotted lines`}</summary>
      <ul>
        {moments.slice(0, SHOWN).map(({ time, about }, i) => (
          <li key={i}>
            {showTime(time, zone)}: {about}
          </li>
        ))}
      </ul>
      {moments.length > SHOWN && <p>{moments.length - SHOWN} more: trackiops marks --all</p>}
    </details>
  );
}
