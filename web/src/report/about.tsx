// States what a report contains, and what it does not.
import { useSettings } from '../settings.ts';
import { showLength, showTime, zoneName } from '../time.ts';
import { report, type Count } from './data.ts';

function part({ kept, all }: Count, what: string): string {
  return kept === all ? `all ${all.toLocaleString('en-US')} ${what}` : `${kept.toLocaleString('en-US')} of ${all.toLocaleString('en-US')} ${what}`;
}

/** Above each page of a report; nothing on those of a server. */
export function AboutReport() {
  const { zone } = useSettings();
  const data = report();
  if (data === null) {
    return null;
  }
  const { files, trees, tenants, since } = data;
  const isCut = [files, trees, tenants].some(({ kept, all }) => kept < all);
  return (
    <p class="about report">
      Report from {showTime(data.incident_since, zone)} to {showTime(data.incident_until, zone)} ({zoneName(since, zone)}), with the time from {showTime(since, zone)} to compare it with, made {showTime(1000 * Math.floor(Date.parse(data.made) / 1000), zone)} by TrackIOps {data.version}.
      It has windows of {showLength(data.step)}, {part(files, 'files')} one by one, {part(trees, 'trees')} and {part(tenants, 'tenants')}, those with the most time and bytes.
      {isCut && ' The others are in it as sums, so totals are exact.'} Ranges are rounded to its windows. It has no conditions and no operations of single files: the commands beside the
      pictures ask the store for them{data.is_anonymized ? ', with the real names in place of the tokens that stand for all names here' : ''}.
    </p>
  );
}
