//! The socket on which a recorder serves its windows.

use std::path::{Path, PathBuf};

/// The default socket.
const USUAL: &str = "/run/trackiops/live.sock";

/// The socket of a recorder.
#[derive(clap::Args)]
pub struct SocketFlag {
    /// The recorder's socket [default: /run/trackiops/live.sock]
    #[arg(long, value_name = "PATH", help_heading = crate::help_headings::WHAT)]
    socket: Option<PathBuf>,
}

impl SocketFlag {
    /// Its path.
    pub fn path(&self) -> &Path {
        self.socket.as_deref().unwrap_or(usual())
    }
}

/// The default socket.
pub fn usual() -> &'static Path {
    Path::new(USUAL)
}
