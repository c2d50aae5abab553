// Queues: their allocations, what became of the node hours, and why not more is asked for.

import { html } from "/lib.js";
import { live, Load } from "/data.js";
import { count, duration, safe, secondsBetween } from "/format.js";
import { Act, Name, State, Table, Trouble } from "/parts.js";

const hours = (number) => (number === 0 ? "0" : number.toFixed(2));

function Why({ queue }) {
  return html`<${Load} url=${`/api/v1/queues/${queue}/explain`}>${(data, error) => html`
    <h3>Why no more are requested</h3>
    <${Trouble} error=${error} />
    ${data && html`<p>${safe(data.next)}.</p>
      <ul>${data.facts.map((fact) => html`<li>${safe(fact)}</li>`)}
        ${data.demand.map((line) => html`<li>${count(line.waiting)} wait for ${safe(line.request)}${line.why_not ? `: ${safe(line.why_not)}` : ""}</li>`)}</ul>`}
  `}<//>`;
}

function Queue({ queue, allocations }) {
  const now = new Date(live.now() * 1000).toISOString();
  const { node_hours: time, allocations: counts } = queue;
  const head = ["Allocation", "Batch job", "State", { text: "Nodes", class: "number" }, { text: "Waited", class: "number" }, { text: "Ran", class: "number" }, { text: "Used", class: "number wide" }, { text: "Idle", class: "number wide" }, { text: "Lost", class: "number wide" }, { text: "Note", class: "grow" }];
  const row = (one) => html`<tr key=${one.allocation}>
    <th scope="row">${one.allocation}</th>
    <td>${one.id === one.allocation ? "" : safe(one.id)}</td>
    <td><${State} word=${one.status} /></td>
    <td class="number">${one.target_worker_count}</td>
    <td class="number">${duration(secondsBetween(one.queued_at, one.started_at ?? one.ended_at ?? now))}</td>
    <td class="number">${one.started_at ? duration(secondsBetween(one.started_at, one.ended_at ?? now)) : ""}</td>
    <td class="number wide">${hours(one.node_hours.used)}</td><td class="number wide">${hours(one.node_hours.idle)}</td><td class="number wide">${hours(one.node_hours.lost)}</td>
    <td class="grow words">${safe(one.detail ?? "")}${one.workers.map((worker, place) => html`${place > 0 ? ", " : one.detail ? "; workers " : "workers "}<a href=${`#/workers/${worker}`}>${worker}</a>`)}</td>
  </tr>`;
  const path = `/api/v1/queues/${queue.id}`;
  const title = `Queue ${queue.id}`;
  return html`<section aria-labelledby=${`queue-${queue.id}`}>
    <h2 id=${`queue-${queue.id}`}>${title} <${Name} text=${queue.name ?? queue.manager} /></h2>
    <p><${State} word=${queue.state.toLowerCase()} /> ${queue.manager}: ${count(counts.queued)} queued, ${count(counts.running)} running, ${count(counts.finished)} finished, ${count(counts.failed)} failed</p>
    ${queue.pause_reason && html`<p class="trouble">Paused: ${safe(queue.pause_reason)}</p>`}
    <p>Node hours: ${hours(time.used)} used, ${hours(time.idle)} idle, ${hours(time.lost)} lost of ${hours(time.asked)} asked for</p>
    <p class="acts">${queue.paused_at
      ? html`<${Act} key="resume" label="Resume" question=${`Let queue ${queue.id} ask for allocations again?`} path=${`${path}/resume`} />`
      : html`<${Act} key="pause" label="Pause" question=${`Let queue ${queue.id} ask for no more allocations?`} path=${`${path}/pause`} />`}</p>
    <${Table} caption=${`Allocations of queue ${queue.id}`} head=${head} empty="It has no allocations yet.">${allocations.map(row)}<//>
    <${Why} queue=${queue.id} />
  </section>`;
}

export function Allocations() {
  return html`<${Load} url="/api/v1/allocations">${(data, error) => html`
    <${Trouble} error=${error} />
    ${data ? data.queues.map((queue) => html`<${Queue} key=${queue.id} queue=${queue} allocations=${data.allocations[queue.id] ?? []} />`) : !error && html`<p class="empty">Waiting…</p>`}
    ${data && data.queues.length === 0 && html`<p class="empty">There are no queues: use <code>hq alloc add slurm --time-limit 1h</code> to start workers through a batch system.</p>`}
  `}<//>`;
}
