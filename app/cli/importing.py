import gc
import sys
from importlib import import_module
from types import ModuleType


def import_at_once(name: str) -> ModuleType:
    """Import a module without searching for garbage meanwhile.

    Those of a command make half a million objects, and none of them is garbage. Python would search them for garbage
    again and again, which took a quarter of the time of a short command.
    """
    if name in sys.modules:
        return sys.modules[name]
    gc.disable()
    try:
        return import_module(name)
    finally:
        gc.freeze()
        gc.enable()
