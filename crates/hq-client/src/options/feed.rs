//! Jobs whose tasks a generator makes as they are needed, and whose results a reducer takes: the options, and what is
//! submitted for them.

use std::time::Duration;

use clap::{Args, ValueEnum};
use hq_model::job::{Target, TaskIds};
use hq_model::result::ResultFrom;
use hq_model::task::CrashLimit;
use hq_model::{Body, ByteString, IdSet, JobSpec, OnClose, OutputSink, Request, Submit, TaskSpec, duration};

use super::error::OptionsError;

/// What stands for the worker's own program in the command of a generator or a reducer.
const HQ: &[u8] = b"%{HQ}";
/// Words between commands of a shell.
const SHELL_OPERATORS: [&str; 9] = [";", "|", "||", "&", "&&", ">", ">>", "<", "2>"];
/// So long a generator is ahead unless something else is said.
pub const AHEAD_DEFAULT: Ahead = Ahead::Time(Duration::from_secs(5));

/// Generator and reducer.
#[derive(Args, Clone, Debug, Default, PartialEq)]
#[command(next_help_heading = "Generator and reducer")]
pub struct FeedOptions {
    /// Create a task for each line that this command prints, as tasks are needed
    ///
    /// The command is split into words like in a shell, but not run by one; use `sh -c '...'` for that. It runs as a
    /// separate task on a worker, and its output is read only as far ahead as --ahead allows. Each line is the entry
    /// of its task (HQ_ENTRY, %{ENTRY}). A line `#hq cursor TEXT` saves its position: if it is restarted after a
    /// failure, it finds TEXT in HQ_CURSOR, and in HQ_GENERATED the number of lines after that position that have
    /// already been read and will be skipped.
    ///
    /// Example: `--generate './spaces.sh 5' --result last-line --reduce ./best.sh -- ./search`.
    #[arg(long, value_name = "COMMAND", value_parser = command)]
    pub generate: Option<Words>,
    /// Each line of --generate is a JSON object: `entry`, and perhaps `key`, `kind`, `resources`, `priority`, `expect` and `locality`
    ///
    /// A line that repeats an earlier `key` creates no task. `kind` is cpu, gpu or io; `resources` is an object such
    /// as `{"cpus": 2}`.
    #[arg(long)]
    pub generate_json: bool,
    /// How far ahead --generate runs: a number of waiting tasks, or a duration [default: 5s]
    ///
    /// With a duration, as many tasks as end in that time at the current rate: at least twice the number of CPUs, and
    /// at most 100000.
    #[arg(long, value_name = "N|DURATION", value_parser = ahead)]
    pub ahead: Option<Ahead>,
    /// Pass each ended task of --generate to this command as a line of JSON: `task`, `entry`, `state`, `result`
    ///
    /// The command runs as a separate task. If it prints a line `#hq saved N TEXT`, TEXT is its state after the first
    /// N lines: if restarted, it finds TEXT in HQ_STATE and reads the lines after those. If it prints `#hq end`, the
    /// rest of the job is canceled. Its input ends when the job ends, and its last line is the result of the job.
    #[arg(long, value_name = "COMMAND", value_parser = command)]
    pub reduce: Option<Words>,
    /// Also pass failed and canceled tasks to --reduce
    #[arg(long)]
    pub reduce_failed: bool,
    /// Order in which --reduce receives tasks [default: as they end]
    #[arg(long, value_name = "ORDER")]
    pub reduce_order: Option<ReduceOrder>,
}

/// In which order a reducer gets ended tasks.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReduceOrder {
    /// By task id
    Id,
}

/// A command as words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Words(pub Vec<String>);

impl Words {
    // Said where a word of it is one that only a shell understands, and none is named.
    fn for_a_shell(&self, what: &str) -> Option<String> {
        let [program, arguments @ ..] = &self.0[..] else { return None };
        let is_operator = |word: &str| SHELL_OPERATORS.contains(&word);
        let ends_a_command = |word: &String| word.len() > 1 && word.ends_with(';');
        let word = self.0.iter().find(|word| is_operator(word) || ends_a_command(word))?;
        let is_script = arguments.iter().any(|word| word == "-c");
        (!is_script).then(|| {
            format!(
                "{what} is split into words and not run by a shell: `{program}` gets {}. To use a shell, write \
                 {what} \"sh -c '…'\".",
                if word == program { "the words after it as arguments".to_owned() } else { format!("`{word}` as an \
                    argument") }
            )
        })
    }
}

