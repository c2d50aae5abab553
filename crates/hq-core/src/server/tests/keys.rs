//! Named tasks: made once, found by their keys, refused where they differ.

use hq_model::Body;
use hq_model::dependency::{After, Dependencies, Mapping};

use super::*;
use crate::client_messages::RequestError;

type Made = Result<(String, Vec<(u32, u32)>), RequestError>;

impl World {
    pub(super) fn open(&mut self) -> JobId {
        self.key += 1;
        let spec = JobSpec { name: "open".into(), ..JobSpec::default() };
        match self.ask(ClientRequest::OpenJob { key: self.key, spec }) {
            ClientResponse::Submitted { job, .. } => job,
            other => panic!("{other:?}"),
        }
    }

    // The ids of the new tasks, and the places and ids of those that were there.
    fn named(&mut self, keys: &[&str], change: impl FnOnce(&mut Submit)) -> Made {
        answered(self.answer_to(named(keys, change)))
    }

    // The same, by a request of several submits.
    fn in_block(&mut self, keys: &[&str], change: impl FnOnce(&mut Submit)) -> Made {
        self.key += 1;
        let request = ClientRequest::SubmitAll { key: self.key, submits: vec![named(keys, change)] };
        answered(self.ask(request))
    }
}

pub(super) fn named(keys: &[&str], change: impl FnOnce(&mut Submit)) -> Submit {
    let spec = one_cpu();
    let mut submit = Submit {
        keys: Entries::new(keys.iter().map(|key| key.as_bytes())).expect("short"),
        ..Submit::new(Target::Open(JobId(1)), TaskIds::Next(keys.len() as u32), spec)
    };
    change(&mut submit);
    submit
}

fn answered(answer: ClientResponse) -> Made {
    match answer {
        ClientResponse::Submitted { ids, existing, .. } => {
            Ok((ids.to_string(), existing.into_iter().map(|(place, task)| (place, task.0)).collect()))
        }
        ClientResponse::Error(error) => Err(error),
        other => panic!("{other:?}"),
    }
}

fn refused(made: Made) -> String {
    made.expect_err("refused").to_string()
}

#[test]
fn a_named_task_is_made_once() {
    let mut world = World::new();
    world.open();
    assert_eq!(world.named(&["a", "b"], |_| {}), Ok(("0-1".into(), vec![])));
    assert_eq!(world.named(&["b"], |_| {}), Ok((String::new(), vec![(0, 1)])), "the same one");
    assert_eq!(world.named(&["c", "a", "d"], |_| {}), Ok(("2-3".into(), vec![(1, 0)])), "what is missing");
    let job = &world.server.state().jobs[&JobId(1)];
    let key = |task| job.key_of(TaskId(task)).map(String::from_utf8_lossy).map(Into::into);
    assert_eq!([key(0), key(2), key(3)], ["a", "c", "d"].map(|key: &str| Some(key.to_owned())));
    assert_eq!(job.task_of_key(b"d"), Some(TaskId(3)));
    assert_eq!(job.task_of_key(b"e"), None);
}

#[test]
fn a_key_stays_with_its_definition() {
    let mut world = World::new();
    world.open();
    let entries = |texts: &[&str]| Entries::new(texts.iter().map(|text| text.as_bytes())).expect("short");
    world.named(&["a", "b"], |submit| submit.entries = entries(&["x", "y"])).expect("made");
    let same = world.named(&["b"], |submit| submit.entries = entries(&["y"]));
    assert_eq!(same, Ok((String::new(), vec![(0, 1)])));
    let other = |change: &dyn Fn(&mut Submit)| {
        let mut world = World::new();
        world.open();
        world.named(&["a"], |_| {}).expect("made");
        refused(world.named(&["a"], |submit| change(submit)))
    };
    let of = |what| {
        format!(
            "The key `a` names task 0 of job 1 already, which has another {what}. Give this task a key of its own."
        )
    };
    let spec = |change: fn(&mut TaskSpec)| move |submit: &mut Submit| change(Arc::make_mut(&mut submit.spec));
    assert_eq!(other(&spec(|spec| spec.body = Body::program(["true", "-v"]))), of("command"));
    assert_eq!(other(&spec(|spec| spec.env.push((b"A".to_vec(), b"1".to_vec())))), of("environment"));
    assert_eq!(other(&spec(|spec| spec.requests = vec![cpus(2)])), of("resource request"));
    assert_eq!(other(&spec(|spec| spec.priority = 3)), of("definition"));
    assert_eq!(other(&|submit| submit.entries = entries(&["x"])), of("entry"));
    assert_eq!(other(&|submit| submit.submit_dir = b"/tmp".to_vec()), of("directory"));
    assert_eq!(other(&|submit| submit.ids = TaskIds::Given(IdSet::single(TaskId(7)))), of("id"));
}

