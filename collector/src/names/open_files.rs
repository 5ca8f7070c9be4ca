//! Names of a process's open files, from its `/proc` entry alone: no path is walked and no
//! server is contacted. A hung mount cannot block reading descriptors. It can block reading
//! mappings: see [`crate::names::mappings`].

use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

use trackiops_schemas::identity::{Dev, path_text};

use crate::names::mountinfo::{NfsMount, in_octal, mounts_of, unescape};

/// A file on NFS that a process holds open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenFile {
    /// Device of its superblock.
    pub dev: Dev,
    /// NFS fileid.
    pub fileid: u64,
    /// Its name now, by [`path_text`].
    pub path: String,
}

/// Appended by the kernel to the last name of a deleted file.
const DELETED: &str = " (deleted)";

/// The files on NFS that `pid` has open by descriptor. Reads at most `limit` descriptors, and reduces
/// `limit` by their number.
pub fn descriptors(pid: u32, limit: &mut usize) -> Vec<OpenFile> {
    let mounts = mounts_of(pid).unwrap_or_default();
    if mounts.is_empty() {
        return Vec::new();
    }
    descriptors_on(pid, &mounts, limit)
}

/// The files on NFS that `pid` has mapped. Waits for the lock of its address space.
pub fn mapped(pid: u32) -> Vec<OpenFile> {
    let Ok(maps) = fs::read(format!("/proc/{pid}/maps")) else {
        return Vec::new();
    };
    let mut mounts = None;
    parse_maps(&maps, |dev| {
        let mounts = mounts.get_or_insert_with(|| mounts_of(pid).unwrap_or_default());
        mounts.iter().any(|mount| mount.dev == dev)
    })
}

fn descriptors_on(pid: u32, mounts: &[NfsMount], limit: &mut usize) -> Vec<OpenFile> {
    let directory = format!("/proc/{pid}/fd");
    let Ok(entries) = fs::read_dir(&directory) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for entry in entries.flatten() {
        if *limit == 0 {
            break;
        }
        *limit -= 1;
        let Ok(link) = fs::read_link(entry.path()) else {
            continue;
        };
        let path = path_text(&link.into_os_string().into_vec());
        // Saves two system calls for every file that is not on NFS.
        if !path.starts_with('/')
            || !mounts
                .iter()
                .any(|m| Path::new(&path).starts_with(&m.mount_point))
        {
            continue;
        }
        let info = Path::new("/proc")
            .join(pid.to_string())
            .join("fdinfo")
            .join(entry.file_name());
        let Ok(info) = fs::read_to_string(info) else {
            continue;
        };
        if let Some((dev, fileid)) = parse_fdinfo(&info, mounts)
            && !path.ends_with(DELETED)
        {
            found.push(OpenFile { dev, fileid, path });
        }
    }
    found
}

/// Device and inode number out of a descriptor's `fdinfo` (`ino:` is there from Linux 5.14 on).
pub(crate) fn parse_fdinfo(text: &str, mounts: &[NfsMount]) -> Option<(Dev, u64)> {
    let value = |key: &str| {
        text.lines()
            .find_map(|line| line.strip_prefix(key))
            .map(str::trim)
    };
    let mount_id: u32 = value("mnt_id:")?.parse().ok()?;
    let fileid = value("ino:")?.parse().ok()?;
    let mount = mounts.iter().find(|m| m.mount_id == mount_id)?;
    Some((mount.dev, fileid))
}

/// Files on NFS among the lines `address perms offset major:minor inode path` of a `maps` file.
/// `is_nfs` is called for devices that may be NFS.
pub(crate) fn parse_maps(text: &[u8], mut is_nfs: impl FnMut(Dev) -> bool) -> Vec<OpenFile> {
    let text = in_octal(text);
    let parse = |line: &str| {
        let mut rest = line;
        let mut word = || {
            rest = rest.trim_start_matches(' ');
            let end = rest.find(' ')?;
            let (word, tail) = rest.split_at(end);
            rest = tail;
            Some(word)
        };
        let (major, minor) = (word()?, word()?, word()?, word()?).3.split_once(':')?;
        // File systems without a block device, such as NFS.
        let major = u32::from_str_radix(major, 16).ok().filter(|m| *m == 0)?;
        let dev = Dev::new(major, u32::from_str_radix(minor, 16).ok()?)?;
        let fileid = word()?.parse().ok()?;
        let path = unescape(rest.trim_start_matches(' '));
        let named = path.starts_with('/') && !path.ends_with(DELETED);
        (named && is_nfs(dev)).then_some(OpenFile { dev, fileid, path })
    };
    let mut found: Vec<OpenFile> = text.lines().filter_map(parse).collect();
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn mounts() -> Vec<NfsMount> {
        let mount = NfsMount {
            mount_id: 36,
            dev: Dev(0x31),
            source: "s:/e".into(),
            mount_point: "/mnt/nfs".into(),
            options: String::new(),
        };
        vec![mount]
    }

    #[test]
    fn a_descriptor_is_identified_without_a_stat() {
        let info = "pos:\t0\nflags:\t0100002\nmnt_id:\t36\nino:\t1234\n";
        assert_eq!(parse_fdinfo(info, &mounts()), Some((Dev(0x31), 1234)));
        assert_eq!(parse_fdinfo("mnt_id:\t36\n", &mounts()), None);
        assert_eq!(parse_fdinfo("mnt_id:\t35\nino:\t1\n", &mounts()), None);
    }

    #[test]
    fn mapped_files_are_found_by_device() {
        let maps = b"7f00-7f01 rw-s 00000000 00:31 99                         /mnt/nfs/a\\012b c\n\
            7f01-7f02 r-xp 00000000 fe:00 5 /usr/lib/libc.so\n\
            7f02-7f03 rw-p 00000000 00:00 0 \n\
            7f04-7f05 rw-s 00000000 00:31 98 /mnt/nfs/x (deleted)\n";
        let file = OpenFile {
            dev: Dev(0x31),
            fileid: 99,
            path: "/mnt/nfs/a\nb c".into(),
        };
        assert_eq!(parse_maps(maps, |dev| dev == Dev(0x31)), [file]);
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            parse_maps(&bytes, |_| true);
            parse_fdinfo(&String::from_utf8_lossy(&bytes), &mounts());
        }
    }
}
