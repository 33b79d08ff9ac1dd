package e2e

import (
	"fmt"
	"io"
	"os"
	"strings"
)

// The lines the model writes.

// record makes up a record. Its length is random, so that no two files have the
// same size by chance.
func (m *model) record() string {
	m.n++
	fill := strings.Repeat("x", m.random.IntN(97))
	if m.random.IntN(40) == 0 {
		fill += strings.Repeat("long ", 150)
	}
	switch m.format {
	case "JSON":
		return fmt.Sprintf(`{"seq":%d,"note":"%s %s"}`, m.n, recordMark, fill)
	case "CSV":
		return fmt.Sprintf(`%d,"%s, %s",%s`, m.n, recordMark, fill, fill)
	}
	return fmt.Sprintf("%d %s %s", m.n, recordMark, fill)
}

// owe has a record known that ends at a place of a file.
func (m *model) owe(f *modelFile, text string, end int64, broken bool) *modelRecord {
	r := &modelRecord{text: text, end: end, must: true, broken: broken, place: fmt.Sprintf("%s before %d", f.path, end)}
	if f.outside {
		r.mayGo("written to a file that no pattern matches")
	}
	if m.records[text] != nil {
		m.t.Fatalf("record twice in the model: %q", text)
	}
	m.records[text] = r
	return r
}

// put appends n records in one write, after the end of what has none.
func (m *model) put(f *modelFile, n int) {
	var b strings.Builder
	at := f.size
	add := func(text, written string, r *modelRecord) {
		b.WriteString(written + "\n")
		at += int64(len(written)) + 1
		if r == nil {
			r = m.owe(f, text, at, false)
		}
		r.end = at
		f.lines = append(f.lines, r)
	}
	if p := f.partial; p != nil {
		if p.left { // all it gets is its end: what was sent is a whole record
			add("", "", m.fragment(f))
		} else {
			add(p.text+p.rest, p.rest, nil)
		}
		f.partial = nil
	}
	for range n {
		text := m.record()
		add(text, text, nil)
	}
	m.write(f.path, b.String(), os.O_APPEND)
	m.resized(f, at)
}

// begin appends the beginning of a record.
func (m *model) begin(f *modelFile) {
	whole := m.record()
	cut := len(whole)
	if m.format != "CSV" && m.random.IntN(3) > 0 {
		cut = 1 + m.random.IntN(len(whole)-1)
	}
	f.partial = &partial{text: whole[:cut], rest: whole[cut:], left: f.outside}
	m.write(f.path, f.partial.text, os.O_APPEND)
	m.resized(f, f.size+int64(cut))
	if f.outside {
		m.fragment(f)
	}
}

// fragment is the record that an unfinished line becomes when its file is taken
// away.
func (m *model) fragment(f *modelFile) *modelRecord {
	p := f.partial
	p.left = true
	r := m.records[p.text]
	if r == nil {
		r = m.owe(f, p.text, f.size, m.format == "JSON" && p.rest != "")
	}
	return r
}

func (m *model) write(name, text string, how int) {
	out, err := os.OpenFile(m.logs(name), os.O_WRONLY|how, 0)
	m.must(err)
	_, err = io.WriteString(out, text)
	m.must(err)
	m.must(out.Close())
}
