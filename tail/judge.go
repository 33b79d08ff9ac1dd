package tail

import (
	"path/filepath"
	"slices"
	"strings"
	"time"

	"kusto-agent/internal/record"
	"kusto-agent/tail/internal/archive"
	"kusto-agent/tail/internal/identity"
	"kusto-agent/tail/internal/rotation"
	"kusto-agent/tail/internal/tracker"
)

// judge decides whose content a compressed file has: of the generation k, up to upTo. For a file of
// its own k is one that it only begins like; nil: there is none. Unlike a plain copy, it is never
// read while its original is: then the verdict is Copy, with k nil if it is not known yet of which
// file. The caller holds mu.
func (t *Tailer) judge(p *packed) (k *known, upTo place, is identity.Verdict) {
	if k := p.known(); k != nil {
		f := identity.Facts{Node: identity.SameNode, Compressed: true}
		f.Content, _ = k.isIn(p.facts)
		if f.Content == identity.Prefix || f.Content == identity.Part {
			f.Content = identity.Holds // it is shorter than what was read, and was recognized so before
		}
		return k, place{}, identity.Judge(f)
	}
	open := false // a file that is being read has to be read on before it can be compared
	var like *known
	for _, o := range p.alike(p.facts.Heads) {
		f, at := o.comparePacked(p)
		v := identity.Judge(f)
		switch {
		case f.Content == identity.Unknown && o.reader != nil && !o.reader.atEnd:
			open = true
		case f.Content == identity.Unknown:
			return nil, place{}, identity.Undecided
		case v != identity.Own && (k == nil || o.position > k.position):
			k, upTo, is = o, at, v
		case v == identity.Own && (f.Content.Agrees() || o.goesOnAfter(p.facts)):
			like = o
		}
	}
	switch {
	case k != nil:
	case open || p.isAwaited():
		is = identity.Copy
	default:
		k = like
	}
	return k, upTo, is
}

// comparePacked returns how the content of a compressed file compares with the generation k, and up
// to where it was read (see isIn).
func (k *known) comparePacked(p *packed) (f identity.Facts, upTo place) {
	f = identity.Facts{Node: identity.Older, Fate: fateOf(k.reader, k.left, k.truncated), Compressed: true}
	if f.Fate == identity.Renamed {
		f.Fate = identity.Past // it was compressed after that
	}
	switch {
	case isStale(p.st, k.node().Birth):
		f.Node = identity.Stale
	case k.reader == nil && k.left.at > 0 && p.st.Mtime > k.left.at:
		f.Node = identity.Younger // compressing keeps the time at which its content was written
	}
	if f.Content, upTo = k.isIn(p.facts); f.Content == identity.Holds {
		f.Content = k.evidence(p, f.Fate)
	}
	return f, upTo
}

// isAwaited reports whether a plain file of which nothing was read yet may have, by its name, the
// same content. The compressed file then waits for it.
func (p *packed) isAwaited() bool {
	for r := range p.in.readers.All() {
		if r.k.position == 0 && r.shown.size > 0 && r.k.info.Head().Len == 0 && r.life.Turn() != tracker.Resting && isNameOf(p.path, r.k.info.Info()) {
			return true
		}
	}
	return false
}

// alike returns the generations that the compressed file may contain: those with one of these
// heads, and those that are too short for a head and have a matching name.
func (p *packed) alike(heads []record.Head) (all []*known) {
	for _, h := range heads {
		all = slices.AppendSeq(all, p.in.heads.Get(h))
	}
	for k := range p.in.known.All() {
		if k.mark != 0 && k.info.Head().Len == 0 && isNameOf(p.path, k.info.Info()) {
			all = append(all, k)
		}
	}
	return all
}

// isIn compares the content of a compressed file with what was read of k. Unknown: no hash of it
// was taken at the offset that is needed. The place counts only for Prefix and Part.
func (k *known) isIn(x *archive.Facts) (identity.Content, place) {
	at, mark := k.position, k.mark
	switch {
	case at == 0 || mark == 0: // both begin alike, and there is no hash of k to compare with
		if n := len(k.ahead); at <= x.Size && (n == 0 || k.ahead[n-1].End <= x.Size) {
			return identity.Holds, place{}
		}
		return identity.Differs, place{}
	case at <= x.Size:
		return agreement(x, place{at, mark}, identity.Holds), place{}
	case k.truncated.IsZero():
		return identity.Differs, place{}
	}
	return k.beginning(x) // it may be a copy that was made before the last records were written and the file was truncated
}

// beginning compares the content of a compressed file with the beginning of k, which is longer, up to the
// last place of its trail that is in the file.
func (k *known) beginning(x *archive.Facts) (identity.Content, place) {
	for _, p := range slices.Backward(k.trail) {
		switch {
		case p.offset == x.Size:
			return agreement(x, p, identity.Prefix), p
		case p.offset < x.Size:
			if end, ok := lateEnd(k.late, k.position, x.Size); ok && end.mark == x.End && agreement(x, p, identity.Part) == identity.Part {
				return identity.Prefix, end
			}
			return agreement(x, p, identity.Part), p
		}
	}
	return identity.Differs, place{}
}

