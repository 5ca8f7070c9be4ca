//! Imports other programs' recordings into a store.

pub mod captures;
