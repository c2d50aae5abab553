// Numbers, times and names as people read them.

// Signs in the place of what would change how the rest of a line is shown: control characters and marks of writing direction.
const CONTROLS = /[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g;

export function safe(text) {
  return String(text ?? "").replace(CONTROLS, (sign) => {
    const code = sign.codePointAt(0);
    if (code < 0x20) return String.fromCodePoint(0x2400 + code);
    return code === 0x7f ? "\u2421" : "\ufffd";
  });
}

// The same of a text of several lines.
export function safeLines(text) {
  return String(text ?? "").split("\n").map((line) => safe(line.replace(/\r$/, ""))).join("\n");
}

export function count(number) {
  return Math.round(number).toString().replace(/\B(?=(\d{3})+$)/g, "\u202f");
}

export function counted(number, word) {
  return `${count(number)} ${word}${number === 1 ? "" : "s"}`;
}

export function rate(number) {
  if (number === 0) return "0";
  if (number < 1) return number.toFixed(2);
  return number < 100 ? number.toFixed(1) : count(number);
}

export function amount(number) {
  return Number.isInteger(number) ? count(number) : String(Math.round(number * 10000) / 10000);
}

// At a mark of an axis.
export function short(number) {
  const [size, unit] = [[1e9, "G"], [1e6, "M"], [1e3, "k"]].find(([size]) => number >= size) ?? [1, ""];
  return `${Math.round((number / size) * 100) / 100}${unit}`;
}

export function percent(part) {
  return `${Math.round(part * 100)}\u202f%`;
}

export function bytes(number) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let unit = 0;
  while (number >= 1024 && unit < units.length - 1) {
    number /= 1024;
    unit += 1;
  }
  return `${number >= 100 || unit === 0 ? Math.round(number) : number.toPrecision(3)} ${units[unit]}`;
}

// How much of a resource: memory is counted in MiB.
export function resource(name, number) {
  return name === "mem" ? bytes(number * 1024 * 1024) : amount(number);
}

export function duration(seconds) {
  if (!Number.isFinite(seconds)) return "";
  const whole = Math.floor(seconds);
  const two = (number) => String(number).padStart(2, "0");
  // Short ones are not nothing.
  if (seconds > 0 && seconds < 1) return seconds < 0.001 ? "<1ms" : `${Math.floor(seconds * 1000)}ms`;
  if (seconds < 10) return `${seconds.toFixed(1)}s`;
  if (whole < 60) return `${whole}s`;
  if (whole < 3600) return `${Math.floor(whole / 60)}m ${two(whole % 60)}s`;
  if (whole < 86400) return `${Math.floor(whole / 3600)}h ${two(Math.floor(whole / 60) % 60)}m`;
  return `${Math.floor(whole / 86400)}d ${two(Math.floor(whole / 3600) % 24)}h`;
}

export function time(text) {
  if (!text) return "";
  const at = new Date(text);
  const two = (number) => String(number).padStart(2, "0");
  const day = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
  return `${day} ${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
}

export function secondsBetween(from, to) {
  return Math.max(0, (new Date(to) - new Date(from)) / 1000);
}

// Tasks that have ended, of the counts of a job or of all.
export function ended(stats) {
  return stats.finished + stats.failed + stats.canceled + stats.aborted;
}

// A command as it is typed.
export function command(words) {
  const quote = (word) => (/^[\w@%+=:,.\/{}-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`);
  return words.map(quote).join(" ");
}
