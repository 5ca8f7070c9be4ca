//! A web configuration file: TLS, users and headers, as for Prometheus' exporters. It is read again when it changes.

mod document;
mod users;
mod yaml;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::http::caller::Caller;
use crate::http::small_file::{FileError, Kept, SeenFiles};
use crate::http::tls::{ServerTls, TlsError};
use document::Document;
use users::Users;

/// A web configuration file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum WebConfigError {
    /// It cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// It is not text.
    #[error("{} is not UTF-8 text; save it as UTF-8", .0.display())]
    NotText(PathBuf),
    /// Something in it is wrong.
    #[error("{}:{line}: {why}", .path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// The line.
        line: usize,
        /// The reason.
        why: String,
    },
    /// Its certificates or keys are wrong.
    #[error("{}: {why}", .path.display())]
    Tls {
        /// The file.
        path: PathBuf,
        /// The reason.
        why: TlsError,
    },
    /// The system has no random numbers.
    #[error("the system has no random numbers")]
    NoRandomNumbers,
    /// It has less protection than before.
    #[error("{} has no {what} any more; restart the program if that is meant", .path.display())]
    Weaker {
        /// The file.
        path: PathBuf,
        /// What it had.
        what: &'static str,
    },
}

/// What a file asks for.
#[derive(Debug)]
struct Rules {
    tls: Option<ServerTls>,
    /// Whether each client must have a certificate that an authority vouches for.
    needs_certificate: bool,
    /// Whether that certificate must have one of certain names.
    restricts_names: bool,
    users: Option<Users>,
    headers: Vec<(HeaderName, HeaderValue)>,
}

impl Rules {
    fn read(path: &Path, seen: &mut SeenFiles) -> Result<Self, WebConfigError> {
        let text = String::from_utf8(seen.read(path)?)
            .map_err(|_| WebConfigError::NotText(path.to_owned()))?;
        let dir = path.parent().unwrap_or(Path::new(""));
        let document = Document::parse(&text, dir).map_err(|problem| WebConfigError::Content {
            path: path.to_owned(),
            line: problem.line,
            why: problem.why,
        })?;
        let settings = document.tls.as_ref();
        let tls = settings.map(|settings| ServerTls::read(settings, seen));
        let tls = tls.transpose().map_err(|why| WebConfigError::Tls {
            path: path.to_owned(),
            why,
        })?;
        let users = match document.users.is_empty() {
            true => None,
            false => {
                let users = Users::new(document.users);
                Some(users.map_err(|_| WebConfigError::NoRandomNumbers)?)
            }
        };
        Ok(Self {
            tls,
            needs_certificate: settings.is_some_and(|of| of.clients.is_verified()),
            restricts_names: settings.is_some_and(|of| of.clients.restricts_names()),
            users,
            headers: document.headers,
        })
    }

    /// Protection that these rules have and `new` lacks. Half a file, for example while it is written, must not open a server.
    fn missing_in(&self, new: &Self) -> Option<&'static str> {
        if self.tls.is_some() && new.tls.is_none() {
            Some("tls_server_config")
        } else if self.needs_certificate && !new.needs_certificate {
            Some("client_auth_type RequireAndVerifyClientCert")
        } else if self.restricts_names && !new.restricts_names {
            Some("client_allowed_sans")
        } else if self.users.is_some() && new.users.is_none() {
            Some("basic_auth_users")
        } else {
            None
        }
    }
}

/// A web configuration file, and what it asks for now.
#[derive(Clone)]
pub struct WebConfig(Arc<Inner>);

struct Inner {
    path: PathBuf,
    rules: Mutex<Kept<Rules>>,
    say: Box<dyn Fn(String) + Send + Sync>,
}

impl WebConfig {
    /// Reads a file, and the certificates that it names. `say` gets what becomes of later changes.
    pub fn read(
        path: &Path,
        say: impl Fn(String) + Send + Sync + 'static,
    ) -> Result<Self, WebConfigError> {
        let rules = Kept::new(|seen| Rules::read(path, seen))?;
        Ok(Self(Arc::new(Inner {
            path: path.to_owned(),
            rules: Mutex::new(rules),
            say: Box::new(say),
        })))
    }

    /// Whether connections are encrypted.
    pub fn has_tls(&self) -> bool {
        self.rules().tls.is_some()
    }

    /// Whether only known callers are answered.
    pub fn knows_callers(&self) -> bool {
        let rules = self.rules();
        rules.users.is_some() || rules.needs_certificate
    }

    /// TLS for a new connection.
    pub(crate) fn tls(&self) -> Option<ServerTls> {
        self.rules().tls.clone()
    }

    /// The rules, read again if a file has changed. Rules that cannot be used leave the older ones in force.
    fn rules(&self) -> Arc<Rules> {
        let Inner { path, rules, say } = &*self.0;
        let mut rules = rules.lock().unwrap_or_else(PoisonError::into_inner);
        let renewed = rules.renew(|seen, old| {
            let new = Rules::read(path, seen)?;
            match old.missing_in(&new) {
                None => Ok(new),
                Some(what) => Err(WebConfigError::Weaker {
                    path: path.clone(),
                    what,
                }),
            }
        });
        match renewed {
            Ok(false) => {}
            Ok(true) => say(format!(
                "{}, or a file that it names, has changed: read again",
                path.display()
            )),
            Err(why) => say(format!("{why}; going on with what was read before")),
        }
        rules.value()
    }
}

