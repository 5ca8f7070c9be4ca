//! Which memory each load of a program may touch, from the verifier's own log: for `trackiops doctor --loads`.
//!
//! The verifier decides by the type of a pointer whether a load from it gets a fault handler. Without one, a load from unmapped memory
//! crashes the kernel. So each such load must be of a member that [`HELD`] declares, with the reason why it is allocated.

mod verifier_log;

use std::collections::BTreeMap;

use crate::engine::{self, EngineError};
use crate::facts::KernelFacts;
use crate::plan::members::{HELD, HeldStructure};
use crate::plan::{AppView, Plan, Programs};
use crate::settings::Settings;
use crate::timing::StartTiming;
use verifier_log::LoggedLoad;

/// A load of kernel memory, by one or more programs.
#[derive(Clone, Debug)]
pub struct KernelLoad {
    /// The structure, by its name in the kernel's BTF.
    pub structure: String,
    /// The member, if it is declared as held; else only its offset is known.
    pub member: Option<&'static str>,
    /// Bytes from the begin of the structure.
    pub offset: i64,
    /// How many bytes are loaded.
    pub size: u32,
    /// The effect if there is no memory.
    pub safety: LoadSafety,
    /// The programs that contain the load.
    pub programs: Vec<String>,
}

/// Why a load does not crash the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadSafety {
    /// It has a fault handler, and gives 0.
    MayFault,
    /// It has none, and the memory is allocated for this reason.
    Held(&'static str),
    /// It has none, and no declaration covers the memory.
    Unsafe,
}

/// All loads of a plan's programs.
#[derive(Clone, Debug, Default)]
pub struct KernelLoads {
    /// By structure and place.
    pub loads: Vec<KernelLoad>,
    /// Programs whose log was read.
    pub programs: usize,
    /// Loads whose pointer was not recognised in the log.
    pub unknown: Vec<String>,
}

impl KernelLoads {
    /// Whether every load is known, and none can crash the kernel.
    pub fn are_safe(&self) -> bool {
        self.unknown.is_empty() && (self.loads.iter()).all(|load| load.safety != LoadSafety::Unsafe)
    }
}

/// Loads the programs of a plan as a recorder does, without attaching them. Loads them with and without the costlier options (`--requests`, `--app-latency`), and
/// reads the verifier's log of each program with plain loads of kernel memory.
pub fn kernel_loads(
    facts: &KernelFacts,
    plan: &Plan,
    settings: &Settings,
) -> Result<KernelLoads, EngineError> {
    let mut plans = vec![plan.clone().with_app_view(AppView::Counted)];
    if plan.levels().app {
        plans.push(detailed(plan));
    }
    let mut found = KernelLoads::default();
    let mut programs: BTreeMap<LoggedLoad, Vec<String>> = BTreeMap::new();
    for plan in plans {
        let mut timing = StartTiming::logging();
        engine::verify(&plan, settings, &mut timing)?;
        for log in timing.verifier_logs() {
            let logged = verifier_log::read(&String::from_utf8_lossy(&log.text));
            found.programs += 1;
            let of_program = |line| format!("{}: {line}", log.program);
            found
                .unknown
                .extend(logged.unknown.into_iter().map(of_program));
            for load in logged.loads {
                let of = programs.entry(load).or_default();
                if !of.contains(&log.program) {
                    of.push(log.program.clone());
                }
            }
        }
    }
    let loads = programs.into_iter();
    found.loads = loads
        .map(|(load, programs)| classify(facts, load, programs))
        .collect();
    Ok(found)
}

/// The plan with calls that are timed and kept one by one. Other programs do the same loads as without these.
fn detailed(plan: &Plan) -> Plan {
    let mut detailed = plan.clone().with_app_view(AppView::Timed).keeping_calls();
    if let Programs::Direct { levels, .. } = &mut detailed.programs {
        (levels.block, levels.cache) = (false, false);
    }
    detailed
}

/// The declaration of a load.
fn classify(facts: &KernelFacts, load: LoggedLoad, programs: Vec<String>) -> KernelLoad {
    let declared = HELD.iter().find(|held| held.name == load.structure);
    let held = declared.and_then(|held| Some((member_at(facts, held, &load)?, held.why)));
    KernelLoad {
        member: held.map(|(member, _)| member),
        safety: match (load.is_plain, held) {
            (false, _) => LoadSafety::MayFault,
            (true, Some((_, why))) => LoadSafety::Held(why),
            (true, None) => LoadSafety::Unsafe,
        },
        structure: load.structure,
        offset: load.offset,
        size: load.size,
        programs,
    }
}

/// The declared member that contains the whole load.
fn member_at(facts: &KernelFacts, held: &HeldStructure, load: &LoggedLoad) -> Option<&'static str> {
    let members = facts.members.as_ref().ok()?;
    let (begin, end) = (load.offset, load.offset + i64::from(load.size));
    held.members.iter().copied().find(|member| {
        members.get(&(held.layout, *member)).is_some_and(|member| {
            let from = i64::from(member.offset);
            from <= begin && end <= from + i64::from(member.size)
        })
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn safety(structure: &str, offset: i64, size: u32, is_plain: bool) -> LoadSafety {
        let kernel = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kernels/6.12");
        let load = LoggedLoad {
            structure: structure.to_owned(),
            offset,
            size,
            is_plain,
        };
        classify(&KernelFacts::read_in(&kernel), load, Vec::new()).safety
    }

    #[test]
    fn only_declared_members_are_loaded_without_a_fault_handler() {
        assert!(matches!(safety("folio", 0, 8, true), LoadSafety::Held(_)));
        assert!(matches!(safety("request", 8, 8, true), LoadSafety::Unsafe));
        // `_head_1` and `_folio_nr_pages` of a folio are in the next `struct page`.
        assert_eq!(safety("folio", 72, 8, true), LoadSafety::Unsafe);
        assert_eq!(safety("folio", 96, 4, true), LoadSafety::Unsafe);
        assert_eq!(safety("folio", 96, 4, false), LoadSafety::MayFault);
        // Across the end of a member, and of a structure without declarations.
        assert_eq!(safety("folio", 4, 8, true), LoadSafety::Unsafe);
        assert_eq!(safety("inode", 64, 8, true), LoadSafety::Unsafe);
        assert_eq!(safety("inode", 64, 8, false), LoadSafety::MayFault);
    }
}
