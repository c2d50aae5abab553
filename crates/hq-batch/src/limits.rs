//! Bounds of what is asked of batch systems and of what is taken from them.

use std::time::Duration;

/// How long a command of a batch system may take, unless the manager is told otherwise. A controller that
/// restarts lets its clients hang for some tens of seconds.
pub const COMMAND_TIME: Duration = Duration::from_secs(60);

/// How long what a command leaves running may keep its output open after its end.
pub const OUTPUT_GRACE: Duration = Duration::from_secs(2);

/// The most bytes that are kept of what a command prints; the rest is read and dropped.
pub const OUTPUT_BYTES: usize = 16 << 20;

/// The most ids in one command.
pub const IDS_PER_COMMAND: usize = 500;

/// The most lines of a refusal that are repeated to the user.
pub const ERROR_LINES: usize = 5;

/// The most characters of an answer or a refusal that are repeated to the user.
pub const ERROR_CHARS: usize = 1000;

/// The longest name of a batch job; longer ones are cut.
pub const NAME_BYTES: usize = 230;

/// The largest file that describes a manager.
pub const DESCRIPTION_BYTES: u64 = 1 << 20;
