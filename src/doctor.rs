//! `trackiops doctor`: reports the kernel's features, the programs that would be loaded, and missing requirements.

mod loads;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use serde_json::{Map, Value, json};
use trackiops_collector::verdicts::{
    Planned, app_verdict, block_verdict, engine_verdict, fact_states,
};
use trackiops_collector::{
    ALARM_PERCENT, AppView, EngineChoice, KernelFacts, Levels, Plan, RecordedLevel, Recorder,
    StartStep, StartTiming, machine, plan,
};
use trackiops_process::output::{Output, print, print_json};
use trackiops_query::audit::{Audited, ask_audited};
use trackiops_query::times::{Zone, show_range};

use crate::help_headings::{OUTPUT, WHAT};
use crate::record::{default_settings, facts};
use crate::report_flags::ReportFlags;
use crate::store_flag::StoreFlag;

const EXAMPLES: &str = "\
Examples:
  trackiops doctor                     what this kernel has, and what is missing
  trackiops doctor --loads wire,cache  whether programs could crash this kernel
  trackiops doctor --report            what a bug report needs, without names";

/// Arguments of `trackiops doctor`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The kernel's types, for kernels that do not describe themselves
    #[arg(long, value_name = "FILE", help_heading = WHAT)]
    btf: Option<PathBuf>,
    /// Start as `record` does, stop at once, and report what each step took
    #[arg(long, help_heading = WHAT)]
    timing: bool,
    /// List every load of kernel memory, and fail if one could crash the kernel
    ///
    /// Loads are those that the kernel's own verifier sees in the programs of these levels, all by default. Attaches nothing. Takes up to some
    /// minutes.
    #[arg(
        long,
        value_name = "LEVELS",
        num_args = 0..=1,
        default_missing_value = "wire,app,block,cache",
        value_delimiter = ',',
        conflicts_with = "timing",
        help_heading = WHAT
    )]
    loads: Vec<RecordedLevel>,
    /// Add what a bug report needs: machine, distribution, options of mounts
    ///
    /// Names no host, server, file, user or address. Read it before you send it all the same.
    #[arg(long, conflicts_with = "loads", help_heading = WHAT)]
    report: bool,
    #[command(flatten, next_help_heading = WHAT)]
    store: StoreFlag,
    #[command(flatten, next_help_heading = OUTPUT)]
    form: ReportFlags,
}

/// A store, and the result of its recorders' audits.
struct StoreAudit {
    /// Its path, unless that is to stay private.
    store: Option<String>,
    /// The result, or why it is unknown.
    audited: Result<Audited, String>,
}

/// Prints the findings. Fails if nothing can be recorded.
pub fn run(args: Args) -> Result<ExitCode> {
    let mut timing = StartTiming::begin();
    let facts = facts(args.btf.as_deref())?;
    timing.ended("look at the kernel and its BTF");
    if !args.loads.is_empty() {
        let levels = args.loads.into_iter().collect();
        return loads::run(&facts, levels, args.form.is_json());
    }
    let auto = plan(&facts, EngineChoice::Auto, None).map(|plan| plan.with_app_view(AppView::No));
    timing.ended("plan");
    // Before reading the store, which is not part of a start.
    let steps = match &auto {
        Ok(plan) if args.timing => time_start(plan, timing)?,
        _ => Vec::new(),
    };
    let audit = args.store.if_any()?.map(|store| {
        let path = store.display().to_string();
        let shown = |text: String| match args.report {
            true => text.replace(&path, "the store"),
            false => text,
        };
        StoreAudit {
            audited: ask_audited(&store).map_err(|error| shown(error.to_string())),
            store: (!args.report).then_some(path),
        }
    });
    let engines = [
        ("direct", EngineChoice::Direct),
        ("tracepoint", EngineChoice::Tracepoint),
    ]
    .map(|(name, choice)| (name, plan(&facts, choice, Some(Levels::WIRE))));
    let levels = [
        ("app", Levels::APP, app_verdict as fn(&Planned) -> String),
        ("block", Levels::BLOCK, block_verdict),
    ]
    .map(|(name, level, verdict)| {
        let planned = plan(&facts, EngineChoice::Auto, Some(level));
        (name, planned.is_ok(), verdict(&planned))
    });
    let machine = match args.report {
        true => machine(),
        false => Vec::new(),
    };
    Output::Stdout.write(|out| {
        if args.form.is_json() {
            let mut object = facts_object(&facts, &engines, &levels, &auto, audit.as_ref(), &steps);
            if args.report {
                object["machine"] = machine.iter().cloned().collect();
            }
            return print_json(&object, out);
        }
        for (name, value) in &machine {
            print(format_args!("{name:<22} {value}"), 23, out)?;
        }
        print(format_args!("Linux {}", facts.release), 0, out)?;
        for (name, _, state) in fact_states(&facts) {
            print(format_args!("  {name:<18} {state}"), 21, out)?;
        }
        writeln!(out, "engines")?;
        for (name, planned) in &engines {
            let verdict = engine_verdict(planned);
            print(format_args!("  {name:<18} {verdict}"), 21, out)?;
        }
        writeln!(out, "levels")?;
        for (name, _, verdict) in &levels {
            print(format_args!("  {name:<18} {verdict}"), 21, out)?;
        }
        if let Some(audit) = &audit {
            match &audit.store {
                Some(path) => writeln!(out, "store {path}")?,
                None => writeln!(out, "store")?,
            }
            print(
                format_args!("  {:<18} {}", "audit", audit.verdict()),
                21,
                out,
            )?;
        }
        if !steps.is_empty() {
            writeln!(out, "start")?;
        }
        for StartStep { name, wall, cpu } in &steps {
            let (wall, cpu) = (ms(*wall), ms(*cpu));
            print(
                format_args!("  {name:<38} {wall:>10} ms, {cpu:>10} ms of a processor"),
                41,
                out,
            )?;
        }
        match &auto {
            Ok(plan) if !plan.levels().wire => print(
                format_args!(
                    "`trackiops record` records the level block, because the NFS client is not loaded"
                ),
                0,
                out,
            ),
            Ok(plan) => writeln!(
                out,
                "`trackiops record` uses the {} engine",
                plan.programs.engine()
            ),
            Err(_) => Ok(()),
        }
    })?;
    auto?;
    Ok(ExitCode::SUCCESS)
}

