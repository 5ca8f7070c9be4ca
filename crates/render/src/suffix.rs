//! Chooses the format of a file by the suffix of its name.

use std::path::{Path, PathBuf};

use trackiops_query::Figures;

use crate::answer::Format;
use crate::distribution::DistributionFormat;
use crate::formats::{Kind, Texts};
use crate::plot::PictureFormat;
use crate::report::ReportFormat;

/// Formats, each with the suffixes that choose it.
pub type FormatsBySuffix<F> = [(F, &'static [&'static str])];

const PARQUET: &[&str] = &["parquet"];
const CSV: &[&str] = &["csv"];
const JSON: &[&str] = &["json", "jsonl", "ndjson"];
const ARROW: &[&str] = &["arrow", "feather", "ipc"];
const TABLE: &[&str] = &["txt"];
const HTML: &[&str] = &["html", "htm"];

/// Formats of answers.
pub const ANSWERS: &FormatsBySuffix<Format> = &[
    (Format::Parquet, PARQUET),
    (Format::Csv(Texts::AsTheyAre), CSV),
    (Format::Json, JSON),
    (Format::Arrow, ARROW),
    (Format::Table(Figures::Rates), TABLE),
];
/// Formats of reports.
pub const REPORTS: &FormatsBySuffix<ReportFormat> = &[
    (ReportFormat::Rows(Format::Parquet), PARQUET),
    (ReportFormat::Rows(Format::Csv(Texts::AsTheyAre)), CSV),
    (ReportFormat::Rows(Format::Json), JSON),
    (ReportFormat::Rows(Format::Arrow), ARROW),
    (ReportFormat::Rows(Format::Table(Figures::Rates)), TABLE),
    (ReportFormat::Html, HTML),
];
/// Formats of exports.
pub const EXPORTS: &FormatsBySuffix<Kind> = &[
    (Kind::Parquet, PARQUET),
    (Kind::Csv(Texts::AsTheyAre), CSV),
    (Kind::Arrow, ARROW),
    (Kind::Json, &["jsonl", "ndjson"]),
    (Kind::Chrome, &["json"]),
    (Kind::Perfetto, &["pftrace", "perfetto-trace"]),
];
/// Formats of flame graphs: whether stacks are folded.
pub const GRAPHS: &FormatsBySuffix<bool> = &[(false, &["svg"]), (true, &["folded"])];
/// Formats of latency distributions.
pub const DISTRIBUTIONS: &FormatsBySuffix<DistributionFormat> = &[
    (DistributionFormat::Csv, CSV),
    (DistributionFormat::Json, JSON),
    (DistributionFormat::Table, TABLE),
];
/// The format of pages.
pub const PAGES: &FormatsBySuffix<()> = &[((), HTML)];
/// Formats of plots.
pub const PLOTS: &FormatsBySuffix<PictureFormat> = &[
    (PictureFormat::Svg, &["svg"]),
    (PictureFormat::Png, &["png"]),
];

/// The suffix of a file does not suit its format.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SuffixError {
    /// No format has this suffix.
    #[error(
        "cannot write {}: `.{ending}` is not a format that this writes; end the name in {known}",
        .path.display()
    )]
    Unknown {
        /// The file.
        path: PathBuf,
        /// Its suffix.
        ending: String,
        /// The suffixes of all formats.
        known: String,
    },
    /// An option asks for another format.
    #[error("cannot write {}: `.{ending}` contradicts {option}; end the name in {fitting}", .path.display())]
    Contradicts {
        /// The file.
        path: PathBuf,
        /// Its suffix.
        ending: String,
        /// The option.
        option: String,
        /// The suffixes of the option's format.
        fitting: String,
    },
}

