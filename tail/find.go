package tail

import (
	"kusto-agent/internal/record"
	"kusto-agent/tail/internal/finder"
)

// What finds files is in tail/internal/finder and knows nothing of their fates; here it
// meets those who decide.

// atOnce is how many names that events told of wait to be looked at.
const atOnce = 4096

// listener has events give turns to readers and ask for scans.
type listener struct{ t *Tailer }

func (l listener) Written(path string)     { l.t.touched(path) }
func (l listener) Appeared(path string)    { l.t.freshName(path) }
func (l listener) Renamed(from, to string) { l.t.noteRename(from, to) }
func (l listener) Changed()                { l.t.rescanSoon() }

// rescanSoon asks for a scan before the next periodic one.
func (t *Tailer) rescanSoon() {
	select {
	case t.scan <- struct{}{}:
	default:
	}
}

// Watching tells why the kernel does not tell of every change where events are
// wanted, so that files are polled, and what can be done about it. Both are empty
// while it does.
func (t *Tailer) Watching() (why, fix string) { return t.watch.Ill() }

// found converts a node to the type of package finder.
func (n node) found() finder.Node { return finder.Node{Dev: n.dev, Ino: n.ino, Birth: n.birth} }

// foundOf returns the node of a remembered file, as the type of package finder.
func foundOf(info record.FileInfo) finder.Node {
	return finder.Node{Dev: info.Dev, Ino: info.Inode, Birth: info.Birth}
}

// folders find files again in the folders where they were.
type folders struct{ finder.Folders }

// findNode looks for a file at its last path, where that led, and in their folders.
func (x *folders) findNode(info record.FileInfo) (path string, ok bool) {
	return x.Find(info.Paths(), foundOf(info))
}

// newOwn returns the set of files and folders of the agent itself, which are never read.
func newOwn(o Options) *finder.Own {
	var files []finder.Node
	for _, f := range o.Own {
		if st, err := statFile(f); err == nil && st.regular {
			files = append(files, st.found())
		}
	}
	return finder.NewOwn(o.Avoid, files)
}
