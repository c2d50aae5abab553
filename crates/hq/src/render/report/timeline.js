// The timeline of a report: how bars are read, counted and drawn.

import { color } from "/basics.js";

const LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const VALUES = new Uint8Array(128);
[...LETTERS].forEach((letter, value) => { VALUES[letter.charCodeAt(0)] = value; });

// The bars of a worker from their text: see `text_of` in the program. Times are seconds behind `origin`.
export function barsOf(worker, unit, origin) {
  const { bars: text, lanes } = worker;
  let place = 0;
  const next = () => {
    let value = 0;
    for (let scale = 1; ; scale *= 32) {
      const letter = VALUES[text.charCodeAt(place)];
      place += 1;
      value += (letter & 31) * scale;
      if (letter < 32) return value;
    }
  };
  const signed = () => {
    const value = next();
    return value % 2 === 1 ? -(value - 1) / 2 : value / 2;
  };
  const bars = { lane: [], start: [], end: [], part: [], count: [], failed: [], lost: [], job: [], task: [] };
  let [job, task] = [0, 0];
  for (let lane = 0; lane < lanes; lane += 1) {
    let at = 0;
    for (let left = next(); left > 0; left -= 1) {
      const start = at + next();
      const end = start + next();
      const counted = next();
      const isBad = counted % 2 === 1;
      const count = (counted - (isBad ? 1 : 0)) / 2;
      const [failed, lost] = isBad ? [next(), next()] : [0, 0];
      const idle = count > 1 ? next() : 0;
      job += signed();
      task += signed();
      at = end;
      bars.lane.push(lane);
      bars.start.push(origin + start * unit);
      bars.end.push(origin + end * unit);
      bars.part.push(end > start ? 1 - idle / (end - start) : 1);
      bars.count.push(count);
      bars.failed.push(failed);
      bars.lost.push(lost);
      bars.job.push(job);
      bars.task.push(task);
    }
  }
  return bars;
}

// True of a bar that lies in a range, also in part; what only touches it does not.
function isIn(bars, place, [from, to]) {
  const [start, end] = [bars.start[place], bars.end[place]];
  return start === end ? start >= from && start <= to : start < to && end > from;
}

// Places of bars that lie in a range.
export function placesIn(bars, range) {
  const places = [];
  for (let place = 0; place < bars.start.length; place += 1) {
    if (isIn(bars, place, range)) places.push(place);
  }
  return places;
}

// How many executions lie in a range, and how many of them failed or were lost.
export function countIn(workers, range) {
  const sum = { count: 0, failed: 0, lost: 0 };
  for (const { bars } of workers) {
    for (const place of placesIn(bars, range)) {
      sum.count += bars.count[place];
      sum.failed += bars.failed[place];
      sum.lost += bars.lost[place];
    }
  }
  return sum;
}

// How much runs, for each of some columns of a range, and in which columns something failed or was lost.
export function density(bars, range, columns) {
  const [from, to] = range;
  const [partial, change, bad] = [new Float64Array(columns), new Float64Array(columns + 1), new Uint8Array(columns)];
  const scale = columns / (to - from);
  for (let place = 0; place < bars.start.length; place += 1) {
    if (!isIn(bars, place, range)) continue;
    const start = Math.max(0, (bars.start[place] - from) * scale);
    const end = Math.min(columns, (bars.end[place] - from) * scale);
    const [first, last] = [Math.min(columns - 1, Math.floor(start)), Math.min(columns - 1, Math.floor(end))];
    const part = bars.part[place];
    if (first === last) {
      partial[first] += (end - start) * part;
    } else {
      partial[first] += (first + 1 - start) * part;
      partial[last] += (end - last) * part;
      change[first + 1] += part;
      change[last] -= part;
    }
    const kind = bars.failed[place] > 0 ? 2 : bars.lost[place] > 0 ? 1 : 0;
    if (kind > 0) for (let column = first; column <= last; column += 1) bad[column] = Math.max(bad[column], kind);
  }
  let level = 0;
  const running = partial.map((own, column) => {
    level += change[column];
    return own + level;
  });
  return { running, bad };
}

const BAD = [null, "--odd", "--bad"];

