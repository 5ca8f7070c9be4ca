//! Ring records: any bytes can be decoded, and what is written reads back.

use proptest::prelude::*;
use trackiops_schemas::ebpf::ring::{
    DecodeError, FOLD_KEY_WORDS, FoldKey, RECORD_BYTES, RequestRecord, flags,
};

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..130)) {
        let decoded = RequestRecord::decode(&bytes);
        if bytes.len() != RECORD_BYTES {
            prop_assert_eq!(decoded, Err(DecodeError::Length(bytes.len())));
        }
    }

    #[test]
    fn records_read_back_as_they_were_written(mut bytes in prop::collection::vec(any::<u8>(), RECORD_BYTES)) {
        // The flags.
        bytes[56..60].fill(0);
        let record = RequestRecord::decode(&bytes).unwrap();
        prop_assert_eq!(record.encode().to_vec(), bytes);
    }
}

#[test]
fn unknown_flags_are_refused() {
    let mut bytes = [0; RECORD_BYTES];
    bytes[56..60].copy_from_slice(&(flags::ALL + 1).to_ne_bytes());
    assert_eq!(
        RequestRecord::decode(&bytes),
        Err(DecodeError::Flags(flags::ALL + 1))
    );
}

#[test]
fn the_words_of_a_map_are_a_key_in_the_order_of_memory() {
    let words: [u64; FOLD_KEY_WORDS] = {
        let pair = |a: u32, b: u32| {
            let mut bytes = [0; 8];
            bytes[..4].copy_from_slice(&a.to_ne_bytes());
            bytes[4..].copy_from_slice(&b.to_ne_bytes());
            u64::from_ne_bytes(bytes)
        };
        [1, 2, 3, pair(4, 5), pair(6, 7)]
    };
    let key = FoldKey {
        fileid: 1,
        cgroup: 2,
        window: 3,
        dev: 4,
        handle_hash: 5,
        uid: 6,
        direction: 7,
    };
    assert_eq!(FoldKey::from_words(words), key);
}
