//! Settings in a user's TOML file: prices, coefficients. Every mistake is reported with its line.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};
use trackiops_query::{near, parse_size};
use trackiops_schemas::shortened::{short_message, short_name};

/// Decimals of [`Settings::nanos`].
pub const NANO_DECIMALS: u8 = 9;

/// Most mistakes of a file in a message.
const MOST_MISTAKES: usize = 16;

/// The mistakes in a file, one line for each.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", first(.0))]
pub struct SettingsError(pub Vec<String>);

fn first(mistakes: &[String]) -> String {
    let most = mistakes.len().min(MOST_MISTAKES);
    let first = mistakes[..most].join("; ");
    match mistakes.len() - most {
        0 => first,
        more => format!("{first}; and {more} more"),
    }
}

/// Errors of the syntax of a TOML file, with their lines: the first of each line, because the others follow from it, and no more than fit a
/// message.
pub fn syntax_errors(text: &str, errors: &[toml::de::Error]) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut lines: Vec<Range<usize>> = Vec::new();
    for error in errors {
        let at = error.span().unwrap_or_default().start.min(text.len());
        if lines.iter().any(|line| line.contains(&at)) {
            continue;
        }
        let (before, behind) = text.as_bytes().split_at(at);
        let is_end = |byte: &u8| *byte == b'\n';
        let begin = before.iter().rposition(is_end).map_or(0, |end| end + 1);
        let end = behind
            .iter()
            .position(is_end)
            .map_or(text.len(), |end| at + end);
        lines.push(begin..end + 1);
        let why = short_message(error.message()).into_owned();
        found.push((line_of(text, at), why));
        if found.len() == MOST_MISTAKES {
            break;
        }
    }
    found
}

/// The line of a byte of a text, from 1.
pub fn line_of(text: &str, at: usize) -> usize {
    let before = text.bytes().take(at);
    before.filter(|byte| *byte == b'\n').count() + 1
}

/// A table that a file may have. Keys outside of tables belong to the table with the empty name.
pub struct Known {
    /// Its name.
    pub table: &'static str,
    /// Its keys, if they are fixed. Otherwise the user chooses them.
    pub keys: Option<&'static [&'static str]>,
}

#[derive(Clone, Debug)]
enum Content {
    Text(String),
    Number(String),
}

/// The content of a file.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Values by table and key, each with its place in the file.
    values: BTreeMap<(String, String), (String, Content)>,
}

