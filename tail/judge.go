package tail

import (
	"slices"
	"time"

	"kusto-agent/internal/record"
	"kusto-agent/tail/internal/compare"
	"kusto-agent/tail/internal/identity"
	"kusto-agent/tail/internal/tracker"
)

// resemblance is whose content a compressed file has.
type resemblance struct {
	is   identity.Verdict
	of   *generation   // nil: of no file that is known; for a file of its own it is one that it only begins like
	upTo compare.Place // so far it was read, for identity.Rest
}

// judge decides whose content a compressed file has. Unlike a plain copy, it is never read while its
// original is: then the verdict is Copy, of no file if it is not known yet of which. The caller holds
// mu.
func (t *Tailer) judge(p *packed) (x resemblance) {
	if k := p.generation(); k != nil {
		f := identity.Facts{Node: identity.SameNode, Compressed: true}
		was := k.original()
		f.Content, _ = was.IsIn(p.facts)
		if f.Content == identity.Prefix || f.Content == identity.Part {
			f.Content = identity.Holds // it is shorter than what was read, and was recognized so before
		}
		return resemblance{of: k, is: identity.Judge(f)}
	}
	open := false // a file that is being read has to be read on before it can be compared
	var like *generation
	for _, o := range p.alike(p.facts.Heads) {
		was := o.original()
		f, at := o.comparePacked(p, &was)
		v := identity.Judge(f)
		switch {
		case f.Content == identity.Unknown && o.reader != nil && !o.reader.atEnd:
			open = true
		case f.Content == identity.Unknown:
			return resemblance{is: identity.Undecided}
		case v != identity.Own && (x.of == nil || o.position > x.of.position || o.position == x.of.position && v > x.is): // rather of one that is gone
			x = resemblance{v, o, at}
		case v == identity.Own && (f.Content.Agrees() || was.GoesOnAfter(p.facts)) && p.isRatherOf(o, like):
			like = o
		}
	}
	switch {
	case x.of != nil:
	case open || p.isAwaited():
		x.is = identity.Copy
	default:
		x.of = like
	}
	return x
}

// comparePacked returns how the content of a compressed file compares with the generation k, of which
// was is known, and up to where it was read (see compare.Original.IsIn).
func (k *generation) comparePacked(p *packed, was *compare.Original) (f identity.Facts, upTo compare.Place) {
	f = identity.Facts{Node: identity.Older, Fate: compare.FateOf(k.reader != nil, k.left, k.truncated), Compressed: true}
	if f.Fate == identity.Renamed {
		f.Fate = identity.Past // it was compressed after that
	}
	switch {
	case compare.IsStale(p.st, k.node().Birth):
		f.Node = identity.Stale
	case k.reader == nil && k.left.At > 0 && p.st.Mtime > k.left.At:
		f.Node = identity.Younger // compressing keeps the time at which its content was written
	}
	if f.Content, upTo = was.IsIn(p.facts); f.Content.IsAll() {
		if is := k.evidence(p, f.Fate, !p.matched && was.IsOlder(p.st)); is != identity.Holds {
			f.Content = is
		}
	}
	return f, upTo
}

// mayHoldRest reports whether a compressed file that is not proven to be a copy of k may hold what was
// not read of that: k is lost, and p begins with all that was read of it, has a name like it, and was
// written to since k was made. Nil: false. The caller holds mu.
func (p *packed) mayHoldRest(k *generation) bool {
	if k == nil || !slices.Contains(p.in.lost, k) || !k.truncated.IsZero() || p.st.Mtime < k.node().Birth {
		return false
	}
	was := k.original()
	content, _ := was.IsIn(p.facts)
	return !was.IsOlder(p.st) && content.IsAll() && compare.IsOfStem(p.path, k.info.Info())
}

// isRatherOf reports whether a compressed file that begins like k and like was is rather of k: of several logs with the
// same header, of the one that it may have the rest of, else of the one of which most was read. The caller holds mu.
func (p *packed) isRatherOf(k, was *generation) bool {
	if was == nil {
		return true
	}
	if has := p.mayHoldRest(k); has != p.mayHoldRest(was) {
		return has
	}
	return k.position > was.position
}

// isAwaited reports whether a plain file of which nothing was read yet may have, by its name, the
// same content. The compressed file then waits for it.
func (p *packed) isAwaited() bool {
	for r := range p.in.readers.All() {
		if r.k.position == 0 && r.shown.size > 0 && r.k.info.Head().Len == 0 && r.life.Turn() != tracker.Resting && compare.IsNameOf(p.path, r.k.info.Info()) {
			return true
		}
	}
	return false
}

