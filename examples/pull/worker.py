#!/usr/bin/env python3
"""Takes tasks in blocks, and says with the next question how they ended: a worker with nothing but the standard library.

HQ_PULL_SOCKET names the socket (`eval "$(hq pull env)"`), the bag is the first argument. What a task is to do is here the
length of its payload.
"""

import json
import os
import socket
import sys


def main() -> None:
    bag = sys.argv[1]
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(os.environ["HQ_PULL_SOCKET"])
    lines = connection.makefile("rwb")

    def ask(name: str, **members: object) -> dict:
        lines.write(json.dumps({name: members}).encode() + b"\n")
        lines.flush()
        answer = json.loads(lines.readline())
        if "error" in answer:
            sys.exit(answer["error"]["message"])
        return answer

    ask("hello", label=f"python-{os.getpid()}", lease=60)
    done: list[dict] = []
    while True:
        answer = ask("next", done=done, take=16, wait=60, bags=[bag])
        done = [
            {"id": task["id"], "attempt": task["attempt"], "result": str(len(task["payload"]))}
            for task in answer["tasks"]
        ]
        if answer["state"] == "over":
            ask("sync")
            return


if __name__ == "__main__":
    main()
