//! Frames: a length and a message of `pull.proto`, there and back. What they say becomes what JSON says.

use hq_proto::pull as form;
use hq_proto::pull::LENGTH_BYTES;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::answers::{Answer, Bag, Given, Held, Item, Seen, Session, Task};
use crate::connection::{Reader, Writer, until_gone, write_all};
use crate::contract::{
    BagRef, Close, Create, Deferred, End, Ends, Hello, Leave, LimitWord, Look, Missing, NewTask, Next,
    Nothing, Open, Problem, Request, Status, Take,
};
use crate::half_said::Coming;
use crate::handle::Speaker;
use crate::limits;

/// Serves a connection until it ends.
pub(crate) async fn serve(
    reader: &mut Reader,
    writer: &mut Writer,
    mut speaker: Speaker,
) -> std::io::Result<()> {
    let (mut message, mut said) = (Coming::new(speaker.half_said()), Vec::new());
    loop {
        let mut length = [0; LENGTH_BYTES];
        match reader.read_exact(&mut length).await {
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => return writer.flush().await,
            read => read?,
        };
        let length = u32::from_be_bytes(length) as usize;
        if length > limits::REQUEST_BYTES_MAX {
            let most = limits::REQUEST_BYTES_MAX;
            let problem = Problem::new(
                "too-large",
                format!("a frame may have {most} bytes, and this one has {length}: say it in several"),
            );
            write(writer, &mut said, Answer::Error(problem)).await?;
            return writer.flush().await;
        }
        // Memory grows with what comes, not with what is announced.
        message.clear();
        if let Err(problem) = message.whole(reader, length).await? {
            write(writer, &mut said, Answer::Error(problem)).await?;
            return writer.flush().await;
        }
        if message.bytes().len() < length {
            return writer.flush().await;
        }
        let answer = match parse(message.bytes()) {
            Ok(request) => match until_gone(reader, speaker.answer(request)).await {
                Some(answer) => answer,
                None => return Ok(()),
            },
            Err(problem) => Answer::Error(problem),
        };
        write(writer, &mut said, answer).await?;
        // What is asked already is answered together.
        if reader.buffer().len() < LENGTH_BYTES {
            writer.flush().await?;
        }
    }
}

async fn write(writer: &mut Writer, said: &mut Vec<u8>, answer: Answer) -> std::io::Result<()> {
    said.clear();
    put(answer, said);
    write_all(writer, said).await
}

/// Appends an answer as a frame.
pub(crate) fn put(answer: Answer, said: &mut Vec<u8>) {
    form::put_answer(&answer_of(answer), said);
}

fn parse(message: &[u8]) -> Result<Request, Problem> {
    let request = form::decode_request(message);
    let request = request.map_err(|error| Problem::bad(format!("this is no request: {error}")))?;
    let body = request.body.ok_or_else(|| {
        Problem::bad(
            "this is no request: none of those that this release knows is in `body`; they are in pull.proto",
        )
    })?;
    Ok(request_of(body))
}

// --- what is asked ---

fn request_of(body: form::request::Body) -> Request {
    use form::request::Body;
    match body {
        Body::Hello(form::Hello { version, label, lease, grace, tags }) => {
            Request::Hello(Hello { version, label, lease, grace, tags })
        }
        Body::Open(form::Open { name, max_fails }) => Request::Open(Open { name, max_fails }),
        Body::Create(create) => Request::Create(Create {
            missing: match create.missing() {
                form::Missing::Error => Missing::Error,
                form::Missing::Done => Missing::Done,
            },
            bag: bag_of(create.bag),
            tasks: create.tasks.into_iter().map(new_task_of).collect(),
        }),
        Body::Next(form::Next { done, take, wait, bags, tags }) => Request::Next(Next {
            done: done.into_iter().map(end_of).collect(),
            take,
            wait,
            bags: bags_of(bags),
            tags,
        }),
        Body::Take(form::Take { count, wait, bags, tags }) => {
            Request::Take(Take { count, wait, bags: bags_of(bags), tags })
        }
        Body::Complete(ends) => Request::Complete(ends_of(ends)),
        Body::Fail(ends) => Request::Fail(ends_of(ends)),
        Body::Release(ends) => Request::Release(ends_of(ends)),
        Body::Defer(ends) => Request::Defer(ends_of(ends)),
        Body::Extend(ends) => Request::Extend(ends_of(ends)),
        Body::Sync(form::Nothing {}) => Request::Sync(Nothing {}),
        Body::Look(form::Look { bag, names }) => Request::Look(Look { bag: bag_of(bag), names }),
        Body::Close(form::Close { bag }) => Request::Close(Close { bag: bag_of(bag) }),
        Body::Leave(form::Leave { label }) => Request::Leave(Leave { label }),
        Body::Status(form::Status { bags }) => Request::Status(Status { bags: bags_of(bags) }),
    }
}

