"""From layout 1, whose folder of runs belonged to the account of runs, to layout 2, where it is root's.

Runs may be active meanwhile, and hostile: the folder itself becomes root's first, so that nothing in it can be put in
place of another thing from then on, and only then is looked at what is there. Runs keep their folders and paths.
"""

import contextlib
import os
import pwd
import re
import stat
import subprocess

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: base_migrate
short_description: Carry the folder of runs over from layout 1
options:
  state: {type: path, required: true, description: The folder of runs (regatta_state)}
  user: {type: str, required: true, description: The account of runs}
"""
RUN = re.compile(r"(\.removed-)?[a-z0-9]([a-z0-9-]{0,126}[a-z0-9])?\Z")
KEYS = ".ssh"
SHUT = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW


def take(handle, group, mode):
    """The folder is root's."""
    os.fchown(handle, 0, group)
    os.fchmod(handle, mode)


def kept(handle, name, account):
    """Whether what is there may stay as it is under its name."""
    info = os.stat(name, dir_fd=handle, follow_symlinks=False)
    own = info.st_uid == account.pw_uid
    return {
        "runs": stat.S_ISDIR(info.st_mode) and info.st_uid in (0, account.pw_uid),
        "data": stat.S_ISDIR(info.st_mode) and info.st_uid == 0,
        "ray": stat.S_ISDIR(info.st_mode) and own,
        "home": stat.S_ISDIR(info.st_mode) and own,
        "bench.lock": stat.S_ISREG(info.st_mode) and info.st_uid == 0 and info.st_nlink == 1,
    }.get(name, False)


def move(handle, name, home):
    """Into the account's own folder, next to whatever has that name there."""
    for number in range(1000):
        new = name if not number else f"{name}.{number}"
        try:
            os.stat(new, dir_fd=home, follow_symlinks=False)
        except FileNotFoundError:
            os.rename(name, new, src_dir_fd=handle, dst_dir_fd=home)
            return new
    raise OSError(f"{name}: there are too many of that name in the account's folder; remove some")


def tidy_runs(runs, home):
    """Only folders of runs stay in the folder of runs."""
    for name in os.listdir(runs):
        if not (RUN.match(name) and stat.S_ISDIR(os.stat(name, dir_fd=runs, follow_symlinks=False).st_mode)):
            move(runs, name, home)


def made(handle, names, account):
    """The account's own folder, opened; a thing of another kind under its name is put aside, among `names`."""
    with contextlib.suppress(FileNotFoundError):
        if not kept(handle, "home", account):
            os.rename("home", ".home", src_dir_fd=handle, dst_dir_fd=handle)
            names.add(".home")
    with contextlib.suppress(FileExistsError):
        os.mkdir("home", 0o700, dir_fd=handle)
    home = os.open("home", SHUT, dir_fd=handle)
    os.fchown(home, account.pw_uid, account.pw_gid)
    return home


def migrate(state, account):
    """All of it; what a stopped one has left is done by the next."""
    with contextlib.ExitStack() as stack:

        def held(handle):
            stack.callback(os.close, handle)
            return handle

        handle = held(os.open(state, SHUT))
        take(handle, account.pw_gid, 0o750)
        names = set(os.listdir(handle))
        home = held(made(handle, names, account))
        keys = []
        for name in sorted(names - {"home"}):
            if not kept(handle, name, account):
                moved = move(handle, name, home)
                keys += [moved] if name == KEYS else []
        if "data" in os.listdir(handle):
            take(held(os.open("data", SHUT, dir_fd=handle)), 0, 0o755)
        if "runs" in os.listdir(handle):
            runs = held(os.open("runs", SHUT, dir_fd=handle))
            take(runs, account.pw_gid, 0o750)
            tidy_runs(runs, home)
    for name in keys:  # provisioning makes new ones, which no run has open
        command = ["runuser", f"--user={account.pw_name}", "--", "rm", "-rf", "--one-file-system", "--"]
        subprocess.run([*command, os.path.join(state, "home", name)], cwd="/", check=True, capture_output=True)


def main():
    """Carry it over."""
    options = {name: {"type": kind, "required": True} for name, kind in (("state", "path"), ("user", "str"))}
    module = AnsibleModule(argument_spec=options, supports_check_mode=True)
    state = module.params["state"]
    if not os.path.lexists(state):
        module.exit_json(changed=False)
    if not module.check_mode:
        try:
            migrate(state, pwd.getpwnam(module.params["user"]))
        except (OSError, subprocess.CalledProcessError) as error:
            module.fail_json(msg=f"{state}: {error}")
    module.exit_json(changed=True)


if __name__ == "__main__":
    main()
