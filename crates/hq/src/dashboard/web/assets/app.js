// The page: which view is shown, how the command and the server are reached, and keys.

import { html, render, Component } from "/lib.js";
import { live } from "/data.js";
import { safe } from "/format.js";
import { Overview } from "/overview.js";
import { Jobs } from "/jobs.js";
import { Job } from "/job.js";
import { Task } from "/task.js";
import { Workers, Worker } from "/workers.js";
import { Allocations } from "/allocations.js";

const TABS = [
  ["1", "Overview", "#/"],
  ["2", "Jobs", "#/jobs"],
  ["3", "Workers", "#/workers"],
  ["4", "Allocations", "#/allocations"],
];

// A form of an address, its view, the tab that it belongs to, its title, and where Escape leads.
const VIEWS = [
  [/^\/$/, Overview, "#/", () => "Overview", null],
  [/^\/jobs$/, Jobs, "#/jobs", () => "Jobs", "#/"],
  [/^\/jobs\/(\d+)$/, Job, "#/jobs", (job) => `Job ${job}`, () => "#/jobs"],
  [/^\/jobs\/(\d+)\/tasks\/(\d+)$/, Task, "#/jobs", (job, task) => `Task ${job}@${task}`, (job) => `#/jobs/${job}`],
  [/^\/workers$/, Workers, "#/workers", () => "Workers", "#/"],
  [/^\/workers\/(\d+)$/, Worker, "#/workers", (worker) => `Worker ${worker}`, () => "#/workers"],
  [/^\/allocations$/, Allocations, "#/allocations", () => "Allocations", "#/"],
];

const STATUS = {
  connecting: "Connecting…",
  live: "Live",
  lost: "The server does not answer",
  away: "The dashboard command does not answer",
  closed: "No session",
};

function place() {
  const [path, query] = (location.hash.startsWith("#/") ? location.hash.slice(1) : "/").split("?");
  for (const [form, view, tab, title, up] of VIEWS) {
    const found = form.exec(path);
    if (found) {
      const ids = found.slice(1).map(Number);
      const above = typeof up === "function" ? up(...ids) : up;
      return { path, view, tab, title: title(...ids), up: above, ids, query: new URLSearchParams(query) };
    }
  }
  return { path, view: Nowhere, tab: "", title: "Nothing here", up: "#/", ids: [], query: new URLSearchParams() };
}

const Nowhere = () => html`<p>There is no such view. <a href="#/">To the overview</a></p>`;

const Closed = () => html`<main id="main" class="plain">
  <h1>This browser has no session</h1>
  <p>Open the latest link that <code>hq dashboard --web</code> has printed. Each link opens one browser, once; a new one is printed when one was used. If the command was ended, start it again.</p>
</main>`;

const Keys = () => html`<dl class="keys">
  <dt><kbd>1</kbd> to <kbd>4</kbd></dt><dd>overview, jobs, workers, allocations</dd>
  <dt><kbd>/</kbd></dt><dd>search jobs</dd>
  <dt><kbd>Esc</kbd></dt><dd>to what is above</dd>
  <dt><kbd>?</kbd></dt><dd>these keys</dd>
</dl>`;

class App extends Component {
  constructor() {
    super();
    this.state = { place: place() };
  }

  componentDidMount() {
    this.entitle();
    addEventListener("hashchange", () => {
      if (!location.hash.startsWith("#/") && location.hash !== "") return;
      const before = this.state.place.path;
      this.setState({ place: place() }, () => {
        this.entitle();
        // Who hears the page is told of another view, not of another order of the same.
        if (this.state.place.path !== before) document.querySelector("h1")?.focus();
      });
    });
    addEventListener("keydown", (event) => this.key(event));
    live.listen(() => this.soon());
    live.begin();
    // Times move on when nothing happens.
    setInterval(() => !document.hidden && this.soon(), 1000);
  }

  // All that has come until the next frame is drawn together.
  soon() {
    if (this.frame) return;
    const draw = () => {
      this.frame = null;
      this.setState({});
    };
    this.frame = document.hidden ? setTimeout(draw, 1000) : requestAnimationFrame(draw);
  }

  entitle() {
    document.title = `${this.state.place.title} · Headquarters`;
  }

  key(event) {
    const isText = event.target.closest?.("input, select, textarea, dialog");
    if (isText || event.ctrlKey || event.metaKey || event.altKey) {
      if (event.key === "Escape" && event.target.matches?.("input")) event.target.blur();
      return;
    }
    const tab = TABS.find(([key]) => key === event.key);
    if (tab) location.hash = tab[2];
    else if (event.key === "?") this.keys.showModal();
    else if (event.key === "Escape" && this.state.place.up) location.hash = this.state.place.up;
    else if (event.key === "/") {
      event.preventDefault();
      const focus = () => document.querySelector("input[type=search]")?.focus();
      if (document.querySelector("input[type=search]")) focus();
      else {
        location.hash = "#/jobs";
        setTimeout(focus, 100);
      }
    } else return;
    event.preventDefault();
  }

  render(_, { place: at }) {
    if (live.status === "closed") return html`<${Closed} />`;
    const { overview, status } = live;
    const View = at.view;
    return html`
      <a class="skip" href="#main" onClick=${(event) => { event.preventDefault(); document.querySelector("h1")?.focus(); }}>To the content</a>
      <header>
        <nav aria-label="Views">${TABS.map(([key, text, href]) => html`<a href=${href} aria-current=${at.tab === href ? "page" : undefined} aria-keyshortcuts=${key}>${text}</a>`)}</nav>
        <p class=${`status ${status}`} role="status" aria-live="polite">${STATUS[status]}</p>
        ${overview && html`<p class="server">${overview.server_uid} · ${overview.version}</p>`}
        <button type="button" class="help" aria-label="Keys" onClick=${() => this.keys.showModal()}>?</button>
      </header>
      ${(status === "lost" || status === "away") && html`<p class="trouble">${live.why ? `${safe(live.why).replace(/\.?$/, ".")} ` : ""}It is looked for; what is shown is as it was last.</p>`}
      ${overview?.server.journal_fails && html`<p class="trouble" role="alert">The server cannot write its journal, and makes no changes until it can. <code>hq server info</code> says why.</p>`}
      <main id="main">
        <h1 tabindex="-1">${at.title}</h1>
        <${View} key=${at.path} ids=${at.ids} query=${at.query} />
      </main>
      <dialog ref=${(dialog) => { this.keys = dialog; }} aria-label="Keys">
        <h2>Keys</h2><${Keys} />
        <p><button type="button" autofocus onClick=${() => this.keys.close()}>Close</button></p>
      </dialog>`;
  }
}

const app = document.getElementById("app");
app.replaceChildren();
render(html`<${App} />`, app);
