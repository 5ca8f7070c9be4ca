//! Pushes metrics to an OpenTelemetry collector: OTLP over HTTP.

use std::io;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::http::Kept;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::client::conn::http1;
use hyper::header::{CONTENT_TYPE, HOST};
use hyper::{HeaderMap, Request};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::{Instant, MissedTickBehavior, interval_at, timeout};

use crate::metrics::access::{Access, AccessError, AccessFiles};
use crate::metrics::collector_url::{Host, OtlpUrl};
use crate::metrics::last_totals::LastTotals;
use crate::metrics::names::{self, NameError};
use crate::metrics::otlp::{self, From};

/// Timeout of a push.
const PATIENCE: Duration = Duration::from_secs(10);
/// Timeout of connecting to one address of several.
const PATIENCE_WITH_ADDRESS: Duration = Duration::from_secs(3);
/// Bytes of an answer to read.
const MOST_ANSWER: usize = 64 << 10;

/// Pushes the last totals of a recorder.
#[derive(Debug)]
pub struct Pusher {
    totals: LastTotals,
    url: OtlpUrl,
    every: Duration,
    files: AccessFiles,
    access: Kept<Access>,
}

/// A push failed.
#[derive(Debug, thiserror::Error)]
enum PushError {
    #[error("{0}")]
    Name(#[from] NameError),
    #[error("cannot connect: {0}")]
    Connect(io::Error),
    #[error("no TLS with it: {0}")]
    Tls(io::Error),
    #[error("{0}")]
    Http(#[from] hyper::Error),
    #[error("{0}")]
    Request(#[from] hyper::http::Error),
    #[error("it answers with status {0}")]
    Status(u16),
    #[error("it does not answer")]
    Silent,
}

impl PushError {
    /// The next step.
    fn advice(&self) -> &'static str {
        match self {
            Self::Name(_) => "check the name in the URL, and the name servers",
            Self::Tls(_) => "check the name in the URL, and the certificates of both sides",
            Self::Status(401 | 403) => "check the headers of --otlp-headers",
            _ => "check that the collector runs and has an OTLP receiver for HTTP",
        }
    }
}

impl Pusher {
    /// A pusher to this collector, at this interval. Changes of the files count from the next push on.
    pub fn new(
        totals: LastTotals,
        url: OtlpUrl,
        every: Duration,
        files: AccessFiles,
    ) -> Result<Self, AccessError> {
        let access = Kept::new(|seen| Access::read(&files, url.is_tls(), seen))?;
        totals.count_pushes(0, 0);
        Ok(Self {
            totals,
            url,
            every,
            files,
            access,
        })
    }

    /// Pushes for ever. A later push makes up for a lost one, because all sums are cumulative. `say` gets the first failure, and the first
    /// success after one.
    pub async fn run(mut self, say: impl Fn(String)) {
        let mut ticks = interval_at(Instant::now() + self.every, self.every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let (mut pushes, mut failures) = (0, 0);
        let mut has_failed = false;
        loop {
            ticks.tick().await;
            let is_tls = self.url.is_tls();
            let renewed = self
                .access
                .renew(|seen, _| Access::read(&self.files, is_tls, seen));
            if let Err(why) = renewed {
                say(format!("{why}; going on with what was read before"));
            }
            let pushed = timeout(PATIENCE, self.push()).await;
            let pushed = pushed.unwrap_or(Err(PushError::Silent));
            pushes += 1;
            failures += u64::from(pushed.is_err());
            self.totals.count_pushes(pushes, failures);
            match pushed {
                Err(error) if !has_failed => {
                    say(format!(
                        "cannot push to {}: {error}; {}; trying again",
                        self.url,
                        error.advice()
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
        let recorder = self.totals.recorder();
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.unwrap_or_default().as_nanos();
        let from = From {
            host: recorder.as_ref().map(|recorder| &*recorder.host),
            now_ns: u64::try_from(now).unwrap_or_default(),
        };
        let body = self
            .totals
            .write(|exposition| otlp::write(exposition, &from));
        let access = self.access.value();
        let stream = self.connect().await?;
        match &access.tls {
            None => self.post(stream, &access.headers, body).await,
            Some(tls) => {
                let stream = tls.connect(&self.url.host().name(), stream).await;
                let stream = stream.map_err(PushError::Tls)?;
                self.post(stream, &access.headers, body).await
            }
        }
    }

    async fn connect(&self) -> Result<TcpStream, PushError> {
        let addresses = match self.url.host() {
            Host::Ip(ip) => vec![*ip],
            Host::Name(name) => names::addresses(name).await?,
        };
        let mut failure = io::ErrorKind::AddrNotAvailable.into();
        for ip in addresses {
            let connecting = TcpStream::connect((ip, self.url.port()));
            match timeout(PATIENCE_WITH_ADDRESS, connecting).await {
                Ok(Ok(stream)) => return Ok(stream),
                Ok(Err(error)) => failure = error,
                Err(_) => failure = io::ErrorKind::TimedOut.into(),
            }
        }
        Err(PushError::Connect(failure))
    }

    async fn post<S>(&self, stream: S, headers: &HeaderMap, body: Vec<u8>) -> Result<(), PushError>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        let mut request = Request::post(self.url.path())
            .header(HOST, self.url.authority())
            .header(CONTENT_TYPE, "application/x-protobuf")
            .body(Full::new(Bytes::from(body)))?;
        request.headers_mut().extend(headers.clone());
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
        // A collector may close the connection in any way once it has answered, so only the answer counts.
        let mut is_over = false;
        let mut broken = None;
        let answered = loop {
            tokio::select! {
                answered = &mut answered => break answered,
                ended = &mut connection, if !is_over => {
                    is_over = true;
                    broken = ended.err();
                }
            }
        };
        match (answered, broken) {
            (Err(PushError::Http(_)), Some(why)) => Err(why.into()),
            (answered, _) => answered,
        }
    }
}
