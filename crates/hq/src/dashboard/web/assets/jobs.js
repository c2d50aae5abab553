// Jobs: searched, filtered, sorted, a page at a time.

import { html, Component } from "/lib.js";
import { address, Load } from "/data.js";
import { count } from "/format.js";
import { Choice, JOB_STATES, Name, Pager, Progress, State, Table, Trouble } from "/parts.js";

// Jobs on a page.
const PAGE = 100;
// How long a search waits for the next letter.
const LETTER_MS = 250;

const SORTS = [["latest", "latest first"], ["name", "name"], ["busy", "most to do"], ["failed", "most failed"]];

export class Jobs extends Component {
  go(change) {
    const { query } = this.props;
    const next = { text: query.get("text"), state: query.get("state"), sort: query.get("sort"), before: null, ...change };
    location.hash = `#${address("/jobs", next)}`;
  }

  search(text) {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.go({ text }), LETTER_MS);
  }

  componentWillUnmount() {
    clearTimeout(this.timer);
  }

  render({ query }) {
    const [text, state, sort, before] = ["text", "state", "sort", "before"].map((name) => query.get(name) ?? "");
    const isLatest = sort === "" || sort === "latest";
    const url = address("/api/v1/jobs", { text, state, sort, before: isLatest ? before : "", limit: PAGE });
    const states = [["", "all"], ...JOB_STATES.map((word) => [word, word])];
    if (state !== "" && !JOB_STATES.includes(state)) states.push([state, state.replaceAll(",", ", ")]);
    const sorted = (name) => ((sort || "latest") === name ? (name === "name" ? "ascending" : "descending") : undefined);
    const head = [
      { text: "Job", class: "number", sorted: sorted("latest") }, { text: "Name", sorted: sorted("name") }, "State", { text: "Progress", class: "grow" },
      { text: "Tasks", class: "number" }, { text: "Waiting", class: "number wide", sorted: sorted("busy") }, { text: "Running", class: "number wide" },
      { text: "Failed", class: "number", sorted: sorted("failed") },
    ];
    const row = (job) => html`<tr key=${job.id}>
      <td class="number"><a href=${`#/jobs/${job.id}`}>${job.id}</a></td>
      <th scope="row"><a href=${`#/jobs/${job.id}`} tabindex="-1"><${Name} text=${job.name} cut /></a>${job.is_open && html` <span class="dim">open</span>`}</th>
      <td><${State} word=${job.state} /></td>
      <td class="grow"><${Progress} stats=${job.task_stats} /></td>
      <td class="number">${count(job.task_count)}</td>
      <td class="number wide">${count(job.task_stats.waiting)}</td>
      <td class="number wide">${count(job.task_stats.running)}</td>
      <td class="number">${count(job.task_stats.failed)}</td>
    </tr>`;
    const isFiltered = text !== "" || state !== "" || before !== "";
    const empty = isFiltered ? html`No job fits. <a href="#/jobs">Show all</a>` : html`There are no jobs yet: <code>hq submit -- hostname</code> submits one.`;
    return html`
      <form class="choices" role="search" onSubmit=${(event) => event.preventDefault()}>
        <label class="choice">Search <input type="search" placeholder="name or number" value=${text} maxlength="200" onInput=${(event) => this.search(event.target.value)} /></label>
        <${Choice} label="State" value=${state} options=${states} onChoose=${(state) => this.go({ state })} />
        <${Choice} label="Sort" value=${sort || "latest"} options=${SORTS} onChoose=${(sort) => this.go({ sort })} />
      </form>
      <${Load} url=${url}>${(data, error) => html`
        <${Trouble} error=${error} />
        ${data ? html`<${Table} caption="Jobs" head=${head} empty=${empty}>${data.jobs.map(row)}<//>
        <${Pager} what="jobs" isFirst=${before === ""} first=${`#${address("/jobs", { text, state, sort })}`} next=${data.next && `#${address("/jobs", { text, state, sort, before: data.next })}`} />
        ${!isLatest && html`<p class="dim">Sorted among the latest thousand matching jobs.</p>`}` : !error && html`<p class="empty">Waiting…</p>`}
      `}<//>`;
  }
}
