//! Access over a port, to which every user of the host can connect: only requests with the token are answered.

use std::io;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header::{
    AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE, COOKIE, HOST, LOCATION, SET_COOKIE,
};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use rustix::rand::{GetRandomFlags, getrandom};

use crate::http::{Caller, is_followed_link};

const PARAMETER: &str = "token";
/// A page that reloads its own address.
const ASK_AGAIN: &str =
    "<!doctype html><meta http-equiv=\"refresh\" content=\"0\"><title>TrackIOps</title>";

/// Secrets that grant access. Each process creates its own, and no one else can guess them.
#[derive(Debug)]
pub struct Access {
    /// Accompanies the first request of a browser, and each request of a script.
    token: String,
    /// The browser's cookie from then on.
    session: String,
    /// Ends the cookie's attributes. With TLS, browsers must not send the cookie without it.
    secure: &'static str,
}

impl Access {
    /// New random secrets, for connections with or without TLS.
    pub fn new(has_tls: bool) -> io::Result<Self> {
        Ok(Self {
            token: random()?,
            session: random()?,
            secure: if has_tls { "; Secure" } else { "" },
        })
    }

    /// The token.
    pub fn token(&self) -> &str {
        &self.token
    }

    fn is_known(&self, headers: &HeaderMap) -> bool {
        let name = cookie_name(headers);
        let cookies = headers.get_all(COOKIE).into_iter();
        let mut cookies = cookies
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(';'))
            .filter_map(|cookie| cookie.trim().split_once('='));
        let by_cookie = cookies.any(|(of, value)| of == name && is_same(value, &self.session));
        let bearer = headers.get(AUTHORIZATION).and_then(|of| of.to_str().ok());
        let bearer = bearer.and_then(|of| of.strip_prefix("Bearer "));
        by_cookie || bearer.is_some_and(|token| is_same(token, &self.token))
    }
}

fn random() -> io::Result<String> {
    // getrandom(2) returns so few bytes in one call.
    let mut bytes = [0; 24];
    getrandom(&mut bytes, GetRandomFlags::empty())?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Takes the same time wherever the texts differ.
fn is_same(one: &str, other: &str) -> bool {
    let pairs = one.bytes().zip(other.bytes());
    one.len() == other.len() && pairs.fold(0, |differ, (a, b)| differ | (a ^ b)) == 0
}

/// Includes the port, because browsers send the cookies of a host to all of its ports.
fn cookie_name(headers: &HeaderMap) -> String {
    let host = headers.get(HOST).and_then(|host| host.to_str().ok());
    let port = host.and_then(|host| host.rsplit_once(':')?.1.parse::<u16>().ok());
    format!("trackiops-{}", port.unwrap_or(80))
}

/// Answers requests with the token or its cookie. For `axum::middleware::from_fn_with_state`.
pub async fn ask_for_token(
    State(access): State<Arc<Access>>,
    request: Request,
    next: Next,
) -> Response {
    if access.is_known(request.headers()) {
        if let Some(caller) = request.extensions().get::<Caller>() {
            caller.is_known_now();
        }
        return next.run(request).await;
    }
    match without_token(request.uri()) {
        Some((token, uri)) if is_same(&token, &access.token) => {
            let name = cookie_name(request.headers());
            let cookie = format!(
                "{name}={}; Path=/; HttpOnly; SameSite=Strict{}",
                access.session, access.secure
            );
            // Redirect, so that the token stays neither in the address bar nor in the history.
            let headers = [
                (LOCATION, uri),
                (SET_COOKIE, cookie),
                (CACHE_CONTROL, "no-store".to_owned()),
            ];
            (StatusCode::SEE_OTHER, headers).into_response()
        }
        // For a request caused by another site, the browser withholds its cookie. It sends the cookie when this page reloads.
        _ if is_followed_link(request.headers()) => {
            let headers = [(CONTENT_TYPE, "text/html"), (CACHE_CONTROL, "no-store")];
            (headers, ASK_AGAIN).into_response()
        }
        _ => (
            StatusCode::UNAUTHORIZED,
            "open the address that `trackiops serve` has printed, with its token; scripts send it as `Authorization: Bearer TOKEN`\n",
        )
            .into_response(),
    }
}

/// The token of an address, and the address without it.
fn without_token(uri: &Uri) -> Option<(String, String)> {
    let pairs = || form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes());
    let (_, token) = pairs().find(|(name, _)| name == PARAMETER)?;
    let mut rest = form_urlencoded::Serializer::new(String::new());
    rest.extend_pairs(pairs().filter(|(name, _)| name != PARAMETER));
    let rest = rest.finish();
    // Two slashes would begin the name of another host.
    let path = format!("/{}", uri.path().trim_start_matches('/'));
    let uri = match rest.is_empty() {
        true => path,
        false => format!("{path}?{rest}"),
    };
    Some((token.into_owned(), uri))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_without_its_token_is_the_same_address() {
        for (uri, expected) in [
            ("/?token=abc", Some(("abc", "/"))),
            (
                "/file?since=%401&token=abc&path=%2Fmnt%2Fa+b",
                Some(("abc", "/file?since=%401&path=%2Fmnt%2Fa+b")),
            ),
            ("//evil.example/?token=abc", Some(("abc", "/evil.example/"))),
            ("/?tokens=abc", None),
        ] {
            let uri: Uri = uri.parse().unwrap();
            let found = without_token(&uri);
            let found = found.as_ref().map(|(token, uri)| (&**token, &**uri));
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn only_the_same_text_is_the_same() {
        assert!(is_same("abc", "abc"));
        for other in ["abd", "ab", "abcd", ""] {
            assert!(!is_same("abc", other), "{other}");
        }
        assert_ne!(random().unwrap(), random().unwrap());
    }
}
