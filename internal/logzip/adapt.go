package logzip

import "hash/crc32"

// part compresses one part of a payload.
func (e *Encoder) part(t *Tables, src []byte) {
	clear(e.head[:])
	for s := 0; s < len(src); {
		n := e.chunk(t, src, s)
		e.pass(src[s : s+n])
		t.since += int32(n)
		s += n
	}
}

// pass sums up bytes of the payload while they are in the cache.
func (e *Encoder) pass(p []byte) {
	e.sum = crc32.Update(e.sum, crc32.IEEETable, p)
	if e.Each != nil {
		e.Each(p)
	}
}

// chunk compresses the next bytes of src from start on, at most chunkSize and a
// match, and returns how many.
func (e *Encoder) chunk(t *Tables, src []byte, start int) int {
	rest := len(src) - start
	chunks := (rest + chunkSize - 1) / chunkSize
	end := start + (rest+chunks-1)/chunks
	began := e.here()
	if !t.known {
		e.learn(t, src, start, min(start+2*sampleSize, end))
	}
	if !e.open {
		e.describe(&t.lengths)
		e.openDynamic(&t.lengths)
	}
	// What a payload begins with has nothing to match, and says little of the rest.
	typical := start > 0 && rest >= chunkSize/2
	checked := t.due() && (typical || len(src) <= chunkSize)
	s := start
	if checked {
		s = e.check(t, src, s, end)
	}
	s = e.write(src, s, end)
	rate, usual := e.rate(began, s-start), &t.rate
	if start == 0 {
		usual = &t.first
	}
	if !checked && *usual > 0 && rate > *usual+*usual/8 {
		s = e.again(t, src, start, end, began)
		checked, rate = true, e.rate(began, s-start)
	}
	switch {
	case start == 0:
		t.first = rate
	case !typical:
	case checked || t.rate == 0:
		t.rate = rate
	default:
		t.moved = max(rate-t.rate, t.rate-rate)
	}
	if e.bitsOut()-began.total()+4*8 > 8*(s-start) {
		e.rewind(began)
		e.stored(src[start:s])
	}
	return s - start
}

// due reports whether the tables are to be held against the text: at once where
// the output became larger or smaller by an eighth, every checkEvery bytes if it
// moved by a thirty-second, and else every checkAlways bytes.
func (t *Tables) due() bool {
	return t.moved > t.rate/8 || t.since >= checkEvery && t.moved > t.rate/32 || t.since >= checkAlways
}

// rate is the bits for each 1024 of the n bytes written since.
func (e *Encoder) rate(since place, n int) int32 {
	return int32((e.bitsOut() - since.total()) * 1024 / max(n, 1))
}

// write writes src from s to end with the codes in use.
func (e *Encoder) write(src []byte, s, end int) int {
	for limit := min(end, len(src)-margin); s < limit; {
		s = e.fast(src, s, e.reach(s, limit))
	}
	if end == len(src) {
		s = e.sample(src, s, end)
	}
	return s
}

// reach is how far towards limit the matchers may go with the room there is, of
// which it makes some.
func (e *Encoder) reach(s, limit int) int {
	e.reserve(2 * headerRoom)
	return min(limit, s+(cap(e.dst)-e.o-outMargin)/2)
}

// sample counts the symbols of src from s to limit, and writes them.
func (e *Encoder) sample(src []byte, s, limit int) int {
	for s < limit {
		s = e.careful(src, s, e.reach(s, limit))
	}
	return s
}

// learn makes the first tables of a stream. What it writes meanwhile is nothing
// anybody could read.
func (e *Encoder) learn(t *Tables, src []byte, s, limit int) {
	began := e.here()
	e.use(&lengths{})
	e.counts = counts{}
	e.sample(src, s, limit)
	e.rewind(began)
	e.fit(&t.lengths)
	*t = Tables{lengths: t.lengths, known: true}
}

// fit makes tables from the counts in which every symbol has a code, since they
// serve text that was not counted.
func (e *Encoder) fit(l *lengths) {
	e.counts[endOfBlock]++
	for i := range e.counts {
		e.counts[i] = 8*e.counts[i] + 1
	}
	e.counts[literals-2], e.counts[literals-1] = 0, 0
	e.build.build(e.counts[:literals], l[:literals], codeLimit)
	e.build.build(e.counts[literals:], l[literals:], codeLimit)
}

func (e *Encoder) describe(l *lengths) { e.header.describe(l, &e.build) }

// check writes a sample and holds the tables against it. Where others would be
// better by enough they replace them. It returns how far it wrote.
func (e *Encoder) check(t *Tables, src []byte, start, end int) int {
	t.since, t.moved = 0, 0
	e.counts = counts{}
	s := e.sample(src, start, min(start+sampleSize, end))
	if old := e.counts.cost(&t.lengths); e.counts.least() > old-old/128 {
		return s
	}
	s = e.sample(src, s, min(s+sampleSize, end))
	old := e.counts.cost(&t.lengths)
	e.fit(&e.fresh)
	e.describe(&e.fresh)
	gain := old - e.gauge(&e.fresh)
	rest := min(len(src)-s, checkEvery)
	if gain < old/128 || int64(gain)*int64(rest)/int64(s-start) < int64(e.header.size()) {
		return s
	}
	t.lengths = e.fresh
	e.endBlock()
	e.openDynamic(&t.lengths)
	return s
}

// gauge is the cost of what was counted before fit.
func (e *Encoder) gauge(l *lengths) (bits int) {
	for i, n := range e.counts {
		bits += int(n/8) * int(l[i])
	}
	return bits
}

// again goes back to the beginning of a chunk that became much larger than those
// before, and writes it with tables of its own if they are better.
func (e *Encoder) again(t *Tables, src []byte, start, end int, began place) int {
	e.rewind(began)
	e.counts = counts{}
	e.sample(src, start, min(start+2*sampleSize, end))
	e.rewind(began)
	old := e.counts.cost(&t.lengths)
	e.fit(&e.fresh)
	if e.gauge(&e.fresh) < old-old/32 {
		t.lengths = e.fresh
		e.endBlock()
	}
	if !e.open {
		e.describe(&t.lengths)
		e.openDynamic(&t.lengths)
	}
	t.since, t.moved = 0, 0
	return e.write(src, start, end)
}

// small compresses a payload for which tables of its own may pay: it is gone
// through twice.
func (e *Encoder) small(parts [][]byte) {
	began := e.here()
	e.use(&fixed)
	e.counts = counts{}
	for _, p := range parts {
		clear(e.head[:])
		e.sample(p, 0, len(p))
	}
	e.rewind(began)
	for _, p := range parts {
		e.pass(p)
	}
	e.counts[endOfBlock]++
	e.build.build(e.counts[:literals], e.fresh[:literals], codeLimit)
	e.build.build(e.counts[literals:], e.fresh[literals:], codeLimit)
	e.describe(&e.fresh)
	if e.counts.cost(&fixed) < e.counts.cost(&e.fresh)+e.header.size() {
		e.openFixed()
	} else {
		e.openDynamic(&e.fresh)
	}
	for _, p := range parts {
		clear(e.head[:])
		e.sample(p, 0, len(p))
	}
	if e.bitsOut()-began.total() > 8*e.raw {
		e.rewind(began)
		for _, p := range parts {
			e.stored(p)
		}
	}
}
