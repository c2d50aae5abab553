// The page of `hq journal report`: what the document in it tells, with a part of the time that can be chosen.

import { html, render, Component } from "/lib.js";
import { count, counted, duration, percent, safe, short, time } from "/format.js";
import { Bar, Chart, Choice, Name, Table } from "/basics.js";
import { barsOf, countIn, drawPlaces, drawWorkers, placeAt, placesIn } from "/timeline.js";

// Rows of the timeline, of tables, and executions among which the first ones are looked for.
const ROWS = 40;
const LISTED = 100;
const SOUGHT = 20000;

const past = JSON.parse(document.getElementById("past").textContent);
// Times in the page are seconds behind a full hour, so that marks are at full minutes and no digits get lost.
const begin = Math.floor(past.from_us / 3.6e9) * 3600;
const origin = past.from_us / 1e6 - begin;
const seconds = (us) => (us === null || us === undefined ? null : origin + us / 1e6);
const whole = [origin, origin + past.span_us / 1e6];
const workers = past.workers.map((worker) => ({
  ...worker, joined: seconds(worker.joined_us), ended: seconds(worker.ended_us), bars: barsOf(worker, past.unit_us / 1e6, origin),
}));
const links = past.path.links.map((link) => ({ ...link, start: seconds(link.last_start_us), end: seconds(link.end_us) }));

const clock = (at) => time((begin + at) * 1000);
const us = (value) => (value === null || value === undefined ? "–" : spell(value / 1e6));
const task = (job, id) => `${job}@${id}`;
const host = (worker) => (worker.host === null ? "not known any more" : worker.host);

function spell(value) {
  if (value <= 0) return "0";
  if (value < 0.001) return `${Math.round(value * 1e6)}\u202fµs`;
  if (value < 1) return `${Number((value * 1e3).toPrecision(3))}\u202fms`;
  return value < 60 ? `${Number(value.toPrecision(3))}\u202fs` : duration(value);
}

function cpuTime(value) {
  return value < 7200 ? spell(value) : `${count(value / 3600)}\u202fh`;
}

// What is in the address: the chosen part and worker.
function chosen() {
  const words = new URLSearchParams(location.hash.slice(1));
  const [from, to] = ["from", "to"].map((name) => Number.parseFloat(words.get(name)));
  const range = from < to ? bounded([origin + from, origin + to]) : whole;
  const worker = workers.findIndex(({ id }) => String(id) === words.get("worker"));
  return { range, worker: worker < 0 && workers.length === 1 ? 0 : worker };
}

// Within what there is, and not shorter than what can be told apart.
function bounded([from, to]) {
  const length = Math.min(whole[1] - whole[0], Math.max(to - from, (20 * past.unit_us) / 1e6));
  const first = Math.min(Math.max(from, whole[0]), whole[1] - length);
  return [first, first + length];
}

class Report extends Component {
  constructor() {
    super();
    this.state = { ...chosen(), first: 0, said: "" };
    this.zoom = (from, to) => this.choose({ range: bounded([from, to]) });
    this.keys = (event) => {
      const act = { "+": () => this.scale(0.5), "=": () => this.scale(0.5), "-": () => this.scale(2), ArrowLeft: () => this.move(-0.5), ArrowRight: () => this.move(0.5), 0: () => this.choose({ range: whole }) }[event.key];
      if (!act || event.ctrlKey || event.metaKey || event.altKey || event.target.matches("select, input")) return;
      event.preventDefault();
      act();
    };
  }

  componentDidMount() {
    window.addEventListener("hashchange", () => this.setState({ ...chosen(), first: 0 }));
  }

  choose(change) {
    this.setState(change, () => {
      const { range, worker } = this.state;
      const words = new URLSearchParams();
      if (range !== whole && (range[0] > whole[0] || range[1] < whole[1])) {
        words.set("from", (range[0] - origin).toFixed(6));
        words.set("to", (range[1] - origin).toFixed(6));
      }
      if (worker >= 0 && workers.length > 1) words.set("worker", workers[worker].id);
      history.replaceState(null, "", `#${words}`);
    });
  }

