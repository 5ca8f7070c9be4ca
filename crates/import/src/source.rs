//! The sources of imports.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use trackiops_schemas::regular_file::open_regular;
use xxhash_rust::xxh3::Xxh3;

use crate::process::Process;

/// Parts of a file that identify it, together with its length. They are all of a file up to 1 GiB. For a longer file, they are the first
/// part, the last part, and others at equal distances.
const PARTS: u64 = 1024;
const PART_BYTES: usize = 1 << 20;
/// Most bytes of a file that are read for its [`id`].
const ID_BYTES: u64 = PARTS * PART_BYTES as u64;
/// How long input that was already read may be processed after a signal.
const LOOKING: Duration = Duration::from_millis(200);

/// Why a source cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// Standard input is named several times.
    #[error("`-` is standard input and can be named once")]
    StdinTwice,
    /// Opening the file failed.
    #[error("cannot open {name}; check its name and who may read it")]
    Open {
        /// The file.
        name: String,
        /// The system's error.
        source: io::Error,
    },
    /// The file is a device, which may have no end.
    #[error("{0} is a device; name a file, or - for standard input")]
    Device(String),
    /// The kind of the file is unknown.
    #[error(transparent)]
    Kind(io::Error),
    /// Standard input cannot be opened again.
    #[error("cannot read standard input")]
    Stdin(#[source] io::Error),
    /// Signals cannot be waited for.
    #[error("cannot listen to signals")]
    Signals(#[source] io::Error),
}

/// A file, or standard input.
pub struct Source {
    /// Its name in messages.
    pub name: String,
    path: Option<PathBuf>,
}

impl Source {
    /// `-` is standard input, at most once.
    pub fn all(paths: &[PathBuf]) -> Result<Vec<Self>, SourceError> {
        let sources: Vec<Self> = paths.iter().map(|path| Self::of(path)).collect();
        if sources
            .iter()
            .filter(|source| source.path.is_none())
            .count()
            > 1
        {
            return Err(SourceError::StdinTwice);
        }
        Ok(sources)
    }

    fn of(path: &Path) -> Self {
        let path = (path.as_os_str() != "-").then(|| path.to_owned());
        let name = path.as_ref().map(|path| path.display().to_string());
        Self {
            name: name.unwrap_or_else(|| "standard input".to_owned()),
            path,
        }
    }

    /// Its path; `None` for standard input.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Opens it for a question, which never waits for its input: a named pipe is refused.
    pub fn open(&self) -> Result<Box<dyn Read + Send>, SourceError> {
        let file = match &self.path {
            Some(path) => open_regular(path).map_err(|error| self.cannot_open(error))?,
            None => stdin()?,
        };
        Ok(Box::new(file))
    }

    /// Opens it for an import. A signal acts like the end of the file, so the import keeps the data before it.
    pub fn open_until_signal(
        &self,
        process: &dyn Process,
    ) -> Result<Box<dyn Read + Send>, SourceError> {
        let asked = process.asked_to_end().map_err(SourceError::Signals)?;
        let file = self.file()?;
        Ok(Box::new(UntilSignal { file, asked }))
    }

    /// Opening does not wait for the writer of a named pipe. Reading does, and a signal ends that.
    fn file(&self) -> Result<File, SourceError> {
        match &self.path {
            Some(path) => {
                let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
                let file = File::options().read(true).custom_flags(flags).open(path);
                let file = file.map_err(|error| self.cannot_open(error))?;
                // A device may have no end. A named pipe has one.
                let kind = file.metadata().map_err(SourceError::Kind)?.file_type();
                if kind.is_char_device() || kind.is_block_device() {
                    return Err(SourceError::Device(self.name.clone()));
                }
                Ok(file)
            }
            None => stdin(),
        }
    }

    fn cannot_open(&self, source: io::Error) -> SourceError {
        SourceError::Open {
            name: self.name.clone(),
            source,
        }
    }
}

fn stdin() -> Result<File, SourceError> {
    let own = io::stdin().as_fd().try_clone_to_owned();
    Ok(own.map_err(SourceError::Stdin)?.into())
}

/// Bytes that an import of these files reads, including up to 1 GiB of each for its [`id`]. `None` if a source is not a file.
pub fn bytes_to_read(sources: &[Source]) -> Option<u64> {
    let size = |source: &Source| {
        let length = source.path()?.metadata().ok()?.len();
        Some(length + length.min(ID_BYTES))
    };
    sources.iter().map(size).sum()
}

/// The id of an import: a hash of the files and of the settings that change the result, so an equal id gives an equal result. `None` if a
/// source is not a file.
pub fn id(sources: &[Source], settings: &str) -> Option<String> {
    let mut hash = Xxh3::new();
    hash.update(env!("CARGO_PKG_VERSION").as_bytes());
    hash.update(settings.as_bytes());
    let mut part = vec![0; PART_BYTES];
    for source in sources {
        let file = open_regular(source.path()?).ok()?;
        let length = file.metadata().ok()?.len();
        hash.update(&length.to_le_bytes());
        let last = length.saturating_sub(PART_BYTES as u64);
        let step = last.div_ceil(PARTS).max(PART_BYTES as u64);
        let places = (0..last).step_by(usize::try_from(step).ok()?);
        for at in places.chain([last]) {
            let read = file.read_at(&mut part, at).ok()?;
            hash.update(&part[..read]);
        }
    }
    Some(format!("{:032x}", hash.digest128()))
}

/// Whether the time for processing input after a signal is over.
pub fn must_stop(process: &dyn Process) -> bool {
    static ASKED: OnceLock<Instant> = OnceLock::new();
    process.was_ended() && ASKED.get_or_init(Instant::now).elapsed() > LOOKING
}

/// A file that ends when a signal asks the process to end.
struct UntilSignal {
    file: File,
    asked: BorrowedFd<'static>,
}

impl Read for UntilSignal {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let mut fds = [
                PollFd::from_borrowed_fd(self.file.as_fd(), PollFlags::IN),
                PollFd::from_borrowed_fd(self.asked, PollFlags::IN),
            ];
            while let Err(error) = poll(&mut fds, None) {
                if error != Errno::INTR {
                    return Err(error.into());
                }
            }
            if !fds[1].revents().is_empty() {
                return Ok(0);
            }
            match self.file.read(buffer) {
                // Another process has read what was there.
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                read => return read,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn files_of_which_one_byte_or_their_end_differs_are_other_imports() {
        let dir = tempfile::tempdir().unwrap();
        let known = |contents: &[&[u8]]| {
            let write = |(place, content): (usize, &&[u8])| {
                let path = dir.path().join(place.to_string());
                fs::write(&path, content).unwrap();
                Source::of(&path)
            };
            let sources: Vec<_> = contents.iter().enumerate().map(write).collect();
            id(&sources, "").unwrap()
        };
        let long = vec![0; 9 << 20];
        let mut other = long.clone();
        other[5_000_001] = 1;
        assert_eq!(known(&[&long]), known(&[&long]));
        assert_ne!(known(&[&long]), known(&[&other]));
        assert_ne!(known(&[b"ab", b"c"]), known(&[b"a", b"bc"]));
    }
}
