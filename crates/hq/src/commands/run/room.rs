//! Whether this machine has what each task asks for.

use hq_model::request::GPUS;
use hq_model::{Amount, AmountRequest, Request, WorkerResources, similar};

use crate::error::HqError;

/// Refuses a job that can never start here: it would be waited for without end.
pub(super) fn check_fits(offered: &WorkerResources, requests: &[Request]) -> Result<(), HqError> {
    let mut reason = None;
    for request in requests {
        match request.resources.iter().find_map(|r| missing(offered, &r.name, &r.amount)) {
            Some(text) => reason = Some(text),
            None => return Ok(()),
        }
    }
    match reason {
        Some(text) => Err(HqError::failed("no-room", text)
            .hint("ask for less, or submit to a server with workers that have it")),
        None => Ok(()),
    }
}

fn missing(offered: &WorkerResources, name: &str, amount: &AmountRequest) -> Option<String> {
    let of_any_vendor =
        |pool: &str| name == GPUS && pool.strip_prefix(GPUS).is_some_and(|rest| rest.starts_with('/'));
    let most = offered
        .pools
        .iter()
        .filter(|pool| pool.name == name || of_any_vendor(&pool.name))
        .map(|pool| pool.kind.total())
        .max()
        .unwrap_or(Amount::ZERO);
    let fits = match amount {
        AmountRequest::All => most > Amount::ZERO,
        AmountRequest::Some(amount, _) => *amount <= most,
    };
    let asked = match amount {
        AmountRequest::All => "all".to_owned(),
        AmountRequest::Some(amount, _) => amount.to_string(),
    };
    let meant = if most == Amount::ZERO {
        similar::hint(name, *amount, offered.pools.iter().map(|pool| pool.name.as_str()))
    } else {
        None
    };
    let meant = meant.map_or_else(String::new, |meant| format!(" ({meant})"));
    (!fits).then(|| format!("This machine has {most} of {name}{meant}, and each task asks for {asked}"))
}

#[cfg(test)]
mod tests {
    use hq_model::{Policy, resources::parse_pool};

    use super::*;

    #[test]
    fn what_cannot_fit_is_said() {
        let pools = [("cpus", "2x2"), ("mem", "sum(1000)"), ("gpus/nvidia", "[0]")];
        let pools = pools.map(|(name, text)| parse_pool(name, text).expect("a pool"));
        let offered = WorkerResources::new(pools.into(), Vec::new()).expect("resources");
        let ask = |name: &str, wholes: u64| {
            missing(&offered, name, &AmountRequest::Some(Amount::whole(wholes), Policy::Compact))
        };
        assert_eq!(ask("cpus", 4), None);
        assert_eq!(ask("gpus", 1), None);
        assert_eq!(ask("cpus", 5).as_deref(), Some("This machine has 4 of cpus, and each task asks for 5"));
        assert_eq!(
            ask("gpu", 1).as_deref(),
            Some("This machine has 0 of gpu (did you mean `gpus`?), and each task asks for 1")
        );
        assert_eq!(
            ask("nodes", 3).as_deref(),
            Some("This machine has 0 of nodes (did you mean `--nodes 3`?), and each task asks for 3")
        );
        assert!(ask("gpus", 2).is_some() && ask("x", 1).is_some());
        assert!(missing(&offered, "mem", &AmountRequest::All).is_none());
    }
}
