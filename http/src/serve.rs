//! Serves connections within limits of number, time and memory.

use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::{Extension, Router};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::pin;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{sleep, timeout};

use crate::listen::{Listener, ListeningSocket};

/// Most connections at once, without new ones. A further connection ends the oldest one of an unknown caller, or else the oldest of all. So
/// idle connections block nothing, and unknown callers cannot end answers to known ones.
const MOST_CONNECTIONS: usize = 32;
/// Bytes of a request's head, and of what is buffered for it. The least that hyper takes.
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

/// The other end of a connection. Each request has it in its extensions.
#[derive(Clone, Debug, Default)]
pub struct Caller(Arc<AtomicBool>);

impl Caller {
    /// Notes that the caller has proved its right to ask.
    pub fn is_known_now(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn is_known(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Serves until `stop` is ready. It does not limit the bodies of requests: accept none, or limit them.
pub async fn serve(listener: Listener, app: Router, stop: impl Future<Output = ()>) {
    let mut connections = Connections::default();
    pin!(stop);
    loop {
        let accepted: io::Result<()> = tokio::select! {
            () = &mut stop => return,
            accepted = accept(&listener, &app, &mut connections) => accepted,
        };
        if accepted.is_err() {
            sleep(ACCEPT_AGAIN).await;
        }
    }
}

async fn accept(
    listener: &Listener,
    app: &Router,
    connections: &mut Connections,
) -> io::Result<()> {
    let caller = Caller::default();
    let app = app.clone().layer(Extension(caller.clone()));
    match &listener.socket {
        ListeningSocket::Tcp(socket) => {
            let (stream, _) = socket.accept().await?;
            let _ = stream.set_nodelay(true);
            connections.add(caller, connection(stream, app));
        }
        ListeningSocket::Unix(socket) => {
            let (stream, _) = socket.accept().await?;
            connections.add(caller, connection(stream, app));
        }
    }
    Ok(())
}

/// Open connections.
#[derive(Default)]
struct Connections {
    tasks: JoinSet<()>,
    oldest_first: VecDeque<(AbortHandle, Caller)>,
}

impl Connections {
    fn add(&mut self, caller: Caller, connection: impl Future<Output = ()> + Send + 'static) {
        while self.tasks.try_join_next().is_some() {}
        self.oldest_first.retain(|(task, _)| !task.is_finished());
        if self.oldest_first.len() >= MOST_CONNECTIONS {
            let mut oldest = self.oldest_first.iter();
            let unknown = oldest.position(|(_, caller)| !caller.is_known());
            if let Some((task, _)) = self.oldest_first.remove(unknown.unwrap_or_default()) {
                task.abort();
            }
        }
        let task = self.tasks.spawn(connection);
        self.oldest_first.push_back((task, caller));
    }
}

async fn connection<S>(stream: S, app: Router)
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
