//! Compares numbers within the precision of their output.

/// How exactly a number was printed.
#[derive(Clone, Copy, Debug)]
pub enum Printed {
    /// With this many significant digits.
    Digits(i32),
    /// With this many decimals.
    Decimals(i32),
    /// It may be off by this much.
    About(f64),
    /// All digits of a double. Sums in another order differ in the last ones.
    Double,
}

impl Printed {
    /// Whether a number would be printed like another.
    pub fn equal(self, found: f64, expected: f64) -> bool {
        let off = (found - expected).abs();
        // Ties may be rounded either way.
        const ROUNDING: f64 = 1e-9;
        match self {
            Self::Digits(digits) => {
                let size = expected.abs().log10().floor() as i32;
                expected == found || off <= 0.5 * 10_f64.powi(size + 1 - digits) * (1.0 + 1e-6)
            }
            Self::Decimals(decimals) => off <= 0.5 * 10_f64.powi(-decimals) + ROUNDING,
            Self::About(most) => off <= most,
            Self::Double => off <= ROUNDING * expected.abs().max(1e-3),
        }
    }

    /// Notes a difference, if there is one.
    pub fn check(self, what: &str, found: f64, expected: f64, differences: &mut Vec<String>) {
        if !self.equal(found, expected) {
            differences.push(format!("{what}: {found} instead of {expected}"));
        }
    }
}
