//! Functions as tasks: their name, arguments and interpreter, from options and job files.

use hq_model::body::{EntryKind, Function, Mpi};
use hq_model::{Body, Request};

use super::error::OptionsError;
use super::submit::SubmitOptions;
use crate::limits;

/// The interpreter of those who name none.
const PYTHON: &str = "python3";

/// Checks the name of a function.
///
/// # Errors
/// What is wrong with it.
pub(super) fn name(text: &str) -> Result<String, String> {
    let function = Function { name: text.into(), interpreter: vec![PYTHON.into()], ..Function::default() };
    match text.split_once(':') {
        Some((module, _)) if module.ends_with(".py") => {
            return Err(format!(
                "give the name of the module, not of its file: {}",
                text.replacen(".py:", ":", 1)
            ));
        }
        None if text.ends_with(".py") => {
            return Err(format!("give a function of the module: {}:NAME", text.trim_end_matches(".py")));
        }
        _ => {}
    }
    function.check().map(|()| text.to_owned()).map_err(|rule| format!("it {rule}"))
}

/// Checks the arguments of a function.
///
/// # Errors
/// What is wrong with them.
pub(super) fn arguments(text: &str) -> Result<String, String> {
    let value: serde_json::Value =
        serde_json::from_str(text).map_err(|error| format!("this is not valid JSON: {error}"))?;
    if text.len() > limits::FUNCTION_ARGUMENTS_MAX {
        return Err(format!(
            "{} bytes are too many: the maximum is {}",
            text.len(),
            limits::FUNCTION_ARGUMENTS_MAX
        ));
    }
    match value.is_array() || value.is_object() {
        true => Ok(text.to_owned()),
        false => Err(format!("use a list of arguments, [{text}], or an object of keyword arguments")),
    }
}

/// Splits the program of an interpreter from arguments for it, as a shell does.
///
/// # Errors
/// What is wrong with it.
pub(super) fn python(text: &str) -> Result<Vec<String>, String> {
    let words = shlex::split(text).ok_or("it has an unclosed quote")?;
    match words.first() {
        Some(program) if !program.is_empty() => Ok(words),
        _ => Err("give a program, for example venv/bin/python".to_owned()),
    }
}

/// The function that tasks call.
pub(super) fn body(
    name: String,
    arguments: Option<String>,
    python: Option<Vec<String>>,
    is_json: bool,
) -> Body {
    let interpreter = python.unwrap_or_else(|| vec![PYTHON.to_owned()]);
    Body::Function(Function {
        name,
        interpreter: interpreter.into_iter().map(String::into_bytes).collect(),
        code: Vec::new(),
        arguments: arguments.unwrap_or_default().into_bytes(),
        entry: if is_json { EntryKind::Json } else { EntryKind::Text },
        ..Function::default()
    })
}

/// The function that options name, if they name one; the rest of them must go with it.
///
/// # Errors
/// Which option does not.
pub(super) fn of_options(options: &SubmitOptions) -> Result<Option<(String, Option<String>)>, OptionsError> {
    let command = &options.command;
    let Some(name) = &command.function else {
        let of_functions = [
            (command.args_json.is_some(), "--args-json"),
            (command.mpi.is_some(), "--mpi"),
            (command.gather, "--gather"),
        ];
        return match of_functions.iter().find(|option| option.0) {
            Some((_, option)) => Err(OptionsError::Needs(option, "--function")),
            None => Ok(None),
        };
    };
    if let Some(word) = command.command.first() {
        return Err(OptionsError::FunctionAndCommand(word.to_string_lossy().into_owned()));
    }
    if command.directives.is_some() {
        return Err(OptionsError::Conflict("--function", "--directives"));
    }
    Ok(Some((name.clone(), command.args_json.clone())))
}

/// How a function is called by its ranks.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct OnRanks {
    pub(super) mpi: Option<Mpi>,
    pub(super) gathers: bool,
}

/// Which world its ranks are.
///
/// # Errors
/// When it is none.
pub(super) fn mpi(text: &str) -> Result<Mpi, String> {
    match text {
        "warm" => Ok(Mpi::Warm),
        "world" => Ok(Mpi::World),
        _ => Err("it must be warm or world".to_owned()),
    }
}

/// Says how the ranks of a function call it; nothing of a program.
///
/// # Errors
/// When it has none, or they would be no world of MPI.
pub(super) fn set_ranks(
    body: &mut Body,
    requests: &[Request],
    launcher: &str,
    said: OnRanks,
) -> Result<(), OptionsError> {
    let Body::Function(function) = body else {
        return match said.mpi.is_some() || said.gathers {
            true => Err(OptionsError::Needs("--mpi or --gather", "--function")),
            false => Ok(()),
        };
    };
    if requests.iter().any(|request| request.nodes > 0 && request.ranks == 0) {
        return Err(OptionsError::Needs("--nodes of a function", "--ranks or --ranks-per-node"));
    }
    let has_ranks = requests.iter().any(|request| request.ranks > 0);
    let without =
        [(said.mpi.is_some(), "--mpi"), (said.gathers, "--gather"), (!launcher.is_empty(), "--launcher")];
    if let Some((_, option)) = without.iter().find(|option| option.0 && !has_ranks) {
        return Err(OptionsError::Needs(option, "--ranks or --ranks-per-node"));
    }
    if has_ranks && ["direct", "none"].contains(&launcher) {
        return Err(OptionsError::Conflict(
            "--function",
            "--launcher direct or none, which do not start MPI",
        ));
    }
    (function.mpi, function.gathers) = (said.mpi.unwrap_or_default(), said.gathers);
    Ok(())
}

/// What of tasks a function cannot have.
pub(super) fn check(task: &super::task::TaskOptions) -> Result<(), OptionsError> {
    let excluded = [
        (task.execution.stdin.is_some(), "--stdin"),
        (task.execution.service, "--service"),
        (!task.objects.left.is_empty(), "--output-object"),
        (!task.objects.taken.is_empty(), "--input-object"),
        (!task.objects.broadcasts.is_empty(), "--broadcast"),
    ];
    match excluded.iter().find(|excluded| excluded.0) {
        Some((_, option)) => Err(OptionsError::Conflict("--function", option)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_checked_where_they_are_given() {
        assert_eq!(name("lab.score:main").as_deref(), Ok("lab.score:main"));
        assert_eq!(
            name("score.py:main").unwrap_err(),
            "give the name of the module, not of its file: score:main"
        );
        assert_eq!(name("score.py").unwrap_err(), "give a function of the module: score:NAME");
        assert!(name("score").unwrap_err().starts_with("it must be a module and a function"));
        assert_eq!(arguments("[1, 2]").as_deref(), Ok("[1, 2]"));
        assert!(arguments("{\"k\": 1}").is_ok());
        assert_eq!(
            arguments("5").unwrap_err(),
            "use a list of arguments, [5], or an object of keyword arguments"
        );
        assert!(arguments("[1").unwrap_err().starts_with("this is not valid JSON: "));
        assert_eq!(python("apptainer exec 'my image' python3").map(|words| words.len()), Ok(4));
        assert!(python("").is_err() && python("'x").is_err());
    }
}
