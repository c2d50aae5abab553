//! Every screen at several sizes, as text. The documentation shows some of these.

use hq_core::attempt::{AttemptEnd, PastAttempt};
use hq_core::client_messages::ClientResponse;
use hq_model::{Channel, Instance, JobId, TaskId, TaskRef, Timestamp, WorkerId};
use ratatui::Terminal;
use ratatui::backend::TestBackend;

use super::super::model::tests::{campaign, press, settle};
use super::super::model::{Key, Link, Model, Replay, Screen};
use super::super::wants::Want;
use super::{Places, SIZE_MIN, Theme, draw};
use crate::render::tests::at;

const NOW_MS: u64 = 99_000;

fn shown(model: &Model, width: u16, height: u16) -> String {
    drawn(model, width, height).0
}

fn drawn(model: &Model, width: u16, height: u16) -> (String, Places) {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("memory");
    let mut places = Places::new();
    let theme = Theme { has_colors: false };
    terminal.draw(|frame| places = draw(frame, model, theme, NOW_MS)).expect("memory");
    let buffer = terminal.backend().buffer();
    let line = |y| (0..width).map(|x| buffer[(x, y)].symbol().to_owned()).collect::<String>();
    let lines: Vec<String> = (0..height).map(|y| line(y).trim_end().to_owned()).collect();
    (lines.join("\n"), places)
}

// A campaign on the screen that these keys lead to.
fn at_screen(keys: &[Key]) -> Model {
    let mut model = campaign();
    settle(&mut model, NOW_MS);
    for key in keys {
        press(&mut model, &[*key]);
        settle(&mut model, NOW_MS);
    }
    model
}

const JOBS: Key = Key::Char('2');
const DOCK: [Key; 5] = [JOBS, Key::Down, Key::Down, Key::Down, Key::Enter];

fn all_screens() -> Vec<(&'static str, Model)> {
    let task = |task| {
        let mut model = at_screen(&DOCK);
        model.screens.push(Screen::Task(TaskRef::new(JobId(2), TaskId(task))));
        settle(&mut model, NOW_MS);
        model
    };
    vec![
        ("overview", at_screen(&[])),
        ("jobs", at_screen(&[JOBS])),
        ("job", at_screen(&DOCK)),
        ("graph", at_screen(&[&DOCK[..], &[Key::Char('g')]].concat())),
        ("task", task(4)),
        ("waiting task", task(3)),
        ("workers", at_screen(&[Key::Char('3')])),
        ("queues", at_screen(&[Key::Char('4')])),
        ("help", at_screen(&[JOBS, Key::Char('?')])),
        ("question", at_screen(&[JOBS, Key::Char('c')])),
    ]
}

// The page with what is drawn in its blocks.
fn page_with_screens(page: &str) -> String {
    let screens = all_screens();
    let mut parts = page.split("<!-- screen ");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (name, rest) = part.split_once(" -->\n```text\n").expect("a block after the mark");
        let (_, after) = rest.split_once("```").expect("the end of a block");
        let (_, model) = screens.iter().find(|screen| screen.0 == name).expect("a screen of this name");
        out.push_str(&format!(
            "<!-- screen {name} -->\n```text\n{}\n```{after}",
            shown(model, 80, 24).trim_end()
        ));
    }
    out
}

#[test]
fn the_page_shows_what_is_drawn() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/dashboard.md");
    let page = std::fs::read_to_string(&path).expect("the page");
    let expected = page_with_screens(&page);
    if std::env::var("INSTA_UPDATE").is_ok_and(|word| word == "always") {
        std::fs::write(&path, &expected).expect("the page can be written");
    } else {
        assert_eq!(page, expected, "INSTA_UPDATE=always writes it");
    }
}

#[test]
fn screens_of_80_columns() {
    for (name, model) in all_screens() {
        insta::assert_snapshot!(format!("80x24_{}", name.replace(' ', "_")), shown(&model, 80, 24));
    }
}

#[test]
fn narrow_screens_keep_names() {
    for (width, height) in [(60, 20), (40, 15)] {
        for (name, model) in all_screens() {
            let name = format!("{width}x{height}_{}", name.replace(' ', "_"));
            insta::assert_snapshot!(name, shown(&model, width, height));
        }
    }
}

#[test]
fn screens_of_300_columns() {
    for (name, model) in all_screens() {
        insta::assert_snapshot!(format!("300x80_{}", name.replace(' ', "_")), shown(&model, 300, 80));
    }
}

#[test]
fn a_terminal_that_is_too_small_is_told_so() {
    insta::assert_snapshot!("20x10", shown(&campaign(), 20, 10));
}

#[test]
fn no_size_is_too_much_or_too_little() {
    let models: Vec<Model> = all_screens().into_iter().map(|(_, model)| model).collect();
    for width in [1, 2, 19, SIZE_MIN.0 - 1, SIZE_MIN.0, 41, 60, 99, 100, 301] {
        for height in [1, 2, 5, SIZE_MIN.1 - 1, SIZE_MIN.1, 13, 17, 18, 100] {
            for model in &models {
                shown(model, width, height);
            }
        }
    }
}

