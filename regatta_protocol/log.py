"""Lines of a run's log: `<rank>|<text>` on a node; an event is a JSON object behind `PREFIX`."""

DRIVER = -1
"""The rank of a driver, which speaks for all ranks; also of a malformed event whose rank cannot be read."""
PREFIX = "@regatta "
