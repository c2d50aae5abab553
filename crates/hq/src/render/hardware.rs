//! `hq worker hwdetect`.

use std::io::Write;

use hq_model::{PoolKind, ResourcePool, WorkerResources};
use hq_worker::discovery::Detected;
use serde_json::json;

use super::json::{self, SCHEMA_VERSION};
use super::style::Style;
use super::{Report, text};
use crate::error::HqError;
use crate::report::Hardware;

// A range as the list of its indices.
fn listed(pool: &ResourcePool) -> ResourcePool {
    let kind = match &pool.kind {
        PoolKind::Range { first, last } => {
            PoolKind::Groups(vec![(*first..=*last).map(|index| index.to_string()).collect()])
        }
        kind => kind.clone(),
    };
    ResourcePool { name: pool.name.clone(), kind }
}

fn listed_all(resources: &WorkerResources) -> WorkerResources {
    WorkerResources {
        pools: resources.pools.iter().map(listed).collect(),
        coupling: resources.coupling.clone(),
    }
}

impl Report for Hardware {
    fn cli(&mut self, out: &mut dyn Write, _style: Style) -> Result<(), HqError> {
        let Detected { resources, notes } = &self.0;
        writeln!(out, "Summary:\n{}\n", text::resources_short_lines(resources))?;
        writeln!(out, "Full Description:\n{}", text::resources_long(&listed_all(resources)))?;
        for note in notes {
            writeln!(out, "note: {note}")?;
        }
        Ok(())
    }

    fn json(&mut self, out: &mut dyn Write) -> Result<(), HqError> {
        let Detected { resources, notes } = &self.0;
        // Indices one by one: that is what callers count.
        let pools: Vec<_> = resources.pools.iter().map(|pool| json::pool(&listed(pool))).collect();
        let document = json!({
            "resources": pools,
            "coupling": json::coupling(resources),
            "notes": notes,
            "schema_version": SCHEMA_VERSION,
        });
        Ok(json::write(out, &document)?)
    }

    fn quiet(&mut self, out: &mut dyn Write) -> Result<(), HqError> {
        Ok(writeln!(out, "{}", text::resources(&self.0.resources))?)
    }
}
