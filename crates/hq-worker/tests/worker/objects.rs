//! Files that tasks leave for others, from one worker to another.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use hq_core::object_messages::{ObjectCopy, ObjectNews, ObjectSource, TaskObjects, Unfetched};
use hq_core::record::FailureKind;
use hq_core::worker_messages::{FromWorker, RunBatch, TaskNode, Template, TemplateId, ToWorker, Welcome};
use hq_model::{Entries, Epoch, IdSet, Instance, JobId, TaskSpec, Timestamp, WorkerId};

use crate::{Connection, Seen, Server, block_on, spec};

pub(crate) fn a_file_goes_from_worker_to_worker(_: &mut ()) {
    block_on(async {
        let server = Server::start("process");
        let dir = server.dir.path().to_owned();
        let (mut one, hello) = server.welcome().await;
        assert!(hello.stores);
        let place = TaskNode {
            worker: WorkerId(1),
            hostname: hello.config.hostname,
            address: hello.config.listen_address,
        };
        let other_base = dir.join("other");
        fs::create_dir(&other_base).expect("writable");
        let mut other = Command::new(std::env::current_exe().expect("this program"))
            .arg("worker")
            .args([server.access_path(), other_base])
            .arg("process")
            .stdout(Stdio::null())
            .spawn()
            .expect("this program runs");
        let (mut two, _) = server.accept().await;
        let welcome = Welcome {
            worker: WorkerId(2),
            epoch: Epoch(1),
            server_uid: "uid123".into(),
            idle_timeout: None,
            hears: true,
        };
        two.say(&ToWorker::Welcome(welcome)).await;

        let (mut seen, mut news) = (Seen::default(), ObjectNews::default());
        let mut leaves = spec(&["sh", "-c", "seq 300000 >left.$HQ_TASK_ID"]);
        leaves.output_objects = vec!["parts=left.%{TASK_ID}".parse().expect("an object")];
        one.run(leaves.clone(), &dir, IdSet::range(1, 1), &[]).await;
        until(&mut one, &mut seen, &mut news, 1).await;
        assert_eq!((seen.finished.len(), news.stored.len()), (1, 1), "{:?}", seen.failed);
        let copy = news.stored[0].clone();
        assert_eq!(copy.object.to_string(), "3@1:parts");

        let (mut seen_there, mut there) = (Seen::default(), ObjectNews::default());
        let takes = spec(&["sh", "-c", "cmp in/$HQ_TASK_ID left.1"]);
        run(&mut two, &takes, &dir, 2, source(&copy, &place)).await;
        until(&mut two, &mut seen_there, &mut there, 1).await;
        assert_eq!(
            (seen_there.finished.len(), &there.stored[..]),
            (1, &[copy.clone()][..]),
            "{seen_there:?}"
        );

        // Without its file a task has failed.
        leaves.body = hq_model::Body::program(["true"]);
        one.run(leaves, &dir, IdSet::range(5, 5), &[]).await;
        until(&mut one, &mut seen, &mut news, 2).await;
        let text =
            format!("Its object parts is missing: there is no {} on worker 1", dir.join("left.5").display());
        assert_eq!(seen.failed, [(5, FailureKind::Output, text)]);

        // Nobody has it any more.
        for connection in [&mut one, &mut two] {
            connection.say(&ToWorker::FreeObjects(vec![copy.object.clone()])).await;
        }
        // What is said to a worker is done in order.
        one.run(spec(&["true"]), &dir, IdSet::range(6, 6), &[]).await;
        until(&mut one, &mut seen, &mut news, 3).await;
        run(&mut two, &takes, &dir, 3, source(&copy, &place)).await;
        while there.unfetched.is_empty() {
            until(&mut two, &mut seen_there, &mut there, 1).await;
            hear(&mut two, &mut seen_there, &mut there).await;
        }
        let Unfetched { object, holders, reason, .. } = &there.unfetched[0];
        assert_eq!((object, &holders[..]), (&copy.object, &[WorkerId(1)][..]));
        assert_eq!(reason, "worker 1: the object store no longer holds it");

        two.stop().await;
        other.wait().expect("our child");
        one.stop().await;
        assert_eq!(server.ended(), "Stopped");
    });
}

fn source(copy: &ObjectCopy, place: &TaskNode) -> ObjectSource {
    ObjectSource { copy: copy.clone(), path: b"in/%{TASK_ID}".to_vec(), holders: vec![place.clone()] }
}

async fn run(
    connection: &mut Connection,
    spec: &TaskSpec,
    dir: &std::path::Path,
    task: u32,
    source: ObjectSource,
) {
    let template = TemplateId { job: JobId(3), submit: 1 };
    let submit_dir = dir.as_os_str().as_bytes().to_vec();
    let content = Template {
        id: template,
        spec: Arc::new(spec.clone()),
        submit_dir,
        submitted: Timestamp(1),
        has_siblings: false,
    };
    let batch = RunBatch {
        template,
        content: Some(content),
        ids: IdSet::range(task, task),
        instance: Instance(0),
        entries: Entries::default(),
        nodes: Vec::new(),
        services: Vec::new(),
        after: None,
        variant: None,
        head_start: Duration::ZERO,
        inputs: Vec::new(),
        objects: vec![TaskObjects { tasks: IdSet::range(task, task), inputs: vec![source] }],
    };
    connection.say(&ToWorker::Run(vec![batch])).await;
}

async fn until(connection: &mut Connection, seen: &mut Seen, news: &mut ObjectNews, count: u64) {
    while seen.ended() < count {
        hear(connection, seen, news).await;
    }
}

async fn hear(connection: &mut Connection, seen: &mut Seen, news: &mut ObjectNews) {
    let Some(FromWorker::Report(mut report)) = connection.next().await else { return };
    connection.say(&ToWorker::Saved { report: report.number }).await;
    if let Some(said) = report.objects.take() {
        news.stored.extend(said.stored);
        news.lost.extend(said.lost);
        news.unfetched.extend(said.unfetched);
    }
    seen.take(report);
}
