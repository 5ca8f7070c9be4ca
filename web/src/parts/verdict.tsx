// The answer of `trackiops why` for a range: what was slow, who suffered and what caused it.
import { useAsk } from '../api.ts';
import { command } from '../command.ts';
import { fixedWords, rangeParameters, type Selection } from '../selection.ts';
import { useSettings } from '../settings.ts';
import { showTime } from '../time.ts';
import { address, withWords, type Place } from '../url.ts';
import { CopyCommand } from './figure.tsx';

/** Moments that are shown; the command has all. */
const SHOWN = 3;

export function Verdict({ place, selection, again }: { place: Place; selection: Selection; again: number }) {
  const { zone } = useSettings();
  const parameters = [...rangeParameters(selection.range), ...selection.files];
  const { data, error } = useAsk('why', selection.error === null ? parameters : null, again);
  const moments = data?.rows ?? [];
  return (
    <section class="verdict" aria-label="What was slow" aria-live="polite">
      {moments.slice(0, SHOWN).map((moment) => {
        const [since, until] = [Date.parse(String(moment.since)), Date.parse(String(moment.until))];
        return (
          <p key={moment.since}>
            <a href={address(place.path, withWords(place.words, fixedWords(since, until)))}>
              {showTime(since, zone)} to {moment.lasts === true ? 'now' : showTime(until, zone)}
            </a>
            : {moment.text}
          </p>
        );
      })}
      {moments.length > SHOWN && <p>{moments.length - SHOWN} more moments were slow.</p>}
      {data === null && error === null && <p class="none">looking for what was slow</p>}
      {data !== null && moments.length === 0 && <p class="none">Nothing was slow in this range.</p>}
      {error !== null && <p class="error">{error}</p>}
      {moments.length > 0 && <CopyCommand command={command('why', parameters)} />}
    </section>
  );
}