/// The format of the output at `path`; `None` is stdout. The suffix decides, or else an option (`--format csv`), or else `usual`. A suffix
/// that is unknown or contradicts the option is an error: it would mislead the readers of the file.
pub fn format_of<F: Copy + PartialEq>(
    path: Option<&Path>,
    known: &FormatsBySuffix<F>,
    asked: Option<(F, &str)>,
    usual: F,
) -> Result<F, SuffixError> {
    let otherwise = asked.map_or(usual, |(format, _)| format);
    let Some((path, ending)) = path.and_then(|path| Some((path, ending(path)?))) else {
        return Ok(otherwise);
    };
    let chosen = known
        .iter()
        .find(|(_, endings)| endings.contains(&&*ending));
    match (chosen, asked) {
        (None, _) => Err(SuffixError::Unknown {
            path: path.to_owned(),
            ending,
            known: list_of_endings(known.iter()),
        }),
        (Some((format, _)), Some((asked, option))) if *format != asked => {
            let fitting = known.iter().filter(|(format, _)| *format == asked);
            Err(SuffixError::Contradicts {
                path: path.to_owned(),
                ending,
                option: option.to_owned(),
                fitting: list_of_endings(fitting),
            })
        }
        (Some((format, _)), _) => Ok(*format),
    }
}

/// The suffix of a name, in lower case. Names of devices, pipes and directories have none.
fn ending(path: &Path) -> Option<String> {
    if path.metadata().is_ok_and(|there| !there.is_file()) {
        return None;
    }
    let ending = path.extension()?.to_string_lossy().to_lowercase();
    (!ending.is_empty()).then_some(ending)
}

/// `.csv, .json or .txt`
fn list_of_endings<'e, F: 'e>(
    formats: impl Iterator<Item = &'e (F, &'static [&'static str])>,
) -> String {
    list_with_or(formats.flat_map(|(_, endings)| endings.iter().map(|ending| format!(".{ending}"))))
}

/// `parquet, csv or arrow`
pub fn list_with_or(words: impl Iterator<Item = String>) -> String {
    let words: Vec<_> = words.collect();
    match words.split_last() {
        Some((last, others)) if !others.is_empty() => format!("{} or {last}", others.join(", ")),
        _ => words.concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: Format = Format::Table(Figures::Rates);
    const CSV: Format = Format::Csv(Texts::AsTheyAre);

    fn answer(path: &str, asked: Option<(Format, &str)>) -> Result<Format, SuffixError> {
        format_of(Some(Path::new(path)), ANSWERS, asked, TABLE)
    }

    #[test]
    fn the_ending_chooses_and_nothing_contradicts_it() {
        for (path, format) in [
            ("o.parquet", Format::Parquet),
            ("o.CSV", CSV),
            ("a.b/o.json", Format::Json),
            ("o.jsonl", Format::Json),
            ("o.ndjson", Format::Json),
            ("o.feather", Format::Arrow),
            ("o.ipc", Format::Arrow),
            ("o.txt", TABLE),
        ] {
            assert_eq!(answer(path, None).unwrap(), format, "{path}");
            assert_eq!(answer(path, Some((format, "--format"))).unwrap(), format);
        }
        let csv = Some((CSV, "--format csv"));
        for path in [
            "-",
            "o",
            "a.parquet/o",
            ".parquet",
            "o.",
            "/dev/null",
            "/dev/stdout",
        ] {
            assert_eq!(answer(path, None).unwrap(), TABLE, "{path}");
            assert_eq!(answer(path, csv).unwrap(), CSV, "{path}");
        }
        let error = |path, asked| answer(path, asked).unwrap_err().to_string();
        assert_eq!(
            error("o.parquet", csv),
            "cannot write o.parquet: `.parquet` contradicts --format csv; end the name in .csv"
        );
        assert_eq!(
            error("o.png", csv),
            "cannot write o.png: `.png` is not a format that this writes; end the name in .parquet, .csv, .json, .jsonl, .ndjson, .arrow, \
             .feather, .ipc or .txt"
        );
    }

    #[test]
    fn a_device_or_a_directory_has_no_ending() {
        let dir = tempfile::tempdir().unwrap();
        let odd = dir.path().join("out.png");
        std::fs::create_dir(&odd).unwrap();
        assert_eq!(answer(odd.to_str().unwrap(), None).unwrap(), TABLE);
    }
}
