//! From words of the command line and `#HQ` lines to a submit.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;
use std::time::Duration;

use clap::Parser;
use hq_model::job::{Target, TaskIds};
use hq_model::task::{CrashLimit, Pin};
use hq_model::{Amount, AmountRequest, IdSet, JobId, OnClose, OutputSink, Policy, Stream, Submit};
use tempfile::TempDir;

use super::*;

mod ranks;

#[derive(Parser)]
#[command(no_binary_name = true)]
struct Line {
    #[command(flatten)]
    options: SubmitOptions,
}

// A directory with files, and standard input.
struct Place {
    dir: TempDir,
    stdin: Vec<u8>,
}

impl Place {
    fn new() -> Place {
        Place { dir: TempDir::new().expect("a directory"), stdin: Vec::new() }
    }

    fn file(self, name: &str, content: impl AsRef<[u8]>) -> Place {
        fs::write(self.dir.path().join(name), content).expect("a file");
        self
    }

    fn stdin(self, content: &str) -> Place {
        Place { stdin: content.into(), ..self }
    }

    fn try_submit<T: Into<OsString>>(&self, args: impl IntoIterator<Item = T>) -> Result<Prepared, String> {
        let line = Line::try_parse_from(args.into_iter().map(Into::into)).map_err(|e| e.to_string())?;
        let mut stdin = &self.stdin[..];
        let mut around = Surroundings {
            submit_dir: self.dir.path().to_owned(),
            stdin: &mut stdin,
            defaults: Defaults::default(),
        };
        prepare(line.options, &mut around).map_err(|e| e.to_string())
    }

    fn submit(&self, line: &str) -> Submit {
        self.prepared(line).submit
    }

    fn prepared(&self, line: &str) -> Prepared {
        self.try_submit(shlex::split(line).expect("words")).expect(line)
    }

    fn warnings(&self, line: &str) -> Vec<String> {
        self.prepared(line).warnings
    }

    fn error(&self, line: &str) -> String {
        let error = self.try_submit(shlex::split(line).expect("words")).expect_err(line);
        error.replace(&self.dir.path().display().to_string(), "DIR")
    }
}

fn args(submit: &Submit) -> Vec<String> {
    submit.spec.body.texts().iter().map(|a| String::from_utf8_lossy(a).into_owned()).collect()
}

fn name(submit: &Submit) -> &str {
    match &submit.target {
        Target::New(spec) => &spec.name,
        Target::Open(_) => "",
    }
}

#[test]
fn nodes_and_ranks() {
    let place = Place::new();
    for (line, expected) in [
        ("--nodes 2 cmd", "nodes: 2"),
        ("--ranks-per-node 4 cmd", "nodes: 1, ranks per node: 4, cpus: 1"),
        (
            "--nodes 2 --ranks-per-node 4 --cpus-per-rank 8 --gpus-per-rank 1 --exclusive --pin taskset cmd",
            "nodes: 2, ranks per node: 4, exclusive, cpus: 8, gpus: 1",
        ),
        (
            "--nodes 2 --ranks-per-node 1 --cpus-per-rank all --resource mem=1GiB --launcher srun cmd",
            "nodes: 2, ranks per node: 1, cpus: all, mem: 1 GiB",
        ),
    ] {
        let submit = place.submit(line);
        assert_eq!(submit.spec.requests[0].to_string(), expected, "{line}");
    }
    assert_eq!(place.submit("--ranks-per-node 1 --launcher srun cmd").spec.launcher, "srun");
}

#[test]
fn a_plain_command_gets_the_defaults() {
    let place = Place::new();
    let submit = place.submit("/usr/bin/simulate --steps 10");
    assert_eq!((name(&submit), &submit.ids), ("simulate", &TaskIds::Next(1)));
    assert_eq!(submit.spec.requests.len(), 1);
    assert_eq!(submit.spec.requests[0].to_string(), "cpus: 1");
    assert_eq!((submit.spec.requests[0].nodes, submit.spec.requests[0].weight), (0, 10_000));
    let spec = &submit.spec;
    assert_eq!(args(&submit), ["/usr/bin/simulate", "--steps", "10"]);
    assert_eq!(spec.cwd, b"%{SUBMIT_DIR}");
    let file = |path: &[u8]| OutputSink::File { path: path.to_vec(), on_close: OnClose::Keep };
    assert_eq!(spec.stdout, file(b"%{CWD}/job-%{JOB_ID}/%{TASK_ID}.stdout"));
    assert_eq!(spec.stderr, file(b"%{CWD}/job-%{JOB_ID}/%{TASK_ID}.stderr"));
    assert_eq!(spec.kill_grace, Duration::from_secs(5));
    assert_eq!(spec.crash_limit, CrashLimit::Times(5));
    assert_eq!((spec.pin, spec.priority, spec.time_limit, spec.retry.max), (Pin::None, 0, None, 0));
    assert_eq!(Path::new(&OsString::from_vec(submit.submit_dir.clone())), place.dir.path());
}

