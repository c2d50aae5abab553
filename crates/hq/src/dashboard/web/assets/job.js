// A job: how far it is, why tasks failed, what it executes, its tasks a page at a time.

import { html, Component } from "/lib.js";
import { address, live, Load } from "/data.js";
import { amount, bytes, command, count, counted, duration, ended, rate, safe, secondsBetween, time } from "/format.js";
import { color } from "/basics.js";
import { Act, Chart, Choice, Name, Pager, Progress, State, Table, TASK_STATES, Trouble } from "/parts.js";

// Tasks on a page.
const PAGE = 100;

// What a submit asks for.
function request(of) {
  const parts = of.resources.map((one) => {
    if (one.request === "all") return `${one.resource}: all`;
    const [[policy, wanted]] = Object.entries(one.request);
    const value = one.resource === "mem" ? bytes(wanted * 1024 * 1024) : amount(wanted);
    return `${one.resource}: ${value}${policy === "compact" ? "" : ` ${policy}`}`;
  });
  if (of.n_nodes > 0) parts.unshift(`${counted(of.n_nodes, "node")}`);
  if (of.min_time > 0) parts.push(`at least ${duration(of.min_time)}`);
  return parts.join(", ");
}

// What each submit executes: of a job file there are several, with ids of their own.
const parts = (job) => job.submits.flatMap((submit) => submit.graph ?? [{ ...submit.array, ids: submit.ids }]);

function Submits({ job }) {
  return html`<section aria-labelledby="submits">
    <h2 id="submits">What it executes</h2>
    ${parts(job).map((part) => html`<div class="submit">
      <pre><code>${part.function ? `function ${safe(part.function.name)}` : safe(command(part.program.args))}</code></pre>
      <p class="dim">${part.resources.map(request).filter(Boolean).join(" or ")} · in <bdi>${safe(part.program.cwd)}</bdi> · tasks ${part.ids.length > 60 ? `${part.ids.slice(0, 60)}…` : part.ids}</p>
    </div>`)}
    ${!job.submits_are_all && html`<p class="dim">The first of its submits; <code>hq job info ${job.info.id}</code> tells all.</p>`}
  </section>`;
}

function Failures({ job }) {
  return html`<${Load} url=${`/api/v1/jobs/${job}/failures`}>${(data, error) => {
    const causes = data?.causes ?? [];
    const head = [{ text: "Tasks", class: "number" }, "Cause", { text: "First", class: "number" }];
    return html`<section aria-labelledby="failures">
      <h2 id="failures">Failures by cause</h2>
      <${Trouble} error=${error} />
      ${data && html`<${Table} caption="Failures by cause" head=${head} empty="Not known any more.">${causes.map((cause) => html`<tr>
        <td class="number">${cause.count_is_estimate ? "about " : ""}${count(cause.count)}</td>
        <th scope="row" class="words">${safe(cause.cause)}${cause.first.stderr_last_line && html`<br /><code class="last">${safe(cause.first.stderr_last_line)}</code>`}</th>
        <td class="number"><a href=${`#/jobs/${job}/tasks/${cause.first.id}`}>${cause.first.id}</a></td>
      </tr>`)}<//>`}
    </section>`;
  }}<//>`;
}

