#!/usr/bin/env python3
"""The science app `actor`: executes the commands in its input file `in`.

say TEXT        write a line to stderr
upper FILE      append a file to the output, in upper case
facts ELEMENT   append an element of the client's init_data.xml to the output
write BYTES     append this number of bytes to the output
burn SECONDS    use this much CPU time, in total over restarts
nap SECONDS     sleep
die SIGNAL      kill itself with a signal, by number
exit CODE       exit with a status
"""

from __future__ import annotations

import mmap
import os
import re
import sys
import time
from pathlib import Path


def resolve(name):
    """Return the target of a BOINC soft link (a text file), or the path of any other file."""
    path = Path(name)
    with path.open(errors="replace") as file:
        found = re.search(r"<soft_link>(.*?)</soft_link>", file.read(4096))
    return Path(found.group(1)) if found else path


def tell(cpu_time):
    """Report CPU time and checkpoint to the client, and exit on request, as BOINC's library does.

    The sixth kilobyte of the shared memory is for the app's messages, the first one for the
    client's requests.
    """
    said = f"\x01<current_cpu_time>{cpu_time}</current_cpu_time>\n"
    said += f"<checkpoint_cpu_time>{cpu_time}</checkpoint_cpu_time>\n\x00"
    with Path("boinc_mmap_file").open("r+b") as file, mmap.mmap(file.fileno(), 0) as shared:
        if not shared[5 * 1024]:  # the client has read the previous message
            shared[5 * 1024 : 5 * 1024 + len(said)] = said.encode()
        if b"<quit/>" in shared[:1024]:
            sys.exit()


def burn(seconds):
    """Use CPU time; store the time used, so that a restart continues from there."""
    note = Path("burnt")
    before = float(note.read_text()) if note.exists() else 0.0
    began = time.process_time()
    while (burnt := before + time.process_time() - began) < seconds:
        sum(range(100_000))
        Path("burnt.new").write_text(str(burnt))
        Path("burnt.new").replace(note)
        tell(burnt)


def act(deed, rest, output):
    if deed == "say":
        sys.stderr.write(rest + "\n")
    elif deed == "upper":
        output.write(resolve(rest).read_bytes().upper())
    elif deed == "facts":
        text = Path("init_data.xml").read_text(errors="replace")
        [fact] = re.findall(rf"<{rest}>(.*?)</{rest}>", text)
        output.write(f"{rest} {fact}\n".encode())
    elif deed == "write":
        output.write(b"x" * int(rest))
    elif deed == "burn":
        burn(float(rest))
    elif deed == "nap":
        time.sleep(float(rest))
    elif deed == "die":
        os.kill(os.getpid(), int(rest))
    elif deed == "exit":
        sys.exit(int(rest))


def main():
    """Execute all commands of the input file."""
    deeds = resolve("in").read_text().splitlines()
    with resolve("out").open("wb") if Path("out").exists() else Path("out").open("wb") as output:
        for line in deeds:
            deed, _, rest = line.partition(" ")
            act(deed, rest, output)
            output.flush()
    Path("boinc_finish_called").write_text("0\n")


if __name__ == "__main__":
    main()
