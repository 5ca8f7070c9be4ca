//! The kernel's counters of its NFS mounts, as `/proc/PID/mountstats` prints them: `show_vfsstat`
//! (fs/proc_namespace.c), `nfs_show_stats` (fs/nfs/super.c), `rpc_clnt_show_stats`
//! (net/sunrpc/stats.c).
//!
//! The server provides one of the texts, after `impl_id:`. The kernel does not escape it, so it may look like
//! any other line. [`end_of_server_text`] finds its end from its greatest possible length.

use std::mem;
use std::str::FromStr;

use crate::audit::transfers::Transfers;
use crate::names::mountinfo::{in_octal, unescape};

/// Longest line that is read; the rest of a longer line is not needed.
const LINE: usize = 64 << 10;

/// The line after the age, if the server has sent its name and domain (`show_implementation_id`).
const IMPL_ID: &[u8] = b"\timpl_id:\tname='";
const BEFORE_DOMAIN: &[u8] = b"',domain='";
const BEFORE_DATE: &[u8] = b"',date='";
const AFTER_IMPL_ID: &[u8] = b"'\n\tcaps:\tcaps=0x";
/// Longest name, and longest domain (`NFS4_OPAQUE_LIMIT`, include/uapi/linux/nfs4.h).
const SERVER_NAME: usize = 1024;
/// Greatest offset of [`BEFORE_DATE`] in the line.
const LAST_DATE: usize = IMPL_ID.len() + SERVER_NAME + BEFORE_DOMAIN.len() + SERVER_NAME;
/// Longest date: seconds of 64 bits, a comma, nanoseconds of 32 bits.
const DATE: usize = 20 + 1 + 10;
/// Within this many bytes of its line, a server's text and the markers after it have ended. For the same mount the kernel then writes
/// more than that: 65 operations of at least 33 bytes each. So these bytes include no other server's text.
const SERVER_TEXT: usize = LAST_DATE + BEFORE_DATE.len() + DATE + AFTER_IMPL_ID.len();

/// The counters of one mount. Mounts of one superblock share them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MountStatistics {
    /// `server:/export`.
    pub source: String,
    /// Where it is mounted.
    pub mount_point: String,
    /// Seconds since its superblock was made.
    pub age_s: u64,
    /// Successful requests, the bytes that the client has read and written, and the bytes of calls.
    pub transfers: Transfers,
}

/// Parses the text in pieces of any size.
#[derive(Default)]
pub struct MountstatsParser {
    line: Vec<u8>,
    mount: Option<Counted>,
    /// Input from the line of the server's text on, until the end of that text must be in it.
    server_text: Option<Vec<u8>>,
    /// Whether the text has an unknown form. Then none of it can be trusted.
    is_unknown: bool,
}

/// The counters of a mount so far.
#[derive(Default)]
struct Counted {
    statistics: MountStatistics,
    bytes: Option<[u64; 6]>,
    age_s: Option<u64>,
    reads: u64,
    writes: u64,
    part: Part,
}

/// The position in a mount's text. The kernel prints its lines in a fixed order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Part {
    #[default]
    Options,
    /// After the age, where the server's text is.
    Age,
    Attributes,
    Bytes,
    /// After `per-op statistics`.
    Operations,
    /// After the first operation.
    Counts,
}

impl MountstatsParser {
    /// Takes a piece. Returns the NFS mounts that it completes.
    pub fn take(&mut self, piece: &[u8]) -> Vec<MountStatistics> {
        let mut complete = Vec::new();
        for part in piece.split_inclusive(|byte| *byte == b'\n') {
            if let Some(text) = &mut self.server_text {
                text.extend_from_slice(part);
                if text.len() >= SERVER_TEXT {
                    complete.extend(self.pass_server_text());
                }
                continue;
            }
            let room = LINE.saturating_sub(self.line.len());
            self.line.extend_from_slice(&part[..part.len().min(room)]);
            if part.ends_with(b"\n") {
                let line = mem::take(&mut self.line);
                complete.extend(self.take_line(line));
            }
        }
        complete
    }

    /// The last mounts, once all input was taken.
    pub fn finish(&mut self) -> Vec<MountStatistics> {
        let mut complete = Vec::new();
        while self.server_text.is_some() {
            complete.extend(self.pass_server_text());
        }
        complete.extend(mem::take(self).mount.and_then(Counted::complete));
        complete
    }

    /// Continues after the text of a server.
    fn pass_server_text(&mut self) -> Vec<MountStatistics> {
        let text = self.server_text.take().unwrap_or_default();
        match end_of_server_text(&text) {
            Some(end) => self.take(&text[end..]),
            None => {
                self.mount = None;
                self.is_unknown = true;
                Vec::new()
            }
        }
    }

    /// Whether part of a mount has been taken.
    pub fn is_amid_mount(&self) -> bool {
        self.mount.is_some()
    }

    fn take_line(&mut self, line: Vec<u8>) -> Option<MountStatistics> {
        if self.is_unknown {
            return None;
        }
        if let Some(mount) = &mut self.mount
            && mount.part == Part::Age
        {
            mount.part = Part::Attributes;
            if line.starts_with(IMPL_ID) {
                self.server_text = Some(line);
                return None;
            }
        }
        let line = in_octal(&line);
        if let Some(device) = line.strip_prefix("device ") {
            let before = mem::replace(&mut self.mount, Counted::of_device(device));
            return before?.complete();
        }
        // An empty line ends the mount.
        if line.trim_end().is_empty() && self.mount.as_ref().is_some_and(Counted::has_operations) {
            return self.mount.take()?.complete();
        }
        let mount = self.mount.as_mut()?;
        if line.trim_ascii() == "per-op statistics" {
            mount.pass(Part::Bytes, Part::Operations);
        }
        let (key, values) = line.trim_ascii_start().split_once(':')?;
        mount.take(key, values);
        None
    }
}

