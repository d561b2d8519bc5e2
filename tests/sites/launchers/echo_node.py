"""A launcher's node that only echoes the messages it gets. Runs on Python >= 3.6.

    python echo_node.py PATH-OF-CHANNELS DIRECTORY LAUNCHER NODE KINDS

{"say": [count, bytes]} asks for lines, {"stop": true} for its end; {"pause": s} suspends it for s
seconds.
"""

import importlib
import json
import select
import sys
import time

sys.path.insert(0, sys.argv[1])
channels = importlib.import_module("channels")


def main() -> None:
    poller = select.poll()
    channel = channels.Channel(
        sys.argv[2], sys.argv[3], int(sys.argv[4]), sys.argv[5].split(","), poller
    )
    session = 0
    while True:
        due_s = channel.due_s()
        poller.poll(max(0.0, due_s - time.monotonic()) * 1000 + 1)
        for line in channel.turn():
            said = json.loads(line.decode())
            if "say" in said:
                count, size = said["say"]
                for number in range(count):
                    channel.say(json.dumps({"n": number, "text": "x" * size}))
            elif "pause" in said:
                time.sleep(said["pause"])
            elif "stop" in said:
                channel.say('{"ending": "stop"}')
                channel.drain()
                channel.close()
                return
            else:
                channel.say(line.decode())
        if channel.session != session:
            session = channel.session
            hello = {"hello": 1, "session": session, "node": int(sys.argv[4])}
            channel.say(json.dumps(hello))
        channel.send()


main()
