package tail

import (
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// On overlayfs the first write to a file of a lower layer, and its renaming, make
// another file of it: the kernel copies it up. Whoever has it open has the new one
// from then on. So it is by its descriptor that the file is known for the same.

// copiedUp reports whether a file with an unknown inode is one that a reader has open. On an
// overlay file system, the first write to a file of a lower layer gives the file another inode.
// If so, copiedUp gives the reader a turn, in which it takes the new inode over. Only scans call
// it.
func (t *Tailer) copiedUp(in *input, path string, n node) bool {
	if !isOverlay(filepath.Dir(path)) {
		return false
	}
	if in.renewed == nil {
		in.renewed = t.renewedOf(in, "")
	}
	r := in.renewed[n]
	if r == nil {
		r = t.renewedOf(in, path)[n] // the first write may have come since this scan began
	}
	if r == nil {
		return false
	}
	t.ready(r)
	t.rescanSoon()
	return true
}

// renewedOf returns the readers of an input whose open file has another inode than before, as a
// write on overlayfs gives it one. They are indexed by the new inode. path restricts the search to
// one path; empty: all.
func (t *Tailer) renewedOf(in *input, path string) map[node]*reader {
	open := make(map[*reader]*os.File)
	was := make(map[*reader]node)
	t.mu.Lock()
	for r := range in.readers.All() {
		if r.f != nil && (path == "" || r.path() == path) {
			open[r], was[r] = r.f, r.node()
		}
	}
	t.mu.Unlock()
	renewed := make(map[node]*reader)
	for r, f := range open {
		if st, err := statFile(f); err == nil && st.node != was[r] {
			renewed[st.node] = r
		}
	}
	return renewed
}

// follow gives a reader the new inode of its open file, of which st is the status: on overlayfs,
// the first write to a file of a lower layer gives it another inode. The journal gets it in this
// turn (moved). follow does nothing if another reader has the new inode.
func (w *worker) follow(r *reader, st status) {
	t := w.t
	handle := handleOf(r.f)
	t.mu.Lock()
	defer t.mu.Unlock()
	was := nodeOf(r.info)
	if r.in.readers.Get(was) != r || r.in.readers.Get(st.node) != nil {
		return
	}
	r.in.readers.Delete(was)
	if r.in.byNode.get(was) == r.k {
		r.in.byNode.remove(was)
	}
	r.info.Dev, r.info.Inode, r.info.Birth, r.info.Handle = st.dev, st.ino, st.birth, handle
	r.in.describe(r.k, r.info)
	r.in.byNode.put(r.k)
	r.in.readers.Put(r)
	w.job.moved = true
}

// isOverlay reports whether a folder is on overlayfs.
func isOverlay(dir string) bool {
	var s unix.Statfs_t
	return unix.Statfs(dir, &s) == nil && uint32(s.Type) == unix.OVERLAYFS_SUPER_MAGIC
}
