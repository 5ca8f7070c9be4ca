//! The input of the guest: a tar on a raw disk, in an unnamed file of the host.

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use tar::{Builder, Header};

const SETUP: &str = include_str!("../guest/setup");

/// The script, and its input.
#[derive(Debug)]
pub struct Payload<'a> {
    pub script: &'a Path,
    pub args: &'a [String],
    /// Copied to /work under their last component.
    pub add: &'a [PathBuf],
    pub trackiops: Option<&'a Path>,
    /// NFS version, or `none`.
    pub nfs: &'a str,
    pub timeout_s: u64,
    /// Bring $OUT back.
    pub collect: bool,
}

impl Payload<'_> {
    /// Writes the tar to an unnamed temporary file, so that nothing remains, however the process ends.
    pub fn disk(&self) -> Result<File> {
        let file = tempfile::tempfile().context("cannot create a temporary file")?;
        let mut tar = Builder::new(file);
        tar.sparse(false);
        let script = name(self.script)?;
        text(&mut tar, "run/vm/setup", SETUP.as_bytes())?;
        text(
            &mut tar,
            "run/vm/settings",
            self.settings(&script).as_bytes(),
        )?;
        let args: String = self
            .args
            .iter()
            .flat_map(|arg| [arg.as_str(), "\0"])
            .collect();
        text(&mut tar, "run/vm/args", args.as_bytes())?;
        copy(&mut tar, self.script, &Path::new("work").join(&script))?;
        if let Some(binary) = self.trackiops {
            copy(&mut tar, binary, Path::new("usr/local/bin/trackiops"))?;
        }
        let mut names = vec![script];
        for path in self.add {
            let name = name(path)?;
            if names.contains(&name) {
                bail!("two things to copy are named `{name}`; they would share /work/{name}");
            }
            copy(&mut tar, path, &Path::new("work").join(&name))?;
            names.push(name);
        }
        let mut file = tar.into_inner()?;
        file.flush()?;
        file.seek(SeekFrom::Start(0))?;
        Ok(file)
    }

    fn settings(&self, script: &str) -> String {
        format!(
            "NFS={}\nTIMEOUT={}\nCOLLECT={}\nSCRIPT={}\n",
            self.nfs,
            self.timeout_s,
            u8::from(self.collect),
            quote(script)
        )
    }
}

fn name(path: &Path) -> Result<String> {
    let path = path
        .canonicalize()
        .with_context(|| format!("cannot find {}", path.display()))?;
    let name = path
        .file_name()
        .with_context(|| format!("{} has no name", path.display()))?;
    Ok(name.to_string_lossy().into_owned())
}

/// One word for a POSIX shell.
fn quote(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

fn text(tar: &mut Builder<File>, path: &str, bytes: &[u8]) -> Result<()> {
    let mut header = Header::new_gnu();
    header.set_mode(0o644);
    header.set_size(bytes.len() as u64);
    Ok(tar.append_data(&mut header, path, bytes)?)
}

fn copy(tar: &mut Builder<File>, from: &Path, to: &Path) -> Result<()> {
    let context = || format!("cannot read {}", from.display());
    let metadata = from.metadata().with_context(context)?;
    if metadata.is_dir() {
        tar.follow_symlinks(false);
        tar.append_dir_all(to, from).with_context(context)?;
        tar.follow_symlinks(true);
        return Ok(());
    }
    // The guest's root owns the files; they keep their modes.
    let mut header = Header::new_gnu();
    header.set_metadata(&metadata);
    header.set_uid(0);
    header.set_gid(0);
    let file = File::open(from).with_context(context)?;
    tar.append_data(&mut header, to, file).with_context(context)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use std::io::Read;

    fn contents(disk: File) -> BTreeMap<String, Vec<u8>> {
        let mut archive = tar::Archive::new(disk);
        archive
            .entries()
            .unwrap()
            .map(|entry| {
                let mut entry = entry.unwrap();
                let mut bytes = Vec::new();
                entry.read_to_end(&mut bytes).unwrap();
                (entry.path().unwrap().display().to_string(), bytes)
            })
            .collect()
    }

    fn payload<'a>(script: &'a Path, args: &'a [String], add: &'a [PathBuf]) -> Payload<'a> {
        Payload {
            script,
            args,
            add,
            trackiops: None,
            nfs: "4.2",
            timeout_s: 9,
            collect: true,
        }
    }

    #[test]
    fn the_disk_holds_script_arguments_and_additions() {
        let dir = tempfile::tempdir().unwrap();
        let script = dir.path().join("it's.sh");
        std::fs::write(&script, "true").unwrap();
        std::fs::create_dir_all(dir.path().join("data/sub")).unwrap();
        std::fs::write(dir.path().join("data/sub/f"), "x").unwrap();
        let (args, add) = (
            ["a b".to_string(), String::new()],
            [dir.path().join("data")],
        );
        let disk = payload(&script, &args, &add).disk().unwrap();
        assert_eq!(
            disk.metadata().unwrap().len() % 512,
            0,
            "a disk has whole sectors"
        );
        let files = contents(disk);
        assert_eq!(files["run/vm/args"], b"a b\0\0");
        assert_eq!(files["work/it's.sh"], b"true");
        assert_eq!(files["work/data/sub/f"], b"x");
        let settings = String::from_utf8(files["run/vm/settings"].clone()).unwrap();
        assert!(
            settings.contains("NFS=4.2\n") && settings.contains(r"SCRIPT='it'\''s.sh'"),
            "{settings}"
        );
    }

    #[test]
    fn two_things_of_one_name_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let script = dir.path().join("a");
        std::fs::write(&script, "true").unwrap();
        let add = [script.clone()];
        let error = payload(&script, &[], &add).disk().unwrap_err();
        assert!(format!("{error:#}").contains("/work/a"));
    }
}
