//! The page of `trackiops serve` as one document, with its data.

use trackiops_render::connections;
use trackiops_render::parties::FIGURES;
use trackiops_render::report::escaped;
use trackiops_render::visible::visible;

use super::files::{CSS, FAVICON, JS, REPORT_POLICY};

const BEGIN: &str = "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n";
const HEAD: &str = "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
    <meta name=\"color-scheme\" content=\"light dark\">\n<meta name=\"referrer\" content=\"no-referrer\">\n<title>TrackIOps</title>\n";
const BODY: &str = "</head>\n<body>\n";
const APP: &str = "<div id=\"app\"></div>\n\
    <noscript>This report needs JavaScript. It runs only what is in this file.</noscript>\n";

/// The beginning of a report.
#[derive(Debug, Default)]
pub struct Head<'h> {
    /// The author's notes, one paragraph each.
    pub notes: &'h [String],
    /// Slow moments, victims and causes.
    pub sentences: Vec<String>,
    /// Culprits and victims: role, name, tenant, host, [`FIGURES`], and what they did.
    pub parties: Vec<[String; 9]>,
    /// The connections of slow mounts, in [`connections::COLUMNS`].
    pub connections: Vec<[String; 10]>,
    /// Marks in the range.
    pub marks: Vec<String>,
}

impl Head<'_> {
    /// Converts to HTML.
    pub fn html(&self) -> String {
        let verdict = match self.sentences[..] {
            [] => "<p>Nothing was slow in this time.</p>\n".to_owned(),
            _ => format!("<ul>\n{}</ul>\n", each(&self.sentences, "li")),
        };
        let [bytes, iops, p99, lost] = FIGURES;
        let columns = [
            "part", "name", "tenant", "host", bytes, iops, p99, lost, "what",
        ];
        let parties = table("Culprits and victims", columns, &self.parties);
        let connections = match self.connections[..] {
            [] => String::new(),
            _ => format!(
                "<p><strong>Connections, before and in the slow time</strong></p>\n{}",
                table("Connections", connections::COLUMNS, &self.connections)
            ),
        };
        let marks = match self.marks[..] {
            [] => String::new(),
            _ => format!(
                "<p><strong>Noted</strong></p>\n<ul>\n{}</ul>\n",
                each(&self.marks, "li")
            ),
        };
        format!(
            "<section aria-label=\"What was slow\">\n<p><strong>What was slow</strong></p>\n{}{verdict}{parties}{connections}{marks}</section>\n",
            each(self.notes, "p")
        )
    }
}

/// Texts in HTML, each in an element.
fn each(texts: &[String], tag: &str) -> String {
    let one = |of: &String| format!("<{tag}>{}</{tag}>\n", escaped(&visible(of)));
    texts.iter().map(one).collect()
}

/// A table in HTML; nothing without rows.
fn table<const N: usize>(name: &str, columns: [&str; N], rows: &[[String; N]]) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let column = |name: &str| format!("<th scope=\"col\">{name}</th>");
    let row = |cells: &[String; N]| format!("<tr>{}</tr>\n", each(cells, "td"));
    format!(
        "<div class=\"scroll\" role=\"region\" aria-label=\"{name}\" tabindex=\"0\"><table>\n\
         <thead><tr>{}</tr></thead>\n<tbody>\n{}</tbody></table></div>\n",
        columns.map(column).concat(),
        rows.iter().map(row).collect::<String>()
    )
}

/// A report from this head, in HTML, and data, in base64. The policy comes before everything that it covers: the page may neither load nor
/// send anything. It may only run this version's program and style, which the policy identifies by hash.
pub fn with_data(head: &str, data: &str) -> String {
    // `#` would begin a fragment.
    let icon = FAVICON.trim().replace('#', "%23").replace('"', "'");
    let policy = REPORT_POLICY.trim();
    [
        BEGIN,
        &format!("<meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n"),
        HEAD,
        &format!("<link rel=\"icon\" href=\"data:image/svg+xml,{icon}\">\n"),
        &format!("<style>{CSS}</style>\n"),
        BODY,
        head,
        APP,
        // Not a program: browsers do not run an unknown type.
        &format!("<script type=\"application/gzip\" id=\"report\">{data}</script>\n"),
        &format!("<script type=\"module\">{JS}</script>\n"),
        "</body>\n</html>\n",
    ]
    .concat()
}

/// Bytes of data that fit into a report of `most` bytes, in addition to its head.
pub fn room(most: usize, head: &str) -> usize {
    most.saturating_sub(with_data(head, "").len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_ends_the_program_or_the_style_early() {
        let page = with_data(&Head::default().html(), "H4sIAAAA");
        for (end, count) in [("</script", 2), ("</style", 1), ("<!--", 0)] {
            assert_eq!(page.matches(end).count(), count, "{end}");
        }
        // Attributes are in double quotes.
        assert!(!REPORT_POLICY.contains('"'));
        let nothing = Head::default().html();
        assert!(room(1000, &nothing) == 0 && room(page.len(), &nothing) == 8);
    }

    #[test]
    fn names_are_no_markup() {
        let hostile = || "`/a/<script>&\u{1b}[31m`".to_owned();
        let head = Head {
            notes: &[hostile()],
            sentences: vec![hostile()],
            parties: vec![std::array::from_fn(|_| hostile())],
            connections: vec![std::array::from_fn(|_| hostile())],
            marks: vec![hostile()],
        };
        let html = head.html();
        assert_eq!(html.matches("/a/&lt;script&gt;&amp;").count(), 22, "{html}");
        assert!(
            !html.contains("<script") && !html.contains('\u{1b}'),
            "{html}"
        );
    }
}
