package tail

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"kusto-agent/batcher"
	"kusto-agent/internal/record"
	"kusto-agent/internal/rules"
	"kusto-agent/internal/units"
)

// avroHeader is that of a container file whose sync marker is 16 times c.
func avroHeader(c byte) string {
	b := []byte("Obj\x01")
	b = binary.AppendVarint(b, 1)
	for _, text := range []string{"avro.schema", `"string"`} {
		b = append(binary.AppendVarint(b, int64(len(text))), text...)
	}
	return string(append(b, 0)) + marker(c)
}

func marker(c byte) string { return strings.Repeat(string(c), 16) }

// avroBlock holds records, each a text.
func avroBlock(c byte, records ...string) string {
	var body []byte
	for _, r := range records {
		body = append(binary.AppendVarint(body, int64(len(r))), r...)
	}
	b := binary.AppendVarint(nil, int64(len(records)))
	return string(binary.AppendVarint(b, int64(len(body)))) + string(body) + marker(c)
}

// avroRecords are the records of a body, which must be one header and blocks
// that belong to it.
func avroRecords(body string) (all []string, err error) {
	for _, c := range []byte("ABCDEFGH") {
		rest, found := strings.CutPrefix(body, avroHeader(c))
		if !found {
			continue
		}
		for len(rest) > 0 {
			n, i := binary.Varint([]byte(rest))
			size, k := binary.Varint([]byte(rest[i:]))
			data := []byte(rest[i+k : i+k+int(size)])
			for range n {
				length, i := binary.Varint(data)
				all = append(all, string(data[i:i+int(length)]))
				data = data[i+int(length):]
			}
			rest, found = strings.CutPrefix(rest[i+k+int(size):], marker(c))
			if !found || len(data) > 0 {
				return nil, fmt.Errorf("a block of another file, or none: %q", body)
			}
		}
		return all, nil
	}
	return nil, fmt.Errorf("no header: %q", body)
}

// anyFile is the content of a file of a format, sound for the most part.
func anyFile(format record.Format, r *rand.Rand) string {
	var b strings.Builder
	if format == record.Avro {
		c := "ABCDEFGH"[r.IntN(8)]
		b.WriteString(avroHeader(c))
		for n := range r.IntN(30) + 1 {
			var records []string
			for range r.IntN(6) {
				records = append(records, strings.Repeat("x", r.IntN(30)))
			}
			block := avroBlock(c, records...)
			if r.IntN(8) == 0 {
				block = block[:len(block)/2] + "!" + block[len(block)/2:]
			}
			if r.IntN(12) == 0 {
				block = avroBlock(c, strings.Repeat(fmt.Sprint(n), 700))
			}
			b.WriteString(block)
		}
		return b.String()
	}
	objects := []string{"{}", `{"a":"}"}`, `{"n":{"offset":1}}`, `{"offset":0}`, "{'b': [1,2]}", `{"bad":`, "nonsense", `{"é":"ü"}`, `{"long":"` + strings.Repeat("x", 260) + `"}`}
	between := []string{"\n", "\r\n", "\n\n"}
	if format == record.MultiJSON {
		objects = append(objects, "{\n  \"a\": 1\n}", "[{},{}]")
		between = append(between, "", ",", " ", "\n  ", "][")
	}
	for range r.IntN(120) + 1 {
		b.WriteString(objects[r.IntN(len(objects))] + between[r.IntN(len(between))])
	}
	return b.String()
}