fn bag_of(named: String) -> Option<BagRef> {
    (!named.is_empty()).then_some(BagRef::Name(named))
}

fn bags_of(named: Vec<String>) -> Vec<BagRef> {
    named.into_iter().map(BagRef::Name).collect()
}

fn new_task_of(task: form::NewTask) -> NewTask {
    let form::NewTask { name, payload, after, after_any, after_tasks, priority, retries, .. } = task;
    NewTask {
        name,
        payload: None,
        payload_base64: None,
        payload_bytes: payload,
        after,
        after_any,
        after_tasks,
        priority,
        retries,
        crash_limit: task.crash_limit.map(LimitWord::Word),
        time_limit: task.time_limit,
        expect: task.expect,
        needs: task.needs,
    }
}

fn ends_of(ends: form::Ends) -> Ends {
    Ends { bag: bag_of(ends.bag), tasks: ends.tasks.into_iter().map(end_of).collect() }
}

fn end_of(end: form::End) -> End {
    let form::End { id, name, attempt, result, failed, released, deferred, lease } = end;
    let deferred = deferred.map(|deferred| {
        let form::Deferred { after, after_any, after_tasks } = deferred;
        Deferred { after, after_any, after_tasks }
    });
    let (result, result_bytes) = (None, result);
    End { id, name, attempt, result, result_base64: None, result_bytes, failed, released, deferred, lease }
}

// --- what is answered ---

fn answer_of(answer: Answer) -> form::Answer {
    use form::answer::Body;
    let body = match answer {
        Answer::Error(Problem { code, message }) => {
            Body::Error(form::Error { code: code.to_owned(), message })
        }
        Answer::Welcome(welcome) => Body::Welcome(form::Welcome {
            version: welcome.version,
            session: welcome.session,
            accepted: welcome.accepted,
            saved: welcome.saved,
            limits: Some(form::Limits {
                take: welcome.limits.take,
                tasks: welcome.limits.tasks,
                request_bytes: welcome.limits.request_bytes,
                name_bytes: welcome.limits.name_bytes,
                payload_bytes: welcome.limits.payload_bytes,
                result_bytes: welcome.limits.result_bytes,
                session_tasks: welcome.limits.session_tasks,
            }),
        }),
        Answer::Opened(opened) => {
            Body::Opened(form::Opened { bag: opened.bag, name: opened.name, new: opened.new })
        }
        Answer::Created(created) => {
            Body::Created(form::Created { bag: created.bag, new: created.new, known: created.known })
        }
        Answer::Given(given) => Body::Given(given_of(given)),
        Answer::Looked(looked) => {
            let tasks = looked.tasks.into_iter().map(seen_of).collect();
            Body::Looked(form::Looked { bag: looked.bag, tasks })
        }
        Answer::Closed(closed) => Body::Closed(form::Closed { bag: closed.bag }),
        Answer::Left(left) => Body::Left(form::Left { returned: left.returned }),
        Answer::Status(standing) => Body::Status(form::Standing {
            bags: standing.bags.into_iter().map(standing_of).collect(),
            sessions: standing.sessions.into_iter().map(session_of).collect(),
            above: standing.above,
            below: standing.below,
        }),
    };
    form::Answer { body: Some(body) }
}

