//! Ring records: any bytes can be decoded, and what is written reads back.

use proptest::prelude::*;
use trackiops_schemas::ring::{DecodeError, RequestRecord, flags};

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..130)) {
        let decoded = RequestRecord::decode(&bytes);
        if bytes.len() != 64 {
            prop_assert_eq!(decoded, Err(DecodeError::Length(bytes.len())));
        }
    }

    #[test]
    fn records_read_back_as_they_were_written(mut bytes in prop::array::uniform32(any::<u16>())) {
        // Bytes 56 to 59 are the flags.
        (bytes[28], bytes[29]) = (0, 0);
        let bytes: Vec<u8> = bytes.iter().flat_map(|v| v.to_ne_bytes()).collect();
        let record = RequestRecord::decode(&bytes).unwrap();
        prop_assert_eq!(record.encode().to_vec(), bytes);
    }
}

#[test]
fn unknown_flags_are_refused() {
    let mut bytes = [0; 64];
    bytes[56..60].copy_from_slice(&(flags::ALL + 1).to_ne_bytes());
    assert_eq!(
        RequestRecord::decode(&bytes),
        Err(DecodeError::Flags(flags::ALL + 1))
    );
}
