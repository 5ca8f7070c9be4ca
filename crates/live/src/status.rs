//! The state of a running recorder, for people and programs.

use std::fs;

use serde_json::{Value, json};
use trackiops_query::coverage::stalls::stalled;
use trackiops_query::times::{Zone, rfc3339, show, show_length};
use trackiops_query::volume::days_until;
use trackiops_query::{Outcome, ask_volume};
use trackiops_render::units::{self, plural};
use trackiops_schemas::kernel_usage::{KernelUsage, TracingLoad};
use trackiops_schemas::mount::MountPoint;
use trackiops_schemas::time::UtcMs;
use trackiops_store::live::{Activity, OwnUsage, RecorderInfo, Status};

/// How late a window may be closed and written.
const LATE_MS: u64 = 5000;

/// The state of a recorder, and why it is not healthy.
#[derive(Debug)]
pub struct StatusReport {
    recorder: RecorderInfo,
    status: Status,
    mounts: Vec<MountPoint>,
    complaints: Vec<String>,
    store: Option<StoreUsage>,
}

#[derive(Debug)]
struct StoreUsage {
    /// Bytes of segments and journals.
    bytes: u64,
    /// Days until the room is used up; `None` if it never is.
    full_in_days: Option<f64>,
}

impl StatusReport {
    /// The report of a status. Looks at the size of the recorder's store.
    pub fn new(recorder: RecorderInfo, status: Status, mounts: Vec<MountPoint>) -> Self {
        Self {
            complaints: complaints(&status, recorder.granularity_ms.cast_unsigned()),
            store: store_usage(&recorder),
            recorder,
            status,
            mounts,
        }
    }

    /// Why the recorder is not healthy.
    pub fn complaints(&self) -> &[String] {
        &self.complaints
    }

    /// The report for programs.
    pub fn json(&self) -> Value {
        let Self {
            recorder,
            status,
            mounts,
            complaints,
            store,
        } = self;
        let requests = status.total.read_requests + status.total.write_requests;
        json!({
            "state": if complaints.is_empty() { "well" } else { "degraded" },
            "complaints": complaints,
            "recorder": recorder,
            "since": rfc3339(UtcMs(recorder.started_ms)),
            "mounts": mounts,
            "status": status,
            "process": {
                "cpu_ms": status.own.cpu_ms,
                "rss_bytes": status.own.rss_bytes,
                "cpu_ns_per_request": cpu_ns_per_request(&status.own, requests),
            },
            "store": store.as_ref().map(|store| json!({
                "bytes": store.bytes,
                "size": recorder.store_size,
                "full_in_days": store.full_in_days,
            })),
        })
    }

    /// The report for people: names and texts.
    pub fn lines(&self) -> Vec<(&'static str, String)> {
        let Self {
            recorder, status, ..
        } = self;
        let started = UtcMs(recorder.started_ms);
        let age = u64::try_from(UtcMs::now().0 - started.0).unwrap_or_default();
        let state = match self.complaints.is_empty() {
            true => "well".to_owned(),
            false => format!("degraded: {}", self.complaints.join("; ")),
        };
        let of = format!(
            "{} on {}, process {}, for {} (since {})",
            recorder.version,
            recorder.host,
            recorder.pid,
            show_length(age / 1000 * 1000),
            show(started, Zone::Local)
        );
        let kernel = format!("Linux {}, {} engine", recorder.kernel, recorder.engine);
        let windows = format!(
            "{} closed, {} not written yet",
            status.windows, status.waiting
        );
        let mut lines = vec![
            ("state", state),
            ("recorder", of),
            ("kernel", kernel),
            ("mounts", mounts(&self.mounts)),
            ("now", rates(&status.last)),
            ("last minute", rates(&status.recent)),
            ("books", books(&status.total)),
            ("audit", audit(&status.total)),
            ("windows", windows),
            ("store", self.store_line()),
        ];
        let id = status.store_id.iter();
        lines.extend(id.map(|id| ("store id", id.to_string())));
        lines.extend([
            ("tracing", tracing(&status.own.kernel.tracing)),
            ("files", files(&status.own.kernel)),
            ("itself", self.own_line(age)),
        ]);
        lines
    }

