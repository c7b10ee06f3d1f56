#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# options_documented.sh - the options that --help lists, that the manual pages list and
# that bash completes are the same ones; so are the schedules, and their pictures.
# shellcheck source=tests/cli/lib.sh disable=SC1091
source=$(cd "${srcdir:-.}" && pwd)
. "${srcdir:-.}/tests/cli/lib.sh" || exit

# helped PROGRAM [COMMAND]: "-m" and "--microbatches" on lines of their own.
helped() {
    "$@" --help | awk '
        $1 ~ /^-[A-Za-z],$/ { print substr($1, 1, 2); print $2; next }
        $1 ~ /^--[a-z]/ && /^      --/ { print $1 }' | sort -u
}

# written PAGE [COMMAND]: those of a page's .It lines; of a command's subsection and of
# those that it refers to by .Sx before its list.
written() {
    awk -v wanted="$2" '
        /^\.S[hs] / { section = $2 }
        wanted != "" && /^\.Sx / && section == wanted { refers[$2] = 1 }
        /^\.It Fl / {
            for (i = 2; i < NF; i++)
                if ($i == "Fl")
                    found[section, "-" $(i + 1)] = 1
        }
        /^\.It Fl .* \| -/ { print "a line with | between options: " $0 }
        END {
            for (key in found) {
                split(key, part, SUBSEP)
                if (wanted == "" || part[1] == wanted || part[1] in refers)
                    print part[2]
            }
        }' "$source/docs/$1" | sort -u
}

# both WHAT HELPED FOUND: what is in one of two lists only is a failure.
both() {
    printf '%s\n' "$2" >helped
    printf '%s\n' "$3" >found
    same "$1: listed by --help, but not here" '' "$(comm -23 helped found)"
    same "$1: here, but not listed by --help" '' "$(comm -13 helped found)"
}

commands='list draw stats check export place'
same 'commands of pipesim --help' "$commands" "$(pipesim --help |
    awk '/^Commands:/ { inside = 1; next } /^$/ { inside = 0 }
        inside { printf "%s%s", sep, $1; sep = " " }')"
same 'commands of pipesim.1' "$commands" "$(awk '
    /^\.Sh DESCRIPTION/ { inside = 1 }
    /^\.Ss [a-z]/ && inside { printf "%s%s", sep, $2; sep = " " }' \
    "$source/docs/pipesim.1")"

for command in $commands; do
    help=$(helped pipesim "$command")
    differ "pipesim $command --help" '' "$help"
    case $command in
    list) page=$(written pipesim.1 Common) ;;
    *) page=$(written pipesim.1 "$command") ;;
    esac
    both "pipesim.1, $command" "$help" "$page"
done
both pipetrain.1 "$(helped pipetrain)" "$(written pipetrain.1 '')"

# ---- schedules --------------------------------------------------------------

# In pipesim-schedules.7 a subsection for each, in the order of the list, with all its
# aliases and a picture that "pipesim draw" prints.
page=$source/docs/pipesim-schedules.7
listed=$(pipesim list | sed -n 's/^\([^ ]*\) - .*/\1/p')
same 'subsections of pipesim-schedules.7' "$listed" "$(awk '
    /^\.Sh / { inside = $2 == "SCHEDULES" }
    /^\.Ss / && inside { print $2 }' "$page")"
same 'aliases in pipesim-schedules.7' "$(pipesim list | awk '
    / - / && /^[^ ]/ { name = $1 }
    $1 == "aliases" { gsub(",", ""); for (i = 2; i <= NF; i++) print name, $i }')" \
    "$(awk '
        /^\.Sh / { inside = $2 == "SCHEDULES" }
        /^\.Ss / { name = $2; also = 0 }
        /^Also$/ { also = 1; next }
        !/^\.Li / { also = 0 }
        inside && also {
            for (i = 2; i <= NF; i++)
                if ($i != "," && $i != ".")
                    print name, $i
        }' "$page")"

