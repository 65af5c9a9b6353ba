// The parts of every realm: errors with numbers, dates whose local time is UTC,
// and descriptions of exceptions for Go. The value of this script is a function
// that sets up a realm and returns describe.
(function base() {
  "use strict";
  const { construct, defineProperty } = Reflect;
  const { stringify } = JSON;
  const { String } = globalThis;
  const Plain = globalThis.Error;
  const hidden = (object, name, value) => defineProperty(object, name, { value, writable: true, configurable: true });

  // Error accepts a number before its message: new Error(429, "not accepted").
  function Error(...args) {
    const numbered = typeof args[0] === "number" && typeof args[1] === "string";
    const made = construct(Plain, numbered ? [args[1]] : args, new.target ?? Error);
    if (numbered) defineProperty(made, "number", { value: args[0], writable: true, configurable: true });
    return made;
  }
  for (const name of Reflect.ownKeys(Plain)) {
    const had = Reflect.getOwnPropertyDescriptor(Plain, name);
    const has = Reflect.getOwnPropertyDescriptor(Error, name);
    if (has === undefined || has.configurable || name === "prototype") defineProperty(Error, name, had);
  }
  hidden(Plain.prototype, "constructor", Error);
  for (const name of ["EvalError", "RangeError", "ReferenceError", "SyntaxError", "TypeError", "URIError", "InternalError", "AggregateError"])
    Object.setPrototypeOf(globalThis[name], Error);
  hidden(globalThis, "Error", Error);

  // Date has UTC as its local time, wherever the server runs.
  const Clock = globalThis.Date;

  function Date(...args) {
    if (new.target === undefined) return new Date().toString();
    if (args.length > 1) args = [Clock.UTC(...args)];
    else if (args.length === 1) {
      let [from] = args;
      if (from instanceof Clock) from = from.getTime();
      else if (typeof from === "object" && from !== null) from = from.valueOf();
      if (typeof from === "object" && from !== null) from = String(from);
      args = [typeof from === "string" ? Date.parse(from) : from];
    }
    return construct(Clock, args, new.target);
  }
  defineProperty(Date, "prototype", { value: Clock.prototype, writable: false });
  hidden(Date, "now", Clock.now);
  hidden(Date, "UTC", Clock.UTC);
  hidden(Date, "parse", function parse(text) {
    const given = String(text).trim();
    if (!/(?:Z|GMT|UTC|[+-]\d\d:?\d\d|\b[ECMP][SD]T)\s*(?:\([^)]*\))?$/i.test(given)) {
      for (const zone of ["Z", " GMT"]) {
        const time = Clock.parse(given + zone);
        if (time === time) return time;
      }
    }
    return Clock.parse(given);
  });
  const dates = Clock.prototype;
  for (const unit of ["FullYear", "Month", "Date", "Day", "Hours", "Minutes", "Seconds", "Milliseconds"]) {
    hidden(dates, "get" + unit, dates["getUTC" + unit]);
    if (unit !== "Day") hidden(dates, "set" + unit, dates["setUTC" + unit]);
  }
  // shown builds a text from the parts of "Thu, 01 Jan 1970 00:00:00 GMT".
  const shown = (show) =>
    function () {
      const parts = /^(\w+), (\d+) (\w+) (-?\d+) ((\d+):(\d+:\d+)) GMT$/.exec(this.toUTCString());
      return parts ? show(parts, this) : "Invalid Date";
    };
  const dateOf = ([, weekday, day, month, year]) => `${weekday} ${month} ${day} ${year}`;
  const timeOf = ([, , , , , time]) => `${time} GMT+0000 (Coordinated Universal Time)`;
  const shortDate = (parts, date) => `${date.getUTCMonth() + 1}/${date.getUTCDate()}/${date.getUTCFullYear()}`;
  const shortTime = ([, , , , , , hours, rest]) => `${hours % 12 || 12}:${rest} ${hours < 12 ? "AM" : "PM"}`;
  const methods = {
    getYear() { return this.getUTCFullYear() - 1900; },
    setYear(year) { const y = +year; return this.setUTCFullYear(y >= 0 && y <= 99 ? 1900 + y : y); },
    getTimezoneOffset() { return this.getTime() * 0; },
    toString: shown((parts) => `${dateOf(parts)} ${timeOf(parts)}`),
    toDateString: shown(dateOf),
    toTimeString: shown(timeOf),
    toLocaleString: shown((parts, date) => `${shortDate(parts, date)}, ${shortTime(parts)}`),
    toLocaleDateString: shown(shortDate),
    toLocaleTimeString: shown(shortTime),
  };
  for (const name in methods) hidden(dates, name, methods[name]);
  hidden(dates, "constructor", Date);
  hidden(globalThis, "Date", Date);

  // describe describes what was thrown, whatever it is: e and JSON.
  function describe(thrown) {
    const told = { text: "", stack: "", number: 0, internal: false };
    try {
      told.text = String(thrown);
      if (thrown instanceof Plain) {
        told.stack = String(thrown.stack);
        told.internal = thrown instanceof InternalError;
        if (typeof thrown.number === "number") told.number = thrown.number;
      }
    } catch (e) {
      if (told.text === "") told.text = "an exception that has no text";
    }
    return "e" + stringify(told);
  }

  return describe;
})
