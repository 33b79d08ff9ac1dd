package query

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"kusto-agent/internal/kusto/internal/reply"
)

// scanner reads JSON from a stream and checks it, without building what it reads:
// what it takes is its window, the text it is given to fill, and a byte for each
// level of nesting. Strings may hold invalid UTF-8, as the answers of the service
// do; space between tokens is left out of what is copied.
type scanner struct {
	r     io.Reader
	buf   [64 << 10]byte // the window: what was read and not yet consumed is buf[pos:end]
	pos   int
	end   int
	stack []byte // the opening braces and brackets of the value that is read
}

const (
	// maxDepth bounds nesting, as encoding/json does.
	maxDepth = 10_000
	// maxWord bounds a number, in bytes. A decimal of the service has 34 digits.
	maxWord = 1024
)

// errSize: a piece of an answer is larger than the bound on held rows.
var errSize = errors.New("the result has a value that is too large to be read")

// text is where a value is copied to. It grows in few steps, so that growing
// costs little more than its limit in all.
type text struct {
	b     []byte
	limit int
	cut   bool // what is above the limit is left out; else it is an error
}

// Steps of a text: most rows fit the first.
var textSteps = [...]int{4 << 10, 64 << 10, 3 << 20}

// add appends p, and enlarges the buffer in few steps. Beyond the limit it fails, or, if t.cut is
// set, drops the rest. A nil text drops everything.
func (t *text) add(p []byte) error {
	if t == nil {
		return nil
	}
	if t.cut {
		p = p[:min(len(p), t.limit-len(t.b))]
	}
	need := len(t.b) + len(p)
	if need > t.limit {
		return fmt.Errorf("%w: it has more than %d MiB", errSize, t.limit>>20)
	}
	if need > cap(t.b) {
		size := t.limit
		for _, step := range textSteps {
			if need <= step && step < size {
				size = step
				break
			}
		}
		t.b = append(make([]byte, 0, size), t.b...)
	}
	t.b = append(t.b, p...)
	return nil
}

// fill reads the next part of the stream into the window (the buffer) if all of it is consumed. At
// the end of the stream it returns io.ErrUnexpectedEOF; a caller that expects the end calls atEnd.
func (s *scanner) fill() error {
	for s.pos == s.end {
		n, err := s.r.Read(s.buf[:])
		s.pos, s.end = 0, n
		if n == 0 && err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return err
		}
	}
	return nil
}

// peek skips space and returns the next byte without consuming it. The end of the stream is
// io.ErrUnexpectedEOF.
func (s *scanner) peek() (byte, error) {
	for {
		if s.pos == s.end {
			if err := s.fill(); err != nil {
				return 0, err
			}
		}
		switch b := s.buf[s.pos]; b {
		case ' ', '\t', '\n', '\r':
			s.pos++
		default:
			return b, nil
		}
	}
}

// atEnd reports whether only space follows. It reads to the end of the stream, so that a checksum
// after the compressed data is verified too. The error is one of reading the stream.
func (s *scanner) atEnd() (bool, error) {
	_, err := s.peek()
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return true, nil
	}
	return false, err
}

// take consumes the byte that peek returned and copies it to to.
func (s *scanner) take(to *text) error {
	s.pos++
	return to.add(s.buf[s.pos-1 : s.pos])
}

// expect skips space, consumes the byte want and appends it to to, which may be nil. Any other byte
// is an error.
func (s *scanner) expect(want byte, to *text) error {
	b, err := s.peek()
	if err != nil {
		return err
	}
	if b != want {
		return misplaced(b)
	}
	return s.take(to)
}

// misplaced is the error of a byte that JSON does not have there.
func misplaced(b byte) error { return fmt.Errorf("%w: %q is out of place", errShape, b) }

// value reads one JSON value, checks its syntax and appends it to to without the space between its
// parts. With a nil to it only reads over the value.
func (s *scanner) value(to *text) error {
	s.stack = s.stack[:0]
	for {
		b, err := s.peek()
		if err != nil {
			return err
		}
		opened := b == '{' || b == '['
		switch {
		case opened:
			if len(s.stack) == maxDepth {
				return fmt.Errorf("%w: it is nested %d levels deep", errSize, maxDepth)
			}
			s.stack = append(s.stack, b)
			err = s.take(to)
		case b == '"':
			err = s.str(to)
		default:
			err = s.word(to)
		}
		if err == nil {
			err = s.step(to, opened)
		}
		if err != nil || len(s.stack) == 0 {
			return err
		}
	}
}

