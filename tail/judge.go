package tail

import (
	"path/filepath"
	"slices"
	"strings"
	"time"

	"kusto-agent/record"
)

// relation is how what is in a compressed file is related to what is known.
type relation uint8

const (
	stranger    relation = iota // not at all
	continues                   // it is that of a known one, and perhaps more
	isBeingRead                 // the same, and somebody reads that
	rewritten                   // it took the place of a known one in the same file
	unclear                     // what was read since it was looked through has to be compared with it
)

// judge finds whose content a compressed file holds. Unlike a plain copy, which
// counts as another file when it stays beside what it was made of, a compressed one
// is never read while what it was made of is. The caller holds mu.
func (t *Tailer) judge(p *packed) (best *known, is relation) {
	if k := p.in.byNode[p.st.node]; k != nil && k.reader == nil && !otherHandle(k.info.Handle, p.handle) {
		switch same, told := k.isIn(p.facts); {
		case !told:
			return nil, unclear
		case same:
			return k, continues
		}
		return k, rewritten
	}
	open := false
	for _, k := range p.alike(p.facts.heads) {
		same, told := k.isIn(p.facts)
		switch {
		case !told && (k.reader == nil || k.reader.shown.atEnd):
			return nil, unclear
		case !told:
			open = true
		case same && k.tells(p) && (best == nil || k.reach() > best.reach()):
			best = k
		}
	}
	switch {
	case best != nil && best.reader == nil:
		return best, continues
	case best != nil || open || p.isAwaited():
		return best, isBeingRead
	}
	return nil, stranger
}

// isAwaited reports whether a file of the same name was found and not looked at yet:
// both may hold the same.
func (p *packed) isAwaited() bool {
	for _, r := range p.in.readers {
		if r.shown.offset == 0 && r.shown.size > 0 && r.k.info.Head.Len == 0 && r.run != resting && isNameOf(p.path, r.k.info) {
			return true
		}
	}
	return false
}

// alike are the generations that a compressed file may hold: they begin as it does,
// or are too short to tell, and of the same name.
func (p *packed) alike(heads []record.Head) (all []*known) {
	for _, h := range heads {
		all = append(all, p.in.heads[h]...)
	}
	for _, k := range p.in.known {
		if _, mark := k.place(); mark != 0 && k.info.Head.Len == 0 && isNameOf(p.path, k.info) {
			all = append(all, k)
		}
	}
	return all
}

// place is how far a generation was read.
func (k *known) place() (int64, record.Mark) {
	if k.reader != nil {
		return k.reader.shown.offset, k.reader.shown.mark
	}
	return k.position, k.mark
}

func (k *known) reach() int64 {
	at, _ := k.place()
	return at
}

// isIn reports whether what was read of a generation is what a compressed file
// begins with. Not told: that has to be looked for in it.
func (k *known) isIn(x *facts) (same, told bool) {
	at, mark := k.place()
	switch {
	case at == 0 || mark == 0: // it begins alike, and no more can be asked
		n := len(k.ahead)
		return at <= x.size && (n == 0 || k.ahead[n-1].End <= x.size), true
	case at <= x.size:
		m, told := x.marks[at]
		return m == mark, told
	}
	if k.truncated.IsZero() {
		return false, true
	}
	// A copy of less than was read, made before the truncation.
	for _, p := range slices.Backward(k.trail) {
		if p.offset <= x.size {
			m, told := x.marks[p.offset]
			return m == p.mark, told
		}
	}
	return false, true
}

// places are where a compressed file is to be compared with what is known.
func (t *Tailer) places(p *packed, heads []record.Head) (all []int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	add := func(k *known) {
		all = append(all, k.reach())
		for _, at := range k.trail {
			all = append(all, at.offset)
		}
	}
	if k := p.in.byNode[p.st.node]; k != nil {
		add(k)
	}
	for _, k := range p.alike(heads) {
		add(k)
	}
	slices.Sort(all)
	all = slices.Compact(all)
	for len(all) > 0 && all[0] == 0 {
		all = all[1:]
	}
	return all
}

// tells reports whether it means something that a compressed file begins with what
// was read of k: that is much, or the name says the same, or k was just truncated.
func (k *known) tells(p *packed) bool {
	switch at, mark := k.place(); {
	case k.reader != nil && !k.reader.gone && k.reader.shown.atEnd && p.facts.size > at:
		return false // it holds what that file does not, and may begin like each of its kind
	case k.left.at > 0 && p.st.mtime > k.left.at:
		return false // it was written to after that file was no more
	case at >= copyEvidence && mark != 0:
		return true
	case k.info.Done && k.truncated.IsZero() && k.position != p.facts.size:
		return false // it was read to its end
	case time.Since(k.truncated) < freshCopy:
		return true
	}
	return isNameOf(p.path, k.info)
}

// isNameOf reports whether a path can be what rotation made of a file: it is in the
// same folder, and its name begins as that of the file, without its extension.
func isNameOf(path string, info record.FileInfo) bool {
	dir, base := filepath.Split(path)
	for _, was := range append(info.Paths(), info.First) {
		wasDir, name := filepath.Split(was)
		stem := stemOf(name)
		if dir == wasDir && stem != "" && strings.HasPrefix(base, stem) && base != name {
			return true
		}
	}
	return false
}
