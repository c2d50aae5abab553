"""Tasks of jobs. The package is also the decorator `headquarters.task`, which makes a function a task."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any


class _Decorator(ModuleType):
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        from .._task import task

        return task(*args, **kwargs)


sys.modules[__name__].__class__ = _Decorator
