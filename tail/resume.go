package tail

import (
	"bytes"
	"cmp"
	"os"
	"slices"
	"time"

	"kusto-agent/record"
)

// known is what is remembered of one generation of a file. Guarded by
// Tailer.mu.
type known struct {
	file     record.File
	info     record.FileInfo
	position int64 // read from here on
	safe     int64 // all before is safe; of its reader while it has one
	mark     record.Mark
	ahead    []record.Span // beyond the position, in need of no reading
	reader   *reader       // who reads it; nil: nobody
	trail    trail         // where reading stood before the position
	missing  time.Time     // when it was first found to have no file

	truncated time.Time // when reading ended with a truncation; zero: it did not, or in an earlier run
}

// recall loads what the journal remembers of an input.
func (in *input) recall(states []State) {
	for _, s := range states {
		k := &known{file: s.File, info: s.Info, position: s.Position, safe: s.Position, mark: s.Mark, ahead: s.Ahead}
		in.known[k.file] = k
		in.heads.add(k)
		if o := in.byNode[nodeOf(k.info)]; o == nil || o.file.ID == k.file.ID && o.file.Generation < k.file.Generation {
			in.byNode[nodeOf(k.info)] = k
		}
	}
}

// match is what an open file was recognised as.
type match struct {
	k      *known  // nil: a file that was never seen
	resume bool    // at the position of k; else k was truncated, or rewritten
	wait   bool    // it may be a copy of a file that is being read: ask again
	live   *reader // of that file; nil: it is still to come
	since  int64   // when it was first taken for one, ns
}

// recognise finds the generation an open file continues. The caller holds mu.
func (in *input) recognise(f *os.File, st status, handle []byte, quiet time.Duration) match {
	if k := in.sameFile(f, st, handle); k != nil {
		return match{k: k, resume: k.fits(f, st.size)}
	}
	var like likeness
	var live *reader
	for _, k := range in.heads.alike(f, st.size) {
		l := k.likeness(f, st)
		if l == successor {
			return match{k: k, resume: true}
		}
		if like = max(like, l); l > different {
			live = k.reader
		}
	}
	if like == different {
		return match{}
	}
	now := time.Now().UnixNano()
	since := cmp.Or(in.suspect[st.node].since, now)
	grown := since
	if st.mtime <= now {
		grown = max(since, st.mtime)
	}
	if like == unsettled || now-grown < int64(quiet) {
		return match{wait: true, live: live, since: since}
	}
	return match{}
}

// sameFile finds a file by its identity.
func (in *input) sameFile(f *os.File, st status, handle []byte) *known {
	if k := in.byNode[st.node]; k != nil && k.reader == nil && !otherHandle(k.info.Handle, handle) {
		return k
	}
	if st.birth == 0 {
		return nil
	}
	// Device numbers change over a reboot; all else together does not.
	for _, k := range in.heads.alike(f, st.size) {
		if k.reader == nil && k.info.Inode == st.ino && k.info.Birth == st.birth {
			return k
		}
	}
	return nil
}

func otherHandle(a, b []byte) bool { return a != nil && b != nil && !bytes.Equal(a, b) }

// fits reports whether a file still holds what was read of it.
func (k *known) fits(f *os.File, size int64) bool {
	if k.info.Done && size == k.info.Size && size < k.position { // a short copy, see trail
		h, err := headOfLen(f, k.info.Head.Len)
		return err == nil && h == k.info.Head
	}
	if size < k.position {
		return false
	}
	if k.mark == 0 { // nothing is known of the bytes before the position, but of others
		if n := len(k.ahead); n > 0 && size < k.ahead[n-1].End {
			return false
		}
		h, err := headOfLen(f, k.info.Head.Len)
		return err == nil && h == k.info.Head
	}
	m, err := markAt(f, k.position)
	return err == nil && m == k.mark
}

// headIndex finds generations by how their content begins. Guarded by
// Tailer.mu.
type headIndex map[record.Head][]*known

func (x headIndex) add(k *known) {
	if h := k.info.Head; h.Len > 0 {
		x[h] = append(x[h], k)
	}
}

// move gives k another head; the zero head takes it out.
func (x headIndex) move(k *known, h record.Head) {
	if old := k.info.Head; old.Len > 0 {
		x[old] = slices.DeleteFunc(x[old], func(o *known) bool { return o == k })
		if len(x[old]) == 0 {
			delete(x, old)
		}
	}
	k.info.Head = h
	x.add(k)
}

// alike returns the generations that begin as an open file does.
func (x headIndex) alike(f *os.File, size int64) []*known {
	var all []*known
	for _, n := range headLens {
		if int64(n) > size {
			continue
		}
		if h, err := headOfLen(f, n); err == nil && h.Len > 0 {
			all = append(all, x[h]...)
		}
	}
	return all
}
