//! Serves connections within limits of number, time and memory.

use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::time::{Duration, Instant};

use axum::middleware::from_fn_with_state;
use axum::{Extension, Router};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::pin;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{sleep, timeout};

use crate::http::caller::Caller;
use crate::http::listen::{Listener, ListeningSocket};
use crate::http::web_config::{WebConfig, ask_for_password};

/// Most connections at once, without new ones. A further connection ends the oldest one of an unknown caller, or else the oldest of all. So
/// idle connections block nothing, and unknown callers cannot end answers to known ones.
const MOST_CONNECTIONS: usize = 32;
/// Time in which a new connection is not ended, because the head of its first request, which may have the token, can still arrive.
const GRACE: Duration = Duration::from_millis(100);
/// The same with TLS or passwords. A handshake takes two more round trips, and a password's check some 70 ms.
const GRACE_OF_HANDSHAKE: Duration = Duration::from_millis(500);
/// Within this time, the handshake of TLS must end.
const HANDSHAKE_TIME: Duration = Duration::from_secs(10);
/// Most connections at once, with new ones. Further ones wait in the kernel.
const MOST_WITH_NEW: usize = 64;
/// Bytes of a request's head, and of its buffer: the least that hyper accepts.
const BUFFER_BYTES: usize = 8 << 10;
/// Most fields in a request's head.
const MOST_HEADERS: usize = 64;
/// Within this time after the previous answer, a request's head must arrive.
const HEAD_TIME: Duration = Duration::from_secs(75);
/// Life of a connection. Scrapers reconnect.
const LIFE: Duration = Duration::from_secs(120);
/// Further time after `LIFE` for the current answer.
const LAST_ANSWER: Duration = Duration::from_secs(10);
/// Pause after accepting failed, for example because too many files are open.
const ACCEPT_AGAIN: Duration = Duration::from_millis(200);

/// Serves until `stop` is ready, by TLS and to users if `web` asks for that. It does not limit the bodies of requests: accept none, or limit
/// them.
pub async fn serve(
    listener: Listener,
    app: Router,
    web: Option<WebConfig>,
    stop: impl Future<Output = ()>,
) {
    let (app, grace) = match &web {
        None => (app, GRACE),
        Some(web) => {
            let app = app.layer(from_fn_with_state(web.clone(), ask_for_password));
            (app, GRACE_OF_HANDSHAKE)
        }
    };
    let mut connections = Connections::new(grace);
    pin!(stop);
    loop {
        let accepted: io::Result<()> = tokio::select! {
            () = &mut stop => return,
            accepted = accept(&listener, &app, web.as_ref(), &mut connections) => accepted,
        };
        if accepted.is_err() {
            sleep(ACCEPT_AGAIN).await;
        }
    }
}

async fn accept(
    listener: &Listener,
    app: &Router,
    web: Option<&WebConfig>,
    connections: &mut Connections,
) -> io::Result<()> {
    let caller = Caller::default();
    let app = app.clone().layer(Extension(caller.clone()));
    match &listener.socket {
        ListeningSocket::Tcp(socket) => {
            let (stream, _) = socket.accept().await?;
            let _ = stream.set_nodelay(true);
            connections.make_room().await;
            let connection = connection(stream, app, caller.clone(), web.cloned());
            connections.add(caller, connection);
        }
        ListeningSocket::Unix(socket) => {
            let (stream, _) = socket.accept().await?;
            connections.make_room().await;
            let connection = connection(stream, app, caller.clone(), web.cloned());
            connections.add(caller, connection);
        }
    }
    Ok(())
}

/// Open connections.
struct Connections {
    tasks: JoinSet<()>,
    oldest_first: VecDeque<Open>,
    /// Time in which a new one is not ended.
    grace: Duration,
}

struct Open {
    task: AbortHandle,
    caller: Caller,
    since: Instant,
}

impl Connections {
    fn new(grace: Duration) -> Self {
        Self {
            tasks: JoinSet::new(),
            oldest_first: VecDeque::new(),
            grace,
        }
    }

    /// Ends connections until there is room for one more. Waits if there are too many new ones.
    async fn make_room(&mut self) {
        loop {
            while self.tasks.try_join_next().is_some() {}
            self.oldest_first.retain(|open| !open.task.is_finished());
            if self.oldest_first.len() < MOST_CONNECTIONS {
                return;
            }
            let is_unknown = |open: &Open| !open.caller.is_known();
            let unknown = self.oldest_first.iter().position(is_unknown);
            let at = unknown.unwrap_or_default();
            let age = self.oldest_first[at].since.elapsed();
            if unknown.is_none() || age >= self.grace {
                if let Some(open) = self.oldest_first.remove(at) {
                    open.task.abort();
                }
            } else if self.oldest_first.len() < MOST_WITH_NEW {
                return;
            } else {
                sleep(self.grace.saturating_sub(age)).await;
            }
        }
    }

    fn add(&mut self, caller: Caller, connection: impl Future<Output = ()> + Send + 'static) {
        self.oldest_first.push_back(Open {
            task: self.tasks.spawn(connection),
            caller,
            since: Instant::now(),
        });
    }
}

async fn connection<S>(stream: S, app: Router, caller: Caller, web: Option<WebConfig>)
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let Some(tls) = web.and_then(|web| web.tls()) else {
        return answer(stream, app).await;
    };
    let shaken = timeout(HANDSHAKE_TIME, tls.accept(stream)).await;
    if let Ok(Ok((stream, is_verified))) = shaken {
        if is_verified {
            caller.is_known_now();
        }
        answer(stream, app).await;
    }
}

async fn answer<S>(stream: S, app: Router)
where
    S: AsyncRead + AsyncWrite + Send + 'static,
{
    // Half-closed connections are closed. Errors need no handling: they only end the connection.
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .max_buf_size(BUFFER_BYTES)
        .max_headers(MOST_HEADERS)
        .serve_connection(
            TokioIo::new(Box::pin(stream)),
            TowerToHyperService::new(app),
        );
    pin!(connection);
    if timeout(LIFE, connection.as_mut()).await.is_err() {
        connection.as_mut().graceful_shutdown();
        let _ = timeout(LAST_ANSWER, connection).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::pending;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[tokio::test]
    async fn a_new_connection_has_time_for_its_first_request() {
        let mut connections = Connections::new(GRACE);
        let has_asked = Arc::new(AtomicBool::new(false));
        let asked = Arc::clone(&has_asked);
        connections.add(Caller::default(), async move {
            sleep(GRACE / 4).await;
            asked.store(true, Ordering::Relaxed);
            pending().await
        });
        for _ in 0..2 * MOST_CONNECTIONS {
            connections.make_room().await;
            connections.add(Caller::default(), pending());
        }
        sleep(GRACE).await;
        assert!(has_asked.load(Ordering::Relaxed));
        connections.make_room().await;
        assert_eq!(connections.oldest_first.len(), MOST_CONNECTIONS - 1);
    }

    #[tokio::test]
    async fn known_callers_outlive_any_number_of_unknown_ones() {
        let mut connections = Connections::new(GRACE);
        let known = Caller::default();
        known.is_known_now();
        connections.add(known, pending());
        for _ in 0..2 * MOST_WITH_NEW {
            connections.make_room().await;
            connections.add(Caller::default(), pending());
            assert!(connections.oldest_first.len() <= MOST_WITH_NEW);
        }
        assert!(connections.oldest_first[0].caller.is_known());
        assert!(!connections.oldest_first[0].task.is_finished());
    }
}
