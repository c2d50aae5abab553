// Everything in counts, and how that was over time.

import { html } from "/lib.js";
import { live, Load } from "/data.js";
import { count, counted, duration, ended, percent, rate, resource } from "/format.js";
import { Bar, Busy, Chart, JOB_STATES, Progress, Trouble } from "/parts.js";

// Parts of a chart of a rate.
const PARTS = 120;

// What to do where nothing is yet.
function FirstStep({ overview }) {
  const { active, closed, away } = overview.workers;
  const hasWorkers = active + closed + away > 0;
  const hasJobs = JOB_STATES.some((state) => overview.jobs[state] > 0);
  if (hasWorkers && hasJobs) return null;
  return html`<section class="first" aria-labelledby="first">
    <h2 id="first">${hasJobs || hasWorkers ? "The next step" : "The first step"}</h2>
    ${!hasWorkers && html`<p>No worker is connected, so nothing is running yet. Start one here, or let the server ask a batch system for some:</p>
      <pre><code>hq worker start${"\n"}hq alloc add slurm --time-limit 1h</code></pre>`}
    ${!hasJobs && html`<p>There are no jobs. Submit a command, or the same for many tasks:</p>
      <pre><code>hq submit -- hostname${"\n"}hq submit --array 1-100 -- ./score %{TASK_ID}</code></pre>`}
    <p><code>hq doc quick-start</code> tells more.</p>
  </section>`;
}

function Tile({ label, number, more, href }) {
  const value = href ? html`<a href=${href}>${number}</a>` : number;
  return html`<div class="tile"><dt>${label}</dt><dd>${value}</dd>${more && html`<dd class="more">${more}</dd>`}</div>`;
}

export function Overview() {
  const { overview, series } = live;
  if (!overview) return html`<p class="empty">Waiting for the server…</p>`;
  const { task_stats: tasks, ended_since_start: ends, workers, resources } = overview;
  const now = live.rate();
  const left = tasks.waiting + tasks.running;
  const latest = Math.max(live.now(), series.at.at(-1) ?? 0);
  const upToNow = (name) => [...series[name], series[name].at(-1) ?? 0];
  const times = [...series.at, latest];
  const [rateTimes, rates] = live.rates(PARTS);
  const at = (name) => series[name].at(-1) ?? 0;
  const most = (name) => series[name].reduce((most, value) => Math.max(most, value), 0);
  const since = duration(series.at.length > 0 ? latest - series.at[0] : 0);
  const hasGpus = resources.some((one) => one.name.startsWith("gpus"));
  const shares = [["cpus", "CPUs", "--cpus"], hasGpus && ["gpus", "GPUs", "--gpus"], ["memory", "memory", "--memory"]].filter(Boolean);
  const jobs = JOB_STATES.filter((state) => overview.jobs[state] > 0);
  return html`
    <${FirstStep} overview=${overview} />
    <section aria-labelledby="tasks">
      <h2 id="tasks">Tasks</h2>
      <${Progress} stats=${tasks} />
      <dl class="tiles">
        <${Tile} label="Running" number=${count(tasks.running)} href="#/jobs?state=running" />
        <${Tile} label="Waiting" number=${count(tasks.waiting)} more=${`${count(overview.ready_tasks)} ready`} href="#/jobs?state=waiting,running" />
        <${Tile} label="Finished" number=${count(tasks.finished)} />
        <${Tile} label="Failed" number=${count(tasks.failed)} href=${tasks.failed > 0 ? "#/jobs?sort=failed" : undefined} more=${ends.restarted > 0 ? `${count(ends.restarted)} restarted` : undefined} />
        <${Tile} label="Per second" number=${now === null ? "–" : rate(now)} more=${now > 0 && left > 0 ? `about ${duration(left / now)} left` : undefined} />
      </dl>
      ${jobs.length > 0 && html`<p>Jobs: ${jobs.map((state, place) => html`${place > 0 && ", "}<a href=${`#/jobs?state=${state}`}>${count(overview.jobs[state])} ${state}</a>`)}</p>`}
    </section>
    <section aria-labelledby="cluster">
      <h2 id="cluster">Cluster</h2>
      <p><a href="#/workers">${counted(workers.active + workers.closed + workers.away, "worker")}</a>: ${count(workers.idle)} idle, ${count(workers.closed)} closed, ${count(workers.away)} away</p>
      <ul class="resources">${resources.map((one) => html`<li>
        <bdi>${one.name}</bdi>
        <${Bar} part=${one.offered > 0 ? one.taken / one.offered : 0} label=${`${one.name}: ${resource(one.name, one.taken)} of ${resource(one.name, one.offered)} taken`} />
        <span aria-hidden="true">${resource(one.name, one.taken)} of ${resource(one.name, one.offered)}</span>
      </li>`)}</ul>
    </section>
    <section aria-labelledby="time">
      <h2 id="time">Over ${since}</h2>
      <div class="charts">
        <${Chart} title="Tasks per second" said=${`${now === null ? "–" : rate(now)} now, ${rate(Math.max(0, ...rates))} at most`} data=${[rateTimes, rates]} series=${[{ label: "ended", color: "--good", isFilled: true }]} />
        <${Chart} title="Tasks" said=${`${count(tasks.running)} running, ${count(tasks.waiting)} waiting`} data=${[times, upToNow("running"), upToNow("waiting")]} series=${[{ label: "running", color: "--run", isStepped: true }, { label: "waiting", color: "--wait", isStepped: true }]} />
        <${Chart} key=${hasGpus} title="Taken" isPart said=${shares.map(([name, text]) => `${percent(at(name))} of ${text}`).join(", ") + `; CPUs ${percent(most("cpus"))} at most`} data=${[times, ...shares.map(([name]) => upToNow(name))]} series=${shares.map(([, label, color]) => ({ label, color, isStepped: true }))} />
      </div>
    </section>
    <section aria-labelledby="busy">
      <h2 id="busy">Nodes in the last hour</h2>
      <${Load} url="/api/v1/load">${(load, error) => html`<${Trouble} error=${error} />${load && html`<${Busy} load=${load} />`}`}<//>
    </section>
    <p class="dim">${ended(tasks) > 0 || left > 0 ? `Counts are of jobs that are known; ended ones may have been forgotten.` : ""}</p>`;
}
