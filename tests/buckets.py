"""Object stores that tests make: `s3`, moto's server, which believes the keys of only one account; and `gs`, an
emulator that accepts every client.

As a program it prints the variables that lead to the store as JSON, and ends with its standard input.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from locked import NODE, packages

LOCK = "store-test"
ACTIONS_OF_SERVE = "4"
"""Calls that moto answers before it asks who calls."""
ALLOWED = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]}


@dataclass(frozen=True)
class Store:
    """A store with the bucket `data`; `variables` lead there. `kind` begins its addresses."""

    kind: str
    variables: dict[str, str]

    def file(self, folder: Path) -> Path:
        """The variables as --env-file takes them."""
        path = folder / "store.env"
        path.touch(mode=0o600)
        path.write_text("".join(f"{name}={value}\n" for name, value in self.variables.items()))
        return path

    def put(self, key: str, content: bytes) -> None:
        """Make an object in the bucket."""
        self._ask("fs.pipe_file(f'data/{key}', sys.stdin.buffer.read())", key, content)

    def get(self, key: str) -> bytes:
        """An object's content."""
        return self._ask("sys.stdout.buffer.write(fs.cat_file(f'data/{key}'))", key)

    def names(self) -> list[str]:
        """The keys of all objects."""
        found = self._ask("print(*sorted(fs.find('data')), sep='\\n')").decode().splitlines()
        return [path.removeprefix("data/") for path in found]

    def _ask(self, code: str, key: str = "", content: bytes = b"") -> bytes:
        program = f"import sys, fsspec; fs = fsspec.filesystem('{self.kind}'); key = sys.argv[1]; {code}"
        env = {**os.environ, **self.variables, "PYTHONPATH": str(packages(LOCK))}
        done = subprocess.run(
            [NODE, "-c", program, key], input=content, env=env, capture_output=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout


@contextmanager
def serve(address: str = "127.0.0.1", kind: str = "s3") -> Iterator[Store]:
    """A store on an address of this machine."""
    command = [NODE, __file__, kind, address]
    env = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    env |= {"INITIAL_NO_AUTH_ACTION_COUNT": ACTIONS_OF_SERVE, "PYTHONPATH": str(packages(LOCK))}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=env, text=True
    ) as server:
        assert server.stdin and server.stdout
        try:
            said = server.stdout.readline()
            assert said, "the store has not started"
            yield Store(kind, json.loads(said))
        finally:
            server.stdin.close()
            server.wait(30)


def main() -> None:
    """Serve until standard input ends."""
    kind, address = sys.argv[1:]
    {"s3": _amazon, "gs": _google}[kind](address)


def _amazon(address: str) -> None:
    import boto3
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address=address, port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    where = {"AWS_ENDPOINT_URL": f"http://{host}:{port}", "AWS_DEFAULT_REGION": "us-east-1"}
    anybody = {"aws_access_key_id": "anybody", "aws_secret_access_key": "anything"}
    common = {"endpoint_url": where["AWS_ENDPOINT_URL"], "region_name": where["AWS_DEFAULT_REGION"]}
    users = boto3.client("iam", **common, **anybody)
    boto3.client("s3", **common, **anybody).create_bucket(Bucket="data")
    users.create_user(UserName="runs")
    users.put_user_policy(UserName="runs", PolicyName="all", PolicyDocument=json.dumps(ALLOWED))
    key = users.create_access_key(UserName="runs")["AccessKey"]
    who = {"AWS_ACCESS_KEY_ID": key["AccessKeyId"], "AWS_SECRET_ACCESS_KEY": key["SecretAccessKey"]}
    print(json.dumps({**where, **who}), flush=True)
    sys.stdin.read()
    server.stop()


def _google(address: str) -> None:
    from gcp_storage_emulator.server import create_server

    server = create_server(address, 0, in_memory=True, default_bucket="data")
    server.start()
    host, port = server._api._httpd.server_address[:2]
    where = {"STORAGE_EMULATOR_HOST": f"http://{host}:{port}"}
    print(json.dumps(where | {"GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT": "false"}), flush=True)  # it asks by gRPC, with TLS
    sys.stdin.read()
    server.stop()


if __name__ == "__main__":
    main()
