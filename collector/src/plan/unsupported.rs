//! Why this kernel or this process cannot record, and the remedy.

use std::path::PathBuf;

use crate::btf::{BtfError, ForeignModule};

/// Why this kernel or this process cannot record, and the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unsupported {
    /// Neither root nor the capabilities.
    #[error(
        "recording needs root (or the capabilities CAP_BPF and CAP_PERFMON, and read access to tracefs): \
         run it with sudo"
    )]
    Privileges,
    /// Lockdown keeps even root from reading the kernel's memory.
    #[error(
        "the kernel is locked down (lockdown=confidentiality), which forbids BPF to read its memory: \
         boot it with lockdown=integrity or without lockdown"
    )]
    LockedDown,
    /// tracefs is mounted, but this user may not read it.
    #[error("tracefs at {} may not be read by this user: run trackiops as root", .0.display())]
    TracefsDenied(PathBuf),
    /// tracefs is not mounted.
    #[error("tracefs is not mounted: run `mount -t tracefs tracefs /sys/kernel/tracing`")]
    NoTracefs,
    /// The kernel was built without tracefs.
    #[error(
        "Linux {0} was built without event tracing (CONFIG_FTRACE), which trackiops needs: \
         boot a kernel that has it"
    )]
    NoTracing(String),
    /// The NFS client is not loaded. This is the only obstacle that recording can wait for.
    #[error(
        "the NFS client is not loaded: mount an NFS file system, run `modprobe nfs`, \
         or let trackiops wait for it with --wait"
    )]
    NfsNotLoaded,
    /// The NFS client is loaded, but lacks a tracepoint.
    #[error(
        "Linux {release} has no tracepoint `{category}:{event}`, which trackiops needs: \
         boot a kernel that has it (Linux 5.8 or newer with event tracing)"
    )]
    NoTracepoint {
        /// `uname -r`.
        release: String,
        /// The tracepoint's category.
        category: &'static str,
        /// The tracepoint.
        event: &'static str,
    },
    /// The kernel is older than 5.8.
    #[error("Linux {0} has no BPF ring buffer: trackiops needs Linux 5.8 or newer")]
    NoRingBuffer(String),
    /// There is no usable BTF.
    #[error(
        "{0}, and the direct engine needs it: \
         name a file that has this kernel's BTF with --btf, or use --engine tracepoint"
    )]
    NoBtf(BtfError),
    /// A type is missing from all BTF.
    #[error(
        "no BTF of Linux {release} has `struct {structure}`, which the direct engine needs: \
         name a file that has it with --btf, or use --engine tracepoint"
    )]
    NoType {
        /// `uname -r`.
        release: String,
        /// The structure.
        structure: &'static str,
    },
    /// A module of the NFS client has unknown structures.
    #[error(
        "the module `{}` was not built with the kernel (taint {}) and has no BTF, so its structures, which the direct engine \
         needs, are not known: name a file that has them with --btf, or use --engine tracepoint",
        .0.name,
        .0.taint
    )]
    ForeignModule(ForeignModule),
    /// A type lacks a member.
    #[error(
        "Linux {release} has a `struct {structure}` without a usable member `{member}`, \
         which the direct engine needs: use --engine tracepoint"
    )]
    NoMember {
        /// `uname -r`.
        release: String,
        /// The structure.
        structure: &'static str,
        /// The member.
        member: &'static str,
    },
    /// The NFS client is not loaded, and the block level, which needs none, cannot be recorded.
    #[error(
        "the NFS client is not loaded: mount an NFS file system, run `modprobe nfs`, or let trackiops wait for it \
         with --wait; and the block level cannot be recorded in its place: {0}"
    )]
    NeitherLevel(Box<Unsupported>),
    /// There is no usable BTF, and a level needs it.
    #[error(
        "{cause}, and the level {level} needs it: name a file that has this kernel's BTF with --btf"
    )]
    NoLevelBtf {
        /// The level.
        level: &'static str,
        /// The defect of the BTF.
        cause: BtfError,
    },
    /// A type lacks a member that a level needs.
    #[error(
        "Linux {release} has no `struct {structure}` with a usable member `{member}`, which the level {level} needs: \
         leave {level} out of --levels"
    )]
    NoLevelMember {
        /// `uname -r`.
        release: String,
        /// The level.
        level: &'static str,
        /// The structure.
        structure: &'static str,
        /// The member.
        member: &'static str,
    },
    /// No level has rows of files in which the page cache could be counted.
    #[error(
        "the page cache is counted in the rows of files: add wire, app or block to --levels cache"
    )]
    CacheAlone,
    /// The requested engine sees only the wire.
    #[error(
        "the tracepoint engine sees the level wire alone: leave out --engine tracepoint, or other levels"
    )]
    WireByTracepoint,
    /// A tracepoint lacks a field.
    #[error(
        "Linux {release} describes the tracepoint `{event}` without a usable field `{field}` of {size} bytes"
    )]
    Field {
        /// `uname -r`.
        release: String,
        /// The tracepoint.
        event: &'static str,
        /// The missing field.
        field: &'static str,
        /// The size that it should have.
        size: u32,
    },
}