// A row for each worker: how much of its places runs something.
export function drawWorkers(plot, workers, range) {
  const { ctx, bbox } = plot;
  const columns = Math.max(1, Math.round(bbox.width));
  const paint = painter(plot);
  for (const [row, worker] of workers.entries()) {
    const [top, height] = rowOf(plot, row);
    paint.there(worker, top, height);
    const { running, bad } = density(worker.bars, range, columns);
    const places = Math.max(1, worker.lanes);
    ctx.fillStyle = color("--run");
    for (let column = 0; column < columns; column += 1) {
      // Sums of numbers that are not exact leave something.
      if (running[column] < 1e-6) continue;
      // What runs is seen, however little it is.
      const part = Math.max(1, Math.min(1, running[column] / places) * height);
      ctx.fillRect(bbox.left + column, top + height - part, 1, part);
    }
    for (let column = 0; column < columns; column += 1) {
      if (bad[column] === 0) continue;
      ctx.fillStyle = color(BAD[bad[column]]);
      ctx.fillRect(bbox.left + column, top, 1, Math.max(2, height / 4));
    }
  }
  paint.end();
}

// A row for each place of a worker.
export function drawPlaces(plot, worker, first, rows, range, links) {
  const { ctx, bbox } = plot;
  const paint = painter(plot);
  for (let row = 0; row < rows; row += 1) paint.there(worker, ...rowOf(plot, row));
  const { bars } = worker;
  let last = { row: -1, pixel: -1, kind: -1 };
  for (const place of placesIn(bars, range)) {
    const row = bars.lane[place] - first;
    if (row < 0 || row >= rows) continue;
    const left = Math.max(bbox.left, plot.valToPos(bars.start[place], "x", true));
    const right = Math.min(bbox.left + bbox.width, plot.valToPos(bars.end[place], "x", true));
    const kind = bars.failed[place] > 0 ? 2 : bars.lost[place] > 0 ? 1 : 0;
    // What would be drawn on the same pixel is there already.
    if (right - left < 1 && last.row === row && last.kind >= kind && last.pixel === Math.floor(left)) continue;
    last = { row, kind, pixel: Math.floor(right) };
    const [top, height] = rowOf(plot, row);
    ctx.globalAlpha = 0.35 + 0.65 * bars.part[place];
    ctx.fillStyle = color(BAD[kind] ?? "--run");
    const wide = Math.max(1, right - left - (right - left > 4 ? 1 : 0));
    // Lost ones are flat, so that not only colours tell.
    ctx.fillRect(left, kind === 1 ? top + height / 2 : top, wide, kind === 1 ? height / 2 : height);
    if (kind === 2 && wide > 6) {
      ctx.fillStyle = color("--back");
      ctx.fillRect(left + 2, top + height / 2 - 1, wide - 4, 2);
    }
  }
  ctx.globalAlpha = 1;
  ctx.strokeStyle = color("--ink");
  ctx.lineWidth = 2;
  for (const link of links) {
    const row = link.lane - first;
    if (link.worker !== worker.id || row < 0 || row >= rows) continue;
    const [top, height] = rowOf(plot, row);
    const left = plot.valToPos(link.start, "x", true);
    ctx.strokeRect(left, top, Math.max(2, plot.valToPos(link.end, "x", true) - left), height);
  }
  paint.end();
}

// What is at a point.
export function placeAt(worker, lane, at, slack) {
  const { bars } = worker;
  let [found, distance] = [null, slack];
  for (let place = 0; place < bars.start.length; place += 1) {
    if (bars.lane[place] !== lane) continue;
    const away = Math.max(0, bars.start[place] - at, at - bars.end[place]);
    if (away <= distance) [found, distance] = [place, away];
  }
  return found;
}

function rowOf(plot, row) {
  const [top, bottom] = [plot.valToPos(row, "y", true), plot.valToPos(row + 1, "y", true)];
  const gap = Math.min(3, (bottom - top) / 6);
  return [top + gap, bottom - top - 2 * gap];
}

// Draws only where the chart is.
function painter(plot) {
  const { ctx, bbox } = plot;
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
  ctx.clip();
  return {
    there(worker, top, height) {
      if (worker.joined === null) return;
      const left = plot.valToPos(worker.joined, "x", true);
      const right = worker.ended === null ? bbox.left + bbox.width : plot.valToPos(worker.ended, "x", true);
      ctx.fillStyle = color("--raised");
      ctx.fillRect(left, top, Math.max(1, right - left), height);
    },
    end: () => ctx.restore(),
  };
}
