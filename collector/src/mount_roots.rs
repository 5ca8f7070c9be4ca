//! Inode numbers of the roots of mounts: they distinguish volumes that share a superblock.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use rustix::fs::{major, minor};
use trackiops_schemas::identity::{Dev, typed_path};

use crate::names::mountinfo::{HOST, NfsMount};

/// How long the first look waits for the server. Later looks do not wait.
const WAIT: Duration = Duration::from_millis(100);

/// Known inode numbers, and those being looked up.
#[derive(Debug, Default)]
pub struct MountRoots(HashMap<(u32, Dev, String), Root>);

#[derive(Debug)]
enum Root {
    /// A thread looks it up, and may hang as long as the server does.
    Asked(Receiver<Option<u64>>),
    /// `None` if it is not visible.
    Known(Option<u64>),
}

impl MountRoots {
    /// The inode number of a mount's root, once it is known.
    pub fn inode(&mut self, mount: &NfsMount) -> Option<u64> {
        let key = (mount.mount_id, mount.dev, mount.mount_point.clone());
        let is_new = !self.0.contains_key(&key);
        let root = self.0.entry(key).or_insert_with(|| ask(mount));
        if let Root::Asked(answer) = root {
            let wait = if is_new { WAIT } else { Duration::ZERO };
            match answer.recv_timeout(wait) {
                Ok(inode) => *root = Root::Known(inode),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => *root = Root::Known(None),
            }
        }
        match root {
            Root::Known(inode) => *inode,
            Root::Asked(_) => None,
        }
    }

    /// Forgets mounts that have left.
    pub fn keep(&mut self, mounts: &[NfsMount]) {
        self.0.retain(|(id, dev, point), _| {
            let is_it = |mount: &NfsMount| {
                (mount.mount_id, mount.dev, &mount.mount_point) == (*id, *dev, point)
            };
            mounts.iter().any(is_it)
        });
    }
}

fn ask(mount: &NfsMount) -> Root {
    let (tell, answer) = channel();
    let (dev, point) = (mount.dev, mount.mount_point.clone());
    // The mount point in the host's namespace, then in this process's, where the user who named it sees it.
    let seen_by_host = format!("/proc/{HOST}/root{point}");
    let look = move || {
        let paths = [seen_by_host, point];
        let found = paths
            .iter()
            .find_map(|path| inode_on(&typed_path(path), dev));
        let _ = tell.send(found);
    };
    match thread::Builder::new().name("mount root".into()).spawn(look) {
        Ok(_) => Root::Asked(answer),
        Err(_) => Root::Known(None),
    }
}

/// The inode number at a path, if it is on this device.
fn inode_on(path: &Path, dev: Dev) -> Option<u64> {
    let metadata = fs::metadata(path).ok()?;
    let of_it = Dev::new(major(metadata.dev()), minor(metadata.dev()));
    (of_it == Some(dev)).then(|| metadata.ino())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_is_what_is_at_the_mount_point_on_the_device_of_the_mount() {
        let directory = tempfile::tempdir().unwrap();
        let metadata = fs::metadata(directory.path()).unwrap();
        let dev = Dev::new(major(metadata.dev()), minor(metadata.dev())).unwrap();
        let mount = |dev| NfsMount {
            mount_id: 1,
            dev,
            source: "s:/e".into(),
            mount_point: directory.path().to_str().unwrap().into(),
            options: String::new(),
        };
        let mut roots = MountRoots::default();
        let mut inode = |mount: &NfsMount| (0..100).find_map(|_| roots.inode(mount));
        assert_eq!(inode(&mount(dev)), Some(metadata.ino()));
        assert_eq!(
            inode(&mount(Dev(dev.0 + 1))),
            None,
            "another one is over it"
        );
        roots.keep(&[]);
        assert!(roots.0.is_empty());
    }
}
