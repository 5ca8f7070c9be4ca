//! The guest script's output for one cell.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::matrix::plan::Cell;
use crate::mountstats::{MountCounters, Mountstats};

/// The kernel's own count of a cell, and its program's report.
#[derive(Debug)]
pub struct Evidence {
    /// `server:/export`.
    pub device: String,
    /// The kernel's counts while the program ran.
    pub counted: MountCounters,
    /// Fileid of each file by its name.
    pub files: BTreeMap<String, u64>,
    /// The output of fio or `matrix_io.py`.
    pub report: Value,
}

impl Evidence {
    /// Reads the files that `scripts/matrix.sh` wrote for `cell` in `out`, or returns why the cell did not finish.
    pub fn read(out: &Path, cell: &Cell) -> Result<Self, String> {
        let dir = out.join("cells").join(cell.name());
        let text = |name: &str| {
            fs::read_to_string(dir.join(name))
                .map_err(|e| format!("{}: {e}", dir.join(name).display()))
        };
        let status = text("status")?;
        if status.trim() != "0" {
            let status = status.trim();
            return Err(format!("ended with status {status}: {}", text("log")?));
        }
        let before = Mountstats::parse(&text("before")?);
        let mut counted = Mountstats::parse(&text("after")?).since(&before);
        let (device, counted) = counted
            .mounts
            .remove("/mnt/nfs")
            .ok_or("nothing was mounted")?;
        let report = text("report")?;
        // fio may write notes before its JSON.
        let json = &report[report.find('{').unwrap_or(0)..];
        let report =
            serde_json::from_str(json).map_err(|e| format!("its report: {e}: {report}"))?;
        let file = |line: &str| {
            let (fileid, name) = line.split_once('\t')?;
            Some((name.to_owned(), fileid.parse().ok()?))
        };
        Ok(Self {
            device,
            counted,
            files: text("files")?.lines().filter_map(file).collect(),
            report,
        })
    }

    /// A number of the report.
    pub fn reported(&self, pointer: &str) -> Result<u64, String> {
        let value = self.report.pointer(pointer);
        let number = value.and_then(|v| v.as_f64()).map(|n| n as u64);
        number.ok_or_else(|| format!("the report has no number {pointer}"))
    }

    /// The value of a mount option in force, such as `rsize`.
    pub fn option(&self, key: &str) -> Option<u64> {
        let value = |option: &String| option.strip_prefix(key)?.strip_prefix('=')?.parse().ok();
        self.counted.options.iter().find_map(value)
    }
}
