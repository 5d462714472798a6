#!/bin/sh
# Runs a program of the project for a BOINC client: the main program of every app version that is
# no BOINC program itself (docs/apps.md).  It is written for any POSIX shell.  The client starts it
# in a slot, with what `dispatch/rules/launching.py` wrote: KEY=VALUE words, `--`, the version's own words.
# Without pathname expansion: a name with a pattern could become another one after it was checked.
set -uf
umask 022
kind='@KIND@'
image='@IMAGE@'
slot=$(pwd)
case $0 in */*) project=${0%/*}/ ;; *) project=. ;; esac
project=$(cd "$project" && pwd -P)
keep=$slot/_launcher
newline='
'

say() { printf 'manyhands: %s\n' "$*" >&2; }

fail() {
  rm -f "$slot/boinc_finish_called"
  code=$1
  shift
  say "$@"
  exit "$code"
}

# A text came as letters and %OOO, octal bytes; the x keeps newlines at its end.
decode() {
  case $1 in *%*) ;; *) decoded=$1; return ;; esac
  decoded=$(printf '%b' "$(printf '%s' "$1" | sed 's/%/\\0/g')"; printf x)
  decoded=${decoded%x}
}

# Where a file is that BOINC put here as a text that names it; fails if it is a file of its own.
# Only what is beside this launcher counts: else a content could name any file of the computer.
linked() {
  link=
  if [ -L "$1" ]; then
    link=$(readlink "$1")
  elif [ -f "$1" ]; then
    link=$(dd if="$1" bs=2048 count=1 2>/dev/null | tr -d '\000' |
      LC_ALL=C sed -n '1s/^<soft_link>\(.*\)<\/soft_link>.*$/\1/p')
  fi
  case $link in
    */*) [ "$(cd "${link%/*}" 2>/dev/null && pwd -P)" = "$project" ] ;;
    *) return 1 ;;
  esac
}

# Succeeds if a folder on the path to a file of the slot is a link: a program may have left one.
through_link() {
  rest=$1
  walked=.
  while :; do
    case $rest in */*) ;; *) return 1 ;; esac
    walked=$walked/${rest%%/*}
    rest=${rest#*/}
    [ ! -L "$walked" ] || return 0
  done
}

# Refuses a name of an input or output that leads out of the slot or is in use there.  The command
# line that contains the names is not signed.
check_name() {
  folded=$(printf '%s' "$1" | LC_ALL=C tr 'A-Z' 'a-z')
  case /$folded/ in
    */../* | */./* | *//* | *..* | *\\* | *"$newline"*) refuse_name "$1" ;;
    /_launcher* | /boinc_* | /init_data.xml/ | "/$own_name/") refuse_name "$1" ;;
    /program/*) [ "$kind" != script ] || refuse_name "$1" ;;
  esac
  case $names in
    *"$newline$folded$newline"*) fail 1 "Two names of inputs and outputs are the same: $1." \
      "Hint: names that differ only in upper and lower case count as the same." ;;
  esac
  names=$names$folded$newline
}

refuse_name() {
  fail 1 "'$1' cannot be the name of an input or output." \
    "Hint: use a relative name without .. that does not begin with boinc_ or _launcher."
}

# What the client says under these names, a NAME=VALUE line for each time that it says it.
told() {
  script=''
  for tag in "$@"; do script="$script;h;s/^.*<$tag>\(.*\)<\/$tag>.*\$/$tag=\1/p;g"; done
  sed -n "${script#;}" "$slot/init_data.xml" 2>/dev/null
}

# The processes that a process has started, and those that they have started.
family() {
  {
    set +f
    if [ -r "/proc/$$/stat" ]; then
      cat /proc/[0-9]*/stat 2>/dev/null | sed 's/^\([0-9]*\) .*) \([A-Za-z]\) \([0-9]*\) .*$/\1 \3 \2/'
    else
      ps -A -o pid= -o ppid= -o stat=
    fi
  } | awk -v top="$1" '$3 !~ /^Z/ { parent[$1] = $2 } END {
    for (pid in parent) {
      up = pid
      while (up in parent && up != top && up > 1) up = parent[up]
      if (up == top && up in parent) print pid
    }
  }'
}

