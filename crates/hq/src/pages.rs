//! The pages of the documentation, which the program has in itself: where it runs, nobody may have the sources.

use hq_model::similar;

/// A page.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Page {
    /// What users call it.
    pub topic: &'static str,
    /// What else they may call it.
    also: &'static [&'static str],
    /// Its text, in Markdown.
    pub text: &'static str,
}

macro_rules! page {
    ($topic:literal, $path:literal $(, $also:literal)*) => {
        Page { topic: $topic, also: &[$($also),*], text: include_str!(concat!("../../../", $path)) }
    };
}

/// All of them, in the order of reading.
pub(crate) const PAGES: [Page; 38] = [
    page!("quick-start", "docs/guide/quick-start.md", "start", "job"),
    page!("run", "docs/guide/run.md"),
    page!("arrays", "docs/guide/arrays.md", "array", "taskarray"),
    page!("million", "docs/guide/million.md"),
    page!("resources", "docs/guide/resources.md"),
    page!("gpus", "docs/guide/gpus.md", "gpu"),
    page!("multi-node", "docs/guide/multi-node.md", "mpi"),
    page!("outputs", "docs/guide/outputs.md", "output"),
    page!("failed", "docs/guide/failed.md", "faq", "failures"),
    page!("retries", "docs/guide/retries.md"),
    page!("watching", "docs/guide/watching.md", "progress"),
    page!("config", "docs/guide/config.md", "configuration", "defaults"),
    page!("open-jobs", "docs/guide/open-jobs.md"),
    page!("graphs", "docs/guide/graphs.md", "dependencies"),
    page!("workers", "docs/guide/workers.md", "worker"),
    page!("slurm", "docs/guide/slurm.md"),
    page!("allocations", "docs/guide/allocations.md", "alloc", "autoalloc"),
    page!("batch-systems", "docs/guide/batch-systems.md", "pbs"),
    page!("journal", "docs/guide/journal.md"),
    page!("security", "docs/guide/security.md"),
    page!("from-hyperqueue", "docs/guide/from-hyperqueue.md", "hyperqueue"),
    page!("from-parallel", "docs/guide/from-parallel.md", "parallel"),
    page!("from-slurm-arrays", "docs/guide/from-slurm-arrays.md", "slurm-arrays"),
    page!("cli", "docs/reference/cli.md", "cheatsheet"),
    page!("glossary", "docs/reference/glossary.md"),
    page!("placeholders", "docs/reference/placeholders.md"),
    page!("environment", "docs/reference/environment.md"),
    page!("exit-codes", "docs/reference/exit-codes.md"),
    page!("error-codes", "docs/reference/error-codes.md"),
    page!("json", "docs/reference/json.md"),
    page!("stream-format", "docs/reference/stream-format.md"),
    page!("limits", "docs/reference/limits.md"),
    page!("performance", "docs/performance.md"),
    page!("reliability", "docs/reliability.md"),
    page!("readme", "README.md"),
    page!("contents", "docs/README.md"),
    page!("architecture", "ARCHITECTURE.md"),
    page!("changelog", "CHANGELOG.md"),
];

impl Page {
    /// What its first line says.
    pub(crate) fn title(&self) -> &'static str {
        let title = self.text.lines().find_map(|line| line.strip_prefix("# "));
        title.unwrap_or(self.topic)
    }

    fn is_called(&self, name: &str) -> bool {
        self.topic == name || self.also.contains(&name)
    }
}

/// The page about something.
pub(crate) fn page(topic: &str) -> Result<Page, String> {
    let name = topic.to_ascii_lowercase();
    PAGES.into_iter().find(|page| page.is_called(&name)).ok_or_else(|| {
        let nearest = similar::nearest(&name, PAGES.iter().map(|page| page.topic));
        let hint = nearest.map(|topic| format!(" (did you mean `{topic}`?)")).unwrap_or_default();
        format!("there is no page of this name{hint}: `hq doc` lists all")
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    #[test]
    fn every_page_of_the_documentation_has_one_name() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
        for folder in ["guide", "reference", "."] {
            for entry in std::fs::read_dir(root.join(folder)).expect("documentation") {
                let path = entry.expect("an entry").path();
                if path.extension().is_some_and(|end| end == "md") {
                    let text = std::fs::read_to_string(&path).expect("a page");
                    assert_eq!(
                        PAGES.iter().filter(|page| page.text == text).count(),
                        1,
                        "{}",
                        path.display()
                    );
                }
            }
        }
        let names = || PAGES.iter().flat_map(|page| page.also.iter().chain([&page.topic]));
        assert_eq!(names().collect::<BTreeSet<_>>().len(), names().count(), "names are unique");
    }

    #[test]
    fn a_page_is_found_by_any_of_its_names() {
        for (name, title) in [("gpus", "GPUs"), ("GPU", "GPUs"), ("autoalloc", "Allocations")] {
            assert_eq!(page(name).map(|page| page.title()), Ok(title));
        }
        assert!(page("outpts").expect_err("no page").contains("did you mean `outputs`?"));
    }
}
