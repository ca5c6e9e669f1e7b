import gc
import sys

_OBJECTS_BEFORE_COLLECTION = 10_000
_SWITCH_SECONDS = 0.001


def tune_for_serving() -> None:
    """Set the interpreter for many short requests; to be called once everything is imported.

    The collector goes through every object that was ever made, again and again, while the half million of the loaded
    libraries are never garbage: that held up requests for 0.3 seconds at a time. Freezing leaves them out. And a thread
    that has its answer from the database waits for at most a millisecond, not five, for its turn beside the event loop.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_OBJECTS_BEFORE_COLLECTION, 20, 20)
    sys.setswitchinterval(_SWITCH_SECONDS)
