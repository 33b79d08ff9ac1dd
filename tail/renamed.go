package tail

import (
	"slices"
	"time"

	"kusto-agent/tail/internal/finder"
)

// A file can be made and renamed, to a name that no pattern matches, before anybody
// has looked. Events tell that it was where a pattern matched.

// noteRename stores a rename that an event has reported, for the next scan. If too many are stored,
// it is dropped.
func (t *Tailer) noteRename(from, to string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.renames) < atOnce {
		t.renames = append(t.renames, finder.Rename{From: from, To: to})
	}
}

// meetRenamed reads files that were renamed before a scan found them, from a path that a pattern
// matches to one that none does.
func (t *Tailer) meetRenamed() {
	wanted := func(path string) bool {
		return slices.ContainsFunc(t.inputs, func(in *input) bool { return in.spec.Hears(path) })
	}
	for to, was := range t.origins.Follow(take(t, &t.renames), time.Now(), wanted) {
		for _, in := range t.inputs {
			if in.spec.Hears(was) && !in.spec.Matches(to) && !in.Excludes(to) && !t.isKnown(in, to) {
				t.o.Logger.Info("file was renamed before the agent had opened it, and no input matches its new path; it is read under the new path", "file", to, "was", was)
				t.meet(in, to, true)
			}
		}
	}
}

// isKnown reports whether a path need not be read: no regular file is there, or the input knows the
// file already.
func (t *Tailer) isKnown(in *input, path string) bool {
	st, err := statPath(path)
	t.mu.Lock()
	defer t.mu.Unlock()
	return err != nil || !st.regular || in.readers.Get(st.node) != nil || in.byNode.get(st.node) != nil
}
