// Parts that several views have: bars, tables, badges, charts, questions.

import { html, Component } from "/lib.js";
import { Bar, Chart, Choice, Name, Table } from "/basics.js";
import { live, order } from "/data.js";
import { amount, counted, ended, percent, resource, safe } from "/format.js";

export const TASK_STATES = ["waiting", "running", "finished", "failed", "canceled", "aborted"];
export const JOB_STATES = ["opened", "waiting", "running", "finished", "failed", "aborted", "canceled"];

// A resource with at most so many whole pieces has a square for each.
const PIECES_MAX = 512;
const PIECES_PER_ROW = 32;

export const State = ({ word }) => html`<span class=${`state ${word.toLowerCase().split(" ")[0]}`}>${word}</span>`;

export function Trouble({ error }) {
  // That nobody answers is said above.
  if (!error || live.status === "lost" || live.status === "away") return null;
  return html`<p class="trouble" role="alert">${safe(error.error)}${error.hint ? html` <span class="hint">${safe(error.hint)}</span>` : null}</p>`;
}

// How far tasks are, as a bar.
export function Progress({ stats }) {
  const total = ended(stats) + stats.running + stats.waiting;
  if (total === 0) return html`<span class="dim">no tasks</span>`;
  const words = TASK_STATES.filter((state) => stats[state] > 0).map((state) => `${amount(stats[state])} ${state}`);
  const order = ["finished", "failed", "aborted", "canceled", "running"];
  return html`<span class="progress" role="img" aria-label=${words.join(", ")} title=${words.join(", ")}>
    ${order.map((state) => stats[state] > 0 && html`<span class=${state} style=${{ width: `${(100 * stats[state]) / total}%` }}></span>`)}
  </span>`;
}

// How much of a resource is taken: a square for each core or device where there is room, and else a bar.
export function Taken({ name, taken, offered }) {
  const label = `${name}: ${resource(name, taken)} of ${resource(name, offered)} taken`;
  const pieces = Math.floor(offered);
  if (name === "mem" || pieces < 1 || pieces > PIECES_MAX) return html`<${Bar} part=${offered > 0 ? taken / offered : 0} label=${label} />`;
  const used = Math.min(pieces, Math.ceil(taken));
  const rows = Math.ceil(pieces / PIECES_PER_ROW);
  const squares = (from, to) => {
    let path = "";
    for (let piece = from; piece < to; piece += 1) path += `M${(piece % PIECES_PER_ROW) * 7} ${Math.floor(piece / PIECES_PER_ROW) * 7}h6v6h-6z`;
    return path;
  };
  const columns = Math.min(pieces, PIECES_PER_ROW);
  return html`<svg class="pieces" role="img" aria-label=${label} width=${columns * 7} height=${rows * 7} viewBox=${`0 0 ${columns * 7} ${rows * 7}`}>
    <title>${label}</title>
    <path class="used" d=${squares(0, used)} /><path class="free" d=${squares(used, pieces)} />
  </svg>`;
}

// A button whose order is asked about before.
export class Act extends Component {
  constructor(props) {
    super(props);
    this.state = { said: "" };
  }

  render({ label, question, path }, { said }) {
    if (!live.overview?.allows_actions) return null;
    const answer = async () => {
      this.dialog.close();
      this.setState({ said: "…" });
      this.setState({ said: await order(path) });
    };
    return html`<span class="act">
      <button type="button" onClick=${() => this.dialog.showModal()}>${label}</button>
      <dialog ref=${(dialog) => { this.dialog = dialog; }} aria-label=${question}>
        <p>${question}</p>
        <p><button type="button" onClick=${answer}>Yes</button> <button type="button" onClick=${() => this.dialog.close()} autofocus>No</button></p>
      </dialog>
      <span role="status">${said}</span>
    </span>`;
  }
}

// To the pages before and behind.
export function Pager({ what, isFirst, first, next }) {
  if (isFirst && !next) return null;
  return html`<nav class="pager" aria-label=${`Pages of ${what}`}>
    ${isFirst ? html`<span class="dim">First page</span>` : html`<a href=${first}>First page</a>`}
    ${next ? html`<a href=${next} rel="next">Next page</a>` : html`<span class="dim">Last page</span>`}
  </nav>`;
}

export { Bar, Chart, Choice, counted, Name, Table };

// How busy nodes were: all of them, or that of a worker.
export function Busy({ load }) {
  const { now, points } = load;
  if (now.nodes === 0 || points.length < 2) return html`<p class="empty">Nothing is known yet: workers take a sample every 10 seconds.</p>`;
  const share = (of, total) => (total > 0 ? of / total : 0);
  const kinds = [["cpus", "CPUs", now.cpus_total, "--cpus"], now.gpus_total > 0 && ["gpus", "GPUs", now.gpus_total, "--gpus"], ["memory", "memory", now.memory_total, "--memory"]].filter(Boolean);
  const said = kinds.map(([name, text, total]) => `${percent(share(now.load[name], total))} of ${text}`).join(", ");
  const most = points.reduce((most, point) => Math.max(most, share(point.max.cpus, now.cpus_total)), 0);
  const times = points.map((point) => new Date(point.at) / 1000);
  const column = ([name, , total]) => points.map((point) => share(point.mean[name], total));
  return html`<div class="charts">
    <${Chart} key=${kinds.length} title="Busy" isPart said=${`${said}; CPUs ${percent(most)} at most`} data=${[times, ...kinds.map(column)]} series=${kinds.map(([, label, , color]) => ({ label, color }))} />
  </div>`;
}
