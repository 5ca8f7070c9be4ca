//! `trackiops record`: from the kernel's NFS client to the store.

pub mod args;
mod reload;

use std::error::Error;
use std::fs;
use std::io::{self, Write};
use std::mem;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::process::{self, ExitCode};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::system::uname;
use tokio::sync::Notify;
use trackiops_collector::{
    AppView, BtfError, Filter, KernelFacts, KnownMounts, Plan, Recorder, Settings, StartTiming,
    Unsupported, check_functions, plan,
};
use trackiops_process::output::{FilePermissions, PartialFile, say};
use trackiops_process::recorder::display::RecordingDisplay;
use trackiops_process::recorder::last_work::LastWork;
use trackiops_process::recorder::log::Level;
use trackiops_process::recorder::memory::Memory;
use trackiops_process::recorder::print::PaperLines;
use trackiops_process::recorder::service_manager::ServiceManager;
use trackiops_process::recorder::stop::{Asked, StopRequest};
use trackiops_process::recorder::{last_work, log, memory, messages};
use trackiops_process::signals;
use trackiops_process::stderr_queue;
use trackiops_schemas::row::ClosedWindow;
use trackiops_schemas::time::UtcMs;
use trackiops_store::live::{LiveServer, RecorderInfo};
use trackiops_store::{Options, RequestQueue, WAITING_REQUESTS, Warning, WindowQueue, Writer};
use trackiops_threads::privileges;

use crate::config::Source;
use crate::exit_status::ExitStatus;
use crate::live_socket;
pub use crate::record::args::{
    Args, DEFAULT_GRANULARITIES, DEFAULT_RETENTION, default_settings, parse_store_size,
};
use crate::record::reload::{Changes, Reload};
use crate::tenant_rules::TenantRules;

/// Most files that a recorder opens: up to 32 rings, maps, programs and their links, kernel files, the journals, four segments during a
/// merge, 64 sockets, and two for each of 17 network namespaces.
const OPEN_FILES: u64 = 388;

/// Short enough: a mount comes between the loading of the module and the first request, and takes about as long.
const LOOK_FOR_NFS_EVERY: Duration = Duration::from_millis(100);
/// After this many checks, a service manager hears again that the recorder waits.
const LOOKS_FOR_NFS_TOLD: u64 = 10;

/// Records until asked to stop. Also stops when a thread has died, and keeps the recorded data.
pub fn run(source: Source) -> Result<ExitCode> {
    let (args, reload) = Reload::begin(source)?;
    stderr_queue::start().context("cannot start the thread of messages")?;
    let ending = Arc::new(Notify::new());
    let asked = Arc::clone(&ending);
    trackiops_threads::watch(move |death| {
        let text = format_args!("{death}; the recording stops and keeps what it has");
        log::report(Level::Error, "died", &[], text);
        asked.notify_one();
    });
    let recorded = trackiops_threads::guarded(|| record(args, reload, ending));
    let Some(death) = trackiops_threads::death() else {
        return recorded.unwrap_or_else(|panic| resume_unwind(panic));
    };
    if let Ok(Err(error)) = recorded {
        say(format_args!("{error:#}"));
    }
    say(format_args!(
        "stopped, as the thread `{}` has panicked: please report this; the next `trackiops record` seals what was recorded",
        death.thread
    ));
    Ok(ExitStatus::Died.into())
}

