package tail

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"kusto-agent/record"
)

// discover looks for files until ctx ends: now and then, and soon after an
// event says that names have changed. A run --once looks once, and ends when
// every file was read.
func (t *Tailer) discover(ctx context.Context) {
	for {
		began := time.Now()
		t.rescan()
		took := time.Since(began)
		wait := rescanPolling
		if t.watch.healthy() && !t.polling() {
			wait = rescanHealthy
		}
		if t.o.Once {
			select {
			case <-t.done:
			case <-ctx.Done():
			}
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		case <-t.scan:
			// Looking at everything on every event must not become all we do.
			select {
			case <-time.After(5 * took):
			case <-ctx.Done():
				return
			}
		}
	}
}

// polling reports whether some input is to do without events.
func (t *Tailer) polling() bool {
	return slices.ContainsFunc(t.inputs, func(in *input) bool { return in.Watch == "poll" })
}

// rescan makes the readers agree with what is on disk.
func (t *Tailer) rescan() {
	w := newWalk()
	t.mu.Lock()
	t.scanNo++
	first := t.scanNo == 1
	t.mu.Unlock()
	for _, in := range t.inputs {
		paths := w.match(in)
		if len(paths) == 0 {
			t.tell("input "+in.Name, errors.New("no file matches its paths"))
		} else {
			t.tell("input "+in.Name, nil)
		}
		for _, path := range paths {
			t.meet(in, path)
		}
		in.isNew = false
		if first {
			t.findMoved(in)
		}
		t.findCopies(in)
		t.miss(in, w)
	}
	for path, err := range w.errs {
		t.tell(path, err)
	}
	t.boundPinned()
	if t.watch.update(w.passed) {
		t.rescanSoon()
	}
	t.mu.Lock()
	t.scans++
	t.forgive()
	t.finishIfAll()
	t.mu.Unlock()
	t.turned.Broadcast()
}

// meet is called for each path that matches.
func (t *Tailer) meet(in *input, path string) {
	for _, dir := range t.o.Avoid {
		if path == dir || strings.HasPrefix(path, dir+"/") {
			t.tell(path, errors.New("it belongs to the agent itself"))
			return
		}
	}
	st, err := statPath(path)
	if err == nil && !st.regular {
		err = fmt.Errorf("it is %s", st.kind())
	}
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) || isLink(path) {
			t.tell(path, err)
		}
		return
	}
	t.mu.Lock()
	r := in.readers[st.node]
	if r != nil {
		t.seen(r, path, st)
		t.mu.Unlock()
		return
	}
	rival := t.rival(in, st.node)
	k := in.byNode[st.node]
	t.mu.Unlock()
	if rival != "" {
		t.tell(path+" for input "+in.Name, fmt.Errorf("input %s reads it for the same route", rival))
		return
	}
	unread := k != nil && k.position < st.size // what was begun is ended
	if old := in.IgnoreOlder.D(); old > 0 && !unread && time.Since(time.Unix(0, st.mtime)) > old {
		return
	}
	t.adopt(in, path, false)
}

// rival is the input that reads a file for the route of in already, and so
// keeps it: its records would arrive twice. The caller holds mu.
func (t *Tailer) rival(in *input, n node) string {
	for _, other := range t.inputs {
		if other != in && other.Route == in.Route && other.readers[n] != nil {
			return other.Name
		}
	}
	return ""
}

func isLink(path string) bool {
	s, err := os.Lstat(path)
	return err == nil && s.Mode()&fs.ModeSymlink != 0
}

// seen notes that a file that is being read is there. The caller holds mu.
func (t *Tailer) seen(r *reader, path string, st status) {
	if r.scan == t.scanNo {
		return // another of its names came first
	}
	r.scan = t.scanNo
	r.missed, r.gone = false, false
	if r.path != path {
		if now, err := statPath(r.path); err != nil || now.node != st.node {
			t.o.Logger.Info("file was renamed", "file", path, "was", r.path)
			t.o.Metrics.Rotation(r.in.Name)
			t.unpath(r)
			r.path = path
			t.byPath[path] = append(t.byPath[path], r)
			r.moved = true
			t.readyLocked(r)
		}
	}
	if st.size != r.shown.size || st.mtime != r.shown.mtime {
		t.readyLocked(r)
	}
}

func (t *Tailer) unpath(r *reader) {
	left := slices.DeleteFunc(t.byPath[r.path], func(o *reader) bool { return o == r })
	if len(left) == 0 {
		delete(t.byPath, r.path)
	} else {
		t.byPath[r.path] = left
	}
}

