//! The amount of detail in a report, and its reduction until the report fits.

use trackiops_schemas::time::Granularity;

use super::rows::Ranked;

/// Lengths of windows that people read easily, ms.
pub const STEPS: [i64; 19] = [
    1_000,
    2_000,
    5_000,
    10_000,
    15_000,
    30_000,
    60_000,
    120_000,
    300_000,
    600_000,
    900_000,
    1_800_000,
    3_600_000,
    7_200_000,
    10_800_000,
    21_600_000,
    43_200_000,
    86_400_000,
    604_800_000,
];
/// Files, trees and tenants with separate places in the first attempt.
const FIRST: (usize, usize, usize) = (400, 200, 50);
/// Below this number of files, use longer windows instead of fewer files.
const FEW_FILES: usize = 100;
/// Below this number of windows, use fewer tenants and trees instead of longer windows.
const FEW_WINDOWS: u64 = 50;
const FEW_OTHERS: usize = 10;
/// Target size as a share of the limit: the text does not shrink in exact proportion to the number of files.
const AIM: f64 = 0.97;

/// The amount of detail in a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    pub step: Granularity,
    pub files: usize,
    pub trees: usize,
    pub tenants: usize,
}

impl Limits {
    /// The most detail.
    pub fn first(ranked: &Ranked, step: Granularity) -> Self {
        let (files, trees, tenants) = FIRST;
        Self {
            step,
            files: files.min(ranked.files.len()),
            trees: trees.min(ranked.trees.len()),
            tenants: tenants.min(ranked.tenants.len()),
        }
    }
}

/// Limits with which the text was too long.
pub struct Tried {
    pub limits: Limits,
    pub bytes: usize,
}

impl Tried {
    /// Less detail, for a text of `most` bytes; `None` if nothing is left to reduce.
    pub fn less(&self, before: Option<&Self>, most: usize, range_ms: u64) -> Option<Limits> {
        let limits = self.limits;
        let windows = range_ms.div_ceil(limits.step.ms().unsigned_abs());
        let longer = longer(limits.step);
        let mut less = limits;
        match longer {
            _ if limits.files > FEW_FILES => {
                let fitting = self.fitting_files(before, AIM * most as f64);
                less.files = fitting.clamp(FEW_FILES, limits.files - 1);
            }
            Some(longer) if windows > FEW_WINDOWS => less.step = longer,
            _ if limits.tenants > FEW_OTHERS || limits.trees > FEW_OTHERS => {
                let fewer = |count: usize| count.min(FEW_OTHERS.max(count / 2));
                (less.tenants, less.trees) = (fewer(limits.tenants), fewer(limits.trees));
            }
            _ if limits.files + limits.tenants + limits.trees > 0 => {
                less.files /= 2;
                less.tenants /= 2;
                less.trees /= 2;
            }
            Some(longer) if windows > 1 => less.step = longer,
            _ => return None,
        }
        Some(less)
    }

    /// Number of files that fit. If two texts differ only in files, their difference gives the size per file.
    fn fitting_files(&self, before: Option<&Self>, most: f64) -> usize {
        let (files, bytes) = (self.limits.files as f64, self.bytes as f64);
        let per_file = before
            .map(|before| {
                let more = before.limits.files as f64 - files;
                (before.bytes as f64 - bytes) / more
            })
            .filter(|per_file| per_file.is_finite() && *per_file > 0.0);
        // Trees take their part independently of the files.
        let per_file = per_file.unwrap_or(bytes / files);
        (files - (bytes - most) / per_file).max(0.0) as usize
    }
}

/// The next longer windows that are a multiple of these.
fn longer(step: Granularity) -> Option<Granularity> {
    let mut nice = STEPS.iter().map(|ms| Granularity::from_ms(*ms));
    let nice = nice.find_map(|nice| {
        let nice = nice.ok()?;
        (nice > step && nice.is_multiple_of(step)).then_some(nice)
    });
    nice.or_else(|| Granularity::from_ms(step.ms() * 2).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    const RANGE_MS: u64 = 3_600_000;

    fn limits(files: usize) -> Limits {
        Limits {
            step: Granularity::from_ms(10_000).unwrap(),
            files,
            trees: 200,
            tenants: 50,
        }
    }

    #[test]
    fn detail_goes_until_there_is_none() {
        let mut seen = vec![limits(400)];
        let mut before = None;
        loop {
            let limits = seen[seen.len() - 1];
            let tried = Tried {
                limits,
                bytes: 1200,
            };
            let Some(less) = tried.less(before.as_ref(), 1000, RANGE_MS) else {
                break;
            };
            assert!(!seen.contains(&less), "{less:?}");
            assert!(less.step >= limits.step && less.step.is_multiple_of(limits.step));
            assert!(less.files <= limits.files && less.trees <= limits.trees);
            assert!(less.tenants <= limits.tenants);
            seen.push(less);
            before = Some(tried);
        }
        let last = seen[seen.len() - 1];
        assert!(seen.len() < 40, "{}", seen.len());
        assert_eq!((last.files, last.trees, last.tenants), (0, 0, 0));
        assert!(last.step.ms() >= RANGE_MS as i64);
    }

    #[test]
    fn two_texts_tell_what_a_file_takes() {
        // 3000 bytes of trees, and 10 bytes for each file.
        let tried = |files| Tried {
            limits: limits(files),
            bytes: 3000 + 10 * files,
        };
        let second = tried(400).less(None, 5000, RANGE_MS).unwrap();
        assert!((FEW_FILES..400).contains(&second.files), "{second:?}");
        let third = tried(second.files).less(Some(&tried(400)), 5000, RANGE_MS);
        assert_eq!(third.unwrap().files, 185);
    }
}