  scale(by) {
    const [from, to] = this.state.range;
    const [middle, half] = [(from + to) / 2, ((to - from) / 2) * by];
    this.zoom(middle - half, middle + half);
  }

  move(by) {
    const [from, to] = this.state.range;
    this.zoom(from + by * (to - from), to + by * (to - from));
  }

  show(link) {
    const slack = Math.max((link.end - link.start) / 2, 1e-3);
    const worker = workers.findIndex(({ id }) => id === link.worker);
    this.choose({ range: bounded([link.start - slack, link.end + slack]), worker, first: Math.floor(link.lane / ROWS) * ROWS });
    document.getElementById("timeline").scrollIntoView();
  }

  render(_, { range, worker, first, said }) {
    return html`<main>
      <h1>What happened at server <${Name} text=${past.server} /></h1>
      <p>From ${clock(whole[0])} to ${clock(whole[1])}, which are ${spell(whole[1] - whole[0])}; times are those of ${Intl.DateTimeFormat().resolvedOptions().timeZone || "this browser"}.</p>
      <${Trouble} />
      <${Totals} />
      <${Timeline} range=${range} worker=${worker} first=${first} said=${said} report=${this} />
      <${OverTime} range=${range} onZoom=${this.zoom} />
      <${Parts} />
      <${Waits} />
      <${Kinds} />
      <${Failures} />
      <${Path} report=${this} />
      <${Jobs} />
      <${Workers} report=${this} />
      <p class="dim">Written by hq ${past.version}. Everything is in this file: it can be sent, and nothing is fetched from anywhere.</p>
    </main>`;
  }
}

// What who reads should know first.
function Trouble() {
  const { totals, timeline } = past;
  const left = past.jobs.rows.reduce((sum, job) => sum + job.tasks - job.finished - job.failed - job.canceled - job.aborted, 0);
  const notes = [
    totals.attempts.finished + totals.attempts.failed + totals.attempts.lost === 0 && "No task ran in this time.",
    workers.length === 0 && "No worker was there.",
    left > 0 && `${counted(left, "task")} had not ended at the end.`,
    totals.starts > 1 && `The server was started ${count(totals.starts)} times.`,
    totals.compacted_us > 0 && `The journal was compacted at ${clock(seconds(totals.compacted_us))}: of the time before, not everything is known.`,
    totals.not_kept > 0 && `${count(totals.not_kept)} executions were too many to be looked at.`,
    timeline.left_out > 0 && `${count(timeline.left_out)} executions are not drawn, for they ran beside so many others; they count everywhere else.`,
    timeline.workers > workers.length && `${count(timeline.workers - workers.length)} more workers have no row; they count everywhere else.`,
  ].filter(Boolean);
  return notes.length > 0 && html`<ul class="notes">${notes.map((note) => html`<li>${note}</li>`)}</ul>`;
}

function Totals() {
  const { totals, parts } = past;
  const { finished, failed, lost } = totals.attempts;
  const work = parts.rows.find(({ part }) => part === "work");
  const tile = (name, value, more) => html`<div class="tile"><dt>${name}</dt><dd>${value}${more && html`<div class="more">${more}</div>`}</dd></div>`;
  return html`<dl class="tiles">
    ${tile("Executions", count(finished + failed + lost), `${count(finished)} finished`)}
    ${tile("Failed", count(failed), lost > 0 ? `${count(lost)} lost and repeated` : "none was lost")}
    ${tile("Workers", count(past.timeline.workers), `${Number(totals.node_hours.toPrecision(3))} node hours`)}
    ${tile("CPU time offered", cpuTime(parts.cpu_seconds), parts.cpu_seconds > 0 ? `${percent(work.cpu_seconds / parts.cpu_seconds)} of it was work` : null)}
    ${parts.gpu_seconds > 0 && tile("GPU time offered", cpuTime(parts.gpu_seconds), `${percent(work.gpu_seconds / parts.gpu_seconds)} of it was work`)}
    ${tile("First submit to last end", us(totals.ttc_us), `for ${us(totals.ttx_us)} something ran`)}
  </dl>`;
}

