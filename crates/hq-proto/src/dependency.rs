//! What tasks wait for, on the wire and in the journal.

use hq_model::dependency::{After, Condition, Dependencies, Edges, Mapping, NamedEdges};
use hq_model::{JobId, TaskId};

use crate::ProtoError;
use crate::error::rule;
use crate::generated as form;
use crate::idset;
use crate::wire::{Wire, list_from_wire, list_to_wire, name};

/// The form of dependencies; none when there are none.
pub(crate) fn dependencies_to_wire(dependencies: &Dependencies) -> Option<form::Dependencies> {
    if dependencies.is_empty() {
        return None;
    }
    let (edges, named) = (&dependencies.edges, &dependencies.named);
    Some(form::Dependencies {
        after: list_to_wire(&dependencies.after),
        counts: edges.iter().map(|list| list.len() as u32).collect(),
        targets: edges.targets().iter().map(|task| task.0).collect(),
        files: dependencies.files.clone(),
        named_counts: (0..named.lists()).map(|place| named.of(place).count() as u32).collect(),
        named: named.keys().iter().map(<[u8]>::to_vec).collect(),
    })
}

/// The dependencies in their form.
pub(crate) fn dependencies_from_wire(
    dependencies: Option<form::Dependencies>,
) -> Result<Dependencies, ProtoError> {
    let Some(form::Dependencies { after, counts, targets, files, named_counts, named }) = dependencies else {
        return Ok(Dependencies::default());
    };
    let lists = lists_of(&counts, &targets)?;
    let edges = Edges::new(lists.map(|list| list.iter().map(|&task| TaskId(task)).collect::<Vec<_>>()));
    let lists = lists_of(&named_counts, &named)?;
    let named = NamedEdges::new(lists.map(|list| list.iter().map(Vec::as_slice)));
    rule("dependencies of tasks", edges.is_some() && named.is_some(), "must be countable")?;
    let is_absolute = files.iter().all(|file| file.first() == Some(&b'/'));
    rule("files waited for", is_absolute, "must be absolute paths")?;
    let (edges, named) = (edges.unwrap_or_default(), named.unwrap_or_default());
    Ok(Dependencies { after: list_from_wire(after)?, files, edges, named })
}

// The list of each task.
fn lists_of<'a, T>(counts: &'a [u32], all: &'a [T]) -> Result<impl Iterator<Item = &'a [T]>, ProtoError> {
    let total: u64 = counts.iter().map(|&count| u64::from(count)).sum();
    rule("dependencies of tasks", total == all.len() as u64, "must be as many as are counted")?;
    let mut rest = all;
    Ok(counts.iter().map(move |&count| {
        let (list, others) = rest.split_at(count as usize);
        rest = others;
        list
    }))
}

impl Wire for After {
    type Form = form::After;

    fn to_wire(&self) -> form::After {
        form::After {
            job: self.job.0,
            tasks: self.tasks.as_ref().map(Wire::to_wire),
            key: self.key.clone(),
            any_end: self.condition == Condition::AnyEnd,
            window: match self.mapping {
                Mapping::All => None,
                Mapping::Window(size) => Some(size),
            },
        }
    }

    fn from_wire(after: form::After) -> Result<After, ProtoError> {
        let tasks = after.tasks.map(|tasks| idset::some_from_wire("tasks waited for", &tasks.ranges));
        Ok(After {
            job: JobId(after.job),
            tasks: tasks.transpose()?,
            key: after.key.map(|key| name("key of a task", key)).transpose()?,
            condition: if after.any_end { Condition::AnyEnd } else { Condition::Success },
            mapping: after.window.map_or(Mapping::All, Mapping::Window),
        })
    }
}
