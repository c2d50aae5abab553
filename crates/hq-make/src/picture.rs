//! Pictures of a plan: rules, runs or files as a graph, for Graphviz, a browser, or a program.

mod dot;
mod json;
mod layout;
mod svg;

use hq_model::counted;
use rustc_hash::FxHashMap;

use crate::limits::PICTURE_RUNS_MAX;
use crate::plan::{FileState, Plan, Reason, Run, RunId, RunState};

/// What the nodes of a graph are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GraphOf {
    /// Rules, with counts of their runs.
    Rules,
    /// Runs.
    Runs,
    /// Files, and the runs between them.
    Files,
}

/// How a graph is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GraphAs {
    /// For Graphviz.
    Dot,
    /// For a browser: rules instead of runs and files where there are more than [`PICTURE_RUNS_MAX`] of them.
    Svg,
    /// For a program.
    Json,
}

/// Draws a plan. Runs that have failed are drawn as such.
pub fn graph(plan: &Plan, of: GraphOf, form: GraphAs, failed: &[RunId]) -> String {
    let is_large = match of {
        GraphOf::Rules => false,
        GraphOf::Runs => plan.runs.len() > PICTURE_RUNS_MAX,
        GraphOf::Files => plan.files.len() + plan.runs.len() > PICTURE_RUNS_MAX,
    };
    let of = if form == GraphAs::Svg && is_large { GraphOf::Rules } else { of };
    let graph = match of {
        GraphOf::Rules => rules(plan, failed),
        GraphOf::Runs => runs(plan, failed),
        GraphOf::Files => files(plan, failed),
    };
    match form {
        GraphAs::Dot => dot::write(&graph),
        GraphAs::Svg => svg::write(&graph),
        GraphAs::Json => json::write(&graph),
    }
}

/// How something stands, in a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum State {
    There,
    MadeNow,
    BecauseOf,
    Perhaps,
    Unasked,
    Awaited,
    Cannot,
    Failed,
}

impl State {
    const ALL: [State; 8] = [
        State::There,
        State::MadeNow,
        State::BecauseOf,
        State::Perhaps,
        State::Unasked,
        State::Awaited,
        State::Cannot,
        State::Failed,
    ];

    fn word(self) -> &'static str {
        match self {
            State::There => "there",
            State::MadeNow => "made now",
            State::BecauseOf => "made because of another",
            State::Perhaps => "perhaps made",
            State::Unasked => "not asked for",
            State::Awaited => "waited for",
            State::Cannot => "cannot be made",
            State::Failed => "failed",
        }
    }

    fn fill(self) -> &'static str {
        match self {
            State::There => "#dcefdc",
            State::MadeNow => "#d6e6fa",
            State::BecauseOf => "#e6ddf5",
            State::Perhaps => "#f1f1f1",
            State::Unasked => "#ffffff",
            State::Awaited => "#fdf3d0",
            State::Cannot => "#f8dcc8",
            State::Failed => "#f6c9c9",
        }
    }

    fn line(self) -> &'static str {
        match self {
            State::There => "#4a8a4a",
            State::MadeNow => "#3a6ea5",
            State::BecauseOf => "#7552a8",
            State::Perhaps => "#7a7a7a",
            State::Unasked => "#a0a0a0",
            State::Awaited => "#a8851c",
            State::Cannot => "#b3622a",
            State::Failed => "#b03030",
        }
    }

    fn of_run(run: &Run, failed: &[RunId]) -> State {
        match &run.state {
            _ if failed.contains(&run.id) => State::Failed,
            RunState::There => State::There,
            RunState::Needed(Reason::MadeAnew { .. }) => State::BecauseOf,
            RunState::Needed(_) => State::MadeNow,
            RunState::Perhaps(_) => State::Perhaps,
            RunState::Unasked => State::Unasked,
            RunState::Cannot(_) => State::Cannot,
        }
    }
}

/// A node of a picture.
struct Node {
    /// A name that no other node has.
    id: String,
    kind: &'static str,
    label: String,
    /// A second, smaller line.
    detail: String,
    state: State,
}

/// A picture before it is drawn: edges go from what is needed to what needs it.
struct Graph {
    nodes: Vec<Node>,
    /// From, to, and how many are drawn as one.
    edges: Vec<(usize, usize, usize)>,
}

