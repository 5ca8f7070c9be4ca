//! The journal: closed windows of the finest granularity, not sealed yet.
//!
//! ```text
//! header   magic "TIOJ" | format version u32 | length u32 | crc32c u32 | fields
//! frame    length u32 | crc32c u32 | kind u8 | payload        (length and CRC cover kind and payload)
//! ```
//!
//! All fixed numbers are little-endian; fields and payloads are made of varints. A frame is a
//! window, or the operations of the window in the next frame, or definitions of files, which give the files of the
//! windows that follow a short local id.
//!
//! Invariants:
//!
//! * append-only: a valid frame never changes;
//! * self-contained: a file is defined in a journal before a window of that journal refers to it,
//!   and again under a new id when its attributes change;
//! * a window is one frame, so its CRC makes it all or nothing; its operations do not count without it;
//! * what does not check at the end was never reported durable, or is damaged, and is never guessed at; where frames
//!   follow that do check it was damaged, and they count;
//! * rows within a window are ordered by file key, so sealing can merge frames as streams.

pub(crate) mod codec;
pub(crate) mod cursor;
pub(crate) mod definitions;
pub(crate) mod format;
pub(crate) mod frames;
mod ops;
pub(crate) mod scan;
pub(crate) mod write;
