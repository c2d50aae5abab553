// Parts that need nothing but what they are told: names, bars, tables, choices, charts.

import { html, Component } from "/lib.js";
import { percent, safe, short, time } from "/format.js";

export const Name = ({ text, cut }) => html`<bdi class=${cut ? "name cut" : "name"} title=${cut ? safe(text) : undefined}>${safe(text)}</bdi>`;

// A part of a whole, as a bar.
export function Bar({ part, label }) {
  return html`<span class="bar" role="img" aria-label=${label}>${part > 0 && html`<span style=${{ width: `${100 * Math.max(0, Math.min(1, part))}%` }}></span>`}</span>`;
}

// A table that is scrolled sideways where it is too wide.
export function Table({ caption, head, children, empty }) {
  const rows = children.flat();
  if (rows.length === 0) return html`<p class="empty">${empty}</p>`;
  return html`<div class="wide-table" role="region" aria-label=${caption} tabindex="0">
    <table>
      <caption class="hidden">${caption}</caption>
      <thead><tr>${head.map((cell) => html`<th scope="col" class=${cell.class} aria-sort=${cell.sorted}>${cell.text ?? cell}</th>`)}</tr></thead>
      <tbody>${rows}</tbody>
    </table>
  </div>`;
}

// Choices that are in the address.
export function Choice({ label, value, options, onChoose }) {
  return html`<label class="choice">${label}
    <select value=${value} onChange=${(event) => onChoose(event.target.value)}>
      ${options.map(([key, text]) => html`<option value=${key} selected=${key === value}>${text}</option>`)}
    </select>
  </label>`;
}

export const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// The time of a mark, with the day where there are several, and with parts of a second where marks are that close.
function clockOf(seconds, all) {
  const [day, clock] = time(seconds * 1000).split(" ");
  const step = all.length > 1 ? all[1] - all[0] : 1;
  if (step < 1) return clock.slice(3) + (seconds % 1).toFixed(Math.min(6, Math.ceil(-Math.log10(step) - 1e-6))).slice(1);
  const isLong = all.at(-1) - all[0] >= 600;
  return all.at(-1) - all[0] >= 86400 ? `${day.slice(5)} ${clock.slice(0, 5)}` : clock.slice(0, isLong ? 5 : 8);
}

// How far marks may be apart, in seconds.
const SMALL_STEPS = [-6, -5, -4, -3, -2, -1].flatMap((power) => [1, 2, 5].map((digit) => Number(`${digit}e${power}`)));
const STEPS = [...SMALL_STEPS, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, ...[1, 2, 5, 10, 20, 50, 100, 200, 500, 1000].map((days) => days * 86400)];

// Values over time. For who does not see it, it is a sentence. Times are seconds: since 1970, or since `begin`, which is since 1970.
// With `onZoom` a part can be chosen with the mouse, which `range` then shows; `draw` draws more, and `rows` are names in the place of values.
export class Chart extends Component {
  componentDidMount() {
    this.make = this.make.bind(this);
    this.dark = matchMedia("(prefers-color-scheme: dark)");
    this.dark.addEventListener("change", this.make);
    this.watcher = new ResizeObserver(() => {
      const width = this.place.clientWidth;
      if (this.plot && width > 0 && width !== this.plot.width) this.plot.setSize({ width, height: this.plot.height });
    });
    this.make();
    this.watcher.observe(this.place);
  }

  componentDidUpdate(before) {
    const { data, height, range, rows, series } = this.props;
    if (before.height !== height || before.rows !== rows || before.series.length !== series.length) return this.make();
    if (before.data !== data) this.plot?.setData(data, !range);
    if (range) this.plot?.setScale("x", { min: range[0], max: range[1] });
  }

  componentWillUnmount() {
    this.dark.removeEventListener("change", this.make);
    this.watcher.disconnect();
    this.plot?.destroy();
  }

  make() {
    this.plot?.destroy();
    const { begin, data, height = 150, isPart, onZoom, range, rows, series } = this.props;
    const [ink, line] = [color("--dim"), color("--line")];
    const clock = (_, times) => times.map((at) => clockOf((begin ?? 0) + at, times.map((time) => (begin ?? 0) + time)));
    const axis = { stroke: ink, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1 }, font: "11px system-ui" };
    const value = (_, values) => values.map((number) => (isPart ? percent(number) : short(number)));
    const left = rows
      ? { ...axis, size: 90, grid: { show: false }, ticks: { show: false }, splits: () => rows.map((_, row) => row + 0.5), values: () => rows }
      : { ...axis, size: 48, values: value };
    const top = (_, low, high) => [0, rows ? rows.length : isPart ? 1 : Math.max(1, high * 1.05)];
    const drawn = (plot) => this.props.draw?.(plot);
    const chosen = (plot) => {
      const { left: first, width } = plot.select;
      if (width > 0) onZoom(plot.posToVal(first, "x"), plot.posToVal(first + width, "x"));
      plot.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
    };
    this.plot = new uPlot({
      width: Math.max(200, this.place.clientWidth),
      height,
      legend: { show: false },
      cursor: onZoom ? { y: false, points: { show: false }, drag: { x: true, y: false, setScale: false }, bind: { dblclick: () => null } } : { show: false },
      scales: { x: { time: begin === undefined, range: range ? (_, low, high) => [low, high] : undefined }, y: { range: top, dir: rows ? -1 : 1 } },
      axes: [{ ...axis, size: 30, space: 70, values: clock, incrs: begin === undefined ? undefined : STEPS }, left],
      hooks: { draw: [drawn], setSelect: onZoom ? [chosen] : [], setCursor: [(plot) => this.props.onPoint?.(plot)] },
      series: [{}, ...series.map(({ label, color: name, isFilled, isStepped }) => ({
        label, stroke: color(name), width: 1.5, points: { show: false },
        fill: isFilled ? `${color(name)}33` : undefined,
        paths: isStepped ? uPlot.paths.stepped({ align: 1 }) : undefined,
      }))],
    }, data, this.place);
    if (range) this.plot.setScale("x", { min: range[0], max: range[1] });
  }

  render({ title, said, series }) {
    return html`<figure class="chart">
      <figcaption><h3>${title}</h3> <span class="said">${said}</span>
        ${series.length > 1 && html`<span class="legend" aria-hidden="true">${series.map(({ label, color: name }) => html`<span class=${`key ${name.slice(2)}`}>${label}</span>`)}</span>`}
      </figcaption>
      <div role="img" aria-label=${`${title}: ${said}`} ref=${(place) => { this.place = place; }}></div>
    </figure>`;
  }
}
