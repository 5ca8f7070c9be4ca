//! `noisy` on simulated days: it finds the planted neighbour, and names no tenant if there is none. These seeds did not serve to develop
//! the method.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use std::ops::Range;

use trackiops_reports::noisy::{Flow, Place, Reason, Verdict, examine};
use trackiops_testkit::queueing::{Day, Truth, simulate};

const INTERVAL_MS: u64 = 10_000;
const DAY_S: u64 = 86_400;
const SEEDS: Range<u64> = 101..121;

/// Requests of each tenant by interval.
fn place(day: Day) -> (Place, Truth) {
    let count = (day.seconds * 1000 / INTERVAL_MS) as usize;
    let mut tenants = Vec::new();
    let truth = simulate(day, |done| {
        if tenants.len() <= done.tenant {
            tenants.resize(done.tenant + 1, vec![[Flow::default(); 2]; count]);
        }
        let interval = (done.end_ns / 1_000_000 / INTERVAL_MS) as usize;
        // Omit requests that end after the day.
        if let Some(flows) = tenants[done.tenant].get_mut(interval) {
            let flow = &mut flows[usize::from(done.write)];
            flow.requests += 1;
            flow.bytes += done.bytes;
            flow.timed += 1;
            flow.latency_ns += done.latency_ns;
            flow.split += 1;
            flow.server_ns += done.rtt_ns;
        }
    });
    let place = Place {
        interval_ms: INTERVAL_MS,
        recorded: vec![true; count],
        entities: tenants,
    };
    (place, truth)
}

fn named(place: &Place) -> Vec<usize> {
    let evidence = examine(place).evidence;
    let named = evidence.iter().filter(|of| of.verdict == Verdict::Named);
    named.map(|of| of.entity).collect()
}

fn day(seed: u64, neighbour: bool) -> (Place, Truth) {
    place(Day {
        seed,
        neighbour,
        seconds: DAY_S,
    })
}

#[test]
fn the_planted_neighbour_is_found_in_19_of_20_days() {
    let mut found = 0;
    for seed in SEEDS {
        let (place, truth) = day(seed, true);
        let named = named(&place);
        let planted = truth.neighbour.unwrap();
        assert!(named.iter().all(|of| *of == planted), "{seed}: {named:?}");
        found += usize::from(named == [planted]);
    }
    assert!(found >= 19, "{found}");
}

#[test]
fn nobody_is_named_in_20_days_without_a_neighbour() {
    for seed in SEEDS {
        let (place, _) = day(seed, false);
        assert_eq!(named(&place), [0; 0], "{seed}");
    }
}

#[test]
fn what_does_not_tell_is_said() {
    let (whole, truth) = day(SEEDS.start, true);
    let planted = truth.neighbour.unwrap();
    let of = |place: &Place, entity: usize| {
        let evidence = examine(place).evidence;
        evidence.into_iter().find(|of| of.entity == entity).unwrap()
    };
    // A quarter of an hour.
    let mut short = whole.clone();
    short.recorded[90..].fill(false);
    let few = of(&short, planted);
    assert_eq!(few.verdict, Verdict::Unknown(Reason::FewIntervals));
    assert!((1..180).contains(&few.intervals), "{few:?}");
    // A constant load.
    let mut steady = whole.clone();
    steady.entities[planted].fill(
        [Flow {
            requests: 50,
            bytes: 50 * 4096,
            ..Flow::default()
        }; 2],
    );
    assert_eq!(
        of(&steady, planted).verdict,
        Verdict::Unknown(Reason::Steady)
    );
    // All tenants do the same.
    let mut together = whole.clone();
    let first = together.entities[planted].clone();
    together.entities.fill(first);
    assert_eq!(of(&together, 0).verdict, Verdict::Unknown(Reason::Together));
    // No other tenant.
    let mut alone = whole.clone();
    alone.entities = vec![whole.entities[planted].clone()];
    assert_eq!(of(&alone, 0).verdict, Verdict::Unknown(Reason::Alone));
}

#[test]
fn unrecorded_time_does_not_hide_a_neighbour() {
    let (mut place, truth) = day(SEEDS.start, true);
    let planted = truth.neighbour.unwrap();
    for gap in [100..160, 3000..3400, 7000..7001] {
        place.recorded[gap.clone()].fill(false);
        // Values in intervals that were not recorded must not matter.
        place
            .entities
            .iter_mut()
            .for_each(|of| of[gap.clone()].fill([Flow::default(); 2]));
    }
    assert_eq!(named(&place), [planted]);
    assert_eq!(examine(&place), examine(&place));
}
