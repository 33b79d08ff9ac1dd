package tail

import (
	"slices"
	"time"

	"kusto-agent/internal/compressed"
	"kusto-agent/internal/record"
	"kusto-agent/tail/internal/compare"
	"kusto-agent/tail/internal/inode"
	"kusto-agent/tail/internal/sources"
)

// findPacked looks beside files that disappeared before they were read to their end for compressed
// copies, which no pattern need match, and for the compressed files that are wanted and that the scan has not
// met.
func (d *discovery) findPacked(in *input) {
	lost, wanted := d.soughtPacked(in)
	var gone []inode.Node // of those wanted, for sure
	var found []stray
	add := func(path, first string) {
		if st, err := inode.At(path); err == nil && st.IsRegular() {
			found = append(found, stray{path, first, st.Node})
		}
	}
	for _, s := range wanted {
		if path := in.whereNow([]string{s.path}, s.node); path != "" {
			add(path, s.first)
		} else if in.folders.Shut([]string{s.path}) == nil {
			gone = append(gone, s.node)
		}
	}
	for _, path := range sources.PackedBeside(&in.folders, lost...) {
		add(path, path)
	}
	for _, s := range d.unmet(in, gone, found) {
		d.meetStray(in, s)
	}
}

// soughtPacked returns the lost files of which a compressed copy is looked for, and the compressed files
// that are looked for themselves. Before, it notes what the scan has found out about files that are
// gone, and forgets lost ones that need no more looking for.
func (d *discovery) soughtPacked(in *input) (lost []record.FileInfo, wanted []stray) {
	d.t.mu.Lock()
	defer d.t.mu.Unlock()
	for _, c := range in.scan.settled {
		if c.stands() {
			d.t.settle(c.k)
		}
	}
	was := in.lost
	for _, k := range in.scan.gone { // each once
		if !slices.Contains(was, k) {
			in.lost = append(in.lost, k)
		}
	}
	in.scan.settled, in.scan.gone = nil, nil
	in.lost = slices.DeleteFunc(in.lost, func(k *generation) bool {
		return k.reader != nil || k.info.Info().Done && k.truncated.IsZero() || in.known.Get(k.file()) != k ||
			!k.truncated.IsZero() && time.Since(k.truncated) > compare.FreshCopy
	})
	for _, k := range in.lost {
		lost = append(lost, k.info.Info())
	}
	for n, p := range in.packed {
		if p.first != "" && p.scan != d.t.scans.no {
			wanted = append(wanted, stray{p.path, p.first, n})
		}
	}
	return lost, wanted
}

// unmet notes that files which were looked for are gone, and returns those of found that no reader has
// and this scan has not met, each once.
func (d *discovery) unmet(in *input, gone []inode.Node, found []stray) []stray {
	d.t.mu.Lock()
	defer d.t.mu.Unlock()
	for _, n := range gone {
		if k := in.doubted(n); k != nil {
			in.lost = append(in.lost, k) // for the log
		}
		if p := in.packed[n]; p != nil {
			in.dropPacked(p)
		}
	}
	met := make(map[inode.Node]bool)
	return slices.DeleteFunc(found, func(s stray) bool {
		known := met[s.node] || in.readers.Get(s.node) != nil || in.packed[s.node] != nil && in.packed[s.node].scan == d.t.scans.no
		met[s.node] = true
		return known
	})
}

// stray is a compressed file that no pattern matches. first is as in adopt.
type stray struct {
	path, first string
	node        inode.Node
}

// meetStray handles a stray if it is compressed by its first bytes. One that is looked for and is compressed no more
// waits until it is again.
func (d *discovery) meetStray(in *input, s stray) {
	f, st, err := inode.Open(s.path)
	if err != nil {
		return
	}
	defer f.Close()
	if how, _, _ := compressed.KindAt(f); how.IsReadable() {
		d.meetPacked(in, s.path, f, st, how, s.first)
		return
	}
	d.t.locked(func() {
		if p := in.packed[s.node]; p != nil {
			p.emptied, p.err = true, nil
		}
	})
}

// tellLost logs the files that disappeared and of which no copy was found, after all
// compressed files were inspected. The caller holds mu.
func (d *discovery) tellLost(in *input) {
	if !d.t.surveys.compared {
		return
	}
	for _, p := range in.packed {
		if p.isUnclear() {
			return
		}
	}
	for _, k := range in.lost {
		info := k.info.Info()
		if info.Told || info.Done || k.reader != nil || !k.truncated.IsZero() {
			continue // what was left is read elsewhere, or the loss by a truncation was counted then
		}
		if info.Doubted != 0 {
			d.t.o.Logger.Warn("file is gone before it was certain that it was a copy of a file that was read; if it was none, its bytes are lost", "input", in.Name, "file", info.Path, "bytes", info.Size)
		} else if !d.t.lose(k.file(), &info, info.Path, k.position, info.Size, k.ahead, "file is gone, its unread bytes are lost unless it comes back",
			"fix", "rotate by rename, and compress no sooner than it is read (delaycompress)") {
			d.tellVanished(in, k, info)
		}
		info.Told = true
		info.Done = !in.byNode.has(k) // then its file was truncated, and the next run need not look for copies again
		d.t.restate(k, info)
	}
}

// tellVanished logs and counts a file that is gone, and of which nobody knows whether bytes were left unread.
// Where the next one is at its path, as after a rotation, that is likely. The caller holds mu.
func (d *discovery) tellVanished(in *input, k *generation, info record.FileInfo) {
	log, about := d.t.o.Logger.Info, []any{"input", in.Name, "file", info.Path, "offset", k.position}
	if in.byNode.has(k) && some(d.t.byPath.Get(info.Path), func(r *reader) bool { return r.in.files == in.files && !r.life.IsGone() }) {
		log, about = d.t.o.Logger.Warn, append(about, "fix", "let paths match what it was rotated to, or have it rotated to its own folder or to one in it or beside it")
	}
	log("file disappeared after it was read up to this offset; whether bytes were left unread is not known", about...)
	d.t.o.Metrics.Vanished(in.Name)
}
