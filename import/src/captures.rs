//! NFS requests of captures, as a recorder would have seen them.

mod calls;
pub mod files;
pub mod operations;
mod status;
