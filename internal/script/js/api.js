// The server-side API: what getContext() and __ provide to a stored procedure or
// a trigger. The value of this script is a function that adds both to the realm
// and returns the functions that run.go calls: start, next, finish, keep,
// settle.
//
// The operations of a script are queued here. Go takes one from the queue,
// executes it and passes its result back, which calls the script's callback. So
// a script never blocks inside an operation, and no operation runs while a
// script does.
(function api(describe, configText, requestText, responseText) {
  "use strict";
  const { apply } = Reflect;
  const { parse, stringify } = JSON;
  const { isArray } = Array;
  const { Error, Promise, String } = globalThis;
  const { now } = Date;
  const { then } = Promise.prototype;
  const config = parse(configText);
  const BadRequest = 400, Forbidden = 403, TooLarge = 413;

  const refuse = (message) => {
    throw new Error(BadRequest, message);
  };

  // --- the queue

  const queue = []; // {op, head, body, done, keep} in the order of the calls
  let room = config.room; // how many more operations the host takes
  let current = null; // the one that Go is carrying out
  let aborted; // described, once the script called abort

  function enqueue(op) {
    if (queue.length >= room || now() >= config.acceptUntil) return false;
    queue.push(op);
    return true;
  }

  // entered runs a part of the script and returns what it threw.
  function entered(part) {
    try {
      part();
    } catch (e) {
      return aborted ?? describe(e);
    }
    return aborted;
  }

  // --- arguments

  function linkOf(kind, link) {
    if (typeof link !== "string") refuse(`Invalid ${kind} link: "${String(link)}".`);
    return link.endsWith("/") ? link.slice(0, -1) : link;
  }

  function checkCollection(link) {
    const given = linkOf("collection", link);
    if (given !== config.self && given !== config.alt) foreign(link);
  }

  // documentOf returns {rid} or {id} for the document of a link.
  function documentOf(link) {
    const given = linkOf("document", link);
    for (const [base, name] of [[config.self, "rid"], [config.alt, "id"]]) {
      const prefix = base + "/docs/";
      const rest = given.slice(prefix.length);
      if (given.startsWith(prefix) && rest !== "" && !rest.includes("/")) return { [name]: rest };
    }
    return foreign(link);
  }

  function foreign(link) {
    refuse(`The link "${link}" does not belong to the current collection.`);
  }

  function needs(method, least, given) {
    if (given < least) refuse(`The function "${method}" requires at least ${least} argument(s) but was called with ${given} argument(s).`);
  }

  function optionsAndCallback(options, callback) {
    if (callback === undefined && typeof options === "function") return [{}, options];
    if (options !== undefined && (typeof options !== "object" || options === null))
      refuse(`The "options" parameter must be of type "object". Actual type is: "${typeof options}".`);
    if (callback !== undefined && callback !== null && typeof callback !== "function")
      refuse(`The "callback" parameter must be of type "function". Actual type is: "${typeof callback}".`);
    return [options ?? {}, callback ?? undefined];
  }

  function textOf(document) {
    if (typeof document === "string") return document;
    if (typeof document !== "object" || document === null)
      refuse("The document body must be an object or a string representing a JSON-serialized object.");
    return stringify(document);
  }

  function conditions({ etag, ifNoneMatch, indexAction }) {
    return { etag: String(etag ?? ""), ifNoneMatch: String(ifNoneMatch ?? ""), indexAction: String(indexAction ?? "") };
  }

  // --- results

  // failure returns the error for a callback.
  function failure(text) {
    const { number, message } = parse(text);
    const error = new Error(number, stringify({ Errors: [message] }));
    error.body = error.message;
    return error;
  }

  // one passes the result of an operation on a document to its callback.
  function one(callback) {
    return (error, body, options) => {
      if (!callback) {
        if (error) throw error;
      } else if (error) callback(error);
      else callback(undefined, body === "" ? undefined : parse(body), options);
    };
  }

  // none passes the result of a delete, which has no document.
  function none(callback) {
    return (error, body, options) => {
      if (!callback) {
        if (error) throw error;
      } else if (error) callback(error);
      else callback(undefined, options);
    };
  }

  // --- documents

  function write(op, link, body, options, callback) {
    const [given, answer] = optionsAndCallback(options, callback);
    const name = !given.disableAutomaticIdGeneration && op !== "replace";
    return enqueue({ op, head: { ...link, ...conditions(given), name }, body: textOf(body), done: one(answer) });
  }

  function feed(op, source, options, callback) {
    const { pageSize, continuation } = options;
    const size = typeof pageSize === "number" && pageSize !== 0 ? Math.trunc(pageSize) : 100;
    return enqueue({
      op,
      head: { ...source, pageSize: size, continuation: String(continuation ?? "") },
      body: "",
      done: (error, body, answer) => {
        if (!callback) {
          if (error) throw error;
        } else if (error) callback(error);
        else callback(undefined, parse(body), answer);
      },
    });
  }

  const collection = {
    getSelfLink: () => config.self + "/",
    getAltLink: () => config.alt,
    createDocument(link, body, options, callback) {
      needs("createDocument", 2, arguments.length);
      checkCollection(link);
      return write("create", {}, body, options, callback);
    },
    upsertDocument(link, body, options, callback) {
      needs("upsertDocument", 2, arguments.length);
      checkCollection(link);
      return write("upsert", {}, body, options, callback);
    },
    replaceDocument(link, body, options, callback) {
      needs("replaceDocument", 2, arguments.length);
      return write("replace", documentOf(link), body, options, callback);
    },
    readDocument(link, options, callback) {
      needs("readDocument", 1, arguments.length);
      const [given, answer] = optionsAndCallback(options, callback);
      return enqueue({ op: "read", head: { ...documentOf(link), ...conditions(given) }, body: "", done: one(answer) });
    },
    deleteDocument(link, options, callback) {
      needs("deleteDocument", 1, arguments.length);
      const [given, answer] = optionsAndCallback(options, callback);
      return enqueue({ op: "delete", head: { ...documentOf(link), ...conditions(given) }, body: "", done: none(answer) });
    },
    readDocuments(link, options, callback) {
      needs("readDocuments", 1, arguments.length);
      checkCollection(link);
      return feed("feed", {}, ...optionsAndCallback(options, callback));
    },
    queryDocuments(link, query, options, callback) {
      needs("queryDocuments", 2, arguments.length);
      checkCollection(link);
      let source;
      if (typeof query === "string") source = { query };
      else if (typeof query === "object" && query !== null) source = { query: String(query.query), parameters: query.parameters ?? [] };
      else refuse(`The "filterQuery" parameter must be of type "string" or "object". Actual type is: "${typeof query}".`);
      return feed("query", source, ...optionsAndCallback(options, callback));
    },
  };
  for (const verb of ["create", "upsert", "replace", "read", "delete", "query"])
    for (const noun of verb === "read" ? ["Attachment", "Attachments"] : verb === "query" ? ["Attachments"] : ["Attachment"])
      collection[verb + noun] = () => refuse(`The function "${verb + noun}" is not supported: this database has no attachments.`);

  // --- queries by functions

  // A chain is a list of stages. Filters before all other stages decide which
  // documents count towards a page; later stages work on the page.
  const stages = {
    filter: (rows, test) => rows.filter((row) => test(row)),
    map: (rows, project) => rows.map((row) => project(row)),
    pluck: (rows, name) => rows.map((row) => row[name]),
    flatten: (rows, shallow) => rows.flat(shallow ? 1 : Infinity),
    unwind: (rows, [items, pair]) =>
      rows.flatMap((row) => (pair ? items(row).flatMap((item) => pair(row, item)) : items(row))),
  };

  function ordered(by, descending) {
    const text = String(by).trim();
    const form = /^(?:function\s*[\w$]*\s*\(\s*([\w$]+)\s*\)\s*\{\s*return\s+|\(?\s*([\w$]+)\s*\)?\s*=>\s*)([\w$]+)((?:\.[A-Za-z_]\w*|\["\w+"\]|\['\w+'\])+)\s*;?\s*\}?$/.exec(text);
    if (!form || (form[1] ?? form[2]) !== form[3])
      refuse("sortBy and sortByDescending take a function that returns a property of its argument, such as (x) => x.name.");
    return `SELECT * FROM c ORDER BY c${form[4]} ${descending ? "DESC" : "ASC"}`;
  }

  function evaluate(chain, options, callback) {
    const [given, answer] = optionsAndCallback(options, callback);
    const respond = answer ?? ((error, rows) => {
      if (error) throw error;
      if (!response) refuse("The callback function must be provided for scenarios, such as pre-trigger, when response object is not available.");
      if (response.getBody() === undefined) response.setBody(rows);
      else response.appendBody(stringify(rows));
    });
    let query = "";
    const tests = [], rest = [];
    for (const [name, argument] of chain) {
      if (name === "sortBy" || name === "sortByDescending") {
        if (query !== "" || rest.length > 0) refuse(`${name} comes once, before map, pluck, flatten and unwind.`);
        query = ordered(argument, name === "sortByDescending");
      } else if (name === "filter" && rest.length === 0) tests.push(argument);
      else rest.push([name, argument]);
    }
    const page = [];
    const accepted = feed(query === "" ? "feed" : "query", { query, filtered: true }, given, undefined);
    if (!accepted) return { isAccepted: false };
    const op = queue[queue.length - 1];
    op.keep = (document) => {
      if (!tests.every((test) => test(document))) return false;
      page.push(document);
      return true;
    };
    op.done = (error, body, answered) => {
      let rows = page;
      if (!error) {
        try {
          for (const [name, argument] of rest) rows = stages[name](rows, argument);
        } catch (e) {
          error = e;
        }
      }
      if (error) respond(error);
      else respond(undefined, rows, answered);
    };
    return { isAccepted: true };
  }

  const functional = (name, given) => (typeof given === "function" ? given : refuse(`The predicate/transform function of ${name} must be provided.`));
  const arguing = {
    filter: (args) => functional("filter", args.shift()),
    map: (args) => functional("map", args.shift()),
    sortBy: (args) => functional("sortBy", args.shift()),
    sortByDescending: (args) => functional("sortByDescending", args.shift()),
    pluck(args) {
      const name = args.shift();
      if (typeof name !== "string" || name === "") refuse("The property name must be a string and cannot be empty.");
      return name;
    },
    flatten: (args) => (typeof args[0] === "boolean" ? args.shift() : false),
    unwind(args) {
      const items = args.shift();
      if (typeof items !== "function") refuse('When using "unwind", "collectionSelector" must be a function.');
      if (items.length !== 1) refuse('"collectionSelector" requires one argument.');
      if (typeof args[0] !== "function") return [items];
      if (args[0].length < 2) refuse('"resultSelector" requires two arguments.');
      return [items, args.shift()];
    },
  };

  function fluent(target, chain) {
    for (const name of Object.keys(arguing)) {
      target[name] = (...args) => {
        if (args[0] === collection || args[0] === __) args.shift();
        const stage = [name, arguing[name](args)];
        if (chain === null) return evaluate([stage], ...args);
        if (args.length > 0) refuse('When using "chain", options and callback can only be provided on the "value" function.');
        return fluent({ isAccepted: true }, [...chain, stage]);
      };
    }
    if (chain !== null) target.value = (...args) => evaluate(chain, ...args);
    return target;
  }

  const __ = Object.create(collection);
  fluent(collection, null);
  collection.chain = () => fluent({ isAccepted: true }, []);

  // --- request and response

  const tooLarge = (name) => {
    throw new Error(TooLarge, `The resulting message would be too large because of "${name}". Return from the script and call it again with a continuation.`);
  };

  function checkSize(name, value, max) {
    if (value === undefined || value === null) return;
    const text = typeof value === "object" ? stringify(value) : String(value);
    if (text.length > max) tooLarge(name);
  }

  const text = (value) => (typeof value === "object" ? stringify(value) : String(value));

  // message is a request or a response: a body, and values that can be read.
  function message(body, values, writable) {
    const get = (name) => {
      const key = String(name).toLowerCase();
      return key === "body" ? body : values[key];
    };
    const set = (name, value) => {
      const key = String(name).toLowerCase();
      if (key !== "body") {
        if (key in values) throw new Error(Forbidden, `Not a writable property: ${name}`);
        refuse(`Cannot set new values: ${name}`);
      }
      checkSize(name, value, config.bodyMax);
      body = value;
    };
    const append = (name, value) => {
      const had = get(name);
      set(name, had === undefined || had === null ? value : text(had) + text(value));
    };
    const it = { getBody: () => body, getValue: get };
    if (writable) {
      it.setBody = (value) => set("body", value);
      it.appendBody = (value) => append("body", value);
      it.setValue = set;
      it.appendValue = append;
    }
    return it;
  }

  const request = message(requestText === undefined ? undefined : parse(requestText), config.headers, config.kind === "pretrigger");
  if (config.operation) request.getOperationType = () => config.operation;
  let response;
  if (config.kind !== "pretrigger") {
    response = message(responseText === undefined ? undefined : parse(responseText), {}, true);
    response.getMaxResourceQuota = () => config.quota;
    response.getResourceQuotaCurrentUsage = () => config.usage;
    if (config.operation) response.getOperationType = () => config.operation;
  }

  const context = {
    getCollection: () => collection,
    getRequest: () => request,
    abort(error) {
      aborted ??= describe(error);
      throw error;
    },
  };
  __.request = request;
  if (response) {
    context.getResponse = () => response;
    __.response = response;
  }

  // --- the log

  let logged = "";
  let loggedSize = 0; // as a header has it, where it stands as in a URL
  const plain = new Set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~$&+=:@");

  // fit returns how much of a text fits into the log, and the size of that part.
  function fit(text) {
    let size = loggedSize;
    for (let i = 0; i < text.length; i++) {
      const point = text.codePointAt(i);
      const bytes = point > 0xffff ? 4 : point > 0x7ff ? 3 : point > 0x7f ? 2 : 1;
      const more = bytes === 1 && plain.has(text[i]) ? 1 : 3 * bytes;
      if (size + more > config.logMax) return [i, size];
      size += more;
      if (bytes === 4) i++;
    }
    return [text.length, size];
  }

  // forget logs a rejected promise without a handler, which fails nothing; a
  // long text is shortened to the remaining space.
  function forget(e) {
    if (!config.log) return;
    const line = `Unhandled promise rejection: ${parse(describe(e).slice(1)).text}\n`;
    const [end, size] = fit(line);
    logged += line.slice(0, end);
    loggedSize = size;
  }

  function log(...args) {
    if (!config.log) return;
    needs("log", 1, args.length);
    let text = args[0];
    if (args.length > 1) {
      if (typeof text !== "string") refuse("First argument to console.log should be a string containing zero or more substitution strings.");
      let next = 1;
      text = text.replace(/%(%|s)/g, (all, one) => (one === "%" ? "%" : String(args[next++])));
    }
    text = "" + text;
    const [end, size] = fit(text);
    if (end < text.length) tooLarge("x-ms-documentdb-script-log-results");
    logged += text;
    loggedSize = size;
  }

  // ErrorCodes are the names of the error numbers of operations.
  const ErrorCodes = Object.freeze({
    BadRequest, Forbidden, NotFound: 404, Conflict: 409, PreconditionFailed: 412,
    RequestEntityTooLarge: TooLarge, RetryWith: 449, InternalServerError: 500,
  });

  Object.assign(globalThis, { getContext: () => context, __, console: { log }, ErrorCodes });

  // --- called by Go

  return [
    // start calls the function. Its result does not matter, but a rejected
    // promise without a handler is logged.
    function start(make, argumentsText) {
      return entered(() => {
        const result = apply(make(), undefined, parse(argumentsText));
        if (result instanceof Promise) apply(then, result, [undefined, forget]);
      });
    },
    // next takes an operation from the queue: o, its name, and lines with its
    // head and body; or the argument of abort; or undefined at the end.
    function next(left) {
      room = left;
      if (aborted !== undefined) return aborted;
      current = queue.shift() ?? null;
      return current ? "o" + current.op + "\n" + stringify(current.head) + "\n" + current.body : undefined;
    },
    // finish passes the result of the operation to its callback.
    function finish(left, error, body, options) {
      room = left;
      return entered(() => current.done(error === "" ? undefined : failure(error), body, parse(options)));
    },
    // keep returns whether a document belongs to the page; a filter that throws
    // fails the operation.
    function keep(text) {
      let kept = false;
      let thrown;
      const told = entered(() => {
        try {
          kept = current.keep(parse(text));
        } catch (e) {
          thrown = e;
          const { done } = current;
          current.done = () => done(thrown);
        }
      });
      if (told !== undefined) return told;
      return thrown === undefined ? kept : "stop";
    },
    // settle returns the output: JSON of both bodies, and the log.
    function settle() {
      let outcome;
      const told = entered(() => {
        const bodies = [request.getBody(), response?.getBody()].map((body) => stringify(body) ?? "");
        for (const body of bodies) checkSize("body", body, config.bodyMax);
        outcome = stringify([...bodies, logged]);
      });
      return told ?? outcome;
    },
  ];
})
