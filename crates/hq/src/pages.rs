//! The pages of the documentation, which the program has in itself: where it runs, nobody may have the sources.

use hq_model::similar;

/// How a comment of a page begins and ends.
const COMMENT: (&str, &str) = ("<!--", "-->");

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
pub(crate) const PAGES: [Page; 52] = [
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
    page!("dashboard", "docs/guide/dashboard.md"),
    page!("metrics", "docs/guide/metrics.md", "prometheus", "grafana"),
    page!("functions", "docs/guide/functions.md", "results"),
    page!("python", "docs/guide/python.md", "headquarters", "python-api"),
    page!("lists", "docs/guide/lists.md", "mpi-list", "mpi_list"),
    page!("config", "docs/guide/config.md", "configuration", "defaults"),
    page!("open-jobs", "docs/guide/open-jobs.md"),
    page!("graphs", "docs/guide/graphs.md", "dependencies"),
    page!("objects", "docs/guide/objects.md", "object"),
    page!("make", "docs/guide/make.md", "pmake", "rules"),
    page!("generate-and-reduce", "docs/guide/generate-and-reduce.md", "generate", "reduce"),
    page!("pull", "docs/guide/pull.md", "dwork", "bag"),
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
    page!("make-files", "docs/reference/make-files.md"),
    page!("environment", "docs/reference/environment.md"),
    page!("exit-codes", "docs/reference/exit-codes.md"),
    page!("error-codes", "docs/reference/error-codes.md"),
    page!("json", "docs/reference/json.md"),
    page!("events", "docs/reference/events.md", "event"),
    page!("web-api", "docs/reference/web-api.md", "web", "openapi"),
    page!("stream-format", "docs/reference/stream-format.md"),
    page!("runner-protocol", "docs/reference/runner-protocol.md"),
    page!("pull-protocol", "docs/reference/pull-protocol.md"),
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

    /// Its text without comments, which are for those who write the pages.
    pub(crate) fn to_read(self) -> String {
        let mut shown = String::with_capacity(self.text.len());
        let mut rest = self.text;
        while let Some((before, (_, after))) = rest
            .split_once(COMMENT.0)
            .and_then(|(before, comment)| Some((before, comment.split_once(COMMENT.1)?)))
        {
            shown.push_str(before);
            // One empty line is enough where it stood.
            let has_gap = before.is_empty() || before.ends_with("\n\n");
            rest = if has_gap { after.trim_start_matches('\n') } else { after };
        }
        shown.push_str(rest);
        shown.truncate(shown.trim_end().len());
        shown
    }

    fn is_called(&self, name: &str) -> bool {
        self.topic == name || self.also.contains(&name)
    }
}

// A name by which other pages link to one: without its folders and its place in the page.
fn stem(name: &str) -> &str {
    let name = name.split_once('#').map_or(name, |(page, _)| page);
    let file = name.rsplit_once('/').map_or(name, |(_, file)| file);
    file.strip_suffix(".md").unwrap_or(file)
}

/// The page about something: by one of its names, or as other pages link to it.
pub(crate) fn page(topic: &str) -> Result<Page, String> {
    let name = topic.to_ascii_lowercase();
    let stem = stem(&name);
    PAGES.into_iter().find(|page| page.is_called(stem)).ok_or_else(|| {
        let nearest = similar::nearest(stem, PAGES.iter().map(|page| page.topic));
        let hint = nearest.map(|topic| format!(" (did you mean `{topic}`?)")).unwrap_or_default();
        format!("there is no such page{hint}: `hq doc` lists all pages")
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
    fn comments_are_not_printed() {
        for page in PAGES {
            assert!(!page.to_read().contains("<!--"), "{}", page.topic);
        }
        let text = "# A\n\n<!-- console\n$ x\n-->\n\nb <!-- c -->d\n\n<!-- e -->\n";
        assert_eq!(Page { topic: "a", also: &[], text }.to_read(), "# A\n\nb d");
        assert_eq!(Page { topic: "a", also: &[], text: "a\n<!-- open\n" }.to_read(), "a\n<!-- open");
    }

    #[test]
    fn a_page_is_found_as_others_link_to_it() {
        for name in ["outputs.md", "guide/outputs", "docs/guide/outputs.md", "../guide/outputs.md#streams"] {
            assert_eq!(page(name).map(|page| page.topic), Ok("outputs"), "{name}");
        }
        assert_eq!(page("../reference/placeholders.md").map(|page| page.topic), Ok("placeholders"));
        assert_eq!(page("../../CHANGELOG.md").map(|page| page.topic), Ok("changelog"));
    }

    #[test]
    fn a_page_is_found_by_any_of_its_names() {
        for (name, title) in [("gpus", "GPUs"), ("GPU", "GPUs"), ("autoalloc", "Allocations")] {
            assert_eq!(page(name).map(|page| page.title()), Ok(title));
        }
        assert!(page("outpts").expect_err("no page").contains("did you mean `outputs`?"));
    }
}