// TestReadSpansOfAnything: whatever is in a file and however it was cut, what a
// payload was made of gives the same payload again, in this run and in the next
// one.
func TestReadSpansOfAnything(t *testing.T) {
	fields := map[string]string{"offset": "{offset}", "f": "{file}/{generation}", "batch": "{batch}", "at": "{host} {path} {input}"}
	shaped := func(name string, set func(*Input), file func(*rand.Rand) string) {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // most of it is waiting for the disk
			times := 6
			if testing.Short() {
				times = 1
			}
			for range times {
				readSpansOfAnything(t, set, file)
			}
		})
	}
	f := func(name string, format record.Format, fields map[string]string) {
		shaped(name, func(in *Input) { in.Format, in.Fields = format, fields }, func(r *rand.Rand) string { return anyFile(format, r) })
	}
	parsed := func(name, how string, fields map[string]string, m *Multiline, file func(*rand.Rand) string) {
		shaped(name, func(in *Input) { in.Format, in.Parse, in.Fields, in.Multiline = record.JSON, how, fields, m }, file)
	}
	apart := func(name, how, on string) {
		shaped(name, func(in *Input) {
			in.Format, in.Parse, in.OnError, in.Fields = record.JSON, how, on, fields
			if how == "regex" {
				in.Pattern, in.Types = []string{`^(?P<n>\d) (?P<message>.*)$`}, map[string]string{"n": "long"}
			}
		}, func(r *rand.Rand) string { return anyAccess(r) + anyText(r) })
	}
	f("JSON with fields", record.JSON, fields)
	f("MultiJSON", record.MultiJSON, nil)
	f("MultiJSON with fields", record.MultiJSON, fields)
	f("Avro", record.Avro, nil)
	parsed("text", "text", nil, nil, anyText)
	parsed("logfmt with fields", "logfmt", fields, nil, anyText)
	parsed("events", "text", nil, &Multiline{Start: `^\d`, MaxLines: 5, MaxWait: 1}, anyText)
	parsed("events with fields", "text", fields, &Multiline{Preset: "java", MaxLines: 5, MaxWait: units.Duration(time.Hour)}, anyText)
	parsed("cri", "cri", nil, nil, anyLog)
	parsed("cri with fields", "cri", fields, nil, anyLog)
	ruled := func(name string, rule rules.Condition, set func(*Input), file func(*rand.Rand) string) {
		shaped("rules, "+name, func(in *Input) {
			set(in)
			in.Drop = dropping(rule)
		}, file)
	}
	ruled("lines", rules.Condition{Match: "a|x"}, func(*Input) {}, anyText)
	ruled("JSON", rules.Condition{Member: "a", Match: "}"}, func(in *Input) { in.Format = record.JSON }, func(r *rand.Rand) string { return anyFile(record.JSON, r) })
	ruled("MultiJSON with fields", rules.Condition{Member: "a", In: []string{"1"}}, func(in *Input) { in.Format, in.Fields = record.MultiJSON, fields },
		func(r *rand.Rand) string { return anyFile(record.MultiJSON, r) })
	ruled("rows", rules.Condition{Column: "1", Match: "a"}, func(in *Input) { in.Format = record.CSV }, anyText)
	ruled("cri with fields", rules.Condition{Member: "stream", In: []string{"stderr"}}, func(in *Input) { in.Format, in.Parse, in.Fields = record.JSON, "cri", fields }, anyLog)
	ruled("events", rules.Condition{Match: "a"}, func(in *Input) {
		in.Format, in.Parse, in.Multiline = record.JSON, "text", &Multiline{Start: `^\d`, MaxLines: 5, MaxWait: 1}
	}, anyText)
	ruled("UTF-16", rules.Condition{Match: "a|ä"}, func(in *Input) { in.Encoding = "utf-16be" }, func(r *rand.Rand) string { return utf16be("\uFEFF" + anyText(r)) })
	shaped("sampled rows", func(in *Input) { in.Format, in.Sample = record.CSV, &rules.Sample{Rate: "0.6", By: "1"} }, anyText)
	shaped("sampled cri", func(in *Input) {
		in.Format, in.Parse, in.Sample = record.JSON, "cri", &rules.Sample{Rate: "0.6", By: "message"}
	}, anyLog)
	redacted := func(name string, set func(*Input), file func(*rand.Rand) string, all ...rules.Redaction) {
		shaped("redacted, "+name, func(in *Input) {
			set(in)
			in.Redact = all
		}, file)
	}
	const longer = "a text that is longer than what stood there"
	redacted("lines", func(*Input) {}, anyText, rules.Redaction{Match: "a|x+", With: longer})
	redacted("JSON with fields", func(in *Input) { in.Format, in.Fields, in.Remove = record.JSON, fields, []string{"b"} },
		func(r *rand.Rand) string { return anyFile(record.JSON, r) }, rules.Redaction{Member: "a", With: longer}, rules.Redaction{Match: "x{200}", With: ""})
	redacted("MultiJSON", func(in *Input) { in.Format, in.Add = record.MultiJSON, map[string]string{"a.c": "x"} },
		func(r *rand.Rand) string { return anyFile(record.MultiJSON, r) }, rules.Redaction{Match: "1", With: "2"})
	redacted("rows", func(in *Input) { in.Format = record.CSV }, anyText, rules.Redaction{Column: "1", With: `"` + "," + longer})
	redacted("columns by name", func(in *Input) {
		in.Format, in.Header, in.Drop = record.CSV, "skip", dropping(rules.Condition{Column: "one", Match: "a"})
	}, func(r *rand.Rand) string { return "one,two\n" + anyText(r) }, rules.Redaction{Column: "one", Match: "[b-d]+", With: longer})
	redacted("cri", func(in *Input) {
		in.Format, in.Parse, in.Drop = record.JSON, "cri", dropping(rules.Condition{Member: "message", Match: "a"})
	}, anyLog,
		rules.Redaction{Member: "message", Match: "[b-d]+", With: longer})
	redacted("UTF-16 with fields", func(in *Input) {
		in.Format, in.Encoding, in.Parse, in.Fields = record.JSON, "utf-16be", "logfmt", fields
	},
		func(r *rand.Rand) string { return utf16be(anyText(r)) }, rules.Redaction{Match: "[aä]", With: "*"})
	apart("combined", "combined", "raw")
	apart("regex", "regex", "drop")
	apart("syslog", "syslog", "quarantine")
	for _, on := range []string{"raw", "drop", "quarantine"} {
		shaped("inner, "+on, func(in *Input) {
			in.Format, in.Parse, in.Inner, in.OnError, in.Fields = record.JSON, "cri", "regex", on, fields
			in.Pattern, in.Types = []string{`^(?P<time>n\d*?)(?P<n>[1-7]+)$`}, map[string]string{"n": "long"}
		}, anyLog)
	}
	shaped("UTF-16", func(in *Input) { in.Encoding = "utf-16be" }, func(r *rand.Rand) string { return utf16be("\uFEFF" + anyText(r)) })
	shaped("UTF-16 parsed", func(in *Input) { in.Format, in.Encoding, in.Parse, in.Fields = record.JSON, "utf-16be", "text", fields },
		func(r *rand.Rand) string { return utf16be(anyText(r)) })
	shaped("ISO 8859-1", func(in *Input) { in.Format, in.Encoding, in.Fields = record.JSON, "latin1", fields },
		func(r *rand.Rand) string { return strings.ReplaceAll(anyFile(record.JSON, r), "ü", "\xfc") })
}

