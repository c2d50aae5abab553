//! The page of `hq dashboard --web` in a browser, of a cluster of a thousand workers with a million tasks: when it is painted
//! and has its numbers, how long what happens takes to be seen, and what it costs the browser.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use hq_browser::Browser;
use serde_json::{Value, json};

use crate::cluster::{Bench, Cluster};
use crate::measure::median_of;
use crate::row::{BoxError, Row};
use crate::storm;

const WORKERS: u32 = 1000;
const TASKS: u32 = 1_000_000;
const ROUNDS: usize = 5;
/// The page is quiet for so long before something happens.
const QUIET: Duration = Duration::from_millis(1500);
/// Frames are counted for so long.
const WATCHED: Duration = Duration::from_secs(5);
/// A page of one word.
const WORD: &str = "data:text/html,<p>word</p>";
const PAINTED: &str = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? null";

/// All of that.
///
/// # Errors
/// When the cluster or the page does not do what it should, or Chromium is not installed.
pub(crate) fn run(bench: &Bench) -> Result<Vec<Row>, BoxError> {
    let cluster = bench.cluster(&[], 0, &[])?;
    let (workers, tasks) = (bench.tasks(WORKERS), bench.tasks(TASKS));
    let (runtime, _) = storm::join(&cluster, workers)?;
    // They run for ever: what is simulated ends nothing.
    cluster.run(&["submit", "--name", "long", "--array", &format!("1-{tasks}"), "--", "true"])?;
    let home = tempfile::tempdir()?;
    let browser = Browser::open(home.path())?;
    let mut browser = browser.ok_or("chromium is not installed: it is a package of that name")?;
    let mut web = Web::start(&cluster)?;
    let link = web.link()?;
    let place = link.find("/?").map(|end| link[..=end].to_owned()).ok_or("the link has no token")?;
    browser.ask("Page.navigate", json!({ "url": link }))?;
    wait_for_number(&mut browser)?;
    let rows = vec![
        paint(&mut browser, &place)?,
        visible(&mut browser, &cluster, &place)?,
        cost(&mut browser, &cluster, &place, &format!("{workers} workers, {tasks} tasks"))?,
    ];
    if let Some(trouble) = browser.troubles().first() {
        return Err(format!("an error in the page: {trouble}").into());
    }
    runtime.shutdown_background();
    Ok(rows)
}

// The command that serves the page.
struct Web {
    command: Child,
}

impl Web {
    fn start(cluster: &Cluster) -> Result<Web, BoxError> {
        let mut command = cluster.command(&["--output-mode", "quiet", "dashboard", "--web"]);
        Ok(Web { command: command.stdout(Stdio::piped()).spawn()? })
    }

    fn link(&mut self) -> Result<String, BoxError> {
        let mut line = String::new();
        let said = self.command.stdout.as_mut().ok_or("it has no output")?;
        BufReader::new(said).read_line(&mut line)?;
        Ok(line.trim_end().to_owned())
    }
}

impl Drop for Web {
    fn drop(&mut self) {
        let _ = self.command.kill();
        let _ = self.command.wait();
    }
}

// The value of an expression once it has one, within some seconds.
fn value_of(browser: &mut Browser, expression: &str) -> Result<f64, BoxError> {
    for _ in 0..2000 {
        if let Some(value) = browser.eval(expression)?.as_f64() {
            return Ok(value);
        }
        thread::sleep(Duration::from_millis(5));
    }
    Err(format!("the page has no `{expression}`: {}", browser.eval("document.body.innerText")?).into())
}

// What is so in some frame of the page: when that was, as `clock` says, in ms.
fn frame_in_which(browser: &mut Browser, is_so: &str, clock: &str) -> Result<f64, BoxError> {
    let look = format!(
        "new Promise((seen) => {{ const look = () => ({is_so}) ? seen({clock}) : requestAnimationFrame(look); look(); }})"
    );
    browser.eval(&look)?.as_f64().ok_or_else(|| format!("the page was left before {is_so}").into())
}

fn wait_for_number(browser: &mut Browser) -> Result<f64, BoxError> {
    value_of(browser, "document.querySelector('.tile dd') ? 1 : null")
}

