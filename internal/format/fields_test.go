package format

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"kusto-agent/internal/record"
)

var stamp = Stamp{
	Host: "web-1", Path: "/srv/\"ü\"\x01\xff.json", Input: "app", File: 0xab, Generation: 2, Offset: 4711,
	Batch: record.BatchID{0: 0x12, 5: 0x34, 7: 0x56, 9: 0x78, 15: 0x9a},
}

func newFields(t testing.TB, values ...string) *Fields {
	t.Helper()
	m := map[string]string{}
	for i := 0; i < len(values); i += 2 {
		m[values[i]] = values[i+1]
	}
	f, err := NewFields(m)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestFieldValues(t *testing.T) {
	f := func(value, want string) {
		t.Helper()
		if got := string(newFields(t, "f", value).Splice(nil, []byte("{}"), &stamp)); got != `{"f":`+want+`}` {
			t.Errorf("%q\n got %s\nwant %s", value, got, want)
		}
	}
	f("", `""`)
	f("prod", `"prod"`)
	f("1", `"1"`)
	f("{host}", `"web-1"`)
	f("{path}", `"/srv/\"ü\"\u0001�.json"`)
	f("{input}", `"app"`)
	f("{file}", `"00000000000000ab"`)
	f("{batch}", `"`+stamp.Batch.String()+`"`)
	f("{offset}", `4711`)
	f("{generation}", `2`)
	f("{offset} ", `"4711 "`)
	f("{generation}.{offset}", `"2.4711"`)
	f("a{{b}{{{host}}", `"a{b}{web-1}"`)
	f("{{host}", `"{host}"`)
	f("a\"\\\n", `"a\"\\\u000a"`)
}

func TestFieldMistakes(t *testing.T) {
	f := func(want string, values map[string]string) {
		t.Helper()
		if _, err := NewFields(values); err == nil || err.Error() != want {
			t.Errorf("%q: %v\nwant %s", values, err, want)
		}
	}
	f(`a: {hots} is not known; want one of {batch} {container} {file} {generation} {host} {input} {namespace} {offset} {path} {pod} {pod_uid}, or {{ for a brace
b: a brace is not closed; want {{ for a brace`, map[string]string{"a": "{hots}", "b": "x{host", "c": "fine"})
	f("\xff: its name is not UTF-8", map[string]string{"\xff": ""})
	many := map[string]string{}
	for i := range MaxFields + 1 {
		many[strings.Repeat("a", i)] = ""
	}
	f("65 fields: at most 64 can be added", many)
}

func TestSplice(t *testing.T) {
	fields := newFields(t, "env", "prod", "n", "{offset}")
	f := func(in, want string) {
		t.Helper()
		if got := string(fields.Splice([]byte("before "), []byte(in), &stamp)); got != "before "+want {
			t.Errorf("%q\n got %s\nwant %s", in, got, want)
		}
	}
	f(`{}`, `{"env":"prod","n":4711}`)
	f("{ }\r\n", "{ \"env\":\"prod\",\"n\":4711}\r\n")
	f(" {\"a\":1} \n", " {\"a\":1,\"env\":\"prod\",\"n\":4711} \n")
	f(`{"a":{"env":1},"b":[{"n":{}}]}`, `{"a":{"env":1},"b":[{"n":{}}],"env":"prod","n":4711}`)
	f(`{"a":"}","b\"}":"env"}`, `{"a":"}","b\"}":"env","env":"prod","n":4711}`)
	f(`{"env":1}`, `{"env":1,"n":4711}`)
	f(`{"n" : null , "env":{}}`, `{"n" : null , "env":{}}`)
	f(`{"\u0065nv":1,"N":2}`, `{"\u0065nv":1,"N":2,"n":4711}`)
	f(`{'env':'}','it\'s "n"':1}//}`, `{'env':'}','it\'s "n"':1,"n":4711}//}`)
	f(`{'\u0065nv':1,'n':2}`, `{'\u0065nv':1,'n':2}`)
	f(`/*{*/{/*"env":1}*/}`, `/*{*/{/*"env":1}*/"env":"prod","n":4711}`)
	f("{// }\n\"a\":1}", "{// }\n\"a\":1,\"env\":\"prod\",\"n\":4711}")
	for _, none := range []string{"", "nonsense", "[{}]", "\"{}\"", "{", `{"a`, `{'a`, "{/*}", "}", "/{", "{]]"} {
		if _, end, _ := fields.survey([]byte(none)); end >= 0 {
			t.Errorf("%q: an object that ends at %d", none, end)
		}
	}
	f("nonsense\n", "nonsense\n")
}

// FuzzSplice: the standard library reads the same members from a record with
// fields as from the one without, and the fields that were not there.
func FuzzSplice(f *testing.F) {
	addJSON(f)
	f.Add([]byte(`{"env":{"n":1},"\u006e":"}","c":[{}]}`))
	f.Add([]byte(" { } \r\n"))
	fields := newFields(f, "env", "prod", "n", "{offset}", "", "{path}")
	added := map[string]any{"env": "prod", "n": 4711.0, "": "/srv/\"ü\"\x01\ufffd.json"}
	f.Fuzz(func(t *testing.T, b []byte) {
		out := fields.Splice(nil, b, &stamp)
		if !soundJSON(b) {
			return
		}
		for _, form := range []struct{ in, out []byte }{{b, out}, {loosen(b), fields.Splice(nil, loosen(b), &stamp)}} {
			end := 0
			for end < len(form.in) && form.in[end] == form.out[end] {
				end++
			}
			if !bytes.HasSuffix(form.out[end:], form.in[end:]) {
				t.Fatalf("%q became %q", form.in, form.out)
			}
		}
		var before, after map[string]any
		if json.Unmarshal(b, &before) != nil || json.Unmarshal(out, &after) != nil {
			return // a number that no float64 holds
		}
		for name, value := range added {
			if _, own := before[name]; !own {
				before[name] = value
			}
		}
		if !reflect.DeepEqual(before, after) {
			t.Fatalf("%q became %q", b, out)
		}
		loose := fields.Splice(nil, loosen(b), &stamp)
		if plain := relax(nil, loose); plain != nil && faultIn(plain).text != "" {
			t.Fatalf("%q became %q", loosen(b), loose)
		}
	})
}

func TestSpliceAllocatesNothing(t *testing.T) {
	fields, dst := newFields(t, "h", "{host}", "f", "{file}", "o", "{offset}", "b", "{batch}"), make([]byte, 0, 1000)
	if n := testing.AllocsPerRun(10, func() { fields.Splice(dst, []byte(`{"a":{"b":["c"]}}`), &stamp) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkSplice(b *testing.B) {
	data := fill(jsonLine)
	fields := newFields(b, "h", "{host}", "f", "{file}", "o", "{offset}", "b", "{batch}")
	out := make([]byte, 0, 2*len(data))
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		out = out[:0]
		for rest := data; len(rest) > 0; {
			n := firstLine(rest)
			out, rest = fields.Splice(out, rest[:n], &stamp), rest[n:]
		}
	}
}
