//! Finds the volume of a mount: the name that the kubelet or a container engine keeps for it.
//!
//! ```text
//! /var/lib/kubelet/pods/<pod>/volumes/kubernetes.io~nfs/<volume>
//! /var/lib/kubelet/pods/<pod>/volumes/kubernetes.io~csi/<volume>/mount, beside vol_data.json
//! /var/lib/kubelet/pods/<pod>/volume-subpaths/<volume>/<container>/<number>
//! /var/lib/kubelet/plugins/kubernetes.io/csi/<driver>/<hash>/globalmount, beside vol_data.json
//! /var/lib/docker/volumes/<volume>/_data
//! ```
//!
//! All of these files are on the host's disks: no server is contacted.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::Read as _;
use std::path::PathBuf;

use serde_json::Value;

use crate::names::mountinfo::HOST;

/// Most bytes of a `vol_data.json` that are read: it has about 1 KiB.
const MOST_DATA: u64 = 64 << 10;
/// The file that the kubelet writes beside volumes of CSI drivers (`volDataFileName`, pkg/volume/csi/csi_plugin.go).
const DATA: &str = "vol_data.json";
/// Directories `<namespace>_<pod>_<uid>` of Pods' logs.
const LOGS: &str = "/var/log/pods";
/// Keys under which provisioners store the claim of a volume (external-provisioner, `--extra-create-metadata`).
const CLAIM: [&str; 2] = [
    "csi.storage.k8s.io/pvc/namespace",
    "csi.storage.k8s.io/pvc/name",
];

/// A volume.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Volume {
    /// Name of the PersistentVolume, or of the engine's volume.
    pub name: String,
    /// The PersistentVolumeClaim: `namespace/name`, or the known part of it.
    pub claim: Option<String>,
}

/// The volumes of the current mounts.
#[derive(Debug, Default)]
pub struct Volumes(HashMap<(String, String), Option<Volume>>);

impl Volumes {
    /// Looks up the volumes of these mounts, each given by its source and mount point, and forgets others. A mount is looked up once, as
    /// long as it exists.
    pub fn follow<'m>(&mut self, mounts: impl Iterator<Item = (&'m str, &'m str)>) {
        let mut before = std::mem::take(&mut self.0);
        for (source, point) in mounts {
            let key = (source.to_owned(), point.to_owned());
            let known = before.remove(&key).flatten();
            let volume = known.or_else(|| volume(&format!("/proc/{HOST}/root"), source, point));
            self.0.insert(key, volume);
        }
    }

    /// The volume of a mount.
    pub fn get(&self, source: &str, point: &str) -> Option<&Volume> {
        let key = (source.to_owned(), point.to_owned());
        self.0.get(&key)?.as_ref()
    }
}

/// The parts of a volume's mount point.
#[derive(Debug, PartialEq, Eq)]
struct Place<'p> {
    name: Option<&'p str>,
    pod: Option<&'p str>,
    /// The directory with its `vol_data.json`.
    data: Option<PathBuf>,
}

/// The volume of a mount, on a host whose files are below `root`.
fn volume(root: &str, source: &str, point: &str) -> Option<Volume> {
    let Place { name, pod, data } = place(point)?;
    let data =
        data.and_then(|directory| read_data(&format!("{root}{}/{DATA}", directory.display())));
    let said = |key: &str| data.as_ref().and_then(|data| find(data, key));
    // The name of the PersistentVolume. The directory has the same name, except for characters that a directory cannot have.
    let name = said("specVolID").or(name)?;
    let [namespace, claim] = CLAIM.map(said);
    let claim = match (namespace, claim) {
        (namespace, Some(claim)) => Some(claim_text(namespace, claim)),
        _ => claim_of_directory(root, source, name, pod),
    };
    Some(Volume {
        name: name.to_owned(),
        claim,
    })
}

fn claim_text(namespace: Option<&str>, claim: &str) -> String {
    match namespace {
        Some(namespace) => format!("{namespace}/{claim}"),
        None => claim.to_owned(),
    }
}

/// The claim from a directory of nfs-subdir-external-provisioner: `<namespace>-<claim>-<volume>`.
fn claim_of_directory(root: &str, source: &str, volume: &str, pod: Option<&str>) -> Option<String> {
    let (_, directory) = source.trim_end_matches('/').rsplit_once('/')?;
    let claim = directory.strip_suffix(volume)?.strip_suffix('-')?;
    let namespace = pod.and_then(|pod| namespace_of(root, pod));
    let named = namespace.as_deref().and_then(|namespace| {
        let claim = claim.strip_prefix(namespace)?.strip_prefix('-')?;
        Some(claim_text(Some(namespace), claim))
    });
    Some(named.unwrap_or_else(|| claim.to_owned())).filter(|claim| !claim.is_empty())
}

/// The namespace of a Pod, from the directory of its logs.
fn namespace_of(root: &str, pod: &str) -> Option<String> {
    let mut logs = fs::read_dir(format!("{root}{LOGS}")).ok()?.flatten();
    logs.find_map(|entry| {
        let name = entry.file_name();
        let (rest, uid) = name.to_str()?.rsplit_once('_')?;
        let (namespace, _) = rest.split_once('_')?;
        (uid == pod).then(|| namespace.to_owned())
    })
}

