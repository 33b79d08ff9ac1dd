package archive

import "slices"

// MostUnpacking is how many files are decompressed at a time: each takes memory that is not counted, and
// a reader that has given its place away has to decompress its file from the start again.
const MostUnpacking = 4

// Places are those in which readers may decompress their files. It is not safe for concurrent use.
type Places[R comparable] struct{ taken, waiting []R }

// Take gives r a place, unless it has one, and reports whether it has. If none is free it gets that of a
// reader that is stalled, from. If there is none, r waits, and Leave returns it.
func (p *Places[R]) Take(r R, stalled func(R) bool) (has bool, from R) {
	if slices.Contains(p.taken, r) {
		return true, from
	}
	if len(p.taken) >= MostUnpacking {
		i := slices.IndexFunc(p.taken, stalled)
		if i < 0 {
			if !slices.Contains(p.waiting, r) {
				p.waiting = append(p.waiting, r)
			}
			return false, from
		}
		from = p.taken[i]
		p.taken = slices.Delete(p.taken, i, i+1)
	}
	p.waiting = slices.DeleteFunc(p.waiting, func(o R) bool { return o == r })
	p.taken = append(p.taken, r)
	return true, from
}

// Leave takes the place of r away, if it has one, and returns the reader that has waited longest and may
// ask again. The zero reader: none does. r itself waits no more.
func (p *Places[R]) Leave(r R) (next R) {
	p.waiting = slices.DeleteFunc(p.waiting, func(o R) bool { return o == r })
	i := slices.Index(p.taken, r)
	if i < 0 {
		return next
	}
	p.taken = slices.Delete(p.taken, i, i+1)
	if len(p.waiting) > 0 {
		next = p.waiting[0]
		p.waiting = p.waiting[1:]
	}
	return next
}
