//! All metrics. `docs/reference/metrics.md` has the same table.

/// The kind of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only increases; starts from zero with a new recorder.
    Counter,
    /// Increases and decreases.
    Gauge,
    /// Latencies by bucket.
    Histogram,
    /// Always 1: its labels carry the information.
    Info,
}

impl Kind {
    /// Its name in OpenMetrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
            Self::Info => "info",
        }
    }
}

/// A unit: the last part of a metric's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Seconds.
    Seconds,
    /// Bytes.
    Bytes,
    /// 0 to 1.
    Ratio,
}

impl Unit {
    /// Its name in OpenMetrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Seconds => "seconds",
            Self::Bytes => "bytes",
            Self::Ratio => "ratio",
        }
    }

    /// Its code in OpenTelemetry (UCUM).
    pub fn code(self) -> &'static str {
        match self {
            Self::Seconds => "s",
            Self::Bytes => "By",
            Self::Ratio => "1",
        }
    }
}

/// A metric.
#[derive(Debug, PartialEq, Eq)]
pub struct Family {
    /// Its name, without `_total` and `_info`.
    pub name: &'static str,
    /// Its kind.
    pub kind: Kind,
    /// The unit of its values; `None` if it counts requests, windows or the like.
    pub unit: Option<Unit>,
    /// Its labels.
    pub labels: &'static [&'static str],
    /// Its meaning.
    pub help: &'static str,
}

impl Family {
    /// The name of its samples in the text formats; the samples of a histogram have further suffixes.
    pub fn sample_name(&self) -> String {
        let ending = match self.kind {
            Kind::Counter => "_total",
            Kind::Info => "_info",
            Kind::Gauge | Kind::Histogram => "",
        };
        format!("{}{ending}", self.name)
    }
}

macro_rules! families {
    ($($constant:ident: $kind:ident $(in $unit:ident)?, $name:literal, [$($label:literal),*], $help:literal;)*) => {
        $(
            #[doc = $help]
            pub const $constant: Family = Family {
                name: $name,
                kind: Kind::$kind,
                unit: families!(@unit $($unit)?),
                labels: &[$($label),*],
                help: $help,
            };
        )*
        /// All families, in the order of the exposition.
        pub const FAMILIES: &[&Family] = &[$(&$constant),*];
    };
    (@unit) => { None };
    (@unit $unit:ident) => { Some(Unit::$unit) };
}

