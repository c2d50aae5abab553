//! Tags: who takes tasks says what it can do, and is given no task that needs more.

use super::*;

impl Table {
    pub(super) fn take_as(
        &mut self,
        number: u64,
        label: &str,
        branch: Branch,
        count: u32,
    ) -> (Vec<Given>, BagState) {
        let session = self.session(number, label);
        self.last_ask += 1;
        let ask = AskId(self.last_ask);
        let mut effects = Vec::new();
        let relay = self.relays.get_mut(&number).expect("there");
        relay.ask(self.world.now, ask, session, (vec![branch], count), Duration::ZERO, &mut effects);
        self.carry_out(number, effects);
        self.pump();
        self.given.remove(&ask).expect("an answer")
    }

    fn tagged(&mut self, bag: JobId, names: &[&str], needs: &[&str]) -> ClientResponse {
        self.create_as(bag, names, &[], |spec| spec.requests = vec![Request::pulled(bag, needs)])
    }

    fn take_with(&mut self, label: &str, bag: JobId, tags: &[&str], count: u32) -> String {
        let tags: Vec<String> = tags.iter().map(|tag| (*tag).to_owned()).collect();
        let tags = self.relays.get_mut(&1).expect("there").tags(&tags).expect("few");
        let (tasks, state) = self.take_as(1, label, Branch { bag, tags }, count);
        let names: Vec<_> = tasks.iter().map(|given| String::from_utf8_lossy(&given.name)).collect();
        if names.is_empty() { format!("{state:?}") } else { names.join(" ") }
    }

    fn why(&mut self, bag: JobId, task: u32) -> String {
        let jobs = Selector::Ids(IdSet::single(TaskId(bag.0)));
        let request = ClientRequest::ExplainTask { jobs, task: TaskId(task) };
        let ClientResponse::Explained(explained) = self.world.ask(request) else { panic!("explained") };
        explained.reasons.iter().map(|reason| reason.text.as_str()).collect()
    }
}

#[test]
fn a_task_is_given_to_those_alone_who_have_all_of_its_tags() {
    let mut table = Table::new(1);
    let bag = table.open("dock");
    table.tagged(bag, &["both"], &["big", "gpu"]);
    table.tagged(bag, &["gpu-1", "gpu-2"], &["gpu"]);
    table.create(bag, &["plain"], &[]);
    assert_eq!(table.take_with("none", bag, &[], 9), "plain");
    assert_eq!(table.take_with("none", bag, &[], 9), "Wait");
    assert!(table.why(bag, 0).contains("it waits for somebody with the tags big, gpu, and nobody"));
    assert_eq!(table.take_with("gpu", bag, &["gpu"], 1), "gpu-1");
    assert_eq!(table.take_with("other", bag, &["big"], 9), "Wait");
    let with_gpu =
        "it waits until somebody with the tag gpu takes it, as `hq pull steal --bag 1 --tag gpu` does";
    assert_eq!(table.why(bag, 2), with_gpu);
    assert_eq!(table.take_with("all", bag, &["big", "gpu", "more"], 9), "both gpu-2");
    assert_eq!(table.finish(1, "gpu", "gpu-1"), Ok(()));
    assert_eq!(table.finish(1, "none", "plain"), Ok(()));
    assert_eq!(table.finish(1, "all", "both"), Ok(()));
    assert_eq!(table.world.states(bag), "running: 1 running, 3 finished");
    // What is given back goes to whoever may have it.
    assert_eq!(table.end(1, "all", &named("gpu-2"), How::Released), Ok(()));
    assert_eq!(table.take_with("none", bag, &[], 9), "Wait");
    assert_eq!(table.take_with("gpu", bag, &["gpu"], 9), "gpu-2");
    assert_eq!(table.finish(1, "gpu", "gpu-2"), Ok(()));
    assert_eq!(table.world.states(bag), "opened: 4 finished");
}

#[test]
fn a_branch_that_is_lost_takes_nothing_of_the_others_with_it() {
    let mut table = Table::new(1);
    let bag = table.open("dock");
    table.tagged(bag, &["g"], &["gpu"]);
    table.create(bag, &["p"], &[]);
    assert_eq!(table.take_with("none", bag, &[], 9), "p");
    assert_eq!(table.take_with("gpu", bag, &["gpu"], 9), "g");
    let relay = table.relays.get_mut(&1).expect("there");
    let tags = relay.tags(&["gpu".to_owned()]).expect("few");
    let stop = worker::Input::Server(ToWorker::Stop { drain: false });
    let mut effects = Vec::new();
    relay.hear(table.world.now, Branch { bag, tags }, stop, &mut effects);
    table.carry_out(1, effects);
    table.pump();
    assert!(table.finish(1, "gpu", "g").is_err(), "it was given up");
    assert_eq!(table.finish(1, "none", "p"), Ok(()));
}

#[test]
fn tags_are_checked_and_go_with_what_is_submitted_again() {
    let mut table = Table::new(1);
    let bag = table.open("dock");
    let answer = table.tagged(bag, &["bad"], &["a b"]);
    assert!(matches!(answer, ClientResponse::Error(RequestError::Invalid(_))), "{answer:?}");
    let twice = table.tagged(bag, &["bad"], &["gpu", "big"]);
    assert!(matches!(twice, ClientResponse::Error(RequestError::Invalid(_))), "not in order: {twice:?}");
}
