//! Facts about the machine for a bug report. Nothing in them names the machine, its files, users or servers.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::{env, fs};

use rustix::param::page_size;
use rustix::system::uname;

use crate::names::mountinfo::lines;

/// Options of NFS mounts whose values cannot name a server, a user or a file.
const NFS_OPTIONS: [&str; 30] = [
    "ro",
    "rw",
    "vers",
    "proto",
    "xprtsec",
    "nconnect",
    "max_connect",
    "trunkdiscovery",
    "rsize",
    "wsize",
    "hard",
    "soft",
    "softerr",
    "softreval",
    "timeo",
    "retrans",
    "sec",
    "noac",
    "actimeo",
    "acregmin",
    "acregmax",
    "acdirmin",
    "acdirmax",
    "nocto",
    "lookupcache",
    "local_lock",
    "nosharecache",
    "sync",
    "fsc",
    "nolock",
];

/// Facts about the machine, as names and values.
pub fn machine() -> Vec<(String, String)> {
    let root = Path::new("/");
    let mut facts = vec![
        ("trackiops".to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
        (
            "kernel build".to_owned(),
            uname().version().to_string_lossy().into_owned(),
        ),
        ("architecture".to_owned(), env::consts::ARCH.to_owned()),
        ("page size".to_owned(), page_size().to_string()),
    ];
    facts.extend(found_below(root));
    let mounts = read(root, "proc/self/mountinfo").unwrap_or_default();
    for (place, (options, number)) in nfs_mounts(&mounts).into_iter().enumerate() {
        let name = match place {
            0 => "NFS mounts".to_owned(),
            _ => format!("NFS mounts ({})", place + 1),
        };
        facts.push((name, format!("{number} with {options}")));
    }
    facts.push(("file systems on devices".to_owned(), on_devices(&mounts)));
    let variables = env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    let mut own: Vec<_> = variables
        .filter(|name| name.starts_with("TRACKIOPS_"))
        .collect();
    own.sort_unstable();
    facts.push(("variables that are set".to_owned(), listed(&own)));
    facts
}

/// Facts from files below `root`. A file that cannot be read is reported as unknown.
fn found_below(root: &Path) -> Vec<(String, String)> {
    let file = |name: &str| read(root, name).map(|text| text.trim().to_owned());
    let distribution = file("etc/os-release").and_then(|text| {
        let name = text
            .lines()
            .find_map(|line| line.strip_prefix("PRETTY_NAME="));
        name.map(|name| name.trim_matches('"').to_owned())
    });
    let memory = file("proc/meminfo").and_then(|text| {
        let total = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
        total.map(|total| total.trim().to_owned())
    });
    let is_virtual = file("proc/cpuinfo").map(|text| {
        let mut flags = text.lines().filter(|line| line.starts_with("flags"));
        match flags.any(|line| line.split(' ').any(|flag| flag == "hypervisor")) {
            true => "a virtual machine",
            false => "no hypervisor seen",
        }
        .to_owned()
    });
    let preemption = file("sys/kernel/debug/sched/preempt").and_then(|text| {
        let chosen = text.split_once('(')?.1.split_once(')')?.0;
        Some(chosen.to_owned())
    });
    let cgroups = file("proc/self/mountinfo").map(|text| {
        let is_there = |kind: &str| lines(&text).any(|mount| mount.kind == kind);
        match (is_there("cgroup2"), is_there("cgroup")) {
            (true, false) => "version 2",
            (true, true) => "versions 1 and 2",
            (false, true) => "version 1",
            (false, false) => "not mounted",
        }
        .to_owned()
    });
    let found = [
        ("distribution", distribution),
        ("CPUs online", file("sys/devices/system/cpu/online")),
        ("memory", memory),
        ("hypervisor", is_virtual),
        ("preemption", preemption),
        ("taint flags", file("proc/sys/kernel/tainted")),
        ("cgroups", cgroups),
        ("security modules", file("sys/kernel/security/lsm")),
        ("BPF JIT", file("proc/sys/net/core/bpf_jit_enable")),
        (
            "BPF closed to users",
            file("proc/sys/kernel/unprivileged_bpf_disabled"),
        ),
    ];
    let known = |value: Option<String>| value.unwrap_or_else(|| "unknown".to_owned());
    found
        .into_iter()
        .map(|(name, value)| (name.to_owned(), known(value)))
        .collect()
}

fn read(root: &Path, name: &str) -> Option<String> {
    fs::read(root.join(name))
        .ok()
        .map(|text| String::from_utf8_lossy(&text).into_owned())
}

/// The number of NFS mounts with each set of options, as far as these are in [`NFS_OPTIONS`].
fn nfs_mounts(mounts: &str) -> BTreeMap<String, usize> {
    let mut found = BTreeMap::new();
    for mount in lines(mounts) {
        if !matches!(mount.kind, "nfs" | "nfs4") {
            continue;
        }
        // The superblock begins with its own `rw` or `ro`.
        let of_superblock = mount.superblock_options.split(',').skip(1);
        let options = mount.options.split(',').chain(of_superblock);
        let shown = options.filter_map(|option| {
            let name = option.split('=').next().unwrap_or_default();
            // The value of `fsc` names a tag of the user's.
            let shown = if name == "fsc" { name } else { option };
            NFS_OPTIONS.contains(&name).then_some(shown)
        });
        let shown = shown.collect::<Vec<_>>().join(",");
        *found.entry(shown).or_default() += 1;
    }
    found
}

/// How many file systems of each kind are on devices.
fn on_devices(mounts: &str) -> String {
    let on_devices = lines(mounts).filter(|mount| mount.source.starts_with("/dev/"));
    // A file system may have several mounts.
    let all: BTreeSet<_> = on_devices.map(|mount| (mount.kind, mount.dev)).collect();
    let mut found: BTreeMap<&str, usize> = BTreeMap::new();
    for (kind, _) in all {
        *found.entry(kind).or_default() += 1;
    }
    let shown: Vec<_> = found
        .iter()
        .map(|(kind, number)| format!("{kind} {number}"))
        .collect();
    listed(&shown)
}

fn listed(values: &[String]) -> String {
    match values {
        [] => "none".to_owned(),
        values => values.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_are_described_without_servers_paths_and_addresses() {
        let options = "vers=4.2,rsize=1048576,hard,proto=tcp,nconnect=4,sec=sys,\
            clientaddr=10.1.2.3,local_lock=none";
        let mounts = format!(
            "36 22 0:49 / /mnt/private rw,relatime - nfs4 nas.example:/vol/a rw,{options},addr=10.9.8.7,fsc=secret\n\
            37 22 0:50 / /mnt/other rw,relatime - nfs4 nas.example:/vol/b rw,{options},addr=10.9.8.8,fsc\n\
            38 22 254:1 / /home rw - ext4 /dev/mapper/vg-home rw\n\
            39 22 254:1 /a /bound rw - ext4 /dev/mapper/vg-home rw\n"
        );
        let found = nfs_mounts(&mounts);
        let options =
            "rw,vers=4.2,rsize=1048576,hard,proto=tcp,nconnect=4,sec=sys,local_lock=none,fsc";
        assert_eq!(found, BTreeMap::from([(options.to_owned(), 2)]));
        assert_eq!(on_devices(&mounts), "ext4 1");
    }

    #[test]
    fn a_file_that_is_not_there_is_unknown() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("etc")).unwrap();
        fs::write(
            root.path().join("etc/os-release"),
            "ID=debian\nPRETTY_NAME=\"Debian 12\"\n",
        )
        .unwrap();
        let found: BTreeMap<_, _> = found_below(root.path()).into_iter().collect();
        assert_eq!(found["distribution"], "Debian 12");
        assert_eq!(found["memory"], "unknown");
        assert_eq!(found["cgroups"], "unknown");
    }

    #[test]
    fn versions_of_cgroups_are_those_that_are_mounted() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("proc/self")).unwrap();
        let version_2 = "30 24 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        let version_1 = "31 24 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n";
        for (lines, expected) in [
            (vec![version_2], "version 2"),
            (vec![version_2, version_1], "versions 1 and 2"),
            (vec![version_1], "version 1"),
            (vec!["1 1 0:1 / / rw - ext4 /dev/sda rw\n"], "not mounted"),
        ] {
            fs::write(root.path().join("proc/self/mountinfo"), lines.concat()).unwrap();
            let found: BTreeMap<_, _> = found_below(root.path()).into_iter().collect();
            assert_eq!(found["cgroups"], expected);
        }
    }
}
