#!/bin/sh
# In front of git for commands: what the read-only mounts would stop half way is refused before it begins, in one line.
# A courtesy and no boundary. Git in other repositories, such as those that a test suite makes, is left alone.
real=@REAL@
refuse() {
    echo "git $word: the runtime commits: use submit_work (git restore and git checkout -- FILE put files back)" >&2
    exit 1
}

# the word that says what is wanted, and how many words stand before it
word=
before=0
value=
for each in "$@"; do
    if [ -z "$value" ]; then
        case $each in
        -C | -c | --git-dir | --work-tree | --namespace | --config-env) value=yes ;;
        -*) ;;
        *)
            word=$each
            break
            ;;
        esac
    else
        value=
    fi
    before=$((before + 1))
done
case $word in
am | branch | checkout | cherry-pick | commit | merge | pull | rebase | reset | revert | stash | switch | tag) ;;
*) exec "$real" "$@" ;;
esac

# git with what stands before the word, and then $ask
asked() (
    kept=0
    left=$#
    while [ "$left" -gt 0 ]; do
        each=$1
        shift
        [ "$kept" -ge "$before" ] || set -- "$@" "$each"
        kept=$((kept + 1))
        left=$((left - 1))
    done
    # shellcheck disable=SC2086  # the words of $ask
    exec "$real" "$@" $ask 2>/dev/null
)
ask="rev-parse --absolute-git-dir"
[ "$(asked "$@")" = "@METADATA@" ] || exec "$real" "$@"

number=0
plain=0
for each in "$@"; do
    number=$((number + 1))
    [ "$number" -gt $((before + 1)) ] || continue
    case $word:$each in
    branch:--list | branch:--contains* | branch:--show-current | branch:--merged* | branch:--no-merged*) exec "$real" "$@" ;;
    tag:-l | tag:--list | tag:--contains* | stash:list | stash:show) exec "$real" "$@" ;;
    checkout:--) exec "$real" "$@" ;;
    branch:-[avr]* | branch:--all | branch:--remotes | branch:--verbose) ;;
    checkout:- | checkout:-[bBdt]* | checkout:--detach | checkout:--orphan* | checkout:--track*) refuse ;;
    checkout:-*) ;;
    *:-*) refuse ;;
    checkout:*)
        ask="rev-parse --verify --quiet --end-of-options $each^{commit}"
        case $each in *[[:space:]]*) ;; *) [ -z "$(asked "$@")" ] || refuse ;; esac
        plain=1
        ;;
    *) refuse ;;
    esac
done
case $word:$plain in
branch:0 | tag:0 | checkout:1) exec "$real" "$@" ;;
esac
refuse
