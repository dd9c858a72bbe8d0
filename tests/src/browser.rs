//! A headless Chromium, driven by chromedriver: what a page does is only seen in a browser.
//!
//! In: addresses, CSS selectors. Out: what the page shows, and everything it logged and asked for.
//! The protocol is W3C WebDriver: JSON over HTTP, which needs no library; the logs are Chromium's own addition to it.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::process::Process;
use crate::{agent, try_request, wait_until};

/// The key under which an element's reference stands (WebDriver, section "Elements").
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// An open browser; closed when dropped.
pub struct Browser {
    _driver: Process,
    session: String,
    agent: ureq::Agent,
    _profile: TempDir,
}

impl Browser {
    /// Opens a browser without a past: no profile, no window, nothing of its own to ask the network for.
    pub fn open() -> Browser {
        let mut command = Command::new("chromedriver");
        let mut driver = Process::start(command.arg("--port=0").stdout(Stdio::piped()).stderr(Stdio::null()));
        let mut lines = BufReader::new(driver.stdout()).lines().map_while(Result::ok);
        let port = lines.find_map(|line| {
            let port = line.split_once("started successfully on port ")?.1.trim_end_matches('.').to_owned();
            Some(port)
        });
        let port = port.expect("chromedriver says where it listens");
        // It goes on writing, and must find a reader.
        std::thread::spawn(move || lines.for_each(drop));

        let profile = tempfile::tempdir().unwrap();
        let arguments = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--disable-dev-shm-usage",
            "--window-size=1200,1600",
            &format!("--user-data-dir={}", profile.path().display()),
        ];
        let capabilities = json!({
            "browserName": "chrome",
            "goog:chromeOptions": { "args": arguments },
            "goog:loggingPrefs": { "browser": "ALL", "performance": "ALL" },
        });
        let mut browser = Browser {
            _driver: driver,
            session: format!("http://127.0.0.1:{port}/session"),
            agent: agent(),
            _profile: profile,
        };
        let session =
            browser.command("POST", "", &json!({ "capabilities": { "alwaysMatch": capabilities } }));
        browser.session = format!("{}/{}", browser.session, session["sessionId"].as_str().unwrap());
        // Away from the browser's own first page, and what it has to say is forgotten.
        browser.go("about:blank");
        browser.requests();
        browser.console();
        browser
    }

    /// Goes to an address and waits until the page is loaded.
    pub fn go(&self, url: &str) {
        self.command("POST", "/url", &json!({ "url": url }));
    }

    /// The page's title.
    pub fn title(&self) -> String {
        self.command("GET", "/title", &Value::Null).as_str().unwrap().to_owned()
    }

    /// Waits for an element and clicks on it.
    pub fn click(&self, selector: &str) {
        let element = self.visible(selector);
        self.command("POST", &format!("/element/{element}/click"), &json!({}));
    }

    /// Waits for a field and puts `text` in the place of what it holds.
    pub fn fill(&self, selector: &str, text: &str) {
        let element = self.visible(selector);
        self.command("POST", &format!("/element/{element}/clear"), &json!({}));
        self.command("POST", &format!("/element/{element}/value"), &json!({ "text": text }));
    }

    /// Waits for an element and gives the text it shows; of a field, what it holds.
    pub fn text(&self, selector: &str) -> String {
        let element = self.visible(selector);
        let script = "const e = arguments[0]; return e.value ?? e.innerText";
        let arguments = json!({ "script": script, "args": [{ ELEMENT: element }] });
        self.command("POST", "/execute/sync", &arguments).as_str().unwrap().to_owned()
    }

    /// Runs the body of a function in the page and gives what it returns, or what the promise that it returns comes to.
    pub fn run(&self, script: &str) -> Value {
        self.command("POST", "/execute/sync", &json!({ "script": script, "args": [] }))
    }

    /// What the console has said since the last call.
    pub fn console(&self) -> Vec<Value> {
        self.log("browser")
    }

    /// The addresses that the page has asked for since the last call, those that were refused included; not those within the
    /// browser itself.
    pub fn requests(&self) -> Vec<String> {
        let entries = self.log("performance");
        let messages = entries.iter().map(|entry| {
            serde_json::from_str::<Value>(entry["message"].as_str().unwrap()).unwrap()["message"].take()
        });
        messages
            .filter(|message| message["method"] == "Network.requestWillBeSent")
            .map(|message| message["params"]["request"]["url"].as_str().unwrap().to_owned())
            .filter(|url| !url.starts_with("chrome:"))
            .collect()
    }

    fn log(&self, kind: &str) -> Vec<Value> {
        self.command("POST", "/se/log", &json!({ "type": kind })).as_array().unwrap().clone()
    }

    /// Waits until an element is there to be seen.
    fn visible(&self, selector: &str) -> String {
        let mut found = None;
        wait_until(&format!("`{selector}`"), || {
            let elements =
                self.command("POST", "/elements", &json!({ "using": "css selector", "value": selector }));
            let element = elements[0][ELEMENT].as_str().map(str::to_owned);
            found = element.filter(|element| {
                // The page may have been drawn anew in between.
                let reply = self.try_command("GET", &format!("/element/{element}/displayed"), &Value::Null);
                reply == Ok(json!(true))
            });
            found.is_some()
        });
        found.unwrap()
    }

    fn command(&self, method: &str, path: &str, body: &Value) -> Value {
        self.try_command(method, path, body).unwrap_or_else(|error| panic!("{method} {path}: {error}"))
    }

    fn try_command(&self, method: &str, path: &str, body: &Value) -> Result<Value, Value> {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let url = format!("{}{path}", self.session);
        let reply =
            try_request(&self.agent, method, &url, &[("content-type", "application/json")], body.as_bytes());
        let reply = reply.map_err(|error| json!(error.to_string()))?;
        let value = reply.json()["value"].take();
        if reply.status == 200 { Ok(value) } else { Err(value) }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Closes the browser; chromedriver alone would leave it behind.
        let _ = self.try_command("DELETE", "", &Value::Null);
    }
}
