package format

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// mostLook is how much of a line is looked at, at most, to tell whether it
// begins an event: so that this is known without the end of the line.
const mostLook = 4 << 10

// look is how much of a line is looked at.
func (s *Scanner) look() int { return min(mostLook, s.opt.MaxRecord) }

// Multiline says which lines of text are one event: a line that does not begin
// one belongs to the event before it, blank lines included. The first lines of
// what is read are an event whatever they are. It is safe for concurrent use.
type Multiline struct {
	start    *regexp.Regexp // of the first line of an event; nil: preset says it
	preset   preset
	maxLines int
}

// preset tells of a line whether it goes on in the event before, and what kind
// of event that is from there on. The kind before the first line is 0.
type preset func(kind uint8, line []byte) (now uint8, more bool)

var presets = map[string]preset{"java": javaLine, "python": pythonLine, "go": goLine}

// Presets are the names of the presets.
func Presets() []string { return slices.Sorted(maps.Keys(presets)) }

// NewMultiline returns the rule that joins lines to events. start is a regular expression that
// the first line of an event matches; name is that of a preset, such as java; one of them is
// empty. After maxLines lines an event ends in any case.
func NewMultiline(start, name string, maxLines int) (*Multiline, error) {
	m := &Multiline{preset: presets[name], maxLines: maxLines}
	var err error
	switch {
	case maxLines < 1:
		return nil, fmt.Errorf("at most %d lines; want at least 1", maxLines)
	case start != "" && name != "":
		return nil, errors.New("a start and a preset; want one of them")
	case start == "" && name == "":
		return nil, errors.New("neither a start nor a preset; want one of them")
	case start == "" && m.preset == nil:
		return nil, fmt.Errorf("preset %q is not known; want %s", name, strings.Join(Presets(), ", "))
	case start != "":
		m.start, err = regexp.Compile(start)
	}
	return m, err
}

// more reports whether a line continues the event before it. kind is the state of the preset in
// that event, such as "within a traceback", and now is the state after the line. line comes
// without its line end, and cut to the length Scanner.look.
func (m *Multiline) more(kind uint8, line []byte) (now uint8, more bool) {
	if len(line) == 0 {
		return kind, true
	}
	if line[0] == 0 { // what was left by a crash is no part of an event
		return kind, false
	}
	if m.start != nil { // a regular expression has no states
		return 0, !m.start.Match(line)
	}
	if line[0] == ' ' || line[0] == '\t' {
		return kind, true
	}
	return m.preset(kind, line)
}

// first returns the state of the preset after a line that begins an event; 0: the line tells
// nothing of what follows. With a start pattern there are no states, so that the result is always
// 0.
func (m *Multiline) first(line []byte) uint8 {
	if m.start != nil {
		return 0
	}
	kind, _ := m.preset(0, line)
	return kind
}

// javaLine: a stack trace is lines that are indented, and the causes between.
func javaLine(_ uint8, line []byte) (uint8, bool) {
	return 0, bytes.HasPrefix(line, []byte("Caused by:")) || bytes.HasPrefix(line, []byte("Suppressed:")) || bytes.HasPrefix(line, []byte("..."))
}

// Kinds of events of Python.
const (
	pyTrace  = 1 + iota // within a traceback: the next line that is not indented is its exception
	pyRaised            // behind an exception, of which another may tell
	pyChain             // another traceback follows
)

// pythonLine is the preset for Python: it continues a traceback up to the line of the exception,
// and over the exceptions that were raised while that one was handled. kind is the state before
// the line (pyTrace, pyRaised, pyChain; 0: none). It returns the state after the line, and
// whether the line continues the event.
func pythonLine(kind uint8, line []byte) (uint8, bool) {
	switch {
	case bytes.Equal(line, []byte("Traceback (most recent call last):")):
		return pyTrace, kind == pyChain
	case kind == pyTrace:
		return pyRaised, true
	case kind == pyRaised && (bytes.HasPrefix(line, []byte("During handling of the above exception")) ||
		bytes.HasPrefix(line, []byte("The above exception was the direct cause"))):
		return pyChain, true
	}
	return 0, false
}

const goDump = 1 // a panic, a fatal error, or the stacks of goroutines

var registerLine = regexp.MustCompile(`^[a-z][a-z0-9]{1,7} +0x[0-9a-f]+$`)