/// How far a generator is ahead of the tasks that run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ahead {
    /// So many tasks wait.
    Tasks(u64),
    /// As many as end in this time.
    Time(Duration),
}

impl std::fmt::Display for Ahead {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Ahead::Tasks(count) => write!(f, "{count}"),
            Ahead::Time(time) => write!(f, "{}ms", time.as_millis()),
        }
    }
}

/// The value of `--generate` and `--reduce`.
///
/// # Errors
/// When there is no word in it, or a quote is not closed.
pub fn command(text: &str) -> Result<Words, String> {
    match shlex::split(text) {
        Some(words) if !words.is_empty() => Ok(Words(words)),
        Some(_) => Err("it names no program".to_owned()),
        None => Err("it has an unclosed quote".to_owned()),
    }
}

/// The value of `--ahead`.
///
/// # Errors
/// When it is neither a number of tasks nor a time, or nothing could ever be made.
pub fn ahead(text: &str) -> Result<Ahead, String> {
    let ahead = match text.parse::<u64>() {
        Ok(count) => Ahead::Tasks(count),
        Err(error) if *error.kind() == std::num::IntErrorKind::PosOverflow => {
            return Err(format!("at most {} tasks can wait", u64::MAX));
        }
        Err(_) => Ahead::Time(duration::parse(text).map_err(|error| {
            format!("{error}; give a number of tasks, such as 1000, or a duration, such as 5s")
        })?),
    };
    match ahead {
        Ahead::Tasks(0) => Err("with 0, no task would ever be created; use at least 1".to_owned()),
        Ahead::Time(Duration::ZERO) => {
            Err("with a duration of zero, no task would ever be created".to_owned())
        }
        ahead => Ok(ahead),
    }
}

impl FeedOptions {
    pub(super) fn over(self, script: FeedOptions) -> FeedOptions {
        FeedOptions {
            generate: self.generate.or(script.generate),
            generate_json: self.generate_json || script.generate_json,
            ahead: self.ahead.or(script.ahead),
            reduce: self.reduce.or(script.reduce),
            reduce_failed: self.reduce_failed || script.reduce_failed,
            reduce_order: self.reduce_order.or(script.reduce_order),
        }
    }

    /// Commands that look as if they were for a shell.
    pub(super) fn warnings(&self) -> Vec<String> {
        let both = [("--generate", &self.generate), ("--reduce", &self.reduce)];
        let commands = both.into_iter().filter_map(|(what, words)| Some((what, words.as_ref()?)));
        commands.filter_map(|(what, words)| words.for_a_shell(what)).collect()
    }

    /// What is submitted for a job with these tasks: nothing where no generator is named.
    pub(super) fn fed(&self, template: &Submit) -> Result<Option<Fed>, OptionsError> {
        let needs =
            |is_there, what, other| if is_there { Err(OptionsError::Needs(what, other)) } else { Ok(()) };
        if self.reduce.is_none() {
            needs(self.reduce_failed, "--reduce-failed", "--reduce")?;
            needs(self.reduce_order.is_some(), "--reduce-order", "--reduce")?;
        }
        let Some(Words(words)) = &self.generate else {
            needs(self.generate_json, "--generate-json", "--generate")?;
            needs(self.ahead.is_some(), "--ahead", "--generate")?;
            needs(self.reduce.is_some(), "--reduce", "--generate")?;
            return Ok(None);
        };
        let Target::New(spec) = &template.target else {
            return Err(OptionsError::Conflict("--generate", "--job: it creates its own job"));
        };
        if !template.keys.is_empty() {
            return Err(OptionsError::Conflict("--generate", "--key"));
        }
        let mut options: Vec<ByteString> = vec![b"generate".to_vec()];
        if self.generate_json {
            options.push(b"--json".to_vec());
        }
        options.push(format!("--ahead={}", self.ahead.unwrap_or(AHEAD_DEFAULT)).into());
        let mut generator = own_submit(template, spec, "generate", options, words);
        let mut taken_along = template.clone();
        taken_along.dependencies = Default::default();
        let task = std::sync::Arc::make_mut(&mut generator.spec);
        task.stdin = hq_proto::encode_submit(&taken_along);
        let reducer = self.reduce.as_ref().map(|Words(words)| {
            let mut options: Vec<ByteString> = vec![b"reduce".to_vec()];
            if self.reduce_failed {
                options.push(b"--failed".to_vec());
            }
            if self.reduce_order == Some(ReduceOrder::Id) {
                options.push(b"--in-order".to_vec());
            }
            if template.spec.body.function().is_some() {
                options.push(b"--json".to_vec());
            }
            let mut reducer = own_submit(template, spec, "reduce", options, words);
            let task = std::sync::Arc::make_mut(&mut reducer.spec);
            task.stdout = OutputSink::None;
            task.result = ResultFrom::LastLine;
            // It waits for the first end anyhow.
            reducer.dependencies = Default::default();
            reducer
        });
        Ok(Some(Fed { spec: spec.clone(), generator, reducer }))
    }
}

