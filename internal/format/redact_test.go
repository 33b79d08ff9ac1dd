package format

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"kusto-agent/internal/record"
	"kusto-agent/internal/rules"
)

// TestChangedRecords: what rules change is sent as they say, however the file is cut, and
// all else as it is.
func TestChangedRecords(t *testing.T) {
	secret := rules.Config{Redact: []rules.Redaction{{Match: "s+", With: "***"}}}
	byMember := rules.Config{Redact: []rules.Redaction{{Member: "a", With: "***"}}}
	fields, err := NewFields(map[string]string{"o": "{offset}", "a": "x"})
	if err != nil {
		t.Fatal(err)
	}
	const withheld = `{"message":"withheld: it is not as parse says, and something of it must not be sent as it is"`
	pattern, err := NewPattern([]string{`^(?P<a>\d+)$`}, nil, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		o        Options
		rules    rules.Config
		file     string
		want     []string
		rejected int
	}{
		{Options{Format: record.TXT}, secret, "a\r\nb ss\r\n\nc s", []string{"a\n", "b ***\n", "c ***\n"}, 0},
		{Options{Format: record.TXT, Encoding: UTF16LE}, secret, utf16LE("ä\r\nb ss\n"), []string{"ä\n", "b ***\n"}, 0},
		{Options{Format: record.JSON, Validate: true}, secret, `{"b":"s"}` + "\r\n" + `{"b":s}` + "\n" + `{"b": 1}`, []string{`{"b":"***"}` + "\r\n", `{"b": 1}` + "\n"}, 1},
		{Options{Format: record.JSON}, secret, `{"b":"s"}` + "\n" + `{"b":"s"` + "\n{}\n", []string{`{"b":"***"}` + "\n", "{}\n"}, 1},
		{Options{Format: record.JSON}, byMember, `{"a":"s"}` + "\n" + `{"b":1` + "\n" + `{"b":1}{"b":2}` + "\n" + `{"b":[1,2}]}` + "\n{}\n", []string{`{"a":"***"}` + "\n", "{}\n"}, 3},
		{Options{Format: record.JSON}, rules.Config{Remove: []string{"a"}}, `{"a":"s"}` + "\n" + `{"b":1` + "\n", []string{"{}\n"}, 1},
		{Options{Format: record.JSON}, rules.Config{Drop: []rules.Rule{{Condition: rules.Condition{Match: "drop"}}}, Redact: secret.Redact}, "{drop\n{}\n", []string{"{}\n"}, 1},
		{Options{Format: record.JSON, Validate: true, Fields: fields}, secret, `{"b":"s"}` + "\n" + `{"b":1}` + "\n", []string{`{"b":"***","a":"x","o":0}` + "\n", `{"b":1,"a":"x","o":10}` + "\n"}, 0},
		{Options{Format: record.JSON, Validate: true, MaxBody: 16}, secret, `{"b":"sss"}` + "\n" + `{"b":"xxsyysz"}` + "\n", []string{`{"b":"***"}` + "\n"}, 1},
		{Options{Format: record.MultiJSON, Validate: true}, secret, "[{\n \"b\":\n \"s\"\n},{\"b\":1}\n]", []string{"{\n \"b\":\n \"***\"\n}\n", "{\"b\":1}\n"}, 0},
		{Options{Format: record.CSV, Validate: true, SkipHeader: true}, secret, "s,b\nx,\"l1\ns\"\ny,z\r\ns,s", []string{"x,\"l1\n***\"\n", "y,z\r\n", "***,***\n"}, 0},
		{Options{Format: record.JSON, Parse: ParseLogfmt}, byMember, "a=1 b=2\n\"odd\n", []string{`{"a":"***","b":"2"}` + "\n", withheld + "}\n"}, 0},
		{Options{Format: record.JSON, Parse: ParseRegex, Pattern: pattern}, byMember, "1\nx\n", []string{`{"a":"***"}` + "\n", withheld + `,"parse_error":"it does not match the pattern"}` + "\n"}, 0},
		{Options{Format: record.JSON, Parse: ParseRegex, Pattern: pattern}, rules.Config{Redact: []rules.Redaction{{Match: "^s$", With: "***"}}},
			"1\na=s\n", []string{`{"a":"1"}` + "\n", withheld + `,"parse_error":"it does not match the pattern"}` + "\n"}, 0},
		{Options{Format: record.JSON, Parse: ParseRegex, Pattern: pattern}, rules.Config{Add: map[string]string{"n": "1"}},
			"x\n", []string{`{"message":"x","parse_error":"it does not match the pattern","n":"1"}` + "\n"}, 0},
		{Options{Format: record.JSON, Parse: ParseLogfmt}, secret, "a=s b=2\n\"a=\\u0073 b\n", []string{`{"a":"***","b":"2"}` + "\n", withheld + "}\n"}, 0},
		{Options{Format: record.JSON, Parse: ParseCRI, Inner: ParseJSON}, rules.Config{Redact: []rules.Redaction{{Match: "xy", With: "***"}}}, criPart("stdout", "F", `{"a":"xy"}`) + criPart("stdout", "F", `{"a":"\u0078y"`) + "nonsense\n",
			[]string{`{"time":"2024-01-01T00:00:00Z","stream":"stdout","a":"***"}` + "\n", withheld + `,"parse_error":"column 15: the record ends where a comma or an end must follow a value"}` + "\n", withheld + "}\n"}, 0},
		{Options{Format: record.JSON, Parse: ParseText}, rules.Config{Rename: map[string]string{"message": "m"}, Add: map[string]string{"n": "1"}}, "a\n", []string{`{"m":"a","n":"1"}` + "\n"}, 0},
	} {
		o := c.o
		o.Rules, o.MaxRecord = newRules(t, o, c.rules), 1000
		for seed := range uint64(40) {
			var rnd *rand.Rand
			if seed > 0 && o.Encoding == UTF8 {
				rnd = rand.New(rand.NewPCG(seed, 0))
			}
			sent, _, rejected := ruled(t, o, c.file, rnd)
			if !slices.Equal(sent, c.want) || rejected != c.rejected {
				t.Fatalf("%q in way %d: %d rejected, sent\n%q, want\n%q", c.file, seed, rejected, sent, c.want)
			}
		}
	}
}

