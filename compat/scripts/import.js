// Creates the items until one is not accepted, and returns how many it created.
function importItems(items) {
  const all = getContext().getCollection();
  const respond = () => getContext().getResponse().setBody(made);
  let made = 0;
  if (!items) throw new Error("There are no items.");
  const next = () => {
    if (made === items.length) return respond();
    const accepted = all.createDocument(all.getSelfLink(), items[made], (error) => {
      if (error) throw error;
      made++;
      next();
    });
    if (!accepted) respond();
  };
  next();
}
