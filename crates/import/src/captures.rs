//! NFS requests of captures and of nfsdump text, as a recorder would have seen them.

mod calls;
mod files;
mod messages;
pub mod nfsdump;
pub(crate) mod operations;
pub mod pcap;
mod status;

pub use files::Files;
pub use messages::{MessageFiles, MessagesError};
