//! HTTP of a host for its own users: where it is listened for ([`listen`]), which requests are answered ([`host`]), and
//! what a connection may cost ([`serve`]). What is answered is the caller's.

mod host;
mod listen;
mod serve;

pub use host::{Hosts, is_followed_link, refuse_other_hosts, refuse_other_origins};
pub use listen::{ListenAddress, ListenAddressError, ListenError, Listener};
pub use serve::{Caller, serve};
