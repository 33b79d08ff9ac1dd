package tail

import (
	"cmp"
	"strconv"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
)

// A file can be made and renamed, to a name that no pattern matches, before anybody
// has looked. Events tell that it was where a pattern matched.

// rename is one that an event told of.
type rename struct{ from, to string }

// origin is where a renamed file was when its name matched.
type origin struct {
	path string
	at   time.Time // when that was heard
}

// remembered is how long a renamed file is known by its names: it may be renamed
// again before a scan comes to it.
const remembered = time.Minute

// renamedFrom is the name that a file had before an event of a new name; empty: none
// is known. fsnotify tells it in its words alone.
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

// noteRename notes a rename for the next scan.
func (t *Tailer) noteRename(from, to string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.renames) < atOnce {
		t.renames = append(t.renames, rename{from, to})
	}
}

// meetRenamed takes up files that were renamed before a scan could meet them.
func (t *Tailer) meetRenamed() {
	t.mu.Lock()
	renames := t.renames
	t.renames = nil
	t.mu.Unlock()
	now := time.Now()
	for to, o := range t.origins {
		if now.Sub(o.at) > remembered {
			delete(t.origins, to)
		}
	}
	last := make(map[string]bool) // names that were given
	for _, r := range renames {
		first := cmp.Or(t.origins[r.from].path, r.from)
		delete(t.origins, r.from)
		delete(last, r.from)
		for _, in := range t.inputs {
			if in.hears(first) {
				t.origins[r.to] = origin{first, now}
				last[r.to] = true
			}
		}
	}
	for to := range last {
		for _, in := range t.inputs {
			if in.hears(t.origins[to].path) && !in.matches(to) && !in.Excludes(to) && !t.isKnown(in, to) {
				t.o.Logger.Info("file was renamed before it was discovered, reading it", "file", to, "was", t.origins[to].path)
				t.meet(in, to, true)
			}
		}
	}
}

// isKnown reports whether a path is no file to be read, or one that an input has read.
func (t *Tailer) isKnown(in *input, path string) bool {
	st, err := statPath(path)
	t.mu.Lock()
	defer t.mu.Unlock()
	return err != nil || !st.regular || in.readers[st.node] != nil || in.byNode[st.node] != nil
}
