//! Reads the bytes of a file ahead, in a separate thread. Copying them from the page cache, or decompressing them, takes as long as finding
//! packets in them.

use std::io::{self, Read};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::thread::{Builder, Scope};

/// Bytes of one read.
const CHUNK_BYTES: usize = 256 << 10;
/// Room before a chunk for the unread end of the previous one.
const HEADROOM: usize = 64 << 10;
/// Most chunks that wait.
const AHEAD: usize = 4;

/// A piece of the file, after the headroom.
struct Chunk {
    bytes: Vec<u8>,
    end: usize,
}

impl Chunk {
    fn new() -> Self {
        Self {
            bytes: vec![0; HEADROOM + CHUNK_BYTES],
            end: HEADROOM,
        }
    }

    /// Fills the chunk until it is full or the input ends. A pipe gives what it has.
    fn fill(&mut self, input: &mut impl Read) -> io::Result<()> {
        self.end = HEADROOM;
        while self.end < self.bytes.len() {
            match input.read(&mut self.bytes[self.end..]) {
                Ok(0) => break,
                Ok(read) => self.end += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // Keep the bytes that were read before the error.
                Err(_) if self.end > HEADROOM => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// The part of a file in memory.
pub struct Window {
    chunk: Chunk,
    start: usize,
    /// Bytes of the file before the window.
    consumed: u64,
    chunks: Receiver<io::Result<Chunk>>,
    spare: SyncSender<Chunk>,
    is_at_end: bool,
}

impl Window {
    /// Starts the thread with an empty window. The thread ends with the scope, or at its first chunk after the window is dropped.
    pub fn new<'scope>(
        scope: &'scope Scope<'scope, '_>,
        mut input: impl Read + Send + 'scope,
    ) -> io::Result<Self> {
        let (filled, chunks) = sync_channel(AHEAD);
        let (spare, spares) = sync_channel::<Chunk>(AHEAD);
        let read_on = move || loop {
            let mut chunk = match spares.try_recv() {
                Ok(chunk) => chunk,
                Err(TryRecvError::Empty) => Chunk::new(),
                Err(TryRecvError::Disconnected) => return,
            };
            let read = chunk.fill(&mut input);
            let is_last = read.is_err() || chunk.end == HEADROOM;
            if filled.send(read.map(|()| chunk)).is_err() || is_last {
                return;
            }
        };
        Builder::new()
            .name("read ahead".to_owned())
            .spawn_scoped(scope, read_on)?;
        Ok(Self {
            chunk: Chunk::new(),
            start: HEADROOM,
            consumed: 0,
            chunks,
            spare,
            is_at_end: false,
        })
    }

    /// The bytes in the window.
    pub fn data(&self) -> &[u8] {
        &self.chunk.bytes[self.start..self.chunk.end]
    }

    /// Bytes of the file before the window.
    pub fn consumed(&self) -> u64 {
        self.consumed
    }

    /// Drops the first bytes of the window.
    pub fn consume(&mut self, bytes: usize) {
        self.start += bytes;
        self.consumed += bytes as u64;
    }

    /// Adds more bytes to the window. Returns whether there were any.
    pub fn more(&mut self) -> io::Result<bool> {
        if self.is_at_end {
            return Ok(false);
        }
        let ended_early = |_| io::Error::other("its thread ended early");
        let mut next = self.chunks.recv().map_err(ended_early)??;
        if next.end == HEADROOM {
            self.is_at_end = true;
            return Ok(false);
        }
        let left = self.data().len();
        if left <= HEADROOM {
            let start = HEADROOM - left;
            next.bytes[start..HEADROOM].copy_from_slice(self.data());
            let before = std::mem::replace(&mut self.chunk, next);
            self.start = start;
            // A joined chunk is longer than the others.
            if before.bytes.len() == HEADROOM + CHUNK_BYTES {
                // If the channel is full or closed, drop the chunk.
                let _ = self.spare.try_send(before);
            }
        } else {
            self.chunk.bytes.truncate(self.chunk.end);
            self.chunk.bytes.drain(..self.start);
            self.chunk.bytes.extend(&next.bytes[HEADROOM..next.end]);
            self.start = 0;
            self.chunk.end = self.chunk.bytes.len();
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use std::thread::scope;

    use super::*;

    /// Reads a file in pieces of `step` bytes, and joins them.
    fn read_in_steps(file: &[u8], step: usize) -> Vec<u8> {
        let mut seen = Vec::new();
        scope(|scope| {
            let mut window = Window::new(scope, file).expect("a thread");
            loop {
                while window.data().len() >= step {
                    seen.extend(&window.data()[..step]);
                    window.consume(step);
                }
                if !window.more().expect("memory") {
                    break;
                }
            }
            seen.extend(window.data());
            assert_eq!(
                window.consumed() + window.data().len() as u64,
                file.len() as u64
            );
        });
        seen
    }

    #[test]
    fn pieces_of_any_length_come_whole() {
        let file: Vec<u8> = (0..1_500_000_u32).map(|n| (n / 7) as u8).collect();
        for step in [1, 1000, HEADROOM, HEADROOM + 1, CHUNK_BYTES + 5, 700_000] {
            assert_eq!(read_in_steps(&file, step), file, "{step}");
        }
        assert_eq!(read_in_steps(&[], 1), []);
    }

    #[test]
    fn what_comes_before_an_error_is_not_lost() {
        let fails = || {
            struct Fails;
            impl Read for Fails {
                fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                    Err(io::Error::other("damaged"))
                }
            }
            (&b"some"[..]).chain(Fails)
        };
        scope(|scope| {
            let mut window = Window::new(scope, fails()).expect("a thread");
            assert!(window.more().expect("the first bytes"));
            assert_eq!(window.data(), b"some");
            assert_eq!(window.more().expect_err("damage").to_string(), "damaged");
            assert_eq!(window.data(), b"some");
        });
    }
}
