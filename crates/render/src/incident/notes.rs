//! Notes of a report whose names are replaced by pseudonyms.

use trackiops_query::coverage::note::Note;

use crate::pseudonym::{Pseudonyms, Unknown};

/// The note with pseudonyms, or `None` if its text is only a name.
pub fn hidden(note: &Note, with: &mut Pseudonyms) -> Result<Option<Note>, Unknown> {
    let mut note = note.clone();
    match &mut note {
        // Their texts are paths of the store, or from the question.
        Note::NoSuchFile(_) | Note::SeenElsewhere { .. } | Note::Export { .. } => return Ok(None),
        Note::Damaged { covers, .. } => {
            let range = covers.map(|(range, _)| range);
            return Ok(range.map(|range| Note::MoreDamaged { count: 1, range }));
        }
        Note::Stalled { host, stall } => {
            hide(host, with)?;
            hide(&mut stall.server.address, with)?;
            for mount in &mut stall.server.mounts {
                *mount = with.mount(mount)?;
            }
        }
        Note::Filtered { host, filter, .. } => {
            hide(host, with)?;
            *filter = with.word(filter)?.into();
        }
        Note::Twice { host, .. } => *host = with.word(host)?,
        Note::Gap { host, .. }
        | Note::LeftOut { host, .. }
        | Note::WithoutCalls { host, .. }
        | Note::Shed { host, .. }
        | Note::TenantRules { host, .. }
        | Note::Lost { host, .. }
        | Note::Missed { host, .. }
        | Note::Booked { host, .. }
        | Note::AuditAlarm { host, .. }
        | Note::RequestsDropped { host, .. }
        | Note::MoreStalls { host, .. }
        | Note::ClockSteps { host, .. } => hide(host, with)?,
        Note::LocalTimes { .. }
        | Note::OnlyMetadata { .. }
        | Note::OtherLevels(_)
        | Note::LostTimeUnknown { .. }
        | Note::NoOperation { .. }
        | Note::StepChosen { .. }
        | Note::MoreRows { .. }
        | Note::MoreDamaged { .. }
        | Note::MoreGaps { .. }
        | Note::Imported { .. }
        | Note::CaptureLacks { .. }
        | Note::RequestsNotKept { .. }
        | Note::RequestsDeleted { .. }
        | Note::OutOfPercentiles { .. }
        | Note::MountsUnknown
        | Note::Folded { .. } => {}
    }
    Ok(Some(note))
}

fn hide(name: &mut Option<String>, with: &mut Pseudonyms) -> Result<(), Unknown> {
    if let Some(name) = name {
        *name = with.word(name)?;
    }
    Ok(())
}
