//! Jobs with budgets, from the submit to the end.

use crate::cluster::Cluster;

#[test]
fn a_job_stops_when_its_budget_is_spent_and_goes_on_with_more() {
    let mut cluster = Cluster::server();
    cluster.worker("--cpus 1 --detect-resources none");
    // A third of a second of the node.
    cluster.ok("submit --budget 0.0001 --array 1-3 -- sleep 0.5");
    let error = cluster.fails(1, "job wait 1");
    let why = "its budget of 0.0001 node hours is spent: its tasks used";
    assert!(error.contains("Job 1 is stalled") && error.contains(why), "{error}");
    let info = &cluster.json("job info 1")[0];
    assert!(info["budget"]["used_node_hours"].as_f64() >= info["budget"]["node_hours"].as_f64(), "{info}");
    assert_eq!(info["info"]["task_stats"]["finished"], 1, "{info}");
    assert!(info["info"]["stalled"].as_str().is_some_and(|stalled| stalled.contains(why)), "{info}");
    assert!(cluster.ok("job info 1").contains(" used "), "a row");
    assert!(cluster.ok("job list").contains(why));
    let explained = cluster.ok("job explain 1");
    assert!(explained.contains("2 tasks (2-3):\n- its budget of 0.0001 node hours is spent"), "{explained}");
    assert_eq!(cluster.says("job budget 1 none"), "Job 1 may use any number of node hours\n");
    assert_eq!(cluster.says("job budget 1 none"), "The budget is already set to that; nothing was changed\n");
    cluster.ok("job wait 1");
    let ended = cluster.fails(1, "job budget 1 3");
    assert!(
        ended.contains("Job 1 has ended: there is nothing left in it that could use a budget"),
        "{ended}"
    );
    cluster.ok("journal flush");
    let parts = &cluster.json("journal utilization")["cpus"]["parts"];
    assert!(parts["over_budget"].as_f64() > Some(0.0), "{parts}");
    cluster.ok("submit --wait -- true");
    let refused = cluster.fails(1, "job budget last 3");
    assert!(refused.contains("Job 2 was submitted without --budget"), "{refused}");
    let costs = cluster.ok("job efficiency --cost 2");
    assert!(
        costs.contains("Node hours") && costs.contains("node hours were used, which cost 0.00"),
        "{costs}"
    );
    crate::events::keep_their_schema(&cluster);
}