# A client that says how long a program may take to end kills it, and us, after that time.
end_family() {
  patience=$(told max_termination_time | tail -n 1)
  patience=${patience##*=}
  patience=${patience%%.*}
  case $patience in '' | *[!0-9]* | ?????*) patience=5 ;; *) patience=$((patience + 2)) ;; esac
  for signal in TERM KILL; do
    for pid in $(family "$1"); do kill -s "$signal" "$pid" 2>/dev/null; done
    waited=0
    sleep 0
    while [ -n "$(family "$1")" ]; do
      [ "$waited" -lt "$patience" ] || break
      waited=$((waited + 1))
      sleep 1
    done
    [ -n "$(family "$1")" ] || return 0
    patience=5
  done
}

stop() {
  trap '' TERM INT HUP
  [ -z "$child" ] || end_family "$child"
  [ -z "$container" ] || "$engine" rm -f "$container" >/dev/null 2>&1
  trap - TERM INT HUP
  # The client shall see how it ended: then it starts us again, in the same slot.
  kill -s "$1" $$
  exit 1
}

# --- What the server said ---------------------------------------------------------------------

rule=exit_code inline=30000 inputs='' outputs=out optional='' words='' command='' has_words=no
while [ $# -gt 0 ]; do
  case $1 in
    rule=*) rule=${1#*=} ;;
    in=*) inputs=${1#*=} ;;
    out=*) outputs=${1#*=} ;;
    inline=*) inline=${1#*=} ;;
    opt=*) optional=${1#*=} ;;
    words=*) words=${1#*=} has_words=yes ;;
    shell=*) decode "${1#*=}"; command=$decoded ;;
    --) shift; break ;;
    *) break ;;
  esac
  shift
done
is_optional() { case "+$optional+" in *"+$1+"*) return 0 ;; *) return 1 ;; esac; }

# What the version itself wants to be told comes last.
own=$#
own_name=$(printf '%s' "${0##*/}" | LC_ALL=C tr 'A-Z' 'a-z')
names=$newline
for list in "$inputs" "$outputs"; do
  IFS=+
  for name in $list; do
    unset IFS
    decode "$name"
    check_name "$decoded"
  done
done
IFS=+
for word in $words; do
  # An empty word is written as one %, for a shell drops empty ones.
  if [ "$word" = % ]; then decoded=''; else decode "$word"; fi
  set -- "$@" "$decoded"
done
unset IFS
while [ "$own" -gt 0 ]; do
  set -- "$@" "$1"
  shift
  own=$((own - 1))
done

# --- The slot ---------------------------------------------------------------------------------

case $kind in
  script) where=$slot/program up=../ inside=$slot ;;
  container) where=$slot up='' inside=/work ;;
  *) where=$slot up='' inside=$slot ;;
esac
child='' container='' engine=''
mkdir -p "$keep/to" "$keep/from" || fail 1 "The slot cannot be written to."