impl Settings {
    /// Parses a file; `path` is for messages.
    pub fn parse(path: &Path, text: &str, known: &[Known]) -> Result<Self, SettingsError> {
        let place =
            |span: Range<usize>| format!("{}:{}", path.display(), line_of(text, span.start));
        let (tables, errors) = DeTable::parse_recoverable(text);
        if !errors.is_empty() {
            let errors = syntax_errors(text, &errors).into_iter();
            let errors = errors.map(|(line, why)| format!("{}:{line}: {why}", path.display()));
            return Err(SettingsError(errors.collect()));
        }
        let mut settings = Self::default();
        let mut problems = Vec::new();
        let mut add = |table: &str, key: &Spanned<_>, value: &Spanned<DeValue<'_>>| {
            let key: &std::borrow::Cow<'_, str> = key.get_ref();
            let at = place(value.span());
            let content = match value.get_ref() {
                DeValue::String(text) => Content::Text(text.to_string()),
                DeValue::Float(number) => Content::Number(number.as_str().to_owned()),
                DeValue::Integer(number) if number.radix() == 10 => {
                    Content::Number(number.as_str().to_owned())
                }
                other => {
                    let is = other.type_str();
                    let key = short_name(key);
                    problems.push(format!(
                        "{at}: {key} has a value of type {is}; write a number or a text"
                    ));
                    return;
                }
            };
            let keys = known.iter().find(|known| known.table == table);
            if let Some(keys) = keys.and_then(|known| known.keys)
                && !keys.contains(&&**key)
            {
                let within = match table {
                    "" => "outside of tables".to_owned(),
                    table => format!("in [{table}]"),
                };
                problems.push(format!(
                    "{at}: unknown key {} {within}{}",
                    short_name(key),
                    near(key, keys)
                ));
                return;
            }
            let name = (table.to_owned(), key.to_string());
            settings.values.insert(name, (at, content));
        };
        let mut unknown = Vec::new();
        for (name, content) in tables.get_ref() {
            match content.get_ref() {
                DeValue::Table(table) => {
                    let table_name = name.get_ref();
                    if !known
                        .iter()
                        .any(|known| !known.table.is_empty() && known.table == &**table_name)
                    {
                        let names: Vec<_> = known.iter().map(|known| known.table).collect();
                        let at = place(name.span());
                        unknown.push(format!(
                            "{at}: unknown table [{}]{}",
                            short_name(table_name),
                            near(table_name, &names)
                        ));
                        continue;
                    }
                    for (key, value) in table {
                        add(table_name, key, value);
                    }
                }
                _ => add("", name, content),
            }
        }
        problems.extend(unknown);
        match problems.is_empty() {
            true => Ok(settings),
            false => Err(SettingsError(problems)),
        }
    }

    /// A number of at least 0; `None` if the file does not have it.
    pub fn number(&self, table: &str, key: &str) -> Result<Option<f64>, SettingsError> {
        let Some((at, text)) = self.number_text(table, key)? else {
            return Ok(None);
        };
        match text.parse::<f64>() {
            Ok(number) if number >= 0.0 && number.is_finite() => Ok(Some(number)),
            _ => Err(SettingsError(vec![format!(
                "{at}: {key} is {}; write a number of at least 0",
                short_name(&text)
            )])),
        }
    }

    /// A number of at least 0, exact, in billionths.
    pub fn nanos(&self, table: &str, key: &str) -> Result<Option<i128>, SettingsError> {
        let Some((at, text)) = self.number_text(table, key)? else {
            return Ok(None);
        };
        match nanos(&text) {
            Some(nanos) => Ok(Some(nanos)),
            None => Err(SettingsError(vec![format!(
                "{at}: {key} is {}; write a number from 0 to 1000000000 with at most nine decimals and no exponent",
                short_name(&text)
            )])),
        }
    }

    /// A text; `None` if the file does not have it.
    pub fn text(&self, table: &str, key: &str) -> Result<Option<&str>, SettingsError> {
        match self.values.get(&(table.to_owned(), key.to_owned())) {
            None => Ok(None),
            Some((_, Content::Text(text))) => Ok(Some(text)),
            Some((at, Content::Number(_))) => {
                let line = format!("{at}: {key} is a number; write a text in quotes");
                Err(SettingsError(vec![line]))
            }
        }
    }

    /// All keys of a table, with sizes in bytes: a number, or a text such as "1.5TiB".
    pub fn sizes(&self, table: &str) -> Result<BTreeMap<String, u64>, SettingsError> {
        let mut sizes = BTreeMap::new();
        let of_table = self.values.iter().filter(|((of, _), _)| of == table);
        for ((_, key), (at, content)) in of_table {
            let (Content::Text(text) | Content::Number(text)) = content;
            let size = parse_size(text).map_err(|error| {
                let (key, why) = (short_name(key), error.to_string());
                SettingsError(vec![format!("{at}: {key}: {}", short_message(&why))])
            })?;
            sizes.insert(key.clone(), size);
        }
        Ok(sizes)
    }

    fn number_text(&self, table: &str, key: &str) -> Result<Option<(&str, String)>, SettingsError> {
        match self.values.get(&(table.to_owned(), key.to_owned())) {
            None => Ok(None),
            Some((at, Content::Number(text))) => Ok(Some((at, text.replace('_', "")))),
            Some((at, Content::Text(_))) => {
                let line = format!("{at}: {key} is a text; write a number without quotes");
                Err(SettingsError(vec![line]))
            }
        }
    }
}

