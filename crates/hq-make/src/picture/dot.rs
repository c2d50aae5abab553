//! The language of Graphviz.

use std::fmt::Write;

use super::Graph;

/// Writes a graph.
pub(super) fn write(graph: &Graph) -> String {
    let mut text = String::from(
        "digraph make {\n  rankdir=LR;\n  node [shape=box, style=filled, fontname=\"sans-serif\", fontsize=11];\n",
    );
    for (number, node) in graph.nodes.iter().enumerate() {
        let shape = if node.kind == "file" { ", shape=note" } else { "" };
        let _ = writeln!(
            text,
            "  n{number} [label={}, fillcolor=\"{}\", color=\"{}\"{shape}];",
            quoted(&node.label, &node.detail),
            node.state.fill(),
            node.state.line(),
        );
    }
    for (from, to, count) in &graph.edges {
        let label = if *count > 1 { format!(" [label=\"{count}\"]") } else { String::new() };
        let _ = writeln!(text, "  n{from} -> n{to}{label};");
    }
    text.push_str("}\n");
    text
}

// Graphviz knows `\"`, and `\n`, `\l`, `\N` …: a backslash of a name is doubled.
fn quoted(label: &str, detail: &str) -> String {
    let escape =
        |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"").replace(['\n', '\r', '\0'], " ");
    format!("\"{}\\n{}\"", escape(label), escape(detail))
}
