// What is known of the server: its counts as they come, how they were, and what views ask for.

import { Component } from "/lib.js";

// As many points as the command keeps. When there are more, every second one of the older half goes.
const POINTS_MAX = 1024;
// A list is asked for again at most so often while things go on changing.
const REFRESH_MS = 1000;
// After a quiet time it is asked for so often without waiting that long, but at least this far apart.
const REFRESH_BURST = 4;
const REFRESH_GAP_MS = 25;
// What changes without a word is looked at so often.
const LOOK_MS = 2000;
// How long to wait before the command is looked for again.
const RETRY_MS = 2000;
// A page that nobody sees has no stream: a browser has six connections for all of its pages together. It lets go of its own
// after so long, and at once when it is left.
const REST_MS = 2000;
// Over how long a rate is taken at least, in seconds.
const RATE_TIME = 10;

const COLUMNS = ["at", "ended", "failed", "running", "waiting", "cpus", "gpus", "memory"];

class Live {
  constructor() {
    // connecting, live, lost (the server), away (the command), closed (no session).
    this.status = "connecting";
    this.why = "";
    this.overview = null;
    this.heard = 0;
    this.series = Object.fromEntries(COLUMNS.map((name) => [name, []]));
    this.listeners = new Set();
  }

  listen(listener) {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  tell() {
    for (const listener of this.listeners) listener();
  }

  begin() {
    this.rest();
    document.addEventListener("visibilitychange", () => this.rest());
    // A browser keeps pages that were left, with their connections, and may show them again.
    window.addEventListener("pagehide", () => this.leave());
    window.addEventListener("pageshow", (event) => event.persisted && this.rest());
  }

  leave() {
    clearTimeout(this.pause);
    this.source?.close();
    this.source = null;
  }

  rest() {
    clearTimeout(this.pause);
    if (document.hidden) {
      this.pause = setTimeout(() => this.leave(), REST_MS);
    } else if (!this.source && this.status !== "closed") {
      this.connect();
      this.recall();
    }
  }

  // How it was before.
  recall() {
    fetch("/api/v1/series").then((answer) => (answer.ok ? answer.json() : null)).then((series) => {
      if (!series) return;
      const later = this.series;
      const last = series.at.at(-1) ?? 0;
      const from = later.at.findIndex((at) => at > last);
      for (const name of COLUMNS) this.series[name] = series[name].concat(from < 0 ? [] : later[name].slice(from));
      this.tell();
    }, () => {});
  }

  connect() {
    this.source?.close();
    const source = new EventSource("/api/v1/events");
    this.source = source;
    source.addEventListener("overview", (event) => this.hear(JSON.parse(event.data)));
    source.addEventListener("lost", (event) => this.be("lost", JSON.parse(event.data).error));
    source.onerror = () => {
      if (this.status !== "closed") this.be("away", "");
      if (source.readyState !== EventSource.CLOSED) return;
      this.look();
    };
  }

  // Says why there is no stream: a session that has ended is told from a command that has.
  look() {
    const again = () => setTimeout(() => this.look(), RETRY_MS);
    fetch("/api/v1/overview").then((answer) => {
      if (answer.status === 401) {
        this.be("closed", "");
      } else if (answer.ok) {
        this.connect();
      } else {
        again();
      }
    }, again);
  }

  be(status, why) {
    this.status = status;
    this.why = why;
    this.tell();
  }

  hear(overview) {
    this.overview = overview;
    this.heard = performance.now();
    this.push(overview);
    this.be("live", "");
  }

  push(overview) {
    const stats = overview.ended_since_start;
    const part = (fits) => {
      const those = overview.resources.filter((resource) => fits(resource.name));
      const offered = those.reduce((sum, resource) => sum + resource.offered, 0);
      return offered > 0 ? those.reduce((sum, resource) => sum + resource.taken, 0) / offered : 0;
    };
    const point = {
      at: new Date(overview.now) / 1000,
      ended: stats.finished + stats.failed + stats.canceled + stats.aborted,
      failed: stats.failed,
      running: overview.task_stats.running,
      waiting: overview.task_stats.waiting,
      cpus: part((name) => name === "cpus"),
      gpus: part((name) => name.startsWith("gpus")),
      memory: part((name) => name === "mem"),
    };
    const { at, ended } = this.series;
    // The same may come twice, with a time that is rounded once.
    const isNew = at.length > 0 && (point.at < at.at(-1) - 1 || point.ended < ended.at(-1));
    if (!isNew && at.length > 0 && point.at <= at.at(-1)) return;
    for (const name of COLUMNS) {
      const column = isNew ? [] : this.series[name];
      column.push(point[name]);
      const half = column.length / 2;
      const isFull = column.length > POINTS_MAX;
      this.series[name] = isFull ? column.filter((_, place) => place >= half || place % 2 === 0) : column;
    }
  }

  // The time of the server, in seconds since 1970.
  now() {
    if (!this.overview) return Date.now() / 1000;
    const passed = this.status === "live" ? (performance.now() - this.heard) / 1000 : 0;
    return new Date(this.overview.now) / 1000 + passed;
  }

  // Tasks that end in a second now.
  rate() {
    const { at, ended } = this.series;
    if (at.length === 0) return null;
    const now = Math.max(this.now(), at.at(-1));
    let from = 0;
    while (from + 1 < at.length && now - at[from + 1] >= RATE_TIME) from += 1;
    const passed = now - at[from];
    return passed >= 1 ? (ended.at(-1) - ended[from]) / passed : null;
  }

  // Tasks that ended in a second, in equal parts of the time until now, and the ends of these.
  rates(parts) {
    const { at, ended } = this.series;
    const now = Math.max(this.now(), at.at(-1) ?? 0);
    if (at.length === 0 || now <= at[0]) return [[], []];
    const step = (now - at[0]) / parts;
    let place = 0;
    const endedAt = (time) => {
      while (place + 1 < at.length && at[place + 1] <= time) place += 1;
      if (place + 1 >= at.length) return ended[place];
      const part = (time - at[place]) / Math.max(at[place + 1] - at[place], 1e-6);
      return ended[place] + (ended[place + 1] - ended[place]) * Math.max(0, Math.min(1, part));
    };
    let before = endedAt(at[0]);
    const [times, rates] = [[], []];
    for (let part = 1; part <= parts; part += 1) {
      const time = at[0] + step * part;
      const after = endedAt(time);
      times.push(time);
      rates.push(Math.max(0, after - before) / step);
      before = after;
    }
    return [times, rates];
  }
}

export const live = new Live();

// Asks for something, and gives it to its child: again when anything has changed, and not while nobody looks.
export class Load extends Component {
  constructor(props) {
    super(props);
    this.state = { data: null, error: null, of: null };
    this.asked = 0;
    this.paid = 0;
    this.took = 0;
    this.due = this.due.bind(this);
  }