/// A decimal number in billionths.
fn nanos(text: &str) -> Option<i128> {
    const MOST: i128 = 1_000_000_000_000_000_000;
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let decimals = usize::from(NANO_DECIMALS);
    let digits = format!(
        "{}{part:0<decimals$}",
        whole.strip_prefix('+').unwrap_or(whole)
    );
    let is_exact = part.len() <= decimals && digits.bytes().all(|b| b.is_ascii_digit());
    let nanos = digits.parse().ok().filter(|_| is_exact)?;
    (nanos <= MOST).then_some(nanos)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const KNOWN: &[Known] = &[
        Known {
            table: "",
            keys: Some(&["currency"]),
        },
        Known {
            table: "per_gib",
            keys: Some(&["read", "written"]),
        },
        Known {
            table: "stored",
            keys: None,
        },
    ];

    fn parse(text: &str) -> Result<Settings, String> {
        Settings::parse(Path::new("f.toml"), text, KNOWN).map_err(|error| error.to_string())
    }

    #[test]
    fn numbers_are_exact_and_sizes_have_units() {
        let settings = parse(
            "currency = 'EUR'\n[per_gib]\nread = 0.1\nwritten = 1_000\n[stored]\n\"alice:/a\" = '2KiB'\nb = 7\n",
        )
        .unwrap();
        assert_eq!(settings.nanos("per_gib", "read"), Ok(Some(100_000_000)));
        assert_eq!(
            settings.nanos("per_gib", "written"),
            Ok(Some(1_000_000_000_000))
        );
        assert_eq!(settings.number("per_gib", "read"), Ok(Some(0.1)));
        assert_eq!(settings.nanos("per_gib", "other"), Ok(None));
        assert_eq!(settings.text("", "currency"), Ok(Some("EUR")));
        let sizes = settings.sizes("stored").unwrap();
        assert_eq!(
            sizes.into_iter().collect::<Vec<_>>(),
            [("alice:/a".into(), 2048), ("b".into(), 7)]
        );
    }

    #[test]
    fn a_mistake_is_told_once_and_in_few_words() {
        let deep = "[".repeat(1 << 20);
        let error = parse(&format!("a = {deep}")).unwrap_err();
        assert_eq!(error.matches("f.toml").count(), 1, "{error}");
        let long = "k".repeat(1 << 20);
        let wrong: String = (0..100).map(|i| format!("a{i} = 1\n")).collect();
        for text in [
            format!("a = {}", "[\n".repeat(1 << 10)),
            format!("{long} = 1"),
            format!("[{long}]"),
            format!("currency = '{long}"),
            format!("[stored]\n{long} = '{long}'"),
            wrong,
        ] {
            let found = parse(&text).and_then(|settings| {
                let sizes = settings.sizes("stored");
                sizes.map_err(|error| error.to_string())
            });
            let error = found.unwrap_err();
            assert!(error.len() < 10_000 && error.contains("f.toml:"), "{error}");
        }
    }

    #[test]
    fn mistakes_are_told_with_their_lines_and_a_suggestion() {
        let error =
            parse("curency = 'EUR'\n[per_gib]\nreads = 1\n[per_gb]\nread = 1\n").unwrap_err();
        assert_eq!(
            error,
            "f.toml:1: unknown key curency outside of tables; did you mean currency?; f.toml:3: unknown key reads in [per_gib]; \
             did you mean read?; f.toml:4: unknown table [per_gb]; did you mean per_gib?"
        );
        assert!(parse("currency = ").unwrap_err().starts_with("f.toml:1: "));
        assert!(parse("currency = [1]").unwrap_err().contains("array"));
        let settings =
            parse("currency = 5\n[per_gib]\nread = -1\nwritten = 0.0000000001\n").unwrap();
        let error = settings.text("", "currency").unwrap_err().to_string();
        assert!(
            error.starts_with("f.toml:1: ") && error.contains("quotes"),
            "{error}"
        );
        assert!(settings.nanos("per_gib", "read").is_err());
        assert!(settings.number("per_gib", "read").is_err());
        assert!(settings.nanos("per_gib", "written").is_err());
        let settings = parse("[stored]\na = 'x'\n").unwrap();
        assert!(
            settings
                .sizes("stored")
                .unwrap_err()
                .to_string()
                .contains("f.toml:2: a: ")
        );
    }
}
