"""Which files of a source tree make a release."""
