//! Shortens texts of a user's files for messages: a first line may have megabytes.

use std::borrow::Cow;

/// Most characters of a name or a value.
const NAME: usize = 120;
/// Most characters of a message of a parser, which repeats what it found.
const MESSAGE: usize = 400;
/// Most names in a list.
const NAMES: usize = 16;

/// A name or a value, or the beginning of a long one.
pub fn short_name(name: &str) -> Cow<'_, str> {
    shortened(name, NAME)
}

/// A message, or the beginning of a long one.
pub fn short_message(message: &str) -> Cow<'_, str> {
    shortened(message, MESSAGE)
}

/// The first of some names, and the number of the others.
pub fn short_list<'n>(names: impl IntoIterator<Item = &'n str>) -> String {
    let mut names = names.into_iter();
    let first: Vec<_> = names.by_ref().take(NAMES).map(short_name).collect();
    let first = first.join(", ");
    match names.count() {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}

fn shortened(text: &str, most: usize) -> Cow<'_, str> {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}...", &text[..end]).into(),
        None => text.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_and_lists_are_cut_and_others_are_whole() {
        assert_eq!(short_name("/mnt/é"), "/mnt/é");
        let long = "é".repeat(NAME + 1);
        assert_eq!(short_name(&long), format!("{}...", "é".repeat(NAME)));
        assert_eq!(short_list(["a", "b"]), "a, b");
        assert_eq!(short_list([]), "");
        let many = short_list([&*long; 500]);
        assert!(many.ends_with(" and 484 more"), "{many}");
        assert!(many.chars().count() < NAMES * (NAME + 5) + 20, "{many}");
    }
}
