//! Subscribes to a recorder.

use std::io::{self, ErrorKind, Read};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::de::DeserializeOwned;
use trackiops_schemas::row::ClosedWindow;
use trackiops_schemas::time::Granularity;

use super::{CHUNK_PREFIX_BYTES, Hello, Kind, MAGIC, Message, Position, VERSION, connect_at_once};
use crate::error::StoreError;
use crate::journal::cursor;
use crate::journal::file::JournalFile;
use crate::journal::header::Header;
use crate::journal::scan::JournalScan;
use crate::journal::write::journal_of;
use crate::options::GranularitySet;
use crate::queue::Sum;

/// Limit on a message: far more than a recorder buffers for all subscribers.
const MOST_BYTES: usize = 64 << 20;
/// Bytes of a window before its journal.
const POSITION_BYTES: usize = 16;
/// Longest silence of a recorder, which sends a status each second.
const MOST_SILENCE: Duration = Duration::from_secs(5);

/// A subscription has ended or cannot begin.
#[derive(Debug, thiserror::Error)]
pub enum LiveError {
    /// No recorder serves the socket.
    #[error(
        "no recorder serves {path}: start `trackiops record`, or name its socket with --socket",
        path = .0.display()
    )]
    NoRecorder(PathBuf),
    /// The user may not connect.
    #[error(
        "you may not listen at {path}: run as root, or as a member of the group that the store belongs to",
        path = .0.display()
    )]
    Forbidden(PathBuf),
    /// The recorder closed the connection before it sent a message.
    #[error(
        "the recorder at {path} closes the connection: it is about to end, or has no room for another listener; try again, or end some of them",
        path = .0.display()
    )]
    Closed(PathBuf),
    /// The recorder sends nothing.
    #[error("the recorder at {path} does not answer: it may be stopped; see its log", path = .0.display())]
    Silent(PathBuf),
    /// The connection broke.
    #[error("the connection to {path} broke: {source}", path = .path.display())]
    Broken {
        /// The socket.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The stream is not in this version's format.
    #[error(
        "what serves {path} is not a recorder of this version: {why}; use the trackiops that records",
        path = .path.display()
    )]
    Foreign {
        /// The socket.
        path: PathBuf,
        /// The problem.
        why: String,
    },
}

/// A window from a recorder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveWindow {
    /// Its position in the store.
    pub position: Position,
    journal: Vec<u8>,
}

impl LiveWindow {
    /// Memory of the window.
    pub fn bytes(&self) -> usize {
        self.journal.len()
    }

    /// Adds windows up to one of `granularity`. All must be in that window. `None` without windows.
    pub fn sum(
        windows: &[Self],
        granularity: Granularity,
        path: &Path,
    ) -> Result<Option<Self>, StoreError> {
        let mut header = None;
        let mut sum: Option<Sum> = None;
        let mut position = Position::default();
        for window in windows {
            position = position.max(window.position);
            let scan = window.scan(path)?;
            for frame in &scan.windows {
                let window = ClosedWindow {
                    ops: scan.ops(frame)?,
                    ..cursor::window(&scan, frame)?
                };
                let start = window.start.align(granularity);
                sum.get_or_insert_with(|| Sum::new(start)).add(window);
            }
            header.get_or_insert(scan.header);
        }
        let (Some(header), Some(sum)) = (header, sum) else {
            return Ok(None);
        };
        let header = Header {
            granularities: GranularitySet::new(vec![granularity])?,
            ..header
        };
        let journal = journal_of(&header, &sum.finish())?;
        Ok(Some(Self { position, journal }))
    }

    /// Decodes the window, if there is one. Errors name `path`.
    pub fn decode(&self, path: &Path) -> Result<Option<ClosedWindow>, StoreError> {
        let scan = self.scan(path)?;
        let Some(frame) = scan.windows.first() else {
            return Ok(None);
        };
        Ok(Some(ClosedWindow {
            ops: scan.ops(frame)?,
            ..cursor::window(&scan, frame)?
        }))
    }

    /// A journal with this window. Errors name `path`.
    pub(crate) fn scan(&self, path: &Path) -> Result<JournalScan, StoreError> {
        let journal = JournalFile::in_memory(&self.journal, path);
        let journal = journal.map_err(StoreError::io("keep a window of", path))?;
        JournalScan::new(journal)?.ok_or_else(|| StoreError::Damaged {
            path: path.to_owned(),
            offset: 0,
            why: "a window ends within its header",
        })
    }
}

