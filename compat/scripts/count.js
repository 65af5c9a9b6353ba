// Increments the counter in an item, with its etag, and returns the item. A counter
// beyond 100 is refused after it has been written.
function count(id, by) {
  const all = getContext().getCollection();
  const accepted = all.readDocument(all.getAltLink() + "/docs/" + id, (error, item) => {
    if (error) throw error;
    item.n += by;
    console.log("now " + item.n);
    const replaced = all.replaceDocument(item._self, item, { etag: item._etag }, (error, stored) => {
      if (error) throw error;
      if (stored.n > 100) throw new Error("too much");
      getContext().getResponse().setBody(stored);
    });
    if (!replaced) throw new Error("not accepted");
  });
  if (!accepted) throw new Error("not accepted");
}
