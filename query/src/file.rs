//! Which file is meant: a name or a number, looked up in the catalog.

use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use trackiops_schemas::identity::{Dev, FileKey, path_text};
use trackiops_store::Snapshot;

use crate::error::QueryError;

/// A hung mount would hold us for ever: `stat` runs in a child that is given up after this time.
const STAT_LIMIT: Duration = Duration::from_secs(2);
/// How often the child is looked at; it usually takes a millisecond.
const STAT_POLL: Duration = Duration::from_millis(2);

/// What `--file` says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileSelector {
    /// A path.
    Path(PathBuf),
    /// A device and a fileid, which mean a file while that device number was in use.
    Id(Dev, u64),
}

impl From<PathBuf> for FileSelector {
    /// `MAJOR:MINOR:FILEID` is a number, anything else a path. A path that looks like a number is
    /// written with `./` before it.
    fn from(text: PathBuf) -> Self {
        let id = text.to_str().and_then(|text| {
            let (dev, fileid) = text.rsplit_once(':')?;
            Some(Self::Id(dev.parse().ok()?, fileid.parse().ok()?))
        });
        id.unwrap_or(Self::Path(text))
    }
}

/// Which rows are wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Their file keys, ascending.
    pub keys: Vec<FileKey>,
    /// Only those of this device and fileid.
    pub id: Option<(Dev, u64)>,
}

impl Wanted {
    /// These files, of that device and fileid only if one is given.
    pub fn new(mut keys: Vec<FileKey>, id: Option<(Dev, u64)>) -> Self {
        keys.sort_unstable();
        keys.dedup();
        Self { keys, id }
    }

    /// Whether rows of this file are wanted.
    pub fn contains(&self, key: FileKey, dev: Dev, fileid: u64) -> bool {
        self.id.is_none_or(|id| id == (dev, fileid)) && self.keys.binary_search(&key).is_ok()
    }
}

/// What the catalog says about a selector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resolved {
    /// These files.
    Known(Wanted),
    /// Nothing was ever recorded about it; why, if there is more to say.
    Unknown(String),
}

/// Looks a file up in the catalog. A path that is not there is given to `stat`.
pub fn resolve(snapshot: &Snapshot, selector: &FileSelector) -> Result<Resolved, QueryError> {
    match selector {
        FileSelector::Id(dev, fileid) => {
            let known = by_id(snapshot, *dev, *fileid)?;
            let unknown = || Resolved::Unknown(format!("no file {dev}:{fileid} was ever recorded"));
            Ok(known.unwrap_or_else(unknown))
        }
        FileSelector::Path(path) => {
            let path = absolute(path)?;
            let name = catalog_name(&path);
            let keys = snapshot.files_named(&name)?;
            if !keys.is_empty() {
                return Ok(Resolved::Known(Wanted::new(keys, None)));
            }
            by_stat(snapshot, &path, name)
        }
    }
}

fn by_id(snapshot: &Snapshot, dev: Dev, fileid: u64) -> Result<Option<Resolved>, QueryError> {
    let keys = snapshot.files_with_id(dev, fileid)?;
    let known = || Resolved::Known(Wanted::new(keys.clone(), Some((dev, fileid))));
    Ok((!keys.is_empty()).then(known))
}

fn by_stat(snapshot: &Snapshot, path: &Path, name: String) -> Result<Resolved, QueryError> {
    match stat(path, STAT_LIMIT) {
        Ok(Stat::Is(dev, fileid)) => {
            let unknown =
                || Resolved::Unknown(format!("{name} ({dev}:{fileid}) was never recorded"));
            Ok(by_id(snapshot, dev, fileid)?.unwrap_or_else(unknown))
        }
        Ok(Stat::Refused(why)) => Ok(Resolved::Unknown(format!(
            "no file was ever recorded under the name {name}, and there is none to be seen now ({why})"
        ))),
        Ok(Stat::Hangs) => Err(QueryError::PathHangs {
            path: name,
            limit: STAT_LIMIT,
        }),
        Err(source) => Err(QueryError::NoStat { path: name, source }),
    }
}