func readSpansOfAnything(t *testing.T, set func(*Input), file func(*rand.Rand) string) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	w := newWorld(t)
	in := w.in()
	in.MaxRecordSize = 250
	set(in)
	w.block, w.batch = 400+r.IntN(2000), r.IntN(2) == 0
	w.start()
	w.taker.set(func() { w.taker.hold = true })
	for n := range 3 {
		must(t, os.WriteFile(w.path(fmt.Sprintf("%d.log", n)), []byte(file(r)), 0o644))
	}
	var made []*record.Payload
	for waits := time.Now(); len(made) == 0; {
		w.look()
		w.taker.set(func() { made = slices.Clone(w.taker.unsent) })
		switch {
		case len(made) > 0:
		case in.Drop != nil || in.Sample != nil || in.OnError != "raw": // all of it may be left out: another content
			readSpansOfAnything(t, set, file)
			return
		case time.Since(waits) > patience: // all of it may be one message, which goes on until the file is quiet
			t.Fatal("nothing was sent")
		}
	}
	for _, p := range made {
		must(t, w.j.Begin(p))
	}
	check := func(p *record.Payload, lens bool) {
		t.Helper()
		want, err := batcher.Raw(p)
		must(t, err)
		if len(want) > w.block {
			t.Errorf("body of %d bytes, more than %d", len(want), w.block)
		}
		q := describe(p)
		body, err := w.tailer.ReadSpans(q)
		must(t, err)
		same := !lens || bytes.Equal(q.Lens, p.Lens) && (q.Lens == nil) == (p.Lens == nil)
		if !same || !bytes.Equal(body, want) || q.Records != p.Records || !slices.Equal(q.Pieces, p.Pieces) {
			t.Fatalf("body of %v is\n%q, %d records, lens %v; want\n%q, %d, %v", p.Cover, body, q.Records, q.Lens, want, p.Records, p.Lens)
		}
		if strings.Contains(string(body), w.tailer.ports.Stamp.String()) {
			t.Fatalf("%q has the stamp of the run", body)
		}
	}
	b := batcher.New(batcher.Options{Memory: 1 << 30})
	for _, p := range made {
		check(p, true)
		halves, err := []*record.Payload(nil), record.ErrWhole
		if p.Records > 1 {
			halves, err = b.Split(p)
		}
		if err != nil && !errors.Is(err, record.ErrWhole) {
			t.Fatal(err)
		}
		for _, half := range halves {
			check(half, false) // it has lengths wherever its parent has
		}
	}
	w.kill()
	w.taker = nil
	w.start() // what was begun is made again, and compared by its checksum
	must(t, os.Rename(w.path("1.log"), w.path("1.log.1")))
	for _, p := range made {
		check(p, true)
	}
}

