//! Words of a command: times, sizes, files, columns and groupings.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use trackiops_collector::Procedure;
use trackiops_query::times::{self, Zone};
use trackiops_query::{FileSelector, GroupBy, Sort, Step, parse_size};
use trackiops_render::{Format, flame};
use trackiops_schemas::identity::{Dev, Tenant};
use trackiops_schemas::time::{Granularity, UtcMs};
use trackiops_store::{GranularitySet, Retention};

/// 2026-11-21T12:00:00Z.
const NOON: UtcMs = UtcMs(1_795_262_400_000);

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = str::from_utf8(bytes) else {
        return;
    };
    for zone in [Zone::utc(), Zone::Local] {
        for start in [None, Some(NOON), Some(UtcMs(i64::MAX))] {
            if let Ok(moment) = times::parse_end(text, start, NOON, zone) {
                let _ = times::rfc3339(moment.at);
                let _ = times::file_name(moment.at);
                let _ = times::show_range(NOON, moment.at, zone);
                let _ = times::show_offset(moment.at, zone);
            }
        }
    }
    if let Ok(granularity) = text.parse::<Granularity>() {
        assert_eq!(granularity.to_string().parse(), Ok(granularity));
    }
    if let Ok(set) = text.parse::<GranularitySet>() {
        assert_eq!(set.to_string().parse(), Ok(set));
    }
    let _ = parse_size(text);
    let _ = text.parse::<Retention>();
    let _ = text.parse::<Step>();
    let _ = text.parse::<Sort>();
    let _ = text.parse::<GroupBy>();
    let _ = text.parse::<Format>();
    let _ = text.parse::<flame::Measure>();
    let _ = text.parse::<flame::Directions>();
    let _ = text.parse::<Dev>();
    let _ = text.parse::<Tenant>();
    let _ = text.parse::<Procedure>();
    let _ = FileSelector::parse(Path::new(text));
    let _ = FileSelector::below(Path::new(text));
    trackiops_query::fuzzing::columns(text);
});