/// A connection to a recorder.
#[derive(Debug)]
pub struct Subscription {
    socket: UnixStream,
    path: PathBuf,
    hello: Hello,
    input: Input,
}

impl Subscription {
    /// Connects to the socket of a recorder.
    pub fn connect(path: &Path) -> Result<Self, LiveError> {
        let owned = || path.to_owned();
        let socket = connect_at_once(path).map_err(|source| match source.kind() {
            ErrorKind::WouldBlock => LiveError::Silent(owned()),
            ErrorKind::NotFound | ErrorKind::ConnectionRefused => LiveError::NoRecorder(owned()),
            ErrorKind::PermissionDenied => LiveError::Forbidden(owned()),
            _ => LiveError::Broken {
                path: owned(),
                source,
            },
        })?;
        let broken = |source: io::Error| match source.kind() {
            ErrorKind::WouldBlock => LiveError::Silent(owned()),
            ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset => LiveError::Closed(owned()),
            _ => LiveError::Broken {
                path: owned(),
                source,
            },
        };
        let foreign = |why: String| LiveError::Foreign { path: owned(), why };
        socket
            .set_read_timeout(Some(MOST_SILENCE))
            .map_err(broken)?;
        let mut begin = [0; MAGIC.len() + 4];
        (&socket).read_exact(&mut begin).map_err(broken)?;
        if begin != *[MAGIC, VERSION.to_le_bytes()].concat() {
            return Err(foreign("it begins in another way".to_owned()));
        }
        let mut input = Input::default();
        let hello = loop {
            match input.message().map_err(foreign)? {
                Some(Message::Hello(hello)) => break *hello,
                Some(_) => return Err(foreign("it does not say what it is".to_owned())),
                None => input.read(&socket).map_err(broken)?,
            }
        };
        Ok(Self {
            socket,
            path: path.to_owned(),
            hello,
            input,
        })
    }

    /// The recorder's first message.
    pub fn hello(&self) -> &Hello {
        &self.hello
    }

    /// Waits for the next message, at most for `most`. `None` after that time; a recorder sends a status each second.
    pub fn next(&mut self, most: Duration) -> Result<Option<Message>, LiveError> {
        let broken = |source| LiveError::Broken {
            path: self.path.clone(),
            source,
        };
        loop {
            let foreign = |why| LiveError::Foreign {
                path: self.path.clone(),
                why,
            };
            if let Some(message) = self.input.message().map_err(foreign)? {
                return Ok(Some(message));
            }
            self.socket.set_read_timeout(Some(most)).map_err(broken)?;
            match self.input.read(&self.socket) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
                read => read.map_err(broken)?,
            }
        }
    }
}

/// Received bytes.
#[derive(Debug, Default)]
struct Input {
    bytes: Vec<u8>,
    /// Number of bytes of `bytes` that were consumed.
    taken: usize,
    /// The message whose last chunk has not arrived yet.
    partial: Option<(Kind, Vec<u8>)>,
}

impl Input {
    fn read(&mut self, mut socket: &UnixStream) -> io::Result<()> {
        let mut more = [0; 64 << 10];
        let read = match socket.read(&mut more) {
            Err(error) if error.kind() == ErrorKind::Interrupted => return Ok(()),
            read => read?,
        };
        if read == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        self.bytes.drain(..self.taken);
        self.taken = 0;
        self.bytes.extend_from_slice(&more[..read]);
        Ok(())
    }

    /// The next message, if it is complete.
    fn message(&mut self) -> Result<Option<Message>, String> {
        loop {
            let input = &self.bytes[self.taken..];
            let Some((prefix, rest)) = input.split_first_chunk::<CHUNK_PREFIX_BYTES>() else {
                return Ok(None);
            };
            let [a, b, c, d, kind, is_last] = *prefix;
            let kind = Kind::of(kind).ok_or("a message is of an unknown kind")?;
            let length = u32::from_le_bytes([a, b, c, d]) as usize;
            let known = self.partial.as_ref().map_or(0, |(_, bytes)| bytes.len());
            if known + length > MOST_BYTES {
                return Err("a message is too long".to_owned());
            }
            let Some(part) = rest.get(..length) else {
                return Ok(None);
            };
            let mut message = match self.partial.take() {
                Some((begun, bytes)) if begun == kind => bytes,
                // The partial message is void: the recorder dropped it while sending.
                _ => Vec::new(),
            };
            message.extend_from_slice(part);
            self.taken += CHUNK_PREFIX_BYTES + length;
            if is_last == 1 {
                return decode(kind, message).map(Some);
            }
            self.partial = Some((kind, message));
        }
    }
}

