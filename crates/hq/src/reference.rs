//! The reference of the command line as Markdown, made from the same tree that reads it.

use std::fmt::Write;

use clap::{Arg, Command, CommandFactory};

use crate::cli::Cli;

/// The whole reference.
pub(crate) fn markdown() -> String {
    let mut root = Cli::command().term_width(100);
    root.build();
    let mut out = String::from(
        "# The `hq` command line\n\n\
         Generated from the program by `cargo xtask gen`; `hq COMMAND --help` shows the same.\n\n",
    );
    // The global options are said once, with the root.
    contents(&mut out, &root, &[]);
    command(&mut out, &root, &[], true);
    out
}

fn visible(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|sub| !sub.is_hide_set() && sub.get_name() != "help")
}

fn full_name(command: &Command, parents: &[&str]) -> String {
    let mut words = parents.to_vec();
    words.push(command.get_name());
    words.join(" ")
}

fn contents(out: &mut String, command: &Command, parents: &[&str]) {
    let name = full_name(command, parents);
    let anchor = name.replace(' ', "-");
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let about = about.lines().next().unwrap_or_default().trim_end_matches('.');
    let indent = "  ".repeat(parents.len());
    push(out, format_args!("{indent}- [`{name}`](#{anchor}): {about}\n"));
    let mut parents = parents.to_vec();
    parents.push(command.get_name());
    for sub in visible(command) {
        contents(out, sub, &parents);
    }
}

fn command(out: &mut String, command_: &Command, parents: &[&str], with_globals: bool) {
    let name = full_name(command_, parents);
    push(out, format_args!("\n## `{name}`\n\n"));
    if let Some(about) = command_.get_long_about().or(command_.get_about()) {
        push(out, format_args!("{}\n\n", about.to_string().trim_end()));
    }
    let usage = command_.clone().render_usage().to_string();
    let usage = usage.strip_prefix("Usage: ").unwrap_or(&usage);
    push(out, format_args!("```text\n{}\n```\n", usage.trim_end()));
    let args: Vec<&Arg> = command_
        .get_arguments()
        .filter(|arg| !arg.is_hide_set() && (with_globals || !arg.is_global_set()))
        .filter(|arg| !matches!(arg.get_id().as_str(), "help" | "version"))
        .collect();
    let mut headings: Vec<Option<&str>> = Vec::new();
    for arg in &args {
        if !headings.contains(&arg.get_help_heading()) {
            headings.push(arg.get_help_heading());
        }
    }
    for heading in headings {
        push(out, format_args!("\n**{}**\n\n", heading.unwrap_or("Arguments and options")));
        for arg in args.iter().filter(|arg| arg.get_help_heading() == heading) {
            argument(out, arg);
        }
    }
    if let Some(examples) = command_.get_after_long_help().or(command_.get_after_help()) {
        push(out, format_args!("\n```text\n{}\n```\n", examples.to_string().trim_end()));
    }
    let mut parents = parents.to_vec();
    parents.push(command_.get_name());
    for sub in visible(command_) {
        command(out, sub, &parents, false);
    }
}

fn argument(out: &mut String, arg: &Arg) {
    let mut names = Vec::new();
    if let Some(short) = arg.get_short() {
        names.push(format!("-{short}"));
    }
    let mut longs: Vec<&str> = arg.get_long().into_iter().collect();
    longs.extend(arg.get_visible_aliases().unwrap_or_default());
    names.extend(longs.iter().map(|long| format!("--{long}")));
    let takes_value = arg.get_action().takes_values();
    let values: Vec<String> =
        arg.get_value_names().unwrap_or_default().iter().map(ToString::to_string).collect();
    let value = values.join(" ");
    let is_optional = arg.get_num_args().is_some_and(|range| range.min_values() == 0);
    let shown = match (names.is_empty(), takes_value) {
        (true, _) => value,
        (false, false) => names.join(", "),
        (false, true) if is_optional => format!("{}[={value}]", names.join(", ")),
        (false, true) => format!("{} {value}", names.join(", ")),
    };
    let help = arg.get_long_help().or(arg.get_help()).map(ToString::to_string).unwrap_or_default();
    let mut paragraphs = help.split("\n\n").map(str::trim).filter(|p| !p.is_empty());
    push(out, format_args!("- `{shown}`: {}", paragraphs.next().unwrap_or_default()));
    for paragraph in paragraphs {
        push(out, format_args!("\n\n  {}", paragraph.replace('\n', "\n  ")));
    }
    let choices: Vec<_> =
        arg.get_possible_values().into_iter().filter(|choice| takes_value && !choice.is_hide_set()).collect();
    if !choices.is_empty() {
        push(out, format_args!("\n"));
        for choice in &choices {
            let help = choice.get_help().map(|h| format!(": {h}")).unwrap_or_default();
            push(out, format_args!("\n  - `{}`{help}", choice.get_name()));
        }
    }
    let defaults: Vec<String> =
        arg.get_default_values().iter().map(|v| v.to_string_lossy().into_owned()).collect();
    if takes_value && !defaults.is_empty() {
        push(out, format_args!("\n\n  Default: `{}`", defaults.join(" ")));
    }
    if let Some(env) = arg.get_env() {
        push(out, format_args!("\n\n  Environment: `{}`", env.to_string_lossy()));
    }
    out.push('\n');
}

fn push(out: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = out.write_fmt(text);
}
