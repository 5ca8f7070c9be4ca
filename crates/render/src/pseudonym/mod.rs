//! Pseudonyms: they replace the names of files, servers, hosts and users in an export for others.
//!
//! Each component of a path is encrypted with AES-256-SIV (RFC 5297). It is deterministic: a component has the same token
//! everywhere, so trees and joins stay intact. It is authenticated, so a token of another key is detected.
//! Numbers that would confirm a guessed name ([`columns`]) are encrypted with FF1 (NIST SP 800-38G), and keep their size.
//! Only the holder of the key can reverse this.
//!
//! `tokens` makes pseudonyms; [`columns`] decides which column gets which kind.

pub mod check;
pub mod columns;
mod key;
mod tokens;

pub use check::Check;
pub use columns::{apply, known_schemas};
pub use key::{Key, KeyError};
pub use tokens::{Pseudonyms, Unknown, Way};
