// Makes hidden characters of names visible: a file's creator chooses its name, and some characters are invisible or change the direction of
// text. The server also accepts names in this form, so a user can query a displayed name.

// Like `crates/render/src/visible.rs`: controls, formats, line ends, unusual blanks, ignorable characters and noncharacters; backslashes that
// would look like an escape; blanks at the end.
const HIDDEN =
  /(?! )[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Zs}\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2065\u3164\ufe00-\ufe0f\uffa0\ufff0-\ufff8\u{e0000}-\u{e0fff}\p{NChar}]|\\(?=u\{)| (?= *$)/gu;
const PLAIN = /^[!-~ ]*[!-~]$/;

/** A text whose hidden characters are escapes such as `\u{202e}`. Not to be applied twice. */
export function visible(text: string): string {
  if (PLAIN.test(text) && !text.includes('\\')) {
    return text;
  }
  return text.replace(HIDDEN, (hidden) => `\\u{${hidden.codePointAt(0)?.toString(16)}}`);
}

/** All texts in data, keys left as they are. */
export function visibleIn<T>(data: T): T {
  if (typeof data === 'string') {
    return visible(data) as T;
  }
  if (Array.isArray(data)) {
    return data.map(visibleIn) as T;
  }
  if (typeof data === 'object' && data !== null) {
    return Object.fromEntries(Object.entries(data).map(([name, value]) => [name, visibleIn(value as unknown)])) as T;
  }
  return data;
}
