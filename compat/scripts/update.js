// Adds to a property of the items in one page of a query, and returns how many items it
// changed and whether there may be more.
function updateItems(query, name, by) {
  const all = getContext().getCollection();
  const answer = { changed: 0, more: true };
  getContext().getResponse().setBody(answer);
  all.queryDocuments(all.getSelfLink(), query, { pageSize: 4 }, (error, found, options) => {
    if (error) throw error;
    const next = (i) => {
      answer.more = i < found.length || !!options.continuation;
      getContext().getResponse().setBody(answer);
      if (i === found.length) return;
      const changed = { ...found[i], [name]: (found[i][name] ?? 0) + by };
      all.replaceDocument(changed._self, changed, { etag: changed._etag }, (error) => {
        if (error) throw error;
        answer.changed++;
        next(i + 1);
      });
    };
    next(0);
  });
}
