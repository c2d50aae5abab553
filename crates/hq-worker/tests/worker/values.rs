//! Values of calls that stay in the store, from one call to the next.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hq_core::object_messages::{ObjectCopy, ObjectNews, ObjectSource, TaskObjects};
use hq_core::record::FailureKind;
use hq_core::worker_messages::{FromWorker, RunBatch, TaskNode, Template, TemplateId, ToWorker};
use hq_model::body::{EntryKind, Function};
use hq_model::{Body, Entries, IdSet, Instance, JobId, TaskSpec, Timestamp, WorkerId};

use crate::{Connection, Seen, Server, block_on, named_pipe, spec};

const MODULE: &str = "
import os, pickle, resource
def leave(size):
    print('left')
    return {'whole': bytearray(range(256)) * (size // 256), 'apart': pickle.PickleBuffer(bytearray(size))}
def take(value):
    whole, apart = value['whole'], value['apart']
    assert whole == bytearray(range(256)) * (len(whole) // 256) and bytes(apart) == bytes(len(apart))
    apart[0] = 7
    return apart.nbytes
def lazy(first, second):
    assert first.get() is first.get() and first.get()['apart'][0] == 0
    assert second.job == 3 and second.task == 1 and second.nbytes > 1000000
    return first.nbytes
def hang(value):
    open('begun', 'w').close()
    import signal
    signal.pause()
def full():
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
    return bytes(1000000)
def forks():
    return os.fork() and bytes(1000000)
";

/// A worker, and what it has said.
struct Caller {
    server: Server,
    connection: Connection,
    store: PathBuf,
    seen: Seen,
    news: ObjectNews,
    results: Vec<(u32, Vec<u8>)>,
    submits: u32,
}

impl Caller {
    async fn start(executor: &str) -> Caller {
        let server = Server::start(executor);
        fs::write(server.dir.path().join("calls.py"), MODULE).expect("writable");
        let (connection, hello) = server.welcome().await;
        let store = PathBuf::from(hello.config.object_store.expect("a store").dir);
        let (seen, news) = (Seen::default(), ObjectNews::default());
        Caller { server, connection, store, seen, news, results: Vec::new(), submits: 0 }
    }

    /// Calls a function with packed arguments, and with an object among them.
    async fn call(&mut self, task: u32, name: &str, args: &str, copy: Option<&ObjectCopy>) {
        let dir = self.server.dir.path().to_owned();
        self.submits += 1;
        let template = TemplateId { job: JobId(3), submit: self.submits };
        let submit_dir = dir.as_os_str().as_bytes().to_vec();
        let content = Template {
            id: template,
            spec: Arc::new(function(name, &dir)),
            submit_dir,
            submitted: Timestamp(1),
            has_siblings: false,
        };
        let entry = format!("(({args}t}}t.");
        let own = TaskNode { worker: WorkerId(1), hostname: "here".into(), address: String::new() };
        let source = |copy: &ObjectCopy| ObjectSource {
            copy: copy.clone(),
            path: Vec::new(),
            holders: vec![own.clone()],
        };
        let inputs: Vec<ObjectSource> = copy.into_iter().map(source).collect();
        let tasks = IdSet::range(task, task);
        let batch = RunBatch {
            template,
            content: Some(content),
            ids: tasks.clone(),
            instance: Instance(0),
            entries: Entries::new([entry.as_bytes()]).expect("few bytes"),
            nodes: Vec::new(),
            services: Vec::new(),
            after: None,
            variant: None,
            head_start: Duration::ZERO,
            inputs: Vec::new(),
            objects: if inputs.is_empty() { Vec::new() } else { vec![TaskObjects { tasks, inputs }] },
        };
        self.connection.say(&ToWorker::Run(vec![batch])).await;
    }

    async fn hear(&mut self) {
        let Some(message) = self.connection.next().await else { panic!("the worker left") };
        let FromWorker::Report(mut report) = message else { return };
        self.connection.say(&ToWorker::Saved { report: report.number }).await;
        if let Some(said) = report.objects.take() {
            self.news.stored.extend(said.stored);
            self.news.lost.extend(said.lost);
            self.news.unfetched.extend(said.unfetched);
            self.news.refused.extend(said.refused);
        }
        for span in &report.finished {
            let tasks = span.ids.iter().map(|task| task.0);
            self.results.extend(tasks.zip(span.results.iter().map(<[u8]>::to_vec)));
        }
        self.seen.take(report);
    }

    async fn until(&mut self, is_so: impl Fn(&Caller) -> bool) {
        while !is_so(self) {
            self.hear().await;
        }
    }

    /// What a call that ends well leaves.
    async fn result(&mut self, task: u32) -> Vec<u8> {
        let is_there = |caller: &Caller| {
            !caller.seen.failed.is_empty()
                || !caller.news.unfetched.is_empty()
                || caller.seen.finished.contains(hq_model::TaskId(task))
        };
        self.until(is_there).await;
        assert_eq!((&self.seen.failed[..], &self.news.unfetched[..]), (&[][..], &[][..]));
        self.results.iter().find(|(of, _)| *of == task).expect("a result").1.clone()
    }

    fn put_dir(&self) -> PathBuf {
        self.store.join("put")
    }

    async fn stop(mut self) {
        assert_eq!(fs::read_dir(self.put_dir()).expect("there").count(), 0, "nothing is left half written");
        self.connection.stop().await;
        assert_eq!(self.server.ended(), "Stopped");
    }
}

// By name, as pickles of protocol 0 say it.
fn function(name: &str, dir: &Path) -> TaskSpec {
    let pickled = format!("ccalls\n{name}\n.");
    let mut code = format!("(NV\n(lV{}\naC", dir.display()).into_bytes();
    code.push(pickled.len() as u8);
    code.extend(pickled.bytes());
    code.extend(b"t.");
    let interpreter = vec![b"python3".to_vec()];
    let function =
        Function { name: name.into(), code, interpreter, entry: EntryKind::Packed, ..Function::default() };
    TaskSpec { body: Body::Function(function), ..spec(&[]) }
}

fn reference(task: u32) -> String {
    format!("c_hq_runner\nref\n(I3\nI{task}\ntR")
}

fn lazy(task: u32) -> String {
    reference(task).replace("ref", "lazy")
}

pub(crate) fn a_large_value_goes_from_call_to_call(_: &mut ()) {
    block_on(async {
        let mut caller = Caller::start("process").await;
        caller.call(1, "leave", "I1048576\n", None).await;
        let result = caller.result(1).await;
        let copy = caller.news.stored[0].clone();
        assert_eq!((copy.object.to_string().as_str(), copy.instance), ("3@1:value", Instance(0)));
        let path = caller.store.join("v-3-1-0");
        let file = fs::read(&path).expect("where others on this node look for it");
        assert_eq!((&file[..8], file.len() as u64), (&b"HQVALUE1"[..], copy.size));
        assert_eq!(fs::metadata(&path).expect("there").permissions().mode() & 0o777, 0o444);
        // What it printed, and the file; no pickle.
        let object = [&[9, 24, 0][..], &copy.size.to_le_bytes(), &file[8..24]].concat();
        assert!(result.starts_with(b"E\x01\x05\0left\n") && result.ends_with(&object), "{result:?}");
        assert_eq!(u32::from_le_bytes(file[24..28].try_into().expect("four")), 1, "one buffer");

        // What is written to a value is seen by nobody else.
        for task in [2, 3] {
            caller.call(task, "take", &reference(1), Some(&copy)).await;
            assert_eq!(caller.result(task).await, b"\x80\x05\x95\x06\0\0\0\0\0\0\0J\0\0\x10\0.");
        }
        caller.call(4, "lazy", &[lazy(1), lazy(1)].concat(), Some(&copy)).await;
        caller.result(4).await;
        // The process that it forked comes back, too.
        caller.call(5, "forks", "", None).await;
        caller.result(5).await;
        assert_eq!(caller.news.stored.len(), 2);

        // A call that is ended holds nothing any more.
        named_pipe(&caller.server.dir.path().join("begun"));
        caller.call(6, "hang", &reference(1), Some(&copy)).await;
        fs::read(caller.server.dir.path().join("begun")).expect("readable");
        let ids = IdSet::range(6, 6);
        caller
            .connection
            .say(&ToWorker::Cancel { job: JobId(3), ids: ids.clone(), are_elsewhere: false })
            .await;
        caller.until(|caller| caller.seen.canceled == ids).await;

        // Nobody has it.
        caller.connection.say(&ToWorker::FreeObjects(vec![copy.object.clone()])).await;
        caller.call(7, "take", &reference(1), Some(&copy)).await;
        caller.until(|caller| !caller.news.unfetched.is_empty()).await;
        assert_eq!(caller.news.unfetched[0].object, copy.object);
        assert!(!path.exists());
        caller.stop().await;
    });
}

pub(crate) fn a_value_that_cannot_be_stored_fails_or_comes_again(_: &mut ()) {
    block_on(async {
        let mut caller = Caller::start("small").await;
        caller.call(1, "leave", "I1048576\n", None).await;
        caller.until(|caller| !caller.seen.failed.is_empty()).await;
        let (_, kind, text) = &caller.seen.failed[0];
        assert_eq!(*kind, FailureKind::Output);
        let expected = "The value of leave cannot be stored: 2097";
        assert!(
            text.starts_with(expected) && text.contains("accepts objects of at most 1000000 bytes"),
            "{text}"
        );
        caller.call(2, "full", "", None).await;
        caller.until(|caller| !caller.news.unfetched.is_empty()).await;
        let unfetched = &caller.news.unfetched[0];
        assert_eq!(unfetched.object.to_string(), "3@2:value");
        assert!(unfetched.reason.ends_with(": File too large"), "{}", unfetched.reason);
        assert!(caller.news.stored.is_empty());
        caller.stop().await;
    });
}

pub(crate) fn a_file_of_a_client_becomes_an_object(_: &mut ()) {
    block_on(async {
        let mut caller = Caller::start("process").await;
        fs::write(caller.put_dir().join("c-1"), "given").expect("writable");
        for task in [1, 2] {
            let object = format!("3@{task}:value").parse().expect("an object");
            caller.connection.say(&ToWorker::TakeFile { object, file: "c-1".into(), is_dir: false }).await;
        }
        caller.until(|caller| !caller.news.refused.is_empty()).await;
        let stored = caller.news.stored[0].clone();
        assert_eq!((stored.object.to_string().as_str(), stored.size), ("3@1:value", 5));
        let (object, why) = &caller.news.refused[0];
        assert!(object.to_string() == "3@2:value" && why.contains("c-1: No such file"), "{why}");
        assert_eq!(fs::read(caller.store.join("v-3-1-0")).expect("there"), b"given");
        // What is no value is no argument.
        caller.call(3, "take", &reference(1), Some(&stored)).await;
        caller.until(|caller| !caller.seen.failed.is_empty()).await;
        let (_, kind, text) = &caller.seen.failed[0];
        assert_eq!(*kind, FailureKind::Start);
        assert!(text.contains("the value of task 3@1 cannot be read: its file"), "{text}");
        caller.stop().await;
    });
}