function Timeline({ range, worker, first, said, report }) {
  const shown = worker < 0 ? workers.slice(first, first + ROWS) : [workers[worker]];
  const total = worker < 0 ? workers.length : workers[worker].lanes;
  const rows = Math.min(ROWS, total - first);
  const sum = countIn(worker < 0 ? workers : shown, range);
  const words = `${clock(range[0])} to ${clock(range[1])}, ${spell(range[1] - range[0])}: ${counted(sum.count, "execution")}${sum.failed > 0 ? `, ${count(sum.failed)} failed` : ""}${sum.lost > 0 ? `, ${count(sum.lost)} lost` : ""}`;
  const draw = (plot) => (worker < 0 ? drawWorkers(plot, shown, range) : drawPlaces(plot, shown[0], first, rows, range, links));
  const point = (plot) => report.setState({ said: under(plot, shown, worker, first, rows) });
  const { resolution_us } = past.timeline;
  const choices = [["-1", "all workers"], ...workers.map(({ id, ...one }, place) => [String(place), `worker ${id} on ${safe(host(one))}`])];
  return html`<section aria-labelledby="timeline" onKeyDown=${report.keys}>
    <h2 id="timeline">Timeline</h2>
    <p class="choices">
      ${workers.length > 1 && html`<${Choice} label="Rows" value=${String(worker)} options=${choices} onChoose=${(value) => report.choose({ worker: Number(value), first: 0 })} />`}
      <span class="buttons" role="group" aria-label="Part of the time">
        <button type="button" onClick=${() => report.scale(0.5)}>Zoom in <kbd>+</kbd></button>
        <button type="button" onClick=${() => report.scale(2)}>Zoom out <kbd>−</kbd></button>
        <button type="button" onClick=${() => report.move(-0.5)}>Earlier <kbd>←</kbd></button>
        <button type="button" onClick=${() => report.move(0.5)}>Later <kbd>→</kbd></button>
        <button type="button" onClick=${() => report.choose({ range: whole })}>Everything <kbd>0</kbd></button>
      </span>
    </p>
    <p role="status" class="shown">${words}</p>
    ${rows > 0 && html`<div class="timeline" tabindex="0" aria-label="Timeline: + and − zoom, arrows move, 0 shows everything">
      <${Chart} title=${worker < 0 ? "Workers" : `Worker ${shown[0].id}`} said=${worker < 0 ? "how many of its places run something" : "a row for each place; executions that ran beside one another have several"} begin=${begin}
        data=${empty(range)} series=${[]} range=${range} rows=${labels(worker < 0 ? shown : null, first, rows)} height=${rows * (worker < 0 ? 22 : 16) + 40} draw=${draw} onPoint=${point} onZoom=${report.zoom} />
      <p class="legend" aria-hidden="true"><span class="key run">finished</span><span class="key failed">failed, with a line in it</span><span class="key lost">lost, flat</span>${worker >= 0 && links.length > 0 && html`<span class="key link">critical path, framed</span>`}</p>
      <p class="under dim">${said || "Choose a part with the mouse, or point at something."}</p>
    </div>`}
    ${total > ROWS && html`<p class="pager"><button type="button" disabled=${first === 0} onClick=${() => report.setState({ first: Math.max(0, first - ROWS) })}>Rows before</button> <span>${count(first + 1)} to ${count(first + rows)} of ${count(total)}</span> <button type="button" disabled=${first + rows >= total} onClick=${() => report.setState({ first: first + ROWS })}>Rows behind</button></p>`}
    ${resolution_us > 0 && html`<p class="dim">There are so many executions that those which together took less than ${us(resolution_us)} are one bar.</p>`}
    <details><summary>As a table</summary><${Listed} workers=${worker < 0 ? workers : shown} range=${range} total=${sum.count} /></details>
  </section>`;
}

// The same objects each time, so that charts are not made anew.
const emptyData = new Map();
function empty(range) {
  const key = range.join();
  if (!emptyData.has(key)) {
    emptyData.clear();
    emptyData.set(key, [range]);
  }
  return emptyData.get(key);
}