// adopt begins to read a file that nobody reads; gone says that no pattern
// matches it any more.
func (t *Tailer) adopt(in *input, path string, gone bool) {
	f, st, err := openFile(path)
	t.tell(path, err)
	if err != nil {
		return
	}
	handle := handleOf(f)
	t.mu.Lock()
	defer t.mu.Unlock()
	if in.readers[st.node] != nil { // renamed between the look and the opening
		f.Close()
		return
	}
	quiet := in.RotateQuiet.D()
	if t.o.Once {
		quiet = 0 // there is no other time
	}
	m := in.recognise(f, st, handle, quiet)
	if !m.wait {
		delete(in.suspect, st.node)
	} else {
		f.Close()
		in.suspect[st.node] = suspicion{since: m.since, scan: t.scanNo}
		if m.live != nil {
			t.readyLocked(m.live) // it may have been truncated since its last turn
		}
		time.AfterFunc(pollSlow, t.rescanSoon)
		return
	}
	r := &reader{in: in, path: path, scan: t.scanNo, gone: gone, f: f, grown: time.Now(), size: st.size}
	r.info = record.FileInfo{Path: path, First: path, Dev: st.dev, Inode: st.ino, Birth: st.birth, Handle: handle}
	switch {
	case m.k == nil:
		t.begin(r)
	case m.resume:
		t.resume(r, m.k)
	default:
		t.o.Logger.Warn("file was truncated or rewritten while nobody read it, reading it from the start",
			"file", path, "offset", m.k.position, "bytes", st.size)
		r.info.First = m.k.info.First
		t.start(r, in.nextOf(m.k.file.ID), &known{})
	}
	if int(t.open.Add(1)) > t.o.OpenFiles {
		t.closeIdle(r)
	}
}

// resume goes on where an earlier reader stopped. The caller holds mu.
func (t *Tailer) resume(r *reader, k *known) {
	if old := k.reader; old != nil {
		old.drop = true
		t.readyLocked(old)
	}
	if k.info.Path != r.path {
		t.o.Logger.Info("file is known from another path, going on in it", "file", r.path, "was", k.info.Path, "offset", k.position)
	}
	r.info.First, r.info.Head = k.info.First, k.info.Head
	r.moved = k.info.Path != r.path || nodeOf(k.info) != nodeOf(r.info)
	if k.reader != nil {
		k.position, k.mark = k.reader.shown.offset, k.reader.shown.mark
	}
	r.offset, r.mark, r.skips = k.position, k.mark, k.ahead
	if r.offset > r.size { // a copy of less than was read: nothing in it is new
		r.offset, r.skips = r.size, nil
		r.mark, _ = markAt(r.f, r.offset) // 0, not known, if it can not be read
		r.info.Done, r.info.Size = true, r.size
		t.remember(k.file, r.info)
	}
	t.start(r, k.file, k)
	r.safe = k.safe
}

// begin reads a file that was never seen. The caller holds mu.
func (t *Tailer) begin(r *reader) {
	id, salt := newID(nodeOf(r.info), r.info.Handle, 0), uint64(0)
	for r.in.known[r.in.file(id, 0)] != nil {
		salt++
		id = newID(nodeOf(r.info), r.info.Handle, salt)
	}
	t.start(r, r.in.file(id, 0), &known{})
	r.empty = r.size == 0 && !t.o.Once
	if r.in.isNew && r.in.StartAt == "end" {
		r.pass = max(r.size, 0)
	}
}

// start puts a reader to work on a generation. The caller holds mu.
func (t *Tailer) start(r *reader, f record.File, k *known) {
	r.file, r.k = f, k
	k.file, k.info, k.reader = f, r.info, r
	k.truncated, k.missing = time.Time{}, time.Time{}
	r.in.known[f] = k
	r.in.heads.move(k, r.info.Head)
	r.in.byNode[nodeOf(r.info)] = k
	r.in.readers[nodeOf(r.info)] = r
	t.byFile[f] = r
	t.byPath[r.path] = append(t.byPath[r.path], r)
	r.show(idle)
	t.unread++
	t.readyLocked(r)
}

// findMoved looks, at the start, for files an earlier run has not read to
// their end and that no pattern matches now: rotated while nobody looked. They
// are found in their old folder by their inode.
func (t *Tailer) findMoved(in *input) {
	t.mu.Lock()
	var lost []record.FileInfo
	for _, k := range in.known {
		if k.reader == nil && !k.info.Done && in.byNode[nodeOf(k.info)] == k {
			lost = append(lost, k.info)
		}
	}
	t.mu.Unlock()
	for _, info := range lost {
		if path, ok := findNode(info); ok && path != info.Path {
			t.adopt(in, path, true)
		}
	}
}

// findCopies looks for copies of files that were truncated, beside them and
// under names that begin as theirs: what copytruncate leaves. Such a copy may
// hold lines that were written after the last read, though no pattern matches
// it.
func (t *Tailer) findCopies(in *input) {
	t.mu.Lock()
	lost := in.truncated
	in.truncated = nil
	paths := make([]string, len(lost))
	for i, k := range lost {
		paths[i] = k.info.Path
	}
	t.mu.Unlock()
	for i, k := range lost {
		dir, base := filepath.Split(paths[i])
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue // what is lost was counted
		}
		for _, e := range entries {
			if strings.HasPrefix(e.Name(), base) && e.Name() != base && e.Type().IsRegular() && t.continues(k, dir+e.Name()) {
				t.adopt(in, dir+e.Name(), true)
			}
		}
	}
}

