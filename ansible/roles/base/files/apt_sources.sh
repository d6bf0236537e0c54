#!/bin/sh
# The sources of apt on this host, as apt itself reads them (sources.list and .sources); a line each. Arguments
# go to apt-get.
apt-get "$@" --print-uris update |
  sed -n "s,^'\([^']*\)/dists/[^']*' .*,\1,p; t; s,^'\([a-z+]*://[^/']*\)/.*,\1/,p" | sort -u | while read -r site; do
  case $site in
  mirror+file:*) sed 's/[[:space:]].*//' "${site#mirror+file:}" ;;
  *) echo "$site" ;;
  esac
done
