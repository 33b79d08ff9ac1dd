package tail

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"kusto-agent/internal/record"
)

// fetched returns the records that a tap holds now.
func fetched(t *testing.T, p *Tap) (all []Passed) {
	t.Helper()
	now, cancel := context.WithCancel(t.Context())
	cancel()
	for {
		err := p.Next(now, func(r *Passed) error {
			c := *r
			c.Data = slices.Clone(r.Data)
			all = append(all, c)
			return nil
		})
		if errors.Is(err, context.Canceled) || err == io.EOF {
			return all
		}
		must(t, err)
	}
}

// The tap shows no batch, for it is still to be made.
const noBatch = `"b":"00000000-0000-0000-0000-000000000000"`

var batchField = regexp.MustCompile(`"b":"[0-9a-f-]{36}"`)

// TestTap: it shows exactly the records that are handed over, each as it is sent
// and with its place in the file, whatever was made of it.
func TestTap(t *testing.T) {
	t.Parallel()
	crlf := strings.NewReplacer("\r\n", "", "\n", "")
	same := func(p Passed, source string) error {
		if got := crlf.Replace(string(p.Data)); got != crlf.Replace(source) {
			return fmt.Errorf("%q is not %q", got, source)
		}
		return nil
	}
	told := func(p Passed, source string) error { // by {offset}
		if want := fmt.Sprintf(`"o":%d`, p.Offset); !strings.Contains(string(p.Data), want) {
			return fmt.Errorf("%q has no %s", p.Data, want)
		}
		return nil
	}
	f := func(name string, set func(in *Input), content func(r *rand.Rand) string, check func(p Passed, source string) error) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			set(w.in())
			w.start()
			tap, err := w.tailer.Tap("in", "nobody")
			must(t, err)
			defer tap.Close()
			rnd := rand.New(rand.NewPCG(1, 2))
			file := ""
			for range 5 {
				more := content(rnd)
				file += more
				w.appendTo("a.log", more)
				w.look()
			}
			must(t, os.Rename(w.path("a.log"), w.path("gone")))
			w.look()
			w.await("the end of the file", func() bool { return len(w.tailer.all()) == 0 })
			w.look()
			var got []string
			for _, p := range fetched(t, tap) {
				got = append(got, strings.TrimSuffix(string(p.Data), "\n"))
				if p.Path != w.path("a.log") || p.File.Input != "in" || p.Block || p.Offset+p.Length > int64(len(file)) {
					t.Fatalf("%+v", p)
				}
				if err := check(p, file[p.Offset:p.Offset+p.Length]); err != nil {
					t.Fatal(err)
				}
			}
			want := w.boxed.take("in")
			for i := range want {
				want[i] = batchField.ReplaceAllString(want[i], noBatch)
			}
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) || len(got) < 50 {
				t.Errorf("shown are %s; handed over were %s", brief(got), brief(want))
			}
			if n := tap.Dropped(); n > 0 {
				t.Errorf("%d are dropped", n)
			}
		})
	}
	json := func(r *rand.Rand) string {
		var b strings.Builder
		for i := range r.IntN(60) + 20 {
			b.WriteString([]string{fmt.Sprintf("{\"n\":%d}\n", i), "{\"w\":\"ü\"}\n", "not JSON\n", "\n"}[r.IntN(4)])
		}
		return b.String()
	}
	f("lines", func(*Input) {}, anyText, same)
	f("json", func(in *Input) { in.Format = record.JSON }, json, same)
	f("fields", func(in *Input) {
		in.Format, in.Fields = record.JSON, map[string]string{"o": "{offset}", "b": "{batch}"}
	}, json, func(p Passed, source string) error {
		if !strings.Contains(string(p.Data), noBatch) {
			return fmt.Errorf("a batch is shown: %s", p.Data)
		}
		return told(p, source)
	})
	f("parse", func(in *Input) {
		in.Format, in.Parse, in.Fields = record.JSON, "text", map[string]string{"o": "{offset}"}
	}, anyText, told)
	f("utf-16", func(in *Input) {
		in.Format, in.Parse, in.Encoding, in.Fields = record.JSON, "text", "utf-16be", map[string]string{"o": "{offset}"}
	}, func(r *rand.Rand) string { return utf16be(anyText(r)) }, told)
	f("cri", func(in *Input) { in.Format, in.Parse = record.JSON, "cri" }, anyLog, func(p Passed, source string) error {
		if _, text, ok := strings.Cut(string(p.Data), `"message":"n`); ok && !strings.Contains(source, " n"+text[:1]) {
			return fmt.Errorf("%s is not of %q", p.Data, source)
		}
		return nil
	})
}

