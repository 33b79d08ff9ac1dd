package tail

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"kusto-agent/internal/record"
)

// sent has a tailer read files and returns the payloads it made of them, with
// their bodies.
func sent(t *testing.T, format record.Format, files map[string]string) (*world, []*record.Payload) {
	t.Helper()
	w := newWorld(t)
	w.in().Format = format
	w.block = 200
	w.start()
	w.taker.set(func() { w.taker.hold = true })
	for name, text := range files {
		must(t, os.WriteFile(w.path(name), []byte(text), 0o644))
	}
	w.look()
	w.taker.mu.Lock()
	defer w.taker.mu.Unlock()
	return w, slices.Clone(w.taker.unsent)
}

// describe is a payload as the journal keeps it: without body and lengths.
func describe(p *record.Payload) *record.Payload {
	q := *p
	q.Body, q.Lens, q.Pieces = nil, nil, slices.Clone(p.Pieces)
	return &q
}

func TestReadSpans(t *testing.T) {
	f := func(name string, format record.Format, files map[string]string, payloads int) {
		t.Run(name, func(t *testing.T) {
			w, made := sent(t, format, files)
			if len(made) < payloads {
				t.Fatalf("%d payloads; want %d or more", len(made), payloads)
			}
			for _, p := range made {
				q := describe(p)
				body, err := w.tailer.ReadSpans(q)
				must(t, err)
				if string(body) != string(p.Body) || string(q.Lens) != string(p.Lens) || (q.Lens == nil) != (p.Lens == nil) || q.Records != p.Records {
					t.Errorf("body of %v is\n%q, %d records, lens %v; want\n%q, %d, %v", p.Cover, body, q.Records, q.Lens, p.Body, p.Records, p.Lens)
				}
				if !slices.Equal(q.Pieces, p.Pieces) {
					t.Errorf("pieces are %v; want %v", q.Pieces, p.Pieces)
				}
			}
		})
	}
	long := ""
	for range 40 {
		long += "a line of text\n"
	}
	f("text", record.TXT, map[string]string{"a.log": "one\ntwo\n\nthree\n"}, 1)
	f("CRLF", record.TXT, map[string]string{"a.log": "one\r\ntwo\nthree\r\n\r\nfour\r\n"}, 1)
	f("byte order mark", record.TXT, map[string]string{"a.log": "\xEF\xBB\xBFone\n\xEF\xBB\xBFtwo\n"}, 1)
	f("several files and blocks", record.TXT, map[string]string{"a.log": long, "b.log": "b\n" + long}, 6)
	f("JSON with a rejected record", record.JSON, map[string]string{"a.log": "{}\n{]\n{\"a\":1}\r\n \n{\"b\":2}\n"}, 1)
	f("quoted rows", record.CSV, map[string]string{"a.log": "a,\"1\n2\"\nb,2\nx\"y,1\nc,3,4\n\"d\"\"\n\",5,6\n"}, 2)
}

// A last line without its end is read again as it was sent, also where the
// file went on.
func TestReadSpansUnended(t *testing.T) {
	w := newWorld(t)
	w.in().PartialLineWait = 1
	w.start()
	w.taker.set(func() { w.taker.hold = true })
	must(t, os.WriteFile(w.path("a.log"), []byte("one\ntwo"), 0o644))
	w.look()
	w.taker.mu.Lock()
	made := slices.Clone(w.taker.unsent)
	w.taker.mu.Unlock()
	must(t, newScript(w).write(os.O_APPEND, "a.log", " and more\n"))
	for _, p := range made {
		q := describe(p)
		body, err := w.tailer.ReadSpans(q)
		must(t, err)
		if string(body) != string(p.Body) || string(q.Lens) != string(p.Lens) {
			t.Errorf("body is %q, lens %v; want %q, %v", body, q.Lens, p.Body, p.Lens)
		}
	}
}

func TestReadSpansGone(t *testing.T) {
	const text = "one\ntwo\nthree\n"
	f := func(name string, want error, change func(path string) error) {
		t.Run(name, func(t *testing.T) {
			w, made := sent(t, record.TXT, map[string]string{"a.log": text})
			w.shut()
			must(t, change(w.path("a.log")))
			w.start()
			body, err := w.tailer.ReadSpans(describe(made[0]))
			if !errors.Is(err, want) || want == nil && string(body) != text {
				t.Errorf("body is %q, err %v; want err %v", body, err, want)
			}
		})
	}
	f("as it was", nil, func(string) error { return nil })
	f("renamed in its folder", nil, func(p string) error { return os.Rename(p, p+".1") })
	f("renamed, and another has its name", nil, func(p string) error {
		return errors.Join(os.Rename(p, p+".1"), os.WriteFile(p, []byte("another file altogether\n"), 0o644))
	})
	f("copied, and the copy has its name", nil, func(p string) error {
		return errors.Join(copyFile(p, p+".1"), os.Rename(p+".1", p))
	})
	f("deleted", ErrSourceGone, os.Remove)
	f("truncated", ErrSourceGone, func(p string) error { return os.Truncate(p, 3) })
	f("written anew", ErrSourceGone, func(p string) error { return os.WriteFile(p, []byte("eins\nzwei\ndrei\nvier\n"), 0o644) })
}