families! {
    RECORDER_UP: Gauge, "trackiops_recorder_up", [],
        "1 if the recorder has answered in the last seconds, else 0; all else is missing then.";
    BUILD: Info, "trackiops_build", ["version"],
        "The program that serves the metrics.";
    RECORDER: Info, "trackiops_recorder", ["version", "kernel", "engine"],
        "The recorder, and how it observes requests.";
    START_TIME: Gauge in Seconds, "trackiops_recorder_start_time_seconds", [],
        "When the recording began, since 1970.";

    REQUESTS: Counter, "trackiops_requests", ["mount", "direction"],
        "Completed READ or WRITE requests, failed ones included.";
    TRANSFERRED: Counter in Bytes, "trackiops_transferred_bytes", ["mount", "direction"],
        "Bytes that these requests transferred.";
    ERRORS: Counter, "trackiops_request_errors", ["mount", "direction"],
        "Requests that ended with an error.";
    RETRANSMISSIONS: Counter, "trackiops_retransmissions", ["mount", "direction"],
        "Transmissions beyond the first of each request.";
    UNTIMED: Counter, "trackiops_untimed_requests", ["mount", "direction"],
        "Requests without a usable start time: they are in no sum of times and in no bucket.";
    FOLDED: Counter, "trackiops_folded_requests", ["mount", "direction"],
        "Requests of which the kernel kept sums only: they are in the sums of times, and in no bucket.";
    LATENCY: Histogram in Seconds, "trackiops_latency_seconds", ["mount", "direction"],
        "Latencies of requests, from their start in the client to their completion.";
    QUEUE: Counter in Seconds, "trackiops_queue_seconds", ["mount", "direction"],
        "Part of the latencies until requests were transmitted: waiting in the client.";
    NETWORK: Counter in Seconds, "trackiops_network_seconds", ["mount", "direction"],
        "Part of the latencies from transmission to reply: network and server.";
    COMPLETION: Counter in Seconds, "trackiops_completion_seconds", ["mount", "direction"],
        "The rest of the latencies: from the reply to the completion in the client, and all of those without known parts.";

    TENANT_REQUESTS: Counter, "trackiops_tenant_requests", ["tenant", "direction"],
        "Requests of tenants that rules have named, over all mounts.";
    TENANT_BYTES: Counter in Bytes, "trackiops_tenant_transferred_bytes", ["tenant", "direction"],
        "Bytes that these requests transferred.";
    TENANT_ERRORS: Counter, "trackiops_tenant_request_errors", ["tenant", "direction"],
        "Those of these requests that ended with an error.";
    TENANT_TIME: Counter in Seconds, "trackiops_tenant_request_seconds", ["tenant", "direction"],
        "Sum of the latencies of these requests.";

    OPERATIONS: Counter, "trackiops_operations", ["mount", "operation"],
        "Completed RPCs of each NFS procedure, each attempt of a repeated one.";
    OPERATION_ERRORS: Counter, "trackiops_operation_errors", ["mount", "operation"],
        "Those that ended with an error.";
    OPERATION_TIME: Counter in Seconds, "trackiops_operation_seconds", ["mount", "operation"],
        "Times of these RPCs from start to completion.";
    OPERATION_NETWORK: Counter in Seconds, "trackiops_operation_network_seconds", ["mount", "operation"],
        "Part of these times from transmission to reply.";

    TCP_READINGS: Counter, "trackiops_tcp_readings", ["transport"],
        "Readings of what TCP knows of a connection while it was in use.";
    TCP_RTT: Counter in Seconds, "trackiops_tcp_rtt_seconds", ["transport"],
        "Sum of the smoothed round-trip times at these readings.";
    TCP_RTT_MIN: Gauge in Seconds, "trackiops_tcp_rtt_min_seconds", ["transport"],
        "Least round-trip time of a segment since the recording began.";
    TCP_SEGMENTS: Counter, "trackiops_tcp_segments", ["transport"],
        "Segments with data that the client sent, retransmissions included.";
    TCP_RETRANSMITTED: Counter, "trackiops_tcp_retransmitted_segments", ["transport"],
        "Segments that the client sent again.";
    TCP_RECEIVER_LIMITED: Counter in Seconds, "trackiops_tcp_receiver_limited_seconds", ["transport"],
        "Time in which the server's window limited sending.";
    TCP_SEND_BUFFER_LIMITED: Counter in Seconds, "trackiops_tcp_send_buffer_limited_seconds", ["transport"],
        "Time in which the client's send buffer limited sending.";
    TCP_RECONNECTS: Counter, "trackiops_tcp_reconnects", ["transport"],
        "How often the client connected again.";

    FILE_REQUESTS: Counter, "trackiops_file_requests", ["mount", "path", "direction"],
        "Requests of the busiest files, with --metrics-top-files.";
    FILE_BYTES: Counter in Bytes, "trackiops_file_transferred_bytes", ["mount", "path", "direction"],
        "Bytes that these requests transferred.";

    MOUNT: Info, "trackiops_mount", ["mount", "server", "export", "path", "version", "volume", "claim"],
        "What is mounted now, once for each mount.";
    STALLED_TIME: Gauge in Seconds, "trackiops_stalled_seconds", ["server", "mounts"],
        "How long the oldest request has waited for a server that does not answer.";
    STALLED_REQUESTS: Gauge, "trackiops_stalled_requests", ["server", "mounts"],
        "Requests that wait for a server that does not answer.";
    ACTIVE_FILES: Gauge, "trackiops_active_files", [],
        "Files with activity in the last window.";

    SEEN: Counter, "trackiops_books_seen_requests", [],
        "Requests that the probes saw complete: recorded, folded or lost.";
    RECORDED: Counter, "trackiops_books_recorded_requests", [],
        "Requests that were recorded one by one.";
    BOOKS_FOLDED: Counter, "trackiops_books_folded_requests", [],
        "Requests that found the rings full, and were added up in the kernel.";
    LOST: Counter, "trackiops_books_lost_requests", [],
        "Requests for which there was no room at all.";
    MISSED: Counter, "trackiops_books_missed_requests", [],
        "Completions at which the kernel skipped the programs: at most this many requests were not seen.";
    OPERATIONS_SEEN: Counter, "trackiops_books_seen_operations", [],
        "RPCs that the probes of operations saw complete.";
    OPERATIONS_MISSED: Counter, "trackiops_books_missed_operations", [],
        "RPCs at whose completion the kernel skipped these programs.";
    COVERED: Counter in Seconds, "trackiops_covered_seconds", [],
        "Time that was recorded.";
    CLOCK_STEPS: Counter, "trackiops_clock_steps", [],
        "Steps of the wall clock.";

    AUDIT_COMPARISONS: Counter, "trackiops_audit_comparisons", [],
        "Comparisons of rows with the kernel's own counters.";
    AUDIT_ALARMS: Counter, "trackiops_audit_alarms", [],
        "Comparisons with a difference that nothing explains.";
    AUDIT_MISSED: Counter, "trackiops_audit_missed_requests", [],
        "Requests that the kernel counted and no row of a file has.";
    AUDIT_MISSED_BYTES: Counter in Bytes, "trackiops_audit_missed_bytes", [],
        "Bytes that the kernel counted and no row of a file has.";

    WINDOWS: Counter, "trackiops_windows", [],
        "Windows that were closed.";
    WAITING: Gauge, "trackiops_waiting_windows", [],
        "Closed windows that are not in the store yet.";
    SILENCE: Gauge in Seconds, "trackiops_window_silence_seconds", [],
        "Time since a window was closed.";
    STORE_FAILURES: Counter, "trackiops_store_failures", [],
        "Failed attempts to write the store; windows wait in memory meanwhile.";
    STORE_WRITABLE: Gauge, "trackiops_store_writable", [],
        "1 if the last attempt to write the store succeeded, else 0.";
    STORE_BYTES: Gauge in Bytes, "trackiops_store_bytes", [],
        "What the store takes without single requests, when journals were last sealed.";
    STORE_LIMIT: Gauge in Bytes, "trackiops_store_limit_bytes", [],
        "Room that it may take (--store-size); missing without a limit.";
    DROPPED: Counter, "trackiops_dropped_single_requests", [],
        "Requests that --requests should have kept one by one and did not.";

    RING_USED: Gauge in Ratio, "trackiops_ring_used_ratio", [],
        "How full the fullest ring was at the looks of the last second.";
    CPU: Counter in Seconds, "trackiops_recorder_cpu_seconds", [],
        "CPU time of the recorder's process, without its programs in the kernel.";
    MEMORY: Gauge in Bytes, "trackiops_recorder_resident_memory_bytes", [],
        "Resident memory of the recorder's process.";
    BPF_TIME: Counter in Seconds, "trackiops_recorder_bpf_seconds", [],
        "Time of its programs in the kernel, by samples; missing if the recorder may not measure it (CAP_SYS_ADMIN).";
    TRACING: Gauge in Ratio, "trackiops_tracing_ratio", [],
        "Part of the machine's CPUs that tracing takes: the recorder, and its programs in the kernel.";
    CEILING: Gauge in Ratio, "trackiops_tracing_limit_ratio", [],
        "Part of the machine's CPUs that it may take (--max-overhead).";
    SHED: Counter in Seconds, "trackiops_shed_seconds", ["detail"],
        "Time in which a detail was left out, because tracing had reached its limit.";

    LEFT_OUT: Gauge, "trackiops_left_out_series", [],
        "Series of mounts and servers that are left out, because there are too many.";
    PUSHES: Counter, "trackiops_otlp_pushes", [],
        "Attempts to push to the collector that --otlp names.";
    PUSH_FAILURES: Counter, "trackiops_otlp_push_failures", [],
        "Those that failed.";
}
