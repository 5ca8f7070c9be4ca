//! HTTP on this host: where it is listened for ([`listen`]), which requests are answered ([`host`]), and what a
//! connection may cost ([`serve`]). What is answered is the caller's.

mod host;
mod listen;
mod serve;

pub use host::refuse_other_hosts;
pub use listen::{ListenAddress, ListenAddressError, ListenError, Listener};
pub use serve::serve;
