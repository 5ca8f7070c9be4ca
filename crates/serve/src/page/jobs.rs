//! Answers questions with processes of this program: a few at a time, within limits, and only while the client waits.

use std::ffi::OsString;
use std::io;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, ChildStderr, ChildStdout, Command};
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::program::Program;

/// Most questions that run at once.
const MOST_RUNNING: usize = 2;
/// Most questions that wait for their turn.
const MOST_WAITING: usize = 16;
/// Most recordings that are followed at once.
const MOST_FOLLOWING: usize = 8;
/// Time limit for waiting and running.
const TIME: Duration = Duration::from_secs(30);
/// Most bytes of an answer.
const MOST_BYTES: u64 = 64 << 20;
/// Most bytes of an answer's messages.
const MOST_SAID_BYTES: u64 = 64 << 10;

/// Runs questions.
#[derive(Clone, Debug)]
pub struct Jobs {
    admitted: Arc<Semaphore>,
    running: Arc<Semaphore>,
    following: Arc<Semaphore>,
    program: Program,
}

/// The output of a process.
#[derive(Debug)]
pub struct Answered {
    pub status: ExitStatus,
    pub stdout: Vec<u8>,
    pub stderr: String,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum JobError {
    #[error("{MOST_RUNNING} questions are being answered and {MOST_WAITING} wait: ask again later")]
    Busy,
    #[error("{MOST_FOLLOWING} others follow the recording: ask again later")]
    TooManyFollow,
    #[error("no answer within {} s: ask for a shorter range, fewer files, or a longer step", TIME.as_secs())]
    TooLong,
    #[error("the answer has more than {} MiB: ask for a shorter range, fewer files or columns, or a longer step", MOST_BYTES >> 20)]
    TooLarge,
    #[error("cannot run the question: {0}")]
    Io(#[from] io::Error),
}

impl Jobs {
    /// Questions that this program answers.
    pub fn new(program: Program) -> Self {
        Self {
            admitted: Arc::new(Semaphore::new(MOST_RUNNING + MOST_WAITING)),
            running: Arc::new(Semaphore::new(MOST_RUNNING)),
            following: Arc::new(Semaphore::new(MOST_FOLLOWING)),
            program,
        }
    }

    /// Runs `trackiops` with these words to its end. Dropping the future also ends it.
    pub async fn run(&self, words: &[OsString]) -> Result<Answered, JobError> {
        let Ok(_admitted) = self.admitted.try_acquire() else {
            return Err(JobError::Busy);
        };
        let answered = timeout(TIME, async {
            // These semaphores are never closed.
            let _turn = self.running.acquire().await;
            run(&self.program, words).await
        });
        answered.await.map_err(|_| JobError::TooLong)?
    }

    /// Starts `trackiops` with these words. It runs until it is dropped. Keep the permit as long.
    pub fn follow(&self, words: &[OsString]) -> Result<(Process, OwnedSemaphorePermit), JobError> {
        let place = Arc::clone(&self.following).try_acquire_owned();
        let place = place.map_err(|_| JobError::TooManyFollow)?;
        Ok((Process::start(&self.program, words)?, place))
    }
}

/// A process of this program. Dropping it ends the process.
#[derive(Debug)]
pub struct Process {
    /// `None` once dropped.
    child: Option<Child>,
    pub stdout: Option<ChildStdout>,
    pub stderr: Option<ChildStderr>,
}

impl Process {
    fn start(program: &Program, words: &[OsString]) -> io::Result<Self> {
        let (variable, as_json) = program.notes;
        // The same version, even if its file has been replaced.
        let mut child = Command::new("/proc/self/exe")
            .arg0("trackiops")
            .args(words)
            .env(variable, as_json)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        Ok(Self {
            stdout: child.stdout.take(),
            stderr: child.stderr.take(),
            child: Some(child),
        })
    }

    async fn wait(mut self) -> io::Result<ExitStatus> {
        match &mut self.child {
            Some(child) => child.wait().await,
            None => Err(io::Error::other("it has been dropped")),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let Some(mut child) = self.child.take() else {
            return;
        };
        let _ = child.start_kill();
        // Reap it now; otherwise it stays until the next process ends.
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(async move { child.wait().await });
        }
    }
}

async fn run(program: &Program, words: &[OsString]) -> Result<Answered, JobError> {
    let mut process = Process::start(program, words)?;
    let (stdout, stderr) = (process.stdout.take(), process.stderr.take());
    let (stdout, stderr) = tokio::try_join!(read(stdout), async { Ok(read_said(stderr).await?) })?;
    Ok(Answered {
        status: process.wait().await?,
        stdout,
        stderr: String::from_utf8_lossy(&stderr).into_owned(),
    })
}

async fn read(from: Option<impl AsyncRead + Unpin>) -> Result<Vec<u8>, JobError> {
    let mut bytes = Vec::new();
    if let Some(from) = from {
        from.take(MOST_BYTES + 1).read_to_end(&mut bytes).await?;
    }
    match bytes.len() as u64 > MOST_BYTES {
        true => Err(JobError::TooLarge),
        false => Ok(bytes),
    }
}

/// Keeps the beginning, and reads the rest so that the process does not block.
async fn read_said(from: Option<impl AsyncRead + Unpin>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if let Some(mut from) = from {
        (&mut from)
            .take(MOST_SAID_BYTES)
            .read_to_end(&mut bytes)
            .await?;
        tokio::io::copy(&mut from, &mut tokio::io::sink()).await?;
    }
    Ok(bytes)
}
