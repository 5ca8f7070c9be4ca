//! How much longer requests took than similar requests that did not have to wait.
//!
//! The score is the SCI of EZIOTracer (Naas et al.). In each class, the fastest request shows how long a request takes alone. An owner's
//! score is the time that its requests took beyond that, divided by the time in which it had requests. Sums, counts and minima suffice.

mod overlaps;

use std::str::FromStr;
use std::sync::Arc;

use ahash::AHashMap;
use trackiops_schemas::level::IoLevel;
use trackiops_schemas::unit::Unit;

use crate::distribution::Distribution;
use crate::sheet::{Datum, Heading, Sheet, few_digits};
use crate::source::{Name, Request, Requests};

use overlaps::{Flight, NOBODY, Overlaps, Owner};

const NS_PER_S: f64 = 1e9;
const NS_PER_US: f64 = 1e3;

/// How requests are grouped by owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// By process.
    Process,
    /// By file.
    File,
    /// By tenant.
    Tenant,
    /// By mount or device.
    Mount,
    /// By client.
    Client,
}

impl By {
    const ALL: [(&'static str, Self); 5] = [
        ("process", Self::Process),
        ("file", Self::File),
        ("tenant", Self::Tenant),
        ("mount", Self::Mount),
        ("client", Self::Client),
    ];

    /// The value of `--by`.
    pub fn name(self) -> &'static str {
        let found = Self::ALL.into_iter().find(|(_, by)| *by == self);
        found.map_or("", |(name, _)| name)
    }

    /// The number of a request's owner.
    fn of(self, request: &Request) -> u64 {
        match self {
            Self::Process => request.pid.map_or(0, |pid| pid + 1),
            Self::File => request.file.cast_unsigned(),
            Self::Tenant => u64::from(request.tenant),
            Self::Mount => u64::from(request.mount),
            Self::Client => u64::from(request.client),
        }
    }

    fn label(self, request: &Request, names: &Requests) -> Arc<str> {
        match self {
            Self::Process => match request.pid {
                Some(pid) => {
                    let process = request.process.map(|name| names.processes.get(name));
                    let process = process.map_or_else(String::new, |name| format!(" {name}"));
                    format!("{}{process} {pid}", names.clients.get(request.client)).into()
                }
                None => format!("{} unknown", names.clients.get(request.client)).into(),
            },
            Self::File => names.file_name(request),
            Self::Tenant => names.tenants.get(request.tenant),
            Self::Mount => names.mounts.get(request.mount),
            Self::Client => names.clients.get(request.client),
        }
    }
}

impl FromStr for By {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|(name, _)| *name == text);
        let found = found.map(|(_, by)| by);
        found.ok_or_else(|| format!("`{text}` is none of process, file, tenant, mount, client"))
    }
}

/// Requests that would take about the same time alone: same operation and server, sizes up to the next power of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Class {
    server: Name,
    /// Sorts reads first.
    is_other: bool,
    op: Name,
    size: u32,
}

/// Total time of the requests of a class, ns.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    requests: u64,
    latency: u64,
    queue: u64,
    rtt: u64,
}

/// The fastest request of a class, ns: its latency, and the parts of it. The parts break ties, so the order of requests
/// does not matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Least {
    latency: u64,
    queue: u64,
    rtt: u64,
}

struct Whose {
    number: Owner,
    label: Arc<str>,
    first_start_ns: i64,
    last_end_ns: i64,
    classes: AHashMap<Class, Sums>,
}

/// The analysis.
pub struct Contention {
    by: By,
    exact_values: usize,
    whose: AHashMap<(Name, u64), Whose>,
    classes: AHashMap<Class, (Least, Distribution)>,
    overlaps: Overlaps,
    untimed: u64,
    failed: u64,
}

