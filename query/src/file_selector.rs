//! Selects files by name, pattern or number, and looks them up in the catalog.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use glob::{MatchOptions, Pattern};
use trackiops_schemas::identity::{Dev, FileKey, path_text, typed_path};
use trackiops_schemas::place::absolute_path;
use trackiops_schemas::time::UtcMs;
use trackiops_store::{NameSeen, Names, Seen, Snapshot, is_in};

use crate::error::QueryError;
use crate::interval::Interval;
use crate::origin::File;
use crate::shell_pattern::why_no_pattern;
use crate::stat_with_timeout::{STAT_LIMIT, Stat, stat};
use crate::suggestions;

/// Like in a shell: `*` does not match a `/`.
const GLOB_OPTIONS: MatchOptions = MatchOptions {
    case_sensitive: true,
    require_literal_separator: true,
    require_literal_leading_dot: false,
};

/// One value of `--file` or `--dir`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileSelector {
    /// A path: selects every file that had this name when its row was recorded.
    Path(PathBuf),
    /// A path that is looked up only in the store. An unknown [`Self::Path`] is also looked up on this host.
    Stored(PathBuf),
    /// Every path that matches the pattern. A name that equals the pattern's text also matches.
    Glob(Pattern),
    /// A directory itself, because operations can concern directories, and every path below it. The text has no
    /// trailing slash.
    Below(String),
    /// A device number and a fileid. They identify a file only while the client used that device number.
    Id(Dev, u64),
}

impl FileSelector {
    /// Parses a value of `--file`. `MAJOR:MINOR:FILEID` is a number, text with `*`, `?` or `[` is a pattern, and other
    /// text is a path, such as a name with an unclosed `[`. Paths and patterns become absolute. Write `./` before a path
    /// that looks like a number.
    pub fn parse(text: &Path) -> Result<Self, QueryError> {
        if let Some(id) = Self::parse_id(text) {
            return Ok(id);
        }
        let path = absolute(text)?;
        let name = catalog_name(&path);
        if !name.contains(['*', '?', '[']) {
            return Ok(Self::Path(path));
        }
        Ok(match Pattern::new(&name) {
            Ok(pattern) => Self::Glob(pattern),
            Err(_) => Self::Path(path),
        })
    }

    fn parse_id(text: &Path) -> Option<Self> {
        let (dev, fileid) = text.to_str()?.rsplit_once(':')?;
        Some(Self::Id(dev.parse().ok()?, fileid.parse().ok()?))
    }

    /// Parses a value of `--dir`.
    pub fn below(dir: &Path) -> Result<Self, QueryError> {
        let dir = catalog_name(&absolute(dir)?);
        Ok(Self::Below(dir.trim_end_matches('/').to_owned()))
    }

    /// Refuses a relative name: clients of a server must not learn the server's current directory, to which
    /// [`Self::parse`] joins it.
    pub fn check_stored(text: &Path) -> Result<(), QueryError> {
        match text.is_absolute() || Self::parse_id(text).is_some() {
            true => Ok(()),
            false => Err(QueryError::NotAbsolute {
                path: text.to_owned(),
                source: io::Error::other("begin it with a slash"),
            }),
        }
    }

    /// The same selector, looked up only in the store.
    pub fn stored(self) -> Self {
        match self {
            Self::Path(path) => Self::Stored(path),
            other => other,
        }
    }

    /// Whether it can select several files.
    pub fn is_of_several(&self) -> bool {
        matches!(self, Self::Glob(_) | Self::Below(_))
    }

    /// The exact name, or the directory above all possible matches, to look up in the catalog. `None` for a number.
    fn names(&self) -> Option<String> {
        match self {
            Self::Path(path) | Self::Stored(path) => Some(catalog_name(path)),
            Self::Glob(pattern) => {
                let text = pattern.as_str();
                let fixed = text.find(['*', '?', '[']).unwrap_or(text.len());
                let (dir, _) = text[..fixed].rsplit_once('/')?;
                Some(dir.to_owned())
            }
            Self::Below(dir) => Some(dir.clone()),
            Self::Id(..) => None,
        }
    }