#[test]
fn channels_go_to_the_stream_unless_told_otherwise() {
    let place = Place::new();
    let file = OutputSink::File { path: b"o".to_vec(), on_close: OnClose::Keep };
    let directory = |path: &str| Some(Stream::Directory(path.into()));
    let log = |path: &str| Some(Stream::Log(path.into()));
    for (line, stdout, stderr, stream) in [
        ("--stream d/%{JOB_ID} cmd", OutputSink::Stream, OutputSink::Stream, directory("d/%{JOB_ID}")),
        ("--stream d --stdout o cmd", file.clone(), OutputSink::Stream, directory("d")),
        ("--stream d --stderr none cmd", OutputSink::Stream, OutputSink::None, directory("d")),
        ("--log f-%{JOB_ID} cmd", OutputSink::Stream, OutputSink::Stream, log("f-%{JOB_ID}")),
        ("--log f --stdout o cmd", file.clone(), OutputSink::Stream, log("f")),
        ("--stream d --stdout o --stderr none cmd", file.clone(), OutputSink::None, None),
    ] {
        let spec = &place.submit(line).spec;
        let found = (&spec.stdout, &spec.stderr, &spec.stream);
        assert_eq!(found, (&stdout, &stderr, &stream), "{line}");
    }
    assert!(place.error("--stream - cmd").starts_with("--stream: `-` is no standard output here"));
    assert_eq!(place.submit("--stream ./- cmd").spec.stream, directory("./-"));
    let dash = Place::new().file("s.sh", "#!/bin/sh\n#HQ --log -\ntrue\n").error("./s.sh");
    assert!(dash.contains("--log: `-` is no standard output here"), "{dash}");
    let script = Place::new().file("s.sh", "#!/bin/sh\n#HQ --stream \"a b\"\ntrue\n");
    assert_eq!(script.submit("./s.sh").spec.stream, directory("a b"));
    let script = Place::new().file("s.sh", "#!/bin/sh\n#HQ --log \"a b\"\ntrue\n");
    assert_eq!(script.submit("./s.sh").spec.stream, log("a b"));
    assert_eq!(script.submit("--stream d ./s.sh").spec.stream, directory("d"), "the command line wins");
}

#[test]
fn what_goes_together_can_be_compressed() {
    let none = "none".to_owned();
    let place = Place::new();
    let compression = |place: &Place, line: &str| place.submit(line).spec.compression.to_string();
    for (line, expected) in [
        ("--stream d cmd", "none"),
        ("--stream d --compress zstd cmd", "zstd:3"),
        ("--log f --compress=zstd:19 --stdout o cmd", "zstd:19"),
        ("--compress none cmd", "none"),
        // Nothing goes there.
        ("--stream d --compress zstd --stdout o --stderr none cmd", "none"),
    ] {
        assert_eq!(compression(&place, line), expected, "{line}");
    }
    assert_eq!(place.error("--compress zstd cmd"), "--compress works only together with --stream or --log");
    let script = Place::new().file("s.sh", "#!/bin/sh\n#HQ --log l --compress zstd:5\ntrue\n");
    assert_eq!(compression(&script, "./s.sh"), "zstd:5");
    assert_eq!(compression(&script, "--compress none ./s.sh"), none, "the command line wins");

    // In a configuration file it is for those to which it can apply.
    let words = ["--compress".to_owned(), "zstd:2".to_owned()];
    let with_defaults = |line: &str| {
        let mut around = Surroundings {
            submit_dir: "/home/u".into(),
            stdin: &mut std::io::empty(),
            defaults: Defaults::parse(&words).unwrap(),
        };
        let options = Line::try_parse_from(shlex::split(line).unwrap()).unwrap().options;
        prepare(options, &mut around).unwrap().submit.spec.compression.to_string()
    };
    assert_eq!([with_defaults("--log l cmd"), with_defaults("cmd")], ["zstd:2".to_owned(), none]);
}

#[test]
fn options_end_where_the_command_begins() {
    let place = Place::new();
    let submit = place.submit("--name x cmd --name y --unknown -- z");
    assert_eq!(args(&submit), ["cmd", "--name", "y", "--unknown", "--", "z"]);
    let submit = place.submit("--name x -- --strange --name");
    assert_eq!(args(&submit), ["--strange", "--name"]);
    assert!(place.error("--unknown cmd").contains("--unknown"));
    assert!(place.error("--name x").contains("no command was given"));
}