    /// What the process takes, `age_ms` after the recording began.
    fn own_line(&self, age_ms: u64) -> String {
        let (own, total) = (&self.status.own, &self.status.total);
        let requests = total.read_requests + total.write_requests;
        let per_request = cpu_ns_per_request(own, requests);
        let per_request = per_request.map_or(String::new(), |ns| {
            format!(", {:.1} us for each request", ns as f64 / 1000.0)
        });
        let share = own.cpu_ms as f64 / age_ms.max(1) as f64;
        format!(
            "{:.2} % of a CPU{per_request}, {} of memory, beside its programs in the kernel",
            100.0 * share,
            units::bytes(own.rss_bytes)
        )
    }

    fn store_line(&self) -> String {
        let path = self.recorder.store.display();
        let Some(store) = &self.store else {
            return format!("{path}, which you may not read");
        };
        let room = match (self.recorder.store_size, store.full_in_days) {
            (None, _) => "without a limit".to_owned(),
            (Some(room), None) => format!("of {}, which will not be used up", units::bytes(room)),
            (Some(room), Some(days)) => format!(
                "of {}, used up in {}; then the oldest of the shortest windows are deleted",
                units::bytes(room),
                match days {
                    days if days < 2.0 => format!("{:.0} hours", 24.0 * days),
                    days => format!("{days:.0} days"),
                }
            ),
        };
        format!("{path}: {} {room}", units::bytes(store.bytes))
    }
}

/// Why a recorder is not healthy: problems in the last minute, and present ones.
fn complaints(status: &Status, granularity_ms: u64) -> Vec<String> {
    let mut complaints = Vec::new();
    if status.silent_ms > granularity_ms + LATE_MS {
        complaints.push(format!(
            "no window was closed for {}: it may be held up by what reads its messages",
            show_length(status.silent_ms / 1000 * 1000)
        ));
    }
    let recent = &status.recent.health;
    for (count, words) in [
        (recent.lost, "lost"),
        (recent.missed, "missed"),
        (recent.requests_dropped, "not kept one by one"),
    ] {
        if count > 0 {
            complaints.push(format!(
                "{} {words} in the last minute",
                plural(count, "request")
            ));
        }
    }
    if recent.audit_alarms > 0 {
        complaints.push("rows and the kernel's counters differ for no known reason".to_owned());
    }
    if let Some(error) = &status.store_error {
        complaints.push(error.clone());
    }
    if status.store_error.is_none() && recent.store_failures > 0 {
        complaints
            .push("the store could not be written in the last minute; see its log".to_owned());
    }
    if status.waiting * granularity_ms > granularity_ms + LATE_MS {
        complaints.push(format!(
            "{} wait for the disk",
            plural(status.waiting, "window")
        ));
    }
    for server in &status.stalled {
        let name = server.server.as_deref().unwrap_or("a server");
        let mounts = match server.mounts.is_empty() {
            true => String::new(),
            false => format!(" ({})", server.mounts.join(", ")),
        };
        complaints.push(format!("{name}{mounts} {}", stalled(server.age_ms)));
    }
    complaints
}

/// The overhead of tracing, and the work that is shed to limit it.
fn tracing(load: &TracingLoad) -> String {
    if load.ceiling_ppm == 0 {
        return "not measured".to_owned();
    }
    let percent = |ppm: u64| format!("{:.2} %", ppm as f64 / 1e4);
    let shed = match load.shed.is_empty() {
        true => String::new(),
        false => format!("; not recorded now: {}", load.shed),
    };
    format!(
        "{} of the CPUs ({} itself, {} its programs in the kernel), {} at most{shed}",
        percent(load.ppm()),
        percent(load.own_ppm),
        percent(load.programs_ppm),
        percent(load.ceiling_ppm),
    )
}

