//! The screen of `trackiops top`.
//!
//! [`Screen`] shows an [`App`] on a terminal until the user ends it; [`frame`] draws it once, as text. The rows come
//! from a [`Source`](trackiops_live::Source): the last windows of a recorder, or a store.

mod app;
mod baseline;
mod detail;
mod draw;
mod last_read;
mod screen;
mod table;
mod verdict;
mod view;

pub use app::App;
pub use screen::{Screen, frame, restore};