#[test]
fn bad_keys_are_refused() {
    let mut world = World::new();
    world.open();
    let two = refused(world.named(&["a", "b", "a"], |_| {}));
    assert_eq!(two, "The key `a` is given to two tasks.");
    let digit = refused(world.named(&["7"], |_| {}));
    assert!(digit.starts_with("Invalid key: the key `7` begins with a digit"), "{digit}");
    let few = refused(world.named(&["a"], |submit| submit.ids = TaskIds::Next(2)));
    assert_eq!(few, "1 key was given for 2 tasks.");
    assert!(world.server.state().jobs[&JobId(1)].ids.is_empty());
}

#[test]
fn tasks_wait_for_named_tasks() {
    let mut world = World::new();
    world.open();
    world.named(&["a"], |_| {}).expect("made");
    let after = |texts: &'static [&'static str]| {
        move |submit: &mut Submit| {
            let after = texts.iter().map(|text| text.parse().expect("a dependency")).collect();
            submit.dependencies = Arc::new(Dependencies { after, ..Dependencies::default() });
        }
    };
    world.named(&["b"], after(&["1@a"])).expect("made");
    assert_eq!(world.named(&["b"], after(&["1@a"])), Ok((String::new(), vec![(0, 1)])));
    assert_eq!(world.named(&["b"], after(&["1@0"])), Ok((String::new(), vec![(0, 1)])), "the same task");
    let other = refused(world.named(&["b"], |_| {}));
    assert!(other.contains("another list of dependencies"), "{other}");
    let unknown = refused(world.named(&["c"], after(&["1@x"])));
    assert_eq!(unknown, "No task of job 1 has the key `x`.");
    world.worker(1, 8);
    assert_eq!(world.sent(1), "1:0/0");
    world.reports(1, |report| report.finished.push(finished(JobId(1), 0, 0, 0)));
    assert_eq!(world.sent(1), "1:1/0");
}

#[test]
fn those_that_are_missing_wait_for_their_own() {
    let mut world = World::new();
    world.open();
    world.submit(3, |_| {});
    let each = |ids: &'static str| {
        move |submit: &mut Submit| {
            let after: After = format!("2@{ids}").parse().expect("a dependency");
            let after = vec![After { mapping: Mapping::Window(0), ..after }];
            submit.dependencies = Arc::new(Dependencies { after, ..Dependencies::default() });
        }
    };
    world.named(&["b"], each("1")).expect("made");
    assert_eq!(world.named(&["a", "b", "c"], each("0-2")), Ok(("1-2".into(), vec![(1, 0)])));
    world.worker(1, 8);
    assert_eq!(world.sent(1), "2:0-2/0");
    world.reports(1, |report| report.finished.push(finished(JobId(2), 2, 2, 0)));
    assert_eq!(world.sent(1), "1:2/0", "`c` after the third element");
}

#[test]
fn many_submits_come_in_one_request() {
    let mut world = World::new();
    world.open();
    let request = |keys: &[&str]| {
        let submit = |key: &&str| {
            named(&[*key], |submit| Arc::make_mut(&mut submit.spec).body = Body::program(["true", key]))
        };
        keys.iter().map(submit).collect::<Vec<_>>()
    };
    let ask =
        |world: &mut World, key, submits| answered(world.ask(ClientRequest::SubmitAll { key, submits }));
    let first = Ok(("0-2".to_owned(), vec![]));
    assert_eq!(ask(&mut world, 100, request(&["a", "b", "c"])), first);
    assert_eq!(ask(&mut world, 100, request(&["a", "b", "c"])), first, "repeated");
    let more = Ok(("3-4".to_owned(), vec![(1, 1)]));
    assert_eq!(ask(&mut world, 200, request(&["d", "b", "e"])), more);
    assert_eq!(ask(&mut world, 200, request(&["d", "b", "e"])), more, "repeated");
    let too_many = refused(ask(&mut world, 300, vec![named(&["x"], |_| {}); 1001]));
    assert_eq!(too_many, "A request holds 1 to 1000 submits, and not 1001.");
    let mut elsewhere = request(&["x", "y"]);
    elsewhere[1].target = Target::New(JobSpec::default());
    let elsewhere = refused(ask(&mut world, 400, elsewhere));
    assert_eq!(elsewhere, "Submits of one request go to one job.");
}

