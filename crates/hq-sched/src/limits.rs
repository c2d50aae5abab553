//! The bounds of one round of planning.

/// Steps (one item looked at in one bin) after which a round fills the rest without further search, unless there is a
/// reason for others.
pub const STEPS: u64 = 1_500_000;
/// Rounds of price adjustment.
pub const PRICE_ROUNDS: u32 = 40;
/// Attempts to improve each of two packings by filling a few workers anew.
pub const REPACK_ROUNDS: u32 = 400;
/// Nodes of the search for the best content of one bin.
pub const SEARCH_NODES: u64 = 3_000;
/// A search takes at most one of so many parts of the steps that are left, so that many can follow.
pub const SEARCHES: u64 = 512;
/// Classes among which the best packing is searched; more are placed one by one, densest first.
pub const SEARCH_CLASSES_MAX: usize = 64;
/// Bins into which the best packing is searched.
pub const SEARCH_BINS_MAX: usize = 64;
