//! Where an answer goes: to stdout or into a file, which is there in whole or not at all.

use std::ffi::OsString;
use std::fmt::Display;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, ErrorKind, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process;

use anyhow::{Context, bail};
use serde_json::Value;
use trackiops_query::render::visible::{self, visible, wrap};

use crate::terminal;

/// So much is written at a time.
const BUFFER_BYTES: usize = 1 << 16;

/// What writes an answer.
type WriteTo<'a> = &'a mut dyn FnMut(&mut (dyn Write + Send)) -> io::Result<()>;

/// Where an answer goes.
#[derive(Clone, Debug)]
pub enum Output {
    /// To stdout.
    Stdout,
    /// Into a file.
    File(PathBuf),
}

/// How far the lines of a message after its first are indented on a terminal.
const INDENT: usize = 4;

/// Tells a person, on stderr, a line: names in it cannot begin another one, nor drive a terminal. A terminal gets several where it is not
/// as wide, and a log one. That nobody can be told, as where the disk of a log is full, ends nothing.
pub fn say(line: impl Display) {
    let line = line.to_string();
    let line = wrap(&visible(&line), terminal::stderr_width(), INDENT);
    write_stderr(format_args!("{line}\n"));
}

/// As [`say`], as it is.
pub fn write_stderr(text: impl Display) {
    // At once, so that lines of several threads stay lines.
    let _ = io::stderr().write_all(text.to_string().as_bytes());
}

impl Output {
    /// What `--output` says: `-` is stdout, as is nothing. A directory, or a file in none, is refused before anything is read.
    pub fn new(path: Option<PathBuf>) -> anyhow::Result<Self> {
        let Some(path) = path.filter(|path| path.as_os_str() != "-") else {
            return Ok(Self::Stdout);
        };
        if path.is_dir() {
            bail!(
                "cannot write {}: it is a directory; name a file in it",
                path.display()
            );
        }
        let parent = parent(&path);
        if !parent.is_dir() {
            bail!(
                "cannot write {}: there is no directory {}; make it first",
                path.display(),
                parent.display()
            );
        }
        refuse_in_store(&path)?;
        Ok(Self::File(path))
    }

    /// Whether it is a terminal.
    pub fn is_terminal(&self) -> bool {
        matches!(self, Self::Stdout) && io::stdout().is_terminal()
    }

    /// What is not written when there is no answer, in words.
    pub fn untouched(&self) -> Option<String> {
        match self {
            Self::Stdout => None,
            Self::File(path) => Some(format!("{} is not written", path.display())),
        }
    }

    /// Writes. A reader of stdout that has seen enough, such as `head`, is no error.
    pub fn write(
        &self,
        mut write: impl FnMut(&mut (dyn Write + Send)) -> io::Result<()>,
    ) -> anyhow::Result<()> {
        match self {
            Self::Stdout => {
                let mut out = BufWriter::with_capacity(BUFFER_BYTES, io::stdout());
                match write(&mut out).and_then(|()| out.flush()) {
                    Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
                    written => written.context("cannot write to stdout"),
                }
            }
            Self::File(path) => write_file(path, &mut write)
                .with_context(|| format!("cannot write {}", path.display())),
        }
    }
}

/// A number of things: `1 row`, `2 rows`.
pub fn count(n: u64, what: &str) -> String {
    match n {
        1 => format!("1 {what}"),
        _ => format!("{n} {what}s"),
    }
}

/// Prints a line for a person on stdout, in several where the terminal is not as wide: those after the first are indented.
pub fn print(line: impl Display, indent: usize, out: &mut dyn Write) -> io::Result<()> {
    let width = terminal::look(&Output::Stdout).width;
    writeln!(out, "{}", wrap(&visible(&line.to_string()), width, indent))
}

/// Prints an object for other programs on a line of stdout. Names in it cannot drive a terminal, either.
pub fn print_json(object: &Value, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{}", visible::json(object)?)
}

