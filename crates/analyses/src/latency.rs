//! Latencies by server, operation and other columns, with duplicates and missing replies.
//!
//! Messages of a capture: calls and replies are paired by xid and client, like in the paper's tool. Requests of a store are paired already;
//! their retransmissions are the duplicates.

use std::str::FromStr;

use ahash::AHashMap;

use crate::distribution::{self, Distribution};
use crate::sheet::{ANY, Datum, Heading, Sheet, few_digits, names};
use crate::source::messages::{Message, Messages};
use crate::source::{Name, Request, Requests};

/// A call last sent at least this long before the end counts as lost, ns. So does every forgotten call.
const LOST_NS: i64 = 1_000_000_000;
/// Calls without a reply are forgotten after this long, ns.
const FORGET_NS: i64 = 3_600_000_000_000;
/// Number of messages between two removals of such calls.
const FORGET_EVERY: u64 = 1 << 20;
const NS_PER_MS: f64 = 1e6;

/// How latencies are grouped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// The server.
    Server,
    /// The operation.
    Op,
    /// The client.
    Client,
    /// The mount of the file; only for requests.
    Mount,
    /// The tenant; only for requests.
    Tenant,
}

impl By {
    const ALL: [(&'static str, Self); 5] = [
        ("server", Self::Server),
        ("op", Self::Op),
        ("client", Self::Client),
        ("mount", Self::Mount),
        ("tenant", Self::Tenant),
    ];

    /// The value of `--by`.
    pub fn name(self) -> &'static str {
        let found = Self::ALL.into_iter().find(|(_, by)| *by == self);
        found.map_or(ANY, |(name, _)| name)
    }

    /// Whether messages of a capture have it.
    pub fn is_of_messages(self) -> bool {
        !matches!(self, Self::Mount | Self::Tenant)
    }
}

impl FromStr for By {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|(name, _)| *name == text);
        let found = found.map(|(_, by)| by);
        found.ok_or_else(|| format!("`{text}` is none of server, op, client, mount, tenant"))
    }
}

/// Values of the grouping columns; `None` is any.
type Key = Vec<Option<Name>>;

#[derive(Clone, Debug)]
struct Latencies {
    ms: Distribution,
    duplicated: u64,
}

/// Latencies by some columns.
pub struct Table {
    by: Vec<By>,
    exact_values: usize,
    rows: AHashMap<Key, Latencies>,
    key: Key,
}

impl Table {
    /// An empty table for rows that are grouped by these columns.
    pub fn new(by: Vec<By>, exact_values: usize) -> Self {
        Self {
            by,
            exact_values,
            rows: AHashMap::new(),
            key: Key::new(),
        }
    }

    fn add(&mut self, value: impl Fn(By) -> Name, latency_ns: f64, is_duplicated: bool) {
        self.key.clear();
        self.key.extend(self.by.iter().map(|by| Some(value(*by))));
        if !self.rows.contains_key(&self.key) {
            let empty = Latencies {
                ms: Distribution::new(self.exact_values),
                duplicated: 0,
            };
            self.rows.insert(self.key.clone(), empty);
        }
        if let Some(row) = self.rows.get_mut(&self.key) {
            row.ms.add(latency_ns / NS_PER_MS);
            row.duplicated += u64::from(is_duplicated);
        }
    }

