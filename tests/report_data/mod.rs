//! The content of a report.

use std::io::Read;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::read::GzDecoder;
use serde_json::Value;

const BEGIN: &str = "<script type=\"application/gzip\" id=\"report\">";

/// The page without its data, and the data.
pub fn parts(page: &str) -> (String, String) {
    let (before, rest) = page.split_once(BEGIN).unwrap();
    let (data, after) = rest.split_once("</script>").unwrap();
    let packed = STANDARD.decode(data).unwrap();
    let mut text = String::new();
    GzDecoder::new(&*packed).read_to_string(&mut text).unwrap();
    (format!("{before}{after}"), text)
}

/// The data.
#[allow(dead_code, reason = "some tests only look for names in the text")]
pub fn data(page: &str) -> Value {
    serde_json::from_str(&parts(page).1).unwrap()
}
