package tail

import (
	"slices"
	"time"

	"kusto-agent/tail/internal/finder"
	"kusto-agent/tail/internal/inode"
)

// takeNews takes over what events have told since it did so last, and estimates anew what is known.
func (d *discovery) takeNews() { d.t.on(newsFor{d}) }

type newsFor struct{ d *discovery }

func (e newsFor) happen(t *Tailer) {
	d, news := e.d, &t.news
	d.heard = heard{append(d.heard.fresh, news.fresh...), append(d.heard.renames, news.renames...)}
	d.heard.renames = d.heard.renames[:min(len(d.heard.renames), atOnce)] // they wait for the end of a scan
	news.heard = heard{}
	d.estimate()
}

// meetFresh reads the new files of which events told, and the files in new folders.
func (d *discovery) meetFresh() {
	d.takeNews()
	fresh := d.heard.fresh
	d.heard.fresh = nil
	for _, path := range fresh {
		for _, in := range d.t.inputs() {
			if in.scan.isNew || !in.Spec.Hears(path) && !in.Spec.HearsBelow(path) {
				continue // as long as the input is new, start_at: end would take the file for one that existed before
			}
			st, err := inode.At(path)
			switch {
			case err != nil:
			case st.IsRegular() && in.Spec.Matches(path):
				d.meet(in, path, "")
			case st.IsDir() && in.Spec.HearsBelow(path) && !inode.IsLink(path):
				d.meetBelow(in, path)
			}
		}
	}
}

// meetBelow reads the files in the new folder dir and below it. The second walk finds also those
// that were created before the folders were watched.
func (d *discovery) meetBelow(in *input, dir string) {
	w := finder.NewWalk()
	w.Below(&in.Spec, dir)
	d.t.watch.Also(w.Passed)
	for _, s := range w.Below(&in.Spec, dir) {
		d.meet(in, s.Path(), "")
	}
}

// A file can be made and renamed, to a name that no pattern matches, before anybody
// has looked. Events tell that it was where a pattern matched.

// meetRenamed reads files that were renamed before a scan found them, from a path that a pattern
// matches to one that none does.
func (d *discovery) meetRenamed() {
	wanted := func(path string) bool {
		return slices.ContainsFunc(d.t.inputs(), func(in *input) bool { return in.Spec.Hears(path) })
	}
	d.takeNews()
	renames := d.heard.renames
	d.heard.renames = nil
	for to, was := range d.origins.Follow(renames, time.Now(), wanted) {
		for _, in := range d.t.inputs() {
			if in.Spec.Hears(was) && !in.Spec.Matches(to) && !in.Excludes(to) && !d.isKnown(in, to) {
				d.t.o.Logger.Info("file was renamed before the agent had opened it, and no input matches its new path; it is read under the new path", "file", to, "was", was)
				d.meet(in, to, was)
			}
		}
	}
}

// isKnown reports whether a path need not be read: no regular file is there, or the input knows the
// file already.
func (d *discovery) isKnown(in *input, path string) bool {
	st, err := inode.At(path)
	return err != nil || !st.IsRegular() || d.t.knows(in, st.Node).is
}

// knows returns whether a file is known. The caller does not hold mu.
func (t *Tailer) knows(in *input, n inode.Node) known {
	k := known{in: in, n: n}
	t.on(&k)
	return k
}

// known asks whether the file n is being read or remembered, and whether that is because it may be a copy.
type known struct {
	in          *input
	n           inode.Node
	is, doubted bool
}

func (k *known) happen(*Tailer) { k.is, k.doubted = k.in.has(k.n), k.in.doubted(k.n) != nil }