    /// Whether the selector matches this name.
    fn matches(&self, path: &str) -> bool {
        match self {
            Self::Path(wanted) | Self::Stored(wanted) => catalog_name(wanted) == path,
            Self::Glob(pattern) => {
                path == pattern.as_str() || pattern.matches_with(path, GLOB_OPTIONS)
            }
            Self::Below(dir) => is_in(path, dir),
            Self::Id(..) => false,
        }
    }
}

/// The rows that a query keeps, by their files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileSelection {
    /// Keys of the files, ascending.
    keys: Vec<FileKey>,
    /// Conditions on the names or numbers of rows; `None` keeps all rows of these files.
    which: Option<Which>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Which {
    names: Vec<FileSelector>,
    /// Files with a wanted name, ascending.
    named: Vec<FileKey>,
    ids: Vec<(Dev, u64)>,
    /// Files that had both wanted and other names: the start of each name, and whether it is wanted.
    mixed: HashMap<FileKey, Vec<(UtcMs, bool)>>,
}

impl FileSelection {
    /// Selects all rows of these files.
    pub fn of(keys: impl IntoIterator<Item = FileKey>) -> Self {
        let mut wanted = Self::default();
        wanted.set(keys.into_iter().collect());
        wanted
    }

    /// Narrows the selection to these files.
    pub fn only(self, keys: impl IntoIterator<Item = FileKey>) -> Self {
        Self {
            which: self.which,
            ..Self::of(keys)
        }
    }

    fn set(&mut self, mut keys: Vec<FileKey>) {
        keys.sort_unstable();
        keys.dedup();
        self.keys = keys;
    }

    /// Keys of the files, ascending.
    pub fn keys(&self) -> &[FileKey] {
        &self.keys
    }

    /// Whether the selection depends on a row's name or number.
    pub fn by_name(&self) -> bool {
        self.which.is_some()
    }

    /// Whether the selection keeps rows of this file.
    pub fn match_of(&self, file: &File) -> FileMatch {
        let Some(which) = &self.which else {
            return FileMatch::of(self.keys.binary_search(&file.key).is_ok());
        };
        if self.keys.binary_search(&file.key).is_err() {
            return FileMatch::None;
        }
        if which.ids.contains(&(file.dev, file.fileid)) {
            return FileMatch::All;
        }
        match &file.path {
            Some(path) => FileMatch::of(which.names.iter().any(|name| name.matches(path))),
            None if which.mixed.contains_key(&file.key) => FileMatch::Depends,
            None => FileMatch::of(which.named.binary_search(&file.key).is_ok()),
        }
    }

    /// Whether to keep a row without a name, if [`Self::match_of`] is [`FileMatch::Depends`]. The file's latest name at
    /// `time`, the start of the window, decides. Before the first name, the first name decides.
    pub fn holds(&self, time: UtcMs, key: FileKey) -> bool {
        let periods = self.periods(key);
        let before = periods.partition_point(|(first, _)| *first <= time);
        let name = periods.get(before.saturating_sub(1));
        name.is_some_and(|(_, wanted)| *wanted)
    }

    /// Whether the result of [`Self::holds`] changes within a window.
    pub fn changes(&self, window: Interval, key: FileKey) -> bool {
        let starts = self.periods(key).iter().skip(1);
        let mut starts = starts.map(|(first, _)| *first);
        starts.any(|first| window.start < first && first < window.end)
    }

    fn periods(&self, key: FileKey) -> &[(UtcMs, bool)] {
        let periods = self.which.as_ref().and_then(|which| which.mixed.get(&key));
        periods.map_or(&[], Vec::as_slice)
    }
}

/// Whether a selection keeps a file's rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileMatch {
    /// Keep all rows.
    All,
    /// Keep no rows.
    None,
    /// Keep some rows: see [`FileSelection::holds`].
    Depends,
}

impl FileMatch {
    fn of(wanted: bool) -> Self {
        match wanted {
            true => Self::All,
            false => Self::None,
        }
    }
}

