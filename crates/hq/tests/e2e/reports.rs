//! `hq journal report`: pages of campaigns, and what a browser makes of them.

use std::fs;
use std::path::PathBuf;

use hq_core::record::Record;
use hq_model::{JobId, WorkerId};
use serde_json::{Value, json};

use crate::browser::Browser;
use crate::campaign::{Campaign, SECOND, write};
use crate::cluster::Place;

// Opens the page of a journal and waits until it is there.
fn show(place: &Place, browser: &Browser, journal: &str) {
    place.ok(&format!("journal report {journal} {journal}.html"));
    let url = format!("file://{}", place.work().join(format!("{journal}.html")).display());
    browser.ask("Page.navigate", json!({ "url": url }));
    browser.until("document.querySelectorAll('main section').length > 0");
}

fn text(browser: &Browser, selector: &str) -> String {
    let text = browser.eval(&format!("document.querySelector({}).innerText", json!(selector)));
    text.as_str().unwrap_or_default().replace(['\u{202f}', '\u{a0}'], " ")
}

// Names that would be a part of the page, if they were taken as such.
fn give_markup(record: &mut Record) {
    match record {
        Record::WorkerJoined { worker: WorkerId(2), config, .. } => {
            config.hostname = "<b id=evil>node2</b>".into()
        }
        Record::Submitted { job: JobId(2), spec: Some(spec), .. } => spec.name = "<u id=ugly>dock</u>".into(),
        _ => {}
    }
}

#[test]
fn a_report_tells_what_ran_and_zooms() {
    let place = Place::new();
    let Some(browser) = Browser::open(&place) else { return };
    // 16 places, and on each of them ten tasks of a second, from second 5 to second 15.
    let campaign = Campaign { workers: 4, cpus: 4, tasks: 160, fails: 40, task_us: (SECOND, 0) };
    let mut records = campaign.records();
    records.iter_mut().for_each(|(_, record)| give_markup(record));
    write(&place.path("campaign"), &records);
    show(&place, &browser, "campaign");
    let shown = || text(&browser, ".shown").split_once(": ").map(|(_, counts)| counts.to_owned());
    assert_eq!(shown().as_deref(), Some("162 executions, 4 failed"));
    assert!(
        text(&browser, "main")
            .contains("Program terminated with exit code 3: <i id=worse>no such ligand</i>")
    );
    assert_eq!(browser.eval("document.querySelector('#evil, #worse, #ugly') === null"), true);
    let rows = |caption: &str| {
        browser.eval(&format!(
            "[...document.querySelectorAll('table')].find((table) => table.caption.textContent === {}).tBodies[0].rows.length",
            json!(caption)
        ))
    };
    let counted = ["Critical path", "Jobs", "Workers", "Failures by cause", "Failures"].map(rows);
    assert_eq!(counted, [3, 3, 4, 1, 4].map(Value::from));

    // A part that is in the address; one that is chosen with the mouse; keys; and a task of the path.
    browser.eval("location.hash = 'from=8.5&to=9.5'");
    browser.until("document.querySelector('.shown').textContent.includes('32 executions')");
    browser.eval("location.hash = 'from=8.5&to=9.5&worker=2'");
    browser.until("document.querySelector('.shown').textContent.includes(': 8 executions')");
    assert_eq!(text(&browser, ".timeline h3"), "Worker 2");
    browser.eval("document.querySelector('.timeline').focus()");
    press(&browser, "0");
    browser.until("document.querySelector('.shown').textContent.includes(': 40 executions')");
    drag(&browser);
    browser.until("document.querySelector('.shown').textContent.match(/: (8|12|16) executions/) !== null");
    press(&browser, "-");
    press(&browser, "0");
    browser.until("document.querySelector('.shown').textContent.includes(': 40 executions')");
    browser.eval("document.querySelector('[aria-label^=\"Show task 3@1\"]').click()");
    browser.until("document.querySelector('.shown').textContent.includes(': 5 executions')");
    browser.eval("[...document.querySelectorAll('details')].forEach((part) => { part.open = true; })");
    assert_eq!(rows("Executions"), 5);

    // Nobody is asked for anything; everything has a name; nothing is wider than a phone but what can be moved.
    let asked =
        "performance.getEntriesByType('resource').filter(({ name }) => !name.startsWith('data:')).length";
    assert_eq!(browser.eval(asked), 0);
    let unnamed = "[...document.querySelectorAll('th, button, select, [role=img], summary')]
        .filter((part) => !(part.ariaLabel || part.labels?.length || part.textContent)).length";
    assert_eq!(browser.eval(unnamed), 0);
    let phone = json!({ "width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": false });
    browser.ask("Emulation.setDeviceMetricsOverride", phone);
    browser.until(
        "innerWidth === 390 && document.documentElement.scrollWidth === document.documentElement.clientWidth",
    );
    assert_eq!(browser.troubles(), Vec::<String>::new());
}

