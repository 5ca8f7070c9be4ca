//! Names that stand for names: what an export for others has in place of those of files, servers, hosts and users.
//!
//! A component, what stands between two slashes, is encrypted with AES-256-SIV (RFC 5297): deterministic, so that the same component
//! is the same token wherever it stands and trees and joins stay, and authenticated, so that a token of another key is known for
//! one. Numbers that would tell a name to whoever guesses it ([`columns`]) are encrypted with FF1 (NIST SP 800-38G) and stay numbers
//! of the same size. Whoever has the key can go back; nobody else can.

pub mod check;
pub mod columns;
mod key;
mod words;

pub use check::Check;
pub use columns::{apply, known_schemas};
pub use key::{Key, KeyError};
pub use words::{Pseudonyms, Unknown, Way};
