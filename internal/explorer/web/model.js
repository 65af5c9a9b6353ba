// What the page knows of databases and containers, read once and again on demand.

import { caller, list, read } from "./api.js";

/** Announces "changed" when a database or container was created, changed or deleted. */
export const model = new EventTarget();

let databases; // a promise
const containers = new Map(); // of promises, by database

/** Returns all databases. A resource token sees only the one of its container. */
export function allDatabases() {
  return databases ??= keep(() => { databases = undefined; },
    caller.scope ? Promise.resolve([{ id: caller.scope.database }]) : list(["dbs"], "Databases").then(sorted));
}

/** Returns the containers of a database. */
export function allContainers(database) {
  if (!containers.has(database)) {
    containers.set(database, keep(() => containers.delete(database),
      caller.scope ? read(["dbs", database, "colls", caller.scope.container]).then((c) => [c])
        : list(["dbs", database, "colls"], "DocumentCollections").then(sorted)));
  }
  return containers.get(database);
}

function keep(forget, promise) {
  promise.catch(forget);
  return promise;
}

const sorted = (all) => all.sort((a, b) => a.id.localeCompare(b.id));

/** Returns a container; throws if it does not exist. */
export async function container(database, id) {
  const find = async () => (await allContainers(database)).find((c) => c.id === id);
  let found = await find();
  if (!found) { // Another client may have created it since.
    changed(database);
    found = await find();
  }
  if (!found) throw new Error(`The container ${database}/${id} does not exist.`);
  return found;
}

/** Forgets everything, or the containers of a database, and says so. */
export function changed(database) {
  if (database === undefined) containers.clear();
  else containers.delete(database);
  databases = undefined;
  model.dispatchEvent(new Event("changed"));
}

/**
 * Reports whether a container is a table of the Cassandra API, whose rows only CQL reads.
 * SDKs know no kind of key for tables, so the server names one of theirs; but a table has
 * no policy for conflicts, which every container of items has, and no indexing policy.
 */
export const isTable = (c) => !c.conflictResolutionPolicy && c.indexingPolicy?.indexingMode === "none";
