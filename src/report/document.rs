//! The page of `trackiops serve` as one document, with its data.

use crate::serve::pages::{CSS, FAVICON, JS, REPORT_POLICY};

const BEGIN: &str = "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n";
const HEAD: &str = "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
    <meta name=\"color-scheme\" content=\"light dark\">\n<meta name=\"referrer\" content=\"no-referrer\">\n<title>TrackIOps</title>\n";
const BODY: &str = "</head>\n<body>\n<div id=\"app\"></div>\n\
    <noscript>This report needs JavaScript. It runs only what is in this file.</noscript>\n";

/// A report with this data, which is base64. The policy comes before all that it is for: nothing is loaded or sent, and only the
/// program and the style of this version are run, which it knows by their hashes.
pub fn with_data(data: &str) -> String {
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
        // Not a program: browsers do not run a type that they do not know.
        &format!("<script type=\"application/gzip\" id=\"report\">{data}</script>\n"),
        &format!("<script type=\"module\">{JS}</script>\n"),
        "</body>\n</html>\n",
    ]
    .concat()
}

/// How much data a report of `most` bytes has room for.
pub fn room(most: usize) -> usize {
    most.saturating_sub(with_data("").len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_ends_the_program_or_the_style_early() {
        let page = with_data("H4sIAAAA");
        for (end, count) in [("</script", 2), ("</style", 1), ("<!--", 0)] {
            assert_eq!(page.matches(end).count(), count, "{end}");
        }
        // Attributes are in double quotes.
        assert!(!REPORT_POLICY.contains('"'));
        assert!(room(1000) == 0 && room(page.len()) == 8);
    }
}
