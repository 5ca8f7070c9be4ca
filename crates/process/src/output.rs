//! The destination of an answer: stdout, or a file that is replaced atomically.

use std::fmt::Display;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, ErrorKind, IsTerminal, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use rustix::fs::{CWD, OFlags, PROC_SUPER_MAGIC, RenameFlags, renameat_with, statfs};
use rustix::io::Errno;
use rustix::rand::{GetRandomFlags, getrandom};
use serde_json::Value;
use trackiops_render::terminal_style::Look;
use trackiops_render::visible::{self, visible, wrap};
use trackiops_threads::fail_point;

use crate::progress::end_reading;
use crate::{lifeline, signals, stderr_queue, terminal};

/// Bytes to write at a time.
const BUFFER_BYTES: usize = 1 << 16;

/// A function that writes an answer.
type AnswerWriter<'a> = &'a mut dyn FnMut(&mut (dyn Write + Send)) -> io::Result<()>;

/// The destination of an answer.
#[derive(Clone, Debug)]
pub enum Output {
    /// Stdout.
    Stdout,
    /// A file, which is replaced.
    File(PathBuf, FilePermissions),
    /// A pipe, a device or an open descriptor, which cannot be replaced.
    Stream(PathBuf),
}

/// Who may read a file that is written: names of files, users and directories are in it.
#[derive(Clone, Copy, Debug, Default)]
pub struct FilePermissions {
    /// Whether the umask decides. Otherwise only the owner may read the file.
    pub by_umask: bool,
}

impl FilePermissions {
    fn mode(self) -> u32 {
        match self.by_umask {
            true => 0o666,
            false => 0o600,
        }
    }
}

/// Indentation of a message's further lines on a terminal.
const INDENT: usize = 4;

/// Writes a message to stderr: one line in a log, wrapped on a terminal. Names in it can neither begin a new line nor control a terminal.
/// If the write fails, for example because a log's disk is full, the program continues.
pub fn say(line: impl Display) {
    end_reading();
    let line = line.to_string();
    let line = wrap(&visible(&line), terminal::stderr_width(), INDENT);
    write_stderr(format_args!("{line}\n"));
}

/// Like [`say`], but writes the text unchanged.
pub fn write_stderr(text: impl Display) {
    if let Err(text) = stderr_queue::put(text.to_string()) {
        // In one call, so that lines of several threads do not mix.
        let _ = io::stderr().write_all(text.as_bytes());
    }
}

impl Output {
    /// Parses `--output`: `-` or nothing is stdout. Refuses a directory, a link, a file in a missing directory, and a file of a store,
    /// before anything is read. If stdout is the only output, the process ends when stdout loses its reader.
    pub fn new(path: Option<PathBuf>, access: impl Into<FilePermissions>) -> anyhow::Result<Self> {
        let output = Self::parse(path, access.into())?;
        match output {
            Self::Stdout => lifeline::end_with_reader(),
            Self::File(..) | Self::Stream(_) => lifeline::outlive_reader(),
        }
        Ok(output)
    }

    fn parse(path: Option<PathBuf>, access: FilePermissions) -> anyhow::Result<Self> {
        let Some(path) = path.filter(|path| path.as_os_str() != "-") else {
            return Ok(Self::Stdout);
        };
        if path.is_dir() {
            bail!(
                "cannot write {}: it is a directory; name a file in it",
                path.display()
            );
        }
        let parent = directory_of(&path);
        if !parent.is_dir() {
            bail!(
                "cannot write {}: there is no directory {}; make it first",
                path.display(),
                parent.display()
            );
        }
        refuse_in_store(&path)?;
        if is_open(&path) {
            return Ok(Self::Stream(path));
        }
        match path.symlink_metadata() {
            Ok(there) if there.is_symlink() => bail!(
                "cannot write {}: it is a symbolic link, which somebody else may have put there; name the file that it leads to",
                path.display()
            ),
            Ok(there) if !there.is_file() => Ok(Self::Stream(path)),
            _ => Ok(Self::File(path, access)),
        }
    }

    /// Whether it is a terminal.
    pub fn is_terminal(&self) -> bool {
        matches!(self, Self::Stdout) && io::stdout().is_terminal()
    }

    /// Width and characters for tables.
    pub fn look(&self) -> Look {
        match self {
            Self::Stdout => terminal::stdout_look(),
            Self::File(..) | Self::Stream(_) => terminal::file_look(),
        }
    }

    /// A note that the file is not written, for an empty answer.
    pub fn unwritten_note(&self) -> Option<String> {
        match self {
            Self::Stdout => None,
            Self::File(path, _) | Self::Stream(path) => {
                Some(format!("{} is not written", path.display()))
            }
        }
    }

