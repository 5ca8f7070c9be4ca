//! What the fuzz targets share: captures, limits, files of two parts, and changes behind which the checksums are right.

pub mod captures;
pub mod limits;
pub mod mutate;
pub mod parts;
pub mod questions;
pub mod sealed;

#[global_allocator]
static ALLOCATOR: limits::Limited = limits::Limited;
