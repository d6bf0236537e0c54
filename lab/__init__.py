"""Temporary hosts on this machine: systemd-nspawn containers that boot, on their own bridge.

Nothing here is needed where you have hosts: `regatta init` asks for them.
"""
