"""This node's part of a torchrun all-reduce over all nodes, and the versions it ran with."""

import json
import os
import shutil
import subprocess
import tempfile

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: python_env_verify
short_description: torchrun over all nodes, started on each at the same time
options:
  root: {type: path, required: true, description: Folder of the environments}
  interface: {type: str, required: true, description: Interface that holds the cluster address}
  address: {type: str, required: true, description: Cluster address of this node}
  master: {type: str, required: true, description: Cluster address of the first node}
  port: {type: int, required: true, description: Port of the rendezvous on the first node}
  rank: {type: int, required: true, description: Which node this is}
  nodes: {type: int, required: true, description: How many there are}
  timeout: {type: int, default: 60, description: Seconds for the whole}
"""
SCRIPT = """
import datetime, importlib.metadata, json, platform, torch, torch.distributed as dist
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=30))
value = torch.tensor([float(dist.get_rank() + 1)])
dist.all_reduce(value)
size = dist.get_world_size()
print("@verify " + json.dumps({"sum": value.item(), "expected": size * (size + 1) / 2,
      "versions": {"python": platform.python_version(), "torch": torch.__version__,
                   "ray": importlib.metadata.version("ray")}}), flush=True)
dist.barrier()
dist.destroy_process_group()
"""


def command(wanted, script):
    """torchrun with a fixed rendezvous: all nodes are known."""
    return [
        *("timeout", "--kill-after=5", str(wanted["timeout"]), "runuser", "-u", "regatta", "--"),
        *(f"{wanted['root']}/env/bin/torchrun", f"--nnodes={wanted['nodes']}", "--nproc-per-node=1"),
        *(f"--node-rank={wanted['rank']}", f"--master-addr={wanted['master']}", f"--master-port={wanted['port']}"),
        *(f"--local-addr={wanted['address']}", script),
    ]


def problem(done, report, timeout):
    """What went wrong, or None."""
    if done.returncode == 124:
        return f"torchrun did not end within {timeout} s"
    if done.returncode or not report:
        lines = [line for line in done.stderr.strip().splitlines() if "Error" in line] or done.stderr.splitlines()
        return f"torchrun failed with exit code {done.returncode}: {(lines or ['no message'])[-1].strip()}"
    if report["sum"] != report["expected"]:
        return f"torchrun's all-reduce gave {report['sum']} instead of {report['expected']}"
    return None


def main():
    """Run this node's part."""
    texts = {name: {"type": "str", "required": True} for name in ("interface", "address", "master")}
    numbers = {name: {"type": "int", "required": True} for name in ("port", "rank", "nodes")}
    module = AnsibleModule(
        argument_spec={
            "root": {"type": "path", "required": True},
            "timeout": {"type": "int", "default": 60},
            **texts,
            **numbers,
        },
        supports_check_mode=True,
    )
    wanted = module.params
    work = tempfile.mkdtemp(prefix="regatta-verify-")
    try:
        script, home = os.path.join(work, "all_reduce.py"), os.path.join(work, "home")
        with open(script, "w") as file:
            file.write(SCRIPT)
        os.chmod(script, 0o644)
        os.mkdir(home, 0o700)
        shutil.chown(home, "regatta", "regatta")
        os.chmod(work, 0o755)
        env = {"PATH": f"{wanted['root']}/env/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": home, "OMP_NUM_THREADS": "1"}
        env["GLOO_SOCKET_IFNAME"] = wanted["interface"]
        done = subprocess.run(command(wanted, script), capture_output=True, text=True, cwd=home, env=env, check=False)
    finally:
        subprocess.run(["rm", "-rf", "--one-file-system", "--", work], check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith("@verify ")]
    report = json.loads(lines[-1].partition(" ")[2]) if lines else {}
    found = problem(done, report, wanted["timeout"])
    module.exit_json(changed=False, problems=[found] if found else [], versions=report.get("versions", {}))


if __name__ == "__main__":
    main()
