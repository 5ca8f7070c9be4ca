//! The keys of a web configuration file, as the exporter toolkit of Prometheus has them (docs/web-configuration.md there).

use std::collections::BTreeMap;
use std::path::Path;

use axum::http::{HeaderName, HeaderValue};

use super::users::check_hash;
use super::yaml::{self, Map, Node, Problem};
use crate::http::tls::{Choice, ClientAuth, San, ServerSettings};

/// Header fields that may be set, and their values if not all are possible.
const HEADERS: [(&str, &[&str]); 5] = [
    ("Content-Security-Policy", &[]),
    ("Strict-Transport-Security", &[]),
    ("X-Content-Type-Options", &["nosniff"]),
    ("X-Frame-Options", &["deny", "sameorigin"]),
    ("X-XSS-Protection", &[]),
];

/// A web configuration file.
#[derive(Debug)]
pub struct Document {
    /// Without it, connections are not encrypted.
    pub tls: Option<ServerSettings>,
    /// Fields of each answer's head.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// Hashes of passwords by user. If there are none, everyone may ask.
    pub users: BTreeMap<String, String>,
}

impl Document {
    /// Parses a file. Relative paths in it begin at `dir`.
    pub fn parse(text: &str, dir: &Path) -> Result<Self, Problem> {
        let mut root = yaml::parse(text)?.map("")?;
        let tls = root.take("tls_server_config");
        let http = root.take("http_server_config");
        let users = root.take("basic_auth_users");
        root.end(&[(
            "rate_limit",
            "remove it: the number of connections is limited in any case",
        )])?;
        Ok(Self {
            tls: tls.map(|node| tls_settings(node, dir)).transpose()?,
            headers: http.map(headers).transpose()?.unwrap_or_default(),
            users: users.map(hashes).transpose()?.unwrap_or_default(),
        })
    }
}

fn tls_settings(node: Node, dir: &Path) -> Result<ServerSettings, Problem> {
    let line = node.line;
    let mut map = node.map("tls_server_config")?;
    let clients = client_auth(&mut map, dir)?;
    let choice = choice(&mut map)?;
    let order = map.take("prefer_server_cipher_suites");
    let prefers_own_order = match order {
        Some(node) => node.truth(&map.name_of("prefer_server_cipher_suites"))?,
        None => true,
    };
    let files = [map.text("cert_file")?, map.text("key_file")?];
    map.end(&[
        (
            "cert",
            "write the certificate to a file, and name it by cert_file",
        ),
        ("key", "write the key to a file, and name it by key_file"),
        (
            "client_ca",
            "write the certificates to a file, and name it by client_ca_file",
        ),
    ])?;
    let [Some(cert_file), Some(key_file)] = files else {
        let why = "tls_server_config needs cert_file and key_file";
        return Err(Problem::new(line, why));
    };
    Ok(ServerSettings {
        cert_file: dir.join(cert_file),
        key_file: dir.join(key_file),
        clients,
        choice,
        prefers_own_order,
    })
}

fn client_auth(map: &mut Map, dir: &Path) -> Result<ClientAuth, Problem> {
    let kind = map.take("client_auth_type");
    let name = map.name_of("client_auth_type");
    let line = kind.as_ref().map(|kind| kind.line);
    let kind = kind.map(|kind| kind.text(&name)).transpose()?;
    let ca = map.take("client_ca_file");
    let sans = map.take("client_allowed_sans");
    let is_required = match kind.as_deref() {
        Some("RequireAndVerifyClientCert") => true,
        Some("VerifyClientCertIfGiven") => false,
        other => {
            if let Some(unused) = ca.or(sans) {
                let why = "client_ca_file and client_allowed_sans need the client_auth_type RequireAndVerifyClientCert or VerifyClientCertIfGiven";
                return Err(Problem::new(unused.line, why));
            }
            return match other {
                None | Some("NoClientCert") => Ok(ClientAuth::Nothing),
                Some("RequestClientCert") => Ok(ClientAuth::Anything { is_required: false }),
                // The second one is an older name of the toolkit.
                Some("RequireAnyClientCert" | "RequireClientCert") => {
                    Ok(ClientAuth::Anything { is_required: true })
                }
                Some(other) => Err(Problem::new(
                    line.unwrap_or_default(),
                    format!(
                        "{name} is {other}; write NoClientCert, RequestClientCert, RequireAnyClientCert, VerifyClientCertIfGiven or RequireAndVerifyClientCert"
                    ),
                )),
            };
        }
    };
    let Some(ca) = ca else {
        let why = "to verify certificates of clients, tls_server_config needs client_ca_file";
        return Err(Problem::new(line.unwrap_or_default(), why));
    };
    let ca_file = dir.join(ca.text(&map.name_of("client_ca_file"))?);
    let allowed_sans = match sans {
        Some(node) => {
            let name = map.name_of("client_allowed_sans");
            chosen(node, &name, |texts| {
                texts.iter().map(|text| San::parse(text)).collect()
            })?
        }
        None => Vec::new(),
    };
    Ok(ClientAuth::Verified {
        ca_file,
        allowed_sans,
        is_required,
    })
}