fn paint(browser: &mut Browser, place: &str) -> Result<Row, BoxError> {
    let (mut paints, mut numbers, mut words) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        browser.ask("Page.navigate", json!({ "url": WORD }))?;
        words.push(value_of(browser, PAINTED)?);
        browser.ask("Page.navigate", json!({ "url": place }))?;
        numbers.push(frame_in_which(browser, "document.querySelector('.tile dd')", "performance.now()")?);
        paints.push(value_of(browser, PAINTED)?);
    }
    let (paint, number, word) = (median_of(paints), median_of(numbers), median_of(words));
    let value = format!("{paint:.0} ms, with numbers {number:.0} ms; one word {word:.0} ms");
    Ok(Row::at_most("page: first paint", value, "300 ms", paint / 300.0, 1.0))
}

fn visible(browser: &mut Browser, cluster: &Cluster, place: &str) -> Result<Row, BoxError> {
    browser.ask("Page.navigate", json!({ "url": format!("{place}#/jobs") }))?;
    value_of(browser, "document.querySelector('main')?.textContent.includes('long') ? 1 : null")?;
    let mut lags = Vec::new();
    for round in 0..ROUNDS {
        thread::sleep(QUIET);
        let name = format!("seen-{round}");
        let mut submit = cluster.command(&["submit", "--name", &name, "--", "true"]).spawn()?;
        let is_shown = format!("document.querySelector('main').textContent.includes('{name}')");
        let shown = frame_in_which(browser, &is_shown, "Date.now()")?;
        submit.wait()?;
        let info: Value =
            serde_json::from_str(&cluster.read(&["--output-mode", "json", "job", "info", "last"])?)?;
        lags.push(shown - submitted_ms(browser, &info)?);
    }
    let lag = median_of(lags);
    Ok(Row::at_most("page: an event visible", format!("{lag:.0} ms after it"), "100 ms", lag / 100.0, 1.0))
}

// When the job was submitted, as the browser reads the date.
fn submitted_ms(browser: &mut Browser, info: &Value) -> Result<f64, BoxError> {
    let date = info.pointer("/0/submits/0/submitted_at").and_then(Value::as_str);
    let date = date.ok_or("a job without the date of its submit")?;
    Ok(browser.eval(&format!("Date.parse('{date}')"))?.as_f64().ok_or("no date")?)
}

// Time of the page's own thread for each of its frames, and memory, while jobs come and go.
fn cost(browser: &mut Browser, cluster: &Cluster, place: &str, what: &str) -> Result<Row, BoxError> {
    browser.ask("Performance.enable", json!({}))?;
    browser.ask("Page.navigate", json!({ "url": format!("{place}#/workers") }))?;
    value_of(browser, "document.querySelectorAll('main tr, main [role=row]').length > 10 ? 1 : null")?;
    let is_over = AtomicBool::new(false);
    let (busy, frames) = thread::scope(|scope| -> Result<(f64, f64), BoxError> {
        let come_and_go = scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                let submitted = cluster.run(&["submit", "--name", "short", "--", "true"]);
                let gone = cluster.run(&["job", "cancel", "last"]);
                if let Err(error) = submitted.and(gone) {
                    return Err(error.to_string());
                }
            }
            Ok(())
        });
        let before = busy_ms(browser)?;
        let count = format!(
            "new Promise((counted) => {{ let frames = 0; const begun = performance.now(); const next = () => {{ frames++; \
             performance.now() - begun < {} ? requestAnimationFrame(next) : counted(frames); }}; next(); }})",
            WATCHED.as_millis()
        );
        let frames = browser.eval(&count)?.as_f64().ok_or("the page was left");
        let busy = busy_ms(browser)? - before;
        is_over.store(true, Ordering::Relaxed);
        come_and_go.join().map_err(|_| "a thread has died")??;
        Ok((busy, frames?))
    })?;
    let heap = browser.eval("performance.memory.usedJSHeapSize")?.as_f64().ok_or("no memory")? / 1e6;
    let frame = busy / frames;
    let value = format!("{frame:.1} ms a frame, {heap:.0} MB");
    let name = format!("page: {what}");
    Ok(Row::at_most(&name, value, "16 ms a frame, 100 MB", (frame / 16.0).max(heap / 100.0), 1.0))
}

fn busy_ms(browser: &mut Browser) -> Result<f64, BoxError> {
    let answer = browser.ask("Performance.getMetrics", json!({}))?;
    let metrics = answer["metrics"].as_array().into_iter().flatten();
    let busy =
        metrics.filter(|metric| metric["name"] == "TaskDuration").find_map(|metric| metric["value"].as_f64());
    Ok(busy.ok_or("chromium has no TaskDuration")? * 1e3)
}
