//! Patterns that capture the text of their `{name}`s.

use std::collections::BTreeMap;

use regex::Regex;

/// The text that each `{name}` of a rule matched.
pub(crate) type Captures = BTreeMap<String, String>;

/// A pattern with `*`, `**`, `?`, `[a-z]` and `{name}`. It must match the whole text.
#[derive(Clone, Debug)]
pub(crate) struct Pattern {
    regex: Regex,
}

/// Why a text is not a pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PatternError {
    #[error("`{{` without a name and `}}`: write {{name}}, of letters, digits and _")]
    Name,
    #[error("{{{0}}} is there twice")]
    Twice(String),
    #[error("`[` without characters and `]`; write [[] for the character itself")]
    Class,
    #[error("it is too long")]
    Size,
}

impl Pattern {
    /// Parses a pattern.
    pub(crate) fn parse(text: &str) -> Result<Self, PatternError> {
        Self::with_star(text, "[^/]*")
    }

    /// Parses a pattern where `*` matches any text, like all patterns of mounts.
    pub(crate) fn of_mounts(text: &str) -> Result<Self, PatternError> {
        Self::with_star(text, ".*")
    }

    fn with_star(text: &str, star: &str) -> Result<Self, PatternError> {
        let mut regex = String::from(r"(?s)\A");
        let mut names = Vec::new();
        let mut rest = text;
        while let Some(next) = rest.chars().next() {
            let taken = match next {
                '*' if rest.starts_with("**") => {
                    // `/**/` matches any number of directories, including none.
                    let is_between = regex.ends_with('/') && rest.starts_with("**/");
                    regex.push_str(if is_between { "(?:.*/)?" } else { ".*" });
                    if is_between { 3 } else { 2 }
                }
                '*' => {
                    regex.push_str(star);
                    1
                }
                '?' => {
                    regex.push_str("[^/]");
                    1
                }
                '{' => {
                    let name = name_at(rest).ok_or(PatternError::Name)?;
                    if names.contains(&name) {
                        return Err(PatternError::Twice(name.into()));
                    }
                    names.push(name);
                    regex.push_str(&format!("(?<{name}>[^/]+)"));
                    name.len() + 2
                }
                '[' => {
                    let class = class_at(rest).ok_or(PatternError::Class)?;
                    regex.push_str(&class_of(class));
                    class.len() + 2
                }
                other => {
                    regex.push_str(&regex::escape(other.encode_utf8(&mut [0; 4])));
                    other.len_utf8()
                }
            };
            rest = &rest[taken..];
        }
        regex.push_str(r"\z");
        match Regex::new(&regex) {
            Ok(regex) => Ok(Self { regex }),
            Err(regex::Error::CompiledTooBig(_)) => Err(PatternError::Size),
            Err(_) => Err(PatternError::Class),
        }
    }

    /// Names of its captures.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.regex.capture_names().flatten()
    }

    /// Whether the whole text matches, and its captures agree with `known`. Then adds the captures to `known`.
    pub(crate) fn matches(&self, text: &str, known: &mut Captures) -> bool {
        let Some(found) = self.regex.captures(text) else {
            return false;
        };
        let found = self
            .names()
            .filter_map(|name| Some((name, found.name(name)?.as_str())));
        let found: Vec<_> = found.collect();
        let agrees =
            |(name, text): &(&str, &str)| known.get(*name).is_none_or(|known| known == text);
        let agree = found.iter().all(agrees);
        if agree {
            let found = found.into_iter();
            known.extend(found.map(|(name, text)| (name.to_owned(), text.to_owned())));
        }
        agree
    }
}

/// The name of a text that begins with `{name}`.
pub(crate) fn name_at(text: &str) -> Option<&str> {
    let (name, _) = text.strip_prefix('{')?.split_once('}')?;
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    (is_name && name.chars().all(is_word)).then_some(name)
}

/// The text between the brackets if `text` begins with `[...]`. A leading `]` is one of its characters.
fn class_at(text: &str) -> Option<&str> {
    let inner = text.strip_prefix('[')?;
    let begin = inner.strip_prefix('!').unwrap_or(inner);
    let begin = begin.strip_prefix(']').unwrap_or(begin);
    let end = inner.len() - begin.len() + begin.find(']')?;
    (end > 0 && &inner[..end] != "!").then(|| &inner[..end])
}

