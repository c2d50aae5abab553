// Workers: who is there, and how full each is; of one, a map of its cores, GPUs and memory.

import { html } from "/lib.js";
import { address, live, Load } from "/data.js";
import { bytes, count, counted, duration, resource, safe, secondsBetween, short, time } from "/format.js";
import { Act, Busy, Choice, Name, Pager, State, Table, Taken, Trouble } from "/parts.js";

// Workers on a page.
const PAGE = 100;

const STATES = [["", "connected"], ["offline", "gone"], ["all", "all"]];

function word(worker) {
  const runtime = worker.runtime_info;
  if (worker.ended) return "gone";
  if (worker.disconnected_until) return "away";
  if (worker.trouble) return "trouble";
  if (worker.is_stopping) return "stopping";
  if (worker.is_draining) return "draining";
  if (runtime?.MultiNodeTask) return "busy";
  if (runtime?.SingleNodeTasks?.is_reserved) return "reserved";
  return (runtime?.SingleNodeTasks?.running_tasks ?? 0) > 0 ? "busy" : "idle";
}

const running = (worker) => worker.runtime_info?.SingleNodeTasks?.running_tasks ?? (worker.runtime_info?.MultiNodeTask ? 1 : 0);

// How much of each resource there is, and how much is taken.
function pools(worker) {
  return worker.configuration.resources.resources.map((pool, place) => {
    const offered = {
      list: () => pool.values.length,
      groups: () => pool.groups.reduce((sum, group) => sum + group.length, 0),
      range: () => pool.end - pool.start + 1,
      sum: () => pool.size,
    }[pool.kind]();
    return { name: pool.name, offered, taken: worker.resources_taken[place]?.amount ?? 0 };
  });
}

const Pieces = ({ of }) => (of ? html`<span class="taken"><${Taken} ...${of} /> <span class="dim" aria-hidden="true">${resource(of.name, of.taken)}/${resource(of.name, of.offered)}</span></span>` : null);

