"""What a call needs that calls others: once one has done so, interpreters are forked from one that has loaded this.

Whatever it loads makes nothing of its process when it is loaded: no thread, no connection, no variable read.
"""

from __future__ import annotations

from . import _environment as _environment
from . import _executor as _executor
from . import _guest as _guest
from . import _native as _native