const labelsKnown = new Map();
function labels(shown, first, rows) {
  const key = shown ? `w${first}` : `p${first}.${rows}`;
  if (!labelsKnown.has(key)) {
    const all = shown ? shown.map(({ id, host: name }) => `${id} ${safe(name ?? "")}`.slice(0, 14)) : Array.from({ length: rows }, (_, row) => String(first + row + 1));
    labelsKnown.set(key, all);
  }
  return labelsKnown.get(key);
}

// What the mouse points at.
function under(plot, shown, worker, first, rows) {
  const { left, top } = plot.cursor;
  if (!(left >= 0) || !(top >= 0)) return "";
  const at = plot.posToVal(left, "x");
  const row = Math.floor(plot.posToVal(top, "y"));
  if (worker < 0) return shown[row] ? `${clock(at)}, worker ${shown[row].id} on ${safe(host(shown[row]))}` : "";
  if (row < 0 || row >= rows) return "";
  const place = placeAt(shown[0], first + row, at, plot.posToVal(left + 3, "x") - at);
  return place === null ? clock(at) : `${clock(at)}, ${barWords(shown[0].bars, place)}`;
}

function outcome(bars, place) {
  const [count_, failed, lost] = [bars.count[place], bars.failed[place], bars.lost[place]];
  if (count_ === 1) return failed > 0 ? "failed" : lost > 0 ? "lost" : "finished";
  return [[count_ - failed - lost, "finished"], [failed, "failed"], [lost, "lost"]].filter(([number]) => number > 0).map(([number, word]) => `${count(number)} ${word}`).join(", ");
}

function barWords(bars, place) {
  const first = `task ${task(bars.job[place], bars.task[place])}`;
  const many = bars.count[place] > 1 ? `${counted(bars.count[place], "execution")} from ${first} on` : first;
  return `${many}: ${outcome(bars, place)}, ${spell(bars.end[place] - bars.start[place])}`;
}

function Listed({ workers: shown, range, total }) {
  if (total > SOUGHT) return html`<p class="empty">There are more than ${count(SOUGHT)} executions in this part: choose a shorter one, or one worker.</p>`;
  const rows = shown.flatMap((worker) => placesIn(worker.bars, range).map((place) => [worker, place]));
  rows.sort(([one, a], [other, b]) => one.bars.start[a] - other.bars.start[b]);
  const cells = rows.slice(0, LISTED).map(([{ id, bars }, place]) => html`<tr>
    <td>${clock(bars.start[place])}</td><td class="number">${spell(bars.end[place] - bars.start[place])}</td>
    <td class="number">${task(bars.job[place], bars.task[place])}${bars.count[place] > 1 && ` and ${count(bars.count[place] - 1)} more`}</td>
    <td class="number">${id}</td><td class="number">${bars.lane[place] + 1}</td><td>${outcome(bars, place)}</td></tr>`);
  return html`<${Table} caption="Executions" head=${["Start", right("Time"), right("Task"), right("Worker"), right("Place"), "Outcome"]} empty="Nothing ran in this part.">${cells}<//>
    ${rows.length > LISTED && html`<p class="dim">The first ${LISTED} of ${count(rows.length)} bars.</p>`}`;
}

const right = (text) => ({ text, class: "number" });

const columns = past.over_time.running.length;
const times = Array.from({ length: columns + 1 }, (_, place) => whole[0] + ((whole[1] - whole[0]) * place) / columns);
const column = (name) => [...past.over_time[name], past.over_time[name].at(-1)];
const has = (name) => past.over_time[name].some((value) => value > 0);

const CHARTS = [
  { title: "Tasks", unit: "running", data: [times, column("running"), column("ready"), column("blocked")], names: ["running", "ready", "blocked"],
    series: [{ label: "running", color: "--run", isStepped: true }, { label: "waiting for a worker", color: "--wait", isStepped: true }, { label: "waiting for others", color: "--odd", isStepped: true }] },
  { title: "CPUs", data: [times, column("cpus_offered"), column("cpus")], names: ["cpus_offered", "cpus"],
    series: [{ label: "offered", color: "--dim", isStepped: true }, { label: "asked for by what runs", color: "--cpus", isStepped: true, isFilled: true }] },
  has("gpus_offered") && { title: "GPUs", data: [times, column("gpus_offered"), column("gpus")], names: ["gpus_offered", "gpus"],
    series: [{ label: "offered", color: "--dim", isStepped: true }, { label: "asked for by what runs", color: "--gpus", isStepped: true, isFilled: true }] },
].filter(Boolean);