// TestTapBlocks: of Avro the places of the blocks are shown.
func TestTapBlocks(t *testing.T) {
	t.Parallel()
	w, _ := avroWorld(t)
	tap, err := w.tailer.Tap("in")
	must(t, err)
	defer tap.Close()
	head, one, two := avroHeader('A'), avroBlock('A', "one", "two"), avroBlock('A', "three")
	w.appendTo("a.log", head, one, two)
	w.wantAvro("one", "two", "three")
	all := fetched(t, tap)
	if len(all) != 2 || !all[0].Block || all[0].Offset != int64(len(head)) || all[0].Length != int64(len(one)) || all[0].Records != 2 ||
		all[1].Offset != int64(len(head+one)) || all[1].Length != int64(len(two)) || all[1].Records != 1 {
		t.Errorf("shown are %+v", all)
	}
}

// TestTapIsNotRead: what does not fit is dropped and counted, and delivered all
// the same; afterwards it shows what comes.
func TestTapIsNotRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := newScript(w)
	w.start()
	tap, err := w.tailer.Tap("in")
	must(t, err)
	line := strings.Repeat("x", 1000)
	const n = 12 << 20 / 1000
	must(t, os.WriteFile(w.path("a.log"), []byte(strings.Repeat(line+"\n", n)), 0o644))
	s.expect("in", slices.Repeat([]string{line}, n)...)
	shown := len(fetched(t, tap))
	if dropped := tap.Dropped(); dropped == 0 || shown+int(dropped) != n {
		t.Errorf("%d shown, %d dropped of %d", shown, dropped, n)
	}
	s.run("append a.log again\nexpect again")
	if all := fetched(t, tap); len(all) != 1 || string(all[0].Data) != "again\n" {
		t.Errorf("then it shows %v", all)
	}
	tap.Close()
	s.run("append a.log more\nexpect more")
}

// TestTapEnds: with its reader, with the tailer, and there are not too many.
func TestTapEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := newScript(w)
	w.start()
	var taps []*Tap
	for range MaxTaps {
		tap, err := w.tailer.Tap("in")
		must(t, err)
		taps = append(taps, tap)
	}
	if _, err := w.tailer.Tap("in"); !errors.Is(err, ErrTaps) {
		t.Errorf("one more: %v", err)
	}
	taps[1].Close()
	tap, err := w.tailer.Tap("in")
	must(t, err)
	taps[1] = tap

	none := func(*Passed) error { return errors.New("a record") }
	ctx, cancel := context.WithTimeout(t.Context(), time.Nanosecond)
	defer cancel()
	if err := tap.Next(ctx, none); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("nobody waits any more: %v", err)
	}
	ended := make(chan error, 1)
	// Ended by the stop, awaited below.
	go func() { ended <- tap.Next(context.Background(), none) }()
	s.run("append a.log last")
	if err := <-ended; err == nil || err.Error() != "a record" {
		t.Errorf("a record comes as %v", err)
	}
	s.run("expect last")
	w.shut()
	last := 0
	for err = nil; err == nil; {
		err = taps[0].Next(t.Context(), func(*Passed) error { last++; return nil })
	}
	if err != io.EOF || last != 1 {
		t.Errorf("%d records, then %v", last, err)
	}
	if err := tap.Next(t.Context(), none); err != io.EOF {
		t.Errorf("after the stop: %v", err)
	}
	for _, tap := range taps {
		tap.Close()
	}
}