# One that a killed client has left behind would write into our files.
if [ -f "$keep/child" ]; then
  old=$(cat "$keep/child")
  case $(readlink "/proc/$old/cwd" 2>/dev/null) in
    "$slot" | "$slot"/*) end_family "$old" ;;
  esac
fi

bad_archive="The program's archive has a link or a name that leads out of its folder."
if [ "$kind" = script ] && [ ! -d program ]; then
  [ ! -e program ] || fail 1 "An input or output is called program, which is the program's folder." \
    "Hint: give it another open_name."
  archive=_launcher.tar.gz
  if linked "$archive"; then archive=$link; fi
  [ ! -d "$keep/program" ] || rm -rf "$keep/program"
  mkdir "$keep/program"
  gzip -dc <"$archive" >"$keep/program.tar" && tar -tf "$keep/program.tar" >"$keep/members" &&
    tar -tvf "$keep/program.tar" >"$keep/kinds" ||
    fail 1 "The program cannot be unpacked. Hint: tar and gzip must be installed."
  # Checked before and after unpacking: not every tar lists a link as a link.
  if LC_ALL=C grep -E '^/|^([.][.])(/|$)|/[.][.](/|$)' "$keep/members" >/dev/null ||
    LC_ALL=C grep -v '^[-d]' "$keep/kinds" >/dev/null; then
    fail 1 "$bad_archive"
  fi
  (cd "$keep/program" && tar -xof "$keep/program.tar") ||
    fail 1 "The program cannot be unpacked. Hint: tar and gzip must be installed."
  [ -z "$(find "$keep/program" ! -type d \( ! -type f -o -links +1 \))" ] ||
    fail 1 "$bad_archive"
  rm -f "$keep/program.tar" "$keep/members" "$keep/kinds"
  [ -x "$keep/program/run.sh" ] || chmod +x "$keep/program/run.sh" || fail 1 "The program has no run.sh."
  mv "$keep/program" program
fi

MANYHANDS_INPUT='' MANYHANDS_INPUTS='' MANYHANDS_OUTPUT='' MANYHANDS_OUTPUTS=''
given=$has_words
[ -z "$command" ] || given=yes
number=0
IFS=+
for name in $inputs; do
  unset IFS
  decode "$name"
  ! through_link "$decoded" || fail 1 "A folder of the input $decoded is a link."
  if linked "./$decoded"; then
    # At a later start only the link that the client made counts, not one that a program left.
    if [ -f "$keep/from/$number" ]; then
      IFS= read -r link <"$keep/from/$number"
    elif [ -f "$keep/started" ]; then
      link=
    else
      printf '%s\n' "$link" >"$keep/from/$number"
    fi
    if [ -n "$link" ]; then
      rm -f "$keep/part"
      cp "$link" "$keep/part" && { [ -w "$keep/part" ] || chmod u+w "$keep/part"; } &&
        mv -f "$keep/part" "./$decoded" ||
        fail 1 "The input $decoded cannot be copied from $link."
    fi
  fi
  number=$((number + 1))
  [ -e "$decoded" ] || fail 1 "The input $decoded is missing."
  MANYHANDS_INPUTS=$MANYHANDS_INPUTS${MANYHANDS_INPUTS:+$newline}$inside/$decoded
  [ -n "$MANYHANDS_INPUT" ] || MANYHANDS_INPUT=$inside/$decoded
  # No program shall take a name for an option.
  case $up$decoded in -*) argument=./$decoded ;; *) argument=$up$decoded ;; esac
  [ "$given" = yes ] || set -- "$@" "$argument"
done
IFS=+
number=0
for name in $outputs; do
  unset IFS
  decode "$name"
  ! through_link "$decoded" || fail 1 "A folder of the output $decoded is a link."
  case $decoded in */*) mkdir -p "./${decoded%/*}" ;; esac
  # Where the client wants it is written down, and the place is free for the program.
  if linked "./$decoded"; then
    [ -f "$keep/started" ] || printf '%s\n' "$link" >"$keep/to/$number"
    [ ! -f "$keep/to/$number" ] || rm -f "./$decoded"
  fi
  MANYHANDS_OUTPUTS=$MANYHANDS_OUTPUTS${MANYHANDS_OUTPUTS:+$newline}$inside/$decoded
  [ -n "$MANYHANDS_OUTPUT" ] || MANYHANDS_OUTPUT=$inside/$decoded
  number=$((number + 1))
