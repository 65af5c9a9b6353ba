"""Counts the requests that each SDK makes for a query of one partition key, and the
processor time of the server for it, with one or more decan binaries in turn. Started by
run.sh; prints a table."""

import argparse
import glob
import json
import os
import statistics
import subprocess
import tempfile
import time
import urllib.request

from azure.cosmos import CosmosClient, PartitionKey

KEY = "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw=="
DATABASE, KEYS, ITEMS = "figures", 40, 1200
RUS_OF_PARTITION = 6000 # the server makes one partition per 6,000 RU/s
TIMES, ROUNDS = 60, 21

QUERIES = {
    "ORDER BY": "SELECT * FROM c {} ORDER BY c.n",
    "SUM": "SELECT VALUE SUM(c.n) FROM c {}",
    "COUNT": "SELECT VALUE COUNT(1) FROM c {}",
    "DISTINCT": "SELECT DISTINCT VALUE c.m FROM c {}",
}
ROWS = {"ORDER BY": ITEMS // KEYS, "SUM": 1, "COUNT": 1, "DISTINCT": 5}


class Server:
    """A decan with a container of 8 partitions and one of 1, and its figures."""

    def __init__(self, binary, port, work):
        self.name = binary
        self.endpoint, self.admin = f"http://127.0.0.1:{port}/", f"http://127.0.0.1:{port + 1}/"
        log = open(f"{work}/{port}.log", "w", encoding="utf-8")
        self.process = subprocess.Popen(
            [binary, "--data", f"{work}/{port}", "--listen", f"127.0.0.1:{port}", "--admin-listen", f"127.0.0.1:{port + 1}", "--cql=false"],
            stdout=log, stderr=log)
        for _ in range(100):
            try:
                urllib.request.urlopen(f"{self.admin}ready").close()
                break
            except OSError:
                time.sleep(0.1)
        database = CosmosClient(self.endpoint, KEY).create_database(DATABASE)
        for name, partitions in (("eight", 8), ("one", 1)):
            container = database.create_container(name, PartitionKey("/pk"), offer_throughput=partitions * RUS_OF_PARTITION)
            for n in range(ITEMS):
                container.create_item({"id": str(n), "pk": f"p{n % KEYS}", "n": n * 7919 % ITEMS, "m": n // KEYS % 5, "text": "x" * 100})

    def requests(self):
        """Returns the number of requested queries and query plans."""
        counts = {"document_query": 0, "query_plan": 0}
        with urllib.request.urlopen(f"{self.admin}metrics") as answer:
            for line in answer.read().decode().splitlines():
                for operation in counts:
                    if line.startswith(f'decan_nosql_requests_total{{operation="{operation}"'):
                        counts[operation] += float(line.split()[-1])
        return counts["document_query"], counts["query_plan"]

    def seconds(self):
        """Returns the processor time so far."""
        total = 0
        for path in glob.glob(f"/proc/{self.process.pid}/task/*/schedstat"):
            with open(path, encoding="utf-8") as file:
                total += int(file.read().split()[0])
        return total / 1e9


class Client:
    """A program that runs queries with an SDK."""

    def __init__(self, command, server, **environment):
        command = [word.format(endpoint=server.endpoint, key=KEY, database=DATABASE) for word in command]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=os.environ | environment)

    def run(self, times, **ask):
        self.process.stdin.write(json.dumps(dict(ask, times=times)) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"the client has ended: {ask}")
        return int(line)

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def clients(options):
    """Returns the command and the environment of the program of each SDK."""
    here = os.path.dirname(os.path.abspath(__file__))
    arguments = ["{endpoint}", "{key}", "{database}"]
    java = f"{options.java}/classes:{open(f'{options.java}/classpath', encoding='utf-8').read().strip()}"
    known = {
        "JavaScript": (["node", f"{here}/client.mjs", *arguments, options.js], {}),
        "Python": (["python", f"{here}/client.py", *arguments], {}),
        "Java": (["java", "-DCOSMOS.HTTP_CONNECTION_WITHOUT_TLS_ALLOWED=true", "-cp", java, "compat.Main", "figures", *arguments], {}),
    }
    if options.csrun:
        program = [options.csrun, f"{here}/client.cs", "--", *arguments]
        direct = "AZURE_COSMOS_OPTIMISTIC_DIRECT_EXECUTION_ENABLED"
        known[".NET"] = (program, {})
        known[".NET, direct execution"] = (program, {direct: "True"})
    return known


def measure(server, client, name, text, container, key):
    """Returns the queries and plans of one run, and what to ask for."""
    query = text.format("" if key else "WHERE c.pk = 'p7'").strip()
    ask = {"query": " ".join(query.split()), "container": container, "key": key}
    client.run(20, **ask) # plans, routes and compiled code are cached now
    before = server.requests()
    rows = client.run(10, **ask)
    if rows != ROWS[name]:
        raise RuntimeError(f"{ask}: {rows} rows, not {ROWS[name]}")
    queries, plans = ((now - was) / 10 for now, was in zip(server.requests(), before))
    return queries, plans, ask


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--js", required=True, help="the module of the JavaScript SDK")
    parser.add_argument("--java", required=True, help="the directory with classes and classpath")
    parser.add_argument("--csrun", default="", help="a program that runs C# files; without it .NET is left out")
    parser.add_argument("binaries", nargs="+")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        servers = []
        try:
            for i, binary in enumerate(options.binaries):
                servers.append(Server(binary, 28481 + 10 * i, work))
            compared = len(servers) - 1
            print("| client | container, key | query |" + " queries, plans | processor time |" * len(servers) + " ratio to the first, quartiles of the rounds |" * compared)
            print("|---|---|---|" + "---|---|" * len(servers) + "---|" * compared)
            for title, (command, environment) in clients(options).items():
                programs = [Client(command, server, **environment) for server in servers]
                for container, key in (("eight", None), ("eight", "p7"), ("one", None)):
                    for name, text in QUERIES.items():
                        row = [measure(s, c, name, text, container, key) for s, c in zip(servers, programs)]
                        times = [[] for _ in servers]
                        for n in range(ROUNDS):
                            turns = list(zip(servers, programs, row, times))
                            for server, client, (_, _, ask), each in turns if n % 2 else turns[::-1]:
                                before = server.seconds()
                                client.run(TIMES, **ask)
                                each.append((server.seconds() - before) / TIMES * 1e6)
                        cells = [f" {q:g}, {p:g} | {statistics.quantiles(each)[0]:.0f} µs |" for (q, p, _), each in zip(row, times)]
                        for each in times[1:]:
                            low, middle, high = statistics.quantiles(now / first for now, first in zip(each, times[0]))
                            cells.append(f" {middle:.2f} ({low:.2f} to {high:.2f}) |")
                        given = "key as an option" if key else "filter"
                        print(f"| {title} | {container}, {given} | {name} |" + "".join(cells), flush=True)
                for program in programs:
                    program.close()
        finally:
            for server in servers:
                server.process.terminate()
                server.process.wait()


if __name__ == "__main__":
    main()
