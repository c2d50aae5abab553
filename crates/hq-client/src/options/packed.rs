//! Functions that a client's library packs, as tasks of a job file: there a name stands for each, which is replaced here.

use std::collections::BTreeMap;
use std::sync::Arc;

use hq_model::body::{EntryKind, Function};
use hq_model::job::TaskIds;
use hq_model::{Body, Entries, Submit, TaskId};

use super::job_file::PreparedFile;

/// A function with what it is called with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackedCall {
    /// What people call it.
    pub name: String,
    /// The function.
    pub code: Vec<u8>,
    /// Its arguments.
    pub arguments: Vec<u8>,
}

impl PreparedFile {
    /// Puts packed functions in the place of those that the file names. Neighbors that then differ in their arguments only
    /// are one array.
    ///
    /// # Errors
    /// Which task cannot have what it is given.
    pub fn pack(&mut self, mut calls: BTreeMap<TaskId, PackedCall>) -> Result<(), String> {
        let mut packed: Vec<Submit> = Vec::with_capacity(self.submits.len());
        let mut arguments: Vec<Vec<u8>> = Vec::new();
        for mut submit in std::mem::take(&mut self.submits) {
            let call = match &submit.ids {
                TaskIds::Given(ids) if ids.len() == 1 => {
                    ids.first().and_then(|task| calls.remove_entry(&task))
                }
                _ => None,
            };
            let Some((task, call)) = call else {
                finish(&mut packed, &mut arguments)?;
                packed.push(submit);
                continue;
            };
            let Body::Function(named) = &submit.spec.body else {
                return Err(format!("task {task} is not a function"));
            };
            let body = Body::Function(Function {
                name: call.name,
                code: call.code,
                entry: EntryKind::Packed,
                ..named.clone()
            });
            if let Body::Function(function) = &body {
                function.check().map_err(|rule| format!("the function of task {task} {rule}"))?;
            }
            Arc::make_mut(&mut submit.spec).body = body;
            match packed.last_mut().filter(|last| !arguments.is_empty() && is_alike(last, &submit)) {
                Some(last) => {
                    if let TaskIds::Given(ids) = &mut last.ids {
                        ids.insert(task);
                    }
                }
                None => {
                    finish(&mut packed, &mut arguments)?;
                    packed.push(submit);
                }
            }
            arguments.push(call.arguments);
        }
        finish(&mut packed, &mut arguments)?;
        self.submits = packed;
        match calls.keys().next() {
            Some(task) => Err(format!("there is no task {task} for a function")),
            None => Ok(()),
        }
    }
}

// Gives the last submit its arguments.
fn finish(packed: &mut [Submit], arguments: &mut Vec<Vec<u8>>) -> Result<(), String> {
    if arguments.is_empty() {
        return Ok(());
    }
    let entries = Entries::new(arguments.iter().map(Vec::as_slice))
        .ok_or("the arguments of functions are too large")?;
    arguments.clear();
    if let Some(last) = packed.last_mut() {
        last.entries = entries;
    }
    Ok(())
}

fn is_alike(last: &Submit, next: &Submit) -> bool {
    let comes_before = match (&last.ids, &next.ids) {
        (TaskIds::Given(last), TaskIds::Given(next)) => last.last() < next.first(),
        _ => false,
    };
    comes_before
        && last.spec == next.spec
        && [last, next].iter().all(|submit| submit.keys.is_empty() && submit.dependencies.is_empty())
}
