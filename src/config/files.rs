//! Finds the configuration files, and checks that they may be read.

use std::fs;
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf, absolute};

use rustix::io::Errno;
use rustix::process::geteuid;
use trackiops_schemas::regular_file::open_regular;

/// The default file.
pub const USUAL: &str = "/etc/trackiops/trackiops.toml";
/// The directory of further files, next to the default file.
const FURTHER: &str = "conf.d";
/// Every reasonable configuration is much shorter.
const MOST_BYTES: u64 = 1 << 20;
/// Most symbolic links in a path, as in the kernel.
const MOST_LINKS: u32 = 40;

/// Which files to read.
#[derive(Clone, Debug)]
pub enum Choice {
    /// [`USUAL`], which may be missing.
    Usual,
    /// This file, which must exist.
    Named(PathBuf),
    Nothing,
}

/// A file that was read.
#[derive(Debug)]
pub struct ConfigFile {
    pub path: PathBuf,
    pub text: String,
}

/// The files, where later ones override earlier ones, and the errors in unreadable files.
pub fn read(choice: &Choice) -> (Vec<ConfigFile>, Vec<String>) {
    let (first, must_exist) = match choice {
        Choice::Usual => (Path::new(USUAL), false),
        Choice::Named(path) => (path.as_path(), true),
        Choice::Nothing => return Default::default(),
    };
    let (mut files, mut problems) = (Vec::new(), Vec::new());
    let mut take = |path: PathBuf, must_exist: bool| match read_file(&path) {
        Ok(Some(text)) => files.push(ConfigFile { path, text }),
        Ok(None) if !must_exist => {}
        Ok(None) => problems.push(format!(
            "{}: there is no such file; make it, or name another by --config",
            path.display()
        )),
        Err(why) => problems.push(format!("{}: {why}", path.display())),
    };
    take(first.to_owned(), must_exist);
    let dir = first.with_file_name(FURTHER);
    match further(&dir) {
        Ok(further) => further.into_iter().for_each(|path| take(path, true)),
        Err(error) => problems.push(format!("{}: cannot be listed: {error}", dir.display())),
    }
    (files, problems)
}

/// The files `*.toml` of the directory in order of name, without hidden ones: the order of a shell.
fn further(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut paths = Vec::new();
    for entry in entries {
        let path = entry?.path();
        let is_hidden = path
            .file_name()
            .is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        if path.extension().is_some_and(|is| is == "toml") && !is_hidden {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

fn unreadable(error: io::Error) -> String {
    format!("cannot be read: {error}")
}

/// The text of a file. `None` if it does not exist.
fn read_file(path: &Path) -> Result<Option<String>, String> {
    let file = match open_regular(path) {
        Err(error) if error.kind() == ErrorKind::NotFound && !path.is_symlink() => return Ok(None),
        opened => opened.map_err(unreadable)?,
    };
    if geteuid().is_root() {
        refuse_others(path, MOST_LINKS)?;
    }
    let mut text = Vec::new();
    let read = file.take(MOST_BYTES + 1).read_to_end(&mut text);
    if read.map_err(unreadable)? as u64 > MOST_BYTES {
        return Err("has more than 1 MiB; is it a configuration?".to_owned());
    }
    let text = String::from_utf8(text).map_err(|_| "is not UTF-8 text; save it as UTF-8")?;
    Ok(Some(text))
}

/// Refuses a path if users other than root may change what it leads to: the file, or a directory or link on the way to it.
fn refuse_others(path: &Path, links_left: u32) -> Result<(), String> {
    let mut at = PathBuf::new();
    for part in absolute(path).map_err(unreadable)?.components() {
        at.push(part);
        let there = fs::symlink_metadata(&at).map_err(unreadable)?;
        let mut mend = Vec::new();
        if there.uid() != 0 {
            mend.push(format!("chown -h root {}", at.display()));
        }
        // Others may add files to a sticky directory, but cannot replace root's files.
        let is_safe = there.is_symlink() || (there.is_dir() && there.mode() & 0o1000 != 0);
        if there.mode() & 0o022 != 0 && !is_safe {
            mend.push(format!("chmod go-w {}", at.display()));
        }
        if !mend.is_empty() {
            return Err(format!(
                "others than root may change {}, so root does not follow it; run `{}`",
                at.display(),
                mend.join(" && ")
            ));
        }
        if there.is_symlink() {
            let left = links_left.checked_sub(1);
            let left = left.ok_or_else(|| unreadable(Errno::LOOP.into()))?;
            let dir = at.parent().unwrap_or(Path::new("/"));
            let target = dir.join(fs::read_link(&at).map_err(unreadable)?);
            refuse_others(&target, left)?;
        }
    }
    Ok(())
}
