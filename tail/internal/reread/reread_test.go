package reread

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"kusto-agent/internal/record"
	"kusto-agent/tail/internal/settings"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// shelf has files in memory. A file that it lacks is gone.
type shelf struct {
	in     *settings.Compiled
	texts  map[record.File]string
	broken error // of every read
	open   int
}

func (s *shelf) Of(f record.File) (Remembered, error) {
	if f.Input != s.in.Name {
		return Remembered{}, fmt.Errorf("%w: %s", ErrNotConfigured, f.Input)
	}
	return Remembered{In: s.in, Info: record.FileInfo{First: "/log/" + f.ID.String()}}, nil
}

func (s *shelf) Open(x record.Extent) (Source, error) {
	text, there := s.texts[x.File]
	if s.broken != nil || !there {
		return nil, errors.Join(s.broken, map[bool]error{false: ErrSourceGone}[there])
	}
	s.open++
	return &opened{strings.NewReader(text), s}, nil
}

func (s *shelf) Holds(Source, record.Extent) error { return nil }

func (s *shelf) Redacting(string) *settings.Compiled {
	if s.in.Redacts() {
		return s.in
	}
	return nil
}

type opened struct {
	io.ReaderAt
	of *shelf
}

func (t *opened) Close() error { t.of.open--; return nil }

func compiled(t *testing.T, change func(*settings.InputConfig)) *settings.Compiled {
	t.Helper()
	c := settings.DefaultInputConfig()
	c.Name, c.Format = "in", record.CSV
	if change != nil {
		change(&c)
	}
	in, err := settings.Compile(settings.Input{InputConfig: c, MaxSize: 1 << 20})
	must(t, err)
	return in
}

func file(n byte) record.File { return record.File{Input: "in", ID: record.FileID(n)} }

// payload is one made of the whole text of each of these files.
func payload(in *settings.Compiled, s *shelf, files ...record.File) *record.Payload {
	p := &record.Payload{Route: in.Route, Shaping: in.Shaping}
	for _, f := range files {
		span := record.Span{End: int64(len(s.texts[f]))}
		p.Cover = append(p.Cover, record.Extent{File: f, Span: span})
		p.Pieces = append(p.Pieces, record.Piece{File: f, Span: span, Records: strings.Count(s.texts[f], "\n")})
		p.Records += strings.Count(s.texts[f], "\n")
	}
	return p
}

func TestSpans(t *testing.T) {
	in := compiled(t, nil)
	s := &shelf{in: in, texts: map[record.File]string{file(1): "a,b\nc,d\n", file(2): "e,\"f\n\"\n"}}
	s.texts[file(3)] = "g,h\n"
	r := Reader{s}
	p := payload(in, s, file(1), file(2), file(3))
	p.Pieces[1].Records = 1
	f := func(name, want string, fails error, change func()) {
		t.Helper()
		change()
		was := slices.Clone(p.Pieces)
		body, err := r.Spans(p)
		if string(body) != want || !errors.Is(err, fails) || fails == nil && err != nil {
			t.Errorf("%s: %q, %v; want %q, %v", name, body, err, want, fails)
		}
		if err != nil && !slices.Equal(p.Pieces, was) {
			t.Errorf("%s: an error has changed the pieces to %v", name, p.Pieces)
		}
		if s.open != 0 {
			t.Errorf("%s: %d files are left open", name, s.open)
		}
	}
	f("as it was", "a,b\nc,d\ne,\"f\n\"\ng,h\n", nil, func() {})
	if p.Records != 4 || p.Lens != nil {
		t.Errorf("%d records, lengths %v", p.Records, p.Lens)
	}
	sick := errors.New("the disk is sick")
	f("a file cannot be read", "", sick, func() { s.broken = sick })
	s.broken = nil
	f("other settings", "", ErrReshaped, func() { p.Shaping++ })
	p.Shaping--
	f("the second file is shorter", "", ErrSourceGone, func() { s.texts[file(2)] = "e,\"" })
	f("the second file is gone", "", ErrSourceGone, func() { delete(s.texts, file(2)) })
	other := record.File{Input: "other", ID: file(1).ID}
	s.texts[other] = "a,b\n"
	p = payload(in, s, other)
	f("the input is gone", "", ErrNotConfigured, func() {})
}

// TestDivide: what can be read is in one half, what is gone in the other, and nothing is in both.
func TestDivide(t *testing.T) {
	in := compiled(t, nil)
	for gone := range 8 {
		s := &shelf{in: in, texts: map[record.File]string{file(1): "a\n", file(2): "b\nc\n", file(3): "d\n"}}
		p := payload(in, s, file(1), file(2), file(3))
		records := 0
		for i := range 3 {
			if gone>>i&1 != 0 {
				records += p.Pieces[i].Records
				delete(s.texts, file(byte(i+1)))
			}
		}
		left, lost, err := Reader{s}.Divide(p)
		must(t, err)
		if lost.Records != records || left.Records != p.Records-records || len(left.Cover)+len(lost.Cover) != 3 || len(left.Pieces)+len(lost.Pieces) != 3 {
			t.Errorf("files %03b gone: left %v, gone %v", gone, left.Pieces, lost.Pieces)
		}
	}
}

// TestAnew: records that the present settings refuse are for quarantine, and the others are made as
// the present settings have it.
func TestAnew(t *testing.T) {
	was := compiled(t, func(c *settings.InputConfig) { c.Validate = "none" })
	s := &shelf{in: was, texts: map[record.File]string{file(1): "a,b\n\"c\"d,e\nf,g\n", file(2): "\n\n"}}
	p := payload(was, s, file(1), file(2))
	p.Pieces = p.Pieces[:1]
	s.in = compiled(t, nil)
	got, err := Reader{s}.Anew(p)
	must(t, err)
	if len(got.Parts) != 1 || string(got.Parts[0].Body) != "a,b\nf,g\n" || got.Parts[0].Shaping != s.in.Shaping {
		t.Errorf("parts %+v", got.Parts)
	}
	if len(got.Refused) != 1 || string(got.Refused[0].Data) != "\"c\"d,e\n" || got.Refused[0].Path != "/log/"+file(1).ID.String() {
		t.Errorf("refused %+v", got.Refused)
	}
	if len(got.Empty) != 1 || got.Empty[0].File != file(2) {
		t.Errorf("empty %+v", got.Empty)
	}
}

// TestRestore: a record that was parsed gets the bytes of its file; one whose file is gone keeps
// what it has, and the error says so.
func TestRestore(t *testing.T) {
	in := compiled(t, func(c *settings.InputConfig) { c.Format, c.Parse = record.JSON, "text" })
	s := &shelf{in: in, texts: map[record.File]string{file(1): "one\ntwo\n"}}
	p := payload(in, s, file(1), file(2))
	recs := []record.Rejected{{File: file(1), Offset: 4, Length: 4, Data: []byte("{}")}, {File: file(2), Length: 4, Data: []byte("{}")}}
	if err := (Reader{s}).Restore(p, recs); !errors.Is(err, ErrSourceGone) {
		t.Errorf("error %v", err)
	}
	if string(recs[0].Data) != "two\n" || string(recs[1].Data) != "{}" {
		t.Errorf("restored %q and %q", recs[0].Data, recs[1].Data)
	}
}
