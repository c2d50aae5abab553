//! Chromium without a window, spoken to over pipes in its [DevTools protocol](https://chromedevtools.github.io/devtools-protocol/):
//! tests look at pages with it, and benchmarks measure them.

use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

/// The program.
const PROGRAM: &str = "chromium";

/// Why a browser did not do what it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum BrowserError {
    /// It could not be started, or does not listen any more.
    #[error("chromium: {0}")]
    Io(#[from] io::Error),
    /// It has ended.
    #[error("chromium has ended before it answered {0}")]
    Ended(String),
    /// It said what is no document.
    #[error("chromium answered {0} with what is no JSON: {1}")]
    NotJson(String, serde_json::Error),
    /// It refused something.
    #[error("chromium refused {method}: {error}")]
    Refused {
        /// What it was asked for.
        method: String,
        /// What it said.
        error: Value,
    },
}

/// A browser with one page.
#[derive(Debug)]
pub struct Browser {
    child: Child,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
    session: String,
    number: u64,
    troubles: Vec<String>,
}

impl Browser {
    /// Starts one that keeps its files in a directory of its own. `None` where none is installed.
    ///
    /// # Errors
    /// When the directory cannot be made, or the browser does not start.
    pub fn open(home: &Path) -> Result<Option<Browser>, BrowserError> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        if !std::env::split_paths(&path).any(|dir| dir.join(PROGRAM).exists()) {
            return Ok(None);
        }
        std::fs::create_dir_all(home)?;
        // It reads requests from descriptor 3 and writes answers to 4.
        let script = format!("exec {PROGRAM} \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1");
        let mut command = Command::new("sh");
        command.args(["-c", &script, "sh", "--headless", "--no-sandbox", "--disable-gpu"]);
        command.args(["--disable-dev-shm-usage", "--no-first-run", "--remote-debugging-pipe"]);
        command.arg(format!("--user-data-dir={}", home.display())).env("HOME", home);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let (Some(requests), Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(io::Error::other("no pipes").into());
        };
        let mut browser = Browser {
            child,
            requests,
            answers: BufReader::new(answers),
            session: String::new(),
            number: 0,
            troubles: Vec::new(),
        };
        let target = browser.ask("Target.createTarget", json!({ "url": "about:blank" }))?;
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let attached = browser.ask("Target.attachToTarget", attach)?;
        browser.session = attached["sessionId"].as_str().unwrap_or_default().to_owned();
        for domain in ["Page", "Runtime", "Log"] {
            browser.ask(&format!("{domain}.enable"), json!({}))?;
        }
        Ok(Some(browser))
    }

    /// Asks for a method of the protocol, and waits for its result.
    ///
    /// # Errors
    /// When it is refused, or the browser has ended.
    pub fn ask(&mut self, method: &str, params: Value) -> Result<Value, BrowserError> {
        self.number += 1;
        let mut request = json!({ "id": self.number, "method": method, "params": params });
        if !self.session.is_empty() {
            request["sessionId"] = self.session.as_str().into();
        }
        self.requests.write_all(format!("{request}\0").as_bytes())?;
        loop {
            let mut bytes = Vec::new();
            self.answers.read_until(0, &mut bytes)?;
            if bytes.pop().is_none() {
                return Err(BrowserError::Ended(method.to_owned()));
            }
            let mut answer: Value = serde_json::from_slice(&bytes)
                .map_err(|error| BrowserError::NotJson(method.to_owned(), error))?;
            if answer["id"] == self.number {
                let error = answer["error"].take();
                // A page that is left meanwhile has no answer; whoever asks until something is so asks the next one.
                if method == "Runtime.evaluate" && error["code"] == -32000 {
                    return Ok(Value::Null);
                }
                if !error.is_null() {
                    return Err(BrowserError::Refused { method: method.to_owned(), error });
                }
                return Ok(answer["result"].take());
            }
            let is_trouble = answer["method"] == "Runtime.exceptionThrown"
                || (answer["method"] == "Log.entryAdded"
                    && answer["params"]["entry"]["source"] == "security");
            if is_trouble {
                self.troubles.push(answer.to_string());
            }
        }
    }

    /// The value of an expression in the page, or what its promise comes to; `null` while the page changes.
    ///
    /// # Errors
    /// As [`Browser::ask`].
    pub fn eval(&mut self, expression: &str) -> Result<Value, BrowserError> {
        let asked = json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        Ok(self.ask("Runtime.evaluate", asked)?["result"]["value"].take())
    }

    /// What went wrong in the page so far: errors that nobody caught, and what its policy forbade.
    pub fn troubles(&self) -> &[String] {
        &self.troubles
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Its processes end with the first of them.
        let asked = self.requests.write_all(b"{\"id\":0,\"method\":\"Browser.close\"}\0");
        if asked.is_err() || std::thread::panicking() {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
    }
}
