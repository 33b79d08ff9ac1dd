package logzip

import "hash/crc32"

// part compresses one part of a payload, src, in chunks, with the Huffman tables t of the stream,
// which it adapts to the text.
func (e *Encoder) part(t *Tables, src []byte) {
	clear(e.head[:])
	for s := 0; s < len(src); {
		n := e.chunk(t, src, s)
		e.pass(src[s : s+n])
		t.since += int32(n)
		s += n
	}
}

// pass adds bytes of the payload to its checksum, and calls Each with them, while they are in the
// cache of the processor.
func (e *Encoder) pass(p []byte) {
	e.sum = crc32.Update(e.sum, crc32.IEEETable, p)
	if e.Each != nil {
		e.Each(p)
	}
}

// chunk compresses the next bytes of src from start on, at most chunkSize and a match, and
// returns how many. It replaces the Huffman tables t of the stream if they do not fit the text
// any more, and stores the bytes plainly if compressing them does not make them smaller.
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
	if !checked && *usual > 0 && rate > *usual+*usual/8 { // larger than usual by more than an eighth
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
	if e.bitsOut()-began.total()+4*8 > 8*(s-start) { // longer than a stored block, whose header takes 4 bytes
		e.rewind(began)
		e.stored(src[start:s])
	}
	return s - start
}

// due reports whether it has to be checked if the tables still fit the text: at once if the rate
// of the last chunk differs from the usual one by an eighth, every checkEvery bytes if it differs
// by a thirty-second, and every checkAlways bytes in any case.
func (t *Tables) due() bool {
	return t.moved > t.rate/8 || t.since >= checkEvery && t.moved > t.rate/32 || t.since >= checkAlways
}

// rate returns how many bits of output were written since the place since, for each 1024 of the n
// bytes of input that they stand for.
func (e *Encoder) rate(since place, n int) int32 {
	return int32((e.bitsOut() - since.total()) * 1024 / max(n, 1))
}

// write compresses src from index s to end with the codes in use, and returns the index that it
// reached: a match may go beyond end.
func (e *Encoder) write(src []byte, s, end int) int {
	for limit := min(end, len(src)-margin); s < limit; {
		s = e.fast(src, s, e.reach(s, limit))
	}
	if end == len(src) { // fast does not work on the last margin bytes
		s = e.sample(src, s, end)
	}
	return s
}

// reach returns the index of the input, at most limit, up to which symbols may be written from
// index s on with the room that the output has. It makes some room first.
func (e *Encoder) reach(s, limit int) int {
	e.reserve(2 * headerRoom)
	return min(limit, s+(cap(e.dst)-e.o-outMargin)/2)
}

// sample compresses src from s to limit with the codes in use, counts the symbols in e.counts,
// and returns the index that it reached: a match may go beyond limit.
func (e *Encoder) sample(src []byte, s, limit int) int {
	for s < limit {
		s = e.careful(src, s, e.reach(s, limit))
	}
	return s
}

// learn makes the first tables t of a stream from the symbols of src[s:limit]. To count the
// symbols it writes them without codes, and then goes back to where it began.
func (e *Encoder) learn(t *Tables, src []byte, s, limit int) {
	began := e.here()
	e.use(&lengths{})
	e.counts = counts{}
	e.sample(src, s, limit)
	e.rewind(began)
	e.fit(&t.lengths)
	*t = Tables{lengths: t.lengths, known: true}
}

// fit makes tables from e.counts. Every symbol gets a code, also one that was not counted, since
// the tables serve other text too. It changes the counts: each is multiplied by 8, plus 1.
func (e *Encoder) fit(l *lengths) {
	e.counts[endOfBlock]++
	for i := range e.counts {
		e.counts[i] = 8*e.counts[i] + 1
	}
	e.counts[literals-2], e.counts[literals-1] = 0, 0 // symbols that deflate does not use
	e.build.build(e.counts[:literals], l[:literals], codeLimit)
	e.build.build(e.counts[literals:], l[literals:], codeLimit)
}

func (e *Encoder) describe(l *lengths) { e.header.describe(l, &e.build) }

// check compresses a sample of src from start on, and finds out from its symbols whether other
// tables would be better. If they save more than their header takes, they become t and a new
// block begins. It returns the index up to which it wrote. Most checks end after the first sample,
// as the symbols take no more bits above the least possible than when other tables were tried in
// vain.
func (e *Encoder) check(t *Tables, src []byte, start, end int) int {
	t.since, t.moved = 0, 0
	e.counts = counts{}
	s := e.sample(src, start, min(start+sampleSize, end))
	cost := e.counts.cost(&t.lengths)
	waste := int32((cost - e.counts.least()) * 1024 / max(cost, 1))
	if waste <= max(1024/128, t.waste) { // no tables can be much better, or were when they wasted as much
		return s
	}
	s = e.sample(src, s, min(s+sampleSize, end)) // new tables need more symbols
	old := e.counts.cost(&t.lengths)
	e.fit(&e.fresh)
	e.describe(&e.fresh)
	gain := old - e.gauge(&e.fresh)
	rest := min(len(src)-s, checkEvery)
	switch {
	case gain < old/128:
		t.waste = waste
		return s
	case int64(gain)*int64(rest)/int64(s-start) < int64(e.header.size()):
		return s
	}
	t.waste = 0
	t.lengths = e.fresh
	e.endBlock()
	e.openDynamic(&t.lengths)
	return s
}

// gauge returns how many bits the counted symbols take with the code lengths l. It is for counts
// that fit has multiplied by 8.
func (e *Encoder) gauge(l *lengths) (bits int) {
	for i, n := range e.counts {
		bits += int(n/8) * int(l[i])
	}
	return bits
}

// again compresses a chunk, src[start:end], a second time, because the result was much larger
// than usual: it goes back to began, the beginning of the chunk, and uses new tables if they are
// better. It returns the index up to which it wrote.
func (e *Encoder) again(t *Tables, src []byte, start, end int, began place) int {
	e.rewind(began)
	e.counts = counts{}
	e.sample(src, start, min(start+2*sampleSize, end))
	e.rewind(began)
	old := e.counts.cost(&t.lengths)
	e.fit(&e.fresh)
	if e.gauge(&e.fresh) < old-old/32 {
		t.waste = 0
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

// small compresses a payload of at most smallSize bytes, in two passes: the first counts the
// symbols, the second writes them with tables of their own, or with the fixed ones of deflate, or
// stores the bytes plainly, whichever is smallest.
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
