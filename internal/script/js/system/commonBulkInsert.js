// __.sys.commonBulkInsert creates documents, or with enableUpsert replaces those
// that exist, until all are written or the run has no room left. It answers how
// many it has written. The bulk executors of the older .NET and Java clients call
// it: a document may be JSON in a string.
function commonBulkInsert(documents, options) {
  if (!Array.isArray(documents)) throw new Error(400, "The first argument must be an array of documents.");
  const { enableUpsert = false, softStopOnConflict = false, disableAutomaticIdGeneration = false } = options ?? {};
  const collection = getContext().getCollection();
  let count = 0;

  const end = (errorCode) => getContext().getResponse().setBody({ count, errorCode });

  function next() {
    if (count === documents.length) return end(0);
    let document = documents[count];
    if (typeof document === "string") document = JSON.parse(document);
    const settings = { disableAutomaticIdGeneration };
    const accepted = enableUpsert
      ? collection.upsertDocument(collection.getSelfLink(), document, settings, written)
      : collection.createDocument(collection.getSelfLink(), document, settings, written);
    if (!accepted) end(0);
  }

  function written(error) {
    if (error && error.number === 409 && softStopOnConflict) return end(error.number);
    if (error) throw new Error(error.number, error.body);
    count++;
    next();
  }

  next();
}
