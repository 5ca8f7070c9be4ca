//! Where to listen for HTTP.

use std::fmt;
use std::fs;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use rustix::process::geteuid;
use tokio::net::{TcpListener, UnixListener, UnixStream};

use crate::http::web_config::WebConfig;

/// Only the user and group of the process may connect.
const SOCKET_MODE: u32 = 0o660;

/// An address of this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenAddress {
    /// A socket with this path.
    Unix(PathBuf),
    /// An address and a port. Every user of the host can connect to it and, unless it is a loopback address, other hosts can, too.
    Tcp(SocketAddr),
}

/// The text is not an address to listen at.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no address: write unix:/PATH, 127.0.0.1:PORT or [::1]:PORT")]
pub struct ListenAddressError(String);

impl FromStr for ListenAddress {
    type Err = ListenAddressError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let malformed = || ListenAddressError(text.to_owned());
        if let Some(path) = text.strip_prefix("unix:") {
            return match Path::new(path).is_absolute() {
                true => Ok(Self::Unix(path.into())),
                false => Err(malformed()),
            };
        }
        let address: SocketAddr = match text.strip_prefix("localhost:") {
            Some(port) => format!("127.0.0.1:{port}").parse(),
            None => text.parse(),
        }
        .map_err(|_| malformed())?;
        Ok(Self::Tcp(address))
    }
}

impl ListenAddress {
    /// Whether other hosts cannot connect to it.
    pub fn is_local(&self) -> bool {
        match self {
            Self::Unix(_) => true,
            Self::Tcp(address) => address.ip().is_loopback(),
        }
    }

    /// Refuses an address to which other hosts can connect, unless `web` encrypts connections and knows callers.
    pub fn refuse_open(&self, web: Option<&WebConfig>) -> Result<(), ListenError> {
        let is_closed = web.is_some_and(|web| web.has_tls() && web.knows_callers());
        match self.is_local() || is_closed {
            true => Ok(()),
            false => Err(ListenError::Open(self.clone())),
        }
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp(address) => write!(f, "{address}"),
        }
    }
}

/// Listening failed.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// The process is root.
    #[error(
        "refusing to serve HTTP as root, which needs no privileges: run it as another user of the group that the store belongs to, for example by `setpriv --reuid=nobody --regid=trackiops --clear-groups`, or as the service of the package"
    )]
    IsRoot,
    /// Other hosts could ask without a password or a certificate.
    #[error(
        "{0} can be reached by other hosts: name a file by --web-config that has tls_server_config, and basic_auth_users or the client_auth_type RequireAndVerifyClientCert; or listen at 127.0.0.1:PORT, [::1]:PORT or unix:/PATH"
    )]
    Open(ListenAddress),
    /// The socket's path is another kind of file.
    #[error("{} is not a socket; remove it, or name another path", .0.display())]
    NotASocket(PathBuf),
    /// Another process listens there.
    #[error("another process listens at {0}; end it, or name another address")]
    InUse(ListenAddress),
    /// The system refuses to listen.
    #[error("cannot listen at {at}: {source}")]
    Io {
        /// The address.
        at: ListenAddress,
        /// The reason.
        source: io::Error,
    },
}

/// Listens at an address. Dropping it removes its socket.
#[derive(Debug)]
pub struct Listener {
    pub(crate) socket: ListeningSocket,
    address: ListenAddress,
    /// Inode of the socket.
    inode: Option<u64>,
}

#[derive(Debug)]
pub(crate) enum ListeningSocket {
    Unix(UnixListener),
    Tcp(TcpListener),
}

impl Listener {
    /// Listens, but not as root: code with privileges must not parse data from others.
    pub async fn bind(address: &ListenAddress) -> Result<Self, ListenError> {
        if geteuid().is_root() {
            return Err(ListenError::IsRoot);
        }
        let failed = |source: io::Error| match source.kind() {
            ErrorKind::AddrInUse => ListenError::InUse(address.clone()),
            _ => ListenError::Io {
                at: address.clone(),
                source,
            },
        };
        match address {
            ListenAddress::Tcp(to) => {
                let socket = TcpListener::bind(to).await.map_err(failed)?;
                let bound = socket.local_addr().map_err(failed)?;
                Ok(Self {
                    socket: ListeningSocket::Tcp(socket),
                    address: ListenAddress::Tcp(bound),
                    inode: None,
                })
            }
            ListenAddress::Unix(path) => {
                remove_unserved(path, address).await?;
                let socket = UnixListener::bind(path).map_err(failed)?;
                let permissions = fs::Permissions::from_mode(SOCKET_MODE);
                fs::set_permissions(path, permissions).map_err(failed)?;
                let inode = fs::symlink_metadata(path).map_err(failed)?.ino();
                Ok(Self {
                    socket: ListeningSocket::Unix(socket),
                    address: address.clone(),
                    inode: Some(inode),
                })
            }
        }
    }

    /// The address. Port 0 is replaced with the port that the system chose.
    pub fn address(&self) -> &ListenAddress {
        &self.address
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // Another process may have taken the path.
        if let ListenAddress::Unix(path) = &self.address
            && fs::symlink_metadata(path).is_ok_and(|there| Some(there.ino()) == self.inode)
        {
            let _ = fs::remove_file(path);
        }
    }
}

/// Removes a socket without a listener.
async fn remove_unserved(path: &Path, address: &ListenAddress) -> Result<(), ListenError> {
    match fs::symlink_metadata(path) {
        Ok(there) if !there.file_type().is_socket() => {
            return Err(ListenError::NotASocket(path.to_owned()));
        }
        Ok(_) => {}
        Err(_) => return Ok(()),
    }
    match UnixStream::connect(path).await {
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => fs::remove_file(path)
            .map_err(|source| ListenError::Io {
                at: address.clone(),
                source,
            }),
        _ => Err(ListenError::InUse(address.clone())),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // only tests use it
mod tests {
    use super::*;

    #[test]
    fn addresses_that_other_hosts_can_connect_to_are_known() {
        for text in ["127.0.0.1:9930", "[::1]:0", "127.8.9.1:80", "unix:/run/x"] {
            let address: ListenAddress = text.parse().unwrap();
            assert_eq!(address.to_string(), text);
            address.refuse_open(None).unwrap();
        }
        assert_eq!(
            "localhost:1".parse::<ListenAddress>().unwrap().to_string(),
            "127.0.0.1:1"
        );
        for text in [
            "0.0.0.0:9930",
            "[::]:9930",
            "192.168.1.1:80",
            "[::ffff:127.0.0.1]:80",
        ] {
            let address: ListenAddress = text.parse().unwrap();
            let error = address.refuse_open(None).unwrap_err().to_string();
            assert!(
                !address.is_local() && error.contains("--web-config"),
                "{error}"
            );
        }
        for text in ["", "9930", ":9930", "unix:x", "host:80", "127.0.0.1"] {
            let error = text.parse::<ListenAddress>().unwrap_err();
            assert_eq!(error, ListenAddressError(text.to_owned()));
        }
    }
}
