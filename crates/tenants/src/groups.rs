//! Groups of users, from `/etc/passwd` and `/etc/group`. The databases of the C library (NSS) are not asked: they may wait for a server.

use std::collections::HashMap;
use std::path::PathBuf;

use crate::account_file::{FileVersion, read_if_changed};

/// Most bytes of a file to read.
const MOST_BYTES: u64 = 4 << 20;

/// Groups of users, by user number.
#[derive(Clone, Debug)]
pub(crate) struct Groups {
    /// `/etc/passwd` and `/etc/group`.
    files: [AccountFile; 2],
    of_users: HashMap<u32, Vec<Group>>,
}

#[derive(Clone, Debug)]
struct AccountFile {
    path: PathBuf,
    text: String,
    /// The version of the text; `None` before the first reading.
    read: Option<FileVersion>,
}

impl AccountFile {
    /// Reads the file if it may have changed. Returns whether it was read.
    fn refresh(&mut self) -> bool {
        let Ok(Some((lines, version))) = read_if_changed(&self.path, MOST_BYTES, self.read) else {
            return false;
        };
        self.text = String::from_utf8_lossy(&lines).into_owned();
        self.read = Some(version);
        true
    }
}

/// A group by number and, if known, by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Group {
    pub(crate) gid: String,
    pub(crate) name: Option<String>,
}

impl Groups {
    /// The groups of this host. Empty until the first `refresh`.
    pub(crate) fn of_this_host() -> Self {
        Self::of_files([PathBuf::from("/etc/passwd"), PathBuf::from("/etc/group")])
    }

    pub(crate) fn of_files(files: [PathBuf; 2]) -> Self {
        Self {
            files: files.map(|path| AccountFile {
                path,
                text: String::new(),
                read: None,
            }),
            of_users: HashMap::new(),
        }
    }

    /// Reads files that may have changed. Returns whether groups may have changed. If a file cannot be read, its last content stays.
    pub(crate) fn refresh(&mut self) -> bool {
        let have_changed = self
            .files
            .each_mut()
            .map(AccountFile::refresh)
            .contains(&true);
        let [passwd, group] = &self.files;
        if !have_changed || passwd.read.is_none() || group.read.is_none() {
            return false;
        }
        self.of_users = groups(&passwd.text, &group.text);
        true
    }

    /// The groups of a user, the primary one first.
    pub(crate) fn of(&self, uid: u32) -> &[Group] {
        self.of_users.get(&uid).map_or(&[], Vec::as_slice)
    }
}

/// Parses `passwd` and `group` as described in passwd(5) and group(5).
fn groups(passwd: &str, group: &str) -> HashMap<u32, Vec<Group>> {
    let mut names: HashMap<&str, &str> = HashMap::new();
    let mut members: HashMap<&str, Vec<&str>> = HashMap::new();
    for line in group.lines() {
        let mut fields = line.split(':');
        if let (Some(name), Some(_), Some(gid), users) =
            (fields.next(), fields.next(), fields.next(), fields.next())
        {
            names.entry(gid).or_insert(name);
            for user in users
                .unwrap_or_default()
                .split(',')
                .filter(|user| !user.is_empty())
            {
                members.entry(user).or_default().push(gid);
            }
        }
    }
    let mut of_users = HashMap::new();
    for line in passwd.lines() {
        let mut fields = line.split(':');
        let (Some(user), Some(_), Some(uid), Some(gid)) =
            (fields.next(), fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        let Ok(uid) = uid.parse() else { continue };
        of_users.entry(uid).or_insert_with(|| {
            let others = members.get(user).into_iter().flatten().copied();
            let mut gids = vec![gid];
            for other in others {
                if !gids.contains(&other) {
                    gids.push(other);
                }
            }
            let group = |gid: &str| Group {
                gid: gid.to_owned(),
                name: names.get(gid).map(|name| (*name).to_owned()),
            };
            gids.into_iter().map(group).collect()
        });
    }
    of_users
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const PASSWD: &str = "root:x:0:0::/root:/bin/sh\nann:x:1000:1000::/home/ann:/bin/sh\nbob:x:1001:100::/:/bin/sh\n+::::\nann2:x:1000:5::/:\n";
    const GROUP: &str = "root:x:0:\nann:x:1000:\nusers:x:100:ann,bob\ndba:x:200:bob,ann\nbroken\n";

    #[test]
    fn a_user_is_in_the_primary_group_and_where_it_is_a_member() {
        let of_users = groups(PASSWD, GROUP);
        let names = |uid| -> Vec<&str> {
            let groups = of_users.get(&uid).into_iter().flatten();
            groups.filter_map(|group| group.name.as_deref()).collect()
        };
        assert_eq!(names(0), ["root"]);
        assert_eq!(names(1000), ["ann", "users", "dba"]);
        assert_eq!(names(1001), ["users", "dba"]);
        assert_eq!(of_users.get(&7), None);
    }

    #[test]
    fn changed_files_are_read_again_and_missing_ones_change_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let files = ["passwd", "group"].map(|name| directory.path().join(name));
        let mut known = Groups::of_files(files.clone());
        assert!(!known.refresh() && known.of(1000).is_empty());
        fs::write(&files[0], PASSWD).unwrap();
        fs::write(&files[1], GROUP).unwrap();
        assert!(known.refresh() && !known.refresh());
        assert_eq!(known.of(1000).len(), 3);
        fs::write(&files[1], "users:x:100:\n").unwrap();
        assert!(known.refresh());
        assert_eq!(
            known.of(1000),
            [Group {
                gid: "1000".into(),
                name: None
            }]
        );
        fs::remove_file(&files[1]).unwrap();
        assert!(!known.refresh());
        assert_eq!(known.of(1000).len(), 1);
    }
}
