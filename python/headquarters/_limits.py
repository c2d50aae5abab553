"""How much of what the client takes, and what happens beyond it."""

ENTRY_BYTES_MAX = 1 << 20
"""Pickled arguments of a call; beyond, it ends with ArgumentsNotPicklable."""

JOB_BYTES_MAX = 120 * 1024 * 1024
"""Pickled functions and arguments of a `Job`, each function once: the most that one submit carries."""

CODE_BYTES_MAX = 256 * 1024
"""A pickled function with what it refers to; beyond, its calls end with ArgumentsNotPicklable."""

SUBMIT_CALLS = 256
"""Calls that make a submit leave at once."""

SUBMIT_BYTES = 256 * 1024
"""Bytes of arguments that make a submit leave at once, and the most of one block of a map."""

SUBMIT_CALLS_MAX = 8192
"""The most calls of one submit."""

QUIET_S = 100e-6
"""Seconds without a further call after which a submit leaves."""

QUEUED_BYTES_MAX = 64 * 1024 * 1024
"""Bytes of arguments that wait to be sent; beyond, submit blocks until some have been."""

BLOCK_CALLS = 2048
"""Calls of a map that are sent as one."""

CODES_MAX = 1024
"""Functions whose pickle is kept; beyond, the oldest half is dropped and pickled again when needed."""

NAME_BYTES_MAX = 200
"""Length of the name a task has; the rest is cut."""

ECHO_BYTES_PER_S = 1024 * 1024
"""What calls print is repeated here up to this rate; the rest is left out, with a note."""

EXIT_S = 5.0
"""Seconds for which the end of the interpreter waits to send calls that were submitted, and to end threads."""

SEARCH_STEPS_MAX = 2000
"""Values looked at to name the one that cannot be pickled."""

FINGERPRINT_PARTS_MAX = 64
"""Values a function may depend on before it is rather pickled again for each call."""

LAST_WORDS_BYTES = 2048
"""What an interpreter said last, where it did not start."""

LINGER = "1h"
"""How long the job of a program that was killed stays open for whoever comes back, when its calls have ended."""

SILENT_SHUTDOWN_S = 10.0
"""A shutdown that takes longer says what it waits for."""

TASK_MAX = 2**32 - 1
"""The last id that a task can have."""

GUESTS_FROM = 10**9
"""Ids of calls of those that come to a job of another client begin here."""

GUEST_ROW = 1000
"""Ids that a call takes for those that it calls, at a time."""

GATHER_S = 1e-3
"""Seconds after which leaves what a call has submitted, if it neither ends nor waits before."""

GATHER_LOOKS = 20
"""After so many times of these without anything to send it is looked only when there is something."""

UNHEARD_S = 0.05
"""Seconds after which a call hears of those that it has called, and that it does not wait for."""

GIVEN_FROM = 3 * 10**9
"""Ids of what clients put into stores begin here; the server gives them."""

ARGUMENTS_BYTES = 64 * 1024
"""Pickled arguments of a call beyond which the large ones go to a store."""

LARGE_BYTES = 16 * 1024
"""Bytes of an argument that goes to a store when all of them take too much."""

MAPPED_FROM = 256 * 1024
"""Bytes of a value from which its file is mapped; shorter ones are read."""

MAPPINGS_MAX = 256
"""Values that are mapped at a time; of further ones only those are that are longer than READ_BYTES_MAX."""

READ_BYTES_MAX = 64 * 1024 * 1024
"""The longest value that is read into memory where there are many mappings."""

HELD_MAX = 256
"""Values of this machine whose files are held when their executor ends, so that they can be loaded afterwards."""

STORES_KNOWN_S = 5.0
"""Seconds for which it is not asked again where the stores of workers are."""

PUT_TRIES = 3
"""Workers that are asked to store a value before the put fails."""

REBUILDS_MAX = 3
"""Times that a value is rebuilt for one `result()`."""

STORELESS_S = 3.0
"""Seconds after the first call that takes the value of another one, until it is looked whether any worker stores values."""

RELEASES_MAX = 10_000
"""Values of which one request says that they are needed no more."""

BESIDE_BYTES = 4096
"""Buffers of a value up to this size are in its pickle, and longer ones beside it."""

# Of the way to a value that cannot be sent, so many characters are said.
PATH_CHARS_MAX = 200

SERVER_AWAY_S = 600.0
"""How long a server that is away is waited for when a value is asked for: as long as calls wait for it."""

SERVER_PAUSE_S = 0.5
"""Seconds between two looks for it."""

PROGRESS_S = 0.2
"""Seconds between two times that it is shown how far calls are."""

PROGRESS_CHARS = 40
"""Length of the bar that shows it at a terminal."""

SHOWN_JOBS_MAX = 20
"""Jobs in the table of a cluster: the newest."""

SERVER_END_S = 5.0
"""How long the end of the process of a server is waited for that was lost."""

GROWTH_BYTES = 2 << 30
"""An interpreter whose resident memory has grown by more since its first call is replaced, unless its environment says
otherwise."""

WORKERS_FAILED_MAX = 5
"""So many workers of a local cluster, one in place of the other, may end before they are connected. Then no other one follows."""

UNFIT_S = 5.0
"""Seconds until it is looked whether calls of a local cluster could ever run there; twice as long until the next look."""

KINDS_LOOKED_AT_MAX = 100
"""Calls with so many different options are looked at for that."""
