//! Safe display of text: each character takes its apparent room, or is an escape.
//!
//! Anyone who can create a file chooses its name. Some characters move the cursor, change the direction of text, or are
//! invisible. With them, a name could clear the screen or look like another name.

use std::borrow::Cow;
use std::io::{self, Write};

use serde::Serialize;
use serde_json::Serializer;
use serde_json::ser::Formatter;
use unicode_properties::{GeneralCategory, UnicodeGeneralCategory};
use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

/// Start of an escape; hexadecimal digits and a closing brace follow.
const ESCAPE: &str = "\\u{";

/// Escapes characters that are invisible or that change how others look, such as `\u{202e}`.
///
/// Escapes are unambiguous: a backslash that seems to start an escape becomes `\u{5c}`. All other backslashes stay, so that a
/// cgroup's `dev-disk\x2dby` can be copied. Do not apply this twice to a text.
pub fn visible(text: &str) -> Cow<'_, str> {
    if text.bytes().all(|b| matches!(b, b' '..=b'~') && b != b'\\') && !text.ends_with(' ') {
        return text.into();
    }
    let mut shown = String::with_capacity(text.len());
    // Trailing blanks are invisible.
    let end = text.trim_end_matches(' ').len();
    for (at, c) in text.char_indices() {
        match is_hidden(c) || at >= end || text[at..].starts_with(ESCAPE) {
            true => shown.extend(c.escape_unicode()),
            false => shown.push(c),
        }
    }
    shown.into()
}

/// Formats a value as JSON in one line. Characters that [`visible`] escapes get JSON's own escapes: other programs read the same
/// text, and a terminal does not act on it.
pub fn json(value: &(impl Serialize + ?Sized)) -> serde_json::Result<String> {
    let mut json = Vec::new();
    value.serialize(&mut Serializer::with_formatter(&mut json, Visible))?;
    Ok(String::from_utf8_lossy(&json).into_owned())
}

struct Visible;

impl Formatter for Visible {
    fn write_string_fragment<W: Write + ?Sized>(
        &mut self,
        out: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        let mut rest = fragment;
        while let Some(at) = rest.find(is_hidden) {
            let (seen, from) = rest.split_at(at);
            let mut hidden = from.chars();
            out.write_all(seen.as_bytes())?;
            for unit in hidden.by_ref().take(1).flat_map(units) {
                write!(out, "\\u{unit:04x}")?;
            }
            rest = hidden.as_str();
        }
        out.write_all(rest.as_bytes())
    }
}

/// A character in UTF-16, the encoding of JSON escapes.
fn units(c: char) -> impl Iterator<Item = u16> {
    let mut units = [0; 2];
    let taken = c.encode_utf16(&mut units).len();
    units.into_iter().take(taken)
}

/// Whether a character is hidden: controls, formats, line ends, blanks other than the space, ignorable characters, and code points without
/// a character. Formats include joiners of emoji sequences; terminals differ in the width of these.
pub(crate) fn is_hidden(c: char) -> bool {
    use GeneralCategory::{Control, Format, LineSeparator, ParagraphSeparator, SpaceSeparator};
    if matches!(c, ' '..='~') {
        return false;
    }
    let hidden = [
        Control,
        Format,
        LineSeparator,
        ParagraphSeparator,
        SpaceSeparator,
    ];
    hidden.contains(&c.general_category()) || is_ignorable(c) || is_no_character(c)
}

/// Characters with the property `Default_Ignorable_Code_Point` except format characters: joiners, fillers and variation
/// selectors.
fn is_ignorable(c: char) -> bool {
    matches!(c,
        '\u{34f}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}' | '\u{180b}'..='\u{180f}' | '\u{2065}' | '\u{3164}'
        | '\u{fe00}'..='\u{fe0f}' | '\u{ffa0}' | '\u{fff0}'..='\u{fff8}' | '\u{e0000}'..='\u{e0fff}')
}

/// Code points that never are characters. XML rejects some of them.
fn is_no_character(c: char) -> bool {
    matches!(c, '\u{fdd0}'..='\u{fdef}') || u32::from(c) & 0xfffe == 0xfffe
}

/// Width of a visible text on a terminal, cells.
pub fn width(text: &str) -> usize {
    match text.is_ascii() {
        true => text.len(),
        false => text.width(),
    }
}

