package format

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"kusto-agent/internal/record"
)

const accessPattern = `^(?P<remote_addr>[^ ]*) [^ ]* (?P<user>[^ ]*) \[(?P<time>[^\]]*)\] "(?P<method>[^ "]*) (?P<path>[^ "]*) (?P<protocol>[^ "]*)" (?P<status>[0-9]*) (?P<bytes>[^ ]*) "(?P<referer>[^"]*)" "(?P<user_agent>[^"]*)"`

func newPattern(t testing.TB, types map[string]string, timeGroup, layout string, expressions ...string) *Pattern {
	t.Helper()
	var l *Layout
	if layout != "" {
		var err error
		if l, err = NewLayout(layout, time.UTC); err != nil {
			t.Fatal(err)
		}
	}
	p, err := NewPattern(expressions, types, timeGroup, l)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// accessRegex takes access logs apart as parse: combined does.
func accessRegex(t testing.TB) *Pattern {
	return newPattern(t, map[string]string{"status": "long", "bytes": "long"}, "time", "common", accessPattern)
}

func TestRegex(t *testing.T) {
	f := func(o Options, file string, want ...string) {
		t.Helper()
		o.Format, o.Validate, o.Parse = record.JSON, true, ParseRegex
		shapes(t, o, file).want(want...)
	}
	level := newPattern(t, nil, "", "", `^(?P<level>[A-Z]+) (?P<message>.*)$`, `^(?P<n>\d+)(?P<unit>[a-z]+)?`)
	f(Options{Pattern: level}, "INFO it \"works\"\n12ms\r\n7\nno\n\n", `{"level":"INFO","message":"it \"works\""}`, `{"n":"12","unit":"ms"}`, `{"n":"7"}`,
		`{"message":"no","parse_error":"it does not match the pattern"}`)
	f(Options{Pattern: level, OnError: DropUnmatched}, "no\nA b\nno\n", `{"level":"A","message":"b"}`)
	f(Options{Pattern: level, OnError: ToQuarantine}, "no\nA b\n", "<malformed 3>", `{"level":"A","message":"b"}`)
	typed := newPattern(t, map[string]string{"a": "long", "b": "real", "c": "bool", "d": "string"}, "at", "iso8601", `^(?P<at>\S*)\|(?P<a>.*)\|(?P<b>.*)\|(?P<c>.*)\|(?P<d>.*)$`)
	f(Options{Pattern: typed}, "2026-03-01T12:00:00|-007|+1.50e3|true|-\n-|-||-|\n|1.5|||\n|||yes|\nx||||\n", `{"at":"2026-03-01T12:00:00Z","a":-7,"b":1.50e3,"c":true,"d":"-"}`, `{"d":""}`,
		`{"message":"|1.5|||","parse_error":"column 2: the value of a is no long"}`, `{"message":"|||yes|","parse_error":"column 4: the value of c is no bool"}`,
		`{"message":"x||||","parse_error":"column 1: the time at is not of its layout"}`)
	events := newPattern(t, nil, "", "", `(?s)^(?P<n>\d) (?P<message>.*)$`)
	f(Options{Pattern: events, Multiline: multiline(t, `^\d`, "", 500)}, "1 a\r\n b\n2 c\n", `{"n":"1","message":"a\n b"}`, `{"n":"2","message":"c"}`)
}

// TestRegexNamesakes: of several groups of one name each that took part is a member of its own, and
// Columns has as many as one match can have.
func TestRegexNamesakes(t *testing.T) {
	t.Parallel()
	f := func(parse Parse, pattern, types, file, want, columns string) {
		t.Helper()
		of := map[string]string{}
		if types != "" {
			of["a"] = types
		}
		o := Options{Format: record.JSON, Validate: true, Parse: parse, Pattern: newPattern(t, of, "", "", pattern), OnError: DropUnmatched}
		if parse.Container() {
			o.Inner = ParseRegex
		}
		shapes(t, o, file+"\n").want(want)
		var names []string
		for _, c := range o.Columns() {
			names = append(names, c.Name+":"+c.Type)
		}
		if got := strings.Join(names, " "); got != columns {
			t.Errorf("%s: columns %s, want %s", pattern, got, columns)
		}
	}
	f(ParseRegex, `^(?P<a>\w+) (?P<a>\w+)(?P<a>!)?$`, "", "x y", `{"a":"x","a_2":"y"}`, "a:string a_2:string a_3:string")
	f(ParseRegex, `^(?P<a>\w+) (?P<a>\w+)(?P<a>!)?$`, "", "x y!", `{"a":"x","a_2":"y","a_3":"!"}`, "a:string a_2:string a_3:string")
	f(ParseRegex, `^(?:(?P<a>\d+)|n=(?P<a>\d+))$`, "long", "n=7", `{"a":7}`, "a:long")
	f(ParseRegex, `^(?:(?P<a>\d)|n=(?P<a>\d))+$`, "long", "1n=2", `{"a":1,"a_2":2}`, "a:long a_2:long")
	f(ParseRegex, `^(?P<a>\S+) (?P<a_2>\S+) (?P<a>\S+)$`, "long", "1 x 2", `{"a":1,"a_2":"x","a_3":2}`, "a:long a_2:string a_3:long")
	f(ParseRegex, `^(?P<a>\S+) (?P<a>\S+)$`, "long", "- 2", `{"a":2}`, "a:long a_2:long")
	f(ParseCRI, `^(?P<time>\S+) (?P<time>\S+)$`, "", "2026-03-01T12:00:00Z stdout F x y",
		`{"time":"2026-03-01T12:00:00Z","stream":"stdout","time_3":"x","time_2":"y"}`, "time:datetime stream:string time_3:string time_2:string")
	again := newPattern(t, nil, "time", "iso8601", `^(?P<time>\S+) (?P<time>\S+)$`)
	shapes(t, Options{Format: record.JSON, Validate: true, Parse: ParseRegex, Pattern: again}, "2026-03-01T12:00:00 2026-03-01T12:00:01\n").
		want(`{"time":"2026-03-01T12:00:00Z","time_2":"2026-03-01T12:00:01Z"}`)
}

func TestPatternErrors(t *testing.T) {
	f := func(index int, group, says string, types map[string]string, timeGroup string, expressions ...string) {
		t.Helper()
		_, err := NewPattern(expressions, types, timeGroup, nil)
		var bad *PatternError
		if !errors.As(err, &bad) || bad.Index != index || bad.Group != group || !strings.Contains(err.Error(), says) {
			t.Errorf("%q, %v: %v", expressions, types, err)
		}
	}
	f(1, "", "missing closing )", nil, "", `(?P<a>x)`, `(?P<b>`)
	f(0, "", "no group has a name", nil, "", `(a)`)
	f(-1, "b", "no group of pattern has this name", map[string]string{"b": "long"}, "", `(?P<a>x)`)
	f(-1, "a", `"int" is not a type`, map[string]string{"a": "int"}, "", `(?P<a>x)`)
	f(-1, "b", "no group of pattern has this name", nil, "b", `(?P<a>x)`)
	f(-1, "a", "it is the time", map[string]string{"a": "long"}, "a", `(?P<a>x)`)
	if _, err := New(Options{Format: record.JSON, Parse: ParseRegex, MaxRecord: 100}); err == nil {
		t.Error("parse regex without a pattern is taken")
	}
}

var (
	fuzzTypes    = map[string]string{"a": "long", "b": "real", "c": "bool"}
	fuzzPatterns = []string{`^(?P<a>[^|]*)\|(?P<b>[^|]*)\|(?P<c>[^|]*)\|(?P<d>[^|]*)$`, `(?s)^#(?P<d>.*)(?P<e>x)?$`}
	longForm     = regexp.MustCompile(`^[+-]?[0-9]{1,18}$`)
	realForm     = regexp.MustCompile(`^[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]{1,2})?$`)
)

// matchOracle is what a line becomes, by regexp and strconv alone; nil: it matches no
// pattern, or a value is not of its type.
func matchOracle(line string) map[string]any {
	for _, text := range fuzzPatterns {
		re := regexp.MustCompile(text)
		m := re.FindStringSubmatchIndex(line)
		if m == nil {
			continue
		}
		want := map[string]any{}
		for i, name := range re.SubexpNames() {
			if name == "" || m[2*i] < 0 {
				continue
			}
			v := line[m[2*i]:m[2*i+1]]
			typ := fuzzTypes[name]
			switch {
			case typ == "":
				want[name] = string([]rune(v))
			case v == "" || v == "-":
			case typ == "long" && longForm.MatchString(v):
				want[name], _ = strconv.ParseFloat(v, 64)
			case typ == "real" && realForm.MatchString(v) && len(v) < 150:
				want[name], _ = strconv.ParseFloat(v, 64)
			case typ == "bool" && (strings.EqualFold(v, "true") || v == "1"):
				want[name] = true
			case typ == "bool" && (strings.EqualFold(v, "false") || v == "0"):
				want[name] = false
			default:
				return nil
			}
		}
		return want
	}
	return nil
}

func FuzzRegex(f *testing.F) {
	for _, s := range []string{"1|2.5|true|x", "-|||", "-0|-0.0e-07|0|ä\xff", "00|01|1|\x00", "#ax", "#", "x", "1|2", "+1|+1|FALSE|", "1.5|1|1|", "1|1.|1|", "1|1e|1|", "1|1e100|1|"} {
		f.Add(s)
	}
	p := newPattern(f, fuzzTypes, "", "", fuzzPatterns...)
	f.Fuzz(func(t *testing.T, line string) {
		if len(line) > 140 || strings.Contains(strings.ToLower(line), "true") && !strings.Contains(line, "true") || strings.Contains(strings.ToLower(line), "false") && !strings.Contains(line, "false") {
			return // words in letters that are mixed otherwise are left to the table
		}
		s := newScanner(t, Options{Format: record.JSON, Parse: ParseRegex, Pattern: p})
		got, _, why := s.appendMatch(nil, []byte(line))
		want := matchOracle(line)
		if (want == nil) != (why.text != "") {
			t.Fatalf("%q becomes %s, %v, want %v", line, got, why, want)
		}
		if want == nil {
			return
		}
		var have map[string]any
		if err := json.Unmarshal(got, &have); err != nil || fmt.Sprint(have) != fmt.Sprint(want) {
			t.Fatalf("%q becomes %s, %v, want %v", line, got, err, want)
		}
	})
}
