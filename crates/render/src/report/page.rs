//! A report as one page without scripts.

use std::borrow::Cow;
use std::io::{self, Write};

use trackiops_query::times::{Zone, show_offset, show_range};
use trackiops_reports::report::About;

use super::ReportTable;
use crate::visible::visible;

const STYLE: &str = include_str!("style.css");
/// SHA-256 of [`STYLE`]. The page's policy allows only this style.
const STYLE_HASH: &str = "UgyWVwyXeWotsdLNWMiobNC4nkMjs2brApWhwfdKZ9k=";

/// Text of an element or of an attribute in quotes.
pub fn escaped(text: &str) -> Cow<'_, str> {
    if !text.contains(['&', '<', '>', '"', '\'']) {
        return text.into();
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c => escaped.push(c),
        }
    }
    escaped.into()
}

pub(super) fn write(
    about: &About,
    tables: &[&dyn ReportTable],
    zone: Zone,
    version: &str,
    out: &mut (dyn Write + Send),
) -> io::Result<()> {
    let title = escaped(about.title);
    write!(
        out,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'sha256-{STYLE_HASH}'; base-uri 'none'; \
         form-action 'none'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<meta name=\"referrer\" content=\"no-referrer\">\n\
         <title>{title} - TrackIOps</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n<h1>{title}</h1>\n"
    )?;
    let (start, end) = (about.range.start, about.range.end);
    let range = show_range(start, end, zone);
    let offset = show_offset(start, zone);
    if !about.range.is_empty() {
        writeln!(out, "<p class=\"range\">{range} ({offset})</p>")?;
    }
    if let Some(verdict) = &about.verdict {
        writeln!(out, "<p>{}</p>", escaped(&visible(verdict)))?;
    }
    let mut said: Vec<String> = Vec::new();
    let notes = about.notes.iter().map(|note| note.show(zone));
    for line in about.remarks.iter().cloned().chain(notes) {
        if !said.contains(&line) {
            writeln!(out, "<p class=\"note\">{}</p>", escaped(&visible(&line)))?;
            said.push(line);
        }
    }
    for table in tables {
        write_table(*table, zone, out)?;
    }
    writeln!(out, "<section>\n<h2>Method</h2>")?;
    for paragraph in about.method {
        writeln!(out, "<p>{}</p>", escaped(paragraph))?;
    }
    let version = escaped(version);
    writeln!(
        out,
        "</section>\n</main>\n<footer>Made by trackiops {version}: <code>trackiops report {}</code></footer>\n</body>\n</html>",
        about.name
    )
}

fn write_table(
    table: &dyn ReportTable,
    zone: Zone,
    out: &mut (dyn Write + Send),
) -> io::Result<()> {
    let (name, caption) = (escaped(table.name()), escaped(table.caption()));
    writeln!(
        out,
        "<section>\n<h2>{name}</h2>\n<p class=\"caption\">{caption}</p>"
    )?;
    if table.is_empty() {
        return writeln!(out, "<p>No rows.</p>\n</section>");
    }
    writeln!(out, "<div class=\"scroll\">\n<table>")?;
    let drawn = table.for_people(zone);
    let mut line = |cells: &mut dyn Iterator<Item = (bool, &str)>, tag: &str| {
        let mut text = String::from("<tr>");
        for (is_number, cell) in cells {
            let class = if is_number { " class=\"n\"" } else { "" };
            text += &format!("<{tag}{class}>{}</{tag}>", escaped(cell));
        }
        text += "</tr>\n";
        out.write_all(text.as_bytes())
    };
    line(&mut drawn.header_cells(), "th")?;
    for mut cells in drawn.line_cells() {
        line(&mut cells, "td")?;
    }
    out.write_all(b"</table>\n</div>\n</section>\n")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use base64::prelude::{BASE64_STANDARD, Engine};
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn the_policy_allows_the_style_of_the_page() {
        let mut program = Command::new("sha256sum")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        program
            .stdin
            .take()
            .unwrap()
            .write_all(STYLE.as_bytes())
            .unwrap();
        let output = program.wait_with_output().unwrap().stdout;
        let hex = String::from_utf8(output).unwrap();
        let bytes: Vec<_> = (0..32)
            .map(|i| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).unwrap())
            .collect();
        assert_eq!(STYLE_HASH, BASE64_STANDARD.encode(bytes));
        assert!(!STYLE.contains('<'));
    }

    #[test]
    fn text_cannot_become_markup() {
        assert_eq!(escaped("/a/<b>&\"'"), "/a/&lt;b&gt;&amp;&quot;&#39;");
        assert_eq!(escaped("/plain"), "/plain");
    }
}
