//! Pictures: what is in them, and that every name can be.

use super::*;
use crate::plan::Rerun;
use crate::testing::{CHEMISTRY_RULES, CHEMISTRY_TARGETS, Disk, plan};

fn chemistry() -> Plan {
    let disk = Disk::new("chloride/mol.xyz chloride/conf_2.xyz sodium/min_nm1.npy=3");
    plan(CHEMISTRY_RULES, CHEMISTRY_TARGETS, &disk, Rerun::Mtime).expect("a plan")
}

#[test]
fn rules_are_drawn_with_counts() {
    insta::assert_snapshot!("rules_dot", graph(&chemistry(), GraphOf::Rules, GraphAs::Dot, &[]));
    insta::assert_snapshot!("rules_svg", graph(&chemistry(), GraphOf::Rules, GraphAs::Svg, &[]));
}

#[test]
fn json_is_json_and_holds_all() {
    let plan = chemistry();
    for (of, nodes) in [
        (GraphOf::Rules, 4),
        (GraphOf::Runs, plan.runs.len()),
        (GraphOf::Files, plan.runs.len() + plan.files.len()),
    ] {
        let text = graph(&plan, of, GraphAs::Json, &[RunId(0)]);
        let value: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let found = value["nodes"].as_array().expect("nodes");
        assert_eq!(found.len(), nodes);
        for edge in value["edges"].as_array().expect("edges") {
            let end = |name: &str| usize::try_from(edge[name].as_u64().expect("a number")).expect("small");
            assert!(end("from") < nodes && end("to") < nodes);
        }
        let states: Vec<&str> = found.iter().filter_map(|node| node["state"].as_str()).collect();
        assert!(states.contains(&"failed"), "{states:?}");
    }
}

#[test]
fn names_with_markup_are_escaped() {
    let rules = "a: {out: ['<b>&\"x\"\\.out'], script: x}\n";
    let targets = "t: {dirname: \"d<>\\n\\u0001&\", out: ['<b>&\"x\"\\.out']}\n";
    let plan = plan(rules, targets, &Disk::new(""), Rerun::Exists).expect("a plan");
    let svg = graph(&plan, GraphOf::Files, GraphAs::Svg, &[]);
    assert!(
        svg.contains("d&lt;&gt; ?&amp;/&lt;b&gt;&amp;&quot;x&quot;\\.out") && !svg.contains("<b>"),
        "{svg}"
    );
    let dot = graph(&plan, GraphOf::Files, GraphAs::Dot, &[]);
    assert!(dot.contains("d<> \u{1}&/<b>&\\\"x\\\"\\\\.out\\nmade now"), "{dot}");
    let json = graph(&plan, GraphOf::Files, GraphAs::Json, &[]);
    let value: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(value["nodes"][0]["label"], "d<>\n\u{1}&/<b>&\"x\"\\.out");
}

#[test]
fn many_runs_are_drawn_as_rules() {
    let rules =
        "a: {out: ['a_{n}'], script: x}\nb: {loop: {n: 'range(600)', inp: ['a_{n}']}, out: [b], script: y}\n";
    let plan = plan(rules, "t: {out: [b]}\n", &Disk::new(""), Rerun::Exists).expect("a plan");
    let svg = graph(&plan, GraphOf::Runs, GraphAs::Svg, &[]);
    assert!(svg.contains("600 runs: 600 made now") && svg.matches("<g>").count() == 2, "{svg}");
    assert_eq!(graph(&plan, GraphOf::Runs, GraphAs::Dot, &[]).matches(" [label=").count(), 601);
}

#[test]
fn rules_that_call_each_other_for_other_files_are_drawn() {
    let rules = "a: {inp: ['{n}.b'], out: ['{n}.a'], script: x}\nb: {loop: {m: '[{n} - 1] if {n} else []', inp: ['{m}.a']}, out: ['{n}.b'], script: x}\n";
    let plan = plan(rules, "t: {out: [3.a]}\n", &Disk::new(""), Rerun::Exists).expect("a plan");
    let svg = graph(&plan, GraphOf::Rules, GraphAs::Svg, &[]);
    assert_eq!(svg.matches("<g>").count(), 2);
}
