"""Writes numbered records with a handler of Python's logging: MODE PATH RECORDS PER_SECOND PER_FILE.

Before each fifth but the first it waits for a line, or the end, of standard input."""
import logging
import logging.handlers
import signal
import sys
import time

mode, path = sys.argv[1:3]
records, rate, per_file = (int(a) for a in sys.argv[3:])
note = "zq-payload " + "x" * 60


def line(seq):
    return '{"seq":%d,"note":"%s"}' % (seq, note)


if mode == "rotating":
    handler = logging.handlers.RotatingFileHandler(path, maxBytes=per_file * (len(line(records)) + 1), backupCount=5)
elif mode == "timed":
    handler = logging.handlers.TimedRotatingFileHandler(path, when="S", interval=1, backupCount=5)
elif mode == "watched":
    handler = logging.handlers.WatchedFileHandler(path)
elif mode == "reopening":
    handler = logging.FileHandler(path)

    def reopen(*_):
        hup.append(True)

    hup = []
    signal.signal(signal.SIGHUP, reopen)
handler.setFormatter(logging.Formatter("%(message)s"))
log = logging.getLogger("writer")
log.setLevel(logging.INFO)
log.propagate = False
log.addHandler(handler)

due = time.monotonic()
for seq in range(records):
    if seq > 0 and seq % (records // 5) == 0:
        sys.stdin.readline()
    if mode == "reopening" and hup:
        hup.clear()
        handler.close()  # the next record opens it again
    log.info(line(seq))
    if rate and seq % 100 == 99:
        due += 100 / rate
        time.sleep(max(0, due - time.monotonic()))
        due = max(due, time.monotonic() - 0.1)  # makes up for no more than that
signal.signal(signal.SIGHUP, signal.SIG_IGN)  # or a signal kills it while Python ends
logging.shutdown()