fn record(args: Args, mut reload: Reload, ending: Arc<Notify>) -> Result<ExitCode> {
    let store = args.store.dir();
    // Check before creating a store, so that a host that cannot record gets none.
    allow_open_files()?;
    let planned = match plan_on(&facts(args.btf.as_deref())?, &args) {
        Err(Unsupported::NfsNotLoaded) if args.wait => None,
        planned => Some(planned?),
    };
    if let Some(plan) = &planned {
        refuse_contradictions(&args, plan)?;
    }
    check_functions(&args.user)?;
    if let Some(file) = &args.ready_file {
        clear_ready_file(file)?;
    }
    let mut settings = args.settings();
    let mut options = args.store_options(&settings.filter);
    if let Some(memory) = args.memory() {
        if let Some(why) = memory.leaves_requests_out().filter(|_| args.requests) {
            log::report(Level::Warning, "requests-left-out", &[], why);
        }
        memory.fit(&mut settings);
        memory.fit_journals(&mut options);
    }
    let mut writer = Writer::open_after(&store, options, None, messages::report_warning)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start to wait for events")?;
    runtime.block_on(async {
        // Before attaching probes, so that a signal never kills a recording that is only half set up.
        let mut stop = StopRequest::new(ending).context("cannot listen to signals")?;
        let manager = ServiceManager::of_environment();
        let plan = match planned {
            Some(plan) => plan,
            None => {
                say("waiting for the NFS client to be loaded");
                manager.waits();
                loop {
                    tokio::select! {
                        asked = stop.asked_to() => match asked {
                            Asked::Stop => {
                                let _ending = manager.ends()?;
                                writer.finish()?;
                                say("stopped: the NFS client was not loaded");
                                return Ok(ExitCode::SUCCESS);
                            }
                            Asked::Reload => manager.reloading(|| {
                                if let Some(limits) = reload.again().limits {
                                    writer.set_retention(limits.keep.clone());
                                }
                            }),
                        },
                        () = nfs_client_loaded(&manager) => {
                            break plan_on(&facts(args.btf.as_deref())?, &args)?;
                        }
                    }
                }
            }
        };
        record_with_plan(
            plan,
            &args,
            reload,
            settings,
            store,
            writer,
            (stop, manager),
        )
        .await
    })
}

