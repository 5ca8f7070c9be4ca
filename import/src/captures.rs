//! NFS requests of captures, as a recorder would have seen them.

pub mod files;
pub mod operations;
mod status;