// continues reports whether a file holds what was read of k and more.
func (t *Tailer) continues(k *known, path string) bool {
	f, st, err := openFile(path)
	if err != nil {
		return false
	}
	defer f.Close()
	t.mu.Lock()
	defer t.mu.Unlock()
	if k.reader != nil || k.mark == 0 || st.size <= k.position {
		return false
	}
	h, err := headOfLen(f, k.info.Head.Len)
	return err == nil && h == k.info.Head && k.fits(f, st.size)
}

// findNode looks for a file at its last path, then in the folder of it.
func findNode(info record.FileInfo) (path string, ok bool) {
	is := func(path string) bool {
		st, err := statPath(path)
		return err == nil && st.regular && st.ino == info.Inode && st.birth == info.Birth
	}
	if is(info.Path) {
		return info.Path, true
	}
	dir := info.Path[:strings.LastIndexByte(info.Path, '/')+1]
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", false
	}
	for _, e := range entries {
		if e.Type().IsRegular() && is(dir+e.Name()) {
			return dir + e.Name(), true
		}
	}
	return "", false
}

// miss looks after readers whose files the scan did not find.
func (t *Tailer) miss(in *input, w *walk) {
	defer t.forget(in, w)
	t.mu.Lock()
	defer t.mu.Unlock()
	maps.DeleteFunc(in.suspect, func(_ node, s suspicion) bool { return s.scan != t.scanNo })
	for n, r := range in.readers {
		if r.scan == t.scanNo || w.unknown(r.path) {
			continue
		}
		if r.f != nil {
			if st, err := statFile(r.f); err == nil {
				r.deleted = st.links == 0
			}
		}
		if r.gone {
			continue
		}
		st, err := statPath(r.path)
		if err == nil && st.node == n || err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENOTDIR) {
			continue // there in spite of the scan, or nobody knows
		}
		if !r.missed { // it may have been renamed under the eyes of the scan
			r.missed = true
			t.rescanSoon()
			continue
		}
		r.gone = true
		t.o.Metrics.Rotation(in.Name)
		t.o.Logger.Info("file is gone from its path, reading it to its end", "file", r.path, "bytes", r.shown.size-r.shown.offset)
		t.readyLocked(r)
	}
}

// forget drops what is remembered of files that are long gone.
func (t *Tailer) forget(in *input, w *walk) {
	for _, k := range t.longGone(in, w) {
		if err := t.o.Positions.Forget(k.file); err != nil {
			t.o.Logger.Warn("position of a file that is gone is kept", "file", k.info.Path, "err", err)
		}
	}
}

// longGone takes out what is remembered of files that are long gone.
func (t *Tailer) longGone(in *input, w *walk) (gone []*known) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	for f, k := range in.known {
		if k.reader != nil {
			continue
		}
		if k.missing.IsZero() || w.unknown(k.info.Path) {
			k.missing = now
		}
		if now.Sub(k.missing) < in.ForgetAfter.D() {
			continue
		}
		if _, there := findNode(k.info); there && in.byNode[nodeOf(k.info)] == k {
			k.missing = time.Time{}
			continue
		}
		delete(in.known, f)
		in.heads.move(k, record.Head{})
		if in.byNode[nodeOf(k.info)] == k {
			delete(in.byNode, nodeOf(k.info))
		}
		gone = append(gone, k)
	}
	return gone
}

// boundPinned lets the oldest deleted files go while they hold more of the
// disk than an input may pin.
func (t *Tailer) boundPinned() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, in := range t.inputs {
		var pinned int64
		var held []*reader
		for _, r := range in.readers {
			if r.deleted && !r.drop {
				pinned += r.shown.size
				held = append(held, r)
			}
		}
		slices.SortFunc(held, func(a, b *reader) int { return a.shown.grown.Compare(b.shown.grown) })
		for _, r := range held {
			if pinned <= int64(in.MaxPinnedDeleted) {
				break
			}
			pinned -= r.shown.size
			r.drop = true
			t.o.Metrics.Abandoned(in.Name, r.shown.size-r.shown.offset)
			t.o.Logger.Error("deleted file is abandoned, it pins more than max_pinned_deleted allows", "file", r.path,
				"offset", r.shown.offset, "bytes", r.shown.size-r.shown.offset)
			t.readyLocked(r)
		}
	}
}

// closeIdle gives a descriptor back; the reader opens its file again for its
// next turn. The caller holds mu.
func (t *Tailer) closeIdle(r *reader) {
	if r.f != nil && !r.gone {
		r.f.Close()
		r.f = nil
		t.open.Add(-1)
	}
}

// fixOf says what to do about a file that can not be read.
func fixOf(err error) string {
	switch {
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		return "let the agent's user read it: setfacl -m u:kusto-agent:r on the file, :rx on its folders, or add the user to the file's group"
	case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE):
		return "raise LimitNOFILE of the unit, or lower limits.open_files"
	case errors.Is(err, fs.ErrNotExist):
		return "nothing, if the file is still to come"
	}
	return ""
}