impl Contention {
    /// Names of its tables.
    pub const TABLES: [&'static str; 4] = ["contention", "waits", "classes", "counts"];

    /// Ready for requests.
    pub fn new(by: By, exact_values: usize) -> Self {
        Self {
            by,
            exact_values,
            whose: AHashMap::new(),
            classes: AHashMap::new(),
            overlaps: Overlaps::default(),
            untimed: 0,
            failed: 0,
        }
    }

    /// Adds a request with a known latency that did not fail.
    pub fn add(&mut self, request: &Request, names: &Requests) {
        if request.has_failed {
            self.failed += 1;
            return;
        }
        let (Some(latency), Some(start_ns)) = (request.latency_ns, request.start_ns()) else {
            self.untimed += 1;
            return;
        };
        let class = Class {
            server: request.server,
            is_other: !request.is_read,
            op: request.op,
            size: request.bytes.max(1).next_power_of_two().ilog2(),
        };
        let (queue, rtt) = request.parts_ns.unwrap_or_default();
        let exact_values = self.exact_values;
        let this = Least {
            latency,
            queue,
            rtt,
        };
        let (least, all) = self
            .classes
            .entry(class)
            .or_insert_with(|| (this, Distribution::new(exact_values)));
        *least = this.min(*least);
        all.add(latency as f64 / NS_PER_US);
        let by = self.by;
        let number = Owner::try_from(self.whose.len()).unwrap_or(NOBODY - 1);
        let whose = self
            .whose
            .entry((request.client, by.of(request)))
            .or_insert_with(|| Whose {
                number,
                label: by.label(request, names),
                first_start_ns: start_ns,
                last_end_ns: request.end_ns,
                classes: AHashMap::new(),
            });
        whose.first_start_ns = whose.first_start_ns.min(start_ns);
        whose.last_end_ns = whose.last_end_ns.max(request.end_ns);
        let sums = whose.classes.entry(class).or_default();
        sums.requests += 1;
        sums.latency = sums.latency.saturating_add(latency);
        sums.queue = sums.queue.saturating_add(queue);
        sums.rtt = sums.rtt.saturating_add(rtt);
        self.overlaps.add(Flight {
            owner: whose.number,
            class,
            start_ns,
            end_ns: request.end_ns,
        });
    }

    /// Tables: the `most` owners whose requests waited most; the `most` pairs of owners whose requests waited beside each other; classes
    /// with their least and other times, us; counts.
    /// The sturdier score replaces the fastest time of a class: only the share `low` of the class's requests is faster.
    pub fn sheets(&self, names: &Requests, low: (u64, u64), most: usize) -> [Sheet; 4] {
        let lows = self.classes.iter();
        let lows: AHashMap<Class, f64> = lows
            .map(|(class, (_, all))| {
                let (part, whole) = low;
                let us = all.sorted().quantile(part, whole).unwrap_or_default();
                (*class, us * NS_PER_US)
            })
            .collect();
        let mut rows: Vec<_> = self.whose.values().map(|of| self.row(of, &lows)).collect();
        rows.sort_by(|a, b| b.score.total_cmp(&a.score).then(a.label.cmp(&b.label)));
        let worst = rows.first().map_or(0.0, |row| row.score);
        let (waits, waits_left_out) = self.waits(most);
        let left_out = rows.len().saturating_sub(most);
        rows.truncate(most);
        let answered_by = match names.level() {
            Some(IoLevel::Block) => "waited_device_s",
            _ => "waited_network_s",
        };
        let headings = vec![
            Heading::text(self.by.name()),
            Heading::figure("score", Unit::Ratio),
            Heading::figure("sturdy_score", Unit::Ratio),
            Heading::count("requests", Unit::Count),
            Heading::figure("lifetime_s", Unit::None),
            Heading::figure("latency_s", Unit::None),
            Heading::figure("waited_s", Unit::None),
            Heading::figure("waited_queue_s", Unit::None),
            Heading::figure("waited_rtt_s", Unit::None).titled(answered_by),
            Heading::figure("waited_rest_s", Unit::None),
        ];
        let verdict = verdict(self.by, rows.first(), &waits);
        let caption = "how long requests took beyond the fastest of their class, by the time in which there were any";
        let mut sheet = Sheet::new(Self::TABLES[0], caption, headings);
        sheet.rows = rows.into_iter().map(Row::cells).collect();
        sheet.verdict = Some(verdict);
        let counts = [
            ("worst_score", worst),
            ("rows_left_out", left_out as f64),
            ("waits_left_out", waits_left_out as f64),
            ("untimed_left_out", self.untimed as f64),
            ("failed_left_out", self.failed as f64),
        ];
        let caption = "the largest score, and what the tables leave out";
        [
            sheet,
            waits,
            self.classes(names, &lows),
            Sheet::of_counts(Self::TABLES[3], caption, counts),
        ]
    }

    /// The `most` pairs of owners with the longest waits beside each other, and the number of further pairs.
    fn waits(&self, most: usize) -> (Sheet, usize) {
        let mut labels = vec![Arc::from(""); self.whose.len()];
        for whose in self.whose.values() {
            labels[whose.number as usize] = Arc::clone(&whose.label);
        }
        let mut waited_s: AHashMap<(Owner, Owner), f64> = AHashMap::new();
        let mut all_s: AHashMap<Owner, f64> = AHashMap::new();
        for ((of, beside, class), sum) in self.overlaps.sums() {
            let least = self.classes.get(&class);
            let least = least.map_or(0.0, |(least, _)| least.latency as f64);
            let beyond_s = (sum.latency_ns - least * sum.requests).max(0.0) / NS_PER_S;
            *waited_s.entry((of, beside)).or_default() += beyond_s;
            *all_s.entry(of).or_default() += beyond_s;
        }
        let mut pairs: Vec<_> = waited_s.into_iter().filter(|(_, s)| *s > 0.0).collect();
        pairs.sort_unstable_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        let left_out = pairs.len().saturating_sub(most);
        pairs.truncate(most);
        let headings = vec![
            Heading::text(self.by.name()),
            Heading::text("beside"),
            Heading::figure("waited_s", Unit::None),
            Heading::figure("share", Unit::Ratio),
        ];
        let caption = "beside whose requests at the same server or device those of others waited, by the time in flight together";
        let mut sheet = Sheet::new(Self::TABLES[1], caption, headings);
        let label = |owner: Owner| Arc::clone(&labels[owner as usize]);
        let row = |((of, beside), waited_s): ((Owner, Owner), f64)| {
            let of_all = all_s.get(&of).copied().unwrap_or_default();
            let beside = match beside {
                NOBODY => Datum::text("(nobody)"),
                own if own == of => Datum::text("(itself)"),
                other => Datum::Text(label(other)),
            };
            vec![
                Datum::Text(label(of)),
                beside,
                Datum::Figure(waited_s),
                Datum::Figure(waited_s / of_all),
            ]
        };
        sheet.rows = pairs.into_iter().map(row).collect();
        (sheet, left_out)
    }

    fn row(&self, of: &Whose, lows: &AHashMap<Class, f64>) -> Row {
        let mut row = Row {
            label: of.label.clone(),
            lifetime_s: of.last_end_ns.saturating_sub(of.first_start_ns) as f64 / NS_PER_S,
            ..Row::default()
        };
        let mut sturdy_s = 0.0;
        // Sort: floating-point sums depend on the order.
        let mut classes: Vec<_> = of.classes.iter().collect();
        classes.sort_unstable_by_key(|(class, _)| **class);
        for (class, sums) in classes {
            let Some((least, _)) = self.classes.get(class) else {
                continue;
            };
            let [waited_s, queue_s, rtt_s] = waited_s(sums, least);
            row.requests += sums.requests;
            row.latency_s += sums.latency as f64 / NS_PER_S;
            row.waited_s += waited_s;
            row.queue_s += queue_s;
            row.rtt_s += rtt_s;
            let low = lows.get(class).copied().unwrap_or_default();
            let sturdy = sums.latency as f64 - low * sums.requests as f64;
            sturdy_s += sturdy.max(0.0) / NS_PER_S;
        }
        if row.lifetime_s > 0.0 {
            row.score = row.waited_s / row.lifetime_s;
            row.sturdy_score = sturdy_s / row.lifetime_s;
        }
        row
    }

    fn classes(&self, names: &Requests, lows: &AHashMap<Class, f64>) -> Sheet {
        let headings = vec![
            Heading::text("server"),
            Heading::text("op"),
            Heading::count("bytes_most", Unit::Bytes),
            Heading::count("requests", Unit::Count),
            Heading::figure("least_us", Unit::None),
            Heading::figure("low_us", Unit::None),
            Heading::figure("mean_us", Unit::None),
            Heading::figure("most_us", Unit::None),
        ];
        let caption =
            "requests that would take about as long by themselves, and how long they took";
        let mut sheet = Sheet::new(Self::TABLES[2], caption, headings);
        let mut classes: Vec<_> = self.classes.iter().collect();
        classes.sort_unstable_by_key(|(class, _)| **class);
        sheet.rows = classes
            .into_iter()
            .map(|(class, (least, all))| {
                vec![
                    Datum::Text(names.servers.get(class.server)),
                    Datum::Text(names.ops.get(class.op)),
                    Datum::Count(1_u64 << class.size.min(63)),
                    Datum::Count(all.count()),
                    Datum::Figure(least.latency as f64 / NS_PER_US),
                    Datum::Figure(lows.get(class).copied().unwrap_or_default() / NS_PER_US),
                    Datum::some_figure(all.mean()),
                    Datum::some_figure(all.max()),
                ]
            })
            .collect();
        sheet
    }
}

/// How long the requests of a class took beyond its fastest one, s: in all, in the queue, and in network and server or
/// device. What the parts lack of all is the rest.
///
/// The parts are compared with the parts of the same request, so they add up. A part that was longer in that request
/// than in these has no waiting, and the other parts are reduced by as much: they do not add up to more than all.
fn waited_s(sums: &Sums, least: &Least) -> [f64; 3] {
    let requests = i128::from(sums.requests);
    let beyond = |sum: u64, least: u64| i128::from(sum) - i128::from(least) * requests;
    let all = beyond(sums.latency, least.latency);
    let queue = beyond(sums.queue, least.queue);
    let rtt = beyond(sums.rtt, least.rtt);
    let [queue, rtt, rest] = [queue, rtt, all - queue - rtt].map(|ns| ns.max(0) as f64);
    let all = all.max(0) as f64;
    let parts = queue + rtt + rest;
    let share = if parts > 0.0 { all / parts } else { 0.0 };
    [all, queue * share, rtt * share].map(|ns| ns / NS_PER_S)
}

/// The owner with the largest score, and the owner beside whose requests it waited most.
fn verdict(by: By, worst: Option<&Row>, waits: &Sheet) -> String {
    let Some(worst) = worst.filter(|row| row.score > 0.0) else {
        return "nothing waited: no request took longer than the fastest of its class".to_owned();
    };
    let beside = waits.rows.iter().find_map(|row| match &row[..] {
        [Datum::Text(of), Datum::Text(beside), ..] if *of == worst.label => Some(beside),
        _ => None,
    });
    let beside = beside.map_or_else(String::new, |beside| {
        format!(", most of them beside {beside}")
    });
    format!(
        "the {} {} has the highest score: {} s of its {} s of latency were waiting{beside}",
        by.name(),
        worst.label,
        few_digits(worst.waited_s),
        few_digits(worst.latency_s),
    )
}

#[derive(Default)]
struct Row {
    label: Arc<str>,
    score: f64,
    sturdy_score: f64,
    requests: u64,
    lifetime_s: f64,
    latency_s: f64,
    waited_s: f64,
    queue_s: f64,
    rtt_s: f64,
}

impl Row {
    fn cells(self) -> Vec<Datum> {
        let rest_s = (self.waited_s - self.queue_s - self.rtt_s).max(0.0);
        vec![
            Datum::Text(self.label),
            Datum::Figure(self.score),
            Datum::Figure(self.sturdy_score),
            Datum::Count(self.requests),
            Datum::Figure(self.lifetime_s),
            Datum::Figure(self.latency_s),
            Datum::Figure(self.waited_s),
            Datum::Figure(self.queue_s),
            Datum::Figure(self.rtt_s),
            Datum::Figure(rest_s),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(pid: u64, end_us: i64, latency_us: u64, queue_us: u64, bytes: u64) -> Request {
        Request {
            end_ns: end_us * 1000,
            latency_ns: Some(latency_us * 1000),
            parts_ns: Some((queue_us * 1000, (latency_us - queue_us) * 1000)),
            pid: Some(pid),
            bytes,
            is_read: true,
            ..Request::default()
        }
    }

    fn figures(sheet: &Sheet) -> Vec<Vec<f64>> {
        let figure = |datum: &Datum| match datum {
            Datum::Figure(figure) => *figure,
            Datum::Count(count) => *count as f64,
            _ => f64::NAN,
        };
        let rows = sheet.rows.iter();
        rows.map(|row| row.iter().map(figure).collect()).collect()
    }

    #[test]
    fn who_waits_beyond_the_fastest_of_a_class_scores() {
        let mut contention = Contention::new(By::Process, 1000);
        let names = Requests::default();
        // Alone for a second, each request takes 100 us.
        for n in 0..10 {
            contention.add(&request(1, 100_000 * (n + 1), 100, 0, 4096), &names);
        }
        // One owner always waits 900 us in the queue, one request after the other, for 10 ms.
        for n in 0..10 {
            contention.add(&request(2, 1000 * (n + 1), 1000, 900, 4096), &names);
        }
        // Another class has a different fastest request.
        contention.add(&request(1, 500_000, 5000, 0, 1 << 20), &names);
        contention.add(
            &Request {
                has_failed: true,
                ..request(1, 500_000, 5000, 0, 1 << 20)
            },
            &names,
        );
        contention.add(
            &Request {
                latency_ns: None,
                ..request(1, 500_000, 5000, 0, 1 << 20)
            },
            &names,
        );
        let [rows, _, classes, counts] = contention.sheets(&names, (1, 100), 1);
        let rows = figures(&rows);
        assert_eq!(rows.len(), 1, "the worst one");
        let near = |a: f64, b: f64| (a - b).abs() < 1e-9;
        let [
            _,
            score,
            sturdy,
            requests,
            lifetime,
            latency,
            waited,
            queue,
            rtt,
            rest,
        ] = rows[0][..].try_into().unwrap();
        assert!(near(score, 0.9) && near(sturdy, 0.9), "{rows:?}");
        assert!(
            near(requests, 10.0) && near(lifetime, 0.01) && near(latency, 0.01),
            "{rows:?}"
        );
        assert!(near(waited, 0.009) && near(queue, 0.009), "{rows:?}");
        assert!(near(rtt, 0.0) && near(rest, 0.0), "{rows:?}");
        let classes = figures(&classes);
        assert_eq!(classes.len(), 2);
        assert_eq!(classes[0][2..5], [4096.0, 20.0, 100.0]);
        let counts: Vec<_> = figures(&counts).into_iter().map(|row| row[1]).collect();
        assert_eq!(counts[1..], [1.0, 0.0, 1.0, 1.0], "{counts:?}");
    }

    #[test]
    fn parts_of_waiting_add_up_to_all_of_it() {
        let names = Requests::default();
        // Latency and time in the queue, us. The shortest time in the queue, the shortest time after it and the
        // shortest latency are of different requests.
        let requests = [(120, 10), (100, 50), (300, 270), (900, 20), (100, 60)];
        let parts = |order: &[(u64, u64)]| {
            let mut contention = Contention::new(By::Process, 1000);
            for (n, (latency_us, queue_us)) in (1..).zip(order) {
                let request = request(1, 1000 * n, *latency_us, *queue_us, 4096);
                contention.add(&request, &names);
            }
            let [rows, ..] = contention.sheets(&names, (1, 100), 1);
            let parts: [f64; 4] = figures(&rows)[0][6..].try_into().unwrap();
            parts.map(|s| (s * 1e9).round())
        };
        let [waited, queue, rtt, rest] = parts(&requests);
        // 1520 us in all, less 100 us for each of five requests.
        assert_eq!(waited, 1_020_000.0);
        assert_eq!(queue + rtt + rest, waited, "{queue} {rtt} {rest}");
        assert!(
            queue > 0.0 && rtt > 0.0 && rest == 0.0,
            "{queue} {rtt} {rest}"
        );
        let backwards: Vec<_> = requests.into_iter().rev().collect();
        assert_eq!(parts(&backwards), [waited, queue, rtt, rest]);
        // In the fastest request, the queue took longer than in the others.
        assert_eq!(
            parts(&[(100, 50), (120, 10)]),
            [20_000.0, 0.0, 20_000.0, 0.0]
        );
    }

    #[test]
    fn who_waits_beside_whom_adds_up_to_what_is_waited() {
        let mut contention = Contention::new(By::Process, 1000);
        let names = Requests::default();
        // Alone, a request takes 100 us. Owner 2 waits 800 us: for 650 of 900 us it is beside owner 1, otherwise beside another request of
        // owner 2. That other request waits 150 us.
        let requests = [
            (1, 100, 100),
            (1, 1750, 750),
            (2, 2000, 250),
            (2, 2000, 900),
        ];
        for (pid, end_us, latency_us) in requests {
            contention.add(&request(pid, end_us, latency_us, 0, 4096), &names);
        }
        let [rows, waits, ..] = contention.sheets(&names, (1, 100), 20);
        let text = |datum: &Datum| match datum {
            Datum::Text(text) => text.trim_start_matches("? ").to_owned(),
            _ => String::new(),
        };
        let found: Vec<_> = waits
            .rows
            .iter()
            .map(|row| (text(&row[0]), text(&row[1])))
            .zip(figures(&waits))
            .map(|((of, beside), row)| (of, beside, (row[2] * 1e6).round(), row[3]))
            .collect();
        let pairs = found
            .iter()
            .map(|(of, beside, us, _)| (&**of, &**beside, *us));
        let expected = [
            ("1", "2", 650.0),
            ("2", "1", 578.0),
            ("2", "(itself)", 372.0),
        ];
        assert_eq!(pairs.collect::<Vec<_>>(), expected);
        let all: f64 = figures(&waits).iter().map(|row| row[2]).sum();
        let waited: f64 = figures(&rows).iter().map(|row| row[6]).sum();
        assert!((all - waited).abs() < 1e-9, "{all} {waited}");
        let shares = found.iter().filter(|(of, ..)| of == "2");
        let shares: f64 = shares.map(|(.., share)| share).sum();
        assert!((shares - 1.0).abs() < 1e-9, "{found:?}");
    }
}
