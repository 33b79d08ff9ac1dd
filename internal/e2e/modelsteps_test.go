package e2e

import (
	"fmt"
	"os"
	"strings"
	"time"
)

// The things the model does, each at random and with whatever else is going on.

// note adds to the history that a failing run prints.
func (m *model) note(format string, args ...any) {
	m.history = append(m.history, fmt.Sprintf("%8s ", time.Since(m.began).Round(time.Millisecond))+fmt.Sprintf(format, args...))
}

// step does one thing.
func (m *model) step() {
	switch n := m.random.IntN(100); {
	case n < 24:
		m.append(m.anyFile())
	case n < 29:
		m.beginLine(m.anyFile())
	case n < 41:
		m.rotate(m.anyFile())
	case n < 49:
		m.copyTruncate(m.anyFile())
	case n < 57:
		m.truncate(m.anyFile())
	case n < 63:
		m.delete(m.anyFile())
	case n < 68:
		m.renameBack()
	case n < 72:
		m.replace(m.anyFile())
	case n < 82:
		m.breathe()
	case n < 86:
		m.restart(true)
	case n < 90:
		m.restart(false)
	case n < 95:
		m.turnServer()
	default:
		m.pauseOrGoOn()
	}
}

// anyFile is one of the files an application writes to; it may have to be made.
func (m *model) anyFile() *modelFile {
	name := string('a'+rune(m.random.IntN(3))) + ".log"
	if f := m.at(name); f != nil {
		return f
	}
	f := m.create(name)
	if m.random.IntN(4) > 0 {
		m.put(f, 1+m.random.IntN(10))
	}
	m.note("create %s with %d bytes", name, f.size)
	return f
}

func (m *model) append(f *modelFile) {
	n := 1 + m.random.IntN(20)
	if m.random.IntN(10) == 0 {
		n *= 20
	}
	m.put(f, n)
	m.note("append %d records to %s, %d bytes now", n, f.path, f.size)
}

func (m *model) beginLine(f *modelFile) {
	if f.partial == nil {
		m.begin(f)
		m.note("append the beginning of a line to %s, %d bytes now", f.path, f.size)
	}
}

// another is a name for what f held, in the patterns or not.
func (m *model) another(f *modelFile) string {
	m.names++
	base, _, _ := strings.Cut(f.path, ".log")
	if m.random.IntN(2) == 0 {
		return fmt.Sprintf("%s.log.%d", base, m.names)
	}
	return fmt.Sprintf("%s.log-%d", base, m.names)
}

func (m *model) rotate(f *modelFile) {
	from, to := f.path, m.another(f)
	m.look(f)
	m.rename(f, to)
	m.note("rename %s to %s, must %d", from, to, m.musts(f))
	switch m.random.IntN(4) {
	case 0:
	case 1: // the writer has not noticed yet
		m.put(f, 1+m.random.IntN(3))
		m.note("append to %s through the old descriptor, %d bytes now", f.path, f.size)
		fallthrough
	default:
		f = m.create(from)
		m.put(f, m.random.IntN(10))
		m.note("create %s with %d bytes", from, f.size)
	}
}

func (m *model) musts(f *modelFile) (n int) {
	for _, r := range f.unsafe() {
		if r.must {
			n++
		}
	}
	return n
}

// renameBack gives a rotated file its old name.
func (m *model) renameBack() {
	if len(m.files) == 0 {
		return
	}
	f := m.files[m.random.IntN(len(m.files))]
	base, _, _ := strings.Cut(f.path, ".log")
	base += ".log"
	if f.path == base {
		return
	}
	if over := m.at(base); over != nil {
		if m.random.IntN(2) == 0 {
			return
		}
		m.look(over)
	}
	from := f.path
	m.look(f)
	m.rename(f, base)
	m.note("rename %s back to %s", from, base)
}

func (m *model) delete(f *modelFile) {
	m.look(f)
	m.remove(f)
	m.note("delete %s, must %d", f.path, m.musts(f))
	if m.random.IntN(2) == 0 {
		f = m.create(f.path)
		m.put(f, m.random.IntN(10))
		m.note("create %s at once, with %d bytes", f.path, f.size)
	}
}

// replace renames a new file over an old one.
func (m *model) replace(f *modelFile) {
	m.names++
	g := m.create(fmt.Sprintf("new-%d", m.names))
	m.put(g, m.random.IntN(10))
	m.look(f)
	m.rename(g, f.path)
	m.note("rename a new file with %d bytes over %s, must %d", g.size, f.path, m.musts(f))
}

// copyTruncate does what logrotate does by that name.
func (m *model) copyTruncate(f *modelFile) {
	if f.size == 0 {
		return
	}
	allRead := m.perhapsRead(f)
	g := m.copyOf(f, m.another(f))
	gap := f.partial == nil && m.random.IntN(3) == 0
	if gap {
		m.put(f, 1)
	}
	m.note("copy %s with %d bytes to %s (read before: %v), %d bytes when truncated", f.path, g.size, g.path, allRead, f.size)
	inCopy := map[*modelRecord]bool{}
	if !g.outside {
		for _, r := range g.lines {
			inCopy[r] = r.must
		}
	}
	m.empty(f, allRead && !gap, !g.outside)
	for r, must := range inCopy {
		r.must = must
	}
	if m.agent == nil || !f.listed { // or it has not come to the file yet
		m.forgets(g)
	}
	if n := m.random.IntN(4); n > 0 {
		m.put(f, n)
		m.note("append %d to %s, %d bytes now", n, f.path, f.size)
	}
}

// truncate takes all out of a file and puts something else in.
func (m *model) truncate(f *modelFile) {
	allRead := m.perhapsRead(f)
	was := f.size
	m.empty(f, allRead, false)
	switch m.random.IntN(4) {
	case 0:
	case 1: // exactly as much
		m.putExactly(f, was)
	case 2: // more
		for f.size <= was {
			m.put(f, 1+m.random.IntN(20))
		}
	default:
		m.put(f, 1+m.random.IntN(20))
	}
	m.note("truncate %s from %d bytes and fill it with %d (read before: %v)", f.path, was, f.size, allRead)
}

// putExactly fills an empty file up to a size, if that can be.
func (m *model) putExactly(f *modelFile, size int64) {
	if size < 2000 || m.format == "CSV" {
		return
	}
	text := m.record()
	text = strings.Replace(text, recordMark, recordMark+strings.Repeat("z", int(min(size, 1800))-len(text)-1), 1)
	r := m.owe(f, text, int64(len(text))+1, false)
	f.lines = append(f.lines, r)
	m.write(f.path, text+"\n", os.O_APPEND)
	m.resized(f, r.end)
	for f.size < size {
		text := m.record()
		left := int(size - f.size - 1)
		switch {
		case left < len(text):
			return // not this time
		case left < 1900:
			text = strings.Replace(text, recordMark, recordMark+strings.Repeat("z", left-len(text)), 1)
		}
		r := m.owe(f, text, f.size+int64(len(text))+1, false)
		f.lines = append(f.lines, r)
		m.write(f.path, text+"\n", os.O_APPEND)
		m.resized(f, r.end)
	}
}