/// Attaches every probe, and detaches it again.
fn time_start(plan: &Plan, mut timing: StartTiming) -> Result<Vec<StartStep>> {
    drop(Recorder::start(plan, &default_settings(), &mut timing)?);
    let mut steps = timing.steps().to_vec();
    steps.push(StartStep {
        name: "in all".to_owned(),
        wall: steps.iter().map(|step| step.wall).sum(),
        cpu: steps.iter().map(|step| step.cpu).sum(),
    });
    Ok(steps)
}

fn ms(time: Duration) -> String {
    format!("{:.2}", time.as_secs_f64() * 1e3)
}

/// The same as JSON.
fn facts_object(
    facts: &KernelFacts,
    engines: &[(&str, Planned)],
    levels: &[(&str, bool, String)],
    auto: &Planned,
    audit: Option<&StoreAudit>,
    steps: &[StartStep],
) -> Value {
    let named = |name: &str, ok: bool, state: String| {
        let key = name.to_lowercase().replace(' ', "_");
        (key, json!({ "ok": ok, "state": state }))
    };
    let states = fact_states(facts).into_iter();
    let states: Map<_, _> = states
        .map(|(name, ok, state)| named(name, ok, state))
        .collect();
    let engines = engines.iter();
    let engines: Map<_, _> = engines
        .map(|(name, planned)| named(name, planned.is_ok(), engine_verdict(planned)))
        .collect();
    json!({
        "kernel": facts.release,
        "facts": states,
        "engines": engines,
        "levels": levels.iter().map(|(name, ok, verdict)| named(name, *ok, verdict.clone())).collect::<Map<_, _>>(),
        "audit": audit.map(StoreAudit::object),
        "start": steps.iter().map(step_object).collect::<Vec<_>>(),
        "engine": auto.as_ref().ok().map(|plan| plan.programs.engine()),
        "error": auto.as_ref().err().map(ToString::to_string),
    })
}

fn step_object(step: &StartStep) -> Value {
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    json!({ "step": step.name, "wall_ms": ms(step.wall), "cpu_ms": ms(step.cpu) })
}

impl StoreAudit {
    /// The result in words.
    fn verdict(&self) -> String {
        let Audited { health, alarms } = match &self.audited {
            Ok(audited) => audited,
            Err(why) => return format!("not known: {why}"),
        };
        let times = match health.audit_comparisons {
            0 => {
                return "nothing was compared with the kernel's counters: no mounts, or calls alone"
                    .to_owned();
            }
            1 => "once".to_owned(),
            n => format!("{n} times"),
        };
        let missed = match health.audit_missed_requests {
            0 => String::new(),
            n => format!(
                "; {n} of {} requests in rows (missed), {:.2} %: some kernels run no program for a few, and more than {ALARM_PERCENT} % \
                 of a mount would be an alarm",
                health.audit_kernel_requests,
                100.0 * n as f64 / health.audit_kernel_requests.max(1) as f64
            ),
        };
        match alarms {
            None => format!("compared with the kernel's counters {times}: no alarm{missed}"),
            Some(range) => format!(
                "ALARM: rows and the kernel's counters differed for no known reason, {} times of {} compared, {}{missed}: please report this",
                health.audit_alarms,
                health.audit_comparisons,
                show_range(range.start, range.end, Zone::Local),
            ),
        }
    }

    /// The result as JSON.
    fn object(&self) -> Value {
        let of = |count: fn(&Audited) -> u64| self.audited.as_ref().ok().map(count);
        json!({
            "store": self.store,
            "comparisons": of(|audited| audited.health.audit_comparisons),
            "missed_requests": of(|audited| audited.health.audit_missed_requests),
            "missed_bytes": of(|audited| audited.health.audit_missed_bytes),
            "alarms": of(|audited| audited.health.audit_alarms),
            "error": self.audited.as_ref().err(),
        })
    }
}
