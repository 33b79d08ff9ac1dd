package tail

import (
	"iter"
	"slices"
	"time"

	"kusto-agent/internal/compressed"
	"kusto-agent/internal/record"
	"kusto-agent/tail/internal/compare"
	"kusto-agent/tail/internal/inode"
	"kusto-agent/tail/internal/lineage"
	"kusto-agent/tail/internal/recent"
)

// generation is what is remembered of one generation of a file. Guarded by Tailer.mu.
type generation struct {
	of         *files
	id         record.FileID
	generation uint32
	intact     uint32 // number of the last scan that found its file as its reader left it

	info     record.Facts
	position int64       // all before was read; of its reader, at the end of its last turn
	safe     int64       // all before is safe
	mark     record.Mark // of the position
	reader   *reader     // who reads it; nil: nobody
	alike    *generation // of heads
	*past                // never nil, and changed by own alone
}

// past is what is remembered of few generations: of most it is uneventful.
type past struct {
	ahead   []record.Extent // beyond the position, in need of no reading
	trail   compare.Trail   // where reading stood before the position
	late    []byte          // what was read before the position, where that ends with a truncation; see keepLate
	missing time.Time       // when it was first found to have no file
	was     []inode.Node    // where it was before it went on in other files, see nodes
	left    compare.Departure

	anew      time.Time // when its file was found truncated or rewritten, and this generation began
	truncated time.Time // when reading ended with a truncation; zero: it did not, or in an earlier run
	changed   int64     // ns: when its file was last seen to change before that
	asked     int64     // see mayBeAnew
}

// uneventful is the past of all generations that have no own. It is never written.
var uneventful past

// file is the generation's name for other rooms.
func (k *generation) file() record.File {
	return record.File{Input: k.of.name, ID: k.id, Generation: k.generation}
}

// setFile makes k what is known of the generation f, of an input with these files.
func (k *generation) setFile(of *files, f record.File) {
	k.of, k.id, k.generation = of, f.ID, f.Generation
}

// newGeneration returns a generation of which nothing was read.
func newGeneration() *generation { return &generation{past: &uneventful} }

// own returns the past of a generation for writing. The caller holds mu.
func (k *generation) own() *past {
	if k.past == nil || k.past == &uneventful {
		k.past = new(past)
	}
	return k.past
}

// moveTo notes up to which offset a generation was read, with the mark there.
func (k *generation) moveTo(offset int64, mark record.Mark) {
	if offset > k.position && k.mark != 0 {
		k.own().trail.Add(k.position, k.mark)
	}
	k.position, k.mark = offset, mark
}

// places returns the trail with the position at its end. The caller owns the slice.
func (k *generation) places() compare.Trail {
	all := slices.Clone(k.trail)
	all.Add(k.position, k.mark)
	return all
}

// revive forgets how a generation ended, because a reader continues it.
func (k *generation) revive() {
	if k.past != &uneventful {
		k.anew, k.truncated, k.missing, k.left = time.Time{}, time.Time{}, time.Time{}, compare.Departure{}
	}
}

// recall loads what the journal remembers of the generations of an input, in the order of their
// files and generations. One whose file the journal lost in a power cut is of the same file as the
// one before if both have the same id; else it is found later by its id (see claim).
func (in *input) recall(states iter.Seq[State]) {
	var before *generation // the generation before, of the same file or another
	for s := range states {
		k := newGeneration()
		k.setFile(in.files, s.File)
		k.info, k.position, k.safe, k.mark = s.Info, s.Position, s.Position, s.Mark
		if len(s.Ahead) > 0 {
			k.own().ahead = s.Ahead
		}
		in.known.Put(k)
		if k.isUnnamed() && before != nil && before.id == k.id && !before.isUnnamed() && k.isComparable() {
			was := before.info.Info()
			k.name(was.Path, before.node(), was.Handle)
		}
		before = k
		if k.isUnnamed() {
			in.unnamed[k.id] = append(in.unnamed[k.id], k)
			continue
		}
		if is := k.info.Info(); is.Doubted != 0 && in.Carries() && compressed.IsNamed(is.Path) {
			in.untold[k.node()] = lineage.PackedAt(is.First, is.Birth, is.Birth)
		}
		in.heads.add(k)
		// The latest generation of an id counts. If one file has two ids, the one that was read
		// counts: the other was given to it while it was empty, and a kill prevented its removal.
		o := in.byNode.get(k.node())
		if o == nil || o.id == k.id && o.generation < k.generation || o.id != k.id && o.position < k.position {
			in.byNode.put(k)
		}
	}
}

// keepLate stores, with a generation that ends by a truncation, the bytes that were read of it
// last. If all store too much, the oldest lose theirs. The caller holds mu.
func (t *Tailer) keepLate(k *generation, late []byte) {
	k.own().late = late
	t.lates = append(t.lates, k)
	all := 0
	for i, k := range slices.Backward(t.lates) {
		if all += len(k.late); all > recent.Size {
			for _, old := range t.lates[:i+1] {
				old.own().late = nil
			}
			t.lates = slices.Delete(t.lates, 0, i+1)
			return
		}
	}
}

// sizeAt returns the size of the content of a file whose status is st. Of a compressed file it is
// the size that the inspection found.
func (k *generation) sizeAt(st inode.Status) int64 {
	if info := k.info.Info(); info.Packed.Size > 0 {
		return info.Size
	}
	return st.Size
}

// mayBeAnew reports whether a file of which all was read, and for which there is no reader, may have been written
// anew, to the same size: it was changed since that was last asked, when it was quiet.
func (k *generation) mayBeAnew(st inode.Status, quiet time.Duration) bool {
	if was := k.info.Info().Packed; was.Size > 0 {
		return was.Size != st.Size || was.Mtime != st.Mtime
	}
	is := k.asked != st.Ctime
	if is && time.Since(time.Unix(0, st.Ctime)) > quiet { // else it may still change at that time
		k.own().asked = st.Ctime
	}
	return is
}
