//! Which code of functions a runner was told, so that it is told once.

use std::collections::HashMap;
use std::sync::Arc;

use hq_model::TaskSpec;

use crate::limits::RUNNER_CODE_MAX;

/// What one runner was told.
#[derive(Debug, Default)]
pub(super) struct Codes {
    numbers: HashMap<Vec<u8>, u32>,
    bytes: usize,
    told: u32,
    // Mostly a call is of the same submit as the one before.
    last: Option<(Arc<TaskSpec>, u32)>,
}

impl Codes {
    /// The number of the code of such tasks, and whether it is to be told first. A number always means the same code.
    pub(super) fn number_of(&mut self, spec: &Arc<TaskSpec>, code: &[u8]) -> (u32, bool) {
        if let Some((_, number)) = self.last.as_ref().filter(|(last, _)| Arc::ptr_eq(last, spec)) {
            return (*number, false);
        }
        let known = self.numbers.get(code).copied();
        let number = known.unwrap_or_else(|| {
            if self.bytes + code.len() > RUNNER_CODE_MAX {
                self.numbers.clear();
                self.bytes = 0;
            }
            self.told += 1;
            self.bytes += code.len();
            self.numbers.insert(code.to_vec(), self.told);
            self.told
        });
        self.last = Some((spec.clone(), number));
        (number, known.is_none())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_told_once_however_many_submits_have_it() {
        let mut codes = Codes::default();
        let spec = || Arc::new(TaskSpec::default());
        let (first, second) = (spec(), spec());
        assert_eq!(codes.number_of(&first, b"one"), (1, true));
        assert_eq!(codes.number_of(&first, b"one"), (1, false));
        assert_eq!(codes.number_of(&second, b"one"), (1, false));
        assert_eq!(codes.number_of(&spec(), b"two"), (2, true));
        assert_eq!(codes.number_of(&first, b"one"), (1, false));
    }

    #[test]
    fn what_is_known_of_code_is_bounded_and_numbers_are_never_used_again() {
        let mut codes = Codes::default();
        for number in 1..=300_u32 {
            let code = vec![number as u8; 1 << 20];
            let code = [&code[..], &number.to_le_bytes()].concat();
            assert_eq!(codes.number_of(&Arc::default(), &code), (number, true));
            assert!(codes.bytes <= RUNNER_CODE_MAX);
        }
    }
}
