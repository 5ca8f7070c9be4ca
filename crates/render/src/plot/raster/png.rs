//! Writes pixels as PNG (RFC 2083): one block of compressed rows.

use std::io::{self, Write};

use flate2::write::ZlibEncoder;
use flate2::{Compression, Crc};

use super::pixels::Pixels;

const SIGNATURE: &[u8] = b"\x89PNG\r\n\x1a\n";
/// Eight bits for each of red, green and blue; no other compression, filters or interlacing.
const FORMAT: [u8; 5] = [8, 2, 0, 0, 0];
/// The filter of a row: none.
const FILTER: [u8; 1] = [0];

/// Writes a picture. Fails if `out` does.
pub fn write_png(pixels: &Pixels, out: &mut dyn Write) -> io::Result<()> {
    let (width, height) = pixels.size();
    let head = [&width.to_be_bytes()[..], &height.to_be_bytes(), &FORMAT].concat();
    let mut rows = ZlibEncoder::new(Vec::new(), Compression::default());
    for row in pixels.rows() {
        rows.write_all(&FILTER)?;
        rows.write_all(row)?;
    }
    out.write_all(SIGNATURE)?;
    chunk(b"IHDR", &head, out)?;
    chunk(b"IDAT", &rows.finish()?, out)?;
    chunk(b"IEND", &[], out)
}

fn chunk(kind: &[u8; 4], data: &[u8], out: &mut dyn Write) -> io::Result<()> {
    let length = u32::try_from(data.len()).map_err(io::Error::other)?;
    let mut sum = Crc::new();
    sum.update(kind);
    sum.update(data);
    out.write_all(&length.to_be_bytes())?;
    out.write_all(kind)?;
    out.write_all(data)?;
    out.write_all(&sum.sum().to_be_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::io::Read;

    use flate2::read::ZlibDecoder;

    #[test]
    fn a_reader_finds_every_pixel() {
        let mut pixels = Pixels::default();
        pixels.clear(3, 2);
        let mut png = Vec::new();
        write_png(&pixels, &mut png).unwrap();
        let mut rest = png.strip_prefix(SIGNATURE).unwrap();
        let mut chunks = Vec::new();
        while !rest.is_empty() {
            let (length, after) = rest.split_at(4);
            let length = u32::from_be_bytes(length.try_into().unwrap()) as usize;
            let (body, after) = after.split_at(4 + length);
            let (sum, after) = after.split_at(4);
            let mut crc = Crc::new();
            crc.update(body);
            assert_eq!(sum, crc.sum().to_be_bytes());
            chunks.push(body.split_at(4));
            rest = after;
        }
        let kinds: Vec<_> = chunks.iter().map(|(kind, _)| *kind).collect();
        assert_eq!(kinds, [b"IHDR", b"IDAT", b"IEND"]);
        assert_eq!(chunks[0].1, [0, 0, 0, 3, 0, 0, 0, 2, 8, 2, 0, 0, 0]);
        let mut rows = Vec::new();
        let mut reader = ZlibDecoder::new(chunks[1].1);
        reader.read_to_end(&mut rows).unwrap();
        let row = [&[0][..], &[255; 9]].concat();
        assert_eq!(rows, [row.clone(), row].concat());
    }
}
