//! Serves connections within limits of number, time and memory.

use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::pin;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{sleep, timeout};

use crate::listen::{Listener, ListeningSocket};

/// Connections at once. The oldest one ends when another one is made: so those that do nothing keep nobody out.
const MOST_CONNECTIONS: usize = 32;
/// Bytes of a request's head, and of what is buffered for it. The least that hyper takes.
const BUFFER_BYTES: usize = 8 << 10;
/// Fields in a request's head.
const MOST_HEADERS: usize = 64;
/// In which a request's head has to arrive, counted from the end of the answer before.
const HEAD_TIME: Duration = Duration::from_secs(75);
/// Life of a connection. Scrapers make another one.
const LIFE: Duration = Duration::from_secs(120);
/// What remains of it for the answer that is being sent.
const LAST_ANSWER: Duration = Duration::from_secs(10);
/// Pause after an error of accepting, such as too many open files.
const ACCEPT_AGAIN: Duration = Duration::from_millis(200);

/// Serves until `stop` is ready. Bodies of requests are not limited here: take none, or limit them.
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
    let app = app.clone();
    match &listener.socket {
        ListeningSocket::Tcp(socket) => {
            let (stream, _) = socket.accept().await?;
            let _ = stream.set_nodelay(true);
            connections.add(connection(stream, app));
        }
        ListeningSocket::Unix(socket) => {
            let (stream, _) = socket.accept().await?;
            connections.add(connection(stream, app));
        }
    }
    Ok(())
}

/// Those that are open, the oldest first.
#[derive(Default)]
struct Connections {
    tasks: JoinSet<()>,
    oldest_first: VecDeque<AbortHandle>,
}

impl Connections {
    fn add(&mut self, connection: impl Future<Output = ()> + Send + 'static) {
        while self.tasks.try_join_next().is_some() {}
        self.oldest_first.retain(|task| !task.is_finished());
        if self.oldest_first.len() >= MOST_CONNECTIONS
            && let Some(oldest) = self.oldest_first.pop_front()
        {
            oldest.abort();
        }
        self.oldest_first.push_back(self.tasks.spawn(connection));
    }
}

async fn connection<S>(stream: S, app: Router)
where
    S: AsyncRead + AsyncWrite + Send + 'static,
{
    // Half-closed connections are closed, and errors end a connection as its end does.
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
