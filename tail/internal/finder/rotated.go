package finder

import (
	"cmp"
	"strconv"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
)

// remembered is how long a renamed file is known by its names: it may be renamed again
// before a scan comes to it.
const remembered = time.Minute

// renamedFrom returns the name that a file had before a rename event; empty: it is not
// known. fsnotify has it only in the text of the event.
func renamedFrom(e fsnotify.Event) string {
	_, old, found := strings.Cut(e.String(), " \u2190 ")
	if !found {
		return ""
	}
	old, err := strconv.Unquote(old)
	if err != nil {
		return ""
	}
	return old
}

// Rename is one that an event told of.
type Rename struct{ From, To string }

// Origins tells where a file was when its name matched: it can be made and renamed, to a
// name that no pattern matches, before anybody has looked. The zero value is ready. It
// belongs to one goroutine.
type Origins struct {
	by map[string]origin // by the name that a file has now
}

type origin struct {
	path string
	at   time.Time // when that was heard
}

// Follow adds renames, in the order in which they happened. It returns, by its present name, the
// first name of each file that one of them concerns, also if it was renamed several times. Files
// whose first name wanted does not accept are left out. A name is remembered for a minute, in case
// the file is renamed again.
func (o *Origins) Follow(renames []Rename, now time.Time, wanted func(path string) bool) map[string]string {
	if o.by == nil {
		o.by = make(map[string]origin)
	}
	for to, was := range o.by {
		if now.Sub(was.at) > remembered {
			delete(o.by, to)
		}
	}
	last := make(map[string]string)
	for _, r := range renames {
		first := cmp.Or(o.by[r.From].path, r.From)
		delete(o.by, r.From)
		delete(last, r.From)
		if wanted(first) {
			o.by[r.To] = origin{first, now}
			last[r.To] = first
		}
	}
	return last
}