func criPart(stream, tag, text string) string {
	return fmt.Sprintf("2024-01-01T00:00:00Z %s %s %s\n", stream, tag, text)
}

func utf16LE(text string) string {
	var b strings.Builder
	for _, r := range text {
		b.WriteByte(byte(r))
		b.WriteByte(byte(r >> 8))
	}
	return b.String()
}

// TestChangesAreCounted: once for each record and rule, and lengths tell where the records
// are in the file.
func TestChangesAreCounted(t *testing.T) {
	o := Options{Format: record.JSON, Validate: true, MaxRecord: 1000}
	o.Rules = newRules(t, o, rules.Config{Redact: []rules.Redaction{{Match: "s", With: "***"}}, Remove: []string{"a"}})
	s := newScanner(t, o)
	var c Chunk
	s.Scan(buffer("{}\n{\"a\":1,\"b\":\"s\"}\n{\"b\":\"ss\"}\n"), 0, true, 0, &c)
	if !slices.Equal(c.Changed, []int{2, 1}) || string(c.Lens) != "\x03\x10\x0b" || len(c.Pieces) != 1 || string(c.Body) != "{}\n{\"b\":\"***\"}\n{\"b\":\"******\"}\n" {
		t.Errorf("%v changed, lengths %v, body %q", c.Changed, c.Lens, c.Body)
	}
	s.Scan(buffer("{}\n"), 0, true, 0, &c)
	if c.Changed != nil || c.Lens != nil || c.Copied {
		t.Errorf("of what no rule is about: %+v", c)
	}
}

// TestColumnsByName: rules know columns by the header of the file, from wherever it is
// read; where nobody knows the header, or it lacks the name, redaction is of every column
// and other conditions do not hold.
func TestColumnsByName(t *testing.T) {
	config := rules.Config{
		Header: true, Drop: []rules.Rule{{Condition: rules.Condition{Column: "status code", In: []string{"200"}}}},
		Redact: []rules.Redaction{{Column: "user", With: "***"}, {Column: "none", With: "x"}},
	}
	o := Options{Format: record.CSV, Validate: true, SkipHeader: true, MaxRecord: 1000}
	kind, _ := RuleKind(o.Format, o.Parse)
	var err error
	if o.Rules, err = rules.New(config, kind); err != nil {
		t.Fatal(err)
	}
	const header = "\uFEFF\nuser,\"status code\", user \n"
	const file = header + "a,200,b\na,404,b\n\"a\nb\",1,\n"
	want := []string{"***,x,***\n", "\"***\",x,\n"} // no column has the name none
	for seed := range uint64(20) {
		if sent, left, rejected := ruled(t, o, file, rand.New(rand.NewPCG(seed, 0))); !slices.Equal(sent, want) || left[0] != 1 || rejected != 0 {
			t.Fatalf("sent %q, %v left out", sent, left)
		}
	}
	read := func(of string, at int) string {
		t.Helper()
		s := newScanner(t, o)
		if err := s.Prepare(strings.NewReader(of)); err != nil {
			t.Fatal(err)
		}
		var c Chunk
		s.Scan(buffer(of[at:]), int64(at), true, 0, &c)
		return string(c.Body)
	}
	if got := read(file, len(header)); got != strings.Join(want, "") {
		t.Errorf("from behind the header %q", got)
	}
	if got := read(strings.Repeat("x", 1001)+"\n"+"a,200,\"b\"\n", 1002); got != "***,***,\"***\"\n" && got != "x,x,\"x\"\n" {
		t.Errorf("without a header %q", got)
	}
	o.Encoding = UTF16LE
	if got := read(utf16LE(file), 2*len([]rune(header))); got != strings.Join(want, "") {
		t.Errorf("of UTF-16 %q", got)
	}
}
