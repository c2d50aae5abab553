"""What a call loads that calls others: once one has done so, interpreters are forked from one that has loaded this."""

from __future__ import annotations

from . import _environment as _environment
from . import _executor as _executor
from . import _guest as _guest
from . import _native as _native