#[test]
fn every_option_reaches_its_field() {
    let place = Place::new().file("in", "input");
    let submit = place.submit(
        "--name n --max-fails 3 --share 2..8 --share-weight 2 --array 1-10:3 --cpus '4 scatter' --resource mem=2GiB --resource gpus=0.5 \
         --time-request 1:30:00 --weight 1.5 --priority -5 --pin omp --cwd sub --env A=1 --env B= --stdin=in \
         --task-dir --stdout none --stderr e:rm-if-finished --time-limit 2m --signal USR1@30s --kill-grace 1s \
         --retry 2 --retry-delay 10s --retry-on 3,7-8,signal --crash-limit unlimited cmd",
    );
    let spec = &submit.spec;
    assert_eq!(name(&submit), "n");
    let Target::New(job) = &submit.target else { panic!("a new job") };
    assert_eq!(job.share.map(|share| share.to_string()), Some("2..8 (weight 2)".into()));
    assert_eq!(submit.ids, TaskIds::Given([1, 4, 7, 10].map(hq_model::TaskId).into_iter().collect()));
    let request = &spec.requests[0];
    let shown: Vec<String> = request.resources.iter().map(|r| format!("{}={}", r.name, r.amount)).collect();
    assert_eq!(shown, ["cpus=4 scatter", "gpus=0.5 compact", "mem=2048 compact"]);
    assert_eq!((request.time_request.as_secs(), request.weight), (5400, 15_000));
    assert_eq!((spec.priority, spec.pin), (-5, Pin::Omp));
    assert_eq!(spec.cwd, b"sub");
    assert_eq!(spec.env, [(b"A".to_vec(), b"1".to_vec()), (b"B".to_vec(), Vec::new())]);
    assert_eq!(spec.stdin, b"input");
    assert!(spec.task_dir);
    assert_eq!(spec.stdout, OutputSink::None);
    assert_eq!(spec.stderr, OutputSink::File { path: b"e".to_vec(), on_close: OnClose::RemoveIfFinished });
    assert_eq!(spec.time_limit, Some(Duration::from_secs(120)));
    let warning = spec.warning.expect("a warning");
    assert_eq!((warning.signal, warning.before.as_secs()), (10, 30));
    assert_eq!(spec.kill_grace, Duration::from_secs(1));
    assert_eq!((spec.retry.max, spec.retry.delay.as_secs()), (2, 10));
    assert_eq!((spec.retry.on.codes.as_slice(), spec.retry.on.signal), (&[3, 7, 8][..], true));
    assert_eq!(spec.crash_limit, CrashLimit::Unlimited);
}

#[test]
fn cpus_are_one_unless_something_is_said() {
    let place = Place::new();
    let cpus = |line: &str| place.submit(line).spec.requests[0].resources[0].amount;
    assert_eq!(cpus("cmd"), AmountRequest::Some(Amount::whole(1), Policy::Compact));
    assert_eq!(cpus("--cpus all cmd"), AmountRequest::All);
    assert_eq!(cpus("--resource cpus=3 cmd"), AmountRequest::Some(Amount::whole(3), Policy::Compact));
    assert_eq!(
        place.error("--cpus 1 --resource cpus=3 cmd"),
        "Resource 'cpus' defined more than once; give one amount for it"
    );
    assert!(place.error("--resource x=1 --resource x=2 cmd").contains("Resource 'x' defined more than once"));
    assert!(place.error("--cpus 0 cmd").contains("Zero resources cannot be requested"));
}

#[test]
fn entries_become_tasks() {
    let place = Place::new().file("lines", "a\nb\nc\n").file("json", "[1, {\"x\": 2}]").stdin("s\nt\n");
    let entries = |line: &str| {
        let submit = place.submit(line);
        let texts: Vec<String> =
            submit.entries.iter().map(|e| String::from_utf8_lossy(e).into_owned()).collect();
        (submit.ids, texts.join("|"))
    };
    assert_eq!(entries("--each-line lines cmd"), (TaskIds::Next(3), "a|b|c".into()));
    assert_eq!(entries("--from-json json cmd"), (TaskIds::Next(2), "1|{\"x\":2}".into()));
    assert_eq!(entries("--each-line - cmd"), (TaskIds::Next(2), "s|t".into()));
    let given = TaskIds::Given(IdSet::range(1, 2));
    assert_eq!(entries("--each-line lines --array 1-9 cmd"), (given, "b|c".into()));
    let why = "no entry; the first entry is that of task 0";
    for (array, expected) in [
        ("1-9", "tasks 3-9 of --array are not submitted: they have"),
        ("1-3", "task 3 of --array is not submitted: it has"),
    ] {
        let warnings = place.warnings(&format!("--each-line lines --array {array} cmd"));
        assert_eq!(warnings, [format!("{expected} {why}")]);
    }
    assert_eq!(place.warnings("--each-line lines --array 0-2 cmd"), [""; 0]);
}