// goLine is the preset for Go: it continues a panic or a fatal error over the stacks of all
// goroutines. kind is goDump within such an event, else 0. It returns the state after the line,
// and whether the line continues the event.
func goLine(kind uint8, line []byte) (uint8, bool) {
	begins := func(words ...string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return bytes.HasPrefix(line, []byte(w)) })
	}
	switch {
	case begins("goroutine ", "runtime stack:"):
		return goDump, kind == goDump
	case begins("panic: ", "fatal error: ", "SIGQUIT: ", "SIGABRT: ", "runtime: "):
		return goDump, kind == goDump && begins("runtime: ")
	case kind == goDump:
		return kind, begins("[signal ", "created by ", "exit status ", "...", "PC=") || isCall(line) || registerLine.Match(line)
	}
	return 0, false
}

// isCall reports whether a line is that of a function in a stack of Go, such as
// main.(*T).Do(0x1, ...), or panic({0x1, 0x2}).
func isCall(line []byte) bool {
	name, _, found := bytes.Cut(line, []byte("("))
	return found && line[len(line)-1] == ')' && bytes.IndexByte(name, ' ') < 0 &&
		(bytes.IndexByte(name, '.') > 0 || string(name) == "panic")
}

// withoutEnd is a line without its newline or CRLF.
func withoutEnd(line []byte) []byte {
	if n := len(line); n > 0 && line[n-1] == '\n' {
		line = line[:n-1]
		if n > 1 && line[n-2] == '\r' {
			line = line[:n-2]
		}
	}
	return line
}

// lineHead returns the beginning of the line that data begins with, as much of it as decides
// whether the line begins an event, and the length n of the line, its end included. n is 0 if the
// line does not end in data. ok is false if more data is needed to decide. last says that nothing
// follows data.
func (s *Scanner) lineHead(data []byte, last bool) (head []byte, n int, ok bool) {
	n = bytes.IndexByte(data, '\n') + 1
	switch {
	case n > 0:
		head = withoutEnd(data[:n])
	case last:
		head, n = data, len(data)
	case len(data) < s.look()+2: // the end of a line of that length may be two more
		return nil, 0, false
	default:
		head = data
	}
	return head[:min(len(head), s.look())], n, true
}

// gather extends k, the cut (kind and length) of the first line of an event, by the other lines
// of the event in data. If data ends before it is certain that the event has ended, k becomes
// open: more data is needed. An event that is longer than MaxRecord is rejected as a whole: k
// becomes unsound if its end is in data, otherwise endless, and the caller skips the rest. last
// says that nothing follows data.
func (s *Scanner) gather(k *cut, data []byte, last bool) {
	m := s.opt.Multiline
	long := k.kind == unsound
	kind := m.first(s.headOf(data[:k.n]))
	for lines := 1; k.ended && (lines < m.maxLines || long); lines++ {
		rest := data[k.n:]
		if len(rest) == 0 && last {
			return
		}
		if n, ended := s.lineIn(data, k.n); n > 0 && !ended && !long { // NUL bytes from a crash end it
			rest, last = rest[:n], true
		}
		head, n, ok := s.lineHead(rest, last)
		if n == 0 && s.ends { // nobody waits for the rest of that line
			return
		}
		if n == 0 && !long && bytes.HasSuffix(rest, []byte{0}) && len(data) < s.opt.MaxRecord { // they may
			k.kind = open
			return
		}
		was, more := kind, false
		if ok {
			if kind, more = m.more(kind, head); !more {
				return
			}
		}
		if long { // SkipLong, which knows one state only, has to come to the same end
			kind = was
		}
		if n == 0 {
			if ok && k.n+len(rest) >= s.opt.MaxRecord && !long {
				long, s.fault = true, s.tooLong("over several lines and longer than")
			}
			if k.kind = open; long {
				// SkipLong begins at the newline and looks at the line behind it.
				k.kind, k.n, k.lead = endless, k.n-1, int(kind)
			}
			return
		}
		k.n, k.ended = k.n+n, rest[n-1] == '\n'
		if !long && k.size() > s.opt.MaxRecord {
			long, k.kind, s.fault = true, unsound, s.tooLong("over several lines and longer than")
		}
	}
}

func (s *Scanner) headOf(line []byte) []byte {
	head := withoutEnd(line)
	return head[:min(len(head), s.look())]
}

// skipEvent returns how many bytes of data belong to an event that is too long; done says that
// the event ends there. data begins within a line of the event or at its end, and kind is the
// state of the preset (see Multiline.more) there. last says that nothing follows data.
func (s *Scanner) skipEvent(data []byte, kind uint8, last bool) (n int, done bool) {
	for {
		i := bytes.IndexByte(data[n:], '\n')
		if i < 0 {
			return len(data), last
		}
		n += i
		head, length, ok := s.lineHead(data[n+1:], last)
		if length == 0 && s.ends {
			return n + 1, true
		}
		if !ok {
			return n, false
		}
		if _, more := s.opt.Multiline.more(kind, head); !more {
			return n + 1, true
		}
		n++
	}
}
