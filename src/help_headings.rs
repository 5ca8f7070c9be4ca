//! Headings under which the flags of several commands stand in help.

pub const WHAT: &str = "What";
pub const WHEN: &str = "When";
pub const ROWS: &str = "Rows";
pub const OUTPUT: &str = "Output";
