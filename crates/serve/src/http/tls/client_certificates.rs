//! Which certificates of clients to accept.

use std::net::IpAddr;
use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};
use webpki::EndEntityCert;

/// A name or address of a client in its certificate (subject alternative name).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum San {
    /// An address.
    Ip(IpAddr),
    /// A DNS name or a URI, in the same letters.
    Text(String),
}

impl San {
    /// Parses an address, a DNS name or a URI. The library lists no e-mail addresses of a certificate.
    pub fn parse(text: &str) -> Result<Self, String> {
        match text.parse() {
            Ok(ip) => Ok(Self::Ip(ip)),
            Err(_) if text.contains('@') && !text.contains("://") => Err(format!(
                "{text} is an e-mail address, which is not supported; write a DNS name, an address or a URI"
            )),
            Err(_) => Ok(Self::Text(text.to_owned())),
        }
    }

    fn is_in(&self, certificate: &EndEntityCert<'_>) -> bool {
        match self {
            Self::Ip(ip) => certificate
                .verify_is_valid_for_subject_name(&ServerName::from(*ip))
                .is_ok(),
            Self::Text(text) => {
                certificate.valid_dns_names().any(|name| name == text)
                    || certificate.valid_uri_names().any(|uri| uri == text)
            }
        }
    }
}

/// The check of a client's certificate.
#[derive(Debug)]
pub struct Check {
    /// Checks who signed it. `None` accepts any certificate whose key the client has.
    pub verifier: Option<Arc<dyn ClientCertVerifier>>,
    /// It must have one of these, unless there are none.
    pub allowed_sans: Vec<San>,
    pub is_required: bool,
    pub algorithms: WebPkiSupportedAlgorithms,
}

impl ClientCertVerifier for Check {
    fn client_auth_mandatory(&self) -> bool {
        self.is_required
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        match &self.verifier {
            Some(verifier) => verifier.root_hint_subjects(),
            None => &[],
        }
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        match &self.verifier {
            Some(verifier) => {
                verifier.verify_client_cert(end_entity, intermediates, now)?;
            }
            None => {
                ParsedCertificate::try_from(end_entity)?;
            }
        }
        if !self.allowed_sans.is_empty() {
            let certificate = EndEntityCert::try_from(end_entity)
                .map_err(|_| Error::InvalidCertificate(CertificateError::BadEncoding))?;
            if !self.allowed_sans.iter().any(|san| san.is_in(&certificate)) {
                let why = CertificateError::ApplicationVerificationFailure;
                return Err(Error::InvalidCertificate(why));
            }
        }
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, cert, dss, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, dss, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sans_are_addresses_names_or_uris() {
        let ip = San::parse("2001:db8:0::1").unwrap();
        assert_eq!(ip, San::Ip("2001:db8::1".parse().unwrap()));
        for text in ["prometheus.example", "spiffe://example/me@here", "urn:a:b"] {
            assert_eq!(San::parse(text).unwrap(), San::Text(text.to_owned()));
        }
        let error = San::parse("me@example.com").unwrap_err();
        assert!(error.contains("e-mail"), "{error}");
    }
}
