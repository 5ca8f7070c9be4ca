//! Paths as users type them, made absolute without access to a file system: a mount may hang.

use std::io;
use std::path::{Component, Path, PathBuf};

/// Makes a path absolute, without `.` and `..`. Links are not followed: `link/../a` is beside the link.
pub fn absolute_path(path: &Path) -> io::Result<PathBuf> {
    let mut plain = PathBuf::new();
    for component in std::path::absolute(path)?.components() {
        match component {
            Component::ParentDir => {
                plain.pop();
            }
            Component::CurDir => {}
            other => plain.push(other),
        }
    }
    Ok(plain)
}

/// Whether a typed mount may be a relative path: neither a source nor a pattern that matches any directory.
pub fn may_be_relative(mount: &str) -> bool {
    match mount.chars().next() {
        None | Some('/' | '*') => false,
        Some('.') => true,
        Some(_) => !mount.contains(':'),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_made_absolute_without_looking() {
        let here = std::env::current_dir().unwrap();
        for (typed, path) in [
            ("/mnt//a/./../b/", "/mnt/b".into()),
            ("/../a", "/a".into()),
            ("/no/such/../a", "/no/a".into()),
            ("x/../y", here.join("y")),
            ("./x", here.join("x")),
            ("..", here.parent().unwrap_or(&here).to_owned()),
        ] {
            assert_eq!(absolute_path(Path::new(typed)).unwrap(), path, "{typed}");
        }
        assert!(absolute_path(Path::new("")).is_err());
    }

    #[test]
    fn a_source_is_no_relative_path() {
        for typed in ["e", "./a:b", "..", "x/../y"] {
            assert!(may_be_relative(typed), "{typed}");
        }
        for typed in ["", "nas:/a", "nas:*", "/mnt/a", "*", "[::1]:/a"] {
            assert!(!may_be_relative(typed), "{typed}");
        }
    }
}
