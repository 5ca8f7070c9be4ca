//! Names of pods and containers, as Kubernetes' kubelet names their logs.
//!
//! Only directories are read. A socket of the kubelet or of an engine has the same names. But a process that may connect to an engine's
//! socket can start containers as root, and its answers are another protocol to parse. The kubelet keeps these names for log
//! collectors, with every engine.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use ahash::AHashMap;
use trackiops_schemas::container::{ContainerOf, is_container_id, pod_uid};
use trackiops_tenants::account_file::FileVersion;

use crate::clock::{MonotonicNs, is_due};

/// A symbolic link for each container: `<pod>_<namespace>_<container>-<id>.log`.
const CONTAINERS: &str = "/var/log/containers";
/// A directory for each pod: `<namespace>_<pod>_<uid>`.
const PODS: &str = "/var/log/pods";
/// Least time between checks of the directories for changes.
const LOOK: Duration = Duration::from_secs(1);
/// A directory that changed less than this ago may change again with the same time.
const SETTLED: Duration = Duration::from_secs(2);
/// Most entries of a directory that are read, which bounds the time and the memory: a node has some hundred containers.
const MOST_ENTRIES: usize = 1 << 14;

/// The container of a cgroup.
#[derive(Debug)]
pub(super) struct Container {
    id: Option<Box<str>>,
    pod: Option<Box<str>>,
}

impl Container {
    /// The container or pod of a cgroup path, if it is one.
    pub(super) fn of(cgroup: &str) -> Option<Self> {
        let ContainerOf { id, pod } = ContainerOf::cgroup(cgroup);
        (id.is_some() || pod.is_some()).then(|| Self {
            id: id.map(Into::into),
            pod: pod.map(|uid| pod_uid(uid).into()),
        })
    }
}

/// Names by container id and pod uid.
#[derive(Debug)]
pub(super) struct Containers {
    containers: Directory,
    pods: Directory,
    looked: Option<MonotonicNs>,
}

impl Containers {
    /// Without names yet.
    pub(super) fn new() -> Self {
        Self::in_directories(CONTAINERS.into(), PODS.into())
    }

    /// [`Self::new`] with other directories.
    pub(super) fn in_directories(containers: PathBuf, pods: PathBuf) -> Self {
        Self {
            containers: Directory::new(containers, named_container),
            pods: Directory::new(pods, named_pod),
            looked: None,
        }
    }

    /// Reads the names, if they may have changed. If a directory cannot be read, its names stay.
    pub(super) fn refresh(&mut self, now: MonotonicNs) {
        if is_due(&mut self.looked, now, LOOK) {
            for directory in [&mut self.containers, &mut self.pods] {
                let _ = directory.read();
            }
        }
    }

    /// `namespace/pod/container`, or `namespace/pod` if the container has no separate log.
    pub(super) fn name(&self, of: &Container) -> Option<Arc<str>> {
        let known = |directory: &Directory, id: &Option<Box<str>>| {
            let id = id.as_deref()?;
            directory.names.get(id).cloned()
        };
        known(&self.containers, &of.id).or_else(|| known(&self.pods, &of.pod))
    }
}

/// Parses a file name into an id and the name for it.
type Parse = fn(&str) -> Option<(&str, String)>;

#[derive(Debug)]
struct Directory {
    path: PathBuf,
    parse: Parse,
    names: AHashMap<Box<str>, Arc<str>>,
    /// The version of the directory that was read, unless it may have changed since without a new time.
    read: Option<FileVersion>,
}

impl Directory {
    fn new(path: PathBuf, parse: Parse) -> Self {
        Self {
            path,
            parse,
            names: AHashMap::new(),
            read: None,
        }
    }

    fn read(&mut self) -> io::Result<()> {
        // Taken before the entries, so that a change in between is read at the next look.
        let metadata = fs::metadata(&self.path)?;
        let version = FileVersion::from(&metadata);
        if self.read == Some(version) {
            return Ok(());
        }
        let mut names = AHashMap::new();
        for entry in fs::read_dir(&self.path)?.take(MOST_ENTRIES) {
            let name = entry?.file_name();
            if let Some((id, named)) = name.to_str().and_then(self.parse) {
                names.insert(id.into(), named.into());
            }
        }
        self.names = names;
        self.read = is_settled(&metadata, SystemTime::now()).then_some(version);
        Ok(())
    }
}

