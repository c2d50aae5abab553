//! What keys and clicks change, and what they order.

use hq_core::alloc::messages::QueueStatus;
use hq_model::{Channel, JobState, TaskRef, TaskState};

use super::super::series::Series;
use super::super::wants::Action;
use super::{Link, Mode, Model, Screen, Sort};

/// Lines that PgUp and PgDn move by.
const PAGE: usize = 10;
/// Characters that are searched for.
const SEARCH_MAX: usize = 100;
/// States by which jobs are filtered, in turn; at first all.
const JOB_FILTERS: [&[JobState]; 4] = [
    &[],
    &[JobState::Running, JobState::Waiting, JobState::Opened],
    &[JobState::Failed, JobState::Aborted, JobState::Canceled],
    &[JobState::Finished],
];
/// States by which tasks are, likewise.
const TASK_FILTERS: [Option<TaskState>; 5] = [
    None,
    Some(TaskState::Running),
    Some(TaskState::Failed),
    Some(TaskState::Waiting),
    Some(TaskState::Finished),
];

/// A key, or what a mouse does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Key {
    /// A letter or another sign.
    Char(char),
    /// What it says.
    Enter,
    /// What it says.
    Escape,
    /// What it says.
    Backspace,
    /// What it says.
    Up,
    /// What it says.
    Down,
    /// What it says.
    Left,
    /// What it says.
    Right,
    /// What it says.
    PageUp,
    /// What it says.
    PageDown,
    /// What it says.
    Home,
    /// What it says.
    End,
    /// What it says.
    Tab,
    /// Ctrl-C.
    Interrupt,
    /// A click on a line of the list.
    Line(usize),
    /// A click on the name of a screen.
    Screen(Screen),
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Order {
    /// Order it of the server.
    Act(Action),
    /// End.
    Quit,
    /// Let the replay stand still, or go on.
    Pause,
    /// Replay faster or slower by this factor.
    Speed(f64),
    /// Go to this part of the past, from 0 to 1.
    Seek(f64),
}

impl Model {
    /// Takes a key.
    pub(crate) fn key(&mut self, key: Key) -> Option<Order> {
        if key == Key::Interrupt {
            return Some(Order::Quit);
        }
        match self.mode.clone() {
            Mode::Choose => self.choose_by(key),
            Mode::Search => {
                self.search_by(key);
                None
            }
            Mode::Confirm(action) => match key {
                Key::Char('y' | 'Y') => {
                    self.mode = Mode::Choose;
                    Some(Order::Act(action))
                }
                Key::Char('n' | 'N' | 'q') | Key::Escape | Key::Backspace => {
                    self.mode = Mode::Choose;
                    None
                }
                // Enter alone must not cancel anything.
                _ => None,
            },
            Mode::Help => {
                self.mode = Mode::Choose;
                None
            }
        }
    }

    fn choose_by(&mut self, key: Key) -> Option<Order> {
        if let Link::Replay(replay) = &self.link {
            let span = replay.end.since(replay.begin).as_secs_f64().max(1e-6);
            let at = replay.at.since(replay.begin).as_secs_f64() / span;
            match key {
                Key::Char(' ') => return Some(Order::Pause),
                Key::Char('+' | '=') => return Some(Order::Speed(2.0)),
                Key::Char('-') => return Some(Order::Speed(0.5)),
                Key::Left => return Some(Order::Seek((at - 0.02).max(0.0))),
                Key::Right => return Some(Order::Seek((at + 0.02).min(1.0))),
                Key::Char('<') => return Some(Order::Seek(0.0)),
                Key::Char('>') => return Some(Order::Seek(1.0)),
                _ => {}
            }
        }
        match key {
            Key::Char('q') => return Some(Order::Quit),
            Key::Char('?' | 'h') => self.mode = Mode::Help,
            Key::Char(char) if Screen::TABS.iter().any(|tab| tab.0 == char) => {
                let tab = Screen::TABS.into_iter().find(|tab| tab.0 == char);
                tab.into_iter().for_each(|tab| self.go(tab.2));
            }
            Key::Tab => {
                let root = self.screens.first();
                let place = Screen::TABS.iter().position(|tab| Some(&tab.2) == root).unwrap_or(0);
                self.go(Screen::TABS[(place + 1) % Screen::TABS.len()].2);
            }
            Key::Screen(screen) => self.go(screen),
            // The keys of other dashboards.
            Key::Char('j') => self.go(Screen::Jobs),
            Key::Char('w') => self.go(Screen::Workers),
            Key::Char('a') => self.go(Screen::Queues),
            Key::Escape | Key::Backspace => self.back(),
            Key::Up => self.choose(self.line().saturating_sub(1)),
            Key::Down => self.choose(self.line() + 1),
            Key::PageUp => self.choose(self.line().saturating_sub(PAGE)),
            Key::PageDown => self.choose(self.line() + PAGE),
            Key::Home => self.choose(0),
            Key::End => self.choose(usize::MAX),
            Key::Line(line) if line == self.line() => self.open(),
            Key::Line(line) => self.choose(line),
            Key::Enter => self.open(),
            Key::Char('/') if self.screen() == Screen::Jobs => self.mode = Mode::Search,
            Key::Char('s') => self.sort_by_next(),
            Key::Char('f') => self.filter_by_next(),
            Key::Char('g') if matches!(self.screen(), Screen::Job(_)) => self.shows_graph = !self.shows_graph,
            Key::Char('e') if matches!(self.screen(), Screen::Task(_)) => {
                self.channel = match self.channel {
                    Channel::Stdout => Channel::Stderr,
                    Channel::Stderr => Channel::Stdout,
                };
                self.output = None;
            }
            Key::Char(char) => self.ask_before(char),
            _ => {}
        }
        None
    }