    /// Writes the answer. It is not an error if a reader of stdout, such as `head`, stops early.
    pub fn write(
        &self,
        mut write: impl FnMut(&mut (dyn Write + Send)) -> io::Result<()>,
    ) -> anyhow::Result<()> {
        end_reading();
        match self {
            Self::Stdout => {
                let mut out = BufWriter::with_capacity(BUFFER_BYTES, io::stdout());
                fail_point::hit("output: stdout");
                match write(&mut out).and_then(|()| out.flush()) {
                    Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
                    written => written.context("cannot write to stdout"),
                }
            }
            Self::File(path, access) => write_file(path, *access, &mut write)
                .with_context(|| format!("cannot write {}", path.display())),
            Self::Stream(path) => open_stream(path)
                .and_then(|stream| write_and_sync(stream, &mut write))
                .with_context(|| format!("cannot write {}", path.display())),
        }
    }
}

/// Prints a line for a person on stdout, wrapped to the terminal. Further lines are indented.
pub fn print(line: impl Display, indent: usize, out: &mut dyn Write) -> io::Result<()> {
    let width = terminal::stdout_look().width;
    writeln!(out, "{}", wrap(&visible(&line.to_string()), width, indent))
}

/// Prints a JSON object on one line of stdout. Names in it cannot control a terminal.
pub fn print_json(object: &Value, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{}", visible::json(object)?)
}

