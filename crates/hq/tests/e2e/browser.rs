//! The page of `hq dashboard --web` in a real browser, where there is one: what is shown is right, and follows what happens.

use std::cell::RefCell;

use serde_json::{Value, json};

use crate::cluster::{Cluster, Place};
use crate::patience;
use crate::web::Web;

const SIGKILL: i32 = 9;

/// Memory that the page may use.
const HEAP_BYTES_MAX: f64 = 100e6;

/// A browser, in tests: what goes wrong with it ends them.
pub(crate) struct Browser(RefCell<hq_browser::Browser>);

impl Browser {
    // None where no browser is installed.
    #[expect(clippy::print_stderr, reason = "says what is left out")]
    pub(crate) fn open(place: &Place) -> Option<Browser> {
        let opened = hq_browser::Browser::open(&place.path("browser")).expect("a browser");
        if opened.is_none() {
            eprintln!("left out: chromium is not installed");
        }
        opened.map(|browser| Browser(RefCell::new(browser)))
    }

    pub(crate) fn ask(&self, method: &str, params: Value) -> Value {
        self.0.borrow_mut().ask(method, params).expect("it does that")
    }

    pub(crate) fn eval(&self, expression: &str) -> Value {
        self.0.borrow_mut().eval(expression).expect("it answers")
    }

    pub(crate) fn troubles(&self) -> Vec<String> {
        self.0.borrow().troubles().to_vec()
    }

    #[track_caller]
    pub(crate) fn until(&self, expression: &str) {
        patience::until("the page", || match self.eval(expression) {
            Value::Bool(true) => Ok(()),
            other => Err(format!("{expression} is {other}; {}", self.eval("document.body.innerText"))),
        });
    }

