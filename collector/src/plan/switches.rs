//! What the direct engine's programs record. Where the kernel keeps what they read is in the offsets.

use trackiops_schemas::ebpf::op_sums::OpOffsets;
use trackiops_schemas::ebpf::ring::DirectOffsets;
use trackiops_schemas::ebpf::syscalls::kept;

use crate::plan::levels::Levels;

/// What the direct engine's programs record in addition to requests. A plan turns on only what this kernel has the offsets for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Switches {
    /// Operations of the NFS client.
    pub rpcs: bool,
    /// Calls that open or sync local files.
    pub opens_and_syncs: bool,
    /// How long calls of applications take.
    pub call_times: bool,
    /// Single calls of applications: for local files, and with the wire also for files of NFS.
    pub single_calls: bool,
}

impl Switches {
    /// The offsets as programs get them: with the words by which the programs know what to record at these levels.
    pub fn applied_to(self, offsets: &DirectOffsets, levels: Levels) -> DirectOffsets {
        let Self {
            rpcs,
            opens_and_syncs,
            call_times,
            single_calls,
        } = self;
        let mut applied = *offsets;
        if !rpcs {
            applied.operation = OpOffsets::default();
            // Calls of applications still find the handles of their files by the remaining members.
            applied.file_operation.is_known = 0;
        }
        applied.cache.has_wire = u32::from(levels.cache && levels.wire);
        applied.cache.has_local = u32::from(levels.cache && levels.has_local());
        applied.app.is_timed = u32::from(call_times);
        applied.syscalls.counts_operations = u32::from(opens_and_syncs);
        applied.syscalls.keeps = match (single_calls, levels.wire) {
            (false, _) => 0,
            (true, false) => kept::LOCAL,
            (true, true) => kept::LOCAL | kept::NFS,
        };
        applied
    }
}

#[cfg(test)]
mod tests {
    use trackiops_schemas::ebpf::file_op_sums::FileOpOffsets;
    use trackiops_schemas::ebpf::op_sums::op_flags;

    use super::*;

    const LEVELS: Levels = Levels {
        cache: true,
        ..Levels::APP
    };
    const WITH_WIRE: Levels = Levels {
        wire: true,
        ..LEVELS
    };

    fn known() -> DirectOffsets {
        DirectOffsets {
            operation: OpOffsets {
                flags: op_flags::KNOWN,
                ..OpOffsets::default()
            },
            file_operation: FileOpOffsets {
                is_known: 1,
                handle_inode: 432,
                ..FileOpOffsets::default()
            },
            ..DirectOffsets::default()
        }
    }

    #[test]
    fn without_switches_only_the_levels_are_recorded() {
        let mut expected = known();
        expected.operation = OpOffsets::default();
        expected.file_operation.is_known = 0;
        let applied = Switches::default().applied_to(&known(), Levels::APP);
        assert_eq!(applied, expected);
        expected.cache.has_local = 1;
        let applied = Switches::default().applied_to(&known(), LEVELS);
        assert_eq!(applied, expected);
        expected.cache.has_wire = 1;
        let applied = Switches::default().applied_to(&known(), WITH_WIRE);
        assert_eq!(applied, expected);
    }

    #[test]
    fn each_switch_sets_its_own_word() {
        let off = Switches::default();
        let changed = |switches: Switches, change: fn(&mut DirectOffsets)| {
            let mut expected = off.applied_to(&known(), WITH_WIRE);
            change(&mut expected);
            assert_eq!(switches.applied_to(&known(), WITH_WIRE), expected);
        };
        changed(Switches { rpcs: true, ..off }, |words| {
            words.operation = known().operation;
            words.file_operation = known().file_operation;
        });
        let counted = Switches {
            opens_and_syncs: true,
            ..off
        };
        changed(counted, |words| words.syscalls.counts_operations = 1);
        let timed = Switches {
            call_times: true,
            ..off
        };
        changed(timed, |words| words.app.is_timed = 1);
        let single = Switches {
            single_calls: true,
            ..off
        };
        changed(single, |words| {
            words.syscalls.keeps = kept::LOCAL | kept::NFS;
        });
        let without_wire = single.applied_to(&known(), LEVELS).syscalls.keeps;
        assert_eq!(without_wire, kept::LOCAL, "files of NFS belong to the wire");
    }
}