// Average and most of what is over time, in a part of it.
function inRange(name, range) {
  const all = past.over_time[name];
  const place = (at) => Math.min(columns - 1, Math.max(0, Math.floor(((at - whole[0]) / (whole[1] - whole[0])) * columns)));
  const part = all.slice(place(range[0]), place(range[1]) + 1);
  return { average: part.reduce((sum, value) => sum + value, 0) / part.length, most: part.reduce((most, value) => Math.max(most, value), 0) };
}

function OverTime({ range, onZoom }) {
  const rows = CHARTS.flatMap(({ title, names, series }) => names.map((name, place) => ({ text: `${title}: ${series[place].label}`, ...inRange(name, range) })));
  return html`<section aria-labelledby="over-time">
    <h2 id="over-time">At the same time</h2>
    <div class="charts">${CHARTS.map(({ title, data, names, series }) => {
      const said = names.map((name, place) => `${short(inRange(name, range).average)} ${series[place].label}`).join(", ");
      return html`<${Chart} title=${title} said=${`${said} on average`} begin=${begin} data=${data} series=${series} range=${range} onZoom=${onZoom} />`;
    })}</div>
    <details><summary>As a table</summary><${Table} caption="At the same time" head=${["In the chosen part", right("On average"), right("At most")]}>
      ${rows.map(({ text, average, most }) => html`<tr><td>${text}</td><td class="number">${short(average)}</td><td class="number">${short(most)}</td></tr>`)}
    <//></details>
  </section>`;
}

const PARTS = {
  work: "Work", failed: "Failed or canceled", lost: "Lost: crashes, retries, second attempts", starting: "Start of tasks",
  no_room: "Idle: ready tasks did not fit", dependencies: "Idle: tasks were waiting for others", leaving: "Idle: the worker was about to end", no_work: "Idle: no tasks",
  unknown: "Not known: before the compaction",
};

function Parts() {
  const { parts } = past;
  const share = (of, total) => (total > 0 ? of / total : 0);
  const rows = parts.rows.filter(({ cpu_seconds, gpu_seconds }) => cpu_seconds > 0 || gpu_seconds > 0);
  const gpus = parts.gpu_seconds > 0;
  return html`<section aria-labelledby="parts">
    <h2 id="parts">How the time of workers was used</h2>
    <${Table} caption="How the time of workers was used" head=${["Part", right("CPU"), right("Share"), { text: "\u00a0", class: "grow" }, gpus && right("GPU"), gpus && right("Share")].filter(Boolean)} empty="No worker offered any.">
      ${rows.map(({ part, cpu_seconds, gpu_seconds }) => html`<tr><th scope="row">${PARTS[part]}</th><td class="number">${cpuTime(cpu_seconds)}</td><td class="number">${percent(share(cpu_seconds, parts.cpu_seconds))}</td>
        <td class="grow"><${Bar} part=${share(cpu_seconds, parts.cpu_seconds)} label=${`${PARTS[part]}: ${percent(share(cpu_seconds, parts.cpu_seconds))}`} /></td>
        ${gpus && html`<td class="number">${cpuTime(gpu_seconds)}</td><td class="number">${percent(share(gpu_seconds, parts.gpu_seconds))}</td>`}</tr>`)}
    <//>
  </section>`;
}

