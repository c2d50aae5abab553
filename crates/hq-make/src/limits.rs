//! How much the two files may ask for: each limit has a name and a message.

/// The longest file of rules or of targets, in bytes.
pub const FILE_BYTES_MAX: usize = 16 << 20;
/// Values that a file may hold once its aliases are followed.
pub const VALUES_MAX: u64 = 1_000_000;
/// How deep lists and mappings may be nested.
pub const NESTING_MAX: usize = 64;
/// Values of one loop, and rounds of all loops of one `loop` block together.
pub const LOOP_VALUES_MAX: usize = 1_000_000;
/// Steps in which our own evaluator must have ended with an expression.
pub const EXPRESSION_STEPS_MAX: u64 = 20_000_000;
/// The longest expression, in bytes.
pub const EXPRESSION_BYTES_MAX: usize = 64 << 10;
/// How deep an expression may be nested.
pub const EXPRESSION_NESTING_MAX: usize = 40;
/// Rounds in which expressions of loops that need Python may depend on each other.
pub const PYTHON_CALLS_MAX: usize = 32;
/// Runs of one plan.
pub const RUNS_MAX: usize = 2_000_000;
/// The width and the precision that a format may ask for.
pub const FORMAT_WIDTH_MAX: usize = 100_000;
/// The longest text that one template may become, in bytes.
pub const TEXT_BYTES_MAX: usize = 64 << 20;
/// The longest name between two slashes, in bytes: no file system has longer ones.
pub const NAME_BYTES_MAX: usize = 255;
/// The longest path, in bytes.
pub const PATH_BYTES_MAX: usize = 4095;
/// Steps in which a name must have been compared with the pattern of a rule.
pub const MATCH_STEPS_MAX: u32 = 100_000;
/// Lines of an explanation.
pub const EXPLAIN_LINES_MAX: usize = 2_000;
/// Runs that a picture draws one by one; more are drawn as rules with counts.
pub const PICTURE_RUNS_MAX: usize = 500;
