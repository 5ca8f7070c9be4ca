//! `trackiops doctor --loads`: every load of kernel memory, as the kernel's verifier sees it.

use std::fmt;
use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::{Result, bail};
use serde_json::{Value, json};
use trackiops_collector::{
    EngineChoice, KernelFacts, KernelLoad, KernelLoads, Levels, LoadSafety, kernel_loads, plan,
};
use trackiops_process::output::{Output, print, print_json};

use crate::record::default_settings;

/// Lets the kernel verify the programs of these levels, prints their loads, and fails if a load could crash the kernel. The wire level has
/// no programs without the NFS client.
pub fn run(facts: &KernelFacts, mut levels: Levels, is_json: bool) -> Result<ExitCode> {
    levels.wire &= facts.nfs_client;
    let plan = plan(facts, EngineChoice::Direct, Some(levels))?;
    let found = kernel_loads(facts, &plan, &default_settings())?;
    Output::Stdout.write(|out| match is_json {
        true => print_json(&object(&found), out),
        false => print_loads(&found, out),
    })?;
    if !found.are_safe() {
        bail!(
            "the programs load kernel memory that may not be there: do not record on this kernel, and report this with the output above"
        );
    }
    Ok(ExitCode::SUCCESS)
}

fn print_loads(found: &KernelLoads, out: &mut dyn Write) -> io::Result<()> {
    for load in &found.loads {
        let KernelLoad {
            offset,
            size,
            safety,
            ..
        } = load;
        let line = format!(
            "{:<40} {offset:>6} {size:>2}  {}: {}",
            Place(load),
            Safety(*safety),
            load.programs.join(", ")
        );
        print(line, 52, out)?;
    }
    for line in &found.unknown {
        print(format_args!("of an unknown pointer: {line}"), 4, out)?;
    }
    let plain = (found.loads.iter()).filter(|load| load.safety != LoadSafety::MayFault);
    writeln!(
        out,
        "{} loads in {} programs: {} without a fault handler, {} unsafe, {} unknown",
        found.loads.len(),
        found.programs,
        plain.count(),
        (found.loads.iter())
            .filter(|load| load.safety == LoadSafety::Unsafe)
            .count(),
        found.unknown.len(),
    )
}

/// The loads as JSON.
fn object(found: &KernelLoads) -> Value {
    let load = |load: &KernelLoad| {
        let (safety, why) = match load.safety {
            LoadSafety::MayFault => ("may_fault", None),
            LoadSafety::Held(why) => ("held", Some(why)),
            LoadSafety::Unsafe => ("unsafe", None),
        };
        json!({
            "structure": load.structure, "member": load.member, "offset": load.offset, "size": load.size,
            "safety": safety, "why": why, "programs": load.programs,
        })
    };
    json!({
        "safe": found.are_safe(),
        "programs": found.programs,
        "loads": found.loads.iter().map(load).collect::<Vec<_>>(),
        "unknown": found.unknown,
    })
}

/// What a load reads.
struct Place<'l>(&'l KernelLoad);

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let KernelLoad {
            structure, member, ..
        } = self.0;
        match member {
            Some(member) => f.pad(&format!("{structure}.{member}")),
            None => f.pad(structure),
        }
    }
}

/// Why a load cannot crash the kernel.
struct Safety(LoadSafety);

impl fmt::Display for Safety {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            LoadSafety::MayFault => f.write_str("may fault"),
            LoadSafety::Held(why) => write!(f, "held ({why})"),
            LoadSafety::Unsafe => f.write_str("UNSAFE"),
        }
    }
}