fn place(dir: &str, name: &str) -> String {
    if dir == "." { name.to_owned() } else { format!("{dir}/{name}") }
}

fn rules(plan: &Plan, failed: &[RunId]) -> Graph {
    let mut index: FxHashMap<&str, usize> = FxHashMap::default();
    let mut counts: Vec<FxHashMap<State, usize>> = Vec::new();
    let mut names: Vec<&str> = Vec::new();
    for run in &plan.runs {
        let at = *index.entry(&run.rule).or_insert_with(|| {
            names.push(&run.rule);
            counts.push(FxHashMap::default());
            names.len() - 1
        });
        *counts[at].entry(State::of_run(run, failed)).or_default() += 1;
    }
    let mut edges: FxHashMap<(usize, usize), usize> = FxHashMap::default();
    for run in &plan.runs {
        for maker in makers(plan, run) {
            *edges.entry((index[&*maker.rule], index[&*run.rule])).or_default() += 1;
        }
    }
    let node = |(name, counts): (&&str, &FxHashMap<State, usize>)| {
        let total: usize = counts.values().sum();
        let said = State::ALL
            .iter()
            .filter_map(|state| counts.get(state).map(|count| format!("{count} {}", state.word())));
        // What needs somebody's eyes colors the box.
        let state =
            State::ALL.into_iter().rev().find(|state| counts.contains_key(state)).unwrap_or(State::There);
        let runs = counted(total, "run");
        let detail = format!("{runs}: {}", said.collect::<Vec<_>>().join(", "));
        Node { id: (*name).to_owned(), kind: "rule", label: (*name).to_owned(), detail, state }
    };
    let nodes = names.iter().zip(&counts).map(node).collect();
    Graph { nodes, edges: sorted(edges) }
}

fn runs(plan: &Plan, failed: &[RunId]) -> Graph {
    let mut edges: FxHashMap<(usize, usize), usize> = FxHashMap::default();
    for run in &plan.runs {
        for maker in makers(plan, run) {
            *edges.entry((maker.id.index(), run.id.index())).or_default() += 1;
        }
    }
    Graph { nodes: plan.runs.iter().map(|run| run_node(run, failed)).collect(), edges: sorted(edges) }
}

fn run_node(run: &Run, failed: &[RunId]) -> Node {
    let state = State::of_run(run, failed);
    let label = place(&run.dir_shown, &run.name);
    Node { id: label.clone(), kind: "run", label, detail: state.word().to_owned(), state }
}

fn files(plan: &Plan, failed: &[RunId]) -> Graph {
    let mut nodes: Vec<Node> = plan
        .files
        .iter()
        .map(|file| {
            let state = match file.state {
                FileState::There => State::There,
                FileState::Made => {
                    file.maker.map_or(State::MadeNow, |maker| State::of_run(plan.run(maker), failed))
                }
                FileState::Awaited => State::Awaited,
                FileState::Unmakable => State::Cannot,
            };
            let detail = state.word().to_owned();
            Node {
                id: format!("file {}", file.shown()),
                kind: "file",
                label: file.shown().into_owned(),
                detail,
                state,
            }
        })
        .collect();
    let first = nodes.len();
    let mut edges = Vec::new();
    for run in &plan.runs {
        let node = run_node(run, failed);
        nodes.push(Node { id: format!("run {}", node.id), ..node });
        let at = first + run.id.index();
        edges.extend(run.inputs.iter().map(|input| (input.index(), at, 1)));
        edges.extend(run.outputs.iter().map(|output| (at, output.index(), 1)));
    }
    Graph { nodes, edges }
}

fn makers<'a>(plan: &'a Plan, run: &'a Run) -> impl Iterator<Item = &'a Run> {
    run.inputs.iter().filter_map(|input| plan.file(*input).maker).map(|maker| plan.run(maker))
}

fn sorted(edges: FxHashMap<(usize, usize), usize>) -> Vec<(usize, usize, usize)> {
    let mut edges: Vec<_> = edges.into_iter().map(|((from, to), count)| (from, to, count)).collect();
    edges.sort_unstable();
    edges
}

#[cfg(test)]
mod tests;
