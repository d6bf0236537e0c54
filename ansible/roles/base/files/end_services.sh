#!/bin/sh
# End the services that accounts of runs have had of their own, beside the units of the runs.
systemctl daemon-reload
for name in regatta $(getent group regatta-members | cut -d : -f 4 | tr , ' '); do
    systemctl stop "user@$(id -u "$name").service"
done