// A batch is not made again by settings it was not read for: its bytes would be sent in
// one shape to a table that waits for another.
func TestReadSpansOfAnotherShape(t *testing.T) {
	f := func(name string, want error, change func(w *world)) {
		t.Run(name, func(t *testing.T) {
			w, made := sent(t, record.TXT, map[string]string{"a.log": "{}\r\n{}\n"})
			w.shut()
			change(w)
			w.start()
			p := describe(made[0])
			if err := w.tailer.Shaped(p); !errors.Is(err, want) {
				t.Errorf("shaped: %v, want %v", err, want)
			}
			if body, err := w.tailer.ReadSpans(p); !errors.Is(err, want) || want != nil && errors.Is(err, ErrSourceGone) {
				t.Errorf("body is %q, %v; want %v", body, err, want)
			}
		})
	}
	f("as it was", nil, func(*world) {})
	f("format and fields", ErrReshaped, func(w *world) { w.in().Format, w.in().Fields = record.JSON, map[string]string{"a": "b"} })
	f("parse", ErrReshaped, func(w *world) { w.in().Format, w.in().Parse = record.JSON, "logfmt" })
	f("on_error", ErrReshaped, func(w *world) { w.in().Format, w.in().Parse, w.in().OnError = record.JSON, "combined", "drop" })
	f("encoding", ErrReshaped, func(w *world) { w.in().Encoding = "utf-16le" })
	f("rules", ErrReshaped, func(w *world) { w.in().Drop = dropping(rules.Condition{Match: "x"}) })
	f("sample", ErrReshaped, func(w *world) { w.in().Sample = &rules.Sample{Rate: "0.5"} })
	f("redaction", ErrReshaped, func(w *world) { w.in().Redact = []rules.Redaction{{Match: "x", With: "*"}} })
	f("table", ErrReshaped, func(w *world) { w.in().Table = "another" })
	f("input", ErrNotConfigured, func(w *world) { w.inputs = nil; w.addInput("other", "*.log") })
}

