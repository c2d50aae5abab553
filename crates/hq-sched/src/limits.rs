//! The bounds of one round of planning.

/// Steps (one item looked at in one bin) a round takes unless the caller says otherwise.
pub const STEPS: u64 = 1_500_000;
/// Classes that are planned in one round; the next in order wait for the next round.
pub const CLASSES_MAX: usize = 1_024;
/// Workers held in one round for tasks that do not fit yet.
pub const HOLDS_MAX: usize = 32;
/// Rounds of price adjustment within one priority.
pub const PRICE_ROUNDS: u32 = 40;
/// Attempts to improve a packing by filling a few workers anew.
pub const REPACK_ROUNDS: u32 = 200;
/// Nodes of the search for the best content of one bin.
pub const SEARCH_NODES: u64 = 3_000;
/// How long tasks wait behind smaller ones of the same priority before a worker is held for them, in µs.
pub const PATIENCE_US: u64 = 10_000_000;
/// Workers that are asked when a reason to wait is looked up.
pub const WITNESSES_MAX: usize = 64;
/// Classes of one priority among which the best packing is searched; more are placed one by one, densest first.
pub const SEARCH_CLASSES_MAX: usize = 64;
/// Bins into which the best packing is searched.
pub const SEARCH_BINS_MAX: usize = 64;
