package tail

import (
	"slices"
	"time"

	"kusto-agent/internal/compressed"
	"kusto-agent/internal/record"
	"kusto-agent/tail/internal/compare"
	"kusto-agent/tail/internal/finder"
	"kusto-agent/tail/internal/inode"
	"kusto-agent/tail/internal/sources"
)

// takeLost takes over the lost files of which a compressed copy is looked for, and the compressed files
// that are looked for themselves. Before, it notes what the scan has found out about files that are
// gone, and forgets lost ones that need no more looking for. The caller holds mu.
func (d *discovery) takeLost(in *input, _ *finder.Walk) {
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
	in.lost = slices.DeleteFunc(in.lost, func(k *generation) bool {
		return k.reader != nil || k.info.Info().Done && k.truncated.IsZero() || in.known.Get(k.file()) != k ||
			!k.truncated.IsZero() && time.Since(k.truncated) > compare.FreshCopy
	})
	for _, k := range in.lost {
		in.scan.lost = append(in.scan.lost, k.info.Info())
	}
	for n, p := range in.packed {
		if p.first != "" && p.scan != d.t.scans.no {
			in.scan.wanted = append(in.scan.wanted, stray{p.path, p.first, n})
		}
	}
}

// findPacked looks beside files that disappeared before they were read to their end for compressed
// copies, which no pattern need match, and for the compressed files that are wanted and that the scan has not
// met.
func (d *discovery) findPacked(in *input) {
	add := func(path, first string) {
		if st, err := inode.At(path); err == nil && st.IsRegular() {
			in.scan.strays = append(in.scan.strays, stray{path, first, st.Node})
		}
	}
	for _, s := range in.scan.wanted {
		if path := in.whereNow([]string{s.path}, s.node); path != "" {
			add(path, s.first)
		} else if in.folders.Shut([]string{s.path}) == nil {
			in.scan.removed = append(in.scan.removed, s.node)
		}
	}
	for _, path := range sources.PackedBeside(&in.folders, in.scan.lost...) {
		add(path, path)
	}
}

// takeUnmet notes that compressed files which were looked for are gone, and leaves out of those found the ones
// that a reader has or this scan has met. The caller holds mu.
func (d *discovery) takeUnmet(in *input, _ *finder.Walk) {
	for _, n := range in.scan.removed {
		if k := in.doubted(n); k != nil {
			in.lost = append(in.lost, k) // for the log
		}
		if p := in.packed[n]; p != nil {
			in.dropPacked(p)
		}
	}
	met := make(map[inode.Node]bool)
	in.scan.strays = slices.DeleteFunc(in.scan.strays, func(s stray) bool {
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

// meetStrays handles the strays that were found, if they are compressed by their first bytes.
func (d *discovery) meetStrays(in *input) {
	for _, s := range in.scan.strays {
		f, st, err := inode.Open(s.path)
		if err != nil {
			continue
		}
		how, _, _ := compressed.KindAt(f)
		d.meetPacked(in, s.path, f, st, how, s.first)
		f.Close()
	}
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
