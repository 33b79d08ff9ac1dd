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
	open := make(map[*reader]*os.File)
	was := make(map[*reader]inode.Node)
	d.t.mu.Lock()
	for r := range in.readers.All() {
		if r.f != nil && (path == "" || r.path() == path) {
			open[r], was[r] = r.f, r.node()
		}
	}
	d.t.mu.Unlock()
	renewed := make(map[inode.Node]*reader)
	for r, f := range open {
		if st, err := inode.In(f); err == nil && st.Node != was[r] {
			renewed[st.Node] = r
		}
	}
	return renewed
}

// follow gives a reader the new inode of its open file, of which st is the status. The journal gets
// it in this turn (moved). It does nothing if another reader has the new inode.
func (w *worker) follow(r *reader, st inode.Status) {
	t := w.t
	handle := inode.Handle(r.f)
	t.mu.Lock()
	defer t.mu.Unlock()
	was := inode.Of(r.info)
	if r.in.readers.Get(was) != r || r.in.readers.Get(st.Node) != nil {
		return
	}
	r.in.readers.Delete(was)
	if r.in.byNode.get(was) == r.k {
		r.in.byNode.remove(was)
	}
	r.info.Dev, r.info.Inode, r.info.Birth, r.info.Handle = st.Dev, st.Ino, st.Birth, handle
	r.in.describe(r.k, r.info)
	r.in.byNode.put(r.k)
	r.in.readers.Put(r)
	w.report.moved = true
}
