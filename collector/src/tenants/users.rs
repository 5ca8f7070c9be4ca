//! Names of users, from `/etc/passwd`.
//!
//! Only the file is read, never the C library's databases (NSS). Their modules may ask a
//! server, such as LDAP, over a network that may hang just when the recorder is needed. NSS
//! also does not support statically linked programs such as the recorder. Users that only a
//! server knows have a number and no name.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ahash::AHashMap;
use trackiops_schemas::identity::name_text;
use trackiops_tenants::account_file::{FileVersion, read_if_changed};

use crate::clock::{MonotonicNs, is_due};

/// The path in the recorder's mount namespace.
const PASSWD: &str = "/etc/passwd";
/// Least time between checks of the file for changes.
const LOOK: Duration = Duration::from_secs(1);
/// Most bytes that are read, which bounds the time and the memory for names: some ten thousand
/// users.
const MOST_BYTES: u64 = 1 << 20;

/// Names of users by number.
pub struct Users {
    path: PathBuf,
    names: AHashMap<u32, Arc<str>>,
    looked: Option<MonotonicNs>,
    /// The file that was read.
    read: Option<FileVersion>,
}

impl Users {
    /// Without names yet.
    pub fn new() -> Self {
        Self::from_file(PASSWD.into())
    }

    /// [`Self::new`] with the names of another file.
    pub fn from_file(path: PathBuf) -> Self {
        Self {
            path,
            names: AHashMap::new(),
            looked: None,
            read: None,
        }
    }

    /// Reads the names, if they may have changed. If the file cannot be read, known names stay.
    pub fn refresh(&mut self, now: MonotonicNs) {
        if is_due(&mut self.looked, now, LOOK) {
            let _ = self.read();
        }
    }

    fn read(&mut self) -> io::Result<()> {
        let Some((passwd, version)) = read_if_changed(&self.path, MOST_BYTES, self.read)? else {
            return Ok(());
        };
        self.names = parse_passwd(&passwd);
        self.read = Some(version);
        Ok(())
    }

    /// The user's name, if known.
    pub fn name(&self, uid: u32) -> Option<Arc<str>> {
        self.names.get(&uid).cloned()
    }
}

/// If several users have the same number, the first one counts, as for getpwuid(3).
pub(crate) fn parse_passwd(passwd: &[u8]) -> AHashMap<u32, Arc<str>> {
    let mut names = AHashMap::new();
    let lines = passwd.split(|byte| *byte == b'\n');
    for line in lines {
        // Only names may have arbitrary bytes.
        let line = name_text(line);
        if let Some((uid, name)) = parse_user(&line) {
            names.entry(uid).or_insert_with(|| name.into());
        }
    }
    names
}

/// The user of a line of passwd(5), if it is one.
fn parse_user(line: &str) -> Option<(u32, &str)> {
    let mut fields = line.trim_start().split(':');
    let (name, _password) = (fields.next()?, fields.next()?);
    let number = |text: &str| {
        let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse().ok().filter(|_| is_number)
    };
    let uid: u32 = number(fields.next()?)?;
    number(fields.next()?)?;
    // `+` and `-` refer to NIS, and a name of digits would look like another user's number.
    let is_name = !name.starts_with(['+', '-', '#'])
        && !name.chars().any(char::is_control)
        && !name.bytes().all(|byte| byte.is_ascii_digit());
    is_name.then_some((uid, name))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Long enough for another check.
    const AWHILE: u64 = 1_000_000_001;

    fn name(users: &Users, uid: u32) -> Option<String> {
        users.name(uid).map(|name| name.to_string())
    }

    #[test]
    fn users_have_the_names_of_passwd() {
        let text = b"# comment:x:5:5::/:/bin/sh\n\
            root:x:0:0:root:/root:/bin/sh\n\
            toor:x:0:0::/root:/bin/sh\n\
            \n\
            alice:x:1000:1000:Alice,,,:/home/alice:/bin/sh\n\
            4711:x:1001:1001::/:/bin/sh\n\
            :x:1002:1002::/:/bin/sh\n\
            +bob:x:1003:1003::/:/bin/sh\n\
            +::::::\n\
            -carol:x:1004:1004::/:/bin/sh\n\
            dave:x:+1005:1005::/:/bin/sh\n\
            erin:x:-6:6::/:/bin/sh\n\
            frank:x:4294967296:1::/:/bin/sh\n\
            grace:x:1006\n\
            heidi:x::1007::/:/bin/sh\n\
            \xff\xfe:x:1008:1008::/:/bin/sh\n\
            iv\x07n:x:1009:1009::/:/bin/sh\n\
            \tj\xc3\xbcrgen:x:1010:1010::/:/bin/sh\n\
            last:x:65534:65534";
        let mut known: Vec<_> = parse_passwd(text)
            .into_iter()
            .map(|(uid, name)| (uid, name.to_string()))
            .collect();
        known.sort();
        let expected = [
            (0, "root"),
            (1000, "alice"),
            (1008, "\\xff\\xfe"),
            (1010, "j\u{fc}rgen"),
            (65534, "last"),
        ];
        assert_eq!(known, expected.map(|(uid, name)| (uid, name.to_owned())));
    }

    #[test]
    fn names_are_read_again_when_the_file_has_changed_and_kept_while_it_is_away() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("passwd");
        let replace = |text: &str| {
            let new = directory.path().join("passwd.new");
            fs::write(&new, text).unwrap();
            fs::rename(&new, &path).unwrap();
        };
        let mut users = Users::from_file(path.clone());
        users.refresh(MonotonicNs(0));
        assert_eq!(name(&users, 7), None, "there is no file");
        replace("alice:x:7:7::/:/bin/sh\n");
        users.refresh(MonotonicNs(AWHILE / 2));
        assert_eq!(name(&users, 7), None, "looked at a moment ago");
        users.refresh(MonotonicNs(AWHILE));
        assert_eq!(name(&users, 7).as_deref(), Some("alice"));
        replace("bob:x:7:7::/:/bin/sh\n");
        users.refresh(MonotonicNs(2 * AWHILE));
        assert_eq!(name(&users, 7).as_deref(), Some("bob"));
        fs::remove_file(&path).unwrap();
        users.refresh(MonotonicNs(3 * AWHILE));
        assert_eq!(name(&users, 7).as_deref(), Some("bob"));
        fs::create_dir(&path).unwrap();
        users.refresh(MonotonicNs(4 * AWHILE));
        assert_eq!(name(&users, 7).as_deref(), Some("bob"));
    }

    #[test]
    fn of_an_endless_file_the_beginning_counts() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("passwd");
        let line = |uid: u64| format!("user-{uid}:x:{uid}:{uid}::/home/user-{uid}:/bin/sh\n");
        let text: String = (0..40_000).map(line).collect();
        assert!(text.len() as u64 > MOST_BYTES);
        fs::write(&path, &text).unwrap();
        let mut users = Users::from_file(path);
        users.refresh(MonotonicNs(0));
        let whole = text[..MOST_BYTES as usize].matches('\n').count();
        assert_eq!(users.names.len(), whole, "no line that is cut off");
        assert_eq!(name(&users, 0).as_deref(), Some("user-0"));
    }
}