// alike returns the generations that the compressed file may contain: those with one of these
// heads, and those that are too short for a head and have a matching name.
func (p *packed) alike(heads []record.Head) (all []*generation) {
	for _, h := range heads {
		all = slices.AppendSeq(all, p.in.heads.Get(h))
	}
	for k := range p.in.known.headless.All() {
		if k.mark != 0 && compare.IsOfStem(p.path, k.info.Info()) {
			all = append(all, k)
		}
	}
	return all
}

// places asks for the offsets, in order, at which an inspection takes hashes of a compressed file:
// those for which a generation that it may contain has one.
type places struct {
	p     *packed
	heads []record.Head // of its beginning
	all   []int64
}

func (e *places) happen(*Tailer) {
	var all []int64
	add := func(k *generation) {
		all = append(all, k.position)
		for _, at := range k.trail {
			all = append(all, at.Offset)
		}
	}
	p := e.p
	if k := p.in.byNode.get(p.st.Node); k != nil {
		add(k)
	}
	for _, k := range p.alike(e.heads) {
		add(k)
	}
	slices.Sort(all)
	all = slices.Compact(all)
	for len(all) > 0 && all[0] == 0 {
		all = all[1:]
	}
	e.all = all
}

// enoughAlike is identity.Enough where other files are known to begin in the same way: less may be
// the banner of an application or a header, which tells nothing about which of its files it is.
const enoughAlike = 64 << 10

// evidence says how much it means that a compressed file begins with what was read of k, which came
// to the end fate. Holds: the file counts as a copy, because at least identity.Enough bytes are
// equal, or its name matches, of which less is asked where k was truncated just now. Differs: the sizes
// show that it is none. Little: that proves nothing, because fewer bytes are equal, or because nobody saw
// the file of k come to its end and the name of p is another one, other files begin like k too, the content
// of p is of later than k or of before (older: by when p was made), or may be of a later generation, or k is a
// compressed file too, and holds less. Unknown: k has to be read on first.
func (k *generation) evidence(p *packed, fate identity.Fate, older bool) identity.Content {
	is := k.info.Info()
	ofStem := compare.IsOfStem(p.path, is)
	enough, unseen := k.mark != 0 && k.position >= identity.Enough, fate == identity.Past || k.left.Unseen
	earlier := older || p.st.Mtime < k.node().Birth // compressing keeps that time: it has what was written before k was made
	less := k.reader != nil && k.reader.z != nil && !k.reader.z.file.Cut && is.Size < p.facts.Size
	switch {
	case (unseen || fate == identity.Untouched) && !ofStem, earlier && k.position < enoughAlike,
		(unseen || less) && k.position < enoughAlike && (p.in.isCommon(k) || p.in.isOneOfTwo(k) || fate == identity.Past && !p.in.byNode.has(k)),
		less && !enough, unseen && !enough && p.in.isSuperseded(k, p.st.Mtime):
		return identity.Little
	case k.reader != nil && !k.reader.life.IsGone() && k.reader.atEnd && p.facts.Size > k.position:
		return identity.Differs // that file is read to its end and p has more, so p is another file
	case enough:
		return identity.Holds
	case is.Done && k.truncated.IsZero() && k.position != p.facts.Size:
		return identity.Differs // k was read to its end, so a copy would have the same size
	case compare.IsNameOf(p.path, is), time.Since(k.truncated) < compare.FreshCopy && ofStem:
		return identity.Holds
	case k.reader != nil && !k.reader.atEnd && k.reader.failed == nil:
		return identity.Unknown // until more of it is read
	}
	return identity.Little
}

// isCommon reports whether another file was read that begins as k does, over the length of a
// fingerprint, and is no copy of it. The caller holds mu.
func (in *input) isCommon(k *generation) bool {
	for o := range in.heads.Get(k.info.Head()) {
		if o.id != k.id && o.position > 0 && o.info.Info().Old == 0 {
			return true
		}
	}
	return false
}

// isOneOfTwo reports whether the file of k has a later generation that was not read to its end, and is gone: what
// begins like k may be that one, too. The caller holds mu.
func (in *input) isOneOfTwo(k *generation) bool {
	last := in.byNode.get(k.node())
	return last != nil && last != k && last.reader == nil && !last.info.Info().Done
}

// isSuperseded reports whether the file of k has a later generation, or another file, made after that of
// k, was read at the path of k before the time mtime, in ns. Then what was last written at that time is
// more likely to be later than k. The caller holds mu.
func (in *input) isSuperseded(k *generation, mtime int64) bool {
	born := k.node().Birth
	return !in.byNode.has(k) || born > 0 && some(in.known.foundAt(k.info.Info().First), func(o *generation) bool {
		at := o.node().Birth
		return born < at && at < mtime && in.Reads(o.info.Info().Path) // else it was never read at first
	})
}