export function Workers({ query }) {
  const [state, after] = ["state", "after"].map((name) => query.get(name) ?? "");
  const url = address("/api/v1/workers", { state, after, limit: PAGE });
  const now = new Date(live.now() * 1000).toISOString();
  return html`
    <form class="choices" onSubmit=${(event) => event.preventDefault()}>
      <${Choice} label="Workers" value=${state} options=${STATES} onChoose=${(state) => { location.hash = `#${address("/workers", { state })}`; }} />
    </form>
    <${Load} url=${url}>${(data, error) => {
      if (!data) return html`<${Trouble} error=${error} />${!error && html`<p class="empty">Waiting…</p>`}`;
      const all = data.workers.map((worker) => ({ worker, pools: pools(worker) }));
      const hasGpus = all.some((one) => one.pools.some((pool) => pool.name.startsWith("gpus")));
      const head = [{ text: "Worker", class: "number" }, "Host", "State", "Cores", hasGpus && "GPUs", { text: "Memory", class: "wide" }, { text: "Tasks", class: "number" }, { text: "There for", class: "number wide" }, { text: "Batch job", class: "wide" }].filter(Boolean);
      const row = ({ worker, pools }) => html`<tr key=${worker.id}>
        <td class="number"><a href=${`#/workers/${worker.id}`}>${worker.id}</a></td>
        <th scope="row"><${Name} text=${worker.configuration.hostname} cut /></th>
        <td><${State} word=${word(worker)} /></td>
        <td><${Pieces} of=${pools.find((pool) => pool.name === "cpus")} /></td>
        ${hasGpus && html`<td><${Pieces} of=${pools.find((pool) => pool.name.startsWith("gpus"))} /></td>`}
        <td class="wide"><${Pieces} of=${pools.find((pool) => pool.name === "mem")} /></td>
        <td class="number">${count(running(worker))}</td>
        <td class="number wide">${duration(secondsBetween(worker.started, worker.ended?.at ?? now))}</td>
        <td class="wide">${safe(worker.allocation?.id ?? "")}</td>
      </tr>`;
      const empty = state === "" ? html`There are no workers: <code>hq worker start</code> starts one here, <code>hq alloc add</code> lets a batch system bring some.` : "No worker fits.";
      return html`<${Trouble} error=${error} />
        <p>${counted(data.total, "worker")}</p>
        <${Table} caption="Workers" head=${head} empty=${empty}>${all.map(row)}<//>
        <${Pager} what="workers" isFirst=${after === ""} first=${`#${address("/workers", { state })}`} next=${data.next != null && `#${address("/workers", { state, after: data.next })}`} />`;
    }}<//>`;
}

// What runs there, longest first, and how many tasks are to run there next.
function Now({ worker }) {
  return html`<${Load} url=${`/api/v1/workers/${worker}/tasks`}>${(data, error) => {
    const running = (data?.tasks ?? []).filter((task) => task.state === "running").sort((a, b) => a.started_at < b.started_at ? -1 : 1);
    const waiting = (data?.tasks ?? []).length - running.length;
    const more = [waiting > 0 && `${counted(waiting, "task")} more ${waiting === 1 ? "is" : "are"} there to run next`, data && !data.are_all && "not all are shown"].filter(Boolean).join("; ");
    const head = [{ text: "Task", class: "number" }, { text: "For", class: "number" }];
    return html`<section aria-labelledby="now">
      <h2 id="now">Running now</h2>
      <${Trouble} error=${error} />
      ${data && html`<${Table} caption="Tasks that run there" head=${head} empty="No task runs there.">${running.map((task) => html`<tr key=${`${task.job_id}@${task.job_task_id}`}>
        <th scope="row" class="number"><a href=${`#/jobs/${task.job_id}/tasks/${task.job_task_id}`}>${task.job_id}@${task.job_task_id}</a></th>
        <td class="number">${duration(secondsBetween(task.started_at, data.now))}</td>
      </tr>`)}<//>`}
      ${more && html`<p class="dim">${more}</p>`}
    </section>`;
  }}<//>`;
}

function Found({ worker }) {
  const { configuration: config, last_task_started: last, runtime_info: runtime } = worker;
  const now = new Date(live.now() * 1000).toISOString();
  const task = (of) => html`<a href=${`#/jobs/${of.job_id}/tasks/${of.job_task_id}`}>${of.job_id}@${of.job_task_id}</a>`;
  const facts = [
    ["Tasks", runtime?.SingleNodeTasks && `${count(running(worker))} running, ${count(runtime.SingleNodeTasks.assigned_tasks)} there`],
    ["A node of", runtime?.MultiNodeTask && task(runtime.MultiNodeTask.task)],
    ["Last started", last && html`${task(last.task_id)}, ${duration(secondsBetween(last.time, now))} ago`],
    ["Started", `${time(worker.started)}, ${duration(secondsBetween(worker.started, worker.ended?.at ?? now))} ${worker.ended ? "there" : "ago"}`],
    ["Ended", worker.ended && `${time(worker.ended.at)}: ${safe(worker.ended.reason)}`],
    ["Tasks use", worker.tasks_now && !worker.ended && `${short(worker.tasks_now.cpus)} CPUs, ${bytes(worker.tasks_now.memory)}`],
    ["Group", safe(config.group)],
    ["Batch job", worker.allocation && `${worker.allocation.manager} ${safe(worker.allocation.id)}`],
    ["Time limit", config.time_limit != null && duration(config.time_limit)],
    ["Directory", html`<bdi>${safe(config.work_dir)}</bdi>`],
    ["Process", config.pid],
  ].filter(([, value]) => value);
  return html`
    <p class="title"><${State} word=${word(worker)} /> <strong><${Name} text=${config.hostname} /></strong></p>
    ${worker.trouble && html`<p class="trouble">It cannot start tasks: ${safe(worker.trouble)}</p>`}
    ${worker.disconnected_until && !worker.ended && html`<p class="trouble">Its connection is lost; its tasks go elsewhere in ${duration(secondsBetween(now, worker.disconnected_until))}</p>`}
    ${!worker.ended && !worker.is_draining && !worker.is_stopping && html`<p class="acts"><${Act} label="Drain" question=${`Let worker ${worker.id} finish what runs there, and then stop?`} path=${`/api/v1/workers/${worker.id}/stop`} /></p>`}
    <section aria-labelledby="map"><h2 id="map">What is taken</h2>
      <ul class="resources map">${pools(worker).map((pool) => html`<li><bdi>${safe(pool.name)}</bdi> <${Taken} ...${pool} /> <span aria-hidden="true">${resource(pool.name, pool.taken)}/${resource(pool.name, pool.offered)}</span></li>`)}</ul>
    </section>
    ${worker.hw_state && !worker.ended && html`<section aria-labelledby="busy"><h2 id="busy">Its node in the last hour</h2>
      <${Load} url=${`/api/v1/load?worker=${worker.id}`}>${(load, error) => html`<${Trouble} error=${error} />${load && html`<${Busy} load=${load} />`}`}<//>
    </section>`}
    ${!worker.ended && html`<${Now} worker=${worker.id} />`}
    <dl class="facts">${facts.map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`;
}

export function Worker({ ids: [id] }) {
  return html`<p><a href="#/workers">All workers</a></p>
    <${Load} url=${`/api/v1/workers/${id}`}>${(worker, error) => html`
      <${Trouble} error=${error} />
      ${worker ? html`<${Found} worker=${worker} />` : !error && html`<p class="empty">Waiting…</p>`}
    `}<//>`;
}