#[test]
fn a_program_that_is_only_in_this_directory_gets_a_hint() {
    let place = Place::new()
        .file("job.sbatch", "#!/bin/sh\n")
        .file("job.sh", "#!/bin/sh\n")
        .file("sh", "#!/bin/sh\n");
    let hints = |line: &str| place.prepared(line).hints;
    let expected = "'job.sbatch' is a file in this directory, but programs without a slash are looked for in PATH only: write ./job.sbatch";
    assert_eq!(hints("job.sbatch 1 2"), [expected]);
    for line in ["./job.sbatch", "other.sbatch", "sh job.sbatch", "job.sh 1"] {
        assert_eq!(hints(line), [""; 0], "{line}");
    }
}

#[test]
fn bad_input_is_named() {
    let place = Place::new().file("empty", "").file("object", "{}").file("short", "a\n");
    for (line, expected) in [
        ("--each-line none cmd", "cannot read the entries in none: No such file or directory (os error 2)"),
        ("--each-line empty cmd", "empty is empty: there is no line to create a task from"),
        (
            "--from-json object cmd",
            "The top element of the provided JSON file has to be an array: object holds an object",
        ),
        (
            "--each-line short --array 5-6 cmd",
            "--array 5-6 selects nothing: short has 1 lines, counted from 0",
        ),
        (
            "--stdin=none cmd",
            "cannot read the tasks' standard input none: No such file or directory (os error 2)",
        ),
        (
            "--stdin --each-line - cmd",
            "standard input can be read only once, but both --stdin and --each-line - need it",
        ),
        (
            "--cwd '%{CWD}/x' cmd",
            "Working directory path cannot contain the working directory placeholder `%{CWD}`: it is what --cwd sets",
        ),
        ("--retry-on 3 cmd", "--retry-on needs --retry: without it, nothing is retried"),
        ("--on-notify x cmd", "--on-notify works only together with --wait or --progress"),
        ("nofile.sh", "Could not parse directives from nofile.sh: No such file or directory (os error 2)"),
        ("--job 3 --name x cmd", "Parameter --name is not allowed when submitting to an open job."),
        ("--nodes 2 --pin omp cmd", "--nodes cannot be used together with --pin"),
        ("--ranks-per-node 2 --speculate 3 cmd", "--ranks-per-node cannot be used together with --speculate"),
        ("--cpus-per-rank 2 cmd", "--cpus-per-rank works only together with --ranks-per-node"),
        ("--launcher srun cmd", "--launcher works only together with --ranks-per-node"),
        (
            "--ranks-per-node 2 --cpus-per-rank all cmd",
            "several ranks on a node cannot each have all of a resource",
        ),
        ("--nodes 2 --ranks-per-node 20000 cmd", "20000 ranks per node are too many: the maximum is 10000"),
        ("--nodes 99999999 cmd", "99999999 nodes are too many: the maximum is 100000"),
        ("--log f --stream d cmd", "--log cannot be used together with --stream"),
        (
            "--log out-%{TASK_ID} cmd",
            "%{TASK_ID} cannot be used in --log; %{JOB_ID}, %{SUBMIT_DIR} and %{SERVER_UID} can",
        ),
        (
            "--stream out/%{TASK_ID} cmd",
            "%{TASK_ID} cannot be used in --stream; %{JOB_ID}, %{SUBMIT_DIR} and %{SERVER_UID} can",
        ),
        (
            "--stream out-%{NAME} cmd",
            "%{NAME} cannot be used in --stream; %{JOB_ID}, %{SUBMIT_DIR} and %{SERVER_UID} can",
        ),
        (
            "--directives file none",
            "Could not parse directives from none: No such file or directory (os error 2)",
        ),
    ] {
        assert_eq!(place.error(line), expected, "{line}");
    }
}

fn job_file(content: &str) -> Result<PreparedFile, String> {
    prepare_file(Path::new("job.toml"), content, None, b"/here").map_err(|error| error.to_string())
}