/// Records with a plan until asked to stop.
async fn record_with_plan(
    plan: Plan,
    args: &Args,
    mut reload: Reload,
    settings: Settings,
    store: PathBuf,
    writer: Writer,
    (stop, manager): (StopRequest, ServiceManager),
) -> Result<ExitCode> {
    let finest = args.granularity.finest().ms().cast_unsigned();
    manager.begins(Duration::from_millis(finest));
    if !plan.levels().wire && args.levels().is_none() {
        say(
            "the NFS client is not loaded: recording the level block; --wait waits for NFS in place of that",
        );
    }
    let plan = with_wanted_operations(plan, args, &settings.filter);
    let mut plan = with_wanted_calls(plan, args, &settings.filter);
    // Requests that are left out are counted. The programs for calls need more memory to load than there is.
    let leaves_out = |memory: Memory| memory.leaves_requests_out().is_some();
    if args.requests && !args.memory().is_some_and(leaves_out) {
        plan = plan.keeping_calls();
    }
    if !args.user.is_empty() && !plan.may_follow_functions() {
        bail!(
            "the tracepoint engine does not follow functions of programs: leave out --user, or see `trackiops doctor` for what the direct \
             engine lacks"
        );
    }
    let settings = Settings {
        // The current rules: SIGHUP may have changed them while it waited for the NFS client.
        tenant_rules: reload.tenants.rules.clone(),
        ..settings
    };
    let mut timing = StartTiming::begin().until(signals::was_asked);
    let started = Recorder::start(&plan, &settings, &mut timing);
    if signals::was_asked() {
        drop(started);
        return end_unrecorded(manager, writer, &store);
    }
    let mut recorder = started?;
    if let Some(memory) = args.memory() {
        let taken = memory::taken().context("cannot read how much memory the recorder takes")?;
        let files = memory.files(taken);
        recorder.follow_at_most(files);
        if files < Options::MOST_FILES {
            say(memory.why(files));
        }
    }
    if let Some(why) = recorder.refused() {
        say(format_args!(
            "the kernel refused the BPF programs that read its memory by plain loads ({why}): using those that call a \
             helper for each read, at about twice the cost; check whether the JIT compiler is on: \
             sysctl net.core.bpf_jit_enable"
        ));
    }
    // Always seal single requests that an earlier recording left behind.
    let mut budget = None;
    let requests = if args.requests || writer.has_unsealed_requests()? {
        let writer = writer.requests(reload.limits.requests_bytes, messages::report_warning)?;
        budget = Some(writer.budget());
        let most_waiting = args
            .memory()
            .map_or(WAITING_REQUESTS, Memory::waiting_requests);
        let written = RequestQueue::start(writer, most_waiting, messages::report_warning);
        Some(written.context("cannot start the thread of single requests")?)
    } else {
        None
    };
    let (queue, requests) = requests.unzip();
    let queue = queue.filter(|_| args.requests);
    let kept = queue.as_ref().map(|queue| queue.counts());
    let kept = kept.unwrap_or_default();
    if let Some(queue) = queue {
        recorder.hand_requests_to(Box::new(move |batch| queue.put(batch)));
    }
    // Ends after the queue, because it serves the queue's last windows.
    let live = serve(args, &plan, &store, &writer)?;
    let publisher = live.as_ref().map(LiveServer::publisher);
    let ending = Arc::clone(&stop.asked);
    let warn = move |warning: Warning| {
        if matches!(warning, Warning::Replaced(_)) {
            ending.notify_one();
        }
        messages::report_warning(warning);
    };
    let waiting = WindowQueue::start(writer, store, publisher.clone(), warn)
        .context("cannot start the thread of windows")?;
    let usage = recorder.usage();
    let new_rules = recorder.new_rules();
    announce(&settings.filter, args.ready_file.as_deref())?;
    privileges::keep_those_of_readers_of_maps().context("cannot give up capabilities")?;
    manager.records();
    let mut show = RecordingDisplay::new(Arc::clone(&kept), args.paper);
    let mut printed = match args.paper {
        true => Some(
            PaperLines::begin(args.granularity.finest())
                .context("cannot start the thread that prints")?,
        ),
        false => None,
    };
    let mut dropped = 0;
    let mut shed = messages::ShedReports::default();
    let unprobed = recorder.unprobed();
    let mut unprobed_reports = messages::UnprobedReports::default();
    let sink = |mut window: ClosedWindow| -> Result<(), Box<dyn Error + Send + Sync>> {
        let before = mem::replace(&mut dropped, show.kept.unwritten_for_good());
        window.health.requests_dropped += dropped - before;
        if let Some(alarm) = messages::alarm(&window.health) {
            log::report(Level::Error, "audit", &[], alarm);
        }
        unprobed_reports.follow(&unprobed.take(), Instant::now());
        show.window(&window, waiting.waiting(), &manager);
        if let Some(lines) = &mut printed {
            lines.window(&window);
        }
        waiting.put(window);
        let usage = usage.get();
        shed.follow(&usage, Instant::now());
        if let Some(publisher) = &publisher {
            publisher.kernel_usage(usage);
        }
        Ok(())
    };
    let mounted = |at, known: KnownMounts| -> Result<(), Box<dyn Error + Send + Sync>> {
        waiting.mounted(at, known.all, &known.recorded);
        Ok(())
    };
    let stalled = messages::report_stall;
    let reload = || {
        manager.reloading(|| {
            let Changes { limits, tenants } = reload.again();
            if let Some(limits) = limits {
                waiting.set_retention(limits.keep.clone());
                if let Some(budget) = &budget {
                    budget.set(limits.requests_bytes);
                }
            }
            if let Some(TenantRules { rules, .. }) = tenants {
                new_rules.put(rules.clone());
            }
        })
    };
    let totals = recorder
        .run(sink, mounted, stalled, stop.wait(args.duration, reload))
        .await;
    if let Some(lines) = printed {
        lines.finish();
    }
    let last_work = LastWork::begin(manager.listens());
    let ending = manager.ends()?;
    let unwritten = waiting.counter();
    let stored = last_work.wait_for(move || unwritten() > 0, || waiting.finish())?;
    drop(live);
    let are_kept = Arc::clone(&kept);
    let requests = last_work.wait_for(
        move || are_kept.are_waiting(),
        || requests.map_or(Ok(Ok(())), JoinHandle::join),
    )?;
    drop(ending);
    let is_all_sealed = stored.is_some() && requests.is_some();
    stored.unwrap_or(Ok(()))?;
    let requests = requests
        .unwrap_or(Ok(Ok(())))
        .map_err(|_| anyhow!("the thread that writes single requests panicked"))?;
    if !is_all_sealed {
        say(last_work::unsealed(&args.store.dir()));
    }
    messages::report(&totals?, &kept);
    requests.context("single requests were not kept to the end")?;
    Ok(ExitCode::SUCCESS)
}

