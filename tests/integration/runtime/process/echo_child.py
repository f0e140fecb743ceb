"""A child for the tests: does what each message says."""

import logging
import os
import signal
import sys
import time

import msgspec

from ferry_runtime.process import connect


class Order(msgspec.Struct, frozen=True):
    do: str
    value: str = ""


class Reply(msgspec.Struct, frozen=True):
    value: str


def main() -> None:
    channel = connect(Order)
    while (order := channel.receive()) is not None:
        match order.do:
            case "echo":
                channel.send(Reply(order.value))
            case "exit":
                channel.send(Reply("last words"))
                sys.exit(int(order.value))
            case "log":
                logging.getLogger("child.part").warning("%s", order.value)
                sys.stdout.write("a plain line\n")
                sys.stdout.flush()
            case "fail":
                raise ValueError("told to fail")
            case "hang":
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
                channel.send(Reply("hanging"))
                time.sleep(600)
            case "close":
                channel.close()
                time.sleep(600)
    if os.environ.get("ON_GOODBYE") == "linger":
        time.sleep(600)
    channel.send(Reply("goodbye"))


main()
