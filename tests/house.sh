#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# house.sh - holds the source to the rules of the house, in docs/ARCHITECTURE.md.
#
# Reads the source in $srcdir and what was built in $top_builddir.
set -eu
LC_ALL=C
export LC_ALL

top=$(cd "${srcdir:-.}" && pwd)
build=$(cd "${top_builddir:-.}" && pwd)
CC=${CC:-cc}
CXX=${CXX:-c++}
NM=${NM:-nm}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
trap 'exit 1' HUP INT TERM
faults=$scratch/faults
: >"$faults"
cd "$top"

fault() {
    printf 'house: %s\n' "$*" | tee -a "$faults"
}

# each_line_is_a_fault TEXT: every line of standard input is one.
each_line_is_a_fault() {
    while IFS= read -r line; do
        fault "$line $*"
    done
}

# ---- public headers ---------------------------------------------------------

# FOLDER/NAME.h of every header that is installed, from configure.ac.
sed -n 's|^ *include/penstock/[a-z0-9_]*\.h:\([a-z]*/[a-z0-9_]*\.h\)$|\1|p' configure.ac |
    sort >"$scratch/linked"
for folder in sched stages model; do
    awk -v folder=$folder '
        /^pkginclude_HEADERS/ { inside = 1 }
        inside && /%D%\// {
            name = $1; sub(/%D%/, folder, name); print name
        }
        inside && !/\\$/ { inside = 0 }' $folder/local.mk
done | sort >"$scratch/installed"

comm -3 "$scratch/linked" "$scratch/installed" | tr -d '\t' |
    each_line_is_a_fault 'stands in one only of AC_CONFIG_LINKS and pkginclude_HEADERS'

# Public is what marks a function PST_API, and what such a header includes.
grep -lE '^(#define )?PST_API' sched/*.h stages/*.h model/*.h |
    sort >"$scratch/public"
while :; do
    # shellcheck disable=SC2046 # one word a file
    sed -n 's|^#include <penstock/\([a-z0-9_]*\.h\)>.*|\1|p' \
        $(cat "$scratch/public") | sort -u |
        while read -r name; do
            ls sched/"$name" stages/"$name" model/"$name" 2>/dev/null || :
        done | sort -u - "$scratch/public" >"$scratch/more"
    cmp -s "$scratch/more" "$scratch/public" && break
    mv "$scratch/more" "$scratch/public"
done
comm -3 "$scratch/public" "$scratch/installed" | tr -d '\t' |
    each_line_is_a_fault 'is either public and not installed, or installed for nothing'

names_of() { # FOLDER...: NAME.h of their installed headers
    for folder; do
        sed -n "s|^$folder/||p" "$scratch/installed"
        [ "$folder" != sched ] || echo version.h
    done
}

# ---- each installed header compiles alone -----------------------------------

for language in c c++; do
    if [ $language = c ]; then
        compiler="$CC -std=c11"
    else
        compiler="$CXX -std=c++17"
        # shellcheck disable=SC2086 # a command and its words
        command -v $CXX >/dev/null 2>&1 || {
            echo "house: no C++ compiler, headers are tried as C only"
            continue
        }
    fi
    for name in $(names_of sched stages model); do
        printf "#include <penstock/%s>\ntypedef int something;\n" "$name" \
            >"$scratch/alone.$language"
        $compiler -Wall -Wextra -pedantic -Werror -fsyntax-only \
            -I "$build/include" -x $language "$scratch/alone.$language" ||
            fault "$name does not compile alone as $language"
    done
done

# ---- who includes what ------------------------------------------------------

# may_include FOLDER "OWN FOLDERS" "FOLDERS WHOSE INSTALLED HEADERS": the rest of a
# folder's "..." and <penstock/...> are faults. careful_json.c is compiled into each
# library that reads JSON.
may_include() {
    folder=$1
    own=$(echo "$2" | tr ' ' '|')
    # shellcheck disable=SC2086 # one word a folder
    names=$(names_of $3 | tr '\n' '|' | sed 's/|$//')
    grep -nE '^ *# *include *"' "$folder"/*.[ch] |
        grep -vE "include *\"(($own)/|config\.h\"|sched/careful_json\.h\")" |
        each_line_is_a_fault "- $folder may include \"...\" of: $2" || :
    grep -nE '^ *# *include *<penstock/' "$folder"/*.[ch] |
        grep -vE "<penstock/($names)>" |
        each_line_is_a_fault "- $folder may use: $3" || :
}
may_include sched 'sched' 'sched'
may_include stages 'stages sched' 'sched stages'
may_include model 'model' 'sched stages model'
may_include tools 'tools' 'sched stages model'

# alone HEADER-PATTERN FILE-PATTERN: only those files include such headers.
alone() {
    grep -nE "^ *# *include *<($1)" sched/*.[ch] stages/*.[ch] model/*.[ch] tools/*.[ch] |
        grep -vE "^($2):" |
        each_line_is_a_fault "- only $2 may" || :
}
alone 'jansson' 'sched/[a-z_]*_json\.c|model/(safetensors|safetensors_write|[a-z_]*_json)\.c'
alone 'hwloc' 'stages/(bind|place|topology)\.c'
alone 'pthread|linux/futex' 'stages/thread\.[ch]'
alone 'valgrind/' 'stages/atomic_valgrind\.h'
alone 'mpi\.h' 'stages/transport_mpi[a-z_]*\.[ch]'
alone '(openblas/)?(cblas|openblas)' 'model/blas\.c'
alone '(sha|md)[0-9]*\.h' 'model/digest\.c'
alone 'cairo' 'tools/draw_cairo\.c'
alone '[a-z]*intrin\.h' 'model/kernels[a-z_]*\.[ch]'

# ---- what the libraries export and call -------------------------------------

# Functions that a header marks PST_API, one a line.
marked() {
    sed 's|/\*.*\*/||' "$@" |
        awk '/^ *#/ { next } { print }' | tr '\n' ' ' | tr ';' '\n' |
        sed -n 's/.*PST_API[^(]*[ *]\(pst_[a-z0-9_]*\)(.*/\1/p' | sort
}

