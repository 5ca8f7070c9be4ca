//! Culprit and victims of a slow moment, as rows with the same figures.

use trackiops_reports::slow::comparison::Figures;
use trackiops_reports::why::Moment;

use crate::{units, why};

/// A party of a moment: culprit or victim.
pub struct Party<'m> {
    /// `culprit` or `victim`.
    pub role: &'static str,
    /// File, directory or tenant.
    pub name: &'m str,
    /// Its tenant, if there is one.
    pub tenant: Option<&'m str>,
    /// The host.
    pub host: &'m str,
    /// Bytes/s, IOPS, 99th percentile and lost time; `-` where they are unknown.
    pub figures: [String; 4],
    /// Its load, or its latency before and now.
    pub what: String,
}

/// The names of [`Party::figures`].
pub const FIGURES: [&str; 4] = ["bytes/s", "IOPS", "p99", "lost"];

/// The culprit and the victims.
pub fn parties(of: &Moment) -> Vec<Party<'_>> {
    let culprit = why::whose(of).map(|load| Party {
        role: "culprit",
        name: load.owner.name(),
        tenant: load.tenant.as_deref(),
        host: load.owner.host(),
        figures: of_party(&load.figures, load.lost_s),
        what: match &of.process {
            Some(own) => format!(
                "{} {}",
                why::process(own, load.tenant.as_deref()),
                why::done(load)
            ),
            None => why::done(load),
        },
    });
    let victims = of.victims.iter().filter(|of| of.lost_s >= 0.05);
    let victims = victims.map(|of| {
        let means = of.before_us.zip(of.now_us).map(|(before, now)| {
            format!("mean {} to {}", units::latency(before), units::latency(now))
        });
        Party {
            role: "victim",
            name: &of.name,
            tenant: of.tenant.as_deref(),
            host: &of.host,
            figures: of_party(&of.figures, Some(of.lost_s)),
            what: means.unwrap_or_default(),
        }
    });
    culprit.into_iter().chain(victims).collect()
}

fn of_party(of: &Figures, lost_s: Option<f64>) -> [String; 4] {
    let some = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let lost = |s: f64| match s {
        s if s < 1e-6 => "0".to_owned(),
        s => units::time(s * 1e6),
    };
    [
        units::bytes_per_second(of.throughput),
        units::rate(of.iops),
        some(of.p99_us.map(units::latency)),
        some(lost_s.map(lost)),
    ]
}
