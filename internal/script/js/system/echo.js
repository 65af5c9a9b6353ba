// __.sys.echo answers with its argument.
function echo(value) {
  getContext().getResponse().setBody(value);
}