// step moves on after a complete value, or, if opened is set, after the brace or bracket that
// begins one. It reads closing braces and brackets, commas and the next key. It stops where the
// next value begins, or when the outermost value has ended and the stack is empty.
func (s *scanner) step(to *text, opened bool) error {
	for len(s.stack) > 0 {
		top := s.stack[len(s.stack)-1]
		b, err := s.peek()
		if err != nil {
			return err
		}
		if b == top+2 { // in ASCII, } and ] are two after { and [
			s.stack = s.stack[:len(s.stack)-1]
			if err := s.take(to); err != nil {
				return err
			}
			opened = false
			continue
		}
		if !opened {
			if err := s.expect(',', to); err != nil {
				return err
			}
		}
		if top == '[' {
			return nil
		}
		if b, err = s.peek(); err != nil {
			return err
		}
		if b != '"' {
			return misplaced(b)
		}
		if err := s.str(to); err != nil {
			return err
		}
		return s.expect(':', to)
	}
	return nil
}

// str reads a JSON string, whose opening quote is the next byte, and appends it to to as it is
// written, with quotes and escapes.
func (s *scanner) str(to *text) error {
	if err := s.take(to); err != nil {
		return err
	}
	for {
		if err := s.fill(); err != nil {
			return err
		}
		window := s.buf[s.pos:s.end]
		n := 0
		for n < len(window) && window[n] != '"' && window[n] != '\\' && window[n] >= ' ' {
			n++
		}
		if err := to.add(window[:n]); err != nil {
			return err
		}
		if s.pos += n; n == len(window) {
			continue
		}
		switch b := window[n]; b {
		case '"':
			return s.take(to)
		case '\\':
			if err := s.escape(to); err != nil {
				return err
			}
		default:
			return misplaced(b)
		}
	}
}

// escape reads an escape sequence of a JSON string, whose backslash is the next byte, and appends
// it to to as it is written. A sequence that JSON does not have is an error.
func (s *scanner) escape(to *text) error {
	if err := s.take(to); err != nil {
		return err
	}
	if err := s.fill(); err != nil {
		return err
	}
	switch b := s.buf[s.pos]; b {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return s.take(to)
	case 'u':
	default:
		return misplaced(b)
	}
	if err := s.take(to); err != nil {
		return err
	}
	for range 4 {
		if err := s.fill(); err != nil {
			return err
		}
		b := s.buf[s.pos]
		if low := b | 0x20; (b < '0' || b > '9') && (low < 'a' || low > 'f') {
			return misplaced(b)
		}
		if err := s.take(to); err != nil {
			return err
		}
	}
	return nil
}

// word appends a number, true, false or null to to; anything else is an error.
func (s *scanner) word(to *text) error {
	var word [maxWord]byte
	n := 0
scan:
	for {
		if err := s.fill(); err != nil {
			return err // the end of the stream too, since an answer is never only a number or word
		}
		b := s.buf[s.pos]
		switch b {
		case ' ', '\t', '\n', '\r', ',', ']', '}', ':', '"', '{', '[':
			break scan
		}
		if n == maxWord {
			return fmt.Errorf("%w: a number has more than %d digits", errSize, maxWord)
		}
		word[n] = b
		n, s.pos = n+1, s.pos+1
	}
	if n == 0 {
		return misplaced(s.buf[s.pos])
	}
	if !isNumber(word[:n]) {
		if w := string(word[:n]); w != "true" && w != "false" && w != "null" {
			return fmt.Errorf("%w: %s is no value", errShape, reply.QuoteName(w))
		}
	}
	return to.add(word[:n])
}

// isNumber reports whether word is a number in the syntax of JSON.
func isNumber(word []byte) bool {
	digits := func() bool {
		n := 0
		for n < len(word) && word[n] >= '0' && word[n] <= '9' {
			n++
		}
		word = word[n:]
		return n > 0
	}
	next := func(signs string) bool {
		is := len(word) > 0 && strings.IndexByte(signs, word[0]) >= 0
		if is {
			word = word[1:]
		}
		return is
	}
	next("-")
	if !next("0") && !digits() || next(".") && !digits() {
		return false
	}
	if next("eE") {
		next("+-")
		return digits() && len(word) == 0
	}
	return len(word) == 0
}