#[test]
fn an_empty_server_says_what_comes_first() {
    let mut model = Model::new(Link::Live);
    model.hear_overview(
        NOW_MS,
        hq_core::client_messages::Overview {
            uid: "a1B2c3".into(),
            version: "0.1.0".into(),
            now: at(0),
            ..Default::default()
        },
    );
    let empty = |model: &mut Model, key: char, want: Want, answer: ClientResponse| {
        press(model, &[Key::Char(key)]);
        model.due(NOW_MS);
        model.hear(NOW_MS, want, Ok(answer));
        shown(model, 80, 12)
    };
    let none = ClientResponse::Alloc(hq_core::alloc::messages::AllocResponse::Queues(Vec::new()));
    let screens = [
        shown(&model, 80, 16),
        empty(&mut model, '2', Want::Jobs, ClientResponse::JobList(Vec::new())),
        empty(&mut model, '3', Want::Workers, ClientResponse::Workers(Vec::new())),
        empty(&mut model, '4', Want::Queues, none),
    ];
    insta::assert_snapshot!("empty", screens.join("\n"));
}

#[test]
fn trouble_is_said_above_everything() {
    let mut model = campaign();
    let first = |model: &Model| shown(model, 80, 24).lines().nth(1).unwrap_or_default().to_owned();
    model.say(NOW_MS, "Job 3 is canceled".into());
    let mut said = vec![first(&model)];
    model.message = None;
    if let Some((overview, _)) = &mut model.overview {
        overview.process.journal_fails = true;
    }
    said.push(first(&model));
    model.hear_lost(NOW_MS - 65_000, "connection refused".into());
    said.push(first(&model));
    let replay =
        Replay { begin: at(0), end: at(400), at: at(100), speed: 8.0, is_paused: true, damage: None };
    model.link = Link::Replay(replay.clone());
    said.push(first(&model));
    model.link = Link::Replay(Replay { damage: Some("damaged at byte 17".into()), ..replay });
    said.push(first(&model));
    model.link = Link::Connecting;
    said.push(first(&model));
    insta::assert_snapshot!("trouble", said.join("\n"));
}

#[test]
fn names_of_others_reach_no_terminal_as_they_are() {
    for (name, model) in all_screens() {
        let shown = shown(&model, 300, 80);
        let bad = |char: char| char.is_control() && char != '\n' || ('\u{202a}'..='\u{202e}').contains(&char);
        assert!(!shown.contains(bad), "{name}: {shown}");
    }
    assert!(shown(&at_screen(&[JOBS]), 80, 24).contains("evil ␛[31m"));
    let output = Want::Output(TaskRef::new(JobId(2), TaskId(4)), Channel::Stdout);
    assert!(matches!(super::super::model::tests::answer(output), ClientResponse::Output(_)));
}

#[test]
fn clicks_find_what_was_drawn() {
    let mut model = at_screen(&[JOBS]);
    let (text, places) = drawn(&model, 80, 24);
    let row = text.lines().position(|line| line.contains("dock")).expect("a line") as u16;
    let key = |column, row| {
        let at = ratatui::layout::Position::new(column, row);
        places.iter().find(|(area, _)| area.contains(at)).map(|(_, key)| *key)
    };
    let line = key(20, row).expect("a line");
    press(&mut model, &[line]);
    assert_eq!(model.jobs[model.line()].job, JobId(2));
    press(&mut model, &[line]);
    assert_eq!(model.screen(), Screen::Job(JobId(2)), "a second click opens it");
    press(&mut model, &[key(3, 0).expect("a tab")]);
    assert_eq!(model.screen(), Screen::Overview);
    assert_eq!(key(79, 23), None);
}

#[test]
fn of_a_long_list_only_lines_with_room_are_made() {
    let mut model = at_screen(&[JOBS]);
    let one = model.jobs[0].clone();
    model.jobs = vec![one; 1000];
    press(&mut model, &[Key::End]);
    let (_, places) = drawn(&model, 80, 24);
    let lines = places.iter().filter(|(_, key)| matches!(key, Key::Line(_))).count();
    assert!(lines <= 22, "{lines}");
    assert!(places.iter().any(|(_, key)| *key == Key::Line(999)), "the chosen line is seen");
}

#[test]
fn a_task_that_ran_before_tells_its_attempts_the_latest_first() {
    let attempt = |instance, end| PastAttempt {
        task: TaskId(4),
        instance: Instance(instance),
        worker: Some(WorkerId(3)),
        nodes: Vec::new(),
        started: Some(Timestamp(1_000_000)),
        ended: Timestamp(3_000_000),
        end,
        error: String::new(),
    };
    let mut model = at_screen(&DOCK);
    model.screens.push(Screen::Task(TaskRef::new(JobId(2), TaskId(4))));
    settle(&mut model, NOW_MS);
    let task = model.task.as_mut().expect("a task");
    task.attempts = vec![attempt(0, AttemptEnd::WorkerLost), attempt(1, AttemptEnd::Superseded)];
    let screen = shown(&model, 100, 30);
    let line = |text: &str| {
        screen.lines().position(|line| line.contains(text)).unwrap_or_else(|| panic!("{screen}"))
    };
    let lost = line("instance 0: worker 3, started ");
    let other = line("after 2s another attempt finished first");
    assert!(other < lost, "{screen}");
    // Half of a small screen is for what it prints.
    assert!(shown(&model, 80, 24).contains("Standard output"));
}
