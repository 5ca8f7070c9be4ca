//! Suggests a known word for a misspelled one.

/// A misspelling has at most one edit per this many characters.
const SLIP_EVERY: usize = 3;

/// Edit distance of two words, if one may be a misspelling of the other: one edit per three characters, from one to
/// four.
pub(crate) fn slips(wanted: &str, known: &str) -> Option<usize> {
    let length = wanted.chars().count();
    let allowed = (length / SLIP_EVERY).clamp(1, 4);
    // The distance of a long text takes much memory.
    if length.abs_diff(known.chars().count()) > allowed {
        return None;
    }
    Some(strsim::damerau_levenshtein(known, wanted)).filter(|distance| *distance <= allowed)
}

/// `; did you mean a?`, or nothing.
pub fn near(wanted: &str, known: &[&str]) -> String {
    let known = known.iter();
    let nearest = known
        .filter_map(|name| Some((slips(wanted, name)?, name)))
        .min();
    nearest.map_or_else(String::new, |(_, name)| format!("; did you mean {name}?"))
}