/// Refuses a path that would replace a file of a store, or look like one.
fn refuse_in_store(path: &Path) -> anyhow::Result<()> {
    let dir = fs::canonicalize(directory_of(path)).unwrap_or_default();
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

fn directory_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Whether the path names an open descriptor, such as `/dev/stdout` or a shell's `>(...)`. Such links are safe: no other user can create
/// them.
fn is_open(path: &Path) -> bool {
    let is_in_proc = |path| statfs(path).is_ok_and(|system| system.f_type == PROC_SUPER_MAGIC);
    match path.to_str() {
        Some("/dev/stdout" | "/dev/stderr") => true,
        _ => is_in_proc(directory_of(path)),
    }
}

/// Opens an existing file, pipe or device to append to it.
fn open_stream(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    if !is_open(path) {
        options.custom_flags(OFlags::NOFOLLOW.bits().cast_signed());
    }
    options.append(true).open(path)
}

fn write_file(path: &Path, access: FilePermissions, write: AnswerWriter<'_>) -> io::Result<()> {
    let mut partial = PartialFile::create(path, access)?;
    write_and_sync(partial.file()?, write)?;
    partial.put_in_place()
}

/// A file that gets its name only when it is complete. Until then it has a random, unpredictable name. Dropping it removes it, unless the
/// process is killed.
pub struct PartialFile {
    path: PathBuf,
    draft: PathBuf,
    file: File,
    is_in_place: bool,
}

impl PartialFile {
    /// Creates a file that will be at `path`.
    pub fn create(path: &Path, access: FilePermissions) -> io::Result<Self> {
        let mut random = [0; 8];
        getrandom(&mut random, GetRandomFlags::empty())?;
        let name = format!(".trackiops-{:016x}.partial", u64::from_ne_bytes(random));
        let draft = directory_of(path).join(name);
        signals::remove_on_end(&draft);
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(access.mode())
            .open(&draft);
        let file = file.inspect_err(|_| signals::forget_draft())?;
        fail_point::hit("output: begun");
        Ok(Self {
            path: path.to_owned(),
            file,
            draft,
            is_in_place: false,
        })
    }

    /// The open file, for writing and for reading back.
    pub fn file(&self) -> io::Result<File> {
        self.file.try_clone()
    }

    /// Its name until it is in place.
    pub fn draft(&self) -> &Path {
        &self.draft
    }

    /// Changes its final name, in the same directory.
    pub fn rename(&mut self, name: &str) {
        self.path.set_file_name(name);
    }

    /// Puts the file in place. It must be written and synced. Replaces a link there, not the target of the link.
    pub fn put_in_place(&mut self) -> io::Result<()> {
        fail_point::hit("output: written");
        fs::rename(&self.draft, &self.path)?;
        self.is_in_place = true;
        Ok(())
    }

    /// Like [`Self::put_in_place`], but fails if something is there.
    pub fn put_in_free_place(&mut self) -> io::Result<()> {
        match renameat_with(CWD, &self.draft, CWD, &self.path, RenameFlags::NOREPLACE) {
            // File systems such as NFS do not support the flag.
            Err(Errno::INVAL | Errno::NOSYS) => fs::hard_link(&self.draft, &self.path),
            renamed => {
                renamed?;
                self.is_in_place = true;
                Ok(())
            }
        }
    }
}

impl Drop for PartialFile {
    fn drop(&mut self) {
        if !self.is_in_place {
            let _ = fs::remove_file(&self.draft);
        }
        signals::forget_draft();
    }
}

fn write_and_sync(file: File, write: AnswerWriter<'_>) -> io::Result<()> {
    let mut out = BufWriter::with_capacity(BUFFER_BYTES, file);
    write(&mut out)?;
    let file = out.into_inner().map_err(|error| error.into_error())?;
    match file.sync_all() {
        // A pipe or a device has nothing to sync.
        Err(error) if error.kind() == ErrorKind::InvalidInput => Ok(()),
        synced => synced,
    }
}

/// The name of this host.
pub fn host_name() -> String {
    rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use std::ffi::OsString;
    use std::fs::Permissions;
    use std::os::fd::AsRawFd;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn names(dir: &Path) -> Vec<OsString> {
        let entries = fs::read_dir(dir).unwrap();
        entries.map(|entry| entry.unwrap().file_name()).collect()
    }

    fn output(path: &Path) -> anyhow::Result<Output> {
        Output::parse(Some(path.to_owned()), FilePermissions::default())
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o7777
    }

    #[test]
    fn a_file_is_whole_or_as_it_was() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("answer.csv");
        let output = output(&path).unwrap();
        output.write(|out| out.write_all(b"one")).unwrap();
        let failed = output.write(|out| {
            out.write_all(&[b'x'; 100_000])?;
            Err(io::Error::other("no more"))
        });
        assert!(failed.is_err());
        assert_eq!(fs::read(&path).unwrap(), b"one");
        assert_eq!(names(dir.path()), ["answer.csv"]);
    }

    #[test]
    fn only_the_owner_may_read_a_file_unless_the_umask_is_to_count() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("answer.csv");
        fs::write(&path, "of others").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o666)).unwrap();
        let other = dir.path().join("other");
        fs::write(&other, "").unwrap();
        for (by_umask, expected) in [(false, 0o600), (true, mode(&other))] {
            let output = Output::parse(Some(path.clone()), FilePermissions { by_umask }).unwrap();
            let write = |out: &mut (dyn Write + Send)| {
                let mut names = names(dir.path()).into_iter();
                let draft = names.find(|name| name.as_bytes().ends_with(b".partial"));
                assert_eq!(mode(&dir.path().join(draft.unwrap())), expected);
                out.write_all(b"x")
            };
            output.write(write).unwrap();
            assert_eq!(mode(&path), expected);
        }
    }

    #[test]
    fn no_link_is_followed() {
        let dir = tempfile::tempdir().unwrap();
        let theirs = dir.path().join("theirs");
        fs::write(&theirs, "theirs").unwrap();
        let link = dir.path().join("link");
        for to in [&theirs, &dir.path().join("nowhere"), Path::new("/dev/null")] {
            symlink(to, &link).unwrap();
            let refused = output(&link).unwrap_err().to_string();
            assert!(refused.contains("it is a symbolic link"), "{refused}");
            // The link may also appear later.
            let mut partial = PartialFile::create(&link, FilePermissions::default()).unwrap();
            partial.file().unwrap().write_all(b"ours").unwrap();
            assert!(partial.put_in_free_place().is_err());
            partial.put_in_place().unwrap();
            assert!(!link.is_symlink());
            fs::remove_file(&link).unwrap();
        }
        assert_eq!(fs::read(&theirs).unwrap(), b"theirs");
        let pipe = dir.path().join("pipe");
        let stream = Output::Stream(pipe.clone());
        symlink(&theirs, &pipe).unwrap();
        assert!(stream.write(|out| out.write_all(b"ours")).is_err());
        assert_eq!(fs::read(&theirs).unwrap(), b"theirs");
    }

    #[test]
    fn what_a_process_has_open_is_written_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let file = File::create(&path).unwrap();
        for text in ["one", "two"] {
            let open = format!("/proc/self/fd/{}", file.as_raw_fd());
            let stream = output(Path::new(&open)).unwrap();
            stream.write(|out| out.write_all(text.as_bytes())).unwrap();
        }
        assert_eq!(fs::read(&path).unwrap(), b"onetwo");
        assert_eq!(names(dir.path()), ["file"]);
        assert!(matches!(
            output(Path::new("/dev/stdout")).unwrap(),
            Output::Stream(_)
        ));
    }

    #[test]
    fn what_cannot_be_a_file_is_refused_at_once() {
        let dir = tempfile::tempdir().unwrap();
        assert!(output(dir.path()).is_err());
        assert!(output(&dir.path().join("no/where")).is_err());
        assert!(matches!(output(Path::new("-")).unwrap(), Output::Stdout));
        let device = output(Path::new("/dev/null")).unwrap();
        device.write(|out| out.write_all(b"x")).unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
    }
}
