//! HTTP for users of this host: where to listen ([`listen`]), which requests to answer ([`host`]), and what a connection may cost
//! ([`serve`]). The caller provides the answers.

mod host;
mod listen;
mod serve;

pub use host::{Hosts, is_followed_link, refuse_other_hosts, refuse_other_origins};
pub use listen::{ListenAddress, ListenAddressError, ListenError, Listener};
pub use serve::{Caller, serve};
