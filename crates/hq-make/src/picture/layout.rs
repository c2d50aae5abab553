//! Where the nodes of a picture go: in layers by the longest way to them, in an order with few crossings.

use super::Graph;

/// Points that stand for edges on their way through layers; with more, edges go straight.
const POINTS_MAX: usize = 20_000;
/// How often the order within layers is improved.
const SWEEPS: usize = 8;

/// A node, or a point of an edge on its way.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Slot {
    Node(usize),
    Point(usize),
}

/// Layers with their slots in order, and the ways of the edges.
pub(super) struct Layout {
    pub layers: Vec<Vec<Slot>>,
    /// Per edge, the points on its way.
    pub ways: Vec<Vec<usize>>,
    pub points: usize,
}

/// Lays out a graph. Edges of a circle (rules may call each other for different files) are left out of the layers.
pub(super) fn layout(graph: &Graph) -> Layout {
    let depth = depths(graph);
    let layers_count = depth.iter().max().map_or(0, |most| most + 1);
    let mut layers = vec![Vec::new(); layers_count];
    for (node, depth) in depth.iter().enumerate() {
        layers[*depth].push(Slot::Node(node));
    }
    let span = |(from, to, _): &(usize, usize, usize)| depth[*to].saturating_sub(depth[*from]);
    let needed: usize = graph.edges.iter().map(|edge| span(edge).saturating_sub(1)).sum();
    let mut ways = vec![Vec::new(); graph.edges.len()];
    let mut points = 0;
    if needed <= POINTS_MAX {
        for (way, (from, to, _)) in ways.iter_mut().zip(&graph.edges) {
            for layer in layers.iter_mut().take(depth[*to]).skip(depth[*from] + 1) {
                layer.push(Slot::Point(points));
                way.push(points);
                points += 1;
            }
        }
    }
    let mut layout = Layout { layers, ways, points };
    improve(graph, &mut layout);
    layout
}

fn depths(graph: &Graph) -> Vec<usize> {
    let count = graph.nodes.len();
    let mut waits = vec![0; count];
    let mut next = vec![Vec::new(); count];
    for (from, to, _) in &graph.edges {
        if from != to {
            waits[*to] += 1;
            next[*from].push(*to);
        }
    }
    let mut depth = vec![0; count];
    let mut done = vec![false; count];
    let mut queue: Vec<usize> = (0..count).filter(|node| waits[*node] == 0).collect();
    let mut at = 0;
    let mut left = 0;
    loop {
        while at < queue.len() {
            let node = queue[at];
            at += 1;
            if std::mem::replace(&mut done[node], true) {
                continue;
            }
            for to in &next[node] {
                if !done[*to] {
                    depth[*to] = depth[*to].max(depth[node] + 1);
                    waits[*to] -= 1;
                    if waits[*to] == 0 {
                        queue.push(*to);
                    }
                }
            }
        }
        // What is left waits in a circle: the first of it begins.
        while left < count && done[left] {
            left += 1;
        }
        if left == count {
            return depth;
        }
        queue.push(left);
    }
}

fn improve(graph: &Graph, layout: &mut Layout) {
    let count = graph.nodes.len();
    let number = |slot: Slot| match slot {
        Slot::Node(node) => node,
        Slot::Point(point) => count + point,
    };
    let mut neighbours: [Vec<Vec<usize>>; 2] =
        [vec![Vec::new(); count + layout.points], vec![Vec::new(); count + layout.points]];
    for ((from, to, _), way) in graph.edges.iter().zip(&layout.ways) {
        let stops: Vec<usize> =
            std::iter::once(*from).chain(way.iter().map(|point| count + point)).chain([*to]).collect();
        for pair in stops.windows(2) {
            neighbours[0][pair[1]].push(pair[0]);
            neighbours[1][pair[0]].push(pair[1]);
        }
    }
    let mut position = vec![0.0_f64; count + layout.points];
    let settle = |layer: &[Slot], position: &mut Vec<f64>| {
        for (at, slot) in layer.iter().enumerate() {
            // Centered, so that layers of different sizes compare.
            position[number(*slot)] = at as f64 - layer.len() as f64 / 2.0;
        }
    };
    layout.layers.iter().for_each(|layer| settle(layer, &mut position));
    for sweep in 0..SWEEPS {
        let side = sweep % 2;
        let mut order: Vec<usize> = (0..layout.layers.len()).collect();
        if side == 1 {
            order.reverse();
        }
        for at in order {
            let mean = |slot: Slot| {
                let others = &neighbours[side][number(slot)];
                match others.len() {
                    0 => position[number(slot)],
                    count => others.iter().map(|other| position[*other]).sum::<f64>() / count as f64,
                }
            };
            let mut keyed: Vec<(f64, Slot)> =
                layout.layers[at].iter().map(|slot| (mean(*slot), *slot)).collect();
            keyed.sort_by(|one, other| one.0.total_cmp(&other.0));
            layout.layers[at] = keyed.into_iter().map(|(_, slot)| slot).collect();
            settle(&layout.layers[at], &mut position);
        }
    }
}
