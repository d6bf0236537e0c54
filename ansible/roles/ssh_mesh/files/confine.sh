#!/bin/sh
# Let sshd confine accounts of runs to a folder, and prove that it does: confine.sh SETTINGS FILE ACCOUNT FOLDER
# SETTINGS are copied to FILE, in /etc/ssh/sshd_config.d; ACCOUNT is one of those that they name.
# Prints "changed" where the settings were different. Written and read in one step, so that nothing stops it in between.
set -eu
conf=$2
if ! cmp -s "$1" "$conf"; then
    mkdir -p "${conf%/*}"
    cp "$1" "$conf.new"
    mv "$conf.new" "$conf"
    /usr/sbin/sshd -t || { rm "$conf"; exit 1; }
    systemctl try-reload-or-restart ssh.service
    echo changed
fi
told=$(/usr/sbin/sshd -T -C user="$3",host=localhost,addr=127.0.0.1)
has() { printf '%s\n' "$told" | grep -qi "^$1"; }
if ! has "forcecommand internal-sftp$" || ! has "chrootdirectory $4$"; then
    echo "sshd does not confine the account $3: its /etc/ssh/sshd_config must begin with" \
        "'Include /etc/ssh/sshd_config.d/*.conf'" >&2
    exit 1
fi
if ! has "subsystem sftp "; then
    echo "sshd offers no sftp: /etc/ssh/sshd_config needs the line 'Subsystem sftp internal-sftp'" >&2
    exit 1
fi
