package schema

import (
	"fmt"
	"strings"
	"testing"

	"kusto-agent/internal/record"
)

// columns tells the fields of texts as name:type.
func columns(t *testing.T, s *Sample, texts ...string) string {
	t.Helper()
	for _, text := range texts {
		if err := s.Add([]byte(text), 1<<20, 1000); err != nil {
			t.Fatal(err)
		}
	}
	var all []string
	for _, f := range s.Fields() {
		if !f.Fits(string(f.Type)) {
			t.Errorf("%q: a column of the type of field %s does not hold it", texts, f.Name)
		}
		all = append(all, f.Name+":"+string(f.Type))
	}
	return strings.Join(all, " ")
}

func TestTypesOfJSON(t *testing.T) {
	t.Parallel()
	f := func(want string, values ...string) {
		t.Helper()
		s := &Sample{Format: record.JSON}
		text := ""
		for _, v := range values {
			text += `{"a":` + v + "}\n"
		}
		if got := columns(t, s, text); got != "a:"+want {
			t.Errorf("%q is %s, want %s", values, got, want)
		}
	}
	f("bool", "true", "false", "null")
	f("long", "1", "-9223372036854775808")
	f("real", "1", "2.5")
	f("real", "1e3")
	f("decimal", "1", "9223372036854775808")
	f("real", "9223372036854775808", "1.5")
	f("real", "1"+strings.Repeat("0", 40))
	f("string", "1e400")
	f("string", "null")
	f("string", `""`, `"x"`)
	f("string", "1", `"x"`)
	f("string", "true", "1")
	f("dynamic", "1", `[1]`)
	f("dynamic", `{"b":1}`, `"x"`, "null")
	f("datetime", `"2026-03-01T12:00:00Z"`, `"2026-03-01"`, `""`, `"2026-03-01 12:00:00.123+01:00"`)
	f("string", `"2026-13-01"`)
	f("string", `"2026-03-01T12:00:00Z"`, `"yesterday"`)
	f("timespan", `"12:00:00"`, `"1.02:03:04.5"`)
	f("string", `"12:00"`)
	f("guid", `"F80da32c-108c-415c-a19e-643f461a677a"`)
	f("string", `"f80da32c108c415ca19e643f461a677a"`)
}

// TestTypesOfTexts: strings of logfmt have the types of cells, but for lists and objects,
// which stay text.
func TestTypesOfTexts(t *testing.T) {
	t.Parallel()
	s := Sample{Format: record.JSON, Texts: true}
	if err := s.Add([]byte(`{"n":"7","r":"1.5","code":"007","ok":"true","list":"[1]","at":"2026-03-01T12:00:00Z","key":true,"word":"x"}`+"\n"), 1000, 10); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range s.Fields() {
		got = append(got, f.Name+":"+string(f.Type))
	}
	if text := strings.Join(got, " "); text != "n:long r:real code:string ok:bool list:string at:datetime key:bool word:string" {
		t.Error(text)
	}
}

func TestTypesOfCells(t *testing.T) {
	t.Parallel()
	f := func(want string, cells ...string) {
		t.Helper()
		s := &Sample{Format: record.CSV}
		text := ""
		for _, c := range cells {
			text += "x," + `"` + strings.ReplaceAll(c, `"`, `""`) + "\"\n"
		}
		if got := columns(t, s, text); got != "Column1:string Column2:"+want {
			t.Errorf("%q is %s, want %s", cells, got, want)
		}
	}
	f("bool", "true", "False", "")
	f("long", "0", "-7", "")
	f("real", "0.5", "1", "-1e3")
	f("string", "007")
	f("string", "1", "a")
	f("string", "")
	f("dynamic", `{"a":1}`, "[1]")
	f("string", `{"a":1}`, "x")
	f("string", "{a}")
	f("timespan", "00:10:00")
	f("datetime", "2026-03-01")
}