/// Files of some selectors in the catalog.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resolved {
    /// The selected rows; `None` if no selector matches anything that was ever recorded.
    pub wanted: Option<FileSelection>,
    /// Messages about selectors that match nothing that was ever recorded.
    pub never: Vec<String>,
    /// Selectors, as text, that match only files outside the range, and the time of those files.
    pub elsewhere: Vec<(String, Interval)>,
}

/// Looks up in the catalog which files may have rows in `asked`. Runs `stat` on a path that the catalog lacks.
///
/// Errors: errors of the store, [`QueryError::PathHangs`] and [`QueryError::NoStat`].
pub fn resolve(
    snapshot: &Snapshot,
    selectors: &[FileSelector],
    asked: Interval,
) -> Result<Resolved, QueryError> {
    let mut resolved = Resolved::default();
    let (mut keys, mut which) = (Vec::new(), Which::default());
    for (i, selector) in selectors.iter().enumerate() {
        // Report a repeated selector only once.
        if selectors[..i].contains(selector) {
            continue;
        }
        let mut found = match (selector, selector.names()) {
            (FileSelector::Id(dev, fileid), _) => by_id(snapshot, *dev, *fileid)?,
            (_, None) => Found::default(),
            (FileSelector::Path(path), Some(name)) => {
                let found = named(snapshot, selector, Names::Exactly(&name), asked)?;
                match found.is_nothing() {
                    true => by_stat(snapshot, path, &name)?,
                    false => found,
                }
            }
            (FileSelector::Stored(_), Some(name)) => {
                let mut found = named(snapshot, selector, Names::Exactly(&name), asked)?;
                if found.is_nothing() {
                    found.never = Some(format!(
                        "no file was ever recorded under the name {name}; {}",
                        suggestions::hint(snapshot, &name)?
                    ));
                }
                found
            }
            (_, Some(dir)) => {
                let mut found = named(snapshot, selector, Names::Below(&dir), asked)?;
                if found.is_nothing() {
                    found.never = Some(match selector {
                        FileSelector::Glob(pattern) => format!(
                            "no name that was ever recorded matches {pattern}; `trackiops files` lists the names that were"
                        ),
                        _ => format!(
                            "no file below {dir}/ was ever recorded; `trackiops files` lists the names that were"
                        ),
                    });
                }
                found
            }
        };
        if found.keys.is_empty()
            && let Some((first, last)) = found.elsewhere
        {
            let what = match selector {
                FileSelector::Glob(pattern) => format!("names that match {pattern}"),
                FileSelector::Below(dir) => format!("names below {dir}/"),
                _ => format!("the name {}", selector.names().unwrap_or_default()),
            };
            let range = Interval::new(first, last);
            resolved.elsewhere.push((what, range));
        }
        if let (Some(never), FileSelector::Path(path) | FileSelector::Stored(path)) =
            (&mut found.never, selector)
        {
            let name = catalog_name(path);
            if let Some(why) = why_no_pattern(&name) {
                *never = format!(
                    "{name} is not a pattern ({why}; [[] in a pattern stands for a bracket), and {never}"
                );
            }
        }
        resolved.never.extend(found.never);
        match found.id {
            Some(id) => which.ids.push(id),
            None if found.keys.is_empty() => {}
            None => {
                which.named.extend(&found.keys);
                which.names.push(selector.clone());
            }
        }
        keys.extend(found.keys);
    }
    which.named.sort_unstable();
    which.named.dedup();
    which.mixed = mixed(snapshot, &which)?;
    if !keys.is_empty() || !resolved.elsewhere.is_empty() {
        let mut wanted = FileSelection::of(keys);
        wanted.which = Some(which);
        resolved.wanted = Some(wanted);
    }
    Ok(resolved)
}

/// The match of one selector.
#[derive(Default)]
struct Found {
    keys: Vec<FileKey>,
    /// Keep only rows with this number.
    id: Option<(Dev, u64)>,
    /// Time of matching files, if they lie outside of the range.
    elsewhere: Option<Seen>,
    /// Why the selector matches nothing, as text.
    never: Option<String>,
}