/// The path as the catalog would have it: absolute, without `.` and `..`, found out without
/// touching the file system that it is on.
fn absolute(path: &Path) -> Result<PathBuf, QueryError> {
    let full = std::path::absolute(path).map_err(|source| QueryError::NotAbsolute {
        path: path.to_owned(),
        source,
    })?;
    let mut plain = PathBuf::new();
    for component in full.components() {
        match component {
            Component::ParentDir => {
                plain.pop();
            }
            Component::CurDir => {}
            other => plain.push(other),
        }
    }
    Ok(plain)
}

/// The path as the catalog has it.
fn catalog_name(path: &Path) -> String {
    path_text(path.as_os_str().as_bytes())
}

/// What `stat` found.
#[derive(Debug, PartialEq, Eq)]
enum Stat {
    Is(Dev, u64),
    Refused(String),
    Hangs,
}

/// Runs `stat` on a path, for at most `limit`.
fn stat(path: &Path, limit: Duration) -> io::Result<Stat> {
    let mut command = Command::new("stat");
    command.args(["-L", "-c", "%d %i", "--"]).arg(path);
    let Some((out, err)) = run(command.env("LC_ALL", "C"), limit)? else {
        return Ok(Stat::Hangs);
    };
    let parsed = out.trim().split_once(' ').and_then(|(dev, fileid)| {
        let dev = dev.parse().ok()?;
        let dev = Dev::new(rustix::fs::major(dev), rustix::fs::minor(dev))?;
        Some((dev, fileid.parse().ok()?))
    });
    Ok(match parsed {
        Some((dev, fileid)) => Stat::Is(dev, fileid),
        None => Stat::Refused(err.trim().into()),
    })
}

/// Runs a command for at most `limit`; `None` if it took longer, otherwise what it wrote.
fn run(command: &mut Command, limit: Duration) -> io::Result<Option<(String, String)>> {
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.stderr(Stdio::piped()).spawn()?;
    let started = Instant::now();
    while child.try_wait()?.is_none() {
        if started.elapsed() >= limit {
            // Not waited for: a child that hangs in the kernel may not even die.
            child.kill()?;
            return Ok(None);
        }
        std::thread::sleep(STAT_POLL);
    }
    outputs(&mut child).map(Some)
}

/// What an ended child wrote. It is a line, which fits a pipe.
fn outputs(child: &mut Child) -> io::Result<(String, String)> {
    let (mut out, mut err) = (String::new(), String::new());
    if let Some(pipe) = &mut child.stdout {
        pipe.read_to_string(&mut out)?;
    }
    if let Some(pipe) = &mut child.stderr {
        pipe.read_to_string(&mut err)?;
    }
    Ok((out, err))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn numbers_and_paths_are_told_apart() {
        let read = |text: &str| FileSelector::from(PathBuf::from(text));
        assert_eq!(read("0:49:34866518"), FileSelector::Id(Dev(49), 34_866_518));
        for text in ["/mnt/a", "./0:49:34866518", "0:49", "0:49:x", "a:0:49:1"] {
            assert_eq!(read(text), FileSelector::Path(text.into()), "{text}");
        }
    }

    #[test]
    fn paths_are_made_absolute_without_looking() {
        let name = |text: &str| catalog_name(&absolute(Path::new(text)).unwrap());
        assert_eq!(name("/mnt//a/./../b/"), "/mnt/b");
        assert_eq!(name("/../a"), "/a");
        assert!(name("x").ends_with("/x") && name("x").starts_with('/'));
        let latin1 = std::ffi::OsStr::from_bytes(b"/a\xe9b");
        assert_eq!(catalog_name(Path::new(latin1)), "/a\\xe9b");
    }

    #[test]
    fn stat_tells_device_and_number_or_why_not() {
        let path = Path::new("/proc/version");
        let meta = std::fs::metadata(path).unwrap();
        let dev = meta.dev();
        let dev = Dev::new(rustix::fs::major(dev), rustix::fs::minor(dev)).unwrap();
        assert_eq!(stat(path, STAT_LIMIT).unwrap(), Stat::Is(dev, meta.ino()));
        match stat(Path::new("/no such file"), STAT_LIMIT).unwrap() {
            Stat::Refused(why) => assert!(why.contains("No such file"), "{why}"),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_child_that_takes_too_long_is_given_up() {
        let started = Instant::now();
        let limit = Duration::from_millis(50);
        assert_eq!(run(Command::new("sleep").arg("60"), limit).unwrap(), None);
        assert!(started.elapsed() < Duration::from_secs(30));
    }
}