/// Translates `[a-z]` and `[!a-z]`. Neither matches a `/`.
fn class_of(class: &str) -> String {
    let (begin, characters, end) = match class.strip_prefix('!') {
        Some(but) => ("[^/", but, "]"),
        None => ("[", class, "&&[^/]]"),
    };
    let mut regex = begin.to_owned();
    for (i, character) in characters.char_indices() {
        let is_range = character == '-' && i > 0 && i + 1 < characters.len();
        match character {
            _ if is_range => regex.push('-'),
            other if other.is_ascii_punctuation() => regex.extend(['\\', other]),
            other => regex.push(other),
        }
    }
    regex + end
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matched(pattern: &str, text: &str) -> Option<Vec<(String, String)>> {
        let mut known = Captures::new();
        let is_match = Pattern::parse(pattern).unwrap().matches(text, &mut known);
        is_match.then(|| known.into_iter().collect())
    }

    fn is_match(pattern: &str, text: &str) -> bool {
        matched(pattern, text).is_some()
    }

    #[test]
    fn a_star_stays_in_its_directory_and_two_do_not() {
        assert!(is_match("/a/*", "/a/b") && !is_match("/a/*", "/a/b/c"));
        assert!(is_match("/a/**", "/a/b/c") && is_match("/a/**", "/a/"));
        assert!(!is_match("/a/**", "/a") && !is_match("/a/**", "/ab/c"));
        for text in ["/a/z", "/a/b/z", "/a/b/c/z"] {
            assert!(is_match("/a/**/z", text), "{text}");
        }
        assert!(!is_match("/a/**/z", "/a/bz"));
        assert!(is_match("**.log", "/x/y.log") && !is_match("*.log", "/x/y.log"));
        assert!(is_match("a?c", "abc") && is_match("a?c", "a\u{e9}c") && !is_match("a?c", "a/c"));
        assert!(is_match("/\n*", "/\nab\n"));
        let mounts = Pattern::of_mounts("nas:*").unwrap();
        assert!(mounts.matches("nas:/a/b", &mut Captures::new()));
    }

    #[test]
    fn characters_in_brackets_stand_for_one() {
        assert!(is_match("[a-c]x", "bx") && !is_match("[a-c]x", "dx"));
        assert!(
            is_match("[!a-c]x", "dx") && !is_match("[!a-c]x", "ax") && !is_match("[!a]x", "/x")
        );
        assert!(is_match("[*]", "*") && !is_match("[*]", "a") && is_match("[[]", "["));
        assert!(is_match("[]-]", "-") && is_match("[]-]", "]") && is_match("[^a]", "^"));
        assert!(is_match("a.b+(c)|", "a.b+(c)|") && !is_match("a.b", "axb"));
        assert!(!is_match("[.-0]", "/"));
    }

    #[test]
    fn a_name_stands_for_a_part_of_a_component() {
        let kept = |of: &[(&str, &str)]| {
            let kept = of.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned()));
            Some(kept.collect::<Vec<_>>())
        };
        assert_eq!(
            matched("/vols/{t}/**", "/vols/acme/x/y"),
            kept(&[("t", "acme")])
        );
        assert_eq!(
            matched("/vols/{t}-{disk}/**", "/vols/a-b-0/x"),
            kept(&[("disk", "0"), ("t", "a-b")])
        );
        assert_eq!(matched("/vols/{t}/**", "/vols//x"), None);
        let mut known = Captures::from([("t".to_owned(), "acme".to_owned())]);
        let pattern = Pattern::parse("{t}").unwrap();
        assert!(pattern.matches("acme", &mut known) && !pattern.matches("other", &mut known));
    }

    #[test]
    fn what_is_no_pattern_is_named() {
        let error = |text: &str| Pattern::parse(text).unwrap_err();
        for text in ["{", "{}", "{1a}", "{a b}", "a{b"] {
            assert_eq!(error(text), PatternError::Name, "{text}");
        }
        assert_eq!(error("{a}/{a}"), PatternError::Twice("a".into()));
        for text in ["[", "[]", "[!]", "[!", "[z-a]"] {
            assert_eq!(error(text), PatternError::Class, "{text}");
        }
    }
}
