// Deletes the items that a query finds, page by page and up to a maximum, and returns
// how many items it deleted and whether there may be more.
function deleteItems(query, most) {
  const all = getContext().getCollection();
  const answer = { deleted: 0, more: true };
  const respond = () => getContext().getResponse().setBody(answer);
  const page = (continuation) => {
    const accepted = all.queryDocuments(all.getSelfLink(), query, { pageSize: 3, continuation }, (error, found, options) => {
      if (error) throw error;
      remove(found, options.continuation);
    });
    if (!accepted) respond();
  };
  const remove = (found, continuation) => {
    if (answer.deleted === most) return respond();
    if (found.length > 0) {
      const accepted = all.deleteDocument(found[0]._self, {}, (error) => {
        if (error) throw error;
        answer.deleted++;
        remove(found.slice(1), continuation);
      });
      if (!accepted) respond();
    } else if (continuation) page(continuation);
    else {
      answer.more = false;
      respond();
    }
  };
  page();
}
