package corpus

import (
	"strconv"
	"strings"
	"time"
)

// random is a splitmix64 generator: what it yields depends on no library.
type random uint64

func (r *random) next() uint64 {
	*r += 0x9E3779B97F4A7C15
	z := uint64(*r)
	z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
	z = (z ^ z>>27) * 0x94D049BB133111EB
	return z ^ z>>31
}

// below is a number from 0 to n-1.
func (r *random) below(n uint64) uint64 { return r.next() % n }

// skewed is a number from 0 to n-1, small ones far more often.
func (r *random) skewed(n int) int {
	f := float64(r.next()>>11) / (1 << 53)
	return int(f * f * f * float64(n))
}

func (r *random) chance(percent uint64) bool { return r.below(100) < percent }

// writer appends records to a buffer. What the records of a stream share stays in
// it: the clock, and which of several kinds is being written.
type writer struct {
	random
	buf   []byte
	clock uint64 // microseconds since 1970
	phase int    // of a stream that changes its kind
	left  int    // bytes until it does

	clients [64]struct{ ip, agent, user string }
}

// aside is what write appends, which is not written.
func (w *writer) aside(write func()) string {
	n := len(w.buf)
	write()
	s := string(w.buf[n:])
	w.buf = w.buf[:n]
	return s
}

func (w *writer) text(parts ...string) {
	for _, s := range parts {
		w.buf = append(w.buf, s...)
	}
}

// one appends one of several words, the first ones more often.
func (w *writer) one(words []string) { w.text(words[w.skewed(len(words))]) }

func (w *writer) number(n uint64) { w.buf = strconv.AppendUint(w.buf, n, 10) }

// padded appends a number with leading zeros.
func (w *writer) padded(n uint64, digits int) {
	var b [20]byte
	for i := digits - 1; i >= 0; i-- {
		b[i], n = byte('0'+n%10), n/10
	}
	w.buf = append(w.buf, b[:digits]...)
}

func (w *writer) hex(digits int) {
	const set = "0123456789abcdef"
	var bits uint64
	for i := range digits {
		if i%16 == 0 {
			bits = w.next()
		}
		w.buf = append(w.buf, set[bits&15])
		bits >>= 4
	}
}

func (w *writer) uuid() {
	for i, n := range []int{8, 4, 4, 4, 12} {
		if i > 0 {
			w.text("-")
		}
		w.hex(n)
	}
}

func (w *writer) letters(n int) {
	for range n {
		w.buf = append(w.buf, "bcdfghjklmnpqrstvwxz2456789"[w.below(27)])
	}
}

// tick moves the clock by a moment.
func (w *writer) tick(most uint64) { w.clock += w.below(most) }

func (w *writer) time(layout string) {
	w.buf = time.UnixMicro(int64(w.clock)).UTC().AppendFormat(w.buf, layout)
}

func (w *writer) ip() {
	w.text([]string{"10.", "10.", "10.", "172.", "192.", "81.", "93.", "203."}[w.skewed(8)])
	w.number(w.below(256))
	w.text(".")
	w.number(w.below(256))
	w.text(".")
	w.number(w.below(256))
}

// sentence appends words as people put them into messages.
func (w *writer) sentence(least, most int) {
	n := least + w.skewed(most-least+1)
	for i := range n {
		if i > 0 {
			w.text(" ")
		}
		switch {
		case w.chance(6):
			w.number(w.below(10_000))
		case w.chance(3):
			w.text("0x")
			w.hex(8)
		default:
			w.one(words)
		}
	}
}

// agent appends a user agent; browsers come in many versions.
func (w *writer) agent() {
	a := agents[w.skewed(len(agents))]
	i := strings.Index(a, "Chrome/")
	if i < 0 || w.chance(30) {
		w.text(a)
		return
	}
	w.text(a[:i], "Chrome/")
	w.number(uint64(128 - w.skewed(40)))
	w.text(".0.0.0 Safari/537.36")
}
