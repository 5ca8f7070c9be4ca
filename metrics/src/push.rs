//! Pushes metrics to an OpenTelemetry collector on this host: OTLP over HTTP.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::client::conn::http1;
use hyper::header::{CONTENT_TYPE, HOST};
use hyper::{Request, Uri};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::{Instant, MissedTickBehavior, interval_at, timeout};

use crate::follow::Follower;
use crate::otlp::{self, From};

/// Timeout of a push.
const PATIENCE: Duration = Duration::from_secs(10);
/// Bytes of an answer to read.
const MOST_ANSWER: usize = 64 << 10;
/// Default port and path of the URL (OpenTelemetry Protocol Exporter).
const PORT: u16 = 4318;
const PATH: &str = "/v1/metrics";

/// The address of a collector on this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtlpUrl {
    address: SocketAddr,
    path: String,
}

/// The text is not such a URL.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no URL of a collector on this host: write http://127.0.0.1:4318; that collector passes on to others, with TLS and credentials"
)]
pub struct OtlpUrlError(String);

impl FromStr for OtlpUrl {
    type Err = OtlpUrlError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || OtlpUrlError(text.to_owned());
        let uri: Uri = text.parse().map_err(|_| error())?;
        let (Some("http"), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
            return Err(error());
        };
        if authority.as_str().contains('@') {
            return Err(error());
        }
        let host = authority
            .host()
            .trim_start_matches('[')
            .trim_end_matches(']');
        let host = match host {
            "localhost" => "127.0.0.1",
            host => host,
        };
        let ip: IpAddr = host.parse().map_err(|_| error())?;
        if !ip.is_loopback() {
            return Err(error());
        }
        let port = match authority.port_u16() {
            Some(port) => port,
            None if authority.as_str() == authority.host() => PORT,
            None => return Err(error()),
        };
        let path = match uri.path_and_query().map_or("", |path| path.as_str()) {
            "" | "/" => PATH,
            path => path,
        };
        Ok(Self {
            address: SocketAddr::new(ip, port),
            path: path.to_owned(),
        })
    }
}

impl fmt::Display for OtlpUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}{}", self.address, self.path)
    }
}

/// Pushes the values of a follower.
#[derive(Debug)]
pub struct Pusher {
    follower: Follower,
    url: OtlpUrl,
    every: Duration,
}

/// A push failed.
#[derive(Debug, thiserror::Error)]
enum PushError {
    #[error("cannot connect: {0}")]
    Connect(#[from] std::io::Error),
    #[error("{0}")]
    Http(#[from] hyper::Error),
    #[error("{0}")]
    Request(#[from] hyper::http::Error),
    #[error("it answers with status {0}")]
    Status(u16),
    #[error("it does not answer")]
    Silent,
}

impl Pusher {
    /// A pusher to this collector, at this interval.
    pub fn new(follower: Follower, url: OtlpUrl, every: Duration) -> Self {
        follower.count_pushes(0, 0);
        Self {
            follower,
            url,
            every,
        }
    }

    /// Pushes for ever. A later push makes up for a lost one, because all sums are cumulative. `say` gets the first failure, and the first
    /// success after one.
    pub async fn run(self, say: impl Fn(String)) {
        let mut ticks = interval_at(Instant::now() + self.every, self.every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let (mut pushes, mut failures) = (0, 0);
        let mut has_failed = false;
        loop {
            ticks.tick().await;
            let pushed = timeout(PATIENCE, self.push()).await;
            let pushed = pushed.unwrap_or(Err(PushError::Silent));
            pushes += 1;
            failures += u64::from(pushed.is_err());
            self.follower.count_pushes(pushes, failures);
            match pushed {
                Err(error) if !has_failed => {
                    say(format!(
                        "cannot push to {}: {error}; check that the collector runs and has an OTLP receiver for HTTP; trying again",
                        self.url
                    ));
                    has_failed = true;
                }
                Ok(()) if has_failed => {
                    say(format!("pushing to {} again", self.url));
                    has_failed = false;
                }
                _ => {}
            }
        }
    }

    async fn push(&self) -> Result<(), PushError> {
        let recorder = self.follower.recorder();
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.unwrap_or_default().as_nanos();
        let from = From {
            host: recorder.as_ref().map(|recorder| &*recorder.host),
            now_ns: u64::try_from(now).unwrap_or_default(),
        };
        let body = self
            .follower
            .write(|exposition| otlp::write(exposition, &from));
        let stream = TcpStream::connect(self.url.address).await?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        let request = Request::post(&self.url.path)
            .header(HOST, self.url.address.to_string())
            .header(CONTENT_TYPE, "application/x-protobuf")
            .body(Full::new(Bytes::from(body)))?;
        let answered = async {
            let answer = sender.send_request(request).await?;
            let status = answer.status();
            // Read the answer to its end, so that the collector does not see a reset.
            let _ = Limited::new(answer.into_body(), MOST_ANSWER)
                .collect()
                .await;
            match status.is_success() {
                true => Ok(()),
                false => Err(PushError::Status(status.as_u16())),
            }
        };
        tokio::pin!(connection);
        tokio::pin!(answered);
        let mut is_over = false;
        loop {
            tokio::select! {
                answered = &mut answered => return answered,
                ended = &mut connection, if !is_over => {
                    ended?;
                    is_over = true;
                }
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // only tests use it
mod tests {
    use super::*;

    #[test]
    fn collectors_are_on_this_host() {
        for (text, url) in [
            ("http://127.0.0.1:4318", "http://127.0.0.1:4318/v1/metrics"),
            ("http://localhost/", "http://127.0.0.1:4318/v1/metrics"),
            ("http://[::1]:1/otlp?a=b", "http://[::1]:1/otlp?a=b"),
        ] {
            assert_eq!(text.parse::<OtlpUrl>().unwrap().to_string(), url);
        }
        for text in [
            "",
            "127.0.0.1:4318",
            "https://127.0.0.1:4318",
            "http://collector.example:4318",
            "http://10.0.0.1:4318",
            "http://me:secret@127.0.0.1:4318",
            "http://127.0.0.1:99999",
        ] {
            assert!(text.parse::<OtlpUrl>().is_err(), "{text}");
        }
    }
}
