//! Common code of the fuzz targets: captures, limits, inputs of two files, and mutations with correct checksums.

pub mod captures;
pub mod limits;
pub mod mutate;
pub mod parts;
pub mod questions;
pub mod sealed;

#[global_allocator]
static ALLOCATOR: limits::Limited = limits::Limited;