    /// The rows, including sums over columns; the first columns vary slowest.
    fn sheet(&self, name: impl Fn(By, Name) -> Datum, parts: u64) -> Sheet {
        let mut headings: Vec<_> = self.by.iter().map(|by| Heading::text(by.name())).collect();
        headings.push(Heading::count(
            "duplicated_operations",
            trackiops_schemas::unit::Unit::Count,
        ));
        headings.extend(distribution::headings());
        let caption = "each row is the distribution of latencies, ms; * is any";
        let mut sheet = Sheet::new(Pairing::TABLES[0], caption, headings);
        // Sort: floating-point sums depend on the order.
        let mut rows: Vec<_> = self.rows.iter().collect();
        rows.sort_unstable_by_key(|(key, _)| *key);
        for mask in 0..1_u32 << self.by.len().min(5) {
            let mut summed: AHashMap<Key, Latencies> = AHashMap::new();
            for (key, row) in &rows {
                let any = |place: usize| mask >> (self.by.len() - 1 - place) & 1 == 1;
                let key = key.iter().copied().enumerate();
                let key = key
                    .map(|(place, name)| name.filter(|_| !any(place)))
                    .collect();
                match summed.get_mut(&key) {
                    Some(sum) => {
                        sum.ms.merge(&row.ms);
                        sum.duplicated += row.duplicated;
                    }
                    None => {
                        summed.insert(key, Latencies::clone(row));
                    }
                }
            }
            let mut rows: Vec<_> = summed
                .into_iter()
                .map(|(key, sum)| {
                    let names = self.by.iter().zip(key);
                    let mut row: Vec<_> = names
                        .map(|(by, value)| match value {
                            Some(value) => name(*by, value),
                            None => Datum::text(ANY),
                        })
                        .collect();
                    row.push(Datum::Count(sum.duplicated));
                    row.extend(distribution::cells(&sum.ms, parts));
                    row
                })
                .collect();
            let width = self.by.len();
            rows.sort_by_cached_key(|row| format!("{:?}", row.get(..width)));
            sheet.rows.extend(rows);
        }
        sheet.verdict = verdict(&sheet);
        sheet
    }
}

/// One sentence: the distribution of all latencies, and the row with the longest 99th percentile.
fn verdict(sheet: &Sheet) -> Option<String> {
    let all = sheet.distribution_verdict(" ms")?;
    let of = |row| sheet.figure(row, "p99").unwrap_or(0.0);
    // Of equally slow rows, take the first that is not a sum.
    let slowest = sheet
        .rows
        .iter()
        .rev()
        .max_by(|a, b| of(a).total_cmp(&of(b)))?;
    let p99 = few_digits(of(slowest));
    Some(format!(
        "{all}; the longest p99 has {}: {p99} ms",
        names(slowest)
    ))
}

/// A call that waits for its reply, or may get duplicate replies.
#[derive(Clone, Copy, Debug)]
struct Pending {
    first_ns: i64,
    last_ns: i64,
    is_duplicated: bool,
    is_answered: bool,
}

/// Pairs calls with replies.
pub struct Pairing {
    table: Table,
    pending: AHashMap<(u32, Name), Pending>,
    messages: u64,
    last_ns: i64,
    missing_requests: u64,
    duplicate_requests: u64,
    duplicate_replies: u64,
}

