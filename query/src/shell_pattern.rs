//! Patterns of names, as in a shell. A text that is not a pattern stands for the name itself.

use glob::Pattern;

/// The pattern of a text. If the text is not a pattern, such as a name with an unclosed `[`, it matches only itself.
pub(crate) fn pattern_of(text: &str) -> Pattern {
    let itself = || Pattern::new(&Pattern::escape(text));
    Pattern::new(text).or_else(|_| itself()).unwrap_or_default()
}

/// Why a text is not a pattern. Texts without wildcards are patterns.
pub(crate) fn why_no_pattern(text: &str) -> Option<&'static str> {
    Pattern::new(text).err().map(|error| error.msg)
}

/// Names the texts that are not patterns, for a message that nothing was found: `; X is not a pattern: ...`.
pub(crate) fn taken_as_written<'t>(texts: impl IntoIterator<Item = &'t String>) -> String {
    let said = texts.into_iter().filter_map(|text| {
        let why = why_no_pattern(text)?;
        Some(format!(
            "; {text} was taken as a name, because it is not a pattern: {why}; [[] in a pattern stands for a bracket"
        ))
    });
    said.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_is_not_a_pattern_matches_itself() {
        for text in ["a[b", "a[b*", "a**", "***", "[", "[!", "x/[a-"] {
            assert!(why_no_pattern(text).is_some(), "{text}");
            let pattern = pattern_of(text);
            assert!(pattern.matches(text) && !pattern.matches("ab"), "{text}");
        }
        assert!(pattern_of("a[b]").matches("ab") && why_no_pattern("a[b]").is_none());
        let texts = ["a".to_owned(), "a[b".to_owned()];
        let said = taken_as_written(&texts);
        assert!(said.starts_with("; a[b was taken as a name"), "{said}");
        assert_eq!(taken_as_written(&texts[..1]), "");
    }
}