    /// Takes a picture for the documentation, if `HQ_TEST_PICTURES` asks for that.
    pub(crate) fn picture(&self, name: &str, height: u32) {
        if std::env::var_os("HQ_TEST_PICTURES").is_none() {
            return;
        }
        let size = json!({ "width": 1000, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.ask("Emulation.setDeviceMetricsOverride", size);
        self.ask("Emulation.setTimezoneOverride", json!({ "timezoneId": "UTC" }));
        self.until("innerWidth === 1000 && document.fonts.status === 'loaded'");
        // Drawn, after the size has changed.
        self.eval("new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))");
        let shot = self.ask("Page.captureScreenshot", json!({ "format": "png", "optimizeForSpeed": false }));
        let bytes = hq_pull::from_base64(shot["data"].as_str().expect("a picture")).expect("base64");
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/pictures");
        std::fs::create_dir_all(&folder).expect("a directory");
        std::fs::write(folder.join(name), bytes).expect("a picture");
        self.ask("Emulation.clearDeviceMetricsOverride", json!({}));
    }

    fn view(&self, hash: &str, title: &str) {
        self.eval(&format!("location.hash = {}", json!(hash)));
        self.until(&format!("document.querySelector('h1')?.textContent === {}", json!(title)));
        self.until("!document.querySelector('main').textContent.includes('Waiting…')");
    }
}

/// Only with `HQ_TEST_PICTURES`: what is shown is tested elsewhere.
#[test]
fn pictures_of_the_guide_are_of_a_real_cluster() {
    if std::env::var_os("HQ_TEST_PICTURES").is_none() {
        return;
    }
    let mut cluster = Cluster::server();
    let Some(browser) = Browser::open(&cluster) else { return };
    cluster.worker("--cpus 12 --hostname node1");
    cluster.worker("--cpus 12 --hostname node2");
    cluster.ok("submit --wait --name prepare --stdout none --stderr none -- true");
    let dock =
        ["submit", "--name", "dock", "--array", "1-2000", "--stdout", "none", "--stderr", "none", "--"];
    let script = "sleep 0.$((HQ_TASK_ID % 7 + 2)); test $((HQ_TASK_ID % 50)) -ne 0 || exit 3";
    cluster.run(dock.into_iter().chain(["sh", "-c", script]));
    let web = Web::start(&cluster, &[]);
    browser.ask("Page.navigate", json!({ "url": web.link }));
    browser.until(&format!("document.querySelector('.status') && {STATUS} === 'Live'"));
    browser.until("Number(document.querySelector('.tile dd').textContent.replace(/[^0-9]/g, '')) > 0");
    browser.until("performance.now() > 15000");
    browser.picture("dashboard-overview.png", 820);
    browser.view("#/jobs/2", "Job 2");
    browser.until("document.body.innerText.includes('exit code 3')");
    browser.picture("dashboard-job.png", 820);
    web.end();
}

/// Only with `HQ_TEST_PICTURES`, as those above.
#[test]
fn pictures_of_the_guide_show_an_empty_server_and_trouble() {
    if std::env::var_os("HQ_TEST_PICTURES").is_none() {
        return;
    }
    // A batch system that refuses everything.
    let refusing = tempfile::tempdir().expect("a directory");
    for name in ["sbatch", "squeue", "sacct", "scancel", "sinfo", "scontrol"] {
        let path = refusing.path().join(name);
        let script = "#!/bin/sh\necho 'error: Invalid account or account/partition combination specified' >&2\nexit 1\n";
        std::fs::write(&path, script).expect("a script");
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .expect("a script");
    }
    let before = std::env::var("PATH").expect("a path");
    let path = format!("{}:{before}", refusing.path().display());
    let mut cluster = Cluster::server_in(vec![("PATH", path)]);
    let Some(browser) = Browser::open(&cluster) else { return };
    let web = Web::start(&cluster, &[]);
    browser.ask("Page.navigate", json!({ "url": web.link }));
    browser.until(&format!("document.querySelector('.status') && {STATUS} === 'Live'"));
    browser.picture("dashboard-empty.png", 620);
    cluster.worker("--cpus 4 --hostname node1");
    cluster.worker("--cpus 4 --hostname node2");
    let score = "submit --wait --name score --array 1-60 --retry 1 --stdout none --stderr none -- sh -c \
                 'case $((HQ_TASK_ID % 6)) in 0) exit 3;; 1) kill -9 $$;; esac'";
    cluster.hq(score);
    cluster.hq("submit --wait --name start --array 1-5 --stdout none --stderr none -- /nowhere/program");
    cluster.ok("submit --name long --array 1-8 --stdout none --stderr none -- sleep 1000");
    cluster.ok("alloc add slurm --no-dry-run --time-limit 1h");
    cluster.ok("submit --name more --array 1-400 --cpus 4 --stdout none --stderr none -- sleep 1000");
    cluster.workers.pop().expect("a worker").signal(SIGKILL);
    browser.view("#/workers", "Workers");
    browser.until("!document.querySelector('main').innerText.includes('node2')");
    browser.view("#/allocations", "Allocations");
    browser.until("document.querySelector('main').innerText.includes('Invalid account')");
    browser.picture("dashboard-refused.png", 520);
    browser.view("#/", "Overview");
    browser.picture("dashboard-trouble.png", 820);
    web.end();
}

const STATUS: &str = "document.querySelector('.status').textContent";

#[test]
fn the_page_shows_what_is_and_what_happens() {
    let mut cluster = Cluster::new();
    let Some(browser) = Browser::open(&cluster) else { return };
    cluster.ok("submit --name million --array 1-1000000 --cpus 64 --stdout none --stderr none -- true");
    cluster
        .hq("submit --wait --name '<b id=evil>bad</b>' -- sh -c 'echo \"<i id=worse>why</i>\" >&2; exit 3'");
    let web = Web::start(&cluster, &[]);
    browser.ask("Page.navigate", json!({ "url": web.link }));
    browser.until("document.querySelector('.status')?.textContent === 'Live'");
    browser.until("document.body.innerText.includes('1\u{202f}000\u{202f}000')");
    assert_eq!(browser.eval("location.search + document.cookie"), "");

    browser.view("#/jobs", "Jobs");
    browser.until("document.body.innerText.includes('<b id=evil>bad</b>')");
    cluster.ok("submit --name later -- sleep 1000");
    browser.until("document.body.innerText.includes('later')");
    browser.view("#/jobs/2", "Job 2");
    browser.until("document.body.innerText.includes('exit code 3')");
    browser.view("#/jobs/2/tasks/0", "Task 2@0");
    browser.eval("[...document.querySelectorAll('.tabs button')].at(-1).click()");
    browser.until("document.querySelector('pre.output')?.textContent === '<i id=worse>why</i>\\n'");
    assert_eq!(browser.eval("document.querySelector('#evil, #worse') === null"), true);
    // Of a job file, what its tasks execute, its layers and when its tasks ran.
    let graph = "name = 'graph'\n[[task]]\nid = 1\ncommand = ['echo', 'first']\n\
                 [[task]]\nid = 2\ncommand = ['echo', 'second']\ndeps = [1]\n";
    cluster.write("graph.toml", graph);
    cluster.ok("job submit-file --wait graph.toml");
    browser.view("#/jobs/4", "Job 4");
    browser.until("document.body.innerText.includes('2 layers of its graph')");
    browser.until("document.body.innerText.includes('echo second')");
    browser.until(
        "document.querySelector('#timeline') !== null && document.querySelector('.chart canvas') !== null",
    );
    browser.until(
        "document.querySelector('#slowest') !== null && document.body.innerText.includes('Took longest')",
    );
    // Of a task that ran more than once, each attempt.
    cluster.hq("submit --retry 1 --wait -- sh -c 'exit 4'");
    browser.view("#/jobs/5/tasks/0", "Task 5@0");
    browser.until("document.querySelector('#attempts')?.parentElement.innerText.includes('exit code 4')");
    browser.view("#/jobs/1/tasks/999999", "Task 1@999999");
    browser.until("document.body.innerText.includes('64 asked for')");

    browser.view("#/workers", "Workers");
    browser.until("document.querySelector('main').innerText.includes('busy')");
    browser.view("#/workers/1", "Worker 1");
    browser.until("document.body.innerText.includes('1 running, ')");
    browser.until(
        "document.querySelector('#now') !== null && document.querySelector('a[href^=\"#/jobs/\"]') !== null",
    );

    // Nothing is wider than a phone, but what can be moved sideways.
    let phone = json!({ "width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": false });
    browser.ask("Emulation.setDeviceMetricsOverride", phone);
    for (hash, title) in [
        ("#/", "Overview"),
        ("#/jobs", "Jobs"),
        ("#/jobs/1", "Job 1"),
        ("#/jobs/4", "Job 4"),
        ("#/jobs/3/tasks/0", "Task 3@0"),
        ("#/jobs/5/tasks/0", "Task 5@0"),
        ("#/workers", "Workers"),
        ("#/workers/1", "Worker 1"),
        ("#/allocations", "Allocations"),
    ] {
        browser.view(hash, title);
        let page = "document.documentElement";
        let too_wide = format!(
            "[...document.querySelectorAll('body *')].filter((part) => part.getBoundingClientRect().right > {page}.clientWidth)
                .map((part) => part.outerHTML.slice(0, 120)).join('\\n')"
        );
        let more = browser.eval(&format!("{page}.scrollWidth - {page}.clientWidth"));
        assert_eq!(more, 0, "{title}, where these are too wide: {}", browser.eval(&too_wide));
        let unnamed = "[...document.querySelectorAll('th, button, input, select, [role=img], dialog')]
            .filter((part) => !part.closest('[hidden]') && !(part.ariaLabel || part.labels?.length || part.textContent.trim())).length";
        assert_eq!(browser.eval(unnamed), 0, "{title}");
    }
    let heap = browser.eval("performance.memory.usedJSHeapSize").as_f64().expect("a number");
    assert!(heap < HEAP_BYTES_MAX, "{heap} bytes");

    if let Some(server) = cluster.server.take() {
        server.signal(SIGKILL);
        server.end();
    }
    browser.until(&format!("{STATUS} === 'The server does not answer'"));
    cluster.start_server("");
    browser.until(&format!("{STATUS} === 'Live'"));
    web.end();
    browser.until(&format!("{STATUS} === 'The dashboard command does not answer'"));
    assert_eq!(browser.troubles(), Vec::<String>::new());
}

/// A browser has six connections for all pages of one place, and keeps pages that were left.
#[test]
fn pages_that_were_left_hold_no_connections() {
    let cluster = Cluster::server();
    let Some(browser) = Browser::open(&cluster) else { return };
    cluster.ok("submit --name waits -- true");
    let web = Web::start(&cluster, &[]);
    let place = &web.link[..=web.link.find("/?").expect("a token")];
    browser.ask("Page.navigate", json!({ "url": web.link }));
    for _ in 0..7 {
        browser.until(&format!("document.querySelector('.status') && {STATUS} === 'Live'"));
        browser.ask("Page.navigate", json!({ "url": "data:text/html,elsewhere" }));
        browser.until("document.body?.innerText === 'elsewhere'");
        browser.ask("Page.navigate", json!({ "url": place }));
    }
    browser.until(&format!("document.querySelector('.status') && {STATUS} === 'Live'"));
    browser.view("#/jobs", "Jobs");
    browser.until("document.querySelector('main').innerText.includes('waits')");
    // One that is shown again goes on.
    browser.eval("history.back()");
    browser.until("document.querySelector('h1')?.textContent === 'Overview'");
    cluster.ok("submit --name later -- true");
    browser.view("#/jobs", "Jobs");
    browser.until("document.querySelector('main').innerText.includes('later')");
    web.end();
}