impl Pairing {
    /// Names of its tables.
    pub const TABLES: [&'static str; 2] = ["latencies", "counts"];

    /// Expects messages in order of time.
    pub fn new(table: Table) -> Self {
        Self {
            table,
            pending: AHashMap::new(),
            messages: 0,
            last_ns: i64::MIN,
            missing_requests: 0,
            duplicate_requests: 0,
            duplicate_replies: 0,
        }
    }

    /// Adds a message.
    pub fn add(&mut self, message: &Message) {
        let now = message.time_ns;
        self.last_ns = self.last_ns.max(now);
        self.messages += 1;
        if self.messages.is_multiple_of(FORGET_EVERY) {
            let kept = |pending: &Pending| now.saturating_sub(pending.last_ns) <= FORGET_NS;
            self.pending.retain(|_, pending| kept(pending));
        }
        let key = (message.xid, message.client());
        match message.is_call {
            true => self.add_call(key, now),
            false => self.add_reply(key, message),
        }
    }

    fn add_call(&mut self, key: (u32, Name), now: i64) {
        let new = Pending {
            first_ns: now,
            last_ns: now,
            is_duplicated: false,
            is_answered: false,
        };
        self.pending
            .entry(key)
            .and_modify(|pending| {
                pending.last_ns = now;
                pending.is_duplicated = true;
                self.duplicate_requests += 1;
            })
            .or_insert(new);
    }

    fn add_reply(&mut self, key: (u32, Name), message: &Message) {
        let Some(pending) = self.pending.get_mut(&key) else {
            self.missing_requests += 1;
            return;
        };
        let latency = message.time_ns.saturating_sub(pending.first_ns) as f64;
        let is_duplicated = pending.is_duplicated;
        self.duplicate_replies += u64::from(pending.is_answered);
        pending.is_answered = true;
        // Keep the call: duplicate replies may follow.
        if !is_duplicated {
            self.pending.remove(&key);
        }
        let value = |by| match by {
            By::Server => message.server(),
            By::Client => message.client(),
            By::Op | By::Mount | By::Tenant => message.op,
        };
        self.table.add(value, latency, is_duplicated);
    }

    /// Tables: latencies with quantiles of 1/parts and so on; counts of missing and duplicate messages.
    pub fn sheets(&self, names: &Messages, parts: u64) -> [Sheet; 2] {
        let latencies = self.table.sheet(
            |by, value| match by {
                By::Server | By::Client => Datum::Text(names.hosts.get(value)),
                By::Op | By::Mount | By::Tenant => Datum::Text(names.ops.get(value)),
            },
            parts,
        );
        let [mut first, mut last] = [Distribution::new(0), Distribution::new(0)];
        for pending in self.pending.values().filter(|pending| !pending.is_answered) {
            let ago = |ns: i64| self.last_ns.saturating_sub(ns);
            if ago(pending.last_ns) < LOST_NS {
                first.add(ago(pending.first_ns) as f64 / NS_PER_MS);
                last.add(ago(pending.last_ns) as f64 / NS_PER_MS);
            }
        }
        let counts = [
            ("missing_requests", self.missing_requests as f64),
            ("missing_replies", first.count() as f64),
            ("missing_first_ms", first.mean().unwrap_or_default()),
            ("missing_last_ms", last.mean().unwrap_or_default()),
            ("duplicate_replies", self.duplicate_replies as f64),
            ("duplicate_requests", self.duplicate_requests as f64),
        ];
        let caption = "calls and replies that were missing or came twice";
        [
            latencies,
            Sheet::of_counts(Self::TABLES[1], caption, counts),
        ]
    }
}

/// Latencies of requests.
pub struct OfRequests {
    table: Table,
    untimed: u64,
    duplicate_requests: u64,
}

impl OfRequests {
    /// Ready for requests.
    pub fn new(table: Table) -> Self {
        Self {
            table,
            untimed: 0,
            duplicate_requests: 0,
        }
    }

    /// Adds a request.
    pub fn add(&mut self, request: &Request) {
        let Some(latency) = request.latency_ns else {
            self.untimed += 1;
            return;
        };
        let sent_again = request.retransmissions.unwrap_or_default();
        self.duplicate_requests = self.duplicate_requests.saturating_add(sent_again);
        let value = |by| match by {
            By::Server => request.server,
            By::Client => request.client,
            By::Mount => request.mount,
            By::Tenant => request.tenant,
            By::Op => request.op,
        };
        self.table.add(value, latency as f64, sent_again > 0);
    }

    /// Tables: like [`Pairing::sheets`]. A store has no replies without a call, and no calls without a reply.
    pub fn sheets(&self, names: &Requests, parts: u64) -> [Sheet; 2] {
        let latencies = self.table.sheet(
            |by, value| {
                let names = match by {
                    By::Server => &names.servers,
                    By::Client => &names.clients,
                    By::Mount => &names.mounts,
                    By::Tenant => &names.tenants,
                    By::Op => &names.ops,
                };
                Datum::Text(names.get(value))
            },
            parts,
        );
        let counts = [
            ("duplicate_requests", self.duplicate_requests as f64),
            ("untimed_left_out", self.untimed as f64),
        ];
        let caption = "requests that were sent again, and those of unknown latency";
        [
            latencies,
            Sheet::of_counts(Pairing::TABLES[1], caption, counts),
        ]
    }
}