/// Ends after a signal that came before the recording began. The store gets nothing but what an earlier recording left in journals.
fn end_unrecorded(manager: ServiceManager, writer: Writer, store: &Path) -> Result<ExitCode> {
    let last_work = LastWork::begin(manager.listens());
    let _ending = manager.ends()?;
    let sealed = last_work.wait_for(|| false, || writer.finish())?;
    match sealed {
        Some(sealed) => sealed?,
        None => say(last_work::unsealed(store)),
    }
    say("stopped before the recording began: nothing was recorded");
    Ok(ExitCode::SUCCESS)
}

/// Serves windows to other programs. If that fails, the recording continues, unless a flag requires it.
fn serve(args: &Args, plan: &Plan, store: &Path, writer: &Writer) -> Result<Option<LiveServer>> {
    if args.no_live {
        return Ok(None);
    }
    let named = args.live_socket.as_deref();
    let path = named.unwrap_or(live_socket::usual());
    let keep = &writer.options().keep;
    let recorder = RecorderInfo {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        pid: process::id(),
        host: args.host(),
        kernel: uname().release().to_string_lossy().into_owned(),
        engine: plan.programs.engine().to_owned(),
        store: fs::canonicalize(store).with_context(|| {
            format!(
                "cannot find the store {}; was it moved or deleted?",
                store.display()
            )
        })?,
        store_size: keep.most_bytes,
        retention: keep.retention.to_string(),
        started_ms: UtcMs::now().0,
        granularity_ms: args.granularity.finest().ms(),
    };
    let served = LiveServer::start(path, recorder, writer.position());
    let cannot = || format!("cannot serve windows at {}", path.display());
    match (served, named) {
        (Ok(live), _) => Ok(Some(live)),
        (Err(error), Some(_)) => Err(error).with_context(cannot),
        (Err(error), None) => {
            say(format_args!(
                "{}: {error}; recording all the same; name another path by --live-socket, or leave it out by --no-live",
                cannot()
            ));
            Ok(None)
        }
    }
}

fn plan_on(facts: &KernelFacts, args: &Args) -> Result<Plan, Unsupported> {
    plan(facts, args.engine.into(), args.levels())
}

/// The plan, without operations if they are not wanted or the filter excludes them. Reports excluded operations.
fn with_wanted_operations(plan: Plan, args: &Args, filter: &Filter) -> Plan {
    if let Some(why) = &plan.fallback {
        say(format_args!("using the tracepoint engine: {why}"));
    }
    let narrows = filter.narrows();
    if narrows && !args.no_ops && plan.has_operations() {
        say("operations are not recorded: their sums can be filtered by --ops only");
    }
    match (args.no_ops, narrows) {
        (true, _) => plan.without_operations(),
        (_, true) => plan.without_rpcs(),
        _ => plan,
    }
}