/// Answers users with their passwords. For `axum::middleware::from_fn_with_state`.
pub(crate) async fn ask_for_password(
    State(config): State<WebConfig>,
    request: Request,
    next: Next,
) -> Response {
    let rules = config.rules();
    let given = credentials(request.headers());
    let is_allowed = match (&rules.users, given) {
        (None, _) => true,
        (Some(_), None) => false,
        (Some(users), Some((name, password))) => users.verify(&name, password).await,
    };
    if is_allowed
        && rules.users.is_some()
        && let Some(caller) = request.extensions().get::<Caller>()
    {
        caller.is_known_now();
    }
    let mut response = match is_allowed {
        true => next.run(request).await,
        false => {
            let challenge = [(WWW_AUTHENTICATE, "Basic realm=\"trackiops\"")];
            let why = "a user's name and password are needed\n";
            (StatusCode::UNAUTHORIZED, challenge, why).into_response()
        }
    };
    for (name, value) in &rules.headers {
        response.headers_mut().insert(name.clone(), value.clone());
    }
    response
}

/// The name and password of a request (RFC 7617).
fn credentials(headers: &HeaderMap) -> Option<(String, Vec<u8>)> {
    let mut values = headers.get_all(AUTHORIZATION).into_iter();
    let only = values.next().filter(|_| values.next().is_none())?;
    let (scheme, encoded) = only.to_str().ok()?.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let decoded = STANDARD.decode(encoded.trim_start()).ok()?;
    let colon = decoded.iter().position(|byte| *byte == b':')?;
    let (name, password) = decoded.split_at(colon);
    let name = String::from_utf8(name.to_vec()).ok()?;
    Some((name, password[1..].to_vec()))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Of the password `secret`.
    fn hash() -> String {
        bcrypt::hash("secret", 4).unwrap()
    }

    #[test]
    fn passwords_are_read_as_rfc_7617_writes_them() {
        let of = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.append(AUTHORIZATION, HeaderValue::from_str(value).unwrap());
            credentials(&headers)
        };
        let aladdin = ("Aladdin".to_owned(), b"open sesame".to_vec());
        for value in [
            "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==",
            "basic  QWxhZGRpbjpvcGVuIHNlc2FtZQ==",
        ] {
            assert_eq!(of(value), Some(aladdin.clone()), "{value}");
        }
        assert_eq!(
            of("Basic YTpiOmM="),
            Some(("a".to_owned(), b"b:c".to_vec()))
        );
        for value in [
            "",
            "Basic",
            "Basic ",
            "Basic !",
            "Basic YWJj",
            "Bearer YTpi",
        ] {
            assert_eq!(of(value), None, "{value}");
        }
        let mut two = HeaderMap::new();
        for _ in 0..2 {
            two.append(AUTHORIZATION, HeaderValue::from_static("Basic YTpi"));
        }
        assert_eq!(credentials(&two), None);
    }

    #[test]
    fn a_change_takes_no_protection_away() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("web.yml");
        let ann = format!("basic_auth_users:\n  ann: {}\n", hash());
        fs::write(&path, &ann).unwrap();
        let said = Arc::new(Mutex::new(Vec::new()));
        let says = Arc::clone(&said);
        let config = WebConfig::read(&path, move |line| says.lock().unwrap().push(line)).unwrap();
        let names = || format!("{:?}", config.rules().users);
        assert!(config.knows_callers() && !config.has_tls());
        for half in [
            "",
            "basic_auth_users:\n",
            "http_server_config: {http2: false}\n",
        ] {
            fs::write(&path, half).unwrap();
            assert_eq!(names(), r#"Some({"ann"})"#, "{half}");
        }
        fs::write(&path, format!("{ann}  bob: {}\n", hash())).unwrap();
        assert_eq!(names(), r#"Some({"ann", "bob"})"#);
        let said = said.lock().unwrap();
        assert_eq!(said.len(), 4, "{said:?}");
        assert!(said[0].contains("going on with what was read before"));
        assert!(said[2].contains("no basic_auth_users any more"));
        assert!(said[3].contains("read again"));
    }

    #[test]
    fn errors_name_the_file_and_the_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("web.yml");
        let error = |text: &[u8]| {
            fs::write(&path, text).unwrap();
            let read = WebConfig::read(&path, |_| {});
            read.err().unwrap().to_string()
        };
        let at = path.display();
        assert!(error(b"a: b\n").starts_with(&format!("{at}:1: a is not a key")));
        assert!(error(b"\xff").contains("is not UTF-8"));
        let tls = b"tls_server_config: {cert_file: missing, key_file: missing}";
        let missing = dir.path().join("missing");
        let expected = format!("{at}: cannot read {}: ", missing.display());
        assert!(error(tls).starts_with(&expected), "{}", error(tls));
    }
}
