"""The asynchronous client in the form of the synchronous one, so that the same tests
run with both: each call runs in one loop until it has finished."""

import asyncio
import atexit
import inspect
import warnings

from azure.cosmos.aio import CosmosClient

LOOP = asyncio.new_event_loop()
atexit.register(LOOP.close)
warnings.filterwarnings("ignore", "Sending a large body", ResourceWarning) # nothing leaks


def connect(endpoint, key, **options):
    """Returns a client that is closed when the program ends. It does not verify a host named
    localhost: with a certificate authority it also requires a client certificate."""
    options.pop("ssl_config", None)
    return opened(CosmosClient(endpoint, key, **options))


def connect_by(text):
    """Returns a client for a connection string."""
    return opened(CosmosClient.from_connection_string(text))


def opened(client):
    atexit.register(lambda: LOOP.run_until_complete(client.close()))
    LOOP.run_until_complete(client.__aenter__())
    return Plain(client)


def together(calls):
    """Returns the results of concurrent calls of the asynchronous SDK."""

    async def gather():
        return await asyncio.gather(*calls)

    return LOOP.run_until_complete(gather())


class Plain:
    """Wraps an object of the asynchronous SDK; its methods return the awaited results."""

    def __init__(self, inner):
        self.inner = inner

    def __getattr__(self, name):
        return plain(getattr(self.inner, name))

    def __iter__(self):
        return Plain(aiter(self.inner))

    def __next__(self):
        try:
            return plain(LOOP.run_until_complete(anext(self.inner)))
        except StopAsyncIteration:
            raise StopIteration from None

    def __call__(self, *args, **options):
        options.pop("enable_cross_partition_query", None) # always enabled
        if "params" in options:
            options["parameters"] = options.pop("params")
        args = [arg.inner if isinstance(arg, Plain) else arg for arg in args]
        return plain(self.inner(*args, **options))


def plain(value):
    """Returns the value in a form that needs no await."""
    if inspect.isawaitable(value):
        value = LOOP.run_until_complete(value)
    if type(value) is tuple:
        return tuple(map(plain, value))
    ours = type(value).__module__.startswith("azure.cosmos.aio")
    return Plain(value) if ours or inspect.isroutine(value) or hasattr(value, "__aiter__") else value