/// The end of a server's text, which begins with its line. The text may contain a copy of the kernel's markers, so the last possible
/// place counts.
fn end_of_server_text(text: &[u8]) -> Option<usize> {
    let text = &text[..text.len().min(SERVER_TEXT)];
    let last = text.len().min(LAST_DATE);
    let ends = (0..=last).rev().filter_map(|date| {
        let rest = text[date..].strip_prefix(BEFORE_DATE)?;
        let is_date = |byte: &&u8| byte.is_ascii_digit() || **byte == b',';
        let digits = rest.iter().take_while(is_date).count();
        let is_end = digits <= DATE && rest[digits..].starts_with(AFTER_IMPL_ID);
        // The line ends after the apostrophe.
        is_end.then_some(date + BEFORE_DATE.len() + digits + 2)
    });
    ends.into_iter().next()
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
            "age" if self.pass(Part::Options, Part::Age) => self.age_s = numbers(values).next(),
            // Normal and direct reads and writes of applications, then those of the server.
            "bytes" if self.pass(Part::Attributes, Part::Bytes) => {
                let bytes: Vec<u64> = numbers(values).take(6).collect();
                self.bytes = bytes.try_into().ok();
            }
            "NULL" => {
                self.pass(Part::Operations, Part::Counts);
            }
            "READ" | "READ_PLUS" if self.has_operations() => {
                self.reads = self.reads.wrapping_add(successes(values));
            }
            "WRITE" if self.has_operations() => {
                self.writes = self.writes.wrapping_add(successes(values));
            }
            _ => {}
        }
    }

    /// Moves on to another part of the text. Returns whether the order allows it.
    fn pass(&mut self, from: Part, to: Part) -> bool {
        let is_here = self.part == from;
        if is_here {
            self.part = to;
        }
        is_here
    }

    fn has_operations(&self) -> bool {
        self.part == Part::Counts
    }

    /// The mount, if all of it was there. A kernel that lacks one of the counters is not audited.
    fn complete(self) -> Option<MountStatistics> {
        let has_operations = self.has_operations();
        let [calls @ .., read_bytes, written_bytes] = self.bytes.filter(|_| has_operations)?;
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

    /// Two mounts on 6.12, over v3 and v4.2, whose server was disturbed on purpose.
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
        // Attempts that failed and were repeated do not count as requests.
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

    /// The text of a kernel whose server sends this name and domain.
    fn with_server_name(name: &str, domain: &str) -> String {
        let line = NEWEST.lines().find(|line| line.contains("impl_id:"));
        let forged = format!("\timpl_id:\tname='{name}',domain='{domain}',date='0,0'");
        NEWEST.replace(line.unwrap(), &forged)
    }

    #[test]
    fn a_server_forges_no_counters() {
        let honest = parse(NEWEST);
        let caps = "',domain='',date='1,2'\n\tcaps:\tcaps=0x1,wtmult=1\n";
        let operations =
            "\tper-op statistics\n\tNULL: 1 1 0 1 1 1 1 1 0\n\tREAD: 9 9 0 9 9 9 9 9 0\n\n";
        let own = format!("{caps}\tbytes:\t0 0 0 0 7 7 7 7 \n{operations}");
        let other = format!(
            "{own}device 10.0.0.1:/other mounted on /mnt/other with fstype nfs4 statvers=1.1\n\tage:\t9\n\timpl_id:\tname='{own}"
        );
        let full = "x".repeat(SERVER_NAME);
        let names = [
            "\n",
            "\n\tbytes:\t0 0 0 0 1 1 \n",
            "x\n\tage:\t1\n",
            caps,
            &own,
            &other,
            &full,
            "',domain='",
        ];
        for name in names {
            assert!(name.len() <= SERVER_NAME, "{}", name.len());
            for domain in names {
                assert_eq!(
                    parse(&with_server_name(name, domain)),
                    honest,
                    "{name:?} {domain:?}"
                );
            }
        }
    }

    #[test]
    fn nothing_is_trusted_behind_a_server_text_that_does_not_end() {
        let text = NEWEST.replace(",date='", ",born='");
        let text = format!("{text}{FAULTS}");
        assert_eq!(parse(&text), []);
    }

    proptest! {
        #[test]
        fn no_name_of_a_server_changes_counters(
            name in "[\\ndevicbyts:'=,0-9 \t]{0,200}",
            cut in 1_usize..4000,
        ) {
            let text = with_server_name(&name, &name);
            let (first, rest) = text.as_bytes().split_at(cut);
            let mut parser = MountstatsParser::default();
            let mut mounts = parser.take(first);
            mounts.extend(parser.take(rest));
            mounts.extend(parser.finish());
            prop_assert_eq!(mounts, parse(NEWEST));
        }

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
            parser.take(b"\tage:\t1\n\timpl_id:\tname='\n");
            parser.take(&bytes);
            parser.finish();
        }
    }
}
