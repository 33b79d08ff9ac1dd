package tail

import (
	"hash/maphash"
	"iter"

	"kusto-agent/internal/index"
	"kusto-agent/internal/record"
	"kusto-agent/tail/internal/inode"
)

// Files are found by what is known of them anyway, so that hundreds of thousands cost
// little: the key of each is in the value. What changes a key takes the value out first.

// nodes finds the latest generation of a file that is there. Guarded by Tailer.mu.
type nodes struct {
	now    *index.Index[inode.Node, generation] // by the node that each has
	former map[inode.Node]*generation           // by one that it had before it went on in another file
}

func newNodes() nodes {
	return nodes{now: index.New((*generation).node), former: make(map[inode.Node]*generation)}
}

// node is where the generation is, or was when it was last seen.
func (k *generation) node() inode.Node {
	dev, ino, birth := k.info.Inode()
	if birth != 0 {
		return inode.NewNode(dev, ino, birth, "")
	}
	return inode.Of(k.info.Info())
}

// get returns the latest generation of the file n, also if a rotation has copied its content and
// the generation goes on in the copy; nil: none is known.
func (x *nodes) get(n inode.Node) *generation {
	if k := x.now.Get(n); k != nil {
		return k
	}
	return x.former[n]
}

// put makes k the generation of the file where it is.
func (x *nodes) put(k *generation) {
	delete(x.former, k.node())
	x.now.Put(k)
}

func (x *nodes) remove(n inode.Node) {
	x.now.Delete(n)
	delete(x.former, n)
}

// forget removes a generation from where it is and was, unless another is found there by now.
func (x *nodes) forget(k *generation) {
	for _, n := range append(k.was, k.node()) {
		if x.get(n) == k {
			x.remove(n)
		}
	}
}

// has reports whether k is the latest generation of its file.
func (x *nodes) has(k *generation) bool { return x.get(k.node()) == k }

// has reports whether a file is being read, or remembered. The caller holds mu.
func (in *input) has(n inode.Node) bool { return in.readers.Get(n) != nil || in.byNode.get(n) != nil }

// describe sets the facts of the generation k to info, in the indexes too. If k now goes on in
// another file, because a rotation copied its content, the node of the old file still finds it
// through former. The caller holds mu.
func (in *input) describe(k *generation, info record.FileInfo) {
	was, head, facts := k.node(), k.info.Head(), info.Facts()
	if facts == k.info {
		return
	}
	if was != inode.Of(info) && in.byNode.now.Get(was) == k {
		in.byNode.now.Delete(was)
		in.byNode.former[was] = k
		k.own().was = append(k.was, was)
	}
	if head != info.Head {
		in.heads.remove(k)
	}
	k.info = facts
	if head != info.Head {
		in.heads.add(k)
		if k.of != nil && in.known.Get(k.file()) == k {
			in.known.Put(k)
		}
	}
}

// node is where the file of the reader is, see inode.Node. The caller holds mu. A reader
// without a turn may have dropped its copy of the facts (reading is nil), so those of its
// generation are used.
func (r *reader) node() inode.Node {
	if r.reading != nil { // not inode.Of: a worker may write to other fields of info
		return inode.NewNode(r.Info.Dev, r.Info.Inode, r.Info.Birth, r.Info.Handle)
	}
	return r.k.node()
}

func newReaders() *index.Index[inode.Node, reader] { return index.New((*reader).node) }

// generations finds every generation that is remembered. Guarded by Tailer.mu.
type generations struct {
	*index.Index[record.File, generation]
	headless *index.Index[record.File, generation] // those that have no head
	firsts   *firsts
}

// firsts finds generations by the path at which their files were found first. It is made when foundAt is called.
type firsts struct {
	seed maphash.Seed
	all  []first // may have some twice, and some that were forgotten; nil: foundAt was not called
}

type first struct {
	sum uint64 // of the path
	k   *generation
}

func newGenerations() generations {
	return generations{index.New((*generation).file), index.New((*generation).file), &firsts{seed: maphash.MakeSeed()}}
}

// Put adds a generation, or notes that its head or first path has changed.
func (x generations) Put(k *generation) {
	x.Index.Put(k)
	if k.info.Head().Len == 0 {
		x.headless.Put(k)
	} else {
		x.headless.Delete(k.file())
	}
	if x.firsts.all != nil {
		x.firsts.add(k)
	}
}

func (f *firsts) add(k *generation) {
	f.all = append(f.all, first{maphash.String(f.seed, k.info.Info().First), k})
}

// foundAt yields the generations whose files were found at a path first.
func (x generations) foundAt(path string) iter.Seq[*generation] {
	f := x.firsts
	if f.all == nil {
		for k := range x.All() {
			f.add(k)
		}
	}
	return func(yield func(*generation) bool) {
		sum := maphash.String(f.seed, path)
		for _, o := range f.all {
			if o.sum == sum && o.k.info.Info().First == path && x.Get(o.k.file()) == o.k && !yield(o.k) {
				return
			}
		}
	}
}

// dropFirsts frees what foundAt has made.
func (x generations) dropFirsts() { x.firsts.all = nil }

// Delete removes a generation, if it is there.
func (x generations) Delete(f record.File) {
	x.Index.Delete(f)
	x.headless.Delete(f)
}

// heads finds generations by how their content begins; those of which nobody knows are
// not in it. Guarded by Tailer.mu.
type heads struct {
	*index.Groups[record.Head, generation]
}

func newHeads() heads {
	return heads{index.NewGroups(func(k *generation) record.Head { return k.info.Head() }, func(k *generation) **generation { return &k.alike })}
}

// add has the generation k found by its head (a hash of the first bytes), if it has one.
func (x heads) add(k *generation) {
	if k.info.Head().Len > 0 {
		x.Add(k)
	}
}

func (x heads) remove(k *generation) {
	if k.info.Head().Len > 0 {
		x.Delete(k)
	}
}

func newPaths() *index.Groups[string, reader] {
	return index.NewGroups(func(r *reader) string { return r.path() }, func(r *reader) **reader { return &r.beside })
}

// some reports whether the function is returns true for one of the values.
func some[V any](all iter.Seq[V], is func(V) bool) bool {
	for v := range all {
		if is(v) {
			return true
		}
	}
	return false
}

// knownOf returns what is known of a generation; nil: nothing is. The caller holds mu.
func (t *Tailer) knownOf(f record.File) *generation {
	if in := t.byName[f.Input]; in != nil {
		return in.known.Get(f)
	}
	return nil
}

// files is how many files are being read. The caller holds mu.
func (t *Tailer) files() (n int) {
	for in := range t.everyInput {
		n += in.readers.Len()
	}
	return n
}