sed -n 's/^\.\\" picture: //p' "$page" >pictures
same 'a picture of each' "$listed" "$(sed 's/ .*//' pictures)"
while read -r arguments; do
    # shellcheck disable=SC2086 # one word an argument
    same "pipesim-schedules.7: the picture of $arguments" \
        "$(pipesim draw $arguments --columns 73 | grep '^rank ')" \
        "$(awk -v wanted=".\\\\\" picture: $arguments" '
            $0 == wanted { inside = 1; next }
            /^\.Ed/ { inside = 0 }
            inside && /^rank / { print }' "$page")"
done <pictures

# ---- completion -------------------------------------------------------------

if ! command -v bash >/dev/null 2>&1; then
    skip 'completion, since there is no bash'
    finish
fi

cat >complete.bash <<'END'
source "$1/tools/completions/$2" || exit
shift
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
"_$1"
[ ${#COMPREPLY[@]} -eq 0 ] || printf '%s\n' "${COMPREPLY[@]}"
END
# completed WORD...: what bash would offer for the last word, sorted.
completed() {
    bash complete.bash "$source" "$@" 2>&1 | sort -u
}

# offers EXPECTED WORD...: just those words, in any order.
offers() {
    expected=$(printf '%s\n' "$1" | tr ' ' '\n' | sort | tr '\n' ' ' | sed 's/ $//')
    shift
    same "completion of '$*'" "$expected" "$(completed "$@" | tr '\n' ' ' | sed 's/ $//')"
}

for command in $commands; do
    both "completion, pipesim $command" "$(helped pipesim "$command")" \
        "$(completed pipesim "$command" -)"
done
both 'completion, pipetrain' "$(helped pipetrain)" "$(completed pipetrain -)"

names=$(echo "$listed" | tr '\n' ' ' | sed 's/ $//')
mkdir empty
cd empty || exit
mv ../complete.bash .
offers 'draw' pipesim d
offers '--help --version check draw export help list place stats' pipesim ''
mkdir folder
: >mine.csv
: >weights.safetensors
for command in draw stats export; do
    offers "$names folder mine.csv" pipesim $command ''
done
offers 'folder mine.csv' pipesim check ''
offers 'gpipe' pipesim draw gp
offers 'always auto' pipesim draw 1f1b --color a
offers 'always auto' pipesim draw 1f1b --color = a
offers 'always auto never' pipesim draw 1f1b --color =
offers 'ascending default descending' pipesim export 1f1b --backward-order ''
offers 'complete.bash folder mine.csv weights.safetensors' pipesim draw 1f1b -o ''
offers 'default lifo-merged' pipesim stats zb-h1 --weights ''
for command in draw stats check export; do
    offers 'bidirectional loop v wave' pipesim $command mine.csv --placement ''
    offers 'auto new old' pipesim $command mine.csv --dialect ''
    offers 'double stash' pipesim $command mine.csv --weight-policy ''
    offers '' pipesim $command mine.csv --slices ''
done
offers '' pipesim draw 1f1b -p ''
offers '' pipesim draw interleaved --group ''
offers '' pipesim list ''
offers "$names folder mine.csv" pipetrain --schedule ''
offers "$names folder mine.csv" pipetrain --schedule =
offers 'folder weights.safetensors' pipetrain --init ''
offers 'folder' pipetrain --checkpoint f
offers 'complete.bash folder mine.csv weights.safetensors' pipetrain --data ''
offers 'auto core none' pipetrain --bind ''
offers 'auto core none' pipesim place --bind ''
offers 'exact tanh' pipetrain --gelu ''
offers 'gpt' pipetrain --model ''
offers 'adamw' pipetrain --optimizer ''
offers '' pipetrain --seed ''
offers '' pipetrain --fault ''
offers '--check-finite --check-reference --checkpoint --checkpoint-every' pipetrain --check

finish
