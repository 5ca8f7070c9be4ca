//! The journal: closed windows of the finest granularity that are not sealed yet.
//!
//! ```text
//! header   magic "TIOJ" | format version u32 | length u32 | crc32c u32 | fields
//! frame    length u32 | kind u8 | crc32c u32 | crc32c u32 | payload
//! ```
//!
//! Fixed-size numbers are little-endian. Fields and payloads consist of varints. The first checksum of a frame covers
//! the header's checksum, the frame's offset, its length and its kind. The second one continues the first over the
//! payload. A frame is a window, the operations or captured streams of the window in the next frame, or definitions of
//! files. Definitions give files short local ids for the windows that follow. A file beside the journal records its
//! length ([`end`]).
//!
//! Invariants:
//!
//! * append-only: a valid frame never changes;
//! * self-contained: a file is defined before a window of the journal refers to it, and again under a new id when its
//!   attributes change;
//! * a window is one frame, so its checksum makes it all or nothing; its operations and captured streams only count
//!   with it;
//! * bytes that do not match their checksum are damage if frames follow them, or if the `.end` file says that they were
//!   durable; otherwise they are a torn tail, which was never reported durable; all other frames count;
//! * rows within a window are ordered by file key, so sealing can merge frames as streams.

pub(crate) mod bytes;
mod captured;
pub(crate) mod cursor;
pub(crate) mod definitions;
pub(crate) mod end;
pub(crate) mod file;
pub(crate) mod frame;
pub(crate) mod frame_reader;
pub(crate) mod header;
mod ops;
pub(crate) mod payload;
pub(crate) mod removal;
pub(crate) mod scan;
#[cfg(test)]
mod tests;
pub(crate) mod write;
