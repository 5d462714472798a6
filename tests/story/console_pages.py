"""The setup of each page of the docs, before its console blocks are typed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.story.volunteers import PASSWORD


@dataclass(frozen=True)
class Page:
    """The setup of a page that is not shown on the page."""

    #: Lines typed first; `manage` is manage.py, and $BLOCKS/KIND-N the page's Nth block of a kind.
    before: str = ""
    #: Names of apps to which the page's name is appended, because other pages use the same names.
    own: tuple[str, ...] = ()
    #: Text on the page -> the text that is typed instead.
    replaced: Mapping[str, str] = field(default_factory=dict)
    #: The number of our clients that compute meanwhile.
    volunteers: int = 0
    #: Whether a stock client runs, which `boinccmd` controls.
    stock: bool = False


ADA = "manage create_account ada@example.org"
YOU = "manage create_account you@example.org --staff"
FRIEND = "manage create_account friend@example.org"
LOGIN = f"{YOU}\nscientist login $URL --email you@example.org"
SCRIPT = "printf '#!/bin/sh\\ncat \"$1\"\\n' > run.sh"
#: A program that always succeeds, because hosts with many errors get less work.
ECHO = "printf '#!/bin/sh\\necho \"$@\"\\n' > run.sh"
SCRIPTED = "manage publish_app $a 1.00 run.sh --create-app --kind script || break"
INPUTS = "mkdir inputs; echo 1 > inputs/a.txt; echo 2 > inputs/b.txt"
SIEVE = f"""
{SCRIPT}; mkdir ranges; echo 1 > ranges/1.txt; echo 2 > ranges/2.txt
manage publish_app sieve 1.00 run.sh --create-app --kind script
"""
#: Few workunits, because each of several accounts computes a result of every workunit.
PRIMES = """
cp demo/mers*.py program.py
manage publish_app mersenne 1.00 x86_64-pc-linux-gnu program.py --create-app
mkdir primes; for i in $(seq 24); do echo 31 > primes/$i; done
manage submit_work mersenne primes/* --outputs out:100000 --quorum 4 --fpops 3e11
"""
FILE_REF = "<file_ref><open_name>in</open_name></file_ref>"
IN_XML = f"echo '<file_info/><workunit>{FILE_REF}</workunit>' > in.xml"
OUT_XML = (
    "echo '<file_info><name><OUTFILE_0/></name><max_nbytes>99</max_nbytes></file_info><result>"
    "<file_ref><file_name><OUTFILE_0/></file_name><open_name>out</open_name></file_ref>"
    "</result>' > out.xml"
)
LATEST_HOST = "from scheduler.models import Host; print(Host.objects.latest('id').id)"

SETTINGS = {
    "PROJECT_NAME": "Manyhands",
    "PURGE_AFTER": "3600",
    "COMMAND_APPS": "true",
    # A page's clients are attached before there is work, and would back off longer each time.
    "NEXT_CONTACT": "5",
}
PAGES: dict[str, Page] = {
    "README.md": Page(
        PRIMES, own=("mersenne",), replaced={" PASSWORD": f" '{PASSWORD}'"}, stock=True
    ),
    "client/README.md": Page(
        f"""
        {YOU}
        {FRIEND}
        {INPUTS}
        {PRIMES}
        mkdir longest; printf '#!/bin/sh\\nsort -n "$1" | tail -1\\n' > longest/run.sh
        """,
        own=("longest", "mersenne"),
        volunteers=2,
    ),
    "docs/api.md": Page(),
    "docs/apps.md": Page(
        f"""
        mkdir sum; cp $BLOCKS/sh-1 sum/run.sh; echo SCALE=2 > sum/settings
        echo 1 > one.txt; echo 2 > two.txt
        {LOGIN}
        mkdir -p ~/projects/primes/apps/primes/1.0/x86_64-pc-linux-gnu
        cp /bin/true ~/projects/primes/apps/primes/1.0/x86_64-pc-linux-gnu/primes_1.0
        """,
        own=("primes",),
    ),
    "docs/assimilators.md": Page(
        f"""
        {SCRIPT}; echo 1 > 1.txt; echo 2 > 2.txt
        manage create_app sums --kind script --assimilator take
        manage publish_app sums 1.00 run.sh
        manage shell -c "App.objects.filter(name='sums').update(max_science_failures=2)"
        manage submit_work sums 1.txt 2.txt --outputs out
        while [ $(manage parked list --app sums | grep -c "2 failures") -lt 2 ]; do sleep 0.5; done
        """,
        own=("sums",),
        volunteers=1,
    ),
    "docs/boinc-submission.md": Page(
        f"""
        {ADA}
        {SCRIPT}; echo a > a.txt; echo b > b.txt
        manage publish_app remote_test 1.00 run.sh --create-app --kind script
        manage publish_app upper 1.00 run.sh --create-app --kind script
        {IN_XML}
        {OUT_XML}
        """
    ),
    "docs/choosing.md": Page(
        f"""
        {SIEVE}
        manage create_app survey --kind script --validator trivial
        volunteer attach $URL --create --email ada@example.org --name Ada
        volunteer run --once
        HOST=$(manage shell --no-imports -c "{LATEST_HOST}")
        """,
        own=("sieve",),
        replaced={
            "--for-host 12": "--for-host $HOST",
            "2027-01-31T18:00": "$(date --utc --date tomorrow +%FT%H:%M)",
        },
    ),
    "docs/first-project.md": Page("cp $BLOCKS/python-1 collatz.py", own=("collatz",)),
    "docs/log-ins.md": Page(),
    "docs/operating.md": Page(),
    "docs/plan-classes.md": Page(
        """
        cp $BLOCKS/json-1 mt.json; mkdir build; cp /bin/true build/sieve
        manage create_app sieve
        """,
        own=("sieve",),
    ),
    "docs/replication.md": Page(),
    "docs/roles.md": Page(ADA),
    "docs/scientist.md": Page(
        f"""
        {YOU}
        {INPUTS}
        {ECHO}
        for a in walk fold merge; do {SCRIPTED}; done
        echo a > a.pdb; echo b > b.pdb; echo s > shared.dat; mkdir grids; echo g > grids/fine.dat
        ls a.pdb b.pdb > list.txt; echo '{{"command_line": "7"}}' > workunits.ndjson
        """,
        own=("longest", "walk", "fold", "merge"),
        replaced={"100000": "100", "seed=1..1000": "seed=1..100"},
        volunteers=2,
    ),
    "docs/submitting.md": Page(
        f"""
        {SIEVE}
        {ADA}
        echo '{{"command_line": "7"}}' > work.ndjson
        """,
        own=("sieve",),
    ),
    "docs/validators.md": Page(
        f"""
        {SCRIPT}; for i in 1 2 3; do echo '{{"x": 1.5}}' > host$i.json; done
        manage publish_app collatz 1.00 run.sh --create-app --kind script
        """,
        own=("collatz",),
    ),
}
#: Blocks for the machine that signs belong to a project that is not served yet.
SIGNING = {
    "docs/signing.md": Page(f"{SCRIPT}; echo 1 > settings; tar -czf sum.tar.gz run.sh settings"),
    "docs/recipes.md": Page("rm -r keys again; mv new-keys keys"),
}
