//! The kernel's counters of its NFS mounts, as `/proc/PID/mountstats` prints them: `show_vfsstat`
//! (fs/proc_namespace.c), `nfs_show_stats` (fs/nfs/super.c), `rpc_clnt_show_stats`
//! (net/sunrpc/stats.c).

use std::mem;
use std::str::FromStr;

use crate::audit::transfers::Transfers;
use crate::names::mountinfo::unescape;

/// Longest line that is read; of the rest of a longer one nothing is needed.
const LINE: usize = 64 << 10;

/// What is printed of one mount. Mounts of one superblock share the counters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MountStatistics {
    /// `server:/export`.
    pub source: String,
    /// Where it is mounted.
    pub mount_point: String,
    /// Seconds since its superblock was made.
    pub age_s: u64,
    /// Successful requests, the bytes that the client has read and written, and those of calls.
    pub transfers: Transfers,
}

/// Reads the text piece by piece, in whatever pieces it comes.
#[derive(Default)]
pub struct MountstatsParser {
    line: Vec<u8>,
    mount: Option<Counted>,
}

/// The numbers of a mount so far.
#[derive(Default)]
struct Counted {
    statistics: MountStatistics,
    bytes: Option<[u64; 6]>,
    age_s: Option<u64>,
    reads: u64,
    writes: u64,
    has_operations: bool,
}

impl MountstatsParser {
    /// Takes a piece. Returns the NFS mounts whose text it completes.
    pub fn take(&mut self, piece: &[u8]) -> Vec<MountStatistics> {
        let mut complete = Vec::new();
        for part in piece.split_inclusive(|byte| *byte == b'\n') {
            let room = LINE.saturating_sub(self.line.len());
            self.line.extend_from_slice(&part[..part.len().min(room)]);
            if part.ends_with(b"\n") {
                let line = mem::take(&mut self.line);
                complete.extend(self.take_line(&String::from_utf8_lossy(&line)));
            }
        }
        complete
    }

    /// The last mount, once everything was taken.
    pub fn finish(&mut self) -> Option<MountStatistics> {
        mem::take(self).mount?.complete()
    }

    /// Whether a part of a mount has been taken.
    pub fn is_amid_mount(&self) -> bool {
        self.mount.is_some()
    }

    fn take_line(&mut self, line: &str) -> Option<MountStatistics> {
        if let Some(device) = line.strip_prefix("device ") {
            let before = mem::replace(&mut self.mount, Counted::of_device(device));
            return before?.complete();
        }
        // Its last line is empty.
        if line.trim_end().is_empty() && self.mount.as_ref().is_some_and(|m| m.has_operations) {
            return self.mount.take()?.complete();
        }
        let mount = self.mount.as_mut()?;
        let (key, values) = line.trim_ascii_start().split_once(':')?;
        mount.take(key, values);
        None
    }
}

impl Counted {
    /// Parses `srv:/exp mounted on /mnt/nfs with fstype nfs4 statvers=1.1`.
    fn of_device(device: &str) -> Option<Self> {
        let mut words = device.trim_end().split(' ');
        let source = unescape(words.next()?);
        let mount_point = unescape(words.nth(2)?);
        let is_nfs = matches!(words.nth(2)?, "nfs" | "nfs4");
        is_nfs.then(|| Self {
            statistics: MountStatistics {
                source,
                mount_point,
                ..MountStatistics::default()
            },
            ..Self::default()
        })
    }

    fn take(&mut self, key: &str, values: &str) {
        match key {
            "age" => self.age_s = numbers(values).next(),
            // Normal and direct reads and writes of applications, then those of the server.
            "bytes" => {
                let bytes: Vec<u64> = numbers(values).take(6).collect();
                self.bytes = bytes.try_into().ok();
            }
            "NULL" => self.has_operations = true,
            "READ" | "READ_PLUS" => self.reads = self.reads.wrapping_add(successes(values)),
            "WRITE" => self.writes = self.writes.wrapping_add(successes(values)),
            _ => {}
        }
    }