// What was read for other settings is read anew by those of now: nothing of it is
// lost, and each payload is what normal reading would have made of these ranges.
func TestReadAnew(t *testing.T) {
	f := func(name, text string, change func(in *Input), bodies []string, refused int) {
		t.Run(name, func(t *testing.T) {
			w, made := sent(t, record.TXT, map[string]string{"a.log": text})
			if len(made) != 1 {
				t.Fatalf("%d payloads", len(made))
			}
			w.shut()
			change(w.in())
			w.start()
			got, err := w.tailer.ReadAnew(describe(made[0]))
			must(t, err)
			var all []string
			var cover []record.Extent
			records := 0
			for _, p := range got.Parts {
				all = append(all, string(p.Body))
				cover = append(cover, p.Cover...)
				records += p.Records
				for _, x := range p.Pieces {
					records -= x.Records
				}
				if p.Route != w.in().Route {
					t.Errorf("route %v", p.Route)
				}
				// It is made again like any other payload.
				q := describe(p)
				body, err := w.tailer.ReadSpans(q)
				if err != nil || string(body) != string(p.Body) || !bytes.Equal(q.Lens, p.Lens) {
					t.Errorf("made again it is %q %v, %v; want %q %v", body, q.Lens, err, p.Body, p.Lens)
				}
			}
			if !slices.Equal(all, bodies) || records != 0 || len(got.Refused) != refused {
				t.Errorf("got %q, %d refused, pieces differ by %d; want %q, %d", all, len(got.Refused), records, bodies, refused)
			}
			at := int64(0)
			for _, x := range append(cover, got.Empty...) {
				if x.Start != at || x.Mark == 0 {
					t.Errorf("cover %v, empty %v", cover, got.Empty)
				}
				at = x.End
			}
			if at != int64(len(text)) {
				t.Errorf("%d bytes of %d are covered", at, len(text))
			}
			for _, r := range got.Refused {
				if string(r.Data) != text[r.Offset:r.Offset+r.Length] {
					t.Errorf("refused %q at %d", r.Data, r.Offset)
				}
			}
		})
	}
	f("another table", "one\ntwo\n", func(in *Input) { in.Table = "U" }, []string{"one\ntwo\n"}, 0)
	f("parsed", "a=1 b=2\n\nc=3\n", func(in *Input) { in.Format, in.Parse = record.JSON, "logfmt" },
		[]string{`{"a":"1","b":"2"}` + "\n" + `{"c":"3"}` + "\n"}, 0)
	f("rows of other lengths", "a,b\nc,d\ne\nf,g\n", func(in *Input) { in.Format = record.CSV }, []string{"a,b\nc,d\n", "e\n", "f,g\n"}, 0)
	f("smaller payloads", "one\ntwo\nthree\n", func(in *Input) { in.Table, in.MaxRecords = "U", 2 }, []string{"one\ntwo\n", "three\n"}, 0)
	f("records to quarantine", "{}\nnonsense\n{\"a\":1}\n[\n", func(in *Input) { in.Format = record.JSON }, []string{"{}\n{\"a\":1}\n"}, 2)
	f("all to quarantine", "nonsense\n[\n", func(in *Input) { in.Format = record.JSON }, nil, 2)
	f("no records at all", "one\ntwo\n", func(in *Input) { in.Format = record.Avro }, nil, 1)
	f("events", "1 a\n b\n2 c\n", func(in *Input) {
		in.Format, in.Parse, in.Multiline = record.JSON, "text", &Multiline{Start: `^\d`, MaxLines: 5, MaxWait: 1}
	}, []string{`{"message":"1 a\n b"}` + "\n" + `{"message":"2 c"}` + "\n"}, 0)
}

// A payload of several inputs goes where each of them sends its files now.
func TestReadAnewOfTwoInputs(t *testing.T) {
	w := newWorld(t)
	w.in().Paths = []string{w.path("a.log")}
	w.addInput("second", "b.log").Table = "in"
	w.batch = true
	w.start()
	w.taker.set(func() { w.taker.hold, w.taker.full = true, true })
	must(t, os.WriteFile(w.path("a.log"), []byte("one\n"), 0o644))
	must(t, os.WriteFile(w.path("b.log"), []byte("two\n"), 0o644))
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
	if len(p.Cover) != 2 {
		t.Fatalf("cover %v", p.Cover)
	}
	w.shut()
	w.in().Table = "elsewhere"
	w.start()
	got, err := w.tailer.ReadAnew(p)
	must(t, err)
	to := map[string]string{}
	for _, part := range got.Parts {
		to[part.Route.Table] += string(part.Body)
	}
	if len(got.Parts) != 2 || to["in"] != "one\n" || to["elsewhere"] != "two\n" {
		t.Errorf("got %v", to)
	}
	w.shut() // a reader may hold the file open, and its bytes with it
	must(t, os.Remove(w.path("a.log")))
	w.start()
	if _, err := w.tailer.ReadAnew(p); !errors.Is(err, ErrSourceGone) {
		t.Errorf("err %v", err)
	}
	left, gone, err := w.tailer.Divide(p)
	must(t, err)
	if len(left.Cover) != 1 || left.Cover[0].File.Input != "second" || len(gone.Cover) != 1 {
		t.Errorf("left %v, gone %v", left.Cover, gone.Cover)
	}
}

