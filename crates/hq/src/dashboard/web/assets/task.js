// A task: where it ran and how it ended, what it waits for, what it prints.

import { html, Component } from "/lib.js";
import { live, Load } from "/data.js";
import { bytes, duration, safe, safeLines, secondsBetween, short, time } from "/format.js";
import { State, Table, Trouble } from "/parts.js";

// What there is instead of an output.
const NONE = {
  waits: "It has not started yet.",
  nowhere: "This channel goes nowhere.",
  away: "Its worker has lost the connection to the server.",
};

function Reasons({ path }) {
  return html`<section aria-labelledby="reasons">
    <h2 id="reasons">Waiting for</h2>
    <${Load} url=${`${path}/explain`}>${(data, error) => html`
      <${Trouble} error=${error} />
      ${data && html`<ul>${data.reasons.map((reason) => html`<li>${reason.worker != null && html`<a href=${`#/workers/${reason.worker}`}>worker ${reason.worker}</a>: `}${safe(reason.reason)}</li>`)}
        ${data.reasons.length === 0 && html`<li>Nothing: it is being sent to a worker.</li>`}</ul>`}
    `}<//>
  </section>`;
}

class Output extends Component {
  constructor(props) {
    super(props);
    this.state = { channel: "stdout" };
  }

  render({ path, isRunning, job, task }, { channel }) {
    const tab = (name, text) => html`<button type="button" aria-pressed=${channel === name} onClick=${() => this.setState({ channel: name })}>${text}</button>`;
    return html`<section aria-labelledby="output">
      <h2 id="output">Output</h2>
      <p class="tabs" role="group" aria-label="Channel">${tab("stdout", "Standard output")}${tab("stderr", "Standard error")}</p>
      <${Load} key=${channel} url=${`${path}/output?channel=${channel}`} always=${isRunning}>${(data, error) => html`
        <${Trouble} error=${error} />
        ${data && (data.text
          ? html`${data.offset > 0 && html`<p class="dim">The end of it; <code>hq job cat ${job} ${channel} --tasks ${task}</code> prints all.</p>`}<pre class="output" tabindex="0" aria-label=${channel}>${safeLines(data.text)}</pre>`
          : html`<p class="empty">${data.reason ? safe(data.reason) : NONE[data.state] ?? "It has printed nothing."}</p>`)}
      `}<//>
    </section>`;
  }
}

// Why an attempt ended that did not end the task.
const ENDS = {
  "worker-lost": "Lost with its worker",
  "worker-left": "Its worker left or gave it up",
  walltime: "The time of its worker was over",
  objects: "An object of it could not be had or stored",
  "put-back": "It put itself back",
  superseded: "Another attempt finished first",
  "ended-early": "Its task was canceled or aborted",
};

function Attempts({ attempts }) {
  const workers = (attempt) => attempt.workers ?? (attempt.worker != null ? [attempt.worker] : []);
  return html`<section aria-labelledby="attempts">
    <h2 id="attempts">Other attempts</h2>
    <${Table} caption="Other attempts" head=${[{ text: "Attempt", class: "number" }, "Worker", "Started", "Took", "Why it ended"]} empty="">
      ${attempts.map((attempt) => html`<tr key=${attempt.instance}>
        <td class="number">${attempt.instance + 1}</td>
        <td>${workers(attempt).map((worker, place) => html`${place > 0 && ", "}<a href=${`#/workers/${worker}`}>${worker}</a>`)}</td>
        <td>${time(attempt.started_at)}</td>
        <td>${attempt.started_at && duration(secondsBetween(attempt.started_at, attempt.finished_at))}</td>
        <td class="words">${attempt.end === "failed" ? safe(attempt.error || "Failed") : ENDS[attempt.end] ?? safe(attempt.end)}</td>
      </tr>`)}
    <//>
  </section>`;
}

function Found({ task, job }) {
  const path = `/api/v1/jobs/${job}/tasks/${task.id}`;
  const now = new Date(live.now() * 1000).toISOString();
  const isRunning = task.state === "running";
  const until = task.finished_at ?? (isRunning ? now : null);
  const facts = [
    ["Worker", (task.workers ?? (task.worker != null ? [task.worker] : [])).map((worker, place) => html`${place > 0 && ", "}<a href=${`#/workers/${worker}`}>${worker}</a>`)],
    ["Key", task.key],
    ["Started", time(task.started_at)],
    [isRunning ? "Runs for" : "Took", task.started_at && until && duration(secondsBetween(task.started_at, until))],
    ["Ended", time(task.finished_at)],
    ["Attempt", `${task.instance + 1}${task.crashes > 0 ? `, lost with a worker ${task.crashes} times` : ""}`],
    ["Uses now", task.use_now && `${short(task.use_now.cpus)} CPUs (${short(task.use_now.cpus_max)} at most), ${bytes(task.use_now.memory)} (${bytes(task.use_now.memory_max)} at most)`],
    ["Read, written so far", (task.use_now?.cpu_seconds ?? 0) > 0 ? `${bytes(task.use_now.read)}, ${bytes(task.use_now.written)}` : null],
    ["CPU time", task.usage && duration(task.usage.cpu_user + task.usage.cpu_system)],
    ["Memory", task.usage && `${bytes(task.usage.memory_peak_bytes)} at most`],
    ["Read, written", task.usage && `${bytes(task.usage.read_bytes)}, ${bytes(task.usage.written_bytes)}`],
    ["Directory", task.cwd && html`<bdi>${safe(task.cwd)}</bdi>`],
    ["Standard output", task.stdout && html`<bdi>${safe(task.stdout)}</bdi>`],
    ["Standard error", task.stderr && html`<bdi>${safe(task.stderr)}</bdi>`],
  ].filter(([, value]) => value != null && value !== "" && value.length !== 0);
  return html`
    <p class="title"><${State} word=${task.state} /> ${task.error && html`<strong class="words">${safe(task.error)}</strong>`}</p>
    <dl class="facts">${facts.map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>
    ${task.exception && html`<h2>Traceback</h2><pre class="output" tabindex="0">${safeLines(task.exception.traceback)}</pre>`}
    ${task.attempts?.length > 0 && html`<${Attempts} attempts=${task.attempts} />`}
    ${task.state === "waiting" && html`<${Reasons} path=${path} />`}
    ${task.started_at && html`<${Output} path=${path} isRunning=${isRunning} job=${job} task=${task.id} />`}`;
}

export function Task({ ids: [job, id] }) {
  return html`<p><a href=${`#/jobs/${job}`}>Job ${job}</a></p>
    <${Load} url=${`/api/v1/jobs/${job}/tasks/${id}`}>${(task, error) => html`
      <${Trouble} error=${error} />
      ${task ? html`<${Found} task=${task} job=${job} />` : !error && html`<p class="empty">Waiting…</p>`}
    `}<//>`;
}