    /// The mount, if everything was there. A kernel without one of the numbers is not audited.
    fn complete(self) -> Option<MountStatistics> {
        let [calls @ .., read_bytes, written_bytes] = self.bytes.filter(|_| self.has_operations)?;
        let requests = Transfers::new((self.reads, read_bytes), (self.writes, written_bytes));
        Some(MountStatistics {
            age_s: self.age_s?,
            transfers: requests.with_calls(calls),
            ..self.statistics
        })
    }
}

/// Attempts of an operation that ended without an error: the first number less the ninth
/// (`_print_rpc_iostats`; Linux 5.3).
fn successes(values: &str) -> u64 {
    let mut numbers = numbers(values);
    let attempts = numbers.next().unwrap_or(0);
    attempts.wrapping_sub(numbers.nth(7).unwrap_or(0))
}

fn numbers(values: &str) -> impl Iterator<Item = u64> {
    let words = values.split_ascii_whitespace();
    words.map_while(|word| u64::from_str(word).ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Of two mounts on 6.12, over v3 and v4.2, whose server was disturbed on purpose.
    const FAULTS: &str = include_str!("../../tests/mountstats/6.12-v3-and-v4-faults");
    const NEWEST: &str = include_str!("../../tests/mountstats/7.2-v4.2");
    const OLDEST: &str = include_str!("../../tests/mountstats/5.10");

    fn parse(text: &str) -> Vec<MountStatistics> {
        let mut parser = MountstatsParser::default();
        let mut mounts = parser.take(text.as_bytes());
        mounts.extend(parser.finish());
        mounts
    }

    #[test]
    fn what_kernels_print_is_read() {
        let [v3, v4] = &parse(FAULTS)[..] else {
            panic!("two mounts");
        };
        assert_eq!(
            (v3.source.as_str(), v3.mount_point.as_str(), v3.age_s),
            ("127.0.0.1:/exp/proxied-3", "/mnt/3", 25)
        );
        // Attempts that failed and were repeated are no requests.
        let transfers = Transfers::new((30 - 4, 1_572_864), (38 - 6, 1_916_928));
        assert_eq!(v3.transfers.without_calls(), transfers);
        assert!(v3.transfers.call_bytes() > 0);
        let transfers = Transfers::new((28 - 5, 1_376_256), (36 - 7, 1_720_320));
        assert_eq!((v4.age_s, v4.transfers.without_calls()), (24, transfers));
        let [newest] = &parse(NEWEST)[..] else {
            panic!("one mount");
        };
        let transfers = Transfers::new((1021, 4_182_016), (2251, 8_401_588));
        assert_eq!(
            (newest.age_s, newest.transfers.without_calls()),
            (44, transfers)
        );
        let [oldest] = &parse(OLDEST)[..] else {
            panic!("one mount");
        };
        let transfers = Transfers::new((0, 0), (16, 1_048_576));
        assert_eq!(
            (oldest.age_s, oldest.transfers.without_calls()),
            (1, transfers)
        );
    }

    #[test]
    fn a_mount_of_which_a_number_is_missing_is_left_out() {
        for line in ["age:", "bytes:", "NULL:"] {
            let lines = NEWEST.lines().filter(|text| !text.contains(line));
            let text: String = lines.map(|text| format!("{text}\n")).collect();
            assert_eq!(parse(&text), [], "{line}");
        }
    }

    proptest! {
        #[test]
        fn text_is_read_the_same_in_any_pieces(cuts in prop::collection::vec(1_usize..500, 1..40)) {
            let mut parser = MountstatsParser::default();
            let (mut rest, mut mounts) = (FAULTS.as_bytes(), Vec::new());
            for cut in cuts {
                let (piece, tail) = rest.split_at(cut.min(rest.len()));
                mounts.extend(parser.take(piece));
                rest = tail;
            }
            mounts.extend(parser.take(rest));
            mounts.extend(parser.finish());
            prop_assert_eq!(mounts, parse(FAULTS));
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let mut parser = MountstatsParser::default();
            parser.take(b"device a mounted on /b with fstype nfs statvers=1.1\n");
            parser.take(&bytes);
            parser.finish();
        }
    }
}
