//! Attaches the programs to followed functions.

use std::io;
use std::os::fd::AsFd as _;

use aya::Ebpf;
use aya::programs::UProbe;
use aya::programs::uprobe::{UProbeAttachLocation, UProbeAttachPoint, UProbeScope};
use aya::util::KernelVersion;
use trackiops_schemas::ebpf::spans::BY_MARKS;

use crate::engine::error::EngineError;
use crate::engine::sampler::MeasuredProgram;
use crate::timing::StartTiming;
use crate::user_functions::{End, Points, UserFunction};

const BEGIN: &str = "span_begin";
const RETURN: &str = "span_return";
const END: &str = "span_end";
const MARK: &str = "span_mark";

/// Reports why functions cannot be followed, if so.
pub fn check_functions(functions: &[UserFunction]) -> Result<(), EngineError> {
    find(functions).map(drop)
}

/// Finds functions in their programs.
pub fn find(functions: &[UserFunction]) -> Result<Vec<(&UserFunction, Points)>, EngineError> {
    if !functions.is_empty()
        && KernelVersion::current().is_ok_and(|own| own < KernelVersion::new(5, 15, 0))
    {
        return Err(EngineError::FunctionsSince5_15);
    }
    let found = functions
        .iter()
        .map(|function| Ok((function, function.points()?)));
    found.collect()
}

/// Attaches the probes. Their cookies are the functions' places in the list.
pub fn attach(
    programs: &mut Ebpf,
    functions: &[(&UserFunction, Points)],
    timing: &mut StartTiming,
) -> Result<(), EngineError> {
    for (number, (function, points)) in (0_u64..).zip(functions) {
        let mut attach = |name: &'static str, offsets: &[u64], cookie| {
            let probe: &mut UProbe = programs
                .program_mut(name)
                .and_then(|program| program.try_into().ok())
                .ok_or(EngineError::Object(name))?;
            let failed = |source| EngineError::AttachFunction {
                function: function.to_string(),
                source,
            };
            if probe.fd().is_err() {
                probe.load().map_err(failed)?;
            }
            for offset in offsets {
                let point = UProbeAttachPoint {
                    location: UProbeAttachLocation::AbsoluteOffset(*offset),
                    cookie: Some(cookie),
                };
                probe
                    .attach(point, function.program(), UProbeScope::AllProcesses)
                    .map_err(failed)?;
            }
            Ok::<_, EngineError>(())
        };
        // Ends first, so that every call whose begin is seen also has its end seen.
        match &points.end {
            End::Return => {
                attach(RETURN, &points.begins, number)?;
                attach(BEGIN, &points.begins, number)?;
            }
            End::Marks(ends) => {
                attach(END, ends, number | BY_MARKS)?;
                attach(BEGIN, &points.begins, number | BY_MARKS)?;
            }
            End::None => attach(MARK, &points.begins, number)?,
        }
        timing.ended(format!("attach to {function}"));
    }
    Ok(())
}

/// The programs that follow functions, for measuring their run times.
pub fn measured(programs: &Ebpf) -> io::Result<Vec<MeasuredProgram>> {
    let loaded = [BEGIN, RETURN, END, MARK].into_iter().filter_map(|name| {
        let program: &UProbe = programs.program(name)?.try_into().ok()?;
        Some((name, program.fd().ok()?))
    });
    loaded
        .map(|(name, fd)| MeasuredProgram::new(name, &fd.as_fd().try_clone_to_owned()?))
        .collect()
}