function Waits() {
  const { count: all, quantiles_us, steps } = past.waits;
  const most = Math.max(1, ...steps.map(([, number]) => number));
  const text = ([until], place) => (until === null ? `${us(steps[place - 1][0])} and more` : `up to ${us(until)}`);
  const names = ["Least", "Half of them at most", "90 % at most", "99 % at most", "Most"];
  return html`<section aria-labelledby="waits">
    <h2 id="waits">Waiting times</h2>
    <p class="dim">From the moment when a task could start, submitted and with everything that it depends on, to its start.</p>
    ${all > 0 && html`<dl class="tiles">${names.map((name, place) => html`<div class="tile"><dt>${name}</dt><dd>${us(quantiles_us[place])}</dd></div>`)}</dl>`}
    <${Table} caption="Waiting times" head=${["Waited", right("Executions"), right("Share"), { text: "\u00a0", class: "grow" }]} empty="Nothing started.">
      ${steps.map((step, place) => step[1] > 0 && html`<tr><th scope="row">${text(step, place)}</th><td class="number">${count(step[1])}</td><td class="number">${percent(step[1] / all)}</td><td class="grow"><${Bar} part=${step[1] / most} label=${`${text(step, place)}: ${count(step[1])}`} /></td></tr>`).filter(Boolean)}
    <//>
  </section>`;
}

function Kinds() {
  const head = ["Ask for", right("Tasks"), right("CPU used"), right("Memory of 99 %"), right("Time of 99 %"), "Enough would be"];
  const mib = (value) => (value >= 1024 ? `${Number((value / 1024).toPrecision(3))} GiB` : `${value} MiB`);
  const advice = (kind) => [
    kind.cpus !== null && kind.cpus_advised !== null && kind.cpus_advised < kind.cpus && counted(kind.cpus_advised, "CPU"),
    kind.memory_mib !== null && kind.memory_advised_mib !== null && kind.memory_advised_mib < kind.memory_mib && mib(kind.memory_advised_mib),
  ].filter(Boolean).join(", ");
  return html`<section aria-labelledby="kinds">
    <h2 id="kinds">Requested and used resources</h2>
    <${Table} caption="Requested and used resources" head=${head} empty="No task was measured.">
      ${past.kinds.map((kind) => html`<tr><th scope="row" class="words"><${Name} text=${kind.asks} /></th><td class="number">${count(kind.tasks)}</td>
        <td class="number">${kind.cpu_part === null ? "–" : percent(kind.cpu_part)}</td><td class="number">${mib(kind.memory_used_mib[0])}</td><td class="number">${us(kind.time_used_us[0])}</td><td>${advice(kind) || "–"}</td></tr>`)}
    <//>
    ${past.kinds_left_out > 0 && html`<p class="dim">${counted(past.kinds_left_out, "task")} of further kinds are left out.</p>`}
  </section>`;
}

const KINDS = {
  exit: "exit code", signal: "signal", timeout: "time limit", start: "not started", crashes: "lost with workers", lost: "lost", output: "output missing", puller: "said by its puller", "ended-early": "ended early",
};

