"""What lists need of the processes that have their parts, and the simplest of them: one process alone."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any


class Ranks(ABC):
    """The processes that have the parts of lists, seen from one of them.

    All ranks call all methods but `note`, `packed` and `shift`, in the same order. Each collective begins with `agree`.
    """

    rank: int
    procs: int

    @abstractmethod
    def note(self, error: Exception) -> None:
        """Something has failed on this rank: it is raised on all ranks at the next agreement; at once where there is no other."""

    @abstractmethod
    def agree(self, what: str, failure: BaseException | None = None) -> None:
        """Makes sure that all ranks are about to do the same, and that nothing has failed on any; else raises on all of them."""

    @abstractmethod
    def counts(self, count: int) -> list[int]:
        """A number from each rank, on each rank."""

    @abstractmethod
    def packed(self, value: Any) -> Any:
        """A value in the form in which it leaves this rank. Raises TypeError where it cannot leave."""

    @abstractmethod
    def bcast(self, value: Any, root: int) -> Any:
        """The value that `root` has, on each rank. Where it cannot leave `root`, all ranks raise."""

    @abstractmethod
    def gather(self, value: Any, root: int) -> list[Any] | None:
        """On `root`, the values of all ranks; they come packed but for that of `root`."""

    @abstractmethod
    def exchange(self, values: list[Any]) -> list[Any]:
        """Sends a packed value to each rank, None for nothing; gives what came from each. The own one stays as it is."""

    @abstractmethod
    def shift(self, value: Any, to: int | None, source: int | None) -> Any:
        """Sends a packed value to a rank, and gives what another one sends; None is nobody."""


class Alone(Ranks):
    """One process: nothing travels, and what fails is raised at once."""

    rank = 0
    procs = 1

    def note(self, error: Exception) -> None:
        raise error

    def agree(self, what: str, failure: BaseException | None = None) -> None:
        if failure is not None:
            raise failure

    def counts(self, count: int) -> list[int]:
        return [count]

    def packed(self, value: Any) -> Any:
        return value

    def bcast(self, value: Any, root: int) -> Any:
        return value

    def gather(self, value: Any, root: int) -> list[Any]:
        return [value]

    def exchange(self, values: list[Any]) -> list[Any]:
        return values

    def shift(self, value: Any, to: int | None, source: int | None) -> Any:
        raise AssertionError("a rank that is alone has no neighbours")