    fn search_by(&mut self, key: Key) {
        match key {
            Key::Char(char) if self.search.chars().count() < SEARCH_MAX => self.search.push(char),
            Key::Backspace => drop(self.search.pop()),
            Key::Escape => {
                self.search.clear();
                self.mode = Mode::Choose;
            }
            Key::Enter => self.mode = Mode::Choose,
            _ => return,
        }
        self.forget_answers();
    }

    // Keys that change something in the cluster.
    fn ask_before(&mut self, char: char) {
        let action = match char {
            'c' => self.chosen_job().map(Action::Cancel),
            'r' => self.chosen_job().map(Action::Resubmit),
            'd' => self.chosen_worker().map(Action::Drain),
            'p' => self.chosen_queue().map(|(id, queue)| match queue.status {
                QueueStatus::Paused(..) => Action::Resume(id),
                _ => Action::Pause(id),
            }),
            _ => None,
        };
        if let Some(action) = action.filter(|_| !self.is_read_only) {
            self.mode = Mode::Confirm(action);
        }
    }

    fn go(&mut self, screen: Screen) {
        self.screens = vec![screen];
    }

    fn back(&mut self) {
        if self.screens.len() > 1 {
            self.screens.pop();
        } else if !self.search.is_empty() {
            self.search.clear();
            self.forget_answers();
        } else {
            self.go(Screen::Overview);
        }
    }

    fn open(&mut self) {
        match self.screen() {
            Screen::Jobs => {
                if let Some(job) = self.chosen_job() {
                    (self.job, self.failures, self.tasks) = (None, None, (Vec::new(), false));
                    (self.running, self.job_series) = (Vec::new(), Series::default());
                    (self.shape, self.shows_graph) = (None, false);
                    self.filter = None;
                    self.screens.push(Screen::Job(job));
                    self.choose(0);
                    self.forget_answers();
                }
            }
            Screen::Job(job) if !self.shows_graph => {
                if let Some(task) = self.tasks.0.get(self.line()).map(|task| task.task) {
                    (self.task, self.reasons, self.output) = (None, None, None);
                    self.screens.push(Screen::Task(TaskRef::new(job, task)));
                    self.forget_answers();
                }
            }
            Screen::Overview => self.go(Screen::Jobs),
            Screen::Job(_) | Screen::Task(_) | Screen::Workers | Screen::Queues => {}
        }
    }

    /// Chooses a line of the list.
    pub(super) fn choose(&mut self, line: usize) {
        let (place, before) = (self.place(), self.line());
        self.chosen.insert(place, line.min(self.lines().saturating_sub(1)));
        if self.screen() == Screen::Queues && self.line() != before {
            (self.allocations, self.explanation) = (Vec::new(), None);
        }
    }

    fn sort_by_next(&mut self) {
        if self.screen() == Screen::Jobs {
            self.sort = match self.sort {
                Sort::Latest => Sort::Name,
                Sort::Name => Sort::Busy,
                Sort::Busy => Sort::Failed,
                Sort::Failed => Sort::Latest,
            };
            self.sort_jobs();
        }
    }

    fn filter_by_next(&mut self) {
        match self.screen() {
            Screen::Jobs => {
                let place = JOB_FILTERS.iter().position(|states| *states == self.states).unwrap_or(0);
                self.states = JOB_FILTERS[(place + 1) % JOB_FILTERS.len()].to_vec();
            }
            Screen::Job(_) => {
                let place = TASK_FILTERS.iter().position(|state| *state == self.filter).unwrap_or(0);
                self.filter = TASK_FILTERS[(place + 1) % TASK_FILTERS.len()];
                self.choose(0);
            }
            _ => return,
        }
        self.forget_answers();
    }
}
