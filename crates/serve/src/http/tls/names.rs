//! Names of versions, cipher suites and curves, as Go and so Prometheus' exporters write them.

use rustls::crypto::ring::default_provider;
use rustls::crypto::{CryptoProvider, SupportedKxGroup};
use rustls::version::{TLS12, TLS13};
use rustls::{NamedGroup, SupportedCipherSuite, SupportedProtocolVersion};

/// From the lowest on.
static VERSIONS: [(&str, &SupportedProtocolVersion); 2] = [("TLS12", &TLS12), ("TLS13", &TLS13)];

const CURVES: [(&str, NamedGroup); 3] = [
    ("X25519", NamedGroup::X25519),
    ("CurveP256", NamedGroup::secp256r1),
    ("CurveP384", NamedGroup::secp384r1),
];

/// Versions, cipher suites and curves to offer: at first all of them.
#[derive(Debug)]
pub struct Choice {
    lowest: usize,
    highest: usize,
    provider: CryptoProvider,
}

impl Default for Choice {
    fn default() -> Self {
        Self {
            lowest: 0,
            highest: VERSIONS.len() - 1,
            provider: default_provider(),
        }
    }
}

impl Choice {
    /// Offers no lower version.
    pub fn set_lowest(&mut self, name: &str) -> Result<(), String> {
        self.lowest = version(name)?;
        Ok(())
    }

    /// Offers no higher version.
    pub fn set_highest(&mut self, name: &str) -> Result<(), String> {
        self.highest = version(name)?;
        Ok(())
    }

    /// Whether any version is left.
    pub fn has_versions(&self) -> bool {
        self.lowest <= self.highest
    }

    /// Offers these cipher suites, the preferred one first. As in Go, suites of TLS 1.3 stay if none of them is named.
    pub fn set_cipher_suites(&mut self, names: &[String]) -> Result<(), String> {
        let all = &self.provider.cipher_suites;
        let mut chosen = Vec::new();
        for name in names {
            let suite = all.iter().find(|suite| suite_name(suite) == *name);
            let known = || all.iter().map(suite_name).collect::<Vec<_>>();
            chosen.push(*suite.ok_or_else(|| unsupported(name, &known()))?);
        }
        if chosen.iter().all(|suite| suite.tls13().is_none()) {
            let of_tls13 = all.iter().filter(|suite| suite.tls13().is_some());
            chosen.extend(of_tls13.copied());
        }
        self.provider.cipher_suites = chosen;
        Ok(())
    }

    /// Offers these curves, the preferred one first.
    pub fn set_curves(&mut self, names: &[String]) -> Result<(), String> {
        let mut chosen: Vec<&'static dyn SupportedKxGroup> = Vec::new();
        for name in names {
            let curve = CURVES.iter().find(|(of, _)| of == name);
            let all = &self.provider.kx_groups;
            let group = curve.and_then(|(_, curve)| all.iter().find(|of| of.name() == *curve));
            let known = || CURVES.map(|(name, _)| name.to_owned());
            chosen.push(*group.ok_or_else(|| unsupported(name, &known()))?);
        }
        self.provider.kx_groups = chosen;
        Ok(())
    }

    /// The versions.
    pub(super) fn versions(&self) -> Vec<&'static SupportedProtocolVersion> {
        let versions = VERSIONS.iter().take(self.highest + 1).skip(self.lowest);
        versions.map(|(_, version)| *version).collect()
    }

    /// The cipher suites and curves.
    pub(super) fn provider(&self) -> CryptoProvider {
        self.provider.clone()
    }
}

fn version(name: &str) -> Result<usize, String> {
    let at = VERSIONS.iter().position(|(of, _)| *of == name);
    at.ok_or_else(|| unsupported(name, &VERSIONS.map(|(name, _)| name.to_owned())))
}

/// rustls has the version in the names of the suites of TLS 1.3, and RFC 8446 and Go do not.
fn suite_name(suite: &SupportedCipherSuite) -> String {
    let name = suite.suite().as_str().unwrap_or_default();
    name.replacen("TLS13_", "TLS_", 1)
}

fn unsupported(name: &str, known: &[String]) -> String {
    format!("{name} is not supported; write {}", known.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(choice: &Choice) -> Vec<String> {
        choice
            .provider
            .cipher_suites
            .iter()
            .map(suite_name)
            .collect()
    }

    fn texts(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    #[test]
    fn suites_of_tls_1_3_stay_unless_they_are_named() {
        let mut choice = Choice::default();
        let suite = "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256";
        choice.set_cipher_suites(&texts(&[suite])).unwrap();
        assert_eq!(names(&choice).len(), 4, "{:?}", names(&choice));
        let mut choice = Choice::default();
        choice
            .set_cipher_suites(&texts(&["TLS_AES_128_GCM_SHA256", suite]))
            .unwrap();
        assert_eq!(names(&choice), ["TLS_AES_128_GCM_SHA256", suite]);
        let error = choice.set_cipher_suites(&texts(&["TLS_RSA_WITH_RC4_128_SHA"]));
        assert!(error.unwrap_err().contains("TLS_RSA_WITH_RC4_128_SHA"));
    }

    #[test]
    fn versions_and_curves_have_the_names_of_go() {
        let mut choice = Choice::default();
        assert_eq!(choice.versions().len(), 2);
        choice.set_lowest("TLS13").unwrap();
        assert_eq!(choice.versions(), [&TLS13]);
        choice.set_highest("TLS12").unwrap();
        assert!(!choice.has_versions() && choice.versions().is_empty());
        for old in ["TLS10", "TLS11", "1.2"] {
            assert!(choice.set_lowest(old).unwrap_err().contains("TLS12, TLS13"));
        }
        choice.set_curves(&texts(&["CurveP384", "X25519"])).unwrap();
        assert_eq!(choice.provider.kx_groups[0].name(), NamedGroup::secp384r1);
        let error = choice.set_curves(&texts(&["CurveP521"])).unwrap_err();
        assert!(error.contains("CurveP256"), "{error}");
    }
}
