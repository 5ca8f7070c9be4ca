//! Distributes work among threads.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// More threads do not read files faster, and each thread holds a batch of rows and separate sums.
const MAX_THREADS: usize = 8;
/// One thread finishes fewer rows before another one has started.
const MIN_ROWS: u64 = 20_000;

/// Runs each job once; `rows` is their total number of rows. Each thread collects the results of its jobs in one `S`,
/// which begins as `empty`. If several jobs fail, returns the error of the first one.
pub(crate) fn share_out<J: Sync, S: Send, E: Send>(
    jobs: &[J],
    rows: u64,
    empty: impl Fn() -> S + Sync,
    work: impl Fn(&mut S, &J) -> Result<(), E> + Sync,
) -> Result<Vec<S>, E> {
    let threads = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let threads = threads.min(MAX_THREADS).min(jobs.len());
    if threads <= 1 || rows < MIN_ROWS {
        let mut share = empty();
        jobs.iter().try_for_each(|job| work(&mut share, job))?;
        return Ok(vec![share]);
    }
    let next = AtomicUsize::new(0);
    let run = || {
        let mut share = empty();
        loop {
            let place = next.fetch_add(1, Ordering::Relaxed);
            let Some(job) = jobs.get(place) else {
                return Ok(share);
            };
            if let Err(error) = work(&mut share, job) {
                // Other threads have taken all earlier jobs, and the results of later jobs no longer matter.
                next.store(jobs.len(), Ordering::Relaxed);
                return Err((place, error));
            }
        }
    };
    let ended: Vec<Result<S, (usize, E)>> = thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(run)).collect();
        let own = run();
        let others = others.into_iter().map(|thread| match thread.join() {
            Ok(ended) => ended,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        std::iter::once(own).chain(others).collect()
    });
    let mut shares = Vec::with_capacity(ended.len());
    let mut first: Option<(usize, E)> = None;
    for ended in ended {
        match ended {
            Ok(share) => shares.push(share),
            Err(error) if first.as_ref().is_none_or(|(place, _)| error.0 < *place) => {
                first = Some(error);
            }
            Err(_) => {}
        }
    }
    match first {
        None => Ok(shares),
        Some((_, error)) => Err(error),
    }
}

/// Runs each job once, and returns the results in the order of the jobs. `rows` is their total number of rows.
pub fn in_order<J: Sync, T: Send, E: Send>(
    jobs: &[J],
    rows: u64,
    work: impl Fn(&J) -> Result<T, E> + Sync,
) -> Result<Vec<T>, E> {
    let jobs: Vec<_> = jobs.iter().enumerate().collect();
    let work = |done: &mut Vec<_>, (place, job): &(usize, &J)| {
        done.push((*place, work(job)?));
        Ok(())
    };
    let shares = share_out(&jobs, rows, Vec::new, work)?;
    let mut done: Vec<_> = shares.into_iter().flatten().collect();
    done.sort_unstable_by_key(|(place, _)| *place);
    Ok(done.into_iter().map(|(_, done)| done).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::QueryError;

    #[test]
    fn every_job_is_done_once_and_the_first_error_counts() {
        for rows in [0, MIN_ROWS] {
            let jobs: Vec<usize> = (0..1000).collect();
            let sum = |share: &mut usize, job: &usize| {
                *share += job;
                Ok(())
            };
            let shares = share_out::<_, _, QueryError>(&jobs, rows, || 0, sum).unwrap();
            assert_eq!(shares.iter().sum::<usize>(), 499_500);
            let same = in_order(&jobs, rows, |job| Ok::<_, QueryError>(*job));
            assert_eq!(same.unwrap(), jobs);
            for bad in [0, 500] {
                let fail = |(): &mut (), job: &usize| match *job >= bad {
                    true => Err(QueryError::Vanished(job.to_string().into())),
                    false => Ok(()),
                };
                let error = share_out(&jobs, rows, || (), fail).unwrap_err();
                assert!(error.to_string().contains(&bad.to_string()), "{error}");
            }
        }
    }
}