// goesOnAfter reports whether a compressed file seems to hold the beginning of k, which goes on: it was
// compressed while somebody still wrote to it. That proves too little to leave the file out.
func (k *known) goesOnAfter(x *archive.Facts) bool {
	content, _ := k.beginning(x)
	return content.Agrees()
}

// agreement compares the hash of a compressed file at the offset of p with that of p.
func agreement(x *archive.Facts, p place, agrees identity.Content) identity.Content {
	switch m, looked := x.Marks[p.offset]; {
	case !looked:
		return identity.Unknown
	case m == p.mark:
		return agrees
	}
	return identity.Differs
}

// places returns the offsets, in order, at which an inspection takes hashes of a compressed file:
// those for which a generation that it may contain has one. heads are of its beginning.
func (t *Tailer) places(p *packed, heads []record.Head) (all []int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	add := func(k *known) {
		all = append(all, k.position)
		for _, at := range k.trail {
			all = append(all, at.offset)
		}
	}
	if k := p.in.byNode.get(p.st.Node); k != nil {
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

// enoughAlike is identity.Enough where other files are known to begin in the same way: less may be
// the banner of an application or a header, which tells nothing about which of its files it is.
const enoughAlike = 64 << 10

// evidence says how much it means that a compressed file begins with what was read of k, which came
// to the end fate. Holds: the file counts as a copy, because at least identity.Enough bytes are
// equal, its name matches, or k was truncated just now. Differs: the sizes show that it is none.
// Little: that proves nothing, because fewer bytes are equal, or because nobody saw the file of k
// come to its end and the name of p is another one, other files begin like k too, or the content of
// p is of later than k.
func (k *known) evidence(p *packed, fate identity.Fate) identity.Content {
	enough, unseen := k.mark != 0 && k.position >= identity.Enough, fate == identity.Past || k.left.unseen
	switch {
	case (unseen || fate == identity.Untouched) && !isOfStem(p.path, k.info.Info()), unseen && k.position < enoughAlike && p.in.isCommon(k),
		unseen && !enough && p.in.isSuperseded(k, p.st.Mtime):
		return identity.Little
	case k.reader != nil && !k.reader.life.IsGone() && k.reader.atEnd && p.facts.Size > k.position:
		return identity.Differs // that file is read to its end and p has more, so p is another file
	case enough:
		return identity.Holds
	case k.info.Info().Done && k.truncated.IsZero() && k.position != p.facts.Size:
		return identity.Differs // k was read to its end, so a copy would have the same size
	case time.Since(k.truncated) < freshCopy || isNameOf(p.path, k.info.Info()):
		return identity.Holds
	}
	return identity.Little
}

// isCommon reports whether another file was read that begins as k does, over the length of a
// fingerprint, and is no copy of it. The caller holds mu.
func (in *input) isCommon(k *known) bool {
	for o := range in.heads.Get(k.info.Head()) {
		if o.id != k.id && o.position > 0 && o.info.Info().Old == 0 {
			return true
		}
	}
	return false
}

// isSuperseded reports whether the file of k has a later generation, or another file, made after that of
// k, was read at the path of k before the time mtime, in ns. Then what was last written at that time is
// more likely to be later than k. The caller holds mu.
func (in *input) isSuperseded(k *known, mtime int64) bool {
	first, born := k.info.Info().First, k.node().Birth
	return !in.byNode.has(k) || born > 0 && some(in.known.All(), func(o *known) bool {
		at, info := o.node().Birth, o.info.Info()
		return born < at && at < mtime && info.First == first && in.Reads(info.Path) // else it was never read at first
	})
}

// isNameOf reports whether rotation may have given a file this path: same folder, and a
// name that begins with the file's name without its extension.
func isNameOf(path string, info record.FileInfo) bool {
	return slices.ContainsFunc(append(info.Paths(), info.First), func(was string) bool {
		return filepath.Dir(path) == filepath.Dir(was) && filepath.Base(path) != filepath.Base(was) && beginsWithStem(path, was)
	})
}

// isOfStem is isNameOf for a file that may have been moved to another folder too.
func isOfStem(path string, info record.FileInfo) bool {
	return slices.ContainsFunc(append(info.Paths(), info.First), func(was string) bool { return beginsWithStem(path, was) })
}

// beginsWithStem reports whether the name at path begins with the name at was without its extension.
func beginsWithStem(path, was string) bool {
	stem := rotation.Stem(filepath.Base(was))
	return stem != "" && strings.HasPrefix(filepath.Base(path), stem)
}