/// Only with `HQ_TEST_PICTURES`.
#[test]
fn the_picture_of_the_guide_is_of_a_real_page() {
    let place = Place::new();
    let Some(browser) = Browser::open(&place).filter(|_| std::env::var_os("HQ_TEST_PICTURES").is_some())
    else {
        return;
    };
    let (cpus, task_us) = (8, (2 * SECOND, 9 * SECOND));
    write(&place.path("picture"), &Campaign { workers: 6, cpus, tasks: 900, fails: 45, task_us }.records());
    show(&place, &browser, "picture");
    browser.picture("report.png", 1000);
}

#[test]
fn a_report_of_an_idle_server_is_a_page_too() {
    let place = Place::new();
    let Some(browser) = Browser::open(&place) else { return };
    let campaign = Campaign { workers: 0, cpus: 0, tasks: 0, fails: 0, task_us: (1, 0) };
    write(&place.work().join("idle"), &campaign.records()[..1]);
    show(&place, &browser, "idle");
    let page = text(&browser, "main");
    assert!(page.contains("No task ran in this time.") && page.contains("No worker was there."), "{page}");
    assert_eq!(browser.troubles(), Vec::<String>::new());
}

fn press(browser: &Browser, key: &str) {
    for kind in ["keyDown", "keyUp"] {
        browser.ask("Input.dispatchKeyEvent", json!({ "type": kind, "key": key, "text": key }));
    }
}

// A tenth of the timeline, from its middle on.
fn drag(browser: &Browser) {
    let place = browser.eval(
        "(() => { const { left, top, width } = document.querySelector('.timeline .u-over').getBoundingClientRect();
            return [left + width / 2, top + 5, left + width * 0.6]; })()",
    );
    for (kind, x) in [("mousePressed", 0), ("mouseMoved", 2), ("mouseReleased", 2)] {
        let event = json!({ "type": kind, "x": place[x], "y": place[1], "button": "left", "buttons": 1, "clickCount": 1 });
        browser.ask("Input.dispatchMouseEvent", event);
    }
}

/// With `HQ_TEST_TASKS` of more of them, and with `HQ_TEST_CAMPAIGN` in this directory, where it stays to be measured.
#[test]
fn a_report_of_many_executions_is_small() {
    let place = Place::new();
    let count = std::env::var("HQ_TEST_TASKS").ok().and_then(|count| count.parse().ok());
    let path = std::env::var_os("HQ_TEST_CAMPAIGN").map_or_else(|| place.work().join("many"), PathBuf::from);
    // More than have a bar each.
    let (cpus, tasks, task_us) = (32, count.unwrap_or(260_000), (SECOND / 10, SECOND));
    write(&path, &Campaign { workers: 16, cpus, tasks, fails: 1000, task_us }.records());
    place.ok(&format!("journal report {} many.html", path.display()));
    let page = fs::metadata(place.work().join("many.html")).expect("a page");
    assert!(page.len() < 5_000_000, "{} bytes", page.len());
}
