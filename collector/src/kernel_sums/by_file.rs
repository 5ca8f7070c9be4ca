//! RPCs of any procedure but READ and WRITE, added up in the kernel by file.

use aya::maps::MapError;
use trackiops_schemas::ebpf::file_op_sums::{
    FILE_OP_ENTRIES, FILE_OP_KEY_WORDS, FILE_OP_MOUNT_ENTRIES, FILE_OP_VALUE_WORDS,
    FILE_OPS_BY_FILE, FILE_OPS_BY_MOUNT, FILE_OPS_MAPS, FILE_OPS_OF_COMMITS, FileOpKey,
    FileOpValue,
};
use trackiops_schemas::file_ops::{FileOp, OpName};
use zerocopy::transmute;

use crate::kernel_sums::{BegunCounts, DoubleBufferedMap, MapsInUse};
use crate::rollup::row_key::RowKey;
use crate::shared_memory::SharedWords;

/// The maps that the programs add to.
pub struct FileOpSums {
    programs: MapsInUse<FILE_OP_KEY_WORDS, FILE_OP_VALUE_WORDS>,
    sums: [(
        u32,
        DoubleBufferedMap<FILE_OP_KEY_WORDS, FILE_OP_VALUE_WORDS>,
    ); FILE_OPS_MAPS],
    begun: BegunCounts<FILE_OPS_MAPS>,
}

impl FileOpSums {
    /// Makes the maps, and passes them to the programs. `begun` counts the sums begun in
    /// each; `share` means [`crate::Settings::map_share`].
    pub fn create(
        mut programs: MapsInUse<FILE_OP_KEY_WORDS, FILE_OP_VALUE_WORDS>,
        begun: SharedWords,
        share: u32,
    ) -> Result<Self, MapError> {
        let mut sums = |index, entries| {
            DoubleBufferedMap::create(&mut programs, index, entries).map(|sums| (index, sums))
        };
        Ok(Self {
            sums: [
                sums(FILE_OPS_BY_FILE, FILE_OP_ENTRIES / share)?,
                sums(FILE_OPS_OF_COMMITS, FILE_OP_ENTRIES / share)?,
                sums(FILE_OPS_BY_MOUNT, FILE_OP_MOUNT_ENTRIES)?,
            ],
            programs,
            begun: BegunCounts::new(begun),
        })
    }

    /// Takes all sums so far. Maps without new sums are skipped.
    pub fn take(&mut self) -> Result<Vec<FileOpInWindow>, MapError> {
        let mut taken = Vec::new();
        for (index, sums) in &mut self.sums {
            if self.begun.is_new(*index) {
                sums.take(&mut self.programs, |key, value| {
                    taken.extend(FileOpInWindow::from_map(
                        &transmute!(key),
                        &transmute!(value),
                    ));
                })?;
            }
        }
        Ok(taken)
    }
}

/// RPCs of one procedure about one file, in one window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileOpInWindow {
    /// The file and the tenant. The file is [`others`](trackiops_schemas::identity::FileId::others)
    /// if the kernel had no room for it.
    pub row: RowKey,
    /// UTC in ns, divided by the length of a window.
    pub window: u64,
    /// The process that made the first of them.
    pub pid: u32,
    /// The procedure, and the sums.
    pub op: FileOp,
}

impl FileOpInWindow {
    /// `None` if the procedure has no name.
    fn from_map(key: &FileOpKey, value: &FileOpValue) -> Option<Self> {
        let FileOpValue {
            requests,
            errors,
            queue_ns_sum,
            rtt_ns_sum,
            latency_ns_sum,
            latency_ns_max,
            name,
            pid,
            is_untold: _,
        } = *value;
        Some(Self {
            row: RowKey::from(key),
            window: key.window,
            pid,
            op: FileOp {
                op: OpName::from_bytes(&name)?,
                requests,
                errors,
                queue_ns_sum,
                rtt_ns_sum,
                execute_ns_sum: latency_ns_sum,
                execute_ns_max: latency_ns_max,
                ..FileOp::default()
            },
        })
    }
}
