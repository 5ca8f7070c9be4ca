//! Files that are plain, or compressed with gzip, bzip2 or zstd.

use std::io::{self, Read};

/// Returns the bytes of a file, decompressed if its magic number is that of gzip, bzip2 or zstd.
pub fn decompressed<'a>(mut input: impl Read + Send + 'a) -> io::Result<Box<dyn Read + Send + 'a>> {
    let mut magic = Vec::with_capacity(4);
    input.by_ref().take(4).read_to_end(&mut magic)?;
    let is_gzip = magic.starts_with(&[0x1f, 0x8b]);
    let is_bzip2 = magic.starts_with(b"BZh");
    let is_zstd = magic == [0x28, 0xb5, 0x2f, 0xfd];
    let whole = io::Cursor::new(magic).chain(input);
    Ok(if is_gzip {
        Box::new(flate2::read::MultiGzDecoder::new(
            io::BufReader::with_capacity(1 << 16, whole),
        ))
    } else if is_bzip2 {
        Box::new(bzip2::read::MultiBzDecoder::new(whole))
    } else if is_zstd {
        Box::new(zstd::Decoder::new(whole)?)
    } else {
        Box::new(whole)
    })
}
