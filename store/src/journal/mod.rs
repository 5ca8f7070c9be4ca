//! The journal: closed windows of the finest granularity, not sealed yet.
//!
//! ```text
//! header   magic "TIOJ" | format version u32 | length u32 | crc32c u32 | fields
//! frame    length u32 | kind u8 | crc32c u32 | crc32c u32 | payload
//! ```
//!
//! All fixed numbers are little-endian; fields and payloads are made of varints. The first checksum of a frame is of the
//! header's checksum, the place of the frame, its length and its kind; the second one goes on with the payload. A frame
//! is a window, or the operations of the window in the next frame, or definitions of files, which give the files of the
//! windows that follow a short local id. How far a journal goes is in a file beside it ([`end`]).
//!
//! Invariants:
//!
//! * append-only: a valid frame never changes;
//! * self-contained: a file is defined in a journal before a window of that journal refers to it,
//!   and again under a new id when its attributes change;
//! * a window is one frame, so its CRC makes it all or nothing; its operations do not count without it;
//! * what does not check was damaged where frames follow that do, or where the file beside the journal vouches for it;
//!   at the end, behind both, it was never reported durable; it is never guessed at, and all else counts;
//! * rows within a window are ordered by file key, so sealing can merge frames as streams.

pub(crate) mod bytes;
pub(crate) mod codec;
pub(crate) mod cursor;
pub(crate) mod definitions;
pub(crate) mod end;
pub(crate) mod file;
pub(crate) mod frame;
pub(crate) mod frame_reader;
pub(crate) mod header;
mod ops;
pub(crate) mod removal;
pub(crate) mod scan;
#[cfg(test)]
mod tests;
pub(crate) mod write;