#[test]
fn the_guide_has_all_keys() {
    let guide = include_str!("../../../../docs/guide/resources.md");
    let table = &guide[guide.find("| key | of | value |").expect("the table")..];
    // What is no key is told together with all that are.
    let told = |content: &str| job_file(&format!("{content}\nnone_such = 1")).expect_err("no key");
    let (array, request) = ("[array]\ncommand = [\"a\"]", "[[array.request]]");
    let told = [told(""), told(array), told(&format!("{array}\n{request}"))].join("\n");
    let lists = told.split("expected one of ").skip(1).map(|rest| rest.lines().next().unwrap_or_default());
    let keys = lists.flat_map(|list| list.split(", ")).filter(|key| *key != "`data_layer`");
    let keys: Vec<&str> = keys.map(|key| key.trim_matches('`')).collect();
    assert!(keys.len() > 40, "{told}");
    for key in keys {
        let is_there = table.contains(&format!("`{key}`")) || table.contains(&format!("{key}]]`"));
        assert!(is_there || table.contains(&format!("`[{key}]`")), "{key}");
    }
}

#[test]
fn job_files_refuse_what_the_command_line_does() {
    for (content, expected) in [
        ("[[task]]\ncommand=[\"a\"]\nenv={\"A=B\"=\"1\"}", "task 1: `A=B` is not a valid variable name"),
        ("[array]\ncommand=[\"a\"]\nenv={\"\"=\"1\"}", "array: `` is not a valid variable name"),
        (
            "[[task]]\ncommand=[\"a\"]\nsignal=\"USR1@60s\"\ntime_limit=\"1m\"",
            "task 1: the signal would be sent 1m before the time limit of 1m",
        ),
    ] {
        let error = job_file(content).expect_err(content);
        assert!(error.contains(expected), "{content:?}: {error}");
    }
}

#[test]
fn a_signal_before_the_task_has_started_is_refused() {
    let place = Place::new();
    for line in ["--signal USR1@2m --time-limit 1m cmd", "--signal USR1@1m --time-limit 1m cmd"] {
        let error = place.error(line);
        assert!(error.ends_with("has started: send it later, or increase the time limit"), "{error}");
    }
    place.submit("--signal USR1@59s --time-limit 1m cmd");
}

#[test]
fn a_script_with_options_and_without_an_interpreter_is_warned_of() {
    let place = Place::new().file("bare.sh", "#HQ --name x\necho hi\n").file("plain.sh", "echo hi\n");
    let warnings = place.warnings("bare.sh");
    assert!(warnings[0].starts_with("bare.sh has #HQ lines but no `#!` line"), "{warnings:?}");
    assert_eq!(place.warnings("plain.sh"), Vec::<String>::new(), "who runs it has a reason");
}

#[test]
fn clap_refuses_what_contradicts_itself() {
    let place = Place::new();
    for (line, word) in [
        ("--each-line a --from-json b cmd", "--from-json"),
        ("--wait --progress cmd", "--progress"),
        ("--array 5-1 cmd", "--array"),
        ("--array '' cmd", "--array"),
        ("--crash-limit 0 cmd", "--crash-limit"),
        ("--name 'a\tb' cmd", "--name"),
        ("--time-limit soon cmd", "--time-limit"),
        ("--weight 0 cmd", "--weight"),
        ("--stream '' cmd", "--stream"),
        ("--log '' cmd", "--log"),
    ] {
        let error = place.error(line);
        assert!(error.contains(word), "{line}: {error}");
    }
}

#[test]
fn what_is_too_long_for_linux_is_refused_with_sizes() {
    let place = Place::new().file("lines", format!("short\n{}\n", "x".repeat(131_072)));
    let one = place.try_submit(["cmd", &"x".repeat(131_071)]).map(|_| ());
    assert_eq!(one, Ok(()), "the longest argument");
    let error = place.try_submit(["cmd", &"x".repeat(131_072)]).expect_err("too long");
    assert!(
        error.contains("argument 1 of the command has 131072 bytes; Linux passes at most 131071"),
        "{error}"
    );
    let error =
        place.try_submit(["--env", &format!("A={}", "x".repeat(131_070)), "cmd"]).expect_err("too long");
    assert!(error.contains("the variable A has 131072 bytes"), "{error}");
    let error = place.error("--each-line lines cmd");
    assert!(error.contains("entry 1 has 131081 bytes"), "{error}");
    let many = std::iter::repeat_n("x".repeat(100_000), 22);
    let error = place.try_submit(["cmd".to_owned()].into_iter().chain(many)).expect_err("too many");
    assert!(error.contains("have 2200") && error.contains("bytes in total"), "{error}");
}