fn choice(map: &mut Map) -> Result<Choice, Problem> {
    let mut choice = Choice::default();
    for key in ["min_version", "max_version"] {
        let Some(node) = map.take(key) else { continue };
        let (line, name) = (node.line, map.name_of(key));
        let version = node.text(&name)?;
        let set = match key {
            "min_version" => choice.set_lowest(&version),
            _ => choice.set_highest(&version),
        };
        set.map_err(|why| Problem::new(line, format!("{name}: {why}")))?;
        if !choice.has_versions() {
            let why = "min_version is above max_version; exchange them";
            return Err(Problem::new(line, why));
        }
    }
    for key in ["cipher_suites", "curve_preferences"] {
        let Some(node) = map.take(key) else { continue };
        chosen(node, &map.name_of(key), |texts| match key {
            "cipher_suites" => choice.set_cipher_suites(texts),
            _ => choice.set_curves(texts),
        })?;
    }
    Ok(choice)
}

/// What is made of a list of texts.
fn chosen<T>(
    node: Node,
    name: &str,
    make: impl FnOnce(&[String]) -> Result<T, String>,
) -> Result<T, Problem> {
    let line = node.line;
    make(&node.texts(name)?).map_err(|why| Problem::new(line, format!("{name}: {why}")))
}

fn headers(node: Node) -> Result<Vec<(HeaderName, HeaderValue)>, Problem> {
    let mut map = node.map("http_server_config")?;
    if let Some(node) = map.take("http2") {
        let (line, name) = (node.line, map.name_of("http2"));
        if node.truth(&name)? {
            let why = format!("{name}: only HTTP/1.1 is spoken; write false, or remove the key");
            return Err(Problem::new(line, why));
        }
    }
    let headers = map.take("headers");
    let name = map.name_of("headers");
    map.end(&[])?;
    let Some(headers) = headers else {
        return Ok(Vec::new());
    };
    let entries = headers.map(&name)?.into_entries();
    let entries = entries.into_iter().map(|(key, node)| header(&key, node));
    entries.collect()
}

fn header(key: &str, node: Node) -> Result<(HeaderName, HeaderValue), Problem> {
    let line = node.line;
    let Some((_, values)) = HEADERS.iter().find(|(of, _)| *of == key) else {
        let known = HEADERS.map(|(name, _)| name).join(", ");
        let why = format!("the header {key} cannot be set; those that can be are {known}");
        return Err(Problem::new(line, why));
    };
    let value = node.text(key)?;
    if !values.is_empty() && !values.contains(&value.as_str()) {
        let why = format!("{key} is {value}; write {}", values.join(" or "));
        return Err(Problem::new(line, why));
    }
    let wrong = || Problem::new(line, format!("{key} has a value that HTTP cannot have"));
    let name = HeaderName::from_bytes(key.as_bytes()).map_err(|_| wrong())?;
    let value = HeaderValue::from_str(&value).map_err(|_| wrong())?;
    Ok((name, value))
}

