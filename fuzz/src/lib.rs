//! What the fuzz targets share: limits, files of two parts, and changes behind which the checksums are right.

pub mod limits;
pub mod mutate;
pub mod parts;
pub mod questions;
pub mod sealed;

#[global_allocator]
static ALLOCATOR: limits::Limited = limits::Limited;