#[test]
fn bytes_that_are_no_text_pass() {
    let place = Place::new();
    let odd = || OsString::from_vec(b"a\xffb".to_vec());
    let env = OsString::from_vec(b"K\xfe=\xfd".to_vec());
    let line: Vec<OsString> = vec![
        "--cwd".into(),
        odd(),
        "--stdout".into(),
        odd(),
        "--env".into(),
        env,
        "--".into(),
        "cmd".into(),
        odd(),
    ];
    let submit = place.try_submit(line).expect("bytes").submit;
    let spec = &submit.spec;
    assert_eq!(spec.body.texts()[1], b"a\xffb");
    assert_eq!(spec.cwd, b"a\xffb");
    assert_eq!(spec.env, [(b"K\xfe".to_vec(), b"\xfd".to_vec())]);
    assert_eq!(spec.stdout, OutputSink::File { path: b"a\xffb".to_vec(), on_close: OnClose::Keep });
}

#[test]
fn warnings() {
    let place = Place::new();
    let none: [&str; 0] = [];
    assert_eq!(place.warnings("--array 1-400 cmd"), none);
    assert_eq!(place.warnings("--array 1-9 --stdout none --stderr none cmd"), none);
    assert_eq!(place.warnings("--array 1-9 --cwd '%{TASK_ID}' --stdout o --stderr '%{CWD}/e' cmd"), none);
    assert_eq!(place.warnings("--stdout o --stderr o cmd"), none);
    insta::assert_debug_snapshot!(place.warnings(
        "--array 1-1000 --stdout out/%{JOB_ID} --stderr '%{TASK}' --env A=1 --env A=2 --env A=3 cmd"
    ));
}

#[test]
fn open_jobs_get_tasks() {
    let place = Place::new();
    let submit = place.submit("--job 7 cmd");
    assert_eq!((&submit.target, &submit.ids), (&Target::Open(JobId(7)), &TaskIds::Next(1)));
    let submit = place.submit("--job 7 --array 3-4 cmd");
    assert_eq!(submit.ids, TaskIds::Given(IdSet::range(3, 4)));
}

const SCRIPT: &str = "#!/bin/bash -e\n\n# a comment\n#HQ --name from-script --cpus=2 --env A=script\n#HQ --resource \
                      mem=100 --resource x=1\n#HQX --name no\n   #HQ --time-limit \"1h 30m\"\necho hi\n#HQ --priority 7\n";

#[test]
fn a_script_brings_its_options() {
    let place = Place::new().file("job.sh", SCRIPT);
    let submit = place.submit("job.sh arg");
    assert_eq!(name(&submit), "from-script");
    assert_eq!(args(&submit), ["/bin/bash", "-e", "job.sh", "arg"]);
    assert_eq!(submit.spec.time_limit, Some(Duration::from_secs(5400)));
    assert_eq!(submit.spec.priority, 0, "what follows the first command is not read");
    assert_eq!(submit.spec.requests[0].to_string(), "cpus: 2, mem: 100 MiB, x: 1");
}

#[test]
fn the_command_line_wins_over_the_script() {
    let place = Place::new().file("job.sh", SCRIPT);
    let submit = place.submit("--name own --cpus 3 --env A=own --resource x=5 --resource y=6 ./job.sh");
    assert_eq!(name(&submit), "own");
    let expected = "cpus: 3, mem: 100 MiB, x: 5, y: 6";
    assert_eq!(submit.spec.requests[0].to_string(), expected);
    let values: Vec<&[u8]> = submit.spec.env.iter().map(|(_, v)| v.as_slice()).collect();
    assert_eq!(values, [b"own"], "that of the script has the same name");
}

#[test]
fn where_directives_are_looked_for() {
    let place = Place::new().file("job.sh", SCRIPT).file("job", SCRIPT).stdin(SCRIPT);
    assert_eq!(name(&place.submit("job")), "job", "auto reads .sh only");
    assert_eq!(args(&place.submit("job")), ["job"]);
    assert_eq!(name(&place.submit("--directives file job")), "from-script");
    assert_eq!(name(&place.submit("--directives=off job.sh")), "job.sh");
    assert_eq!(args(&place.submit("--directives=off job.sh")), ["job.sh"]);
    let piped = place.submit("--directives stdin bash -s");
    assert_eq!((name(&piped), args(&piped)), ("from-script", vec!["bash".into(), "-s".into()]));
    assert_eq!(piped.spec.stdin, SCRIPT.as_bytes());
    assert_eq!(args(&place.submit("--directives stdin")), ["/bin/bash", "-e"]);
    assert_eq!(
        args(&place.submit("--cwd /else elsewhere.sh")),
        ["elsewhere.sh"],
        "the worker finds it there"
    );
    assert_eq!(args(&place.submit("step-%{TASK_ID}.sh")), ["step-%{TASK_ID}.sh"]);
}

