// Places of the page. Each has an address after the #, which never contains a key.

/** Returns the address of a place, given as a list of names. */
export const address = (...names) => "#/" + names.map(encodeURIComponent).join("/");

/** Returns the names of the current place. */
export function place() {
  try {
    return location.hash.replace(/^#\/?/, "").split("/").filter(Boolean).map(decodeURIComponent);
  } catch {
    return []; // The address has a % that is no escape.
  }
}

/** Goes to a place. */
export const go = (...names) => { location.hash = address(...names); };

/** The addresses of the screens of a container. */
export const containerPlace = (database, container, screen = "items", ...more) => ["db", database, "coll", container, screen, ...more];
