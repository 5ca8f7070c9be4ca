//! Compares tables with an answer.

use serde_json::Value as Json;

use super::question::Question;

/// The last lines of a table, each as its cells.
fn table_rows(lines: &[String], count: usize) -> Vec<Vec<&str>> {
    let last = &lines[lines.len().saturating_sub(count)..];
    let mut rows = Vec::new();
    for line in last {
        let cells = line.split("  ").map(str::trim);
        rows.push(cells.filter(|cell| !cell.is_empty()).collect());
    }
    rows
}

/// Whether a cell shows a value: figures have three digits, and units.
pub fn is_shown(cell: &str, name: &str, value: &Json) -> bool {
    match value {
        Json::Null => cell == "-",
        Json::String(text) if name == "time" => {
            // Its header names the offset from UTC.
            cell == text.replace('T', " ").replace(".000Z", "").replace('Z', "")
        }
        Json::String(text) => cell == text,
        value if cell.parse().is_ok_and(|shown: i64| *value == shown) => true,
        value => {
            let (number, unit) = cell.split_once([' ', '%']).unwrap_or((cell, ""));
            let units = [
                ("us", 1.0),
                ("ms", 1e3),
                ("s", 1e6),
                ("B", 1.0),
                ("KiB", 1024.0),
                ("MiB", 1024.0 * 1024.0),
            ];
            let unit = unit.trim_end_matches("/s");
            let scale = match units.iter().find(|(name, _)| *name == unit) {
                Some((_, scale)) => *scale,
                None if cell.ends_with('%') => 0.01,
                None => 1.0,
            };
            let is_whole = value.is_i64() && !cell.contains(' ');
            let (Ok(number), Some(value)) = (number.parse::<f64>(), value.as_f64()) else {
                return false;
            };
            let distance = (number * scale - value).abs();
            !is_whole && distance <= (0.0051 * value.abs()).max(0.0051 * scale.min(1.0))
                || cell.ends_with('%') && distance <= 0.00051
        }
    }
}

/// Whether a tenant is shown with the name of its user, where the answer has the user's number.
fn is_of_user(cell: &str, value: &Json) -> bool {
    const NAMES: [&str; 2] = ["root", "alice"];
    let tenant = value.as_str().unwrap_or_default();
    let (number, cgroup) = tenant.split_once(':').unwrap_or((tenant, ""));
    let is_named = |name: &&str| cell.split_once(':').unwrap_or((cell, "")) == (*name, cgroup);
    number.parse::<u32>().is_ok() && NAMES.iter().any(is_named)
}

/// Compares the rows of a table, and their order, with those of an answer.
pub fn compare_table(
    question: &Question,
    names: &[String],
    expected: &[Vec<Json>],
    lines: &[String],
) {
    let asked = question.words.join(" ");
    let count = expected.len().min(question.most_rows());
    let rows = table_rows(lines, count);
    for (expected, cells) in expected.iter().zip(&rows) {
        let values = names.iter().zip(expected);
        let is_same = cells.len() == expected.len()
            && values.zip(cells).all(|((name, value), cell)| {
                is_shown(cell, name, value) || name == "tenant" && is_of_user(cell, value)
            });
        assert!(is_same, "table: {asked}\n{expected:?}\nshown as {cells:?}");
    }
    assert!(
        lines.len() > count && lines.len() <= count + 3,
        "table: {asked}: {} lines",
        lines.len()
    );
}