/// What would replace a file of a store, or be taken for one.
fn refuse_in_store(path: &Path) -> anyhow::Result<()> {
    let dir = fs::canonicalize(parent(path)).unwrap_or_default();
    let path = dir.join(path.file_name().unwrap_or_default());
    let is_store = |dir: &&Path| dir.join("catalog.db").is_file() && dir.join("journal").is_dir();
    let Some(store) = dir.ancestors().find(is_store) else {
        return Ok(());
    };
    let is_its_own = dir != store || path.to_string_lossy().contains("/catalog.db");
    if is_its_own {
        bail!(
            "cannot write {}: it would be among the files of the store {}; name one elsewhere",
            path.display(),
            store.display()
        );
    }
    Ok(())
}

fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// A device or a pipe has to be written as it is.
fn write_file(path: &Path, write: WriteTo<'_>) -> io::Result<()> {
    if fs::metadata(path).is_ok_and(|there| !there.is_file()) {
        return fill(OpenOptions::new().write(true).open(path)?, write);
    }
    let mut partial = Partial::create(path)?;
    fill(partial.file()?, write)?;
    partial.put_in_place()
}

/// A file under another name first, so that what bears the name is whole; without it being put in place nothing is left of it.
pub struct Partial {
    path: PathBuf,
    partial: PathBuf,
    is_in_place: bool,
}

impl Partial {
    /// Begins a file that is to be at `path`.
    pub fn create(path: &Path) -> io::Result<Self> {
        let path = match path.exists() {
            // What a link leads to is replaced, not the link.
            true => fs::canonicalize(path)?,
            false => path.to_owned(),
        };
        let mut name = OsString::from(".");
        name.push(path.file_name().unwrap_or_default());
        name.push(format!(".{}.partial", process::id()));
        let partial = parent(&path).join(name);
        OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(&partial)?;
        Ok(Self {
            path,
            partial,
            is_in_place: false,
        })
    }

    /// To write it.
    pub fn file(&self) -> io::Result<File> {
        OpenOptions::new().write(true).open(&self.partial)
    }

    /// Its name until it is in place.
    pub fn draft(&self) -> &Path {
        &self.partial
    }

    /// Gives it another name, in the same directory, for when it is in place.
    pub fn rename(&mut self, name: &str) {
        self.path.set_file_name(name);
    }

    /// Puts it in place. It was written and synced before.
    pub fn put_in_place(&mut self) -> io::Result<()> {
        fs::rename(&self.partial, &self.path)?;
        self.is_in_place = true;
        Ok(())
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        if !self.is_in_place {
            let _ = fs::remove_file(&self.partial);
        }
    }
}

fn fill(file: File, write: WriteTo<'_>) -> io::Result<()> {
    let mut out = BufWriter::with_capacity(BUFFER_BYTES, file);
    write(&mut out)?;
    let file = out.into_inner().map_err(|error| error.into_error())?;
    match file.sync_all() {
        // A pipe or a device has nothing to sync.
        Err(error) if error.kind() == ErrorKind::InvalidInput => Ok(()),
        synced => synced,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn names(dir: &Path) -> Vec<OsString> {
        let entries = fs::read_dir(dir).unwrap();
        entries.map(|entry| entry.unwrap().file_name()).collect()
    }

    #[test]
    fn a_file_is_whole_or_as_it_was() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("answer.csv");
        let output = Output::new(Some(path.clone())).unwrap();
        output.write(|out| out.write_all(b"one")).unwrap();
        let failed = output.write(|out| {
            out.write_all(&[b'x'; 100_000])?;
            Err(io::Error::other("no more"))
        });
        assert!(failed.is_err());
        assert_eq!(fs::read(&path).unwrap(), b"one");
        assert_eq!(names(dir.path()), ["answer.csv"]);
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        let output = Output::new(Some(link.clone())).unwrap();
        output.write(|out| out.write_all(b"two")).unwrap();
        assert!(link.is_symlink());
        assert_eq!(fs::read(&path).unwrap(), b"two");
    }

    #[test]
    fn what_cannot_be_a_file_is_refused_at_once() {
        let dir = tempfile::tempdir().unwrap();
        assert!(Output::new(Some(dir.path().to_owned())).is_err());
        assert!(Output::new(Some(dir.path().join("no/where"))).is_err());
        assert!(matches!(
            Output::new(Some("-".into())).unwrap(),
            Output::Stdout
        ));
        let device = Output::new(Some("/dev/null".into())).unwrap();
        device.write(|out| out.write_all(b"x")).unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
    }
}
