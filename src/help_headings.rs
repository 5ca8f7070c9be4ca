//! Headings of flags that several commands share.

pub const WHAT: &str = "What";
pub const WHEN: &str = "When";
pub const ROWS: &str = "Rows";
pub const TARGET: &str = "Target";
pub const OUTPUT: &str = "Output";
pub const EVENTS: &str = "Events";
