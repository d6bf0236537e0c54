"""A model behind HTTP: by Ray Serve from the nodes of the run, or from one process; then load on it, and figures.

It reads 64 numbers, the pixels of a digit, and answers which digit it is, and which replica answered.
"""

import argparse
import collections
import contextlib
import hashlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time

HOST = "127.0.0.1"
PATIENCE = 60
UNEQUAL = 1e12
"""Figures of two runs are never equal: they may differ by so much."""


class Model:
    """A perceptron for scikit-learn's digits, which learns for a second when it is made."""

    def __init__(self):
        from sklearn.datasets import load_digits
        from sklearn.neural_network import MLPClassifier

        digits = load_digits()
        self.model = MLPClassifier((32,), random_state=0, max_iter=60).fit(digits.data[::2], digits.target[::2])

    def answer(self, body):
        """The body of a response to the body of a request."""
        found = int(self.model.predict([json.loads(body)])[0])
        return {"digit": found, "host": socket.gethostname(), "pid": os.getpid()}


def alone(port):
    """Serve from this process."""
    import uvicorn
    from starlette.applications import Starlette
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    model = Model()

    async def digit(request):
        return JSONResponse(model.answer(await request.body()))

    app = Starlette(routes=[Route("/", digit, methods=["POST"])])
    uvicorn.run(app, host=HOST, port=port, log_level="warning")


@contextlib.contextmanager
def one_process(port):
    """The model served by a process of its own."""
    process = subprocess.Popen([sys.executable, __file__, "--port", str(port), "--alone"])
    try:
        yield
    finally:
        process.kill()
        process.wait()


@contextlib.contextmanager
def replicas(port):
    """The model served by a replica a rank, on the nodes of the run; each of these nodes listens on its loopback."""
    import ray
    from ray import serve

    class Digits:
        """A replica."""

        def __init__(self):
            self.model = Model()

        async def __call__(self, request):
            return self.model.answer(await request.body())

    ray.init()
    places = collections.Counter(json.loads(os.environ["REGATTA_RANK_MAP"]))
    nodes = [node["NodeID"] for node in ray.nodes() if node["Alive"] and node["NodeManagerAddress"] in places]
    where = {"label_selector": {"ray.io/node-id": f"in({','.join(nodes)})"}} if nodes else {}
    deployment = serve.deployment(
        num_replicas=sum(places.values()),
        max_replicas_per_node=max(places.values()),
        ray_actor_options={"num_cpus": 0, **where},
        health_check_period_s=1,
    )(Digits)
    serve.shutdown()  # what a driver that was killed has left
    serve.start(proxy_location="EveryNode", http_options={"host": HOST, "port": port})
    try:
        serve.run(deployment.bind(), name="digits", route_prefix="/")
        yield
    finally:
        serve.shutdown()
        ray.shutdown()


class Load:
    """What some clients have sent, and got: latencies in seconds by when they came, failures, who has answered."""

    def __init__(self, port):
        from sklearn.datasets import load_digits

        self.port = port
        self.bodies = [json.dumps(row.tolist()) for row in load_digits().data[1::2][:200]]
        self.taken, self.failed, self.who = [], [], collections.Counter()
        self.last = {}

    def ask(self, connection, number):
        """Send one digit; gives the answer. Raises OSError or HTTPException where none comes."""
        connection.request("POST", "/", self.bodies[number % len(self.bodies)])
        response = connection.getresponse()
        body = response.read()
        if response.status != 200:
            raise http.client.HTTPException(f"status {response.status}: {body[:200]!r}")
        return json.loads(body)

    def client(self, first, end):
        """Send one request after the other until then."""
        connection, number = http.client.HTTPConnection(HOST, self.port, timeout=10), first
        while (began := time.monotonic()) < end:
            try:
                answer = self.ask(connection, number)
            except (OSError, http.client.HTTPException, ValueError) as error:
                self.failed.append(f"{type(error).__name__}: {error}")
                connection.close()
                continue
            now = time.monotonic()
            self.taken.append(now - began)
            self.who[answer["host"], answer["pid"]] += 1
            self.last[answer["host"], answer["pid"]] = now
            number += 1

    def digest(self):
        """Of the answers to each digit once."""
        connection = http.client.HTTPConnection(HOST, self.port, timeout=10)
        found = [self.ask(connection, number)["digit"] for number in range(len(self.bodies))]
        return hashlib.sha256(bytes(found)).hexdigest()

    def wait(self, many):
        """Return when so many have answered. Raises the last failure where they do not in time."""
        end, seen, failure = time.monotonic() + PATIENCE, set(), None
        while len(seen) < many:
            try:
                answer = self.ask(http.client.HTTPConnection(HOST, self.port, timeout=10), 0)
                seen.add((answer["host"], answer["pid"]))
            except (OSError, http.client.HTTPException) as error:
                failure = error
                time.sleep(0.1)
            if time.monotonic() > end:
                raise failure or RuntimeError(f"only {seen} answer")