/// The longest end of a visible text with at most `most` cells. It never splits a character or an escape.
pub(super) fn tail(text: &str, most: usize) -> &str {
    let mut taken = 0;
    let fitting = text.grapheme_indices(true).rev().take_while(|(_, one)| {
        taken += width(one);
        taken <= most
    });
    let start = fitting.last().map_or(text.len(), |(at, _)| at);
    let mut ends = text[start..].grapheme_indices(true);
    let end = ends.find(|(at, _)| {
        let end = &text[start + at..];
        !is_in_escape(text, start + at) && width(end) <= most
    });
    end.map_or("", |(at, _)| &text[start + at..])
}

/// The longest beginning of a visible text with at most `most` cells, and at least one character.
fn head(text: &str, most: usize) -> &str {
    let mut taken = 0;
    let mut places = text.grapheme_indices(true).skip(1);
    let first = text.graphemes(true).next().unwrap_or_default();
    taken += width(first);
    let end = places.find(|(_, one)| {
        taken += width(one);
        taken > most
    });
    end.map_or(text, |(at, _)| &text[..at])
}

/// Whether a position is inside an escape that begins before it.
fn is_in_escape(text: &str, place: usize) -> bool {
    let begun = text[..place].rfind('\\').map(|at| &text[at..place]);
    begun.is_some_and(|begun| {
        let is_digit = |c: char| c.is_ascii_hexdigit();
        match begun.strip_prefix(ESCAPE) {
            Some(digits) => digits.chars().all(is_digit),
            None => ESCAPE.starts_with(begun) && text[place - begun.len()..].starts_with(ESCAPE),
        }
    })
}