/// A job with a generator, and perhaps a reducer.
#[derive(Clone, Debug, PartialEq)]
pub struct Fed {
    /// Name and limits of the job.
    pub spec: JobSpec,
    /// Makes its tasks.
    pub generator: Submit,
    /// Takes their results.
    pub reducer: Option<Submit>,
}

// One task of a job of its own.
fn own_submit(
    template: &Submit,
    spec: &JobSpec,
    what: &str,
    options: Vec<ByteString>,
    words: &[String],
) -> Submit {
    let command = [HQ.to_vec(), b"feed".to_vec()].into_iter().chain(options).chain([b"--".to_vec()]);
    let words = words.iter().map(|word| word.clone().into_bytes());
    let task = &template.spec;
    let file = |name: &str| OutputSink::File {
        path: format!("%{{CWD}}/job-%{{JOB_ID}}/{name}").into_bytes(),
        on_close: OnClose::RemoveIfEmpty,
    };
    let own = TaskSpec {
        body: Body::Program { args: command.chain(words).collect() },
        env: task.env.clone(),
        cwd: b"%{SUBMIT_DIR}".to_vec(),
        stderr: file(&format!("{what}.stderr")),
        requests: vec![Request::default()],
        priority: task.priority,
        kill_grace: task.kill_grace,
        crash_limit: CrashLimit::Unlimited,
        retry: task.retry.clone(),
        // What went wrong becomes the error of the task.
        task_dir: true,
        ..TaskSpec::default()
    };
    let name = format!("{}: {what}", spec.name);
    Submit {
        target: Target::New(JobSpec { name, ..JobSpec::default() }),
        ids: TaskIds::Given(IdSet::range(0, 0)),
        entries: Default::default(),
        keys: Default::default(),
        dependencies: template.dependencies.clone(),
        spec: own.into(),
        submit_dir: template.submit_dir.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_generator_is_ahead_by_tasks_or_by_time() {
        assert_eq!(ahead("7"), Ok(Ahead::Tasks(7)));
        assert_eq!(ahead("1.5s"), Ok(Ahead::Time(Duration::from_millis(1500))));
        let error = ahead("99999999999999999999").expect_err("too many");
        assert_eq!(error, "at most 18446744073709551615 tasks can wait");
        for text in ["0", "0s", "-1", "", "soon"] {
            assert!(ahead(text).is_err(), "{text}");
        }
        for shown in [Ahead::Tasks(9), Ahead::Time(Duration::from_millis(2500)), AHEAD_DEFAULT] {
            assert_eq!(ahead(&shown.to_string()), Ok(shown));
        }
    }

    #[test]
    fn a_command_is_split_as_a_shell_does() {
        assert_eq!(command("./a 'b c' \"d\""), Ok(Words(vec!["./a".into(), "b c".into(), "d".into()])));
        for text in ["", "  ", "./a 'b"] {
            assert!(command(text).is_err(), "{text}");
        }
    }

    #[test]
    fn commands_that_are_for_a_shell_are_warned_of() {
        let told = |text: &str| command(text).expect("words").for_a_shell("--generate").unwrap_or_default();
        for (text, expected) in [
            ("a ; b", "`a` gets `;` as an argument"),
            ("a 1; b", "`a` gets `1;` as an argument"),
            ("a; b", "`a;` gets the words after it as arguments"),
            ("seq 3 | sort", "`seq` gets `|` as an argument"),
            ("a && b", "`a` gets `&&` as an argument"),
            ("a > b", "`a` gets `>` as an argument"),
        ] {
            assert!(told(text).contains(expected), "{text}: {}", told(text));
        }
        for text in [
            "./a b",
            "sh -c 'a; b'",
            "sh -c 'a;' x",
            "bash -c \"a | b\" ;",
            "awk '{ print $1 }'",
            "./a 'b; c'",
        ] {
            assert_eq!(told(text), "", "{text}");
        }
    }
}
