//! A graph for browsers: boxes in columns, from what is there first to what is made last.

use std::fmt::Write;

use super::layout::{Slot, layout};
use super::{Graph, Node, State};

const BOX_HEIGHT: f64 = 40.0;
const GAP: f64 = 14.0;
const POINT_HEIGHT: f64 = 10.0;
const COLUMN_GAP: f64 = 70.0;
const MARGIN: f64 = 20.0;
const LEGEND_HEIGHT: f64 = 34.0;
const LABEL_CHARS_MAX: usize = 48;

/// Writes a graph.
pub(super) fn write(graph: &Graph) -> String {
    let layout = layout(graph);
    let height_of = |slot: &Slot| match slot {
        Slot::Node(_) => BOX_HEIGHT + GAP,
        Slot::Point(_) => POINT_HEIGHT,
    };
    let tall = layout.layers.iter().map(|layer| layer.iter().map(height_of).sum::<f64>()).fold(0.0, f64::max);
    let mut nodes = vec![(0.0, 0.0, 0.0); graph.nodes.len()];
    let mut points = vec![(0.0, 0.0); layout.points];
    let mut left = MARGIN;
    for layer in &layout.layers {
        let widths = layer.iter().filter_map(|slot| match slot {
            Slot::Node(node) => Some(width(&graph.nodes[*node])),
            Slot::Point(_) => None,
        });
        let wide = widths.fold(40.0, f64::max);
        let mut top = MARGIN + (tall - layer.iter().map(height_of).sum::<f64>()) / 2.0;
        for slot in layer {
            match slot {
                Slot::Node(node) => nodes[*node] = (left, top, wide),
                Slot::Point(point) => points[*point] = (left + wide / 2.0, top + POINT_HEIGHT / 2.0),
            }
            top += height_of(slot);
        }
        left += wide + COLUMN_GAP;
    }
    let states: Vec<State> =
        State::ALL.into_iter().filter(|state| graph.nodes.iter().any(|node| node.state == *state)).collect();
    let legend_width: f64 =
        states.iter().map(|state| 34.0 + 7.0 * state.word().len() as f64).sum::<f64>() + 2.0 * MARGIN;
    let wide = (left - COLUMN_GAP + MARGIN).max(legend_width);
    let high = tall + 2.0 * MARGIN + LEGEND_HEIGHT;
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{wide:.0}\" height=\"{high:.0}\" viewBox=\"0 0 {wide:.0} {high:.0}\" font-family=\"sans-serif\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n\
         <defs><marker id=\"a\" viewBox=\"0 0 8 8\" refX=\"8\" refY=\"4\" markerWidth=\"7\" markerHeight=\"7\" orient=\"auto\"><path d=\"M0 0L8 4L0 8z\" fill=\"#888888\"/></marker></defs>\n"
    );
    for ((from, to, count), way) in graph.edges.iter().zip(&layout.ways) {
        let (x, y, box_width) = nodes[*from];
        let mut at = (x + box_width, y + BOX_HEIGHT / 2.0);
        let end = (nodes[*to].0, nodes[*to].1 + BOX_HEIGHT / 2.0);
        let mut path = format!("M{:.1} {:.1}", at.0, at.1);
        for next in way.iter().map(|point| points[*point]).chain([end]) {
            let middle = f64::midpoint(at.0, next.0);
            let _ = write!(
                path,
                "C{middle:.1} {:.1} {middle:.1} {:.1} {:.1} {:.1}",
                at.1, next.1, next.0, next.1
            );
            at = next;
        }
        let thick = if *count > 1 { 1.8 } else { 1.1 };
        let _ = writeln!(
            text,
            "<path d=\"{path}\" fill=\"none\" stroke=\"#888888\" stroke-width=\"{thick}\" marker-end=\"url(#a)\"/>"
        );
    }
    for (node, (x, y, box_width)) in graph.nodes.iter().zip(&nodes) {
        let round = if node.kind == "file" { 16 } else { 4 };
        let middle = x + box_width / 2.0;
        let (fill, line) = (node.state.fill(), node.state.line());
        let _ = writeln!(
            text,
            "<g><title>{}</title><rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{box_width:.1}\" height=\"{BOX_HEIGHT}\" rx=\"{round}\" fill=\"{fill}\" stroke=\"{line}\"/>\
             <text x=\"{middle:.1}\" y=\"{:.1}\" font-size=\"13\" text-anchor=\"middle\">{}</text>\
             <text x=\"{middle:.1}\" y=\"{:.1}\" font-size=\"10\" fill=\"#444444\" text-anchor=\"middle\">{}</text></g>",
            escaped(&format!("{}: {}", node.label, node.detail)),
            y + 17.0,
            escaped(&short(&node.label)),
            y + 32.0,
            escaped(&short(&node.detail)),
        );
    }
    let mut x = MARGIN;
    let y = tall + 2.0 * MARGIN;
    for state in states {
        let _ = writeln!(
            text,
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"14\" height=\"14\" rx=\"2\" fill=\"{}\" stroke=\"{}\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" font-size=\"12\">{}</text>",
            state.fill(),
            state.line(),
            x + 20.0,
            y + 11.5,
            state.word(),
        );
        x += 34.0 + 7.0 * state.word().len() as f64;
    }
    text.push_str("</svg>\n");
    text
}

fn short(text: &str) -> String {
    let count = text.chars().count();
    if count <= LABEL_CHARS_MAX {
        return text.to_owned();
    }
    let half = LABEL_CHARS_MAX / 2 - 1;
    let head: String = text.chars().take(half).collect();
    let tail: String = text.chars().skip(count - half).collect();
    format!("{head}…{tail}")
}

fn width(node: &Node) -> f64 {
    let label = short(&node.label).chars().count() as f64 * 7.6;
    let detail = short(&node.detail).chars().count() as f64 * 5.8;
    label.max(detail) + 22.0
}

// What XML cannot hold is shown as a question.
fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for char in text.chars() {
        match char {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\n' | '\t' => escaped.push(' '),
            char if (char as u32) < 0x20 || matches!(char, '\u{fffe}' | '\u{ffff}') => escaped.push('?'),
            char => escaped.push(char),
        }
    }
    escaped
}
