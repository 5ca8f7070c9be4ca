//! The page of `trackiops serve` as one document, with its data.

use trackiops_render::report::escaped;
use trackiops_render::visible::visible;

use crate::serve::pages::{CSS, FAVICON, JS, REPORT_POLICY};

const BEGIN: &str = "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n";
const HEAD: &str = "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
    <meta name=\"color-scheme\" content=\"light dark\">\n<meta name=\"referrer\" content=\"no-referrer\">\n<title>TrackIOps</title>\n";
const BODY: &str = "</head>\n<body>\n";
const APP: &str = "<div id=\"app\"></div>\n\
    <noscript>This report needs JavaScript. It runs only what is in this file.</noscript>\n";

/// What a report begins with: what was slow, who suffered and what caused it.
pub fn verdict(sentences: &[String]) -> String {
    let items: String = sentences
        .iter()
        .map(|text| format!("<li>{}</li>\n", escaped(&visible(text))))
        .collect();
    let what = match sentences {
        [] => "<p>Nothing was slow in this time.</p>\n".to_owned(),
        _ => format!("<ul>\n{items}</ul>\n"),
    };
    format!(
        "<section aria-label=\"What was slow\">\n<p><strong>What was slow</strong></p>\n{what}</section>\n"
    )
}

/// A report with this verdict and data, which is base64. The policy comes before all that it is for: nothing is loaded or sent, and only the
/// program and the style of this version are run, which it knows by their hashes.
pub fn with_data(verdict: &str, data: &str) -> String {
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
        verdict,
        APP,
        // Not a program: browsers do not run an unknown type.
        &format!("<script type=\"application/gzip\" id=\"report\">{data}</script>\n"),
        &format!("<script type=\"module\">{JS}</script>\n"),
        "</body>\n</html>\n",
    ]
    .concat()
}

/// How much data a report of `most` bytes has room for, beside its verdict.
pub fn room(most: usize, verdict: &str) -> usize {
    most.saturating_sub(with_data(verdict, "").len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_ends_the_program_or_the_style_early() {
        let page = with_data(&verdict(&[]), "H4sIAAAA");
        for (end, count) in [("</script", 2), ("</style", 1), ("<!--", 0)] {
            assert_eq!(page.matches(end).count(), count, "{end}");
        }
        // Attributes are in double quotes.
        assert!(!REPORT_POLICY.contains('"'));
        let nothing = verdict(&[]);
        assert!(room(1000, &nothing) == 0 && room(page.len(), &nothing) == 8);
    }

    #[test]
    fn names_are_no_markup() {
        let verdict = verdict(&["`/a/<script>&\u{1b}[31m`".to_owned()]);
        assert!(verdict.contains("/a/&lt;script&gt;&amp;"), "{verdict}");
        assert!(!verdict.contains('\u{1b}'), "{verdict}");
    }
}
