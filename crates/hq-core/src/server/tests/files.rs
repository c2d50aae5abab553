//! Tasks that wait for files: the shell is told which to look for, and says when they are there.

use hq_model::dependency::{After, Dependencies};

use super::*;

impl World {
    fn after_files(&mut self, files: &[&str], after: &[&str]) -> JobId {
        let after: Vec<After> = after.iter().map(|text| text.parse().expect("a dependency")).collect();
        let files = files.iter().map(|file| file.as_bytes().to_vec()).collect();
        let submit = super::keys::named(&["waits"], |submit| {
            submit.target = Target::New(JobSpec::default());
            submit.dependencies = Dependencies { after, files, ..Dependencies::default() }.into();
        });
        self.submits(submit)
    }

    fn found(&mut self, files: &[&str]) {
        let paths = files.iter().map(|file| file.as_bytes().to_vec()).collect();
        self.step(Input::FilesFound { paths });
    }

    fn looked_for(&self) -> Vec<String> {
        let files = self.server.readiness.watched().iter();
        files.map(|file| String::from_utf8_lossy(file).into_owned()).collect()
    }
}

#[test]
fn tasks_start_when_all_their_files_are_there() {
    let mut world = World::new();
    world.worker(1, 4);
    world.after_files(&["/b", "/a"], &[]);
    world.after_files(&["/b"], &[]);
    assert_eq!(world.looked_for(), ["/a", "/b"]);
    world.found(&["/b", "/nobody/asked"]);
    assert_eq!((world.sent(1), world.looked_for()), ("2:0/0".into(), vec!["/a".to_owned()]));
    world.found(&["/a"]);
    assert_eq!((world.sent(1), world.looked_for()), ("1:0/0".into(), vec![]));
}

#[test]
fn files_and_tasks_are_waited_for_together() {
    let mut world = World::new();
    world.worker(1, 4);
    world.submit(1, |_| {});
    world.sent(1);
    let job = world.after_files(&["/a"], &["1"]);
    world.found(&["/a"]);
    assert_eq!(world.sent(1), "", "the job goes on");
    world.reports(1, |report| report.finished.push(finished(JobId(1), 0, 0, 0)));
    assert_eq!(world.sent(1), "2:0/0");
    let job = { world.after_files(&["/c"], &[&job.to_string()]) };
    world.ask(ClientRequest::Cancel { jobs: Selector::All, tasks: None, reason: None });
    assert_eq!(world.states(job), "canceled: 1 canceled");
    assert_eq!(world.looked_for(), Vec::<String>::new(), "nobody waits for it any more");
}

#[test]
fn what_is_canceled_together_with_the_finding_of_its_file_is_not_handed_out() {
    for forgotten in [false, true] {
        let mut world = World::new();
        world.worker(10, 1);
        let job = world.after_files(&["/a"], &[]);
        let mut effects = Vec::new();
        world.server.handle(world.now, Input::FilesFound { paths: vec![b"/a".to_vec()] }, &mut effects);
        let cancel = ClientRequest::Cancel { jobs: Selector::All, tasks: None, reason: None };
        world.server.handle(
            world.now,
            Input::Client { connection: CLIENT, request: 1, body: cancel },
            &mut effects,
        );
        if forgotten {
            let body = ClientRequest::ForgetJobs { jobs: Selector::All, states: Vec::new() };
            world.server.handle(
                world.now,
                Input::Client { connection: CLIENT, request: 2, body },
                &mut effects,
            );
        }
        world.server.settle(world.now, &mut effects);
        world.take(effects);
        assert!(world.server.state().jobs.get(&job).is_none_or(|job| job.leased.is_empty()));
        assert!(world.to_workers.iter().all(|(_, message)| !matches!(message, ToWorker::Run(_))));
    }
}