/// How many files can be followed, and whether there are more.
fn files(usage: &KernelUsage) -> String {
    let more = match usage.files_are_full {
        true => "; there are more, which are counted as (other) of their mounts",
        false => "",
    };
    format!("at most {} are followed at a time{more}", usage.files_most)
}

fn mounts(mounts: &[MountPoint]) -> String {
    /// Further mounts are not named.
    const NAMED: usize = 4;
    if mounts.is_empty() {
        return "none".to_owned();
    }
    let names = mounts.iter().take(NAMED);
    let mut names: Vec<_> = names
        .map(|mount| format!("{} on {}", mount.source, mount.path))
        .collect();
    if mounts.len() > NAMED {
        names.push(format!("{} more", mounts.len() - NAMED));
    }
    names.join(", ")
}

fn rates(activity: &Activity) -> String {
    let seconds = activity.health.covered_ms as f64 / 1000.0;
    if seconds == 0.0 {
        return "nothing was recorded".to_owned();
    }
    let files = match activity.files {
        0 => String::new(),
        files => format!(", {}", plural(files, "file")),
    };
    format!(
        "{}/s read by {} requests/s, {}/s written by {} requests/s{files}",
        units::bytes((activity.read_bytes as f64 / seconds) as u64),
        units::rate(activity.read_requests as f64 / seconds),
        units::bytes((activity.write_bytes as f64 / seconds) as u64),
        units::rate(activity.write_requests as f64 / seconds),
    )
}

fn books(total: &Activity) -> String {
    let health = &total.health;
    format!(
        "{} seen, {} folded, {} lost, up to {} missed",
        plural(health.seen, "request"),
        health.folded,
        health.lost,
        health.missed
    )
}

fn audit(total: &Activity) -> String {
    let health = &total.health;
    match health.audit_comparisons {
        0 => "rows were not compared with the kernel's counters".to_owned(),
        comparisons => format!(
            "{} with the kernel's counters: {} in rows (missed), {}",
            plural(comparisons, "comparison"),
            plural(health.audit_missed_requests, "request"),
            plural(health.audit_alarms, "alarm"),
        ),
    }
}

fn cpu_ns_per_request(own: &OwnUsage, requests: u64) -> Option<u64> {
    (own.cpu_ms * 1_000_000).checked_div(requests)
}

/// `None` if the store cannot be read.
fn store_usage(recorder: &RecorderInfo) -> Option<StoreUsage> {
    let retention = recorder.retention.parse().unwrap_or_default();
    let rows = match ask_volume(&recorder.store, &retention).ok()? {
        Outcome::Found(answer) => answer.rows,
        Outcome::Nothing { .. } => Vec::new(),
    };
    let room = recorder.store_size;
    let sealed = rows.iter().filter(|row| row.is_sealed());
    let segments: u64 = sealed.map(|row| row.bytes).sum();
    // All files of journals, including journals of single requests.
    let journals = fs::read_dir(recorder.store.join("journal")).ok()?;
    let lengths = journals.filter_map(|journal| Some(journal.ok()?.metadata().ok()?.len()));
    Some(StoreUsage {
        bytes: segments + lengths.sum::<u64>(),
        full_in_days: room.and_then(|room| days_until(&rows, false, room)),
    })
}

#[cfg(test)]
mod tests {
    use trackiops_schemas::shed::Detail;

    use super::*;

    #[test]
    fn what_is_left_out_is_said_beside_what_tracing_takes() {
        let mut load = TracingLoad {
            own_ppm: 1200,
            programs_ppm: 27_900,
            ceiling_ppm: 30_000,
            ..TracingLoad::default()
        };
        let said =
            "2.91 % of the CPUs (0.12 % itself, 2.79 % its programs in the kernel), 3.00 % at most";
        assert_eq!(tracing(&load), said);
        load.shed = [Detail::SingleCalls, Detail::CallTimes]
            .into_iter()
            .collect();
        let said = format!("{said}; not recorded now: single calls, times of calls");
        assert_eq!(tracing(&load), said);
    }
}
