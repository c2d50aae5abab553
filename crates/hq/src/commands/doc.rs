//! `hq doc`: says where the documentation of this release is.

use super::Done;
use crate::cli::DocTopic;
use crate::error::HqError;
use crate::report::Answer;

pub(super) fn doc(topic: Option<DocTopic>) -> Result<Done, HqError> {
    let page = match topic {
        None | Some(DocTopic::Start) => "README.md",
        Some(DocTopic::Cli) => "docs/reference/cli.md",
        Some(DocTopic::Architecture) => "ARCHITECTURE.md",
        Some(DocTopic::Changelog) => "CHANGELOG.md",
    };
    let text = format!("{page} in the sources of Headquarters {}", env!("CARGO_PKG_VERSION"));
    Done::ok(Answer { name: "page", text })
}