function Failures() {
  const { total, causes, causes_total, list } = past.failures;
  return html`<section aria-labelledby="failures">
    <h2 id="failures">Failures by cause</h2>
    <${Table} caption="Failures by cause" head=${[right("Tasks"), right("Job"), "Cause", right("First task"), right("Workers")]} empty="No task failed.">
      ${causes.map((cause) => html`<tr><td class="number">${count(cause.count)}</td><td class="number">${cause.job}</td><th scope="row" class="words"><${Name} text=${cause.text} /></th><td class="number">${task(cause.job, cause.first)}</td><td class="number">${cause.workers.length > 3 ? counted(cause.workers.length, "worker") : cause.workers.join(", ")}</td></tr>`)}
    <//>
    ${causes_total > causes.length && html`<p class="dim">${count(causes_total - causes.length)} more causes are not shown.</p>`}
    ${list.length > 0 && html`<details><summary>${list.length < total ? `The first ${count(list.length)} of ${count(total)} failures` : `All ${counted(total, "failure")}`}</summary>
      <${Table} caption="Failures" head=${["When", right("Task"), right("Worker"), "Kind", "Error"]}>
        ${list.map((one) => html`<tr><td>${clock(seconds(one.at_us))}</td><td class="number">${task(one.job, one.task)}</td><td class="number">${one.worker ?? "–"}</td><td>${KINDS[one.kind] ?? one.kind}</td><td class="words"><${Name} text=${one.error} /></td></tr>`)}
      <//></details>`}
  </section>`;
}

function Path({ report }) {
  const { tasks, waited_us, ran_us } = past.path;
  return html`<section aria-labelledby="path">
    <h2 id="path">Critical path</h2>
    <p>${tasks > 0 ? `The chain that led to the last end: ${counted(tasks, "task")}, which ran for ${us(ran_us)} and waited for ${us(waited_us)} when they could have started. To be done sooner, these must be.` : ""}</p>
    ${tasks > links.length && html`<p class="dim">The longest ${count(links.length)} of them, in order.</p>`}
    <${Table} caption="Critical path" head=${[right("Task"), "Could start", right("Waited"), right("Ran"), right("Worker"), "Outcome", "Timeline"]} empty="No task ran.">
      ${links.map((link) => html`<tr><th scope="row" class="number">${task(link.job, link.task)}</th><td>${clock(seconds(link.ready_us))}</td><td class="number">${us(link.start_us - link.ready_us)}</td><td class="number">${us(link.end_us - link.start_us)}${link.attempts > 1 && `, in ${count(link.attempts)} attempts`}</td><td class="number">${link.worker}</td><td>${link.outcome === "work" ? "finished" : link.outcome}</td>
        <td><button type="button" aria-label=${`Show task ${task(link.job, link.task)} in the timeline`} onClick=${() => report.show(link)}>Show</button></td></tr>`)}
    <//>
  </section>`;
}

function Jobs() {
  const { total, rows } = past.jobs;
  const head = [right("ID"), "Name", "Submitted", "Last end", right("Tasks"), right("Finished"), right("Failed"), right("Canceled"), right("Aborted"), right("Waited, half"), right("CPU time")];
  return html`<section aria-labelledby="jobs">
    <h2 id="jobs">Jobs</h2>
    <${Table} caption="Jobs" head=${head} empty="There was no job.">
      ${rows.map((job) => html`<tr><td class="number">${job.id}</td><th scope="row"><${Name} text=${job.name} cut /></th><td>${clock(seconds(job.submitted_us))}</td><td>${job.last_end_us === null ? "–" : clock(seconds(job.last_end_us))}</td>
        ${["tasks", "finished", "failed", "canceled", "aborted"].map((name) => html`<td class="number">${count(job[name])}</td>`)}<td class="number">${us(job.wait_us)}</td><td class="number">${cpuTime(job.cpu_seconds)}</td></tr>`)}
    <//>
    ${total > rows.length && html`<p class="dim">The ${count(rows.length)} of ${count(total)} that took most time.</p>`}
  </section>`;
}

class Workers extends Component {
  render({ report }, { all }) {
    const head = [right("ID"), "Node", "Joined", "Left", right("CPUs"), right("GPUs"), right("Executions"), right("Failed"), right("Lost"), right("Work"), "Timeline"];
    const rows = all ? workers : workers.slice(0, LISTED);
    return html`<section aria-labelledby="workers">
      <h2 id="workers">Workers</h2>
      <${Table} caption="Workers" head=${head} empty="No worker was there.">
        ${rows.map((worker, place) => html`<tr><td class="number">${worker.id}</td><th scope="row"><${Name} text=${host(worker)} cut /></th><td>${worker.joined === null ? "–" : clock(worker.joined)}</td><td>${worker.ended === null ? "–" : clock(worker.ended)}</td>
          <td class="number">${worker.cpus ?? "–"}</td><td class="number">${worker.gpus ?? "–"}</td><td class="number">${count(worker.attempts.finished + worker.attempts.failed + worker.attempts.lost)}</td><td class="number">${count(worker.attempts.failed)}</td><td class="number">${count(worker.attempts.lost)}</td><td class="number">${worker.work === null ? "–" : percent(worker.work)}</td>
          <td><button type="button" aria-label=${`Show worker ${worker.id} in the timeline`} onClick=${() => { report.choose({ worker: place, first: 0 }); document.getElementById("timeline").scrollIntoView(); }}>Show</button></td></tr>`)}
      <//>
      ${!all && workers.length > LISTED && html`<p><button type="button" onClick=${() => this.setState({ all: true })}>Show all ${count(workers.length)}</button></p>`}
    </section>`;
  }
}

render(html`<${Report} />`, document.getElementById("app"));
