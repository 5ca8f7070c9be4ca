//! Entry points for `fuzz/`: the parsers of a question's text. Nothing else uses them.

use trackiops_store::MountSeen;

use crate::answer::AnswerRow;
use crate::columns::{Columns, Record};
use crate::condition::{Bound, Condition, ConditionError};
use crate::files::FileActivity;
use crate::operations::OperationAnswer;
use crate::volume::Volume;

/// Parses a condition, writes it, parses the text again, and binds it to the columns of each kind of row.
pub fn condition(text: &str) {
    let Ok(condition) = text.parse::<Condition>() else {
        return;
    };
    let written = condition.to_string();
    match written.parse::<Condition>() {
        Ok(again) => assert_eq!(again, condition, "{written}"),
        // A mix of `and` and `or` is written with more brackets than necessary, so the text may be too deep.
        Err(ConditionError::TooDeep(_)) => {}
        Err(error) => panic!("{written}: {error}"),
    }
    bind::<AnswerRow>(&condition);
    bind::<OperationAnswer>(&condition);
    bind::<FileActivity>(&condition);
    bind::<MountSeen>(&condition);
    bind::<Volume>(&condition);
}

fn bind<R: Record>(condition: &Condition) {
    if let Ok(bound) = Bound::<R>::new(condition) {
        bound.columns(&mut |_| {});
    }
}

/// Parses lists of columns.
pub fn columns(text: &str) {
    let _ = Columns::<AnswerRow>::parse(text).map(drop);
    let _ = Columns::<OperationAnswer>::parse(text).map(drop);
    let _ = Columns::<FileActivity>::parse(text).map(drop);
    let _ = Columns::<MountSeen>::parse(text).map(drop);
    let _ = Columns::<Volume>::parse(text).map(drop);
}
