//! The shell of the dashboard: reads keys, asks, draws, and leaves the terminal as it was.

use std::io::{self, IsTerminal};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hq_client::session::request_key;
use hq_core::client_messages::{ClientRequest, ClientResponse};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{
    self, DisableMouseCapture, EnableMouseCapture, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers,
    MouseButton, MouseEventKind,
};
use ratatui::crossterm::execute;
use ratatui::layout::{Position, Rect};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

use super::model::{Key, Link, Model, Order};
use super::replay::Replayer;
use super::screens::{self, Places, Theme};
use super::source::{News, Question, Source};
use crate::error::HqError;
use crate::signals::Signals;

/// How long keys are waited for before the model is looked at again.
const TICK: Duration = Duration::from_millis(100);
/// How often times on the screen move on when nothing else happens.
const REDRAW: Duration = Duration::from_secs(1);
/// Lines that a turn of the wheel moves by.
const WHEEL: usize = 3;
/// Events that are taken before the screen is drawn again.
const EVENTS_AT_ONCE: usize = 256;

/// Exit code when the terminal is gone: what a shell tells of a program that SIGHUP ended.
const EXIT_HUNG_UP: i32 = 129;

/// How the dashboard looks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look {
    /// It may use colors.
    pub has_colors: bool,
    /// It takes clicks and the wheel; otherwise the terminal selects text.
    pub has_mouse: bool,
}

impl Look {
    /// Says why there can be no dashboard here.
    pub(crate) fn check(self) -> Result<Look, HqError> {
        let hint = "`hq job list`, `hq job progress` and `hq metrics` print the same to any output";
        if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
            let text = "the dashboard needs a terminal as its input and output";
            return Err(HqError::failed("no-terminal", text).hint(hint));
        }
        let term = std::env::var_os("TERM").filter(|term| !term.is_empty());
        match term.as_ref().map(|term| term.to_string_lossy()) {
            None => Err(HqError::failed(
                "no-terminal",
                "TERM is not set, so the abilities of this terminal are unknown",
            )
            .hint(hint)),
            Some(term) if term == "dumb" => {
                let text = "this terminal cannot position text (TERM is `dumb`)";
                Err(HqError::failed("no-terminal", text).hint(hint))
            }
            Some(_) => Ok(self),
        }
    }
}

/// Shows a server until the user ends it.
pub(crate) fn live(source: &Source, look: Look) -> Result<(), HqError> {
    let mut model = Model::new(Link::Connecting);
    run(&mut model, look, |model, now_ms, order| {
        let mut has_news = false;
        for news in source.news() {
            has_news = true;
            match news {
                News::Overview(overview) => model.hear_overview(now_ms, *overview),
                News::Lost(why) => model.hear_lost(now_ms, why),
                News::Answer(want, answer) => model.hear(now_ms, want, answer),
                News::Done(action, result) => model.hear_done(now_ms, action, result),
            }
        }
        if let Some(Order::Act(action)) = order {
            source.ask(Question::Action(action, action.request(request_key()?)));
        }
        for want in model.due(now_ms) {
            let request = want.request(&model.search, model.filter, &model.states);
            source.ask(Question::Want(want, request));
        }
        Ok(has_news)
    })
}

/// Shows a journal until the user ends it.
pub(crate) fn replayed(replayer: &mut Replayer, look: Look) -> Result<(), HqError> {
    let mut model = Model::new(Link::Replay(replayer.replay().clone()));
    let mut last_ms = 0;
    let mut is_new = true;
    run(&mut model, look, |model, now_ms, order| {
        let passed = Duration::from_millis(now_ms - std::mem::replace(&mut last_ms, now_ms));
        match order {
            Some(Order::Pause) => replayer.pause(),
            Some(Order::Speed(factor)) => replayer.speed(factor),
            Some(Order::Seek(part)) => {
                replayer.seek(part);
                model.forget_answers();
            }
            _ => {}
        }
        let has_changed = replayer.pass(passed) || order.is_some() || std::mem::take(&mut is_new);
        if has_changed {
            model.link = Link::Replay(replayer.replay().clone());
            if let Ok(ClientResponse::Overview(overview)) =
                replayer.ask(ClientRequest::Overview { seen: None })
            {
                model.hear_overview(now_ms, *overview);
            }
            model.series = replayer.series();
        }
        let due = model.due(now_ms);
        let has_asked = !due.is_empty();
        for want in due {
            let request = want.request(&model.search, model.filter, &model.states);
            model.hear(now_ms, want, replayer.ask(request));
        }
        Ok(has_changed || has_asked)
    })
}

