package format

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"kusto-agent/internal/record"
)

// fieldSets are fields of all kinds: none of a name of its own, empty ones, those
// that begin as a member or a comma does, those that differ in length from
// record to record.
func fieldSets(t testing.TB) []*Fields {
	return []*Fields{
		newFields(t, "o", "{offset}", "f", "{file}.{generation}", "b", "{batch}"),
		newFields(t, ",", "", "\"", "\",\""),
		newFields(t, "a", "{offset}"),
	}
}

// FuzzFieldCuts: for any file and any way of cutting it into reads the same
// records come out with the same fields, and taking the fields away again gives
// the bytes of the file.
func FuzzFieldCuts(f *testing.F) {
	for n, s := range []string{
		"{}\n{\"a\":1}\r\n{ }", "{\"a\":1,}\n{,}\n{\"a\":1,,}", "{'a':1}//}\n{/*\n*/}\n[{},{\"b\":2}]", "nonsense\n{\"a\":{}}x\n{}{}\r\n{}",
		"{\"o\":\"}\",\"b\":[{}]}\n \n\t{ \"f\" : null }\r\n", "{\"\\u006f\":1}\n{\"a\":\"\xff\"}\n", "\xEF\xBB\xBF{}\n{", "{\n  \"a\": 1\n}\r\n{\n}\n", "00\n{\"\":0}\r\r", "{\"\",\":1}\n{\",\":\"\"",
	} {
		for o := range uint8(24) {
			f.Add([]byte(s), uint64(n), o)
		}
	}
	sets := fieldSets(f)
	f.Fuzz(func(t *testing.T, in []byte, seed uint64, options uint8) {
		if len(in) > 4096 {
			return
		}
		o := Options{
			Format: []record.Format{record.JSON, record.MultiJSON}[options&1], Validate: options&2 == 0,
			MaxRecord: 1 << 20, MaxBody: []int{0, 60, 1 << 20}[options>>2%3], Fields: sets[int(options>>4)%len(sets)],
		}
		if o.MaxBody == 60 {
			o.MaxRecord = 30
		}
		whole := read(t, o, string(in)).whole()
		cut := read(t, o, string(in)).cut(rand.New(rand.NewPCG(seed, 0)))
		if got, want := fmt.Sprint(cut.events), fmt.Sprint(whole.events); got != want || cut.invalid != whole.invalid {
			t.Fatalf("%+v %q\n  cut %s\nwhole %s", o, in, got, want)
		}
		for _, e := range whole.events {
			if e.reason == "" && o.Validate && !soundJSON([]byte(e.body)) && !strings.ContainsAny(e.body, "'/") {
				t.Fatalf("%q was sent", e.body)
			}
		}
	})
}

// A record that its fields make longer than a body may be is rejected, whatever
// was read before it.
func TestGrown(t *testing.T) {
	fields := newFields(t, "p", strings.Repeat("x", 20))
	for _, format := range []record.Format{record.JSON, record.MultiJSON} {
		f := func(in string, records int, want string) {
			t.Helper()
			s := newScanner(t, Options{Format: format, Validate: true, MaxRecord: 30, MaxBody: 50, Fields: fields})
			var c Chunk
			got, n := "", 0
			for at, data := 0, buffer(in); at < len(data); at += c.Consumed {
				s.Scan(data[at:], int64(at), true, 0, &c)
				n += c.Records
				if len(c.Body) > 50 || c.Consumed == 0 {
					t.Fatalf("%q: body of %d bytes, %d consumed", in, len(c.Body), c.Consumed)
				}
				for _, j := range c.Rejected {
					got += fmt.Sprintf("%s %s %q", j.Reason, j.Message, j.Data)
				}
			}
			if got != want || n != records {
				t.Errorf("%s %q: %d records, rejected %s; want %d, %s", format, in, n, got, records, want)
			}
		}
		f("{}\n{}\n{}", 3, "")
		f("{\"a\":\"234567890123\"}\n", 1, "")
		f("{\"p\":\"234567890123456789012\"}\n", 1, "")
		f("{}\n{\"a\":\"2345678901234567\"}\n{}\n", 2, `grown with its fields it is longer than 50 bytes "{\"a\":\"2345678901234567\"}\n"`)
	}
}

func TestFieldsAreOfJSON(t *testing.T) {
	for _, spec := range All() {
		_, err := New(Options{Format: spec.Format, MaxRecord: 100, Fields: newFields(t)})
		if (err == nil) != (spec.Mapping == "Json") {
			t.Errorf("%s: %v", spec.Format, err)
		}
	}
}

func TestHasBatch(t *testing.T) {
	var none *Fields
	if none.HasBatch() || newFields(t, "a", "{offset}{{batch}").HasBatch() || !newFields(t, "a", "x", "b", "x{batch}").HasBatch() {
		t.Error("the place of the batch is not known")
	}
}

func TestScanWithFieldsAllocatesNothing(t *testing.T) {
	s := newScanner(t, Options{Format: record.JSON, Validate: true, Fields: newFields(t, "o", "{offset}", "b", "{batch}")})
	data := buffer(strings.Repeat("{\"a\":[1,\"b\"]}\n", 100))
	var c Chunk
	if n := testing.AllocsPerRun(10, func() { s.Scan(data, 1, true, 0, &c) }); n > 0 || c.Records < 100 {
		t.Errorf("%v allocations for %d records", n, c.Records)
	}
}

// BenchmarkScanFields sets checked JSON with fields beside the same without.
func BenchmarkScanFields(b *testing.B) {
	data := fill(jsonLine)
	f := func(name string, fields *Fields) {
		b.Run(name, func(b *testing.B) {
			s := newScanner(b, Options{Format: record.JSON, Validate: true, MaxBody: 4_000_000, Fields: fields})
			s.SetStamp(stamp)
			var c Chunk
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				for at := 0; at < len(data); at += c.Consumed {
					s.Scan(data[at:], int64(at)+1, false, 0, &c)
				}
			}
		})
	}
	f("none", nil)
	f("one", newFields(b, "env", "prod"))
	f("stamps", newFields(b, "f", "{file}", "g", "{generation}", "o", "{offset}", "b", "{batch}"))
}