#[test]
fn entries_of_the_command_line_are_all_taken_whatever_ids_a_script_names() {
    let script = "#!/bin/bash\n#HQ --array=1-10\n";
    let place = Place::new()
        .file("ids.sh", script)
        .file("lines.sh", "#HQ --each-line lines\n#HQ --array=1-2\n")
        .file("lines", "a\nb\nc\nd\ne\n")
        .file("elements", "[1, 2, 3]");
    let ids = |line: &str| match place.submit(line).ids {
        TaskIds::Given(ids) => ids.to_string(),
        TaskIds::Next(count) => format!("the next {count}"),
    };
    assert_eq!(ids("ids.sh"), "1-10");
    assert_eq!(ids("--each-line lines ids.sh"), "the next 5");
    assert_eq!(ids("--from-json elements ids.sh"), "the next 3");
    assert_eq!(ids("--each-line lines --array 2-3 ids.sh"), "2-3", "said together, one chooses of the other");
    assert_eq!(ids("lines.sh"), "1-2");
    assert_eq!(ids("--array 3-9 lines.sh"), "3-4");
    assert_eq!(ids("--from-json elements lines.sh"), "the next 3");
}

#[test]
fn a_script_is_found_from_another_working_directory() {
    let place = Place::new().file("job.sh", SCRIPT);
    let script = place.dir.path().join("job.sh").display().to_string();
    assert_eq!(args(&place.submit("--cwd /elsewhere job.sh")), ["/bin/bash", "-e", &script]);
}

#[test]
fn directives_as_workflow_managers_write_them() {
    let place = Place::new().file(
        ".command.run",
        "#!/bin/bash\n#HQ --name nf-task\n#HQ --cwd /work/a\\ b\n#HQ --resource mem=2048\n#HQ --cpus 4\n\
         #HQ --time-limit 3600sec\n#HQ --resource gpus=1\n### ---\n",
    );
    let submit = place.submit("--directives=file .command.run");
    assert_eq!(submit.spec.cwd, b"/work/a b");
    assert_eq!(submit.spec.requests[0].to_string(), "cpus: 4, gpus: 1, mem: 2 GiB");
    assert_eq!(submit.spec.time_limit, Some(Duration::from_secs(3600)));
    assert_eq!(args(&submit)[0], "/bin/bash");
}

#[test]
fn bad_directives_name_the_script() {
    let place = Place::new()
        .file("unknown.sh", "#HQ --nome x\n")
        .file("command.sh", "#HQ echo\n")
        .file("value.sh", "#HQ --cpus=none\n");
    for (line, word) in [("unknown.sh", "--nome"), ("command.sh", "echo"), ("value.sh", "--cpus")] {
        let error = place.error(line);
        assert!(error.starts_with(&format!("Could not parse directives from {line}: You have used invalid parameter(s) after a #HQ directive: ")), "{error}");
        assert!(error.contains(word) && !error.contains("--help"), "{error}");
    }
}

#[test]
fn directives_beyond_the_limit_are_refused_and_never_cut() {
    let last = "#HQ --array 1-123456\n";
    let before = |room: usize| format!("#HQ --name x\n#{}\n", "-".repeat(32 * 1024 - 15 - room));
    let script = |room: usize| format!("{}{last}", before(room));
    let long_line = format!("# {}\n", "x".repeat(100_000));
    let place = Place::new()
        .file("fits.sh", script(last.len() - 1))
        .file("cut.sh", script(8))
        .file("later.sh", script(0))
        .file("behind-a-long-line.sh", format!("{long_line}{last}"))
        .file("comments.sh", format!("#HQ --name x\n{long_line}# end\necho {long_line}{last}"));
    assert_eq!(place.submit("fits.sh").ids, TaskIds::Given(IdSet::range(1, 123_456)));
    for line in ["cut.sh", "later.sh", "behind-a-long-line.sh"] {
        let expected = format!(
            "the #HQ lines of {line} extend beyond its first 32 KiB: move them up, before other comments, or give \
             these options on the command line"
        );
        assert_eq!(place.error(line), expected);
    }
    assert_eq!(name(&place.submit("comments.sh")), "x");
    let piped = Place::new().stdin(&script(8));
    assert!(piped.error("--directives stdin bash").contains("the #HQ lines of standard input extend beyond"));
}

#[test]
fn a_script_may_say_how_to_wait() {
    let place = Place::new().file("job.sh", "#HQ --wait --on-notify 'echo it'\n");
    let wait = place.prepared("job.sh").wait;
    assert!(wait.wait && !wait.progress);
    assert_eq!(wait.on_notify.as_deref(), Some("echo it"));
    let wait = place.prepared("--progress job.sh").wait;
    assert!(!wait.wait && wait.progress);
}