func TestSamples(t *testing.T) {
	t.Parallel()
	f := func(s *Sample, want, first string, records int, texts ...string) {
		t.Helper()
		if got := columns(t, s, texts...); got != want || string(s.First) != first || s.Records != records {
			t.Errorf("%q: %s, first %q of %d; want %s, first %q of %d", texts, got, s.First, s.Records, want, first, records)
		}
	}
	f(&Sample{Format: record.JSON}, "b:long a:string c:bool", "{\"b\":1}\n", 3, "no\n{\"b\":1}\n{\"a\":null}\n", `{"c":true}`)
	f(&Sample{Format: record.MultiJSON}, "b:real", "{\"b\":1}\n", 3, "[{\"b\":1},\n{\"b\":2}]{\n\"b\":0.5} {")
	f(&Sample{Format: record.TXT}, "Line:string", "a\n", 2, "a\nb\n")
	f(&Sample{Format: record.CSV, Header: true}, "id:long na me:string Column3:long", "1,\"x\ny\",2\n", 3, "id, na me \n1,\"x\ny\",2\n2\n", "id, na me \n5,6,7\n")
	f(&Sample{Format: record.CSV}, "Column1:long", "1\n", 1, "\n1\n")
	f(&Sample{Format: record.TSV, Header: true}, "a:string b:string", "", 0, "a\tb\n")
	s := &Sample{Format: record.CSV, Header: true}
	if columns(t, s, "a,b\n1,2\n", "b,a\n1,2\n"); s.Others != 1 {
		t.Errorf("%d other headers", s.Others)
	}
	s = &Sample{Format: record.JSON}
	if err := s.Add([]byte(strings.Repeat("{\"a\":1}\n", 100)), 80, 5); err != nil || s.Records != 5 {
		t.Errorf("%d records, %v", s.Records, err)
	}
	s = &Sample{Format: record.JSON}
	if err := s.Add([]byte(strings.Repeat("{\"a\":1}\n", 100)), 80, 1000); err != nil || s.Records != 10 {
		t.Errorf("%d records, %v", s.Records, err)
	}
	if err := (&Sample{Format: record.Avro}).Add([]byte("Obj"), 1, 1); err == nil {
		t.Error("half a header is no error")
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	f := func(in, want string) {
		t.Helper()
		if got := Legal(in); got != want {
			t.Errorf("%q becomes %q, want %q", in, got, want)
		}
	}
	f("a.b c-d_é", "a.b c-d_é")
	f("it's [1]", "it_s _1_")
	f("", "_")
	f("..", "_..")
	f("a\xff", "a_")
	f(strings.Repeat("é", 2000), strings.Repeat("é", 1024))
	taken := map[string]bool{"a": true, "a_2": true}
	if got := Unique("a", func(s string) bool { return taken[s] }); got != "a_3" {
		t.Errorf("unique is %q", got)
	}
	path := func(in, want string) {
		t.Helper()
		if got, ok := Path(in); ok != (want != "") || ok && got != want {
			t.Errorf("%q is at %q, %v; want %q", in, got, ok, want)
		}
	}
	path("a_1", "$.a_1")
	path("a.b", "$['a.b']")
	path("", "$['']")
	path("it's", `$["it's"]`)
	path(`it's "it"`, "")
}

func TestLook(t *testing.T) {
	t.Parallel()
	f := func(want, name, text string) {
		t.Helper()
		g := Look(name, []byte(text))
		e := g.Expression
		g.Expression = nil
		if got := strings.Replace(fmt.Sprint(g), " <nil>}", "}", 1); got != want || (e != nil) != (g.Parse == "regex") {
			t.Errorf("%s %.60q looks like %s, want %s", name, text, got, want)
		}
	}
	f("{JSON   false }", "a.log", "{\"a\":1}\n{\"b\":2}\n{\"c\":")
	f("{JSON   false }", "a.json", "{\"a\":1}\nnot json\n{\"b\":2}\n{\"c\":3}\n")
	f("{JSON   false }", "a.log", "started\n"+strings.Repeat("{\"a\":1}\n", 9))
	f("{TXT   false }", "a.log", "started\n"+strings.Repeat("{\"a\":1}\n", 8))
	f("{MultiJSON   false }", "a.json", "{\"a\":\n[1,\n2]}\n{\"a\":1}\n")
	f("{MultiJSON   false }", "a.json", "[\n{\"a\":1}\n]\n{\"a\":1}\n{\"a\":1}\n{\"a\":1}\n")
	f("{JSON docker  false }", "x-json.log", strings.Repeat(`{"log":"a\n","stream":"stdout","time":"2026-03-01T12:00:00Z"}`+"\n", 9)+"{\"log\":\"to\n")
	f("{JSON cri  false }", "0.log", strings.Repeat("2026-03-01T12:00:00.5Z stdout F a\n", 9)+"2026-03-01T12:\n")
	f("{JSON   false }", "a.json.gz", "")
	f("{JSON   false utf-16le}", "a.json", "\xff\xfe{\x00}\x00\n\x00")
	f("{MultiJSON   false }", "a.json", "[{\"a\":\n1}]")
	f("{MultiJSON   false }", "a.json", "{\n\"a\": 1}\n")
	f("{JSON docker  false }", "x-json.log", `{"log":"a\n","stream":"stdout","time":"2026-03-01T12:00:00Z"}`+"\n")
	f("{JSON cri  false }", "0.log", "2026-03-01T12:00:00.5Z stdout F a\n2026-03-01T12:00:00.5Z stderr P b\n")
	f("{JSON docker json false }", "x-json.log", `{"log":"{\"a\":1}\n","stream":"stdout","time":"2026-03-01T12:00:00Z"}`+"\n"+`{"log":"\n","stream":"stdout","time":"2026-03-01T12:00:00Z"}`+"\n")
	f("{JSON cri logfmt false }", "0.log", "2026-03-01T12:00:00.5Z stdout F a=1 b=2\n2026-03-01T12:00:00.5Z stderr P b=1 \n2026-03-01T12:00:00.5Z stderr F c=2\n")
	f("{JSON cri combined false }", "0.log", strings.Repeat(`2026-03-01T12:00:00.5Z stdout F ::1 - - [01/Mar/2026:12:00:00 +0000] "GET / HTTP/1.1" 200 1`+"\n", 9)+"2026-03-01T12:00:00.5Z stderr F x\n")
	f("{JSON docker  false }", "x-json.log", `{"log":"{\"a\":1}\n","stream":"stdout","time":"2026-03-01T12:00:00Z"}`+"\n"+`{"log":"started\n","stream":"stdout","time":"2026-03-01T12:00:00Z"}`+"\n")
	const access = `::1 - - [01/Mar/2026:12:00:00 +0000] "GET /;a;b HTTP/1.1" 200 1` + "\n"
	f("{JSON combined  false }", "access.log", strings.Repeat(access, 9)+"x\n")
	f("{TXT   false }", "access.log", strings.Repeat(access, 8)+"x\n")
	f("{JSON syslog  false }", "auth.log", "2026-03-01T12:00:00Z h sshd[1]: a, b\n2026-03-01T12:00:00Z h sshd[1]: c, d\n")
	f("{JSON syslog  false }", "syslog", "Mar  1 12:00:00 h kernel: a\n")
	f("{JSON logfmt  false }", "a.log", "ts=2026-03-01T12:00:00Z level=info msg=\"a b\" n=1\nlevel=warn n=2\n")
	f("{TXT   false }", "a.log", "2026-03-01 info a=1 b=2\n")
	f("{TXT   false }", "a.log", "a=1 b=2 and then a sentence\n")
	f("{JSON regex  false }", "a.log", "2026-03-01 12:00:00 info a=1 b=2\n2026-03-01 12:00:01 warn a=2 b=3\n")
	f("{JSON regex  false }", "a.log", "a=1, b=x y\na=2, b=z\n")
	f("{TXT   false }", "a.log", "one a=1 b=2\ntwo b=1 a=2\n")
	f("{Avro   false }", "x", "Obj\x01")
	f("{CSV   true }", "a.csv", "id,name\n1,a\n")
	f("{CSV   false }", "a.csv", "id,name\nx,a\n")
	f("{CSV   false }", "a.csv", "1,name\n2,a\n")
	f("{TSV   true }", "a.txt", "id\tname\n1\ta\n")
	f("{PSV   false }", "a", "1|2\n1|a\n")
	f("{TXT   false }", "a.log", "hello, world\nhello\n")
	f("{TXT   false }", "a", "hello\n")
	f("{TXT   false }", "a.log", "")
	f("{   false }", "a", "")
}
