//! At which seed each planted bug is found.
#![allow(clippy::print_stdout)]
use hq_sim::{Canary, Options, run};

fn main() {
    for canary in Canary::ALL {
        let found = (0..5000)
            .find(|seed| run(Options { seed: *seed, canary: Some(canary), ..Options::default() }).is_err());
        println!("{canary:?}: {found:?}");
    }
}
