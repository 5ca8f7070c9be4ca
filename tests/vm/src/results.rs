//! The output of the guest: a tar stream of $OUT.

use std::fs;
use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result};
use tar::Archive;

/// Unpacks into a directory, or only reads to the end if no output is wanted. Calls `complete` at the end of the archive, while the stream
/// is still open.
pub fn unpack(mut stream: impl Read, dir: Option<&Path>, complete: impl FnOnce()) -> Result<()> {
    let result = match dir {
        Some(dir) => unpack_into(&mut stream, dir),
        None => Ok(()),
    };
    complete();
    // Keep reading, so that the guest does not block on data that could not be unpacked.
    let _ = std::io::copy(&mut stream, &mut std::io::sink());
    result
}

fn unpack_into(stream: &mut impl Read, dir: &Path) -> Result<()> {
    fs::create_dir_all(dir).with_context(|| format!("cannot create {}", dir.display()))?;
    let mut archive = Archive::new(stream);
    archive.set_preserve_permissions(true);
    archive.set_preserve_mtime(true);
    let mut entries = 0;
    for entry in archive.entries().context("cannot read the results")? {
        let mut entry = entry.context("the results are cut short")?;
        entries += 1;
        if entry.path()?.as_os_str() == "." {
            continue; // the directory itself keeps the host's mode
        }
        let path = entry.path()?.display().to_string();
        entry
            .unpack_in(dir)
            .with_context(|| format!("cannot unpack {path} into {}", dir.display()))?;
    }
    if entries == 0 {
        anyhow::bail!("the guest sent no results");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn archive() -> Vec<u8> {
        let mut tar = tar::Builder::new(Vec::new());
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(tar::EntryType::Directory);
        header.set_mode(0o755);
        header.set_size(0);
        tar.append_data(&mut header, "./", &[][..]).unwrap();
        let mut header = tar::Header::new_gnu();
        header.set_mode(0o640);
        header.set_size(5);
        tar.append_data(&mut header, "./sub/file", &b"hello"[..])
            .unwrap();
        tar.into_inner().unwrap()
    }

    #[test]
    fn files_arrive_with_their_bytes() {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("a/b");
        unpack(&archive()[..], Some(&out), || ()).unwrap();
        assert_eq!(fs::read(out.join("sub/file")).unwrap(), b"hello");
    }

    #[test]
    fn a_stream_that_ends_early_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let bytes = archive();
        assert!(unpack(&bytes[..1026], Some(dir.path()), || ()).is_err());
        assert!(unpack(&[][..], Some(dir.path()), || ()).is_err());
        unpack(&[][..], None, || ()).unwrap();
    }
}