done
unset IFS
: >"$keep/started"
MANYHANDS_WORKUNIT='' MANYHANDS_RESULT='' MANYHANDS_NCPUS=''
while IFS= read -r fact; do
  case $fact in
    wu_name=*) MANYHANDS_WORKUNIT=${MANYHANDS_WORKUNIT:-${fact#*=}} ;;
    result_name=*) MANYHANDS_RESULT=${MANYHANDS_RESULT:-${fact#*=}} ;;
    ncpus=*) MANYHANDS_NCPUS=${MANYHANDS_NCPUS:-${fact#*=}} ;;
  esac
done <<facts
$(told wu_name result_name ncpus)
facts
export MANYHANDS_INPUT MANYHANDS_INPUTS MANYHANDS_OUTPUT MANYHANDS_OUTPUTS
export MANYHANDS_WORKUNIT MANYHANDS_RESULT MANYHANDS_NCPUS

# --- The program ------------------------------------------------------------------------------

whole() { printf '%s\n' "${1%%.*}" | grep -x '[0-9]\{1,18\}'; }

choose_engine() {
  for engine in podman docker; do
    if command -v "$engine" >/dev/null 2>&1; then
      container=manyhands-$(printf '%s' "${MANYHANDS_RESULT:-$$}" | tr -c 'A-Za-z0-9_.-' _)
      # A killed client may have left it running.
      "$engine" rm -f "$container" >/dev/null 2>&1 </dev/null
      return
    fi
  done
  fail 1 "There is neither podman nor docker to run the container $image. Hint: install podman."
}

# Puts the engine's own words before those of the program.
contain() {
  # The launcher's notes are hidden: with them it could make the launcher read or overwrite any file.
  set -- --volume "$slot:/work" --tmpfs /work/_launcher --workdir /work "$image" "$@"
  for name in INPUT INPUTS OUTPUT OUTPUTS WORKUNIT RESULT NCPUS; do
    set -- --env "MANYHANDS_$name" "$@"
  done
  # Without unified control groups an engine that is not root's cannot limit anything.
  if [ -f /sys/fs/cgroup/cgroup.controllers ]; then
    memory=$(told rsc_memory_bound | head -n 1)
    memory=$(whole "${memory#*=}")
    [ -z "$memory" ] || [ "$memory" -lt 67108864 ] || set -- --memory "$memory" "$@"
    ncpus=$(whole "$MANYHANDS_NCPUS")
    [ -z "$ncpus" ] || [ "$ncpus" -lt 1 ] || set -- --cpus "$ncpus" "$@"
  fi
  if [ "$engine" = podman ]; then
    set -- --security-opt label=disable "$@"
    [ "$(id -u)" = 0 ] || set -- --userns keep-id "$@"
  fi
  set -- --user "$(id -u):$(id -g)" --cap-drop ALL --security-opt no-new-privileges "$@"
  set -- --network none --read-only --tmpfs /tmp "$@"
  exec "$engine" run --rm --name "$container" "$@"
}

run() {
  cd "$where" || exit 127
  case $kind in
    script) exec ./run.sh "$@" ;;
    command) exec sh -c "$command" sh "$@" ;;
    container) contain "$@" ;;
  esac
}

if [ ! -f "$keep/code" ]; then
  [ "$kind" != command ] || [ -n "$command" ] ||
    fail 1 "The workunit has no command. Hint: its command line is the command to run."
  rm -f boinc_temporary_exit program/boinc_temporary_exit boinc_finish_called
  # What a run wrote that did not come to its end is told, but not held against the next one.
  [ ! -s "$keep/stderr" ] || tail -c 8192 "$keep/stderr" | sed 's/^/manyhands: before: /' >&2
  [ "$kind" != container ] || choose_engine
  trap 'stop TERM' TERM
  trap 'stop INT' INT
  trap 'stop HUP' HUP
  run "$@" >"$keep/stdout" 2>"$keep/stderr" </dev/null &
  child=$!
  printf '%s\n' "$child" >"$keep/child"
  wait "$child"
  code=$?
  child=''
  rm -f "$keep/child"
  for early in boinc_temporary_exit program/boinc_temporary_exit; do
    if [ -f "$early" ]; then
      [ "$early" = boinc_temporary_exit ] || mv -f "$early" boinc_temporary_exit
      say "The program wants to be started again later."
      exit 0
    fi
  done
  printf '%s\n' "$code" >"$keep/code.part" && mv -f "$keep/code.part" "$keep/code" ||
    fail 1 "The slot cannot be written to."
fi
read -r code <"$keep/code"
trap - TERM INT HUP

# --- What it left -----------------------------------------------------------------------------

if [ ! -f "$keep/told" ]; then
  if [ -s "$keep/stderr" ]; then
    limit=60000
    [ "$rule" != runner ] || limit=24000
    tail -c "$limit" "$keep/stderr" >&2
    # The client's own words begin a line.
    [ -z "$(tail -c 1 "$keep/stderr")" ] || echo >&2
  fi
  : >"$keep/told"
fi

# A runner writes {"status": ..., "stdout": ..., "stderr": ...} to its standard output.  The server
# reads it in one line of ours; < > & are escaped, because clients write them into XML.
report_status() {
  tr '\n' ' ' <"$keep/stdout" | LC_ALL=C sed 's/\\\\//g;s/\\"//g;s/: *"[^"]*"/:0/g' |
    LC_ALL=C sed -n 's/^.*"status" *: *\([0-9]\{1,10\}\) *[,}].*$/\1/p'
}

if [ "$rule" = runner ] && [ ! -f "$keep/report" ]; then
  nbytes=$(wc -c <"$keep/stdout")
  case $(dd if="$keep/stdout" bs=1 count=1 2>/dev/null) in
    '{') ;;
    *) [ "$code" != 0 ] || code=2
      fail "$code" "The program exited with $code, and reported no status." \
        "Hint: it must write {\"status\": 1} to its standard output." ;;
  esac
  if [ "$nbytes" -le "$inline" ]; then
    { printf 'manyhands-runner: '; tr '\n' ' ' <"$keep/stdout" |
      LC_ALL=C sed 's/</\\u003c/g;s/>/\\u003e/g;s/&/\\u0026/g'; echo; } >"$keep/report.part"
  else
    [ -n "$outputs" ] || fail 1 "The report has $nbytes bytes, and the limit is $inline." \
      "Hint: declare an output for it."
    status=$(report_status)
    printf 'manyhands-runner: {"status": %s, "in_file": true}\n' "${status:-2}" >"$keep/report.part"
  fi
  mv -f "$keep/report.part" "$keep/report" || fail 1 "The slot cannot be written to."
