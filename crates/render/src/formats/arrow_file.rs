//! Checks an Arrow file before it is read: Arrow's reader allocates as much memory as the file claims.

use std::fs::File;
use std::os::unix::fs::FileExt;

use arrow_ipc::reader::read_footer_length;
use arrow_ipc::{Block, Footer, Message, RecordBatch, root_as_footer, root_as_message};
use trackiops_store::{beyond_limit, most_decoded_bytes};

/// The length of the footer i32, and the magic.
const TRAILER_BYTES: u64 = 10;
/// Most columns of a file. Each takes memory before any row is read.
const MOST_COLUMNS: usize = 1000;
/// Marks that the length of a block's metadata follows. Old files lack this mark.
const CONTINUES: [u8; 4] = [0xff; 4];

/// Checks that a file claims no more bytes than it has, and no more than may be read.
pub(super) fn check(file: &File) -> Result<(), String> {
    let (footer, data_bytes) = footer(file)?;
    let footer = root_as_footer(&footer).map_err(|_| "its footer is damaged")?;
    let columns = footer.schema().and_then(|schema| schema.fields());
    let columns = columns.map_or(0, |fields| fields.len());
    if columns > MOST_COLUMNS {
        return Err(format!(
            "it has {columns} columns, and at most {MOST_COLUMNS} are read"
        ));
    }
    let mut places = Vec::new();
    for block in blocks(&footer) {
        let place = place(block, data_bytes).ok_or("a block of it is outside of the file")?;
        if place.1 - place.0 > most_decoded_bytes() {
            return Err(format!("a block of it takes {}", beyond_limit()));
        }
        check_block(file, block)?;
        places.push(place);
    }
    places.sort_unstable();
    let are_apart = |pair: &[(u64, u64)]| pair[0].1 <= pair[1].0;
    match places.windows(2).all(are_apart) {
        true => Ok(()),
        false => Err("two of its blocks are in one place".to_owned()),
    }
}

/// The footer, and the number of bytes before it.
fn footer(file: &File) -> Result<(Vec<u8>, u64), String> {
    let cut = "its end is not that of an Arrow file";
    let length = file.metadata().map_err(|error| error.to_string())?.len();
    let trailer_at = length.checked_sub(TRAILER_BYTES).ok_or(cut)?;
    let trailer: [u8; TRAILER_BYTES as usize] = bytes(file, trailer_at, TRAILER_BYTES)?
        .try_into()
        .map_err(|_| cut)?;
    let footer_bytes = read_footer_length(trailer).map_err(|_| cut)? as u64;
    let start = trailer_at.checked_sub(footer_bytes).ok_or(cut)?;
    if footer_bytes > most_decoded_bytes() / 16 {
        return Err(format!("its footer takes {}", beyond_limit()));
    }
    Ok((bytes(file, start, footer_bytes)?, start))
}

fn blocks<'f>(footer: &Footer<'f>) -> impl Iterator<Item = &'f Block> {
    let lists = [footer.dictionaries(), footer.recordBatches()];
    lists.into_iter().flatten().flatten()
}

/// The start and end of a block in the file; `None` if they are outside of it.
fn place(block: &Block, data_bytes: u64) -> Option<(u64, u64)> {
    let start = u64::try_from(block.offset()).ok()?;
    let metadata = u64::try_from(block.metaDataLength()).ok()?;
    let body = u64::try_from(block.bodyLength()).ok()?;
    let end = start.checked_add(metadata)?.checked_add(body)?;
    (end <= data_bytes).then_some((start, end))
}

/// Checks that a block's columns are within it, and that no two share bytes: the reader may copy each column.
fn check_block(file: &File, block: &Block) -> Result<(), String> {
    let damaged = "the metadata of a block are damaged";
    let (start, length) = (block.offset().unsigned_abs(), block.metaDataLength());
    let metadata = bytes(file, start, length.unsigned_abs().into())?;
    let begin = match metadata.starts_with(&CONTINUES) {
        true => 8,
        false => 4,
    };
    let message = root_as_message(metadata.get(begin..).ok_or(damaged)?);
    let rows = rows_of(&message.map_err(|_| damaged)?).ok_or(damaged)?;
    let body = block.bodyLength().unsigned_abs();
    let mut buffers = rows.buffers().into_iter().flatten();
    let sum = buffers.try_fold(0_u64, |sum, buffer| {
        let offset = u64::try_from(buffer.offset()).ok()?;
        let length = u64::try_from(buffer.length()).ok()?;
        let is_within = offset.checked_add(length)? <= body;
        sum.checked_add(length).filter(|_| is_within)
    });
    match sum.is_some_and(|sum| sum <= body) {
        true => Ok(()),
        false => Err("a block of it claims to hold more than it has".to_owned()),
    }
}

fn rows_of<'m>(message: &Message<'m>) -> Option<RecordBatch<'m>> {
    match message.header_as_dictionary_batch() {
        Some(dictionary) => dictionary.data(),
        None => message.header_as_record_batch(),
    }
}

fn bytes(file: &File, start: u64, length: u64) -> Result<Vec<u8>, String> {
    let mut bytes = vec![0; usize::try_from(length).map_err(|error| error.to_string())?];
    let read = file.read_exact_at(&mut bytes, start);
    read.map_err(|error| format!("it cannot be read: {error}"))?;
    Ok(bytes)
}