  componentDidMount() {
    this.forget = live.listen(this.due);
    document.addEventListener("visibilitychange", this.due);
    this.ask();
    if (this.props.always) this.ticks = setInterval(this.due, LOOK_MS);
  }

  componentDidUpdate(before) {
    if (before.url !== this.props.url) this.ask();
  }

  componentWillUnmount() {
    this.forget();
    document.removeEventListener("visibilitychange", this.due);
    clearTimeout(this.timer);
    clearInterval(this.ticks);
    this.timer = null;
    this.request?.abort();
  }

  due() {
    if (this.timer || document.hidden || this.request || live.status === "closed") return;
    const gap = Math.max(REFRESH_GAP_MS, this.took * 5);
    const next = Math.max(this.asked + gap, this.paid - REFRESH_BURST * REFRESH_MS);
    const wait = Math.max(0, next - performance.now());
    this.timer = setTimeout(() => {
      this.timer = null;
      this.ask();
    }, wait);
  }

  ask() {
    this.request?.abort();
    const request = new AbortController();
    const url = this.props.url;
    this.request = request;
    this.asked = performance.now();
    this.paid = Math.max(this.paid, this.asked) + REFRESH_MS;
    const done = (state) => {
      if (this.request !== request) return;
      this.request = null;
      this.took = performance.now() - this.asked;
      this.setState({ ...state, of: url });
    };
    fetch(url, { signal: request.signal }).then(async (answer) => {
      const data = await answer.json();
      if (answer.ok) done({ data, error: null });
      else done({ error: data, data: answer.status === 404 ? null : this.state.data });
    }).catch((error) => {
      if (error.name !== "AbortError") done({ error: { error: "The dashboard command does not answer." } });
    });
  }

  render({ url, children }, { data, error, of }) {
    const child = Array.isArray(children) ? children[0] : children;
    // What was heard of something else is not shown for this.
    const isOther = of !== null && of.split("?")[0] !== url.split("?")[0];
    return isOther ? child(null, null) : child(data, error);
  }
}

// Orders something.
export async function order(path) {
  try {
    const answer = await fetch(path, { method: "POST" });
    const data = await answer.json();
    return answer.ok ? data.done : `${data.error}${data.hint ? `: ${data.hint}` : ""}`;
  } catch {
    return "The dashboard command does not answer: whether this was done is not known.";
  }
}

// An address with what stands behind the `?`.
export function address(path, query) {
  const words = Object.entries(query).filter(([, value]) => value !== "" && value != null);
  return words.length === 0 ? path : `${path}?${new URLSearchParams(words)}`;
}
