// Numbers and times for people.

const grouped = new Intl.NumberFormat("en");
const short = new Intl.NumberFormat("en", { maximumFractionDigits: 2 });

export const count = (n) => grouped.format(n);
export const units = (n) => `${short.format(n)} RU`;
export const plural = (n, word) => `${count(n)} ${word}${n === 1 ? "" : "s"}`;

/** Returns a size in bytes with its unit. */
export function bytes(n) {
  for (const [unit, size] of [["GB", 2 ** 30], ["MB", 2 ** 20], ["KB", 2 ** 10]]) {
    if (n >= size) return `${(n / size).toFixed(n < 10 * size ? 1 : 0)} ${unit}`;
  }
  return `${n} B`;
}

/** Returns a time in seconds since 1970 in the reader's zone. */
export const moment = (seconds) => new Date(seconds * 1000).toLocaleString("sv-SE");
export const clock = (date) => date.toLocaleTimeString("en-GB");
export const millis = (n) => n < 10 ? `${n.toFixed(1)} ms` : n < 1000 ? `${Math.round(n)} ms` : `${(n / 1000).toFixed(1)} s`;
