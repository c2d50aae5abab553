//! A graph for programs.

use std::fmt::Write;

use super::Graph;

/// Writes a graph: `nodes` with `id`, `kind`, `label`, `detail`, `state`, and `edges` with `from`, `to` (numbers of nodes),
/// `count`.
pub(super) fn write(graph: &Graph) -> String {
    let mut text = String::from("{\"nodes\":[");
    for (number, node) in graph.nodes.iter().enumerate() {
        text.push_str(if number > 0 { ",\n" } else { "\n" });
        let _ = write!(
            text,
            "{{\"id\":{},\"kind\":\"{}\",\"label\":{},\"detail\":{},\"state\":\"{}\"}}",
            quoted(&node.id),
            node.kind,
            quoted(&node.label),
            quoted(&node.detail),
            node.state.word(),
        );
    }
    text.push_str("],\n\"edges\":[");
    for (number, (from, to, count)) in graph.edges.iter().enumerate() {
        text.push_str(if number > 0 { ",\n" } else { "\n" });
        let _ = write!(text, "{{\"from\":{from},\"to\":{to},\"count\":{count}}}");
    }
    text.push_str("]}\n");
    text
}

fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for char in text.chars() {
        match char {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            char if (char as u32) < 0x20 => {
                let _ = write!(quoted, "\\u{:04x}", char as u32);
            }
            char => quoted.push(char),
        }
    }
    quoted.push('"');
    quoted
}