// A batch whose header is another one now cannot be made again.
func TestReadSpansOfAnotherHeader(t *testing.T) {
	w, made := sent(t, record.Avro, map[string]string{"a.log": avroHeader('A') + avroBlock('A', "one", "two") + avroBlock('A', strings.Repeat("x", 600))})
	w.shut()
	text, err := os.ReadFile(w.path("a.log"))
	must(t, err)
	must(t, os.WriteFile(w.path("a.log"), []byte(strings.Replace(string(text), marker('A'), marker('B'), 1)), 0o644))
	w.start()
	if body, err := w.tailer.ReadSpans(describe(made[0])); !errors.Is(err, ErrSourceGone) {
		t.Errorf("body is %q, %v", body, err)
	}
}

var offsetOf = regexp.MustCompile(`"at":"([^"]*)","file":"([0-9a-f]{16})","gen":(\d+),"offset":(\d+)}$`)

// TestStamps: the stamps of a record tell where it is, through rotation and
// truncation.
func TestStamps(t *testing.T) {
	w := newWorld(t)
	w.in().Format = record.JSON
	w.in().Fields = map[string]string{"at": "{input} {path}", "file": "{file}", "gen": "{generation}", "offset": "{offset}"}
	s := newScript(w)
	w.start()
	var got []string
	step := func(n int, script string) {
		t.Helper()
		s.run(script)
		w.await("records", func() bool { return w.boxed.count("in") >= n })
		w.look()
		for _, rec := range w.boxed.take("in") {
			m := offsetOf.FindStringSubmatch(rec)
			if m == nil {
				t.Fatalf("record is %q", rec)
			}
			got = append(got, fmt.Sprintf("%.7s %s %s %s", rec, strings.ReplaceAll(m[1], w.dir, ""), m[3], m[4]))
		}
	}
	step(2, `append a.log {"n":1} {"n":2}`)
	step(1, "mv a.log a.old\nappend a.old {\"n\":3}")
	step(1, `append a.log {"n":4}`)
	must(t, os.Truncate(w.path("a.log"), 0))
	step(1, `append a.log {"m":50}`)
	want := []string{`{"n":1, in /a.log 0 0`, `{"n":2, in /a.log 0 8`, `{"n":3, in /a.log 0 16`, `{"n":4, in /a.log 0 0`, `{"m":50 in /a.log 1 0`}
	if !slices.Equal(got, want) {
		t.Errorf("stamps\n%q; want\n%q", got, want)
	}
}

// wantAvro expects the records of all Avro bodies so far, which are taken.
func (w *world) wantAvro(want ...string) {
	w.t.Helper()
	w.look()
	w.taker.mu.Lock()
	defer w.taker.mu.Unlock()
	var got []string
	for _, p := range w.taker.unsent {
		raw, err := batcher.Raw(p)
		must(w.t, err)
		records, err := avroRecords(string(raw))
		if err != nil {
			w.t.Error(err)
		}
		if len(records) != p.Records {
			w.t.Errorf("%d records, the payload says %d", len(records), p.Records)
		}
		got = append(got, records...)
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		w.t.Errorf("records are %s; want %s", brief(got), brief(want))
	}
}

func avroWorld(t *testing.T) (*world, *script) {
	w := newWorld(t)
	w.in().Format = record.Avro
	w.batch = true
	w.block = 4096
	w.start()
	w.taker.set(func() { w.taker.hold = true })
	return w, newScript(w)
}

