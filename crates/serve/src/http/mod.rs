//! HTTP: where to listen ([`listen`]), which requests to answer ([`host`], [`web_config`]), what a connection may cost ([`serve`]), and TLS
//! of both sides ([`tls`]). The caller provides the answers.

mod caller;
mod host;
mod listen;
mod serve;
mod small_file;
mod tls;
mod web_config;

pub use caller::Caller;
pub use host::{Hosts, is_followed_link, refuse_other_hosts, refuse_other_origins};
pub use listen::{ListenAddress, ListenAddressError, ListenError, Listener};
pub use serve::serve;
pub use small_file::{FileError, Kept, SeenFiles};
pub use tls::{ClientFiles, ClientTls, TlsError};
pub use web_config::{WebConfig, WebConfigError};