# exports LIBRARY HEADER...: it exports just what its headers mark.
exports() {
    library=$build/.libs/$1.so
    shift
    if [ ! -e "$library" ]; then
        echo "house: $library was not built, its symbols are not compared"
        return
    fi
    $NM -D --defined-only "$library" |
        awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' |
        grep -vE '^(__|_init$|_fini$)' | sort >"$scratch/exported" || :
    marked "$@" >"$scratch/marked"
    comm -23 "$scratch/exported" "$scratch/marked" |
        each_line_is_a_fault "is exported by $library, but no header marks it PST_API"
    comm -13 "$scratch/exported" "$scratch/marked" |
        each_line_is_a_fault "is marked PST_API, but $library does not export it"
}
# shellcheck disable=SC2046 # one word a file
exports libpenstock sched/version.h.in $(grep -E '^(sched|stages)/' "$scratch/installed" |
    grep -v '^stages/mpi\.h$')
# shellcheck disable=SC2046
exports libpenstock-model $(grep -E '^model/' "$scratch/installed")
# One for each MPI, or none.
for library in "$build"/.libs/libpenstock-mpi*.so; do
    [ -e "$library" ] || continue
    exports "$(basename "$library" .so)" stages/mpi.h
done

# A library does not end its host, read its environment or write to its terminal;
# stages/fault.c is there to do so on purpose, and stages/transport_mpi_open.c reads what
# launchers of MPI pass on.
forbidden='exit|_exit|_Exit|quick_exit|abort|getenv|secure_getenv|setenv|putenv'
forbidden="$forbidden|stdin|stdout|stderr|printf|vprintf|puts|putchar|perror"
forbidden="$forbidden|__printf_chk|__vprintf_chk|signal|sigaction"
for archive in sched/.libs/libsched.a stages/.libs/libstages.a model/.libs/libmodel.a \
    stages/.libs/libtransport_mpi.a; do
    archive=$build/$archive
    [ -e "$archive" ] || continue
    $NM -A -u "$archive" | awk '{ print $1, $NF }' |
        grep -E " ($forbidden)(@.*)?\$" |
        grep -vE ':libstages_la-fault\.o: (exit|abort)$' |
        grep -vE ':libtransport_mpi_la-transport_mpi_open\.o: getenv$' |
        each_line_is_a_fault '- a library may not call it' || :
done

# ---- the rest ---------------------------------------------------------------

# Schedules are data: their names are known to sched/, the tools' texts and tests.
grep -niE 'gpipe|1f1b|one_f_one_b' stages/*.[ch] model/*.[ch] |
    each_line_is_a_fault '- no schedule has a name here' || :

for file in sched/*.[ch] stages/*.[ch] model/*.[ch] tools/*.[ch] tests/*/*.[ch] \
    tests/*.c examples/*.c; do
    [ -e "$file" ] || continue
    head -n 1 "$file" | grep -q 'SPDX-License-Identifier: BSD-3-Clause' ||
        fault "$file does not begin with its SPDX line"
done

for file in sched/*.[ch] stages/*.[ch] model/*.[ch] tools/*.[ch]; do
    basename "$file"
done | sort | uniq -d |
    each_line_is_a_fault 'is the name of two files'

[ ! -s "$faults" ]