/// Wraps a visible line to at most `most` cells. It breaks between words, or inside a word that is longer than a line. Lines
/// after the first are indented.
pub fn wrap(line: &str, most: Option<usize>, indent: usize) -> String {
    let Some(most) = most.filter(|most| width(line) > *most) else {
        return line.to_owned();
    };
    let indent = indent.min(most / 2);
    let mut lines = String::new();
    let (mut rest, mut before) = (line, 0);
    while width(rest) + before > most {
        let fits = head(rest, most - before);
        let between_words = fits.rfind(' ').filter(|at| {
            let word = rest[at + 1..].split(' ').next().unwrap_or_default();
            !fits[..*at].trim().is_empty() && width(word) <= most - indent
        });
        let end = match between_words {
            Some(at) if !rest[fits.len()..].starts_with(' ') => at,
            _ => fits.len(),
        };
        lines.extend([&" ".repeat(before), rest[..end].trim_end(), "\n"]);
        (rest, before) = (rest[end..].trim_start(), indent);
    }
    lines + &" ".repeat(before) + rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    #[test]
    fn a_name_shows_what_it_is() {
        assert_eq!(visible("/mnt/home/orders.db"), "/mnt/home/orders.db");
        for (name, shown) in [
            ("evil\u{202e}gpj.exe", r"evil\u{202e}gpj.exe"),
            (
                "a b\u{1b}[2J\n\t\u{9b}\u{7f}é",
                r"a b\u{1b}[2J\u{a}\u{9}\u{9b}\u{7f}é",
            ),
            (
                "\u{200b}\u{200f}\u{61c}\u{2066}\u{2028}",
                r"\u{200b}\u{200f}\u{61c}\u{2066}\u{2028}",
            ),
            (
                "\u{ad}\u{34f}\u{180e}\u{feff}\u{2060}\u{ffff}",
                r"\u{ad}\u{34f}\u{180e}\u{feff}\u{2060}\u{ffff}",
            ),
            ("\u{e0041}❤\u{fe0f}", r"\u{e0041}❤\u{fe0f}"),
            (
                "データ 資料/e\u{301}/👍/\u{e000}",
                "データ 資料/e\u{301}/👍/\u{e000}",
            ),
            ("a\u{a0}b\u{3000} ", r"a\u{a0}b\u{3000}\u{20}"),
            (r"dev-disk\x2dby\n\", r"dev-disk\x2dby\n\"),
            (r"evil\u{202e}gpj.exe", r"evil\u{5c}u{202e}gpj.exe"),
        ] {
            assert_eq!(visible(name), shown);
        }
    }

    #[test]
    fn json_escapes_as_json_does() {
        let object = BTreeMap::from([("a\u{9b}", vec!["é\"\u{1b}\n", "\u{202e}\u{e0041}\u{7f}x"])]);
        let expected = r#"{"a\u009b":["é\"\u001b\n","\u202e\udb40\udc41\u007fx"]}"#;
        assert_eq!(json(&object).unwrap(), expected);
    }

    #[test]
    fn what_is_cut_begins_with_a_whole_character() {
        assert_eq!(tail("/mnt/home/orders.db", 9), "orders.db");
        assert_eq!(tail("/データ", 5), "ータ");
        assert_eq!(tail("cafe\u{301}", 1), "e\u{301}");
        assert_eq!(tail("🇩🇪🇫🇷", 3), "🇫🇷");
        assert_eq!(tail(r"evil\u{202e}gpj.exe", 12), "gpj.exe");
        assert_eq!(tail(r"evil\u{202e}gpj.exe", 15), r"\u{202e}gpj.exe");
        assert_eq!(tail("/a", 0), "");
    }

    #[test]
    fn sentences_break_between_words() {
        let line = "journal/7.tij: it is damaged";
        assert_eq!(wrap(line, None, 4), line);
        assert_eq!(wrap(line, Some(28), 4), line);
        assert_eq!(wrap(line, Some(20), 4), "journal/7.tij: it is\n    damaged");
        assert_eq!(
            wrap(line, Some(10), 4),
            "journal/7.\n    tij:\n    it is\n    damage\n    d"
        );
        assert_eq!(wrap("at:  /a/b/c/d", Some(9), 4), "at:  /a/b\n    /c/d");
        assert_eq!(wrap("  資料資料 b", Some(5), 0), "  資\n料資\n料 b");
    }

    proptest! {
        #[test]
        fn nothing_hidden_is_shown_and_names_stay_apart(text in any::<String>(), other in pieces()) {
            let shown = visible(&text);
            prop_assert!(!shown.contains(is_hidden), "{shown:?}");
            prop_assert_eq!(undone(&shown), text);
            prop_assert_eq!(undone(&visible(&other)), other);
        }

        #[test]
        fn json_shows_nothing_hidden_and_is_the_same_text(text in any::<String>(), hostile in pieces()) {
            for text in [text, hostile] {
                let shown = json(&text).unwrap();
                prop_assert!(!shown.contains(is_hidden), "{shown:?}");
                prop_assert_eq!(serde_json::from_str::<String>(&shown).unwrap(), text);
            }
        }

        #[test]
        fn a_cut_text_fits_and_is_an_end_of_whole_characters(text in any::<String>(), hostile in pieces(), most in 0_usize..24) {
            for text in [text, hostile] {
                let shown = visible(&text);
                let cut = tail(&shown, most);
                prop_assert!(width(cut) <= most && shown.ends_with(cut));
                let start = shown.len() - cut.len();
                let is_boundary = |(at, _): (usize, &str)| at == start;
                prop_assert!(cut.is_empty() || shown.grapheme_indices(true).any(is_boundary));
                prop_assert!(!is_in_escape(&shown, start));
                let most = most.max(2);
                for line in wrap(&shown, Some(most), 3).lines() {
                    let is_one = line.trim().graphemes(true).count() == 1;
                    prop_assert!(width(line) <= most || is_one, "{line:?}");
                }
            }
        }
    }

    /// Texts with many escapes, parts of escapes, and characters that need one.
    fn pieces() -> impl Strategy<Value = String> {
        let piece = prop::sample::select(vec![
            "\\u{", "\\", "u{", "202e", "}", "\u{202e}", "\n", "中", "e\u{301}", "👍🏽", "🇩🇪", "لا",
            "a",
        ]);
        prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
    }

    /// Reverses the escapes.
    fn undone(shown: &str) -> String {
        let mut text = String::new();
        let mut rest = shown;
        while let Some((before, after)) = rest.split_once(ESCAPE) {
            let (digits, after) = after.split_once('}').unwrap();
            text += before;
            text.push(char::from_u32(u32::from_str_radix(digits, 16).unwrap()).unwrap());
            rest = after;
        }
        text + rest
    }
}