// Of a payload of several files, of which one is gone, the others are left.
func TestDivide(t *testing.T) {
	w := newWorld(t)
	w.batch = true
	w.start()
	w.taker.set(func() { w.taker.hold, w.taker.full = true, true })
	for _, name := range []string{"a.log", "b.log", "c.log"} {
		must(t, os.WriteFile(w.path(name), []byte(name+" one\n"+name+" two\n"), 0o644))
	}
	w.look()
	w.taker.set(func() { w.taker.full = false })
	w.look()
	p := &record.Payload{}
	w.taker.mu.Lock()
	for _, made := range w.taker.unsent {
		p.Route, p.Shaping = made.Route, made.Shaping
		p.Cover, p.Pieces, p.Records = append(p.Cover, made.Cover...), append(p.Pieces, made.Pieces...), p.Records+made.Records
	}
	w.taker.mu.Unlock()
	if len(p.Cover) != 3 || p.Records != 6 {
		t.Fatalf("%d records of %v", p.Records, p.Cover)
	}
	must(t, os.Truncate(w.path("b.log"), 3))
	before := slices.Clone(p.Pieces)
	if body, err := w.tailer.ReadSpans(p); !errors.Is(err, ErrSourceGone) {
		t.Errorf("got %q, %v", body, err)
	}
	left, gone, err := w.tailer.Divide(p)
	must(t, err)
	if len(left.Cover) != 2 || left.Records != 4 || len(gone.Cover) != 1 || gone.Records != 2 || !slices.Equal(p.Pieces, before) {
		t.Errorf("left %d of %v, gone %d of %v, of %v", left.Records, left.Cover, gone.Records, gone.Cover, p.Pieces)
	}
	body, err := w.tailer.ReadSpans(&left)
	must(t, err)
	if got := strings.Count(string(body), "\n"); got != 4 || strings.Contains(string(body), "b.log") {
		t.Errorf("body is %q", body)
	}
}

// TestReadSpansDeleted: a deleted file whose reader holds it open has its bytes still.
func TestReadSpansDeleted(t *testing.T) {
	w, made := sent(t, record.TXT, map[string]string{"a.log": strings.Repeat("a line that is read again\n", 5)})
	if len(made) == 0 {
		t.Fatal("no payload")
	}
	must(t, os.Remove(w.path("a.log")))
	w.look()
	body, err := w.tailer.ReadSpans(describe(made[0]))
	must(t, err)
	if string(body) != string(made[0].Body) {
		t.Errorf("body is %q; want %q", body, made[0].Body)
	}
}

// A range of which nothing was sent need not be there to make the payload again. A split
// leaves such a range to a half: the blank lines before the records that the other half has.
func TestReadSpansWithARangeOfNothing(t *testing.T) {
	w, made := sent(t, record.TXT, map[string]string{"a.log": "one\n", "b.log": "\n\ntwo\n"})
	if len(made) != 2 {
		t.Fatalf("%d payloads", len(made))
	}
	a, b := made[0], made[1]
	if string(a.Body) != "one\n" {
		a, b = b, a
	}
	p := describe(a)
	p.Cover = append(slices.Clone(p.Cover), record.Extent{File: b.Cover[0].File, Span: record.Span{End: 2}})
	w.shut() // a reader may hold the file open, and its bytes with it
	must(t, os.Remove(w.path("b.log")))
	w.start()
	body, err := w.tailer.ReadSpans(p)
	must(t, err)
	if string(body) != "one\n" {
		t.Errorf("body is %q", body)
	}
	got, err := w.tailer.ReadAnew(p)
	must(t, err)
	if len(got.Parts) != 1 || string(got.Parts[0].Body) != "one\n" || !slices.Equal(got.Empty, p.Cover[1:]) {
		t.Errorf("read anew: %v, empty %v", got.Parts, got.Empty)
	}
	w.shut()
	must(t, os.Remove(w.path("a.log")))
	w.start()
	left, gone, err := w.tailer.Divide(p)
	must(t, err)
	if len(left.Pieces) != 0 || len(gone.Cover) != 1 || gone.Records != 1 {
		t.Errorf("left %v, gone %v", left.Cover, gone.Cover)
	}
}
