//! Coefficients: energy and emission per request, byte and stored byte. The user supplies all of them.

use std::collections::BTreeMap;
use std::path::Path;

use crate::settings::{Known, Settings, SettingsError};
use crate::usage::Usage;

const KNOWN: &[Known] = &[
    Known {
        table: "",
        keys: Some(&["pue"]),
    },
    Known {
        table: "joule_per_request",
        keys: Some(&["read", "write", "metadata"]),
    },
    Known {
        table: "joule_per_byte",
        keys: Some(&["read", "written"]),
    },
    Known {
        table: "storage",
        keys: Some(&["watt_per_tib"]),
    },
    Known {
        table: "embodied",
        keys: Some(&["g_per_million_requests", "g_per_tib_year"]),
    },
    Known {
        table: "stored",
        keys: None,
    },
];

const TIB: f64 = (1_u64 << 40) as f64;
/// Seconds of a year of 365 days.
const YEAR_S: f64 = 365.0 * 86_400.0;

/// A file of coefficients. An absent one is 0; an absent `pue` is 1.
#[derive(Clone, Debug, Default)]
pub struct Coefficients {
    read_j: f64,
    write_j: f64,
    metadata_j: f64,
    read_byte_j: f64,
    written_byte_j: f64,
    watt_per_tib: f64,
    pue: f64,
    embodied_g_per_request: f64,
    embodied_g_per_tib_year: f64,
    /// Stored bytes by the name of a subject.
    pub stored: BTreeMap<String, u64>,
    /// Keys that the file does not have.
    pub absent: Vec<String>,
}

impl Coefficients {
    /// Parses a file; `path` is for messages.
    pub fn parse(path: &Path, text: &str) -> Result<Self, SettingsError> {
        let settings = Settings::parse(path, text, KNOWN)?;
        let mut absent = Vec::new();
        let mut number = |table: &str, key: &str| {
            let found = settings.number(table, key)?;
            if found.is_none() {
                absent.push(match table {
                    "" => key.to_owned(),
                    table => format!("{table}.{key}"),
                });
            }
            Ok::<_, SettingsError>(found)
        };
        let pue = number("", "pue")?;
        if pue.is_some_and(|pue| pue < 1.0) {
            let line = format!(
                "{}: pue is below 1; it is all energy over that of the equipment",
                path.display()
            );
            return Err(SettingsError(vec![line]));
        }
        let mut coefficients = Self {
            pue: pue.unwrap_or(1.0),
            stored: settings.sizes("stored")?,
            ..Self::default()
        };
        for (to, table, key) in [
            (&mut coefficients.read_j, "joule_per_request", "read"),
            (&mut coefficients.write_j, "joule_per_request", "write"),
            (
                &mut coefficients.metadata_j,
                "joule_per_request",
                "metadata",
            ),
            (&mut coefficients.read_byte_j, "joule_per_byte", "read"),
            (
                &mut coefficients.written_byte_j,
                "joule_per_byte",
                "written",
            ),
            (&mut coefficients.watt_per_tib, "storage", "watt_per_tib"),
            (
                &mut coefficients.embodied_g_per_request,
                "embodied",
                "g_per_million_requests",
            ),
            (
                &mut coefficients.embodied_g_per_tib_year,
                "embodied",
                "g_per_tib_year",
            ),
        ] {
            *to = number(table, key)?.unwrap_or(0.0);
        }
        coefficients.embodied_g_per_request /= 1e6;
        coefficients.absent = absent;
        Ok(coefficients)
    }

    /// Energy of requests and of bytes moved, J, without the overhead of the data centre.
    pub fn usage_j(&self, usage: &Usage) -> [f64; 2] {
        let requests = usage.read_requests as f64 * self.read_j
            + usage.write_requests as f64 * self.write_j
            + usage.metadata_operations as f64 * self.metadata_j;
        let bytes = usage.read_bytes as f64 * self.read_byte_j
            + usage.write_bytes as f64 * self.written_byte_j;
        [requests, bytes]
    }

    /// Energy of bytes that are stored for some time, J, without the overhead.
    pub fn storage_j(&self, stored_bytes: u64, ms: u64) -> f64 {
        self.watt_per_tib * stored_bytes as f64 / TIB * ms as f64 / 1000.0
    }

    /// Power usage effectiveness: total energy divided by the energy of the equipment.
    pub fn pue(&self) -> f64 {
        self.pue
    }

    /// Embodied emission of requests, and of bytes that are stored for some time, g.
    pub fn embodied_g(&self, usage: &Usage, stored_bytes: u64, ms: u64) -> f64 {
        let years = ms as f64 / 1000.0 / YEAR_S;
        usage.requests() as f64 * self.embodied_g_per_request
            + self.embodied_g_per_tib_year * stored_bytes as f64 / TIB * years
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Coefficients, String> {
        Coefficients::parse(Path::new("c.toml"), text).map_err(|error| error.to_string())
    }

    #[test]
    fn nothing_has_a_value_of_its_own() {
        let none = parse("").unwrap();
        let usage = Usage {
            read_requests: 5,
            read_bytes: 7,
            ..Usage::default()
        };
        assert_eq!(none.usage_j(&usage), [0.0, 0.0]);
        assert_eq!(none.storage_j(1 << 40, 1000), 0.0);
        assert_eq!(
            (none.embodied_g(&usage, 1 << 40, 1000), none.pue()),
            (0.0, 1.0)
        );
        assert_eq!(none.absent.len(), 9);
    }

    #[test]
    fn coefficients_multiply_what_they_are_named_after() {
        let all = parse(
            "pue = 1.5\n[joule_per_request]\nread = 2\nwrite = 3\nmetadata = 0.5\n[joule_per_byte]\nread = 1e-3\nwritten = 2e-3\n\
             [storage]\nwatt_per_tib = 4\n[embodied]\ng_per_million_requests = 1e6\ng_per_tib_year = 365\n[stored]\nalice = \"2TiB\"\n",
        )
        .unwrap();
        let usage = Usage {
            read_requests: 10,
            write_requests: 20,
            metadata_operations: 30,
            read_bytes: 1000,
            write_bytes: 2000,
        };
        assert_eq!(all.usage_j(&usage), [95.0, 5.0]);
        assert_eq!(all.storage_j(2 << 40, 10_000), 80.0);
        assert_eq!(all.embodied_g(&usage, 2 << 40, 86_400_000), 32.0);
        assert!(all.absent.is_empty());
        assert_eq!(all.stored["alice"], 2 << 40);
    }

    #[test]
    fn a_share_is_no_pue_and_an_unknown_key_is_refused() {
        assert!(parse("pue = 0.3").unwrap_err().contains("below 1"));
        assert!(
            parse("[joule_per_byte]\nwrite = 1")
                .unwrap_err()
                .contains("unknown key write")
        );
    }
}
