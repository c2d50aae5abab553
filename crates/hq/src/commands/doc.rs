//! `hq doc`.

use super::Done;
use crate::cli::DocTopic;
use crate::error::HqError;
use crate::report::Plain;

pub(super) fn doc(topic: Option<DocTopic>) -> Result<Done, HqError> {
    let page = match topic {
        None | Some(DocTopic::Start) => "README.md",
        Some(DocTopic::Cli) => "docs/reference/cli.md",
        Some(DocTopic::Architecture) => "ARCHITECTURE.md",
        Some(DocTopic::Changelog) => "CHANGELOG.md",
    };
    Done::ok(Plain(format!("{page} in the sources of Headquarters {}\n", env!("CARGO_PKG_VERSION"))))
}