fn is_settled(metadata: &fs::Metadata, now: SystemTime) -> bool {
    let age = metadata.modified().map(|at| now.duration_since(at));
    // A time in the future proves nothing.
    matches!(age, Ok(Ok(age)) if age > SETTLED)
}

fn named_container(file: &str) -> Option<(&str, String)> {
    // A name that is too long is truncated at the end, and so loses its id.
    let (names, id) = file.strip_suffix(".log")?.rsplit_once('-')?;
    let [pod, namespace, container] = three(names)?;
    is_container_id(id).then(|| (id, format!("{namespace}/{pod}/{container}")))
}

fn named_pod(directory: &str) -> Option<(&str, String)> {
    let [namespace, pod, uid] = three(directory)?;
    Some((uid, format!("{namespace}/{pod}")))
}

/// Names of Kubernetes, which consist of lower-case letters, digits, `-` and `.`.
fn three(joined: &str) -> Option<[&str; 3]> {
    let mut names = joined.split('_');
    let three = [names.next()?, names.next()?, names.next()?];
    let may_be = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.');
    let are_names = three
        .iter()
        .all(|name| !name.is_empty() && name.bytes().all(may_be));
    (are_names && names.next().is_none()).then_some(three)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "4e07408562bedb8b60ce05c1decfe3ad16b72230967de01f640b7e4729b49fce";
    const POD: &str = "0a5f1c2e-58aa-4d7c-9b1e-6f0d3c2b1a09";

    fn of(path: &str) -> Container {
        Container::of(path).unwrap()
    }

    #[test]
    fn containers_have_the_names_of_their_logs() {
        let root = tempfile::tempdir().unwrap();
        let [containers, pods] = ["containers", "pods"].map(|name| root.path().join(name));
        let mut known = Containers::in_directories(containers.clone(), pods.clone());
        let nginx = of(&format!("/kubepods/pod{POD}/{ID}"));
        let sandbox = of(&format!(
            "/kubepods.slice/kubepods-pod{}.slice/cri-containerd-{}.scope",
            POD.replace('-', "_"),
            "f".repeat(64)
        ));
        let elsewhere = of(&format!("/docker/{}", "e".repeat(64)));
        let mut time = 0;
        let mut names = || {
            // Long enough for another check.
            time += 1_000_000_001;
            known.refresh(MonotonicNs(time));
            [&nginx, &sandbox, &elsewhere].map(|of| known.name(of).map(|name| name.to_string()))
        };
        assert_eq!(names(), [None, None, None], "there is no kubelet");
        fs::create_dir_all(pods.join(format!("shop_web-7d9f.2_{POD}"))).unwrap();
        fs::create_dir(&containers).unwrap();
        let pod = Some("shop/web-7d9f.2".to_owned());
        assert_eq!(names(), [pod.clone(), pod.clone(), None]);
        for log in [
            format!("web-7d9f.2_shop_nginx-{ID}.log"),
            format!("web_shop_nginx-{}.log", "e".repeat(63)),
            format!("we\u{1b}b_shop_nginx-{}.log", "e".repeat(64)),
            format!("web_shop_x_nginx-{}.log", "e".repeat(64)),
            format!("_shop_nginx-{}.log", "e".repeat(64)),
            "else".to_owned(),
        ] {
            std::os::unix::fs::symlink("/nowhere", containers.join(log)).unwrap();
        }
        let container = Some("shop/web-7d9f.2/nginx".to_owned());
        assert_eq!(names(), [container.clone(), pod.clone(), None]);
        fs::rename(&pods, root.path().join("away")).unwrap();
        assert_eq!(names(), [container, pod, None]);
    }

    #[test]
    fn only_cgroups_of_containers_are_looked_up() {
        assert!(Container::of("/system.slice/db.service").is_none());
        assert!(Container::of("/kubepods.slice").is_none());
    }

    #[test]
    fn a_directory_that_has_just_changed_is_read_again() {
        let root = tempfile::tempdir().unwrap();
        let metadata = fs::metadata(root.path()).unwrap();
        let changed = metadata.modified().unwrap();
        assert!(!is_settled(&metadata, changed));
        assert!(!is_settled(&metadata, changed - SETTLED));
        assert!(is_settled(&metadata, changed + 2 * SETTLED));
    }
}