#[test]
fn json_has_the_same_keys() {
    let toml = "name = \"n\"\n[[task]]\ncommand = [\"a\"]\nstdin = \"x\"\n[[task.request]]\nresources = { cpus = 2, mem = \"1 GiB\" }\n";
    let json = r#"{"name": "n", "task": [{"command": ["a"], "stdin": [120],
        "request": [{"resources": {"cpus": 2, "mem": "1 GiB"}}]}]}"#;
    let of_json = |content| {
        prepare_json("job", content, None, b"/here").map_err(|error: OptionsError| error.to_string())
    };
    assert_eq!(
        of_json(json),
        prepare_file(Path::new("job"), toml, None, b"/here").map_err(|error| error.to_string())
    );
    assert!(of_json("{").expect_err("no JSON").starts_with("job: EOF while parsing"));
    let error = of_json(r#"{"task": [{"command": ["a"], "timelimit": 1}]}"#).expect_err("unknown");
    assert!(error.contains("unknown field `timelimit`"), "{error}");
}

#[test]
fn packed_functions_take_the_place_of_named_ones() {
    let task = |id: u32, more: &str| format!(r#"{{"id": {id}, "function": "call:t{id}"{more}}}"#);
    let tasks = [task(0, ""), task(1, ""), task(2, r#", "deps": [1]"#), task(3, "")].join(",");
    let read = |tasks: &str| {
        let content = format!(r#"{{"task": [{tasks}]}}"#);
        prepare_json("job", &content, None, b"/here").expect("a job")
    };
    let call = |code: &[u8], id: u32| PackedCall {
        name: "score".into(),
        code: code.to_vec(),
        arguments: id.to_string().into_bytes(),
    };
    let calls = |ids: &[u32]| ids.iter().map(|id| (hq_model::TaskId(*id), call(b"f", *id))).collect();
    let shown = |file: &PreparedFile| -> Vec<String> {
        let one = |submit: &Submit| {
            let entries: Vec<_> = submit.entries.iter().map(String::from_utf8_lossy).collect();
            format!(
                "{:?} {} {}",
                submit.ids,
                String::from_utf8_lossy(submit.spec.body.name()),
                entries.join(",")
            )
        };
        file.submits.iter().map(one).collect()
    };
    let mut graph = read(&tasks);
    assert_eq!(graph.pack(calls(&[0, 1, 2, 3])), Ok(()));
    let ids = |ids: &str| format!("{:?}", TaskIds::Given(ids.parse().expect("ids")));
    let alone = |id: &str| format!("{} score {id}", ids(id));
    assert_eq!(graph.submits.len(), shown(&graph).len());
    assert!(shown(&graph).contains(&alone("2")), "{:?}", shown(&graph));
    let mut array = read(&[task(0, ""), task(1, ""), task(2, "")].join(","));
    assert_eq!(array.pack(calls(&[0, 1, 2])), Ok(()));
    assert_eq!(shown(&array), [format!("{} score 0,1,2", ids("0-2"))]);
    let mut missing = read(&task(0, ""));
    assert_eq!(missing.pack(calls(&[0, 7])), Err("there is no task 7 for a function".to_owned()));
    let mut program = read(r#"{"command": ["a"]}"#);
    assert_eq!(program.pack(calls(&[0])), Err("task 0 is not a function".to_owned()));
}

#[test]
fn what_is_broadcast_is_replaced_where_it_is_known() {
    let place = Place::new();
    let prepared = place.prepared("--broadcast data --env 'A=%{BROADCAST_DIR}' cmd '%{BROADCAST_DIR}/data'");
    assert_eq!((prepared.broadcasts.len(), prepared.warnings), (1, Vec::new()));
    assert!(prepared.submit.spec.input_objects.is_empty(), "the server adds what has no number yet");
    let taken = place.submit("--broadcast 1@0:data --job 3 cmd");
    assert_eq!(taken.spec.input_objects[0].to_string(), "data=1@0:data->%{BROADCAST_DIR}/data");
    assert_eq!(
        place.warnings("--stdout '%{BROADCAST_DIR}/x' --broadcast data cmd"),
        ["%{BROADCAST_DIR} is not replaced in stdout path"]
    );
    assert_eq!(place.warnings("cmd '%{BROADCAST_DIR}'"), ["%{BROADCAST_DIR} is not replaced in the command"]);
    assert!(place.error("--broadcast data --job 3 cmd").contains("a path cannot be broadcast with --job"));
    assert!(place.error("--broadcast a/x --broadcast b/x cmd").contains("two broadcasts have the name `x`"));
}
