package format

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"kusto-agent/internal/record"
	"kusto-agent/internal/rules"
)

func newRules(t testing.TB, o Options, c rules.Config) *rules.Set {
	t.Helper()
	kind, ok := RuleKind(o.Format, o.Parse)
	if !ok {
		t.Fatalf("no rules for %s", o.Format)
	}
	s, err := rules.New(c, kind)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func dropRules(all ...rules.Condition) (c rules.Config) {
	for _, x := range all {
		c.Drop = append(c.Drop, rules.Rule{Condition: x})
	}
	return c
}

// ruled reads a file in one way of cutting it, and tells what was sent, one record by
// one, and what was left out.
func ruled(t *testing.T, o Options, file string, rnd *rand.Rand) (sent []string, left map[int]int, rejected int) {
	t.Helper()
	s := newScanner(t, o)
	s.SetStamp(stamp)
	left = make(map[int]int)
	var c Chunk
	for at, end := 0, len(file); at < len(file); {
		limit := 0
		if rnd != nil {
			limit = rnd.IntN(4)
		}
		s.Scan(buffer(file[at:end]), int64(at), end == len(file), limit, &c)
		at += c.Consumed
		for body := c.Body; len(body) > 0; {
			n := s.Split(body, 1)
			sent, body = append(sent, string(body[:n])), body[n:]
		}
		for reason, n := range c.Filtered {
			if n > 0 {
				left[reason] += n
			}
		}
		for _, p := range c.Pieces {
			if p.Records == 0 {
				t.Fatalf("%q: an empty piece %+v", file, p)
			}
		}
		rejected += len(c.Rejected)
		switch {
		case c.Long:
			t.Fatalf("%q: too long", file)
		case c.Consumed == 0 && end == len(file):
			t.Fatalf("%q: no progress at %d", file, at)
		case rnd != nil:
			end = min(len(file), max(end, at)+1+rnd.IntN(40))
			if rnd.IntN(3) == 0 {
				end = min(len(file), at+1+rnd.IntN(60))
			}
			if c.Consumed == 0 {
				end = min(len(file), end+60)
			}
		}
	}
	return sent, left, rejected
}

// FuzzRules: rules leave out exactly what an oracle leaves out of what is sent without
// them, however the file is cut into reads. What is sent is sent as it is without them.
func FuzzRules(f *testing.F) {
	for n, s := range []string{
		"{\"a\":1}\n{\"a\":\"x\"}\r\n\n{\"b\":{\"a\":1}}\nnonsense\n{\"a\":[1,2]}", "a,b\n\"x\ny\",1\n1,\"x\"\"\"\n,\nx", "x\n1 x\r\n\ny\nxx", "\xEF\xBB\xBF{ \"a\" : \"\\u0078\" }\n{}",
		"{\n \"a\": 1\n}\n[{\"a\":\"x\"},{\"a\":2}]", "a=1 b=x\nx\na=\"x y\"\n", "'a'\n{'a':'x'}\n{\"a\"/**/:1}\n",
	} {
		for o := range uint8(12) {
			f.Add([]byte(s), uint64(n), o)
		}
	}
	f.Fuzz(func(t *testing.T, in []byte, seed uint64, options uint8) {
		if len(in) > 2048 || bytes.IndexByte(in, 0) >= 0 {
			return
		}
		o := Options{Format: []record.Format{record.JSON, record.CSV, record.TXT, record.MultiJSON, record.JSON, record.TSV}[options%6], Validate: options&64 == 0, MaxRecord: 1 << 20}
		conditions := []rules.Condition{{Match: "x"}, {Match: "^1"}}
		switch {
		case options%6 == 4:
			o.Parse = ParseLogfmt
			fallthrough
		case o.Format == record.JSON || o.Format == record.MultiJSON:
			conditions = append(conditions, rules.Condition{Member: "a", In: []string{"1", "y"}}, rules.Condition{Member: "b", Match: "[xy]"})
		case o.Format != record.TXT:
			conditions = append(conditions, rules.Condition{Column: "1", In: []string{"", "y"}}, rules.Condition{Column: "2", Below: "3"})
		}
		r := rand.New(rand.NewPCG(seed, 0))
		c := dropRules(conditions[r.IntN(len(conditions))], conditions[r.IntN(len(conditions))])
		if r.IntN(2) == 0 {
			c.Keep = conditions[r.IntN(len(conditions)):]
		}
		all, _, bad := ruled(t, o, string(in), nil)
		var want []string
		wantLeft := make(map[int]int)
		for i, body := range all {
			text := strings.TrimSuffix(body, "\n")
			if o.Parse != ParseNone {
				text = ""
				if lines := nonBlank(string(in)); len(lines) == len(all) {
					text = lines[i]
				}
			}
			if reason, sure := ruleOracle(o, c, strings.TrimSuffix(text, "\r"), body); !sure {
				return
			} else if reason >= 0 {
				wantLeft[reason]++
				continue
			}
			want = append(want, body)
		}
		o.Rules = newRules(t, o, c)
		for _, rnd := range []*rand.Rand{nil, r} {
			got, left, rejected := ruled(t, o, string(in), rnd)
			if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", want) || fmt.Sprint(left) != fmt.Sprint(wantLeft) || rejected != bad {
				t.Fatalf("%s %+v %q\n got %q, left out %v, %d rejected\nwant %q, left out %v, %d rejected", o.Format, c, in, got, left, rejected, want, wantLeft, bad)
			}
		}
	})
}

