//! Finds the container of a cgroup in the cgroup's path, as engines and Kubernetes write it.

/// The container that a cgroup's path names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ContainerOf<'p> {
    /// The container's id: 64 hexadecimal digits.
    pub id: Option<&'p str>,
    /// The pod's uid as written in the path; systemd's slices have `_` in place of `-`. See [`pod_uid`].
    pub pod: Option<&'p str>,
}

impl<'p> ContainerOf<'p> {
    /// The innermost container and pod of a path. Examples: `/kubepods/burstable/pod0a5f.../4e07...`,
    /// `/kubepods.slice/kubepods-pod0a5f....slice/cri-containerd-4e07....scope`, `/system.slice/docker-4e07....scope`.
    /// Cgroups that a container creates belong to it, too.
    pub fn cgroup(path: &'p str) -> Self {
        let parts = || path.rsplit('/');
        Self {
            id: parts().find_map(container_id),
            pod: parts().find_map(pod),
        }
    }
}

/// `<engine>-<id>.scope` or `<id>`.
fn container_id(part: &str) -> Option<&str> {
    let name = part.strip_suffix(".scope").unwrap_or(part);
    let id = name.rsplit_once('-').map_or(name, |(_, id)| id);
    is_container_id(id).then_some(id)
}

/// Whether a text is a container id.
pub fn is_container_id(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(is_lower_hex)
}

/// `...-pod<uid>.slice` or `pod<uid>`.
fn pod(part: &str) -> Option<&str> {
    let name = part.strip_suffix(".slice").unwrap_or(part);
    let at = match name.starts_with("pod") {
        true => 3,
        false => name.rfind("-pod")? + 4,
    };
    let uid = &name[at..];
    // A static pod, from a manifest on the node, has a hash in place of a uid.
    let digits = |uid: &str| uid.bytes().all(is_lower_hex);
    let is_hash = uid.len() == 32 && digits(uid);
    let mut groups = uid.split(['-', '_']);
    let is_uuid = [8, 4, 4, 4, 12].into_iter().all(|length| {
        let group = groups.next();
        group.is_some_and(|group| group.len() == length && digits(group))
    });
    (is_hash || is_uuid && groups.next().is_none()).then_some(uid)
}

fn is_lower_hex(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'a'..=b'f')
}

/// A pod's uid as Kubernetes writes it.
pub fn pod_uid(of_path: &str) -> String {
    of_path.replace('_', "-")
}

/// Namespace and pod in a [`crate::identity::Tenant::container`].
pub fn namespace_and_pod(container: &str) -> (Option<&str>, Option<&str>) {
    let mut names = container.split('/');
    (names.next(), names.next())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "4e07408562bedb8b60ce05c1decfe3ad16b72230967de01f640b7e4729b49fce";
    const POD: &str = "0a5f1c2e-58aa-4d7c-9b1e-6f0d3c2b1a09";
    const HASH: &str = "8c1f7a2b3d4e5f60718293a4b5c6d7e8";

    #[test]
    fn cgroups_of_engines_and_kubernetes_are_known() {
        let slice = POD.replace('-', "_");
        for (path, id, pod) in [
            (
                format!(
                    "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{slice}.slice/cri-containerd-{ID}.scope"
                ),
                Some(ID),
                Some(&*slice),
            ),
            (
                format!("/kubepods.slice/kubepods-pod{HASH}.slice/crio-{ID}.scope"),
                Some(ID),
                Some(HASH),
            ),
            (
                format!("/kubepods/besteffort/pod{POD}/{ID}"),
                Some(ID),
                Some(POD),
            ),
            (format!("/kubepods/pod{POD}"), None, Some(POD)),
            (
                format!(
                    "/docker/{}/kubelet.slice/kubelet-kubepods-pod{slice}.slice/cri-containerd-{ID}.scope",
                    "0".repeat(64)
                ),
                Some(ID),
                Some(&*slice),
            ),
            (format!("/system.slice/docker-{ID}.scope"), Some(ID), None),
            (
                format!("/system.slice/docker-{ID}.scope/init.scope"),
                Some(ID),
                None,
            ),
            (
                format!("/machine.slice/libpod-{ID}.scope/container"),
                Some(ID),
                None,
            ),
            (format!("/docker/{ID}"), Some(ID), None),
            (format!("/docker/{ID}0"), None, None),
            (format!("/docker/{}", ID.to_uppercase()), None, None),
            ("/kubepods/podcast".to_owned(), None, None),
            ("/system.slice/db.service".to_owned(), None, None),
            (format!("/x/pod{POD}-1"), None, None),
            ("/".to_owned(), None, None),
            ("?12345".to_owned(), None, None),
        ] {
            assert_eq!(
                ContainerOf::cgroup(&path),
                ContainerOf { id, pod },
                "{path}"
            );
        }
        assert_eq!(pod_uid(&slice), POD);
    }
}
