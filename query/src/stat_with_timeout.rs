//! `stat` in a child process with a timeout, because a mount may hang.

use std::io::{self, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use trackiops_schemas::identity::Dev;

/// Time after which the query abandons the child, because a hung mount would block it forever.
pub(crate) const STAT_LIMIT: Duration = Duration::from_secs(2);
/// Interval of checks on the child, which usually takes a millisecond.
const STAT_POLL: Duration = Duration::from_millis(2);

/// Result of `stat`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Stat {
    Is(Dev, u64),
    Refused(String),
    Hangs,
}

/// Runs `stat` on a path, for at most `limit`.
pub(crate) fn stat(path: &Path, limit: Duration) -> io::Result<Stat> {
    let mut command = Command::new("stat");
    command.args(["-L", "-c", "%d %i", "--"]).arg(path);
    let Some((out, err)) = run(command.env("LC_ALL", "C"), limit)? else {
        return Ok(Stat::Hangs);
    };
    let parsed = out.trim().split_once(' ').and_then(|(dev, fileid)| {
        let dev = dev.parse().ok()?;
        let dev = Dev::new(rustix::fs::major(dev), rustix::fs::minor(dev))?;
        Some((dev, fileid.parse().ok()?))
    });
    Ok(match parsed {
        Some((dev, fileid)) => Stat::Is(dev, fileid),
        None => Stat::Refused(err.trim().into()),
    })
}

/// Runs a command for at most `limit`. Returns its output and errors, or `None` after the limit.
fn run(command: &mut Command, limit: Duration) -> io::Result<Option<(String, String)>> {
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.stderr(Stdio::piped()).spawn()?;
    let started = Instant::now();
    while child.try_wait()?.is_none() {
        if started.elapsed() >= limit {
            // Do not wait: a child that hangs in the kernel may not even die.
            child.kill()?;
            return Ok(None);
        }
        std::thread::sleep(STAT_POLL);
    }
    outputs(&mut child).map(Some)
}

/// Output of a finished child. It is one line, which fits into a pipe.
fn outputs(child: &mut Child) -> io::Result<(String, String)> {
    let (mut out, mut err) = (String::new(), String::new());
    if let Some(pipe) = &mut child.stdout {
        pipe.read_to_string(&mut out)?;
    }
    if let Some(pipe) = &mut child.stderr {
        pipe.read_to_string(&mut err)?;
    }
    Ok((out, err))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn stat_tells_device_and_number_or_why_not() {
        let path = Path::new("/proc/version");
        let meta = std::fs::metadata(path).unwrap();
        let dev = meta.dev();
        let dev = Dev::new(rustix::fs::major(dev), rustix::fs::minor(dev)).unwrap();
        assert_eq!(stat(path, STAT_LIMIT).unwrap(), Stat::Is(dev, meta.ino()));
        match stat(Path::new("/no such file"), STAT_LIMIT).unwrap() {
            Stat::Refused(why) => assert!(why.contains("No such file"), "{why}"),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_child_that_takes_too_long_is_given_up() {
        let started = Instant::now();
        let limit = Duration::from_millis(50);
        assert_eq!(run(Command::new("sleep").arg("60"), limit).unwrap(), None);
        assert!(started.elapsed() < Duration::from_secs(30));
    }
}
