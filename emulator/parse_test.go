package emulator

import (
	"errors"
	"reflect"
	"strings"
	"testing"
)

func TestRecords(t *testing.T) {
	type rows = []string
	f := func(format, body string, want rows, dropped int, code string) {
		t.Helper()
		var got rows
		tally, err := formats[format].records([]byte(body), func(raw []byte) bool { got = append(got, string(raw)); return true })
		gotCode := ""
		var bad *badData
		if errors.As(err, &bad) {
			gotCode = bad.code
		}
		if gotCode != code || code == "" && (!reflect.DeepEqual(got, want) || tally.rows != len(want) || tally.dropped != dropped) {
			t.Errorf("%s %q: got %q dropped %d %s, want %q dropped %d %s", format, body, got, tally.dropped, gotCode, want, dropped, code)
		}
	}

	f("txt", "a\n\nb\r\n \nc", rows{"a", "b\r", " ", "c"}, 0, "")
	f("txt", "\n\n", nil, 0, "")
	f("txt", "\ufeffa\n", rows{"\ufeffa"}, 0, "")

	f("json", "{\"a\":1}\r\n\n {\"b\":2} \n[1]\n3\n{\"c\"\n{}", rows{`{"a":1}`, ` {"b":2} `, `{}`}, 3, "")
	f("json", "{\n\"a\":1\n}\n", nil, 3, "")
	f("json", "\ufeff{}\n{}\n", rows{"{}"}, 1, "")
	f("json", "{} {}\n", nil, 1, "")
	f("json", `{'a': 'it\'s "so"', "b": 1} // why`+"\n/* c */ {\"u\": \"//\"}\n", rows{`{'a': 'it\'s "so"', "b": 1} // why`, `/* c */ {"u": "//"}`}, 0, "")
	f("json", "{'a': 1\n'a'\n/* {}\n", nil, 3, "")

	f("multijson", "{\"a\":\n1}\n{} [{},\n{}]{}", rows{"{\"a\":\n1}", "{}", "{}", "{}", "{}"}, 0, "")
	f("multijson", "[]", nil, 0, "")
	f("multijson", "{}\n1", nil, 0, "BadRequest_InvalidBlob")
	f("multijson", "[{},null]", nil, 0, "BadRequest_InvalidBlob")
	f("multijson", "{},{}", nil, 0, "BadRequest_InvalidBlob")
	f("multijson", "{}{\"a\":", nil, 0, "BadRequest_InvalidBlob")

	f("csv", "h1,h2\na,\"b\r\n\"\"c\"\"\"\r\n\nd,e", rows{"h1,h2", "a,\"b\r\n\"\"c\"\"\"", "d,e"}, 0, "")
	f("csv", "a,b\nc\n", nil, 0, "Stream_WrongNumberOfFields")
	f("csv", "a,b\nc,\"d\ne,f\n", nil, 0, "Stream_ClosingQuoteMissing")
	f("csv", "a,\"b\"\"", nil, 0, "Stream_ClosingQuoteMissing")
	f("csv", "a,\"b\"c\n", nil, 0, "BadRequest_UnexpectedCharacterInInputStream")
	f("csv", "a,b\"c\n", nil, 0, "BadRequest_UnexpectedCharacterInInputStream")
	f("csv", "\ufeff\"a\",b\n", nil, 0, "BadRequest_UnexpectedCharacterInInputStream")
	f("csv", "\n\r\n", nil, 0, "")
	f("tsv", "a\t\"b\tc\"\nd\te\n", rows{"a\t\"b\tc\"", "d\te"}, 0, "")
	f("psv", "a|b\nc|d\n", rows{"a|b", "c|d"}, 0, "")
	f("scsv", "a;b\nc\n", nil, 0, "Stream_WrongNumberOfFields")
	f("sohsv", "a\x01b\n\"c\nd\"\x01e\n", rows{"a\x01b", "\"c\nd\"\x01e"}, 0, "")
}

func TestEmptyStream(t *testing.T) {
	s := New(Options{})
	f := func(format, body string) {
		t.Helper()
		w := post(s, ingestURL("Logs", "App", format, "m"), body)
		code, detail, permanent := errorOf(t, w.Body.String())
		want := "Bad streaming ingestion request to Logs.App : The input stream is empty after processing, tip:check stream validity"
		if w.Code != 400 || code != "BadRequest" || detail != want || !permanent {
			t.Errorf("%s %q: got %d %s %q", format, body, w.Code, code, detail)
		}
	}
	f("JSON", "")
	f("JSON", "bad\nworse\n")
	f("MultiJSON", " [] ")
	f("CSV", "\n\n")
	f("TXT", "\n\n")
	if len(s.Rows("Logs", "App")) != 0 {
		t.Error("a refused body was stored")
	}
}

func TestInvalidUTF8IsReplacedInStoredRows(t *testing.T) {
	s := New(Options{})
	post(s, ingestURL("d", "t", "TXT", ""), "a\xff\xfeb\n")
	post(s, ingestURL("d", "t", "JSON", "m"), "{\"a\":\"\xff\"}\n")
	if got := raws(s, "d", "t"); !reflect.DeepEqual(got, []string{"a\ufffd\ufffdb", "{\"a\":\"\ufffd\"}"}) {
		t.Errorf("got %q", got)
	}
}

func BenchmarkIngest(b *testing.B) {
	line := `{"time":"2026-01-02T03:04:05.678Z","level":"info","msg":"request served","path":"/a/b/c","status":200,"took":0.0123,"id":"` + strings.Repeat("x", 120) + `"}` + "\n"
	raw := strings.Repeat(line, 4_000_000/len(line))
	body := zip(raw)
	for _, discard := range []bool{false, true} {
		b.Run(map[bool]string{false: "keep", true: "discard"}[discard], func(b *testing.B) {
			b.SetBytes(int64(len(raw)))
			for b.Loop() {
				s := New(Options{Discard: discard})
				if w := post(s, ingestURL("d", "t", "JSON", "m"), body, "Content-Encoding", "gzip"); w.Code != 200 {
					b.Fatal(w.Body)
				}
			}
		})
	}
}