func nonBlank(text string) (lines []string) {
	for line := range strings.Lines(text) {
		if line = strings.TrimSuffix(line, "\n"); strings.Trim(line, "\r") != "" {
			lines = append(lines, line)
		}
	}
	return lines
}

// ruleOracle judges a record by encoding/json, encoding/csv and regexp. It is sure of
// sound UTF-8 alone.
func ruleOracle(o Options, c rules.Config, text, body string) (reason int, sure bool) {
	holds := func(x rules.Condition) bool {
		value, there := text, true
		switch {
		case x.Member != "":
			var object map[string]any
			d := json.NewDecoder(strings.NewReader(body))
			d.UseNumber()
			if d.Decode(&object) != nil || strings.ToValidUTF8(body, "") != body || strings.Count(body, `"a"`) > 1 || strings.Count(body, `"b"`) > 1 || strings.ContainsAny(body, `'/\[`) {
				sure = false
				return false
			}
			v := object[x.Member]
			_, isObject := v.(map[string]any)
			value, there = fmt.Sprint(v), v != nil && !isObject
		case x.Column != "":
			r := csv.NewReader(strings.NewReader(body))
			r.Comma = rune(map[record.Format]byte{record.CSV: ',', record.TSV: '\t'}[o.Format])
			row, err := r.Read()
			if err != nil || strings.Contains(body, "\r") {
				sure = false
				return false
			}
			n, err := strconv.Atoi(x.Column)
			if err != nil {
				panic(err)
			}
			if there = n <= len(row); there {
				value = row[n-1]
			}
		}
		if !there {
			return false
		}
		for _, one := range x.In {
			if one == value {
				return true
			}
		}
		if x.Below != "" {
			v, err := strconv.ParseFloat(value, 64)
			return err == nil && plainNumber.MatchString(value) && v < 3
		}
		return x.Match != "" && regexp.MustCompile(x.Match).MatchString(value)
	}
	sure, reason = true, -1
	kept := len(c.Keep) == 0
	for _, x := range c.Keep {
		kept = holds(x) || kept
	}
	if !kept {
		return 0, sure
	}
	first := min(len(c.Keep), 1)
	for i := len(c.Drop) - 1; i >= 0; i-- {
		if holds(c.Drop[i].Condition) {
			reason = first + i
		}
	}
	return reason, sure
}

var plainNumber = regexp.MustCompile(`^[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?$`)

