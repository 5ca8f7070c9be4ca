//! READs and WRITEs of a capture, including those whose call or reply is missing.

use super::Source;
use super::columns::{Flags, Numbers};
use super::files::{self, IOS};
use crate::error::AnalysisError;

/// A READ or WRITE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CapturedIo {
    /// A READ, or else a WRITE.
    pub is_read: bool,
    /// First byte.
    pub offset: u64,
    /// Bytes transferred.
    pub bytes: u64,
}

/// Passes on all READs and WRITEs of a source. Returns their number.
pub fn read(
    source: &Source,
    analysis: &'static str,
    mut each: impl FnMut(CapturedIo),
) -> Result<u64, AnalysisError> {
    let mut rows = 0;
    for path in source.files(IOS, analysis)? {
        files::read(&path, &["is_read", "offset_bytes", "done_bytes"], |batch| {
            let reads = Flags::of(batch, "is_read")?;
            let offsets = Numbers::of(batch, "offset_bytes")?;
            let done = Numbers::of(batch, "done_bytes")?;
            for row in 0..batch.num_rows() {
                rows += 1;
                each(CapturedIo {
                    is_read: reads.get(row) == Some(true),
                    offset: offsets.count(row).unwrap_or_default(),
                    bytes: done.count(row).unwrap_or_default(),
                });
            }
            Ok(())
        })?;
    }
    Ok(rows)
}
