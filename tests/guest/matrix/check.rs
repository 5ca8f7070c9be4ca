//! One cell: compares the recording with the kernel's count, and checks that the cell did what it claims.

use crate::matrix::evidence::Evidence;
use crate::matrix::plan::{Cell, Kind, OPTIONS};
use crate::run::{Answer, number, sum};

/// Requests and bytes in both directions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    pub reads: u64,
    pub writes: u64,
    pub read_bytes: u64,
    pub written_bytes: u64,
}

impl Sums {
    pub fn of(answers: &[Answer]) -> Self {
        Self {
            reads: sum(answers, "read_requests"),
            writes: sum(answers, "write_requests"),
            read_bytes: sum(answers, "read_bytes"),
            written_bytes: sum(answers, "write_bytes"),
        }
    }
}

/// An observation about a cell that differs between kernels or versions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The observation, in the same words for every cell.
    pub what: &'static str,
    /// An amount, if that adds information.
    pub detail: String,
}

/// A cell that was run.
#[derive(Clone, Debug)]
pub struct Outcome {
    pub cell: Cell,
    /// The kernel: `uname -rv`.
    pub build: String,
    pub recorded: Sums,
    pub counted: Sums,
    pub notes: Vec<Note>,
    /// Empty if everything agrees.
    pub failures: Vec<String>,
}

impl Outcome {
    /// The kernel's release.
    pub fn release(&self) -> &str {
        self.build.split(' ').next().unwrap_or_default()
    }
}

/// The inputs of the checks, and their findings.
struct Check<'a> {
    cell: &'a Cell,
    evidence: &'a Evidence,
    answers: &'a [Answer],
    notes: Vec<Note>,
    failures: Vec<String>,
}

/// Checks a cell. `answers` has one row per file, over all time. `missed` is the recorder's own bound on missed requests, for this cell and
/// all later ones.
pub fn outcome(
    cell: Cell,
    build: &str,
    evidence: &Evidence,
    answers: &[Answer],
    missed: &mut u64,
) -> Outcome {
    let mut check = Check {
        cell: &cell,
        evidence,
        answers,
        notes: Vec::new(),
        failures: Vec::new(),
    };
    check.options();
    let (recorded, counted) = check.sums();
    let are_missed = check.are_missed(recorded, counted, missed);
    check.rows();
    check.splitting(recorded);
    if !are_missed {
        check.equality(recorded, counted);
        if let Err(missing) = check.kind(recorded) {
            check.failures.push(missing);
        }
    }
    let Check {
        notes, failures, ..
    } = check;
    Outcome {
        build: build.to_owned(),
        recorded,
        counted,
        notes,
        failures,
        cell,
    }
}