// Runs until the user or a signal ends it. `turn` hears what has come, and says whether there was something.
fn run(
    model: &mut Model,
    look: Look,
    mut turn: impl FnMut(&mut Model, u64, Option<Order>) -> Result<bool, HqError>,
) -> Result<(), HqError> {
    let is_over = signals()?;
    end_with_the_terminal()?;
    let mut screen = Screen::open(look)?;
    let theme = Theme { has_colors: look.has_colors };
    let begin = Instant::now();
    let (mut places, mut drawn, mut orders) = (Places::new(), None::<Instant>, Vec::new());
    loop {
        let now_ms = begin.elapsed().as_millis() as u64;
        let mut is_changed = drawn.is_none_or(|drawn| drawn.elapsed() >= REDRAW);
        if orders.is_empty() {
            is_changed |= turn(model, now_ms, None)?;
        }
        for order in orders.drain(..) {
            if order == Order::Quit {
                return Ok(());
            }
            is_changed |= turn(model, now_ms, Some(order))?;
        }
        if is_over.load(Ordering::Relaxed) {
            return Ok(());
        }
        if is_changed {
            screen.terminal.draw(|frame| places = screens::draw(frame, model, theme, now_ms))?;
            drawn = Some(Instant::now());
        }
        let mut wait = TICK;
        for _ in 0..EVENTS_AT_ONCE {
            if !event::poll(wait)? {
                break;
            }
            wait = Duration::ZERO;
            for key in keys(&event::read()?, &places) {
                orders.extend(model.key(key));
            }
            drawn = None;
        }
    }
}

// Set once a signal wants the process to end: the terminal is put in order first.
fn signals() -> Result<Arc<AtomicBool>, HqError> {
    let is_over = Arc::<AtomicBool>::default();
    let flag = Arc::clone(&is_over);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut signals = runtime.block_on(async { Signals::catch() })?;
    std::thread::Builder::new().name("hq-signals".to_owned()).spawn(move || {
        runtime.block_on(signals.next());
        flag.store(true, Ordering::Relaxed);
    })?;
    Ok(is_over)
}

// Ends the process when its terminal is gone. Nothing of the terminal is left to put in order then, and whoever reads keys
// from it would read its end for ever.
fn end_with_the_terminal() -> io::Result<()> {
    let watch = || {
        let stdin = io::stdin();
        loop {
            // Of nothing that is asked for; that it was hung up is always told.
            let mut ends = [PollFd::new(&stdin, PollFlags::empty())];
            match poll(&mut ends, None) {
                Ok(_) if ends[0].revents().intersects(PollFlags::HUP | PollFlags::ERR) => {
                    std::process::exit(EXIT_HUNG_UP)
                }
                Ok(_) | Err(Errno::INTR) => {}
                Err(_) => return,
            }
        }
    };
    std::thread::Builder::new().name("hq-terminal".to_owned()).spawn(watch)?;
    Ok(())
}

// The terminal while the dashboard has it.
struct Screen {
    terminal: DefaultTerminal,
    has_mouse: bool,
}

impl Screen {
    fn open(look: Look) -> io::Result<Screen> {
        let screen = Screen { terminal: ratatui::try_init()?, has_mouse: look.has_mouse };
        if look.has_mouse {
            execute!(io::stdout(), EnableMouseCapture)?;
        }
        Ok(screen)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        if self.has_mouse {
            // A terminal that is gone needs no order.
            let _ = execute!(io::stdout(), DisableMouseCapture);
        }
        ratatui::restore();
    }
}

// An event as keys of the model.
fn keys(event: &Event, places: &Places) -> Vec<Key> {
    match event {
        Event::Key(key) if key.kind != KeyEventKind::Release => key_of(key).into_iter().collect(),
        Event::Mouse(mouse) => match mouse.kind {
            MouseEventKind::ScrollUp => vec![Key::Up; WHEEL],
            MouseEventKind::ScrollDown => vec![Key::Down; WHEEL],
            MouseEventKind::Down(MouseButton::Left) => {
                let at = Position::new(mouse.column, mouse.row);
                let hit = places.iter().find(|(area, _): &&(Rect, Key)| area.contains(at));
                hit.map(|(_, key)| *key).into_iter().collect()
            }
            _ => Vec::new(),
        },
        _ => Vec::new(),
    }
}

fn key_of(key: &KeyEvent) -> Option<Key> {
    if key.modifiers.contains(KeyModifiers::CONTROL) {
        return (key.code == KeyCode::Char('c')).then_some(Key::Interrupt);
    }
    Some(match key.code {
        KeyCode::Char(char) => Key::Char(char),
        KeyCode::Enter => Key::Enter,
        KeyCode::Esc => Key::Escape,
        KeyCode::Backspace => Key::Backspace,
        KeyCode::Up => Key::Up,
        KeyCode::Down => Key::Down,
        KeyCode::Left => Key::Left,
        KeyCode::Right => Key::Right,
        KeyCode::PageUp => Key::PageUp,
        KeyCode::PageDown => Key::PageDown,
        KeyCode::Home => Key::Home,
        KeyCode::End => Key::End,
        KeyCode::Tab => Key::Tab,
        _ => return None,
    })
}
