//! Why nothing can be said of a task: who speaks to the relay of a task that nobody has may have slipped in its name.

use hq_model::key::is_task_id;
use serde_json::{Value, json};

use super::Line;

/// Most bags that are looked at for names.
const LOOKED_AT_MAX: usize = 8;
/// The code of what a session has not.
const NOT_HELD: &str = "not-held";

/// What is known of names beyond what the relay said of them.
pub(super) struct Known {
    // Each bag, with its name, and its tasks of these names.
    bags: Vec<(u64, String, Vec<Value>)>,
}

impl Known {
    /// Looks for the tasks that the relay says nobody has: in the bag, if one was named, else in those that are used on this
    /// node. What cannot be known is left out.
    pub(super) fn of(line: &mut Line, bag: Option<&Value>, done: &[Value], tasks: &[String]) -> Known {
        let refused = done.iter().zip(tasks).filter(|(item, _)| item["error"] == NOT_HELD);
        let names: Vec<&String> =
            refused.map(|(_, task)| task).filter(|task| !is_task_id(task.as_bytes())).collect();
        if names.is_empty() {
            return Known { bags: Vec::new() };
        }
        let bags: Vec<&Value> = bag.into_iter().collect();
        let status = line.ask(&json!({"status": {"bags": bags}})).unwrap_or_default();
        let there = status["status"]["bags"].as_array().map(Vec::as_slice).unwrap_or_default();
        if there.len() > LOOKED_AT_MAX {
            return Known { bags: Vec::new() };
        }
        let mut found = Vec::new();
        for bag in there {
            let looked = line.ask(&json!({"look": {"bag": bag["bag"], "names": names}}));
            let Ok(looked) = looked else { return Known { bags: Vec::new() } };
            let tasks = looked["looked"]["tasks"].as_array().cloned().unwrap_or_default();
            let name = bag["name"].as_str().unwrap_or_default();
            found.push((bag["bag"].as_u64().unwrap_or_default(), name.to_owned(), tasks));
        }
        Known { bags: found }
    }

    /// What is told of an item that was refused.
    pub(super) fn text(&self, task: &str, item: &Value) -> String {
        let error = item["error"].as_str().unwrap_or_default();
        let said = item["message"].as_str().unwrap_or("it is refused");
        if error != NOT_HELD || self.bags.is_empty() || is_task_id(task.as_bytes()) {
            return format!("{task}: {said} ({error})");
        }
        let named = |(bag, name, _): &(u64, String, Vec<Value>)| format!("{bag} (`{name}`)");
        let found = |(_, _, tasks): &(u64, String, Vec<Value>)| {
            let found = tasks.iter().find(|seen| seen["name"] == task && seen["error"].is_null());
            found.and_then(|seen| seen["state"].as_str().map(str::to_owned))
        };
        let states: Vec<String> = (self.bags.iter())
            .filter_map(|bag| Some(format!("{} in bag {}", found(bag)?, named(bag))))
            .collect();
        if states.is_empty() {
            let bags: Vec<String> = self.bags.iter().map(named).collect();
            let (s, bags) = (if bags.len() > 1 { "s" } else { "" }, bags.join(", "));
            return format!(
                "{task}: no task of bag{s} {bags} has this name: `hq pull create` makes one ({error})"
            );
        }
        format!("{task}: it is {}; {said} ({error})", states.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(bags: &[(u64, &str, Value)], item: &Value) -> String {
        let bags = bags.iter().map(|(bag, name, task)| (*bag, (*name).to_owned(), vec![task.clone()]));
        Known { bags: bags.collect() }.text("a", item)
    }

    #[test]
    fn a_name_that_no_task_has_is_told_apart_from_a_task_that_is_not_taken() {
        let item = json!({"error": "not-held", "message": "nobody has it"});
        let none = json!({"name": "a", "error": "unknown-name"});
        let one = json!({"name": "a", "id": "1@0", "state": "waiting"});
        for (bags, text) in [
            (&[][..], "a: nobody has it (not-held)"),
            (
                &[(1, "dock", none.clone())],
                "a: no task of bag 1 (`dock`) has this name: `hq pull create` makes one (not-held)",
            ),
            (
                &[(1, "dock", none.clone()), (2, "pull", none.clone())],
                "a: no task of bags 1 (`dock`), 2 (`pull`) has this name: `hq pull create` makes one (not-held)",
            ),
            (
                &[(1, "dock", none), (2, "pull", one)],
                "a: it is waiting in bag 2 (`pull`); nobody has it (not-held)",
            ),
        ] {
            assert_eq!(told(bags, &item), text);
        }
        let stale = json!({"error": "stale", "message": "another attempt"});
        assert_eq!(told(&[(1, "dock", json!({}))], &stale), "a: another attempt (stale)");
    }
}
