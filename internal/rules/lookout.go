package rules

import (
	"bytes"

	"kusto-agent/internal/jsontext"
)

// Of most records no condition holds, and most of those lack a text that they would have
// to have: a value of in, or a part of what an expression matches.
// The texts are searched for in the block that the records lie in, some way ahead of the
// record at hand and many times faster than records are taken apart; only a record that
// has one is. Where the name of a member is made of rarer bytes than its values, the name
// is searched for, and whatever stands behind it compared. In JSON a character can be
// written as \u: a record with such a one that a text has is taken apart too.

// farAhead is how many bytes are searched at a time: they are still in the cache of a core
// when their records are asked about.
const farAhead = 16 << 10

// lookout searches a block for needles.
type lookout struct {
	block   []byte
	ahead   int    // bytes that are searched at a time
	marks   []mark // by the index in Set.needles
	escapes mark   // of characters written as \u that a needle has
	calm    int    // no record up to there has anything of either; -1: nobody knows
	sent    int    // calm, if such records are sent, else -1
}

// mark is how far a search has come. Between the record at hand and the mark nothing
// begins that is looked for.
type mark struct {
	at    int
	found bool // there it does
}

// Begin sets the block of records about which At is asked next. The bytes of a record must not
// change before At has been asked about it.
func (j *Judge) Begin(block []byte) {
	l := &j.look
	l.block, l.calm, l.sent, l.escapes = block, -1, -1, mark{}
	clear(l.marks)
}

// Calm reports whether a record of the block that ends at an index, and does not begin
// before that asked about last, is sent: At would be -1.
func (j *Judge) Calm(end int) bool { return end <= j.look.sent }

// At returns the index of the reason for which rules filter the record block[start:end], without
// its line end; -1: it is sent. It is only for records of which parsing made no other object. The
// records of a block have to be asked about in order.
func (j *Judge) At(start, end int) int {
	if end <= j.look.calm { // none of the texts that conditions require is in the record
		return j.set.calm
	}
	text := j.look.block[start:end]
	var object []byte
	if j.kind == Object {
		object = text
	}
	j.start, j.end, j.looks = start, end, true
	reason := j.Of(text, object)
	j.looks = false
	if j.set.guarded { // how far is the block known to have none of these texts?
		l := &j.look
		l.calm = len(l.block)
		if j.kind == Object {
			l.calm = l.escapes.at
		}
		for i := range l.marks {
			l.calm = min(l.calm, l.marks[i].at)
		}
		if j.set.calm < 0 {
			l.sent = l.calm
		}
	}
	return reason
}

// near reports whether the current record contains one of the texts that the condition c requires
// (needles), or may contain one in escaped form. If it is false, the condition does not hold.
func (j *Judge) near(c *condition) bool {
	for _, k := range c.needles {
		n, index := &j.set.needles[k], j.set.needles[k].index
		if n.named { // the name of a member: look at the value behind it too
			index = func(b []byte) int { return j.indexHeld(c, b, false) }
		}
		if m := &j.look.marks[k]; j.advance(m, len(n.text), index) && m.at+len(n.text) <= j.end {
			return true
		}
	}
	return c.member != "" && j.escaped()
}

// escaped reports whether the record at hand has a character written as \u that a needle
// has.
func (j *Judge) escaped() bool {
	return j.advance(&j.look.escapes, leastEscape, j.set.hidden.index)
}

// advance moves m, which says how far the search for a text has come in the block, to the next
// occurrence of the text, or past the current record. It reports whether the text begins in the
// record. index finds the text in the bytes given to it (-1: it is not there); length is that of
// the text.
func (j *Judge) advance(m *mark, length int, index func([]byte) int) bool {
	if m.at < j.start {
		m.at, m.found = j.start, false
	}
	block := j.look.block
	for !m.found && m.at < j.end {
		to := min(m.at+j.look.ahead, len(block))
		if k := index(block[m.at:min(to+length-1, len(block))]); k >= 0 {
			m.at, m.found = m.at+k, true
		} else {
			m.at = to
		}
	}
	return m.found && m.at < j.end
}

// characters are those that needles have.
type characters struct {
	ascii [2]uint64
	any   bool
	wide  bool // others too
}

// add adds the characters of a text. All characters above ASCII count as one.
func (c *characters) add(text []byte) {
	for _, b := range text {
		if c.any = true; b >= 0x80 {
			c.wide = true
		} else {
			c.ascii[b/64] |= 1 << (b % 64)
		}
	}
}

// has reports whether a character was added; for one above ASCII, whether any such character was.
func (c *characters) has(r rune) bool {
	if r >= 0x80 {
		return c.wide
	}
	return c.ascii[r/64]>>(r%64)&1 != 0
}

// leastEscape is the length of a character written as \u.
const leastEscape = len(`\u0000`)

// index returns the index in b at which one of the characters is first written as a \u escape;
// -1: nowhere.
func (c *characters) index(b []byte) int {
	if !c.any {
		return -1
	}
	for i := 0; ; i += 2 {
		k := bytes.Index(b[i:], []byte(`\u`))
		if k < 0 {
			return -1
		}
		i += k
		if r, ok := jsontext.HexRune(b[i+2:]); ok && c.has(r) {
			return i
		}
	}
}
