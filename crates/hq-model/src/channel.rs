//! The two channels on which a program prints.

/// One of the two channels of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Channel {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

impl Channel {
    /// Both, in order.
    pub const ALL: [Channel; 2] = [Channel::Stdout, Channel::Stderr];

    /// 0 for standard output, 1 for standard error.
    pub fn number(self) -> u8 {
        match self {
            Channel::Stdout => 0,
            Channel::Stderr => 1,
        }
    }

    /// As users write it.
    pub fn word(self) -> &'static str {
        match self {
            Channel::Stdout => "stdout",
            Channel::Stderr => "stderr",
        }
    }
}
