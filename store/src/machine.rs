//! Identifies the machine. A cloned disk or a snapshot of one keeps inodes, so only the machine tells a cloned store from
//! its original.

use std::fs;

use xxhash_rust::xxh3::xxh3_64;

/// The UUID that the firmware or the hypervisor gives the machine (SMBIOS type 1). A hypervisor gives a clone another
/// one. Only root can read it.
const UUID: &str = "/sys/class/dmi/id/product_uuid";
const UUID_DIGITS: usize = 32;

/// A number of this machine. `None` if it has no UUID, or if this process may not read it.
pub(crate) fn number() -> Option<u64> {
    number_of(&fs::read_to_string(UUID).ok()?)
}

fn number_of(uuid: &str) -> Option<u64> {
    let digits = uuid.trim().bytes().filter(|digit| *digit != b'-');
    let digits: Vec<_> = digits.map(|digit| digit.to_ascii_lowercase()).collect();
    let is_uuid = digits.len() == UUID_DIGITS && digits.iter().all(u8::is_ascii_hexdigit);
    // Firmware without a UUID has all zeros or all ones.
    let is_set = digits.iter().any(|digit| Some(digit) != digits.first());
    (is_uuid && is_set).then(|| xxh3_64(&digits))
}

/// Whether a store that was recorded on the machine `known` is now on the machine `here`. False if either is unknown.
pub(crate) fn is_another(known: Option<u64>, here: Option<u64>) -> bool {
    known.zip(here).is_some_and(|(known, here)| known != here)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_has_the_number_of_its_uuid() {
        let number = number_of("4c4c4544-0042-3510-8054-b4c04f4e5a32\n");
        assert!(number.is_some());
        assert_eq!(number_of("4C4C4544-0042-3510-8054-B4C04F4E5A32"), number);
        assert_ne!(number_of("4c4c4544-0042-3510-8054-b4c04f4e5a33"), number);
        for text in [
            "",
            "\n",
            "00000000-0000-0000-0000-000000000000",
            "ffffffff-ffff-ffff-ffff-ffffffffffff",
            "4c4c4544-0042-3510-8054-b4c04f4e5a3",
            "Not Settable, Not Present, none of it",
        ] {
            assert_eq!(number_of(text), None, "{text}");
        }
    }

    #[test]
    fn a_machine_that_is_not_known_is_not_another_one() {
        assert!(is_another(Some(1), Some(2)));
        for (known, here) in [(Some(1), Some(1)), (None, Some(1)), (Some(1), None)] {
            assert!(!is_another(known, here), "{known:?} {here:?}");
        }
    }
}
