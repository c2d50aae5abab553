"""Types that several modules share."""

from __future__ import annotations

import os
from typing import TypeAlias

GenericPath: TypeAlias = "str | os.PathLike[str]"
