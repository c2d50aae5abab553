//! The mark of tasks that make files for `hq make`: in which directory it remembers them, and with which of its submits
//! they came. Tasks that run again carry it, too.

use crate::ByteString;

/// The variable of tasks that has it.
pub const VARIABLE: &[u8] = b"HQ_MAKE_JOB";

/// The mark among the variables of a task, if it has one.
pub fn mark_among(env: &[(ByteString, ByteString)]) -> Option<&[u8]> {
    env.iter().find(|(name, _)| name == VARIABLE).map(|(_, mark)| &mark[..])
}

/// The part of a mark that is the same for all submits of a directory.
pub fn directory_of(mark: &[u8]) -> &[u8] {
    mark.split(|byte| *byte == b'-').next().unwrap_or(mark)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_begins_with_its_directory() {
        let env = [(b"A".to_vec(), b"b".to_vec()), (VARIABLE.to_vec(), b"d1-s2".to_vec())];
        assert_eq!(mark_among(&env).map(directory_of), Some(&b"d1"[..]));
        assert_eq!((mark_among(&env[..1]), directory_of(b"d1")), (None, &b"d1"[..]));
    }
}