/// The plan with the wanted calls of applications that the filter can be compared with. Reports which calls are not recorded.
fn with_wanted_calls(plan: Plan, args: &Args, filter: &Filter) -> Plan {
    let wanted = match (args.app_latency, args.app_view || plan.levels().app) {
        (true, _) => AppView::Timed,
        (_, true) => AppView::Counted,
        _ => AppView::No,
    };
    if wanted != AppView::No && plan.has_calls() && !plan.levels().app && !filter.knows_calls() {
        say(
            "calls of applications are not counted: --cgroup names cgroups of version 1, and the kernel finds the cgroup of a call in \
             version 2",
        );
        return plan.with_app_view(AppView::No);
    }
    let could = plan.has_calls();
    let plan = plan.with_app_view(wanted);
    if !could && plan.levels().wire && wanted != AppView::No {
        say(
            "calls of applications for files of NFS are not counted: this kernel does not describe the functions that it needs",
        );
    } else if plan.levels().app && !plan.levels().wire && KernelFacts::nfs_client_is_loaded() {
        say("calls for files of NFS are not counted: --levels wire,app counts them as well");
    }
    plan
}

/// Rejects flags that no level of the plan supports.
fn refuse_contradictions(args: &Args, plan: &Plan) -> Result<()> {
    if plan.levels().wire {
        return Ok(());
    }
    if args.app_view {
        bail!(
            "--app-view counts calls for files of the wire, which is not recorded: leave it out, or record with \
             --levels wire; --levels app counts those for other files"
        );
    }
    if args.app_latency && !plan.levels().app {
        bail!(
            "--app-latency times calls of applications, which are not counted: leave it out, or record with \
             --levels wire or app"
        );
    }
    Ok(())
}

/// The facts about the kernel. BTF comes from a file if one is given.
pub fn facts(btf: Option<&Path>) -> Result<KernelFacts, BtfError> {
    let facts = KernelFacts::gather();
    match btf {
        Some(file) => facts.with_btf(file),
        None => Ok(facts),
    }
}

async fn nfs_client_loaded(manager: &ServiceManager) {
    for look in 1_u64.. {
        if KernelFacts::nfs_client_is_loaded() {
            return;
        }
        tokio::time::sleep(LOOK_FOR_NFS_EVERY).await;
        if look.is_multiple_of(LOOKS_FOR_NFS_TOLD) {
            manager.goes_on(None);
        }
    }
}

/// Raises the limit of open files to the recorder's needs. Fails if that is not allowed.
fn allow_open_files() -> Result<()> {
    let limit = getrlimit(Resource::Nofile);
    let is_enough = |limit: Option<u64>| limit.is_none_or(|most| most >= OPEN_FILES);
    if let (Some(most), false) = (limit.maximum, is_enough(limit.maximum)) {
        bail!(
            "no more than {most} files may be open, and a recorder needs {OPEN_FILES}; raise the limit by `ulimit -n {OPEN_FILES}`, or by \
             LimitNOFILE= of systemd"
        );
    }
    if !is_enough(limit.current) {
        let current = Some(OPEN_FILES);
        setrlimit(Resource::Nofile, Rlimit { current, ..limit }).with_context(|| {
            format!("cannot raise the limit of open files; try `ulimit -n {OPEN_FILES}`")
        })?;
    }
    Ok(())
}

/// Removes the file of an earlier recording, so that it cannot be mistaken for this one's.
fn clear_ready_file(file: &Path) -> Result<()> {
    match fs::remove_file(file) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => {
            Err(e).with_context(|| format!("cannot replace the ready file {}", file.display()))
        }
        _ => Ok(()),
    }
}

fn announce(filter: &Filter, ready_file: Option<&Path>) -> Result<()> {
    if filter.is_empty() {
        say("recording");
    } else {
        say(format_args!("recording only {filter}"));
    }
    if filter.leaves_out_transfers() {
        say(
            "with this filter only requests are compared with the kernel's counters, and calls are not",
        );
    }
    for absent in filter.absent_mounts() {
        say(format_args!(
            "`{absent}` is not mounted: nothing of it is recorded until it is"
        ));
    }
    if let Some(file) = ready_file {
        let write = || {
            let mut partial = PartialFile::create(file, FilePermissions::default())?;
            writeln!(partial.file()?, "{}", process::id())?;
            partial.put_in_place()
        };
        write().with_context(|| format!("cannot write the ready file {}", file.display()))?;
    }
    Ok(())
}
