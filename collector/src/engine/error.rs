//! Why the kernel side cannot be used.

use std::io;

use aya::EbpfError;
use aya::maps::MapError;
use aya::programs::ProgramError;

use crate::filter::FilterError;
use crate::user_functions::UserFunctionError;

/// Why the kernel side could not be started.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The kernel refused a program or a map.
    #[error("the kernel refused the BPF programs: {}", causes(.0))]
    Load(#[from] EbpfError),
    /// The kernel refused the programs that read its memory by plain loads.
    #[error("the kernel refused the BPF programs that read by loads: {0}")]
    Refused(#[source] io::Error),
    /// A program could not be attached.
    #[error("cannot attach to the tracepoint `{event}`: {}", causes(.source))]
    Attach {
        /// The tracepoint.
        event: &'static str,
        /// What the kernel said.
        source: ProgramError,
    },
    /// A program that is attached without the BPF loader could not be attached.
    #[error("cannot attach to the tracepoint `{event}`: {source}")]
    AttachTyped {
        /// The tracepoint.
        event: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// The start was given up.
    #[error("the start was interrupted")]
    Interrupted,
    /// A function cannot be followed.
    #[error(transparent)]
    Function(#[from] UserFunctionError),
    /// The kernel lacks attach cookies, by which the programs identify the called function.
    #[error("functions of programs can be followed since Linux 5.15: leave out --user")]
    FunctionsSince5_15,
    /// A program could not be attached to a function.
    #[error("cannot attach to `{function}`: {}", causes(.source))]
    AttachFunction {
        /// The function.
        function: String,
        /// What the kernel said.
        source: ProgramError,
    },
    /// The kernel's information about a program cannot be read.
    #[error("cannot get information about a BPF program: {0}")]
    Missed(io::Error),
    /// The thread that measures the programs cannot be started.
    #[error("cannot start a thread: {0}; raise the limit of threads")]
    Thread(#[source] io::Error),
    /// A map cannot be used.
    #[error("cannot use the BPF map `{name}`: {}", causes(.source))]
    Map {
        /// The map.
        name: &'static str,
        /// What the kernel said.
        source: MapError,
    },
    /// Memory that is shared with the programs cannot be mapped.
    #[error("cannot map the counters of the BPF programs into memory: {0}")]
    Shared(#[source] io::Error),
    /// The programs' sums of requests cannot be read.
    #[error("cannot read the BPF programs' sums of requests: {}", causes(.0))]
    Folds(#[source] MapError),
    /// The programs' sums of operations cannot be read.
    #[error("cannot read the BPF programs' sums of operations: {}", causes(.0))]
    Operations(#[source] MapError),
    /// The programs' sums of calls cannot be read.
    #[error("cannot read the BPF programs' sums of calls: {}", causes(.0))]
    Calls(#[source] MapError),
    /// The number of CPUs cannot be read.
    #[error("cannot read how many CPUs there may be ({path}): {source}")]
    Cpus {
        /// The file.
        path: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// The filter cannot be used.
    #[error("cannot filter: {0}")]
    Filter(#[from] FilterError),
    /// The object lacks a program or a map.
    #[error(
        "the built-in BPF object has no `{0}`: this build of trackiops is broken, run `make ebpf`"
    )]
    Object(&'static str),
}

/// The error with its causes, which the loader's errors do not print.
fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}