// Of the tasks that have ended, those that took longest.
function Slowest({ job, tasks }) {
  if (tasks.length === 0) return null;
  const head = [{ text: "Task", class: "number" }, { text: "Took", class: "number" }, { text: "Worker", class: "number" }, { text: "Note", class: "grow" }];
  return html`<section aria-labelledby="slowest">
    <h2 id="slowest">Took longest</h2>
    <${Table} caption="Tasks that took longest" head=${head} empty="">${tasks.map((slow) => html`<tr key=${slow.task}>
      <th scope="row" class="number"><a href=${`#/jobs/${job}/tasks/${slow.task}`}>${slow.task}</a></th>
      <td class="number">${duration(slow.took)}</td>
      <td class="number">${slow.worker != null && html`<a href=${`#/workers/${slow.worker}`}>${slow.worker}</a>`}</td>
      <td class="grow">${slow.state === "finished" ? "" : slow.state}</td>
    </tr>`)}<//>
  </section>`;
}

// How many tasks ran when. Below, a mark where some failed.
function Timeline({ job }) {
  return html`<${Load} url=${`/api/v1/jobs/${job}/timeline`}>${(data) => {
    if (!data || data.attempts + Math.max(0, ...data.running) === 0) return null;
    const begin = new Date(data.from) / 1000;
    const times = data.running.map((_, place) => begin + place * data.step);
    const failed = data.failed.reduce((sum, number) => sum + number, 0);
    const marks = (plot) => {
      plot.ctx.fillStyle = color("--bad");
      const { height, top } = plot.bbox;
      data.failed.forEach((number, place) => number > 0 && plot.ctx.fillRect(plot.valToPos(times[place], "x", true) - 2, top + height - 10, 4, 10));
    };
    const said = [`${rate(Math.max(...data.running))} at most over ${duration(data.running.length * data.step)}`, failed > 0 && `${counted(failed, "attempt")} failed`, !data.is_complete && "more to come"].filter(Boolean).join(", ");
    return html`<section aria-labelledby="timeline">
      <h2 id="timeline">Timeline</h2>
      <div class="charts"><${Chart} title="Tasks at a time" said=${said} data=${[times, data.running]} draw=${marks} series=${[{ label: "running", color: "--run", isFilled: true, isStepped: true }]} /></div>
    </section>
    <${Slowest} job=${job} tasks=${data.slowest ?? []} />`;
  }}<//>`;
}

// How far each layer of its graph is.
function Layers({ job }) {
  return html`<${Load} url=${`/api/v1/jobs/${job}/layers`}>${(data) => {
    if (!data || data.depth < 2) return null;
    const head = [{ text: "Layer", class: "number" }, { text: "Progress", class: "grow" }, { text: "Tasks", class: "number" }, { text: "Left", class: "number" }, { text: "First", class: "number" }];
    return html`<section aria-labelledby="layers" class="tall">
      <h2 id="layers">${count(data.depth)} layers of its graph</h2>
      <${Table} caption="Layers" head=${head} empty="">${data.layers.map((layer) => {
        const stats = layer.task_stats;
        const left = stats.waiting + stats.running;
        return html`<tr key=${layer.first}>
          <th scope="row" class="number">${layer.first === layer.last ? layer.first : `${layer.first}–${layer.last}`}</th>
          <td class="grow"><${Progress} stats=${stats} /></td>
          <td class="number">${count(ended(stats) + left)}</td>
          <td class="number">${count(left)}</td>
          <td class="number"><a href=${`#/jobs/${job}/tasks/${layer.first_task}`}>${layer.first_task}</a></td>
        </tr>`;
      })}<//>
    </section>`;
  }}<//>`;
}

class Tasks extends Component {
  go(change) {
    const { job, query } = this.props;
    location.hash = `#${address(`/jobs/${job}`, { state: query.get("state"), after: null, ...change })}`;
  }

  render({ job, query }) {
    const [state, after] = ["state", "after"].map((name) => query.get(name) ?? "");
    const url = address(`/api/v1/jobs/${job}/tasks`, { state, after, limit: PAGE });
    const head = [{ text: "Task", class: "number" }, "State", { text: "Worker", class: "number" }, { text: "Time", class: "number" }, { text: "Note", class: "grow" }];
    const row = (now) => (task) => {
      const until = task.finished_at ?? (task.state === "running" ? now : null);
      return html`<tr key=${task.id}>
        <th scope="row" class="number"><a href=${`#/jobs/${job}/tasks/${task.id}`}>${task.id}</a></th>
        <td><${State} word=${task.state} /></td>
        <td class="number">${task.worker != null && html`<a href=${`#/workers/${task.worker}`}>${task.worker}</a>`}</td>
        <td class="number">${task.started_at && until ? duration(secondsBetween(task.started_at, until)) : ""}</td>
        <td class="grow words">${safe(task.error ?? task.key ?? "")}</td>
      </tr>`;
    };
    const open = (event) => {
      event.preventDefault();
      const id = Number(event.target.elements.task.value);
      if (Number.isInteger(id) && id >= 0) location.hash = `#/jobs/${job}/tasks/${id}`;
    };
    return html`<section aria-labelledby="tasks">
      <h2 id="tasks">Tasks</h2>
      <form class="choices" onSubmit=${open}>
        <${Choice} label="State" value=${state} options=${[["", "all"], ...TASK_STATES.map((word) => [word, word])]} onChoose=${(state) => this.go({ state })} />
        <label class="choice">Open task <input name="task" inputmode="numeric" pattern="[0-9]+" size="8" required /></label>
        <button>Open</button>
      </form>
      <${Load} url=${url}>${(data, error) => html`
        <${Trouble} error=${error} />
        ${data && html`<${Table} caption="Tasks" head=${head} empty=${state ? `No task is ${state}.` : "It has no tasks yet."}>${data.tasks.map(row(data.now))}<//>
        <${Pager} what="tasks" isFirst=${after === ""} first=${`#${address(`/jobs/${job}`, { state })}`} next=${data.next != null && `#${address(`/jobs/${job}`, { state, after: data.next })}`} />`}
      `}<//>
    </section>`;
  }
}

function Found({ job, query }) {
  const { info } = job;
  const stats = info.task_stats;
  const until = job.finished_at ?? new Date(live.now() * 1000).toISOString();
  const words = TASK_STATES.filter((state) => stats[state] > 0).map((state) => `${count(stats[state])} ${state}`);
  return html`
    <p class="title"><${State} word=${info.state} /> <strong><${Name} text=${info.name} /></strong>${info.is_open && html` <span class="dim">open: it takes more tasks until <code>hq job close ${info.id}</code></span>`}</p>
    <${Progress} stats=${stats} />
    <p>${words.join(", ") || "no tasks yet"}${info.unrunnable_tasks > 0 && html`; <strong>${counted(info.unrunnable_tasks, "task")} fit no current or expected worker</strong>`}</p>
    <p class="dim">Submitted ${time(job.started_at)}, ${job.finished_at ? `ended after ${duration(secondsBetween(job.started_at, until))}` : `${duration(secondsBetween(job.started_at, until))} ago`}${ended(stats) > 0 && `; ended tasks used ${duration(job.usage.wall)} wall, ${duration(job.usage.cpu_user + job.usage.cpu_system)} CPU, ${bytes(job.usage.memory_peak_bytes)} at most`}</p>
    ${info.stalled && html`<p><strong>Stands still</strong>: ${safe(info.stalled)}</p>`}
    ${info.cancel_reason && html`<p>Canceled: ${safe(info.cancel_reason)}</p>`}
    <p class="acts">
      ${(stats.waiting + stats.running > 0) && html`<${Act} label="Cancel" question=${`Cancel all tasks of job ${info.id} that have not ended?`} path=${`/api/v1/jobs/${info.id}/cancel`} />`}
      ${(stats.failed + stats.canceled + stats.aborted > 0) && html`<${Act} label="Resubmit failed tasks" question=${`Submit the tasks of job ${info.id} that failed or were canceled again, as a new job?`} path=${`/api/v1/jobs/${info.id}/resubmit`} />`}
    </p>
    ${stats.failed > 0 && html`<${Failures} job=${info.id} />`}
    <${Timeline} job=${info.id} />
    <${Layers} job=${info.id} />
    <${Tasks} job=${info.id} query=${query} />
    <${Submits} job=${job} />`;
}

export function Job({ ids: [id], query }) {
  return html`<p><a href="#/jobs">All jobs</a></p>
    <${Load} url=${`/api/v1/jobs/${id}`}>${(job, error) => html`
      <${Trouble} error=${error} />
      ${job ? html`<${Found} job=${job} query=${query} />` : !error && html`<p class="empty">Waiting…</p>`}
    `}<//>`;
}