impl Check<'_> {
    fn expect(&mut self, holds: bool, otherwise: impl FnOnce() -> String) {
        if !holds {
            self.failures.push(otherwise());
        }
    }

    fn equal<T: PartialEq + std::fmt::Debug>(&mut self, what: &str, found: T, expected: T) {
        self.expect(found == expected, || {
            format!("{what}: {found:?}, expected {expected:?}")
        });
    }

    fn note(&mut self, what: &'static str, detail: String) {
        self.notes.push(Note { what, detail });
    }

    /// Checks that exactly the requested version and options are in force.
    fn options(&mut self) {
        let counted = &self.evidence.counted;
        let in_force = |option: &str| counted.options.iter().any(|o| o == option);
        let version = format!("vers={}", self.cell.version);
        let mut wrong = Vec::new();
        if !in_force(&version) {
            wrong.push(version);
        }
        let given: Vec<&str> = self.cell.options.given.split(',').collect();
        for option in OPTIONS.iter().flat_map(|o| o.given.split(',')) {
            let wanted = match option {
                // The empty option, and options that are always in force.
                "defaults" => continue,
                "sec=sys" => true,
                _ => given.contains(&option),
            };
            if in_force(option) != wanted {
                wrong.push(format!(
                    "{option} {}",
                    if wanted { "wanted" } else { "not wanted" }
                ));
            }
        }
        let connections = if given.contains(&"nconnect=4") { 4 } else { 1 };
        let busy = counted.sent.iter().filter(|sent| **sent > 0).count();
        if (counted.sent.len(), busy) != (connections, connections) {
            wrong.push(format!(
                "{connections} connections in use wanted, requests sent over each: {:?}",
                counted.sent
            ));
        }
        self.expect(wrong.is_empty(), || {
            format!("options in force: {:?}: {wrong:?}", counted.options)
        });
    }

    /// Bytes and requests from the recording and from mountstats: operations = requests + attempts repeated after an error.
    fn sums(&mut self) -> (Sums, Sums) {
        let counted = &self.evidence.counted;
        let recorded = Sums::of(self.answers);
        let repeated = |ops: &[&str], errors: &str| {
            let errors = sum(self.answers, errors);
            counted.failed_attempts(ops).saturating_sub(errors)
        };
        let read_again = repeated(&["READ", "READ_PLUS"], "read_errors");
        let written_again = repeated(&["WRITE"], "write_errors");
        let expected = Sums {
            reads: counted.reads() - read_again,
            writes: counted.writes() - written_again,
            read_bytes: counted.server_read_bytes,
            written_bytes: counted.server_written_bytes,
        };
        let retransmissions = counted.retransmissions();
        if read_again + written_again > 0 {
            let detail = format!("{read_again} READ, {written_again} WRITE");
            self.note("attempts repeated after an error", detail);
        }
        if retransmissions > 0 {
            self.note("retransmissions", retransmissions.to_string());
        }
        (recorded, expected)
    }

    /// If the kernel can keep both programs from a CPU, and the recorder reports it, a few requests may be missing.
    fn are_missed(&mut self, recorded: Sums, expected: Sums, missed: &mut u64) -> bool {
        let no_more = |of: fn(&Sums) -> u64| of(&recorded) <= of(&expected);
        let requests = |sums: Sums| sums.reads + sums.writes;
        let short = requests(expected).saturating_sub(requests(recorded));
        let are_missed = short > 0
            && short <= *missed
            && self.cell.kernel == "newest"
            && no_more(|s| s.reads)
            && no_more(|s| s.writes)
            && no_more(|s| s.read_bytes)
            && no_more(|s| s.written_bytes);
        if are_missed {
            *missed -= short;
            self.note("requests missed, as was said", short.to_string());
        }
        are_missed
    }

    fn equality(&mut self, recorded: Sums, expected: Sums) {
        let ops = &self.evidence.counted.ops;
        self.expect(recorded == expected, || {
            let ops: Vec<_> = ops.iter().filter(|(_, n)| n[0] > 0).collect();
            format!("recorded {recorded:?}, mountstats {expected:?}; operations: {ops:?}")
        });
        self.expect(recorded.reads > 0 && recorded.writes > 0, || {
            "nothing was recorded in one direction".into()
        });
    }

    /// Checks that no row has errors or untimed requests, and that each histogram holds every request.
    fn rows(&mut self) {
        for answer in self.answers {
            let device = &self.evidence.device;
            let file = &answer["fileid"];
            self.expect(answer["mount"] == device.as_str(), || {
                format!(
                    "the file {file} of {device} is said to be on {}",
                    answer["mount"]
                )
            });
            for d in ["read", "write"] {
                let count = |what: &str| number(answer, &format!("{d}_{what}")) as u64;
                let buckets = answer[&format!("{d}_latency_hist")].as_array();
                let in_histogram: u64 = buckets
                    .into_iter()
                    .flatten()
                    .filter_map(|bucket| bucket["count"].as_u64())
                    .sum();
                let found = (count("errors"), count("untimed"), in_histogram);
                let what = format!("errors, untimed and histogram ({d}) of the file {file}");
                self.equal(&what, found, (0, 0, count("requests")));
            }
        }
    }

    /// Checks that no request is larger than the mount allows.
    fn splitting(&mut self, recorded: Sums) {
        let (rsize, wsize) = (self.evidence.option("rsize"), self.evidence.option("wsize"));
        let (rsize, wsize) = (rsize.unwrap_or(0), wsize.unwrap_or(0));
        let fits = recorded.read_bytes <= recorded.reads * rsize
            && recorded.written_bytes <= recorded.writes * wsize;
        self.expect(fits, || {
            format!("{recorded:?} do not fit rsize={rsize}, wsize={wsize}")
        });
    }

    fn kind(&mut self, recorded: Sums) -> Result<(), String> {
        self.read_plus();
        match self.cell.kind {
            Kind::Direct => self.fio("psync", recorded),
            Kind::Aio => self.fio("libaio", recorded),
            Kind::IoUring => self.fio("io_uring", recorded),
            Kind::Buffered => self.files(|_, wrote, read| (wrote, read)),
            // The program fails if splice does not support the file.
            Kind::Splice => self.files(|_, wrote, read| (wrote, read)),
            Kind::Mmap => self.mmap(),
            Kind::Copy => self.copy(),
        }
    }

    /// READ_PLUS is the kernel's choice, with the same tracepoints as READ.
    fn read_plus(&mut self) {
        let counted = &self.evidence.counted;
        let plus = counted.count("READ_PLUS");
        if plus == 0 {
            return;
        }
        // The fifth number: bytes received, including headers. Holes that were sent as holes would make it small.
        let received = counted.ops["READ_PLUS"][4];
        let reads = counted.reads();
        let detail = format!("{plus} of {reads} reads, {received} bytes received");
        self.note("READ_PLUS", detail);
    }

    /// The recorded bytes of a file of the cell: written and read.
    fn recorded_of(&self, name: &str) -> Result<(u64, u64), String> {
        let fileid = self.evidence.files.get(name);
        let fileid = *fileid.ok_or_else(|| format!("there is no file {name}"))?;
        let own = |a: &&Answer| a["fileid"].as_u64() == Some(fileid);
        let own: Vec<Answer> = self.answers.iter().filter(own).cloned().collect();
        Ok((sum(&own, "write_bytes"), sum(&own, "read_bytes")))
    }

    /// Checks each file's recorded bytes, written and read. `expected` computes them from the program's report.
    fn files(&mut self, expected: impl Fn(&str, u64, u64) -> (u64, u64)) -> Result<(), String> {
        for name in self.evidence.files.keys() {
            let wrote = self.evidence.reported(&format!("/files/{name}/0"))?;
            let read = self.evidence.reported(&format!("/files/{name}/1"))?;
            let recorded = self.recorded_of(name)?;
            let what = format!("bytes of {name} written and read");
            self.equal(&what, recorded, expected(name, wrote, read));
        }
        Ok(())
    }

    /// Direct I/O: the requests are fio's, each split by rsize or wsize, and none used the page cache.
    fn fio(&mut self, engine: &str, recorded: Sums) -> Result<(), String> {
        let used = self.evidence.report.pointer("/global options/ioengine");
        let used = used.and_then(|v| v.as_str()).unwrap_or_default().to_owned();
        self.equal("fio's engine", used.as_str(), engine);
        let mut asked = Sums::default();
        for (job, d) in [(0, "write"), (1, "read")] {
            let number = |key: &str| self.evidence.reported(&format!("/jobs/{job}/{d}/{key}"));
            let (ios, bytes) = (number("total_ios")?, number("io_bytes")?);
            let of_mount = if d == "read" { "rsize" } else { "wsize" };
            let limit = self.evidence.option(of_mount);
            let limit = limit.ok_or_else(|| format!("no {of_mount} in force"))?;
            let requests = ios * (bytes / ios.max(1)).div_ceil(limit);
            if d == "read" {
                (asked.reads, asked.read_bytes) = (requests, bytes);
            } else {
                (asked.writes, asked.written_bytes) = (requests, bytes);
            }
            if self.cell.kind != Kind::Direct {
                let deep = self
                    .evidence
                    .reported(&format!("/jobs/{job}/iodepth_level/8"))?;
                self.expect(deep > 50, || format!("{d}: 8 deep in {deep} % of the time"));
            }
        }
        self.equal("fio asked for", recorded, asked);
        let through = self.evidence.counted.application_bytes;
        let direct = [0, 0, asked.read_bytes, asked.written_bytes];
        self.equal(
            "bytes read and written, buffered and direct",
            through,
            direct,
        );
        Ok(())
    }

    /// Every page was loaded over the wire, and every modified page was written back.
    fn mmap(&mut self) -> Result<(), String> {
        let stored = self.evidence.reported("/stored_bytes")?;
        let wrote = self.evidence.reported("/files/data/0")?;
        let read = self.evidence.reported("/files/data/1")?;
        let (recorded_written, recorded_read) = self.recorded_of("data")?;
        self.equal("bytes loaded", recorded_read, read);
        let stores = recorded_written.saturating_sub(wrote);
        self.expect(stores >= stored, || {
            format!("{stores} bytes written for pages of {stored} bytes stored to")
        });
        if stores > stored {
            let detail = format!("{stores} bytes for pages of {stored}");
            self.note("stores write more than their pages", detail);
        }
        let through = self.evidence.counted.application_bytes;
        self.equal("bytes by read() and write()", through, [0, wrote, 0, 0]);
        Ok(())
    }

    /// A COPY moves no data here. Otherwise the client reads the source and writes the copy.
    fn copy(&mut self) -> Result<(), String> {
        let copies = self.evidence.counted.count("COPY");
        let wanted = self.cell.version == "4.2";
        self.equal("COPY was used", copies > 0, wanted);
        let what = if copies > 0 {
            "copied by the server (COPY)"
        } else {
            "copied by the client (READ, WRITE)"
        };
        self.note(what, String::new());
        self.files(|name, wrote, read| match name {
            _ if copies == 0 => (wrote, read),
            "source" => (wrote, 0),
            _ => (0, read),
        })
    }
}