fn given_of(given: Given) -> form::Given {
    let task = |task: Task| {
        let Task { id, name, payload, attempt, lease } = task;
        form::Task { id, name, payload, attempt, lease }
    };
    let item = |item: Item| form::Item { error: item.error.map(str::to_owned), message: item.message };
    form::Given {
        tasks: given.tasks.into_iter().flatten().map(task).collect(),
        state: given.state.map(str::to_owned),
        done: given.done.into_iter().flatten().map(item).collect(),
        accepted: given.accepted,
        saved: given.saved,
    }
}

fn seen_of(seen: Seen) -> form::Seen {
    let Seen { name, error, id, state, message, result } = seen;
    form::Seen { name, error: error.map(str::to_owned), id, state: state.map(str::to_owned), message, result }
}

fn standing_of(bag: Bag) -> form::Bag {
    form::Bag {
        bag: bag.bag,
        name: bag.name,
        state: bag.state.to_owned(),
        open: bag.open,
        waiting: bag.waiting,
        running: bag.running,
        finished: bag.finished,
        failed: bag.failed,
        canceled: bag.canceled,
        aborted: bag.aborted,
        taken_here: bag.taken_here,
        ahead_here: bag.ahead_here,
    }
}

fn session_of(session: Session) -> form::Session {
    let Session { label, connected, taken, tasks, accepted, saved } = session;
    let held = |Held { id, name, held, left }| form::Held { id, name, held, left };
    form::Session { label, taken, accepted, saved, connected, tasks: tasks.into_iter().map(held).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(body: form::request::Body) -> String {
        let mut frame = Vec::new();
        form::put_request(&form::Request { body: Some(body) }, &mut frame);
        let request = parse(&frame[LENGTH_BYTES..]).expect("a request");
        format!("{request:?}")
    }

    fn said(line: &str) -> String {
        format!("{:?}", crate::contract::parse(line.as_bytes()).expect(line))
    }

    #[test]
    fn a_frame_says_the_same_as_a_line() {
        use form::request::Body;
        let end = form::End {
            id: Some("4@0".to_owned()),
            attempt: Some("3.0".to_owned()),
            failed: Some("no".to_owned()),
            lease: Some(2.0),
            deferred: Some(form::Deferred { after: vec!["x".to_owned()], ..form::Deferred::default() }),
            ..form::End::default()
        };
        let item = r#"{"id":"4@0","attempt":"3.0","failed":"no","lease":2,"deferred":{"after":["x"]}}"#;
        let task = form::NewTask {
            name: "a".to_owned(),
            after: vec!["b".to_owned()],
            after_any: vec!["c".to_owned()],
            after_tasks: vec!["7@1".to_owned()],
            priority: -3,
            retries: 2,
            crash_limit: Some("unlimited".to_owned()),
            time_limit: Some(9.0),
            expect: Some(1.0),
            needs: vec!["gpu".to_owned()],
            ..form::NewTask::default()
        };
        let task = form::Create { bag: "dock".to_owned(), tasks: vec![task], missing: 1 };
        let new = r#"{"name":"a","after":["b"],"after_any":["c"],"after_tasks":["7@1"],"priority":-3,"retries":2,
                     "crash_limit":"unlimited","time_limit":9,"expect":1,"needs":["gpu"]}"#;
        let bags = || vec!["dock".to_owned()];
        let ends = || form::Ends { tasks: vec![end.clone()], bag: "b".to_owned() };
        let next = form::Next {
            done: vec![end.clone()],
            take: 2,
            wait: 1.5,
            bags: bags(),
            tags: vec!["t".to_owned()],
        };
        let hello = form::Hello {
            version: Some(1),
            label: Some("n".to_owned()),
            lease: Some(60.0),
            grace: Some(9.0),
            tags: vec!["gpu".to_owned()],
        };
        let open = form::Open { name: Some("dock".to_owned()), max_fails: Some(2) };
        let listed = |verb: &str| format!(r#"{{"{verb}":{{"bag":"b","tasks":[{item}]}}}}"#);
        for (frame, line) in [
            (
                Body::Hello(hello),
                r#"{"hello":{"version":1,"label":"n","lease":60,"grace":9,"tags":["gpu"]}}"#.to_owned(),
            ),
            (Body::Open(open), r#"{"open":{"name":"dock","max_fails":2}}"#.to_owned()),
            (
                Body::Create(task),
                format!(r#"{{"create":{{"bag":"dock","missing":"done","tasks":[{new}]}}}}"#),
            ),
            (
                Body::Next(next),
                format!(r#"{{"next":{{"done":[{item}],"take":2,"wait":1.5,"bags":["dock"],"tags":["t"]}}}}"#),
            ),
            (
                Body::Take(form::Take {
                    count: Some(3),
                    wait: 1.0,
                    bags: bags(),
                    tags: vec!["t".to_owned()],
                }),
                r#"{"take":{"count":3,"wait":1,"bags":["dock"],"tags":["t"]}}"#.to_owned(),
            ),
            (Body::Complete(ends()), listed("complete")),
            (Body::Fail(ends()), listed("fail")),
            (Body::Release(ends()), listed("release")),
            (Body::Defer(ends()), listed("defer")),
            (Body::Extend(ends()), listed("extend")),
            (Body::Sync(form::Nothing {}), r#"{"sync":{}}"#.to_owned()),
            (
                Body::Look(form::Look { bag: String::new(), names: vec!["a".to_owned()] }),
                r#"{"look":{"names":["a"]}}"#.to_owned(),
            ),
            (Body::Close(form::Close { bag: "dock".to_owned() }), r#"{"close":{"bag":"dock"}}"#.to_owned()),
            (
                Body::Leave(form::Leave { label: Some("n".to_owned()) }),
                r#"{"leave":{"label":"n"}}"#.to_owned(),
            ),
            (Body::Status(form::Status { bags: bags() }), r#"{"status":{"bags":["dock"]}}"#.to_owned()),
        ] {
            assert_eq!(asked(frame), said(&line));
        }
    }

    #[test]
    fn bytes_travel_as_they_are() {
        let task = form::NewTask { payload: vec![0xff], ..form::NewTask::default() };
        assert_eq!(new_task_of(task).payload_bytes, [0xff]);
        let end = form::End { result: vec![0xfe], ..form::End::default() };
        assert_eq!(end_of(end).result_bytes, [0xfe]);
    }

    #[test]
    fn what_is_no_request_is_explained() {
        for (bytes, told) in [
            (&b""[..], "none of those that this release knows"),
            (b"\xff\xff", "damaged pull request"),
            // Field 1000, of a later release.
            (b"\xc2\x3e\x00", "none of those that this release knows"),
        ] {
            let message = parse(bytes).expect_err("no request").message;
            assert!(message.contains(told), "{message}");
        }
    }

    #[test]
    fn an_answer_says_in_a_frame_what_it_says_in_json() {
        let task = Task {
            id: "4@1".to_owned(),
            name: "a".to_owned(),
            payload: vec![0xff],
            attempt: "3.0".to_owned(),
            lease: 1.5,
        };
        let given = Given {
            tasks: Some(vec![task]),
            state: Some("some"),
            done: Some(vec![Item::default(), Item::of(Err(Problem::new("stale", "late")))]),
            accepted: 2,
            saved: 1,
        };
        let mut frame = Vec::new();
        form::put_answer(&answer_of(Answer::Given(given)), &mut frame);
        let answer = form::decode_answer(&frame[LENGTH_BYTES..]).expect("an answer");
        let Some(form::answer::Body::Given(given)) = answer.body else { panic!("given") };
        assert_eq!((given.accepted, given.saved, given.state.as_deref()), (2, 1, Some("some")));
        assert_eq!((given.tasks[0].id.as_str(), &given.tasks[0].payload[..]), ("4@1", &[0xff][..]));
        assert_eq!(given.done[0], form::Item::default());
        assert_eq!(given.done[1].error.as_deref(), Some("stale"));
    }
}
