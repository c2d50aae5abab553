//! Nodes on which something is wrong: a launcher that was killed, directories that vanished, no way to start tasks.

use std::fs;
use std::time::Duration;

use hq_core::worker_messages::{FromWorker, WorkerEnd};
use hq_model::IdSet;

use crate::{Seen, Server, block_on, spec};

pub(crate) fn a_worker_without_its_launcher_leaves_at_once_and_leaves_nothing(_: &mut ()) {
    block_on(async {
        let server = Server::start("process");
        let dir = server.dir.path().to_owned();
        let (mut connection, _) = server.welcome().await;
        let script = "setsid sleep 1000 & echo $! >pid; kill -9 $PPID; sleep 1000";
        connection.run(spec(&["sh", "-c", script]), &dir, IdSet::range(1, 1), &[]).await;
        let mut started = 0;
        let end = loop {
            match connection.next().await {
                Some(FromWorker::Report(report)) => started += report.started.len(),
                Some(FromWorker::Leaving { end }) => break end,
                Some(_) => {}
                None => panic!("the worker is gone without a word"),
            }
        };
        assert_eq!((end, started), (WorkerEnd::LauncherLost, 1));
        let pid = fs::read_to_string(dir.join("pid")).expect("written before");
        let left = fs::read_to_string(format!("/proc/{}/cmdline", pid.trim())).unwrap_or_default();
        assert_eq!(left, "", "what the task left was killed before the server hears of it");
        drop(connection);
        let text = server.ended();
        assert!(text.starts_with("the launcher process has died, together with task 3@1:"), "{text}");
    });
}

pub(crate) fn a_launcher_that_a_task_stops_goes_on(_: &mut ()) {
    block_on(async {
        let server = Server::start("process");
        let dir = server.dir.path().to_owned();
        let (mut connection, _) = server.welcome().await;
        let mut seen = Seen::default();
        let mut stops = spec(&["sh", "-c", "kill -STOP $PPID; exec sleep 1000"]);
        stops.time_limit = Some(Duration::from_millis(200));
        connection.run(stops, &dir, IdSet::range(1, 1), &[]).await;
        connection.until_ended(&mut seen, 1).await;
        assert_eq!(seen.failed.len(), 1, "its time limit ends it: {:?}", seen.failed);
        connection.stop().await;
        assert_eq!(server.ended(), "Stopped");
    });
}

pub(crate) fn a_directory_that_was_removed_comes_back(_: &mut ()) {
    block_on(async {
        let server = Server::start("process");
        let dir = server.dir.path().to_owned();
        let (mut connection, _) = server.welcome().await;
        for own in fs::read_dir(server.work_base()).expect("readable") {
            // The worker may put it back while it is being removed.
            let _ = fs::remove_dir_all(own.expect("readable").path());
        }
        let this = std::env::current_exe().expect("this program");
        let this = this.to_str().expect("UTF-8");
        let script = "test -d $HQ_TASK_DIR && until $0 notify here; do sleep 0.01; done";
        let mut spec = spec(&["sh", "-c", script, this]);
        spec.task_dir = true;
        connection.run(spec, &dir, IdSet::range(1, 4), &[]).await;
        let mut seen = Seen::default();
        connection.until_ended(&mut seen, 4).await;
        assert_eq!(seen.finished.len(), 4, "{:?}", seen.failed);
        assert_eq!(seen.words, [b"here"; 4]);
        connection.stop().await;
        assert_eq!(server.ended(), "Stopped");
    });
}

pub(crate) fn a_node_that_cannot_start_tasks_gives_them_back(_: &mut ()) {
    block_on(async {
        let server = Server::start("process");
        let dir = server.dir.path().to_owned();
        let (mut connection, _) = server.welcome().await;
        let own = fs::read_dir(server.work_base()).expect("readable").next().expect("a directory");
        let own = own.expect("readable").path();
        // The worker may put it back meanwhile.
        while fs::write(&own, "in its place").is_err() {
            let _ = fs::remove_dir_all(&own);
        }
        let mut spec = spec(&["true"]);
        spec.task_dir = true;
        let (mut returned, mut trouble) = (IdSet::new(), None);
        connection.run(spec.clone(), &dir, IdSet::range(1, 8), &[]).await;
        while returned.len() < 8 || trouble.is_none() {
            if let FromWorker::Report(report) = connection.next().await.expect("it stays") {
                report.returned.iter().for_each(|(_, ids)| returned.union_with(ids));
                assert_eq!((report.failed.len(), report.finished.len(), report.interrupted.len()), (0, 0, 0));
                trouble = report.trouble;
            }
        }
        let reason = trouble.take().expect("it says why");
        assert!(reason.contains("task directory") && reason.contains("is not a directory"), "{reason}");
        fs::remove_file(&own).expect("there");
        loop {
            if let FromWorker::Report(report) = connection.next().await.expect("it stays")
                && report.trouble.is_none()
            {
                break;
            }
        }
        connection.run(spec, &dir, IdSet::range(1, 8), &[]).await;
        let mut seen = Seen::default();
        connection.until_ended(&mut seen, 8).await;
        assert_eq!(seen.finished.len(), 8, "{:?}", seen.failed);
        connection.stop().await;
        assert_eq!(server.ended(), "Stopped");
    });
}
