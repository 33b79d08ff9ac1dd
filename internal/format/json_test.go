package format

import (
	"encoding/json"
	"strings"
	"testing"

	"kusto-agent/internal/record"
)

func TestJSONFaults(t *testing.T) {
	s := newScanner(t, Options{Format: record.JSON, Validate: true})
	f := func(in, want string) {
		t.Helper()
		got := ""
		if ok, _ := s.checkJSON([]byte(in+"\n"), len(in)+1); !ok {
			got = s.fault.explain([]byte(in + "\n"))
		}
		if got != want {
			t.Errorf("%q\n got %s\nwant %s", in, got, want)
		}
	}
	f(`{"a":1}`, "")
	f(` {"a":[{},[],"\u00e4\\",-0.5e+10,true,false,null]} `, "")
	f(`{"a":"\ud800"}`, "")
	f(`{"a":[1],"b":{"c":{},"d":[{}]}}`, "")
	f(`{"a":1,"a":2}`, "")
	f(`null`, `column 1: unexpected 'n' where an object must begin`)
	f(`{"a"}`, `column 5: unexpected '}' where a colon must follow a name`)
	f(`{"a":}`, `column 6: unexpected '}' in or instead of a value`)
	f(`{"a":1`, `column 7: the record ends where a comma or an end must follow a value`)
	f(`{"a":1,}`, `column 8: unexpected '}' where a name must begin`)
	f(`{"a":[1,]}`, `column 9: unexpected ']' in or instead of a value`)
	f(`{"a":[1}`, `column 8: unexpected '}' where a comma or an end must follow a value`)
	f(`{"a":01}`, `column 7: unexpected '1' where a comma or an end must follow a value`)
	f(`{"a":1.}`, `column 8: unexpected '}' in or instead of a value`)
	f(`{"a":-}`, `column 7: unexpected '}' in or instead of a value`)
	f(`{"a":nul}`, `column 9: unexpected '}' in or instead of a value`)
	f(`{"a":NaN}`, `column 6: unexpected 'N' in or instead of a value`)
	f(`{"a":"b`, `column 8: the record ends in a string`)
	f(`{"a":"b`+"\r", `column 8: the record ends in a string`)
	f(`{"a":"\x"}`, `column 8: unexpected 'x' in a string`)
	f(`{"a":"\u12G4"}`, `column 11: unexpected 'G' in a string`)
	f("{\"a\":\"long enough for eight bytes\tb\"}", `column 34: unexpected '\t' in a string`)
	f(`{ä:1}`, `column 2: unexpected 'ä' where a name must begin`)
	f("{\"a\":\"\xc3\"}", "")

	f(`{'a':'b'}`, "")
	f(`{'it''s':1}`, `column 6: unexpected '\'' where a colon must follow a name`)
	f(`{'a':'it\'s "quoted" \"twice\"'}`, "")
	f(`{"a":'b',/* ' " */"c":"it's // not a comment"}//'`, "")
	f("/**/{/***/}//\r", "")
	f(`{"a":1}/*`, `column 8: unexpected '/' behind the object`)
	f(`{"a":1 // }`, `column 12: the record ends where a comma or an end must follow a value`)
	f(`// nothing`, `column 11: the record ends where an object must begin`)
	f(`{"a":'b}`, `column 9: the record ends in a string`)
	f(`{"a":"\'"}`, `column 8: unexpected '\'' in a string`)
	f("{}//\xff", "")
}

func TestJSONDepth(t *testing.T) {
	f := func(depth int, want string) {
		t.Helper()
		in := `{"a":` + strings.Repeat("[", depth-1) + strings.Repeat("]", depth-1) + "}"
		if got := faultIn([]byte(in)).text; got != want {
			t.Errorf("depth %d: %q, want %q", depth, got, want)
		}
	}
	f(1+1, "")
	f(MaxDepth, "")
	f(MaxDepth+1, "nested too deeply")
	f(1<<20, "nested too deeply")

	mixed := strings.Repeat(`{"a":[`, MaxDepth/2) + strings.Repeat("]}", MaxDepth/2)
	if f := faultIn([]byte(mixed)); f.text != "" {
		t.Errorf("mixed containers: %+v", f)
	}
}

// depth is how deeply the containers of valid JSON nest.
func depth(b []byte) int {
	most, now := 0, 0
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '"':
			for i++; b[i] != '"'; i++ {
				if b[i] == '\\' {
					i++
				}
			}
		case '[', '{':
			now++
			most = max(most, now)
		case ']', '}':
			now--
		}
	}
	return most
}

// soundJSON is what strictJSON decides, as the standard library sees it.
func soundJSON(b []byte) bool {
	return json.Valid(b) && strings.TrimLeft(string(b), " \t\r\n")[0] == '{' && depth(b) <= MaxDepth
}

func addJSON(f *testing.F) {
	for _, s := range []string{
		`{"a":1}`, `{}`, `{"a":[{},[],"\u00e4\\",-0.5e+10,true,false,null]}`, ` {"ä":"☃", "b" : {"c":[1,2,{"d":0}]} } `,
		`{"a":"0123456789 0123456789\n"}`, `{"a":1e5,"b":[1,]}`, `[{}]`, `{"a":tru}`, "{\"\xff\":0}", `{"a":"b`, `{"a":-01}`,
		`{'a':'b "c" \' d'} // e`, `{/*"*/"a":1/**/}`, `{"a":"/*'"}`,
	} {
		f.Add([]byte(s))
	}
}

func FuzzStrictJSON(f *testing.F) {
	addJSON(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		if got, want := faultIn(b), soundJSON(b); (got.text == "") != want {
			t.Fatalf("%q: %+v, the standard library finds it sound: %t", b, got, want)
		}
	})
}

// loosen writes valid JSON with single quotes and comments.
func loosen(b []byte) []byte {
	var out []byte
	for i := 0; i < len(b); i++ {
		if b[i] != '"' {
			out = append(out, b[i])
			if strings.IndexByte("{}[],:", b[i]) >= 0 {
				out = append(out, "/*'\"*/"...)
			}
			continue
		}
		out = append(out, '\'')
		for i++; b[i] != '"'; i++ {
			switch {
			case b[i] == '\'':
				out = append(out, `\'`...)
			case b[i] == '\\' && b[i+1] == '"':
				i++
				out = append(out, '"')
			case b[i] == '\\':
				out = append(out, b[i], b[i+1])
				i++
			default:
				out = append(out, b[i])
			}
		}
		out = append(out, '\'')
	}
	return append(out, "// '{"...)
}

func FuzzRelaxedJSON(f *testing.F) {
	addJSON(f)
	s, err := New(Options{Format: record.JSON, Validate: true, MaxRecord: 1 << 20})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		before := string(b)
		ok, _ := s.checkJSON(b, len(b))
		if string(b) != before {
			t.Fatal("the check changed the record")
		}
		if !ok {
			if soundJSON(b) {
				t.Fatalf("%q was refused: %s", b, s.fault.explain(b))
			}
			if s.fault.reason != record.Malformed || s.fault.at > len(b) {
				t.Fatalf("%q: fault %+v", b, s.fault)
			}
		}
		if soundJSON(b) {
			loose := loosen(b)
			if ok, _ := s.checkJSON(loose, len(loose)); !ok {
				t.Fatalf("%q was refused: %s", loose, s.fault.explain(loose))
			}
		}
	})
}

// faultIn is why a record is not one JSON object.
func faultIn(rec []byte) fault {
	_, f := strictJSON(rec)
	return f
}
