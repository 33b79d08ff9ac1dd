package tail

import (
	"time"

	"kusto-agent/internal/record"
	"kusto-agent/tail/internal/compare"
	"kusto-agent/tail/internal/inode"
	"kusto-agent/tail/internal/lineage"
	"kusto-agent/tail/internal/sources"
)

// unfinished is a file that no earlier run has read to its end.
type unfinished struct {
	*generation
	info record.FileInfo
	at   string     // where meetMoved has found it
	lost *candidate // what is known of it; nil: meetMoved or a reader has its file
}

// unreadOf returns the files of an input that no reader has and no earlier run has read to their
// end, if they are to be looked for. Of those that were truncated since it has copies looked for. The caller
// holds mu.
func (d *discovery) unreadOf(in *input) (all []unfinished) {
	if !in.unsought {
		return nil
	}
	in.unsought = false
	for k := range in.known.All() {
		switch info := k.info.Info(); {
		case k.reader != nil || info.Done:
		case in.byNode.get(k.node()) == k:
			all = append(all, unfinished{generation: k, info: info})
		case k.position < info.Size && info.Packed.Size == 0 && k.truncated.IsZero():
			k.own().left = compare.Departure{At: time.Now().UnixNano(), Unseen: true}
			in.truncated, in.lost = append(in.truncated, k), append(in.lost, k)
		}
	}
	return all
}

// meetMoved reads files that an earlier run has not read to their end and that now have a
// name that no pattern matches. It runs before other files are read: a file that was
// truncated before it was renamed has to be in the journal before a copy of it continues
// its generation, or a kill in between would lose it.
func (d *discovery) meetMoved(in *input) {
	for i, u := range in.scan.unread {
		if !in.Reads(u.info.Path) {
			continue
		}
		if path, ok := in.folders.FindInfo(u.info); ok && path != u.info.Path && !in.Reads(path) {
			d.adopt(in, path, u.info.First)
			in.scan.unread[i].at = path
		}
	}
}

// findMoved looks at the start for the files that no earlier run has read to their end where no pattern
// matches, and has them read on. Those that are not found count as lost, since their content may be found in
// another file later. It also looks for files that were rotated after each.
func (d *discovery) findMoved(in *input) {
	w := sources.NewLook()
	for _, u := range in.scan.unread {
		switch {
		case u.info.Doubted != 0:
		case u.at != "":
			d.findAfter(in, w, u.info, u.at)
		case u.info.Size == 0 && u.lost == nil: // it was empty: nothing tells whether it was filled, copied and truncated
			d.findSiblings(in, w, rotated{info: u.info}, "")
		}
	}
	for _, u := range in.scan.unread {
		if u.lost == nil || !in.Reads(u.info.Path) && !in.onceNamed(u.info) {
			continue // it was found, or was no longer wanted before it was moved
		}
		goesOn := u.lost.reader != nil // in another file, a copy
		path, ok := in.folders.FindInfo(u.info)
		if !ok && !goesOn {
			path, ok = in.folders.FindNear(u.info.Path, inode.Of(u.info))
		}
		switch {
		case !ok && !goesOn:
			if !d.readCopies(in, w, u.lost) {
				in.scan.gone = append(in.scan.gone, u.generation)
			}
		case ok && path == u.info.Path && !in.onceNamed(u.info):
			continue // a scan finds it by itself
		case ok:
			d.adopt(in, path, u.info.First)
		}
		if u.info.Doubted == 0 {
			d.findAfter(in, w, u.info, path) // those rotated after it may be there though it is gone
		}
	}
}

// findAfter is findSiblings for a file that no earlier run has read to its end. Where it has another name by then,
// as after a rotation that gives all files other numbers, findRotated looks again; else once the next file is at
// its path.
func (d *discovery) findAfter(in *input, w *sources.Look, info record.FileInfo, path string) {
	was := rotated{info: info}
	d.findSiblings(in, w, was, path)
	if path == "" {
		return
	}
	if was.next = inode.HasAnother(info.First, inode.Of(info)); !inode.LeadsElsewhere(path, inode.Of(info)) {
		was.looks = mostLooks
	}
	in.scan.rotated = append(in.scan.rotated, was)
}

// onceNamed reports whether no pattern matches a file where it was last seen, though
// one did before it was moved there.
func (in *input) onceNamed(info record.FileInfo) bool {
	return !in.Reads(info.Path) && (in.Reads(info.First) || in.Reads(lineage.Home(info.First)))
}