#[test]
fn a_block_of_submits_is_done_as_a_whole_or_not_at_all() {
    let mut world = World::new();
    world.open();
    let good = |count| Submit::new(Target::Open(JobId(1)), TaskIds::Next(count), one_cpu());
    let given = |first, last| {
        Submit::new(Target::Open(JobId(1)), TaskIds::Given(IdSet::range(first, last)), one_cpu())
    };
    let waits = |task: u32| Submit {
        dependencies: Dependencies {
            after: vec![After { tasks: Some(IdSet::range(task, task)), ..After::of(JobId(1)) }],
            ..Dependencies::default()
        }
        .into(),
        ..good(1)
    };
    let before = world.server.state().clone();
    let bad: [(Vec<Submit>, &str); 5] = [
        (vec![good(2), given(1, 3)], "Task 1 already exists in job 1."),
        (vec![good(2), waits(7)], "Task 7 not found in job 1."),
        (vec![given(4, 5), given(7, 9), good(2), given(9, 9)], "Task 9 already exists in job 1."),
        (
            vec![named(&["a"], |_| {}), good(1), named(&["a"], |s| s.submit_dir = b"/other".to_vec())],
            "directory",
        ),
        (
            vec![good(1), Submit { target: Target::Open(JobId(2)), ..good(1) }],
            "Submits of one request go to one job.",
        ),
    ];
    for (submits, why) in bad {
        match world.ask(ClientRequest::SubmitAll { key: 0, submits }) {
            ClientResponse::Error(error) => assert!(error.to_string().contains(why), "{error}"),
            other => panic!("{other:?}"),
        }
        assert_eq!(world.server.state(), &before, "{why}");
    }
    // What comes later may wait for what came before in the same block.
    let submits = vec![good(2), waits(1), named(&["a"], |_| {}), named(&["a"], |_| {})];
    let request = ClientRequest::SubmitAll { key: 5, submits };
    let mut effects = Vec::new();
    let input = Input::Client { connection: CLIENT, request: 1, body: request };
    world.server.handle(world.now, input, &mut effects);
    let records: Vec<&crate::record::Record> = effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::Persist { record, .. } => Some(record),
            _ => None,
        })
        .collect();
    assert_eq!(records.len(), 1, "one record, so that a crash keeps all or none: {records:?}");
    world.take(effects);
    assert_eq!(world.states(JobId(1)), "waiting: 4 waiting");
}

#[test]
fn blocks_without_a_key_have_nothing_to_do_with_each_other() {
    let mut world = World::new();
    world.open();
    let block = || {
        let submit = || Submit::new(Target::Open(JobId(1)), TaskIds::Next(1), one_cpu());
        ClientRequest::SubmitAll { key: 0, submits: vec![submit(), submit(), submit()] }
    };
    let answers = [world.ask(block()), world.ask(block())].map(|answer| match answer {
        ClientResponse::Submitted { ids, .. } => ids.to_string(),
        other => panic!("{other:?}"),
    });
    assert_eq!(answers, ["0-2", "3-5"]);
    // Nor are the keys that follow one taken.
    let submit = || Submit::new(Target::Open(JobId(1)), TaskIds::Next(1), one_cpu());
    for (key, submits, ids) in
        [(7, vec![submit(), submit()], "6-7"), (8, vec![submit()], "8"), (7, vec![submit(), submit()], "6-7")]
    {
        match world.ask(ClientRequest::SubmitAll { key, submits }) {
            ClientResponse::Submitted { ids: given, .. } => assert_eq!(given.to_string(), ids),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn named_tasks_of_a_closed_job_are_still_found() {
    let mut world = World::new();
    let job = world.open();
    assert_eq!(world.in_block(&["a", "b"], |_| {}), Ok(("0-1".into(), vec![])));
    let jobs = Selector::Ids(IdSet::single(TaskId(job.0)));
    world.ask(ClientRequest::CloseJobs { jobs });
    assert_eq!(world.in_block(&["b"], |_| {}), Ok((String::new(), vec![(0, 1)])));
    let other = refused(world.in_block(&["b"], |submit| submit.submit_dir = b"/elsewhere".to_vec()));
    assert!(other.starts_with("The key `b` names task 1 of job 1 already"), "{other}");
    assert_eq!(refused(world.in_block(&["b", "c"], |_| {})), "Job 1 is not open.");
    assert_eq!(refused(world.in_block(&[], |submit| submit.ids = TaskIds::Next(1))), "Job 1 is not open.");
}
