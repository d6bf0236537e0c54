"""Throw-away hosts on this machine: systemd-nspawn containers that boot, on a bridge of their own.

Nothing here is needed where you have hosts: `regatta init` asks for them.
"""