impl Found {
    fn is_nothing(&self) -> bool {
        self.keys.is_empty() && self.elsewhere.is_none()
    }
}

/// Finds files that had a matching name in the range.
fn named(
    snapshot: &Snapshot,
    selector: &FileSelector,
    names: Names<'_>,
    asked: Interval,
) -> Result<Found, QueryError> {
    let mut found = Found::default();
    snapshot.names(names, &mut |NameSeen { key, path, seen }| {
        if !selector.matches(&path) {
            return;
        }
        match seen {
            Some((first, last)) if Interval::new(first, last).intersect(asked).is_empty() => {
                let known = found.elsewhere.get_or_insert((first, last));
                *known = (known.0.min(first), known.1.max(last));
            }
            _ => found.keys.push(key),
        }
    })?;
    found.keys.sort_unstable();
    found.keys.dedup();
    Ok(found)
}

/// For files that were found by name and also had other names: the start of each name, and whether it is wanted.
fn mixed(
    snapshot: &Snapshot,
    which: &Which,
) -> Result<HashMap<FileKey, Vec<(UtcMs, bool)>>, QueryError> {
    let is_wanted = |path: &str| which.names.iter().any(|name| name.matches(path));
    let names = snapshot.names_of(&which.named)?.into_iter();
    let mut files: Vec<_> = names
        .filter(|name| !is_wanted(&name.path))
        .map(|name| name.key)
        .collect();
    files.sort_unstable();
    files.dedup();
    if files.is_empty() {
        return Ok(HashMap::new());
    }
    let histories = snapshot.histories(&files)?.into_iter();
    let periods = histories.map(|(key, history)| {
        let names = history.names.iter();
        let periods = names.map(|(path, (first, _))| (*first, is_wanted(path)));
        let mut periods: Vec<_> = periods.collect();
        // If two names begin at the same time, a row without a name may belong to either. The wanted one sorts first.
        periods.sort_by_key(|(first, wanted)| (*first, Reverse(*wanted)));
        (key, periods)
    });
    Ok(periods.collect())
}

fn by_id(snapshot: &Snapshot, dev: Dev, fileid: u64) -> Result<Found, QueryError> {
    let keys = snapshot.files_with_id(dev, fileid)?;
    let never = || format!("no file {dev}:{fileid} was ever recorded");
    Ok(Found {
        never: keys.is_empty().then(never),
        id: (!keys.is_empty()).then_some((dev, fileid)),
        keys,
        ..Found::default()
    })
}

fn by_stat(snapshot: &Snapshot, path: &Path, name: &str) -> Result<Found, QueryError> {
    match stat(path, STAT_LIMIT) {
        Ok(Stat::Is(dev, fileid)) => {
            let mut found = by_id(snapshot, dev, fileid)?;
            if found.never.is_some() {
                let near = suggestions::hint(snapshot, name)?;
                found.never = Some(format!(
                    "{name} ({dev}:{fileid}) was never recorded; {near}"
                ));
            }
            Ok(found)
        }
        Ok(Stat::Refused(why)) => Ok(Found {
            never: Some(format!(
                "no file was ever recorded under the name {name}, and there is none to be seen now ({why}); {}",
                suggestions::hint(snapshot, name)?
            )),
            ..Found::default()
        }),
        Ok(Stat::Hangs) => Err(QueryError::PathHangs {
            path: name.to_owned(),
            limit: STAT_LIMIT,
        }),
        Err(source) => Err(QueryError::NoStat {
            path: name.to_owned(),
            source,
        }),
    }
}

/// Makes a path absolute, without `.` and `..`. Never accesses the path's file system, because a mount may hang.
pub(crate) fn absolute(path: &Path) -> Result<PathBuf, QueryError> {
    absolute_path(&typed_path(path)).map_err(|source| QueryError::NotAbsolute {
        path: path.to_owned(),
        source,
    })
}