def kill_one(load):
    """End one of the replicas that answer, by SIGKILL, on its host."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    host, pid = max(load.who)
    (node,) = (one["NodeID"] for one in ray.nodes() if one["Alive"] and one["NodeManagerHostname"] == host)

    @ray.remote(num_cpus=0, scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False))
    def kill():
        os.kill(pid, signal.SIGKILL)

    ray.get(kill.remote())
    return host, pid


def tell(event, **fields):
    """A line that Regatta reads."""
    rank = -1 if os.environ.get("REGATTA_FRAMEWORK") == "ray" else 0
    print("@regatta " + json.dumps({"event": event, "rank": rank, "t": time.time(), **fields}), flush=True)


def main():
    """Serve, load, tell."""
    parser = argparse.ArgumentParser()
    for name, default in (("seconds", 20), ("clients", 8), ("port", 29480), ("hold", 0)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--kill", action="store_true")
    parser.add_argument("--alone", action="store_true")
    given = parser.parse_args()
    if given.alone:
        return alone(given.port)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    ray = os.environ.get("REGATTA_FRAMEWORK") == "ray"
    many = int(os.environ.get("REGATTA_WORKERS", "1")) if ray else 1
    with replicas(given.port) if ray else one_process(given.port):
        load = Load(given.port)
        load.wait(many)
        tell("ready")
        digest = load.digest()
        began = time.monotonic()
        end = began + given.seconds
        threads = [threading.Thread(target=load.client, args=(7 * number, end)) for number in range(given.clients)]
        for thread in threads:
            thread.start()
        killed = None
        if given.kill and ray:
            time.sleep(given.seconds / 2)
            killed = kill_one(load)
        for thread in threads:
            thread.join()
        seconds = time.monotonic() - began
        tell("phase", name="compute", seconds=seconds)
        show(load, digest, seconds, killed)
        if killed:
            load.wait(many)
            print("as many replicas as before answer again", flush=True)
        print(f"serving at {HOST}:{given.port} for {given.hold} s more", flush=True)
        time.sleep(given.hold)
    return None


def show(load, digest, seconds, killed):
    """Tell what came of the load."""
    taken = sorted(load.taken)
    figures = {
        "requests_a_second": len(taken) / seconds,
        "median_ms": 1000 * taken[len(taken) // 2],
        "99_of_100_ms": 1000 * taken[len(taken) * 99 // 100],
        "failed": len(load.failed),
    }
    lines = [
        f"{figures['requests_a_second']:,.0f} requests a second; half of them in {figures['median_ms']:.1f} ms, "
        f"99 of 100 in {figures['99_of_100_ms']:.1f} ms; {figures['failed']} of {len(taken) + len(load.failed)} failed",
        *(f"{host}, process {pid}: {count:,} answers" for (host, pid), count in sorted(load.who.items())),
        *([f"killed under load: process {killed[1]} on {killed[0]}"] if killed else []),
        *(f"{count} times {words}" for words, count in collections.Counter(load.failed).most_common(3)),
    ]
    tolerance = dict.fromkeys(figures, UNEQUAL)
    tell("result", answer={"digits": digest, **figures}, tolerance=tolerance, show=lines)


if __name__ == "__main__":
    main()