// TestRulesOfWholeRecords: records that span lines, that are parsed, decoded or joined
// of several lines are left out as a whole, and so are headers not.
func TestRulesOfWholeRecords(t *testing.T) {
	f := func(o Options, c rules.Config, file string, want []string, left string) {
		t.Helper()
		o.Validate, o.MaxRecord = true, 1<<20
		o.Rules = newRules(t, o, c)
		for seed := range uint64(20) {
			got, out, _ := ruled(t, o, file, rand.New(rand.NewPCG(seed, 1)))
			if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", want) || fmt.Sprint(out) != left {
				t.Fatalf("%s %v: sent %q, left out %v; want %q, %s", o.Format, o.Parse, got, out, want, left)
			}
		}
	}
	f(Options{Format: record.MultiJSON}, dropRules(rules.Condition{Match: "(?s)\\{\n.*x"}), "{\n\"a\":\"x\"\n}{\"b\":\"x\"}\n", []string{"{\"b\":\"x\"}\n"}, "map[0:1]")
	f(Options{Format: record.CSV, SkipHeader: true}, dropRules(rules.Condition{Column: "2", Match: "y"}), "y,y\n1,\"x\ny\"\n2,\"z\"\n", []string{"2,\"z\"\n"}, "map[0:1]")
	f(Options{Format: record.JSON, Parse: ParseText, Multiline: multiline(t, `^\d`, "", 9)}, dropRules(rules.Condition{Match: "(?s)^1.*c"}), "1 a\n b\n c\n2 c\n",
		[]string{`{"message":"2 c"}` + "\n"}, "map[0:1]")
	f(Options{Format: record.JSON, Parse: ParseCRI}, dropRules(rules.Condition{Member: "message", In: []string{"ab", "e"}}),
		"2026-03-01T12:00:00Z stdout P a\n2026-03-01T12:00:00Z stderr F d\n2026-03-01T12:00:00Z stdout F b\n2026-03-01T12:00:00Z stdout F e\n",
		[]string{`{"time":"2026-03-01T12:00:00Z","stream":"stderr","message":"d"}` + "\n"}, "map[0:2]")
	access := "::1 - - [01/Mar/2026:12:00:00 +0000] \"GET /health HTTP/1.1\" 200 1\n"
	for _, on := range []OnError{SendRaw, ToQuarantine, DropUnmatched} {
		f(Options{Format: record.JSON, Parse: ParseCombined, OnError: on}, dropRules(rules.Condition{Member: "path", Match: "^/health"}, rules.Condition{Match: "^#"}), access+"# no access log\n"+access, nil, "map[0:2 1:1]")
	}
	f(Options{Format: record.TXT, Encoding: UTF16LE}, dropRules(rules.Condition{Match: "^ä$"}), utf16Text("ä\r\nb\n", false), []string{"b\n"}, "map[0:1]")
	f(Options{Format: record.JSON, Fields: newFields(t, "a", "x")}, dropRules(rules.Condition{Member: "a", In: []string{"x"}}), "{}\n{\"a\":\"x\"}\n", []string{`{"a":"x"}` + "\n"}, "map[0:1]")
	f(Options{Format: record.JSON, Parse: ParseText, Fields: newFields(t, "a", "x")}, dropRules(rules.Condition{Member: "a", In: []string{"x"}}), "b\n", []string{`{"message":"b","a":"x"}` + "\n"}, "map[]")
}

// TestManyLeftOut: records that are left out one by one make no more pieces than a
// payload may have.
func TestManyLeftOut(t *testing.T) {
	o := Options{Format: record.TXT, MaxRecord: 100}
	o.Rules = newRules(t, o, dropRules(rules.Condition{Match: "x"}))
	s := newScanner(t, o)
	var c Chunk
	data := []byte(strings.Repeat("a\nx\n", 2*record.MaxPieces))
	records := 0
	for len(data) > 0 {
		s.Scan(data, 1, true, 0, &c)
		if len(c.Pieces) > record.MaxPieces || c.Consumed == 0 {
			t.Fatalf("%d pieces, %d bytes", len(c.Pieces), c.Consumed)
		}
		records += c.Records
		data = data[c.Consumed:]
	}
	if records != 2*record.MaxPieces {
		t.Errorf("%d records", records)
	}
}

// Rules are for records that somebody sees.
func TestNoRulesForAvro(t *testing.T) {
	if _, ok := RuleKind(record.Avro, ParseNone); ok {
		t.Error("there is a kind")
	}
	set := newRules(t, Options{Format: record.TXT}, dropRules(rules.Condition{Match: "x"}))
	if _, err := New(Options{Format: record.Avro, MaxRecord: 100, Rules: set}); err == nil {
		t.Error("a scanner takes them")
	}
}

// TestWithoutRules: an input without rules has nothing of them on the way of its records,
// and one with rules has just what they need.
func TestWithoutRules(t *testing.T) {
	redact := rules.Config{Redact: []rules.Redaction{{Match: "x", With: "-"}}}
	for _, f := range []record.Format{record.JSON, record.MultiJSON, record.CSV, record.TXT} {
		o := Options{Format: f, Validate: true, MaxRecord: 100}
		if s := newScanner(t, o); s.apart || s.judge != nil || s.editor != nil {
			t.Errorf("%s without rules: apart %v, judge %v, editor %v", f, s.apart, s.judge, s.editor)
		}
		o.Rules = newRules(t, o, dropRules(rules.Condition{Match: "x"}))
		if s := newScanner(t, o); !s.apart || s.judge == nil || s.editor != nil {
			t.Errorf("%s with drop: apart %v, judge %v, editor %v", f, s.apart, s.judge, s.editor)
		}
		o.Rules = newRules(t, o, redact)
		if s := newScanner(t, o); !s.apart || s.judge != nil || s.editor == nil {
			t.Errorf("%s with redact: apart %v, judge %v, editor %v", f, s.apart, s.judge, s.editor)
		}
	}
}
