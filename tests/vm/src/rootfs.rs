//! The guest's root: unpacked Debian packages, plus the results of their maintainer scripts.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::cache::Cache;
use crate::host;
use crate::image;
use crate::lock::Lock;
use crate::packages::{self, GUEST_PACKAGES, GUEST_SECTION, Source};

/// Increment when the way to make a root changes.
const RECIPE: u32 = 2;

/// Files that the guest never reads.
const DROPPED: &[&str] = &[
    "usr/share/doc",
    "usr/share/man",
    "usr/share/info",
    "usr/share/locale",
    "usr/share/lintian",
    "boot",
];

/// Files with fixed text.
const FILES: &[(&str, &str)] = &[
    ("etc/hostname", "guest\n"),
    ("etc/hosts", "127.0.0.1 localhost guest\n::1 localhost\n"),
    (
        "etc/nsswitch.conf",
        "passwd: files\ngroup: files\nshadow: files\nhosts: files\nprotocols: files\nservices: files\nrpc: files\nnetgroup: files\n",
    ),
    (
        "etc/exports",
        "/exp *(rw,no_root_squash,insecure,no_subtree_check,fsid=1)\n",
    ),
    (
        "etc/nfs.conf",
        "[general]\npipefs-directory=/run/rpc_pipefs\n[nfsd]\ngrace-time=10\nlease-time=10\n",
    ),
    ("etc/pam.d/common-auth", "auth required pam_permit.so\n"),
    (
        "etc/pam.d/common-account",
        "account required pam_permit.so\n",
    ),
    (
        "etc/pam.d/common-password",
        "password required pam_permit.so\n",
    ),
    (
        "etc/pam.d/common-session",
        "session required pam_permit.so\n",
    ),
    ("etc/fstab", ""),
    ("etc/resolv.conf", ""),
    ("etc/machine-id", "6e66736d657472696373000000000001\n"),
    ("var/lib/nfs/etab", ""),
    ("var/lib/nfs/rmtab", ""),
    ("var/lib/nfs/state", ""),
];

/// Accounts besides base-passwd's: accounts of the NFS packages, and a plain user.
const PASSWD: &str = "\
_rpc:x:101:65534::/run/rpcbind:/usr/sbin/nologin
statd:x:102:65534::/var/lib/nfs:/usr/sbin/nologin
user:x:1000:1000:user:/home/user:/bin/bash
";
const GROUP: &str = "user:x:1000:\n";

const DIRECTORIES: &[&str] = &[
    "dev",
    "proc",
    "sys",
    "run",
    "tmp",
    "exp",
    "mnt/nfs",
    "work",
    "home/user",
    "root",
    "etc/exports.d",
    "usr/lib/modules",
    "usr/local/bin",
    "var/tmp",
    "var/lib/nfs/sm",
    "var/lib/nfs/sm.bak",
    "var/lib/nfs/v4recovery",
    "var/lib/nfs/rpc_pipefs",
    "var/lib/nfs/nfsdcld",
];

/// Links that alternatives and maintainer scripts would create, if their target exists.
const LINKS: &[(&str, &str)] = &[
    ("usr/bin/sh", "dash"),
    ("usr/bin/awk", "mawk"),
    ("usr/bin/which", "which.debianutils"),
    ("usr/bin/python", "python3"),
];

/// A guest root with a set of extra packages.
pub struct Root<'a> {
    pub extra: &'a [String],
}

impl Root<'_> {
    fn key(&self, lock: &Lock) -> Result<String> {
        let hashes: Vec<&str> = lock
            .section(GUEST_SECTION)?
            .iter()
            .map(|p| p.sha256.as_str())
            .collect();
        host::sha256(
            format!(
                "root {RECIPE} {hashes:?} {GUEST_PACKAGES:?} {:?} {DROPPED:?} {FILES:?} {PASSWD} {GROUP} {DIRECTORIES:?} {LINKS:?}",
                self.extra
            )
            .as_bytes(),
        )
    }

    /// The cached image, if it is complete: a directory with `root.img` and `busybox`.
    pub fn cached(&self, cache: &Cache, lock: &Lock) -> Result<Option<PathBuf>> {
        Ok(cache.get("root", &self.key(lock)?))
    }

    /// Downloads packages and builds the root. The caller holds the lock of the cache.
    pub fn build(&self, source: &Source, lock: &Lock) -> Result<PathBuf> {
        let debs = packages::guest(source, lock, self.extra)?;
        host::say(format_args!(
            "building the guest's root from {} packages ...",
            debs.len()
        ));
        source.cache.build("root", &self.key(lock)?, |dir| {
            let tree = tempfile::Builder::new()
                .prefix(".building-")
                .tempdir_in(source.cache.dir("images"))?;
            let tree = tree.path();
            fs::set_permissions(tree, fs::Permissions::from_mode(0o755))?;
            packages::extract(&debs, tree)?;
            fs::copy(tree.join("usr/bin/busybox"), dir.join("busybox"))
                .context("no busybox in the guest's packages")?;
            configure(tree)?;
            host::run(host::as_root("ldconfig").arg("-r").arg(tree))
                .context("cannot make the linker's cache")?;
            image::squashfs(tree, &dir.join("root.img"))
        })
    }
}

fn configure(tree: &Path) -> Result<()> {
    for dropped in DROPPED {
        let path = tree.join(dropped);
        if path.is_dir() {
            fs::remove_dir_all(path)?;
        }
    }
    for dir in DIRECTORIES {
        fs::create_dir_all(tree.join(dir))?;
    }
    for (name, text) in FILES {
        fs::write(tree.join(name), text).with_context(|| format!("cannot write /{name}"))?;
    }
    for (name, more) in [("passwd", PASSWD), ("group", GROUP)] {
        let master = fs::read_to_string(tree.join(format!("usr/share/base-passwd/{name}.master")))
            .context("no base-passwd in the guest's packages")?;
        fs::write(
            tree.join("etc").join(name),
            master.replace(":*:", ":x:") + more,
        )?;
    }
    for (link, target) in LINKS {
        let path = tree.join(link);
        let target_exists = path.with_file_name(target).symlink_metadata().is_ok();
        if target_exists && path.symlink_metadata().is_err() {
            symlink(target, path)?;
        }
    }
    let mtab = tree.join("etc/mtab");
    if mtab.symlink_metadata().is_err() {
        symlink("/proc/self/mounts", mtab)?;
    }
    for sticky in ["tmp", "var/tmp"] {
        fs::set_permissions(tree.join(sticky), fs::Permissions::from_mode(0o1777))?;
    }
    Ok(())
}
