package tail

import (
	"os"
	"path/filepath"

	"kusto-agent/tail/internal/inode"
)

// On overlayfs the first write to a file of a lower layer, and its renaming, make
// another file of it: the kernel copies it up. Whoever has it open has the new one
// from then on. So it is by its descriptor that the file is known for the same.

// readyCopiedUp reports whether a file with an unknown inode is one that a reader has open, on an
// overlay file system. If so, the reader gets a turn, in which it takes the new inode over. Only
// scans call it.
func (d *discovery) readyCopiedUp(in *input, path string, n inode.Node) bool {
	if !inode.IsOverlay(filepath.Dir(path)) {
		return false
	}
	if in.scan.renewed == nil {
		in.scan.renewed = d.renewedOf(in, "")
	}
	r := in.scan.renewed[n]
	if r == nil {
		r = d.renewedOf(in, path)[n] // the first write may have come since this scan began
	}
	if r == nil {
		return false
	}
	d.t.ready(r)
	d.t.rescanSoon()
	return true
}

// renewedOf returns the readers whose open file has another inode than before, by that. path
// restricts the search to one path; empty: all.
func (d *discovery) renewedOf(in *input, path string) map[inode.Node]*reader {
	open := openFiles{in: in, path: path}
	d.t.on(&open)
	renewed := make(map[inode.Node]*reader)
	for _, o := range open.all {
		if st, err := inode.In(o.f); err == nil && st.Node != o.was {
			renewed[st.Node] = o.r
		}
	}
	return renewed
}

// openFiles asks for the open files of an input; path as in renewedOf.
type openFiles struct {
	in   *input
	path string
	all  []openFile
}

type openFile struct {
	r   *reader
	f   *os.File
	was inode.Node
}

func (e *openFiles) happen(*Tailer) {
	for r := range e.in.readers.All() {
		if r.f != nil && (e.path == "" || r.path() == e.path) {
			e.all = append(e.all, openFile{r, r.f, r.node()})
		}
	}
}

// copiedUp is that a worker has found another inode of the open file of its reader, of which st is the status.
// It does nothing if another reader has that.
type copiedUp struct {
	r        *reader
	st       inode.Status
	handle   string
	followed bool // the journal is to get it in this turn
}

func (e *copiedUp) happen(*Tailer) {
	r, st, was := e.r, e.st, inode.Of(e.r.Info)
	if r.in.readers.Get(was) != r || r.in.readers.Get(st.Node) != nil {
		return
	}
	r.in.readers.Delete(was)
	if r.in.byNode.get(was) == r.k {
		r.in.byNode.remove(was)
	}
	r.Info.Dev, r.Info.Inode, r.Info.Birth, r.Info.Handle = st.Dev, st.Ino, st.Birth, e.handle
	r.in.describe(r.k, r.Info)
	r.in.byNode.put(r.k)
	r.in.readers.Put(r)
	e.followed = true
}
