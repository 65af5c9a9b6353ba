// The realm of user-defined functions. The value of this script is a function
// that returns invoke, which calls a function once, and seal, which prepares the
// realm for many isolated calls. The Go side is in call.go.
(function realm(describe, sealed, resultMax) {
  "use strict";
  const { apply, defineProperty, deleteProperty, getOwnPropertyDescriptor, getPrototypeOf, ownKeys } = Reflect;
  const { freeze, hasOwn, isExtensible } = Object;
  const { includes } = Array.prototype;
  const { parse, stringify } = JSON;
  const { Promise, Error, TypeError } = globalThis;
  const world = globalThis;

  // encode encodes a result: numbers, booleans, null and undefined as
  // themselves, others with a letter before the text: s for a string, j for
  // JSON, l for a result that is too large, e for an exception.
  function encode(result) {
    switch (typeof result) {
      case "number":
      case "boolean":
      case "undefined":
        return result;
      case "string":
        return result.length > resultMax ? "l" : "s" + result;
    }
    if (result === null) return null;
    if (result instanceof Promise)
      throw new TypeError("a user-defined function returns a value, not a promise");
    const text = stringify(result);
    if (text === undefined) return undefined;
    return text.length > resultMax ? "l" : "j" + text;
  }

  // invoke creates the function again, so that no state in it or around it
  // remains, and calls it. spec has a letter for each argument: j for JSON.
  function invoke(make, spec, ...args) {
    let answer;
    try {
      for (let i = 0; i < spec.length; i++) if (spec[i] === "j") args[i] = parse(args[i]);
      answer = encode(apply(make(), undefined, args));
    } catch (e) {
      answer = describe(e);
    }
    if (sealed) sweep();
    return answer;
  }

  // sweep removes the global variables that a function created by assigning to
  // an undeclared name.
  const fixed = ["Infinity", "NaN", "undefined"]; // what no global object can lose
  function sweep() {
    const names = ownKeys(world);
    if (names.length > fixed.length)
      for (let i = 0; i < names.length; i++) if (!apply(includes, fixed, [names[i]])) deleteProperty(world, names[i]);
    if (!isExtensible(world)) throw new Error("the global object was changed for good");
  }

  // override lets a script's own object have a property that its frozen
  // prototype also has; assignment would fail if the frozen property were plain.
  function override(prototype) {
    for (const name of ownKeys(prototype)) {
      const { value, configurable } = getOwnPropertyDescriptor(prototype, name);
      if (typeof name === "symbol" || !configurable || value === undefined) continue;
      defineProperty(prototype, name, {
        get() {
          return value;
        },
        set(to) {
          if (this === prototype || Object(this) !== this) return;
          if (hasOwn(this, name)) this[name] = to;
          else defineProperty(this, name, { value: to, writable: true, enumerable: true, configurable: true });
        },
        enumerable: false,
        configurable: false,
      });
    }
  }

  // harden freezes everything that can be reached from the roots.
  function harden(roots) {
    const seen = new Set();
    const waiting = [...roots];
    while (waiting.length > 0) {
      const it = waiting.pop();
      if (Object(it) !== it || it === world || seen.has(it)) continue;
      seen.add(it);
      waiting.push(getPrototypeOf(it));
      for (const name of ownKeys(it)) {
        const { value, get, set } = getOwnPropertyDescriptor(it, name);
        waiting.push(value, get, set);
      }
      freeze(it);
    }
  }

  // seal removes everything with which a script could change or circumvent what
  // all calls share, and freezes the rest. The global names become constants,
  // and the global object stays empty and is swept.
  function seal(names) {
    const kept = names.split(" ");
    const { prototype: anything } = Object;
    const generator = function* () {};
    const iterator = [][Symbol.iterator]();
    const makers = [function () {}, generator, async function () {}, async function* () {}];
    for (const maker of makers) delete getPrototypeOf(maker).constructor;
    for (const name of ["defineProperty", "defineProperties", "setPrototypeOf", "getPrototypeOf"]) delete Object[name];
    for (const name of ["__proto__", "__defineGetter__", "__defineSetter__"]) delete anything[name];

    override(anything);
    override(Array.prototype);
    override(getPrototypeOf(makers[0]));
    const errors = [Error, EvalError, RangeError, ReferenceError, SyntaxError, TypeError, URIError, InternalError, AggregateError];
    for (const error of errors) override(error.prototype);

    const constants = {};
    for (const name of kept) constants[name] = world[name];
    harden([
      ...kept.map((name) => constants[name]),
      ...makers,
      generator(), iterator, iterator.map((x) => x), Iterator.from({ next() {} }),
      new Map().entries(), new Set().values(), "".matchAll(/./g), ""[Symbol.iterator](),
    ]);
    for (const name of ownKeys(world)) if (!fixed.includes(name)) delete world[name];
    world.__decan_constants = constants;
  }

  return [invoke, seal];
})