func (w *world) appendTo(name string, parts ...string) {
	w.t.Helper()
	f, err := os.OpenFile(w.path(name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	must(w.t, err)
	defer f.Close()
	for _, part := range parts {
		_, err := f.WriteString(part)
		must(w.t, err)
	}
}

// A container file that grows in any steps is sent block by block, each once,
// and through rotation no block gets the header of another file.
func TestAvroGrows(t *testing.T) {
	w, s := avroWorld(t)
	first := avroHeader('A') + avroBlock('A', "one") + avroBlock('A', "two", "three")
	for i := range len(first) {
		w.appendTo("a.log", first[i:i+1])
		if i%9 == 0 {
			w.look()
		}
	}
	w.wantAvro("one", "two", "three")
	s.run("mv a.log a.old")
	w.appendTo("a.log", avroHeader('B'), avroBlock('B', "five"))
	w.appendTo("a.old", avroBlock('A', "four"))
	w.wantAvro("one", "two", "three", "four", "five")
	w.appendTo("a.log", avroBlock('B', "six")[:5])
	w.wantAvro("one", "two", "three", "four", "five")
	w.appendTo("a.log", avroBlock('B', "six")[5:])
	w.wantAvro("one", "two", "three", "four", "five", "six")
}

// Files of one application begin alike for as long as their schema is, and
// differ in the marker behind it: none is taken for a copy of another.
func TestAvroAlike(t *testing.T) {
	w, s := avroWorld(t)
	schema := `"string"` + strings.Repeat(" ", 1500)
	header := func(c byte) string {
		b := binary.AppendVarint([]byte("Obj\x01"), 1)
		for _, text := range []string{"avro.schema", schema} {
			b = append(binary.AppendVarint(b, int64(len(text))), text...)
		}
		return string(append(b, 0)) + marker(c)
	}
	want := make(map[string]int)
	for i, c := range []byte("ABCD") {
		w.appendTo("a.log", header(c))
		w.look() // nothing but what is the same in all of them is there
		block := avroBlock(c, "same")
		w.appendTo("a.log", block)
		w.look()
		w.appendTo("a.log", block)
		want[header(c)] = 2 * len(block)
		if i%2 == 0 {
			w.look()
		}
		s.run(fmt.Sprintf("mv a.log %d.log", i))
	}
	w.look()
	w.await("all of it", func() bool { return w.boxed.counter("read") == 8 })
	w.look()
	w.taker.mu.Lock()
	defer w.taker.mu.Unlock()
	got := make(map[string]int)
	for _, p := range w.taker.unsent {
		raw, err := batcher.Raw(p)
		must(t, err)
		head := string(raw[:len(header('A'))])
		got[head] += len(raw) - len(head)
	}
	if !maps.Equal(got, want) {
		t.Errorf("%d bytes under %d headers", len(w.taker.unsent), len(got))
	}
}

// A file that is copied, truncated and begun anew with another header: the rest
// of the old content is read from the copy, under the old header.
func TestAvroCopyTruncated(t *testing.T) {
	w, s := avroWorld(t)
	w.appendTo("a.log", avroHeader('A'), avroBlock('A', "one"))
	w.wantAvro("one")
	w.taker.set(func() { w.taker.full = true })
	w.appendTo("a.log", avroBlock('A', "two", strings.Repeat("x", 2000)))
	s.run("cp a.log a.log.1")
	must(t, os.Truncate(w.path("a.log"), 0))
	w.appendTo("a.log", avroHeader('B'), avroBlock('B', "three"))
	w.taker.set(func() { w.taker.full = false })
	w.await("the rest of the old content", func() bool {
		return w.boxed.counter("bytes") >= int64(2*len(avroHeader('A'))+len(avroBlock('A', "one", "two", strings.Repeat("x", 2000))+avroBlock('B', "three")))
	})
	w.wantAvro("one", "two", strings.Repeat("x", 2000), "three")
}

// Damage costs the blocks it is in, and reading goes on behind them; of each
// the place and the reason are kept.
func TestAvroDamage(t *testing.T) {
	w, s := avroWorld(t)
	header, good, long := avroHeader('A'), avroBlock('A', "good"), avroBlock('A', strings.Repeat("x", 5000))
	damaged := good[:3] + "?" + good[3:]
	w.appendTo("a.log", header, good, damaged, good, long, good, good[:7])
	w.wantAvro("good", "good", "good")
	s.run("mv a.log a.old")
	w.await("the end", func() bool { return w.boxed.counter(string(record.Malformed)) == 2 })
	w.wantAvro("good", "good", "good")
	w.boxed.mu.Lock()
	defer w.boxed.mu.Unlock()
	var got []string
	for _, r := range w.boxed.refused {
		got = append(got, fmt.Sprintf("%s %d+%d %s", r.Reason, r.Offset, r.Length, r.Message))
		if !r.Truncated && int64(len(r.Data)) != r.Length {
			t.Errorf("%d bytes of %d are kept", len(r.Data), r.Length)
		}
	}
	at := func(parts ...string) int { return len(strings.Join(parts, "")) }
	want := []string{
		fmt.Sprintf("malformed %d+%d a block that the sync marker of the file does not end", at(header, good), len(damaged)),
		fmt.Sprintf("too_long %d+%d a block longer than %d bytes", at(header, good, damaged, good), len(long), w.block-2),
		fmt.Sprintf("malformed %d+7 the file ends in a block", at(header, good, damaged, good, long, good)),
	}
	if !slices.Equal(got, want) {
		t.Errorf("refused\n%q; want\n%q", got, want)
	}
}

// What is no container file is told of at once, and goes to quarantine as one
// when it ends.
func TestAvroWithoutHeader(t *testing.T) {
	w, s := avroWorld(t)
	w.appendTo("a.log", avroBlock('A', "headless"), strings.Repeat("x", 100))
	w.appendTo("b.log", avroHeader('B'), avroBlock('B', "one"))
	w.wantAvro("one")
	if n := w.boxed.logged("no record boundary", "a.log"); n != 1 {
		t.Errorf("it was told %d times", n)
	}
	s.run("mv a.log a.old")
	w.await("the end", func() bool { return w.boxed.counter(string(record.Malformed)) == 1 })
	w.boxed.mu.Lock()
	defer w.boxed.mu.Unlock()
	if r := w.boxed.refused[0]; r.Offset != 0 || r.Length != int64(len(avroBlock('A', "headless"))+100) || !strings.Contains(r.Message, "not the header of an Avro file") {
		t.Errorf("refused %d bytes at %d: %s", r.Length, r.Offset, r.Message)
	}
}

// start_at: end begins behind the last whole block.
func TestAvroStartAtEnd(t *testing.T) {
	w := newWorld(t)
	w.in().Format, w.in().StartAt = record.Avro, "end"
	w.batch, w.block = true, 4096
	half := avroBlock('A', "new")
	w.appendTo("a.log", avroHeader('A'), avroBlock('A', "old\n"), half[:9])
	w.start()
	w.taker.set(func() { w.taker.hold = true })
	w.wantAvro()
	w.appendTo("a.log", half[9:])
	w.wantAvro("new")
	if n := len(w.boxed.refused); n > 0 {
		t.Errorf("%d ranges were refused", n)
	}
}

// A record that is longer than any may be costs itself, in any format, however
// much of the file it takes.
func TestLongOfMultiJSON(t *testing.T) {
	w := newWorld(t)
	w.in().Format, w.in().MaxRecordSize = record.MultiJSON, 1000
	w.block = 4096
	w.start()
	long := "  {\n    \"a\": [\n" + strings.Repeat("      {\"x\": 1},\n", 2000) + "    ]\n  },\n"
	w.appendTo("a.log", "[\n  {\"n\": 1},\n", long, "  {\n    \"n\": 2\n  }\n]\n")
	w.expect("in", `{"n": 1}`, "{", `    "n": 2`, "  }")
	if n := w.boxed.counter(string(record.TooLong)); n != 1 || len(w.boxed.refused) != 1 {
		t.Fatalf("%d records are too long, %d were refused", n, len(w.boxed.refused))
	}
	if r := w.boxed.refused[0]; r.Length != int64(len(long)) || r.Message != fmt.Sprintf("%d bytes, more than max_record_size allows (1000)", len(long)) {
		t.Errorf("refused %d bytes: %s", r.Length, r.Message)
	}
}
