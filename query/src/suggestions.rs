//! Suggests names similar to one that was never recorded.

use std::collections::BTreeSet;

use trackiops_store::{Names, Snapshot};

use crate::error::QueryError;

/// Most suggestions.
const MAX_NEAR: usize = 3;
/// A similar name has at most one edit per this many characters, and at most `MAX_SLIPS`.
const SLIP_EVERY: usize = 3;
const MAX_SLIPS: usize = 3;

/// Suggests the next step for a name that was never recorded.
pub(crate) fn hint(snapshot: &Snapshot, name: &str) -> Result<String, QueryError> {
    let mut below = false;
    let mut near = BTreeSet::new();
    snapshot.names(Names::All, &mut |known| {
        below |= trackiops_store::is_below(&known.path, name.trim_end_matches('/'));
        if let Some(distance) = distance(name, &known.path) {
            near.insert((distance, known.path));
            if near.len() > MAX_NEAR {
                near.pop_last();
            }
        }
    })?;
    if below {
        return Ok(format!(
            "it is a directory: --dir {name} asks for all below it"
        ));
    }
    let near: Vec<_> = near.into_iter().map(|(_, path)| path).collect();
    Ok(match near.is_empty() {
        true => "`trackiops files` lists the names that were".into(),
        false => format!("did you mean {}?", near.join(" or ")),
    })
}

/// Edit distance of two similar paths; `None` if they are not similar. Paths are similar if they share the directory
/// and have similar last components, or if only the directories differ.
fn distance(name: &str, known: &str) -> Option<usize> {
    let ((dir, base), (known_dir, known_base)) = (name.rsplit_once('/')?, known.rsplit_once('/')?);
    let slips = || strsim::damerau_levenshtein(base, known_base);
    let allowed = (base.chars().count() / SLIP_EVERY).min(MAX_SLIPS);
    let like = base == known_base || (dir == known_dir && slips() <= allowed);
    like.then(|| strsim::damerau_levenshtein(name, known))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_near_and_another_file_is_not() {
        let is_near = |name, known| distance(name, known).is_some();
        assert!(is_near("/mnt/nfs/order.db", "/mnt/nfs/orders.db"));
        assert!(is_near("/mnt/lob", "/mnt/log"));
        assert!(!is_near("/mnt/a", "/mnt/b"));
        assert!(is_near("/nfs/orders.db", "/mnt/nfs/orders.db"));
        assert!(!is_near("/mnt/nfs/orders.db", "/mnt/nfs/movie.mkv"));
        assert!(!is_near("/srv/order.db", "/mnt/nfs/orders.db"));
        assert!(!is_near("/mnt/other", "(other)"));
    }
}