fn hashes(node: Node) -> Result<BTreeMap<String, String>, Problem> {
    let line = node.line;
    let entries = node.map("basic_auth_users")?.into_entries();
    if entries.is_empty() {
        let why = "basic_auth_users has no users; add one, or remove the key";
        return Err(Problem::new(line, why));
    }
    let users = entries.into_iter().map(|(user, node)| {
        let line = node.line;
        let name = format!("basic_auth_users.{user}");
        if user.is_empty() || user.contains(':') {
            let why = format!("{name}: the name of a user is not empty, and has no colon");
            return Err(Problem::new(line, why));
        }
        let hash = node.text(&name)?;
        check_hash(&hash).map_err(|why| Problem::new(line, format!("{name} {why}")))?;
        Ok((user, hash))
    });
    users.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HASH: &str = "$2y$10$X0h1gDsPszWURQaxFh.zoubFi6DXncSjhoQNJgRrnGs7EsimhC7zG";

    fn parse(text: &str) -> Result<Document, Problem> {
        Document::parse(text, Path::new("/etc/web"))
    }

    #[test]
    fn the_keys_of_the_exporter_toolkit_are_read() {
        let document = parse(&format!(
            "tls_server_config:
  cert_file: server.crt
  key_file: /keys/server.key
  client_auth_type: RequireAndVerifyClientCert
  client_ca_file: \"ca.crt\"
  client_allowed_sans: [prometheus.example, 10.0.0.1]
  min_version: TLS12
  max_version: TLS13
  cipher_suites: [TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256]
  prefer_server_cipher_suites: false
  curve_preferences:
  - X25519
http_server_config:
  http2: false
  headers: {{X-Frame-Options: deny, Strict-Transport-Security: max-age=60}}
basic_auth_users:
  ann: {HASH}
  bob: '{HASH}'
"
        ))
        .unwrap();
        let tls = document.tls.unwrap();
        assert_eq!(tls.cert_file, Path::new("/etc/web/server.crt"));
        assert_eq!(tls.key_file, Path::new("/keys/server.key"));
        assert!(!tls.prefers_own_order);
        assert_eq!(
            tls.clients,
            ClientAuth::Verified {
                ca_file: "/etc/web/ca.crt".into(),
                allowed_sans: vec![
                    San::Text("prometheus.example".to_owned()),
                    San::Ip("10.0.0.1".parse().unwrap())
                ],
                is_required: true
            }
        );
        assert_eq!(document.headers.len(), 2);
        assert_eq!(document.users["bob"], HASH);
        let document = parse(&format!("basic_auth_users: {{ann: {HASH}}}")).unwrap();
        assert!(document.tls.is_none() && document.headers.is_empty());
    }

    #[test]
    fn each_way_to_ask_for_certificates_is_known() {
        let ca = "\n  client_ca_file: ca";
        for (kind, ca, expected) in [
            ("NoClientCert", "", ClientAuth::Nothing),
            (
                "RequestClientCert",
                "",
                ClientAuth::Anything { is_required: false },
            ),
            (
                "RequireAnyClientCert",
                "",
                ClientAuth::Anything { is_required: true },
            ),
            (
                "VerifyClientCertIfGiven",
                ca,
                ClientAuth::Verified {
                    ca_file: "/etc/web/ca".into(),
                    allowed_sans: Vec::new(),
                    is_required: false,
                },
            ),
        ] {
            let text = format!(
                "tls_server_config:\n  cert_file: a\n  key_file: b\n  client_auth_type: {kind}{ca}\n"
            );
            assert_eq!(parse(&text).unwrap().tls.unwrap().clients, expected);
        }
    }

    #[test]
    fn what_is_not_supported_is_refused_by_name() {
        let tls =
            |more: &str| format!("tls_server_config:\n  cert_file: a\n  key_file: b\n  {more}\n");
        for (text, has) in [
            ("rate_limit: {burst: 1}".to_owned(), "rate_limit"),
            ("tls_config: {}".to_owned(), "tls_config"),
            ("basic_auth_users: {}".to_owned(), "no users"),
            ("basic_auth_users:".to_owned(), "basic_auth_users"),
            ("basic_auth_users: {a: b}".to_owned(), "bcrypt"),
            (format!("basic_auth_users: {{'a:b': {HASH}}}"), "colon"),
            ("tls_server_config: {}".to_owned(), "cert_file"),
            ("tls_server_config: {cert_file: a}".to_owned(), "key_file"),
            (tls("cert: x"), "tls_server_config.cert is"),
            (tls("key: x"), "tls_server_config.key is"),
            (tls("client_ca: x"), "client_ca is"),
            (tls("ca_file: x"), "ca_file"),
            (tls("client_ca_file: x"), "client_auth_type"),
            (tls("client_allowed_sans: [x]"), "client_auth_type"),
            (tls("client_auth_type: Require"), "Require;"),
            (
                tls("client_auth_type: RequireAndVerifyClientCert"),
                "client_ca_file",
            ),
            (
                tls(
                    "client_auth_type: VerifyClientCertIfGiven\n  client_ca_file: c\n  client_allowed_sans: [a@b]",
                ),
                "a@b",
            ),
            (tls("min_version: TLS10"), "TLS10"),
            (tls("min_version: TLS13\n  max_version: TLS12"), "above"),
            (tls("cipher_suites: []"), "cipher_suites"),
            (tls("cipher_suites: [RC4]"), "RC4"),
            (tls("curve_preferences: [CurveP521]"), "CurveP521"),
            (tls("prefer_server_cipher_suites: maybe"), "true or false"),
            ("http_server_config: {http2: true}".to_owned(), "http2"),
            (
                "http_server_config: {headers: {Server: x}}".to_owned(),
                "Server",
            ),
            (
                "http_server_config: {headers: {X-Frame-Options: no}}".to_owned(),
                "deny or sameorigin",
            ),
        ] {
            let problem = parse(&text).unwrap_err();
            assert!(problem.why.contains(has), "{text}: {}", problem.why);
            assert!(problem.line > 0, "{text}");
        }
        let problem = parse(&format!("{}rate_limit: 1\n", tls("min_version: TLS12"))).unwrap_err();
        assert_eq!(problem.line, 5);
        let secret = parse("basic_auth_users: {ann: secret}").unwrap_err();
        assert!(!secret.why.contains("secret"), "{}", secret.why);
    }
}
