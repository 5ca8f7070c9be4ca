//! Width and characters of the terminal.

use std::env;
use std::io::{self, IsTerminal};

use terminal_size::{Width, terminal_size, terminal_size_of};
use trackiops_render::terminal_style::Look;

/// The layout of tables on stdout. In a pipe, they are as wide as they need to be, unless `COLUMNS` is set, and have no drawings.
pub fn stdout_look() -> Look {
    let is_terminal = io::stdout().is_terminal();
    let seen = || terminal_size().map(|(Width(width), _)| width.into());
    Look {
        width: columns().or_else(|| is_terminal.then(seen).flatten()),
        is_terminal,
        ..file_look()
    }
}

/// The layout of tables in a file: as wide as they need to be, and without drawings.
pub fn file_look() -> Look {
    Look {
        width: None,
        ascii: !is_utf8(|name| env::var(name).ok()),
        is_terminal: false,
    }
}

/// Cells of a line on stderr, if it is a terminal.
pub fn stderr_width() -> Option<usize> {
    let stderr = io::stderr();
    let seen = || terminal_size_of(&stderr).map(|(Width(width), _)| width.into());
    stderr
        .is_terminal()
        .then(|| columns().or_else(seen))
        .flatten()
}

/// The value of `COLUMNS`.
fn columns() -> Option<usize> {
    let columns = env::var("COLUMNS").ok()?.parse().ok();
    columns.filter(|width| *width > 0)
}

/// Whether the locale uses UTF-8. The first of these variables that is not empty decides.
fn is_utf8(variable: impl Fn(&'static str) -> Option<String>) -> bool {
    let mut names = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter();
    let locale = names.find_map(|name| variable(name).filter(|value| !value.is_empty()));
    let locale = locale.unwrap_or_default().to_lowercase();
    locale.contains("utf-8") || locale.contains("utf8")
}

#[cfg(test)]
mod tests {

    #[test]
    fn the_locale_says_which_characters_there_are() {
        let is_utf8 = |all: &str, lang: &str| {
            super::is_utf8(|name| match name {
                "LC_ALL" => Some(all.to_owned()),
                "LANG" => Some(lang.to_owned()),
                _ => None,
            })
        };
        assert!(is_utf8("", "de_DE.UTF-8"));
        assert!(is_utf8("C.utf8", "C"));
        assert!(!is_utf8("C", "de_DE.UTF-8"));
        assert!(!is_utf8("", ""));
    }
}