/// Parses a mount point.
fn place(point: &str) -> Option<Place<'_>> {
    let parts: Vec<_> = point.split('/').collect();
    let directory = |parts: &[&str]| Some(PathBuf::from(parts.join("/")));
    match parts[..] {
        [.., "pods", pod, "volumes", plugin, name] if plugin.starts_with("kubernetes.io~") => {
            Some(Place {
                name: Some(name),
                pod: Some(pod),
                data: None,
            })
        }
        [
            ..,
            "pods",
            pod,
            "volumes",
            "kubernetes.io~csi",
            name,
            "mount",
        ] => Some(Place {
            name: Some(name),
            pod: Some(pod),
            data: directory(&parts[..parts.len() - 1]),
        }),
        [.., "pods", pod, "volume-subpaths", name, _, _] => Some(Place {
            name: Some(name),
            pod: Some(pod),
            data: None,
        }),
        [.., "kubernetes.io", "csi", "pv", name, "globalmount"] => Some(Place {
            name: Some(name),
            pod: None,
            data: directory(&parts[..parts.len() - 1]),
        }),
        [.., "kubernetes.io", "csi", _, _, "globalmount"] => Some(Place {
            name: None,
            pod: None,
            data: directory(&parts[..parts.len() - 1]),
        }),
        [.., "volumes", name, "_data"] => Some(Place {
            name: Some(name),
            pod: None,
            data: None,
        }),
        _ => None,
    }
}

fn read_data(path: &str) -> Option<Value> {
    let mut text = Vec::new();
    let file = File::open(path).ok()?;
    file.take(MOST_DATA).read_to_end(&mut text).ok()?;
    serde_json::from_slice(&text).ok()
}

/// The text under a key, at any depth of an object.
fn find<'v>(value: &'v Value, key: &str) -> Option<&'v str> {
    let object = value.as_object()?;
    let own = object.get(key).and_then(Value::as_str);
    let own = own.filter(|text| !text.is_empty());
    own.or_else(|| object.values().find_map(|value| find(value, key)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const POD: &str = "2f9c1c1e-8d1f-4d5e-9a55-0d5b2f1c7a10";

    #[test]
    fn volumes_have_the_names_that_the_kubelet_and_engines_keep() {
        let root = tempfile::tempdir().unwrap();
        let at = |path: &str| root.path().join(path);
        let pod = format!("var/lib/kubelet/pods/{POD}");
        let csi = format!("{pod}/volumes/kubernetes.io~csi/pvc-1");
        fs::create_dir_all(at(&csi)).unwrap();
        fs::create_dir_all(at(&format!("var/log/pods/my-shop_web-0_{POD}"))).unwrap();
        let volume = |source: &str, point: &str| {
            let found = volume(root.path().to_str().unwrap(), source, &format!("/{point}"))?;
            Some((found.name, found.claim.unwrap_or_default()))
        };
        let named = |name: &str, claim: &str| Some((name.to_owned(), claim.to_owned()));
        assert_eq!(
            volume("s:/e/pvc-1", &format!("{csi}/mount")),
            named("pvc-1", "")
        );
        let data = |text: &str| fs::write(at(&format!("{csi}/{DATA}")), text).unwrap();
        data("{\"specVolID\":\"pvc-1/x\",\"driverName\":\"nfs.csi.k8s.io\"}");
        assert_eq!(
            volume("s:/e/1", &format!("{csi}/mount")),
            named("pvc-1/x", "")
        );
        data(
            "{\"specVolID\":\"pvc-1\",\"attributes\":{\"csi.storage.k8s.io/pvc/name\":\"data\",\
             \"csi.storage.k8s.io/pvc/namespace\":\"shop\"}}",
        );
        assert_eq!(
            volume("s:/e/1", &format!("{csi}/mount")),
            named("pvc-1", "shop/data")
        );
        data("not JSON");
        assert_eq!(
            volume("s:/e/1", &format!("{csi}/mount")),
            named("pvc-1", "")
        );
        let subdir = "s:/e/my-shop-data-web-0-pvc-2";
        let nfs = format!("{pod}/volumes/kubernetes.io~nfs/pvc-2");
        assert_eq!(volume(subdir, &nfs), named("pvc-2", "my-shop/data-web-0"));
        let unknown = nfs.replace(POD, "another");
        assert_eq!(
            volume(subdir, &unknown),
            named("pvc-2", "my-shop-data-web-0")
        );
        let part = format!("{pod}/volume-subpaths/pvc-2/nginx/0");
        assert_eq!(volume("s:/e/x/sub", &part), named("pvc-2", ""));
        let global = "var/lib/kubelet/plugins/kubernetes.io/csi/nfs.csi.k8s.io/abc/globalmount";
        assert_eq!(volume("s:/e/1", global), None, "nobody says which");
        for docker in ["var/lib/docker/volumes/db/_data", "srv/volumes/db/_data"] {
            assert_eq!(volume("s:/e/1", docker), named("db", ""));
        }
        for other in [
            "mnt/volumes",
            "mnt/volumes/x",
            "var/lib/kubelet/pods/x/volumes/other/y",
        ] {
            assert_eq!(volume("s:/e/1", other), None, "{other}");
        }
    }
}