/// The path in the form that the catalog stores.
pub(crate) fn catalog_name(path: &Path) -> String {
    path_text(path.as_os_str().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> FileSelector {
        FileSelector::parse(Path::new(text)).unwrap()
    }

    #[test]
    fn numbers_paths_and_patterns_are_told_apart() {
        assert_eq!(read("0:49:34866518"), FileSelector::Id(Dev(49), 34_866_518));
        assert_eq!(read("/mnt/{a}"), FileSelector::Path("/mnt/{a}".into()));
        for text in ["./0:49:34866518", "0:49", "0:49:x", "a:0:49:1"] {
            let path = FileSelector::Path(absolute(Path::new(text)).unwrap());
            assert_eq!(read(text), path, "{text}");
        }
        for text in ["/mnt/*", "/mnt/?", "/mnt/[a]", "**/x"] {
            assert!(matches!(read(text), FileSelector::Glob(_)), "{text}");
        }
        // These are not patterns, but files may have such names.
        for text in ["/mnt/[a", "/mnt/a[b*", "/mnt/a**", "/mnt/***/b"] {
            assert_eq!(read(text), FileSelector::Path(text.into()), "{text}");
            assert!(read(text).matches(text), "{text}");
        }
    }

    #[test]
    fn what_is_looked_up_in_a_store_alone_says_nothing_of_the_current_directory() {
        let here = std::env::current_dir().unwrap();
        for text in ["x", "x/*", "\u{1b}[31m", "a**", "../y", "0:49"] {
            let said = FileSelector::check_stored(Path::new(text)).unwrap_err();
            let said = said.to_string();
            assert!(!said.contains(here.to_str().unwrap()), "{said}");
        }
        for text in ["/x", "/[x", "0:49:1"] {
            FileSelector::check_stored(Path::new(text)).unwrap();
        }
    }

    #[test]
    fn patterns_are_those_of_a_shell() {
        let matches = |pattern: &str, path: &str| read(pattern).matches(path);
        for (pattern, path) in [
            ("/mnt/*.db", "/mnt/a.db"),
            ("/mnt/*", "/mnt/.hidden"),
            ("/mnt/*", "/mnt/two\nlines"),
            ("/mnt/?.db", "/mnt/\u{e9}.db"),
            ("/mnt/[a-c]x", "/mnt/bx"),
            ("/mnt/[!a-c]x", "/mnt/dx"),
            ("/mnt/**", "/mnt/a/b/c"),
            ("/mnt/**/c", "/mnt/a/b/c"),
            ("/mnt/**/c", "/mnt/c"),
            ("/mnt/[[]x]", "/mnt/[x]"),
            ("/mnt/a[1].mkv", "/mnt/a[1].mkv"),
            ("/mnt/../srv/*", "/srv/x"),
        ] {
            assert!(matches(pattern, path), "{pattern} {path}");
        }
        for (pattern, path) in [
            ("/mnt/*", "/mnt/a/b"),
            ("/mnt/*.db", "/mnt/a.DB"),
            ("/mnt/?", "/mnt/ab"),
            ("/mnt/a?b", "/mnt/a/b"),
            ("/mnt/*", "/mnt"),
            ("/mnt/**", "/mnt"),
        ] {
            assert!(!matches(pattern, path), "{pattern} {path}");
        }
        // Only names below the last directory without a wildcard are looked up.
        let below = |text: &str| read(text).names().unwrap();
        assert_eq!(
            [below("/a/b*/c"), below("/*"), below("/a/**")],
            ["/a", "", "/a"]
        );
    }

    #[test]
    fn a_directory_matches_itself_and_what_is_below_it() {
        let latin1 = std::ffi::OsStr::from_bytes(b"/a\xe9b");
        assert_eq!(catalog_name(Path::new(latin1)), "/a\\xe9b");
        let dir = FileSelector::below(Path::new("/mnt/a/")).unwrap();
        assert!(dir.matches("/mnt/a/b") && !dir.matches("/mnt/ab"));
        assert!(dir.matches("/mnt/a"), "operations are about the directory");
        let root = FileSelector::below(Path::new("/")).unwrap();
        assert!(root.matches("/a") && !root.matches("(other)"));
    }
}