fn decode(kind: Kind, message: Vec<u8>) -> Result<Message, String> {
    Ok(match kind {
        Kind::Hello => Message::Hello(json(&message)?),
        Kind::Mounts => Message::Mounts(json(&message)?),
        Kind::Status => Message::Status(json(&message)?),
        Kind::Gap => Message::Gap(json(&message)?),
        Kind::End => Message::End,
        Kind::Window => Message::Window(window(message)?),
        Kind::Totals => Message::Totals(window(message)?),
    })
}

fn window(message: Vec<u8>) -> Result<LiveWindow, String> {
    let (position, journal) = message
        .split_first_chunk::<POSITION_BYTES>()
        .ok_or("a window is too short")?;
    let number = |at: usize| {
        let bytes = position[at..].first_chunk().copied().unwrap_or_default();
        u64::from_le_bytes(bytes)
    };
    Ok(LiveWindow {
        position: Position {
            journal: number(0),
            offset: number(8),
        },
        journal: journal.to_vec(),
    })
}

fn json<T: DeserializeOwned>(message: &[u8]) -> Result<T, String> {
    serde_json::from_slice(message).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Chunks of any kind and content, some of them cut.
    fn stream() -> impl Strategy<Value = Vec<u8>> {
        let part = prop::collection::vec(any::<u8>(), 0..40);
        let chunk = (0..8_u8, any::<bool>(), part).prop_map(|(kind, is_last, part)| {
            let prefix = [
                &(part.len() as u32).to_le_bytes()[..],
                &[kind, is_last.into()],
            ];
            [&prefix.concat()[..], &part].concat()
        });
        let chunks = prop::collection::vec(chunk, 0..8).prop_map(|chunks| chunks.concat());
        prop_oneof![chunks, prop::collection::vec(any::<u8>(), 0..200)]
    }

    proptest! {
        #[test]
        fn any_bytes_are_messages_or_an_error(bytes in stream(), pieces in 1..50_usize) {
            let mut input = Input::default();
            'stream: for piece in bytes.chunks(pieces) {
                input.bytes.extend_from_slice(piece);
                loop {
                    match input.message() {
                        Ok(Some(Message::Window(window))) => {
                            // Its content is checked when it is read.
                            let _ = window.scan(Path::new("socket"));
                        }
                        Ok(Some(_)) => {}
                        Ok(None) => break,
                        Err(_) => break 'stream,
                    }
                }
            }
        }
    }

    #[test]
    fn a_message_is_complete_with_its_last_chunk_and_void_before_another() {
        let chunk = |kind: Kind, is_last: u8, part: &[u8]| {
            let length = (part.len() as u32).to_le_bytes();
            [&length[..], &[kind as u8, is_last], part].concat()
        };
        let gap = br#"{"windows":1,"after":{"journal":1,"offset":2},"until":{"journal":1,"offset":3},"since_ms":4,"until_ms":5}"#;
        let mut input = Input::default();
        for bytes in [
            chunk(Kind::Window, 0, &[7; 20]),
            chunk(Kind::Gap, 0, &gap[..9]),
            chunk(Kind::Gap, 1, &gap[9..]),
            chunk(Kind::Window, 0, &[1, 0, 0, 0, 0, 0, 0, 0, 2]),
            chunk(Kind::Window, 1, &[0, 0, 0, 0, 0, 0, 0, 9, 9]),
            chunk(Kind::End, 1, &[]),
        ] {
            input.bytes.extend_from_slice(&bytes);
        }
        let messages: Vec<_> = std::iter::from_fn(|| input.message().unwrap()).collect();
        let [Message::Gap(gap), Message::Window(window), Message::End] = &messages[..] else {
            panic!("{messages:?}");
        };
        assert_eq!((gap.windows, gap.until.offset), (1, 3));
        let position = Position {
            journal: 1,
            offset: 2,
        };
        assert_eq!(
            (window.position, &window.journal[..]),
            (position, &[9, 9][..])
        );
        let length = (MOST_BYTES as u32 + 1).to_le_bytes();
        let mut input = Input {
            bytes: [&length[..], &[Kind::Window as u8, 1]].concat(),
            ..Input::default()
        };
        assert!(input.message().is_err());
    }
}