fi

missing=''
number=0
IFS=+
for name in $outputs; do
  unset IFS
  decode "$name"
  target=./$decoded
  [ ! -f "$keep/to/$number" ] || IFS= read -r target <"$keep/to/$number"
  left=''
  if [ "$kind" = container ] && { [ -L "$decoded" ] || through_link "$decoded"; }; then
    # A link made in the container would be followed outside it.
    fail 1 "The container has left a link as $decoded. Hint: write the output itself."
  elif through_link "$decoded"; then
    fail 1 "A folder of the output $decoded is a link. Hint: write it into a folder of the slot."
  elif [ "$kind" = script ] && [ -f "program/$decoded" ]; then
    left=program/$decoded
  elif [ -f "$decoded" ] && { [ -L "$decoded" ] || ! linked "./$decoded"; }; then
    left=./$decoded
  elif [ "$number" = 0 ] && [ -f "$keep/stdout" ]; then
    is_optional "$name" && [ ! -s "$keep/stdout" ] || left=$keep/stdout
  fi
  if [ -n "$left" ]; then
    if [ "$left" != "$target" ]; then
      if [ -L "$left" ]; then
        rm -f "$keep/part" && cp "$left" "$keep/part" && mv -f "$keep/part" "$target" &&
          rm -f "$left"
      else
        mv -f "$left" "$target"
      fi || fail 1 "The output $decoded cannot be moved to $target."
    fi
  elif [ ! -f "$target" ] && ! is_optional "$name"; then
    missing=$missing${missing:+, }$decoded
  fi
  number=$((number + 1))
done
unset IFS

loud=no
[ ! -s "$keep/stderr" ] || loud=yes
case $rule in
  validator | runner) failed=no ;;
  empty_stderr) failed=$loud ;;
  both) failed=$loud; [ "$code" = 0 ] || failed=yes ;;
  *) failed=no; [ "$code" = 0 ] || failed=yes ;;
esac
if [ "$failed" = yes ]; then
  [ "$code" != 0 ] || fail 1 "The program wrote to its stderr, which counts as failure here."
  fail "$code" "The program exited with $code."
fi
[ -z "$missing" ] || fail 1 "The program has not written $missing." \
  "Hint: it is looked for in the program's folder and in the slot."
[ "$rule" != runner ] || cat "$keep/report" >&2
echo 0 >boinc_finish_called
exit 0
