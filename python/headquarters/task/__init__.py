"""Tasks of jobs. The package is also the decorator `headquarters.task`, which makes a function a task."""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any


class _Decorator(ModuleType):
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        from .._task import task

        return task(*args, **kwargs)

    def __reduce__(self) -> Any:
        # As any module, but that functions which use the name of one are pickled with it by value.
        return import_module, (self.__name__,)


sys.modules[__name__].__class__ = _Decorator
