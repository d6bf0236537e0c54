"""For all tests: Ctrl-C works in what they start, also where they themselves run in the background of a shell."""

import signal

# A shell starts background jobs with SIGINT ignored, and programs inherit that; a handler of ours they do not inherit.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
