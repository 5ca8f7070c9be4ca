//! Columns of an answer. Each kind of row has one table of columns. It defines all machine formats and the names that
//! `--columns`, `--sort` and `--where` accept.

mod files;
mod inventory;
mod operations;
mod requests;
mod tenants;

pub use crate::column::*;
pub use tenants::{CONTAINER_ID, NAMESPACE, POD, tenants};
