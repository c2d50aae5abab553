//! How tables look on narrow and on wide terminals.

use super::*;

fn at_width(report: &mut dyn Report, width: usize) -> String {
    let mut out = Vec::new();
    let shown = report.cli(&mut out, Style { width: Some(width), ..Style::default() });
    text(out, shown)
}

fn workers() -> Workers {
    let mut far = worker(12);
    far.config.hostname = "gpu-node-0123.cluster.example.org".into();
    Workers(vec![worker(1), lost_worker(2), far])
}

fn long_jobs() -> Jobs {
    let mut jobs = jobs();
    jobs[0].name = "a name of several words that is longer than anybody would like it".into();
    jobs[1].name = "docking_of_all_ligands_with_the_second_receptor_at_high_precision".into();
    Jobs { jobs, verbose: true, total: 4 }
}

#[test]
fn tables_fit_the_terminal_without_broken_words() {
    let mut all = String::new();
    for width in [60, 80, 120, 200] {
        let tables = [
            at_width(&mut workers(), width),
            at_width(&mut super::alloc::list(), width),
            at_width(&mut super::alloc::info(), width),
            at_width(&mut ExplainedQueue(super::alloc::explanation()), width),
            at_width(&mut super::explain::task(), width),
            at_width(&mut long_jobs(), width),
            at_width(&mut super::tasks(true), width),
        ];
        let lines_of_tables = |line: &&str| line.starts_with(['+', '|']);
        for line in tables.iter().flat_map(|table| table.lines()).filter(lines_of_tables) {
            assert!(line.len() <= width, "{line} at {width}");
        }
        all += &format!("=== {width}\n{}\n", tables.concat());
    }
    insta::assert_snapshot!(all);
}
