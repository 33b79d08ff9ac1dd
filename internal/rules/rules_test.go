package rules

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

func newSet(t testing.TB, c Config, kind Kind) *Set {
	t.Helper()
	s, err := New(c, kind)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestFirstReason: keep comes before drop, and of several rules the first is told.
func TestFirstReason(t *testing.T) {
	s := newSet(t, Config{
		Keep: []Condition{{Match: "a"}, {Member: "x", In: []string{"1"}}},
		Drop: []Rule{{Condition: Condition{Match: "b"}}, {Name: "low", Condition: Condition{Member: "n", Below: "3"}}},
	}, Object)
	if got, want := fmt.Sprint(s.Reasons()), "[keep drop_1 low]"; got != want {
		t.Fatalf("reasons %s, want %s", got, want)
	}
	j := NewJudge(s, Object, 0)
	for rec, want := range map[string]int{
		`{}`: 0, `{"n":1}`: 0, `{"x":1}`: -1, `{"x":"1","n":2}`: 2, `{"a":"b","n":2}`: 1, `{"a":0}`: -1, `{"b":0}`: 0,
	} {
		if got := j.Of([]byte(rec), []byte(rec)); got != want {
			t.Errorf("%s: reason %d, want %d", rec, got, want)
		}
	}
}

// TestWhatMemberMeans: what a path leads to, and what of a value is compared.
func TestWhatMemberMeans(t *testing.T) {
	f := func(c Condition, yes, no []string) {
		t.Helper()
		j := NewJudge(newSet(t, Config{Drop: []Rule{{Condition: c}}}, Object), Object, 0)
		for _, rec := range yes {
			if j.Of(nil, []byte(rec)) != 0 {
				t.Errorf("%+v does not hold of %s", c, rec)
			}
		}
		for _, rec := range no {
			if j.Of(nil, []byte(rec)) != -1 {
				t.Errorf("%+v holds of %s", c, rec)
			}
		}
	}
	f(Condition{Member: "level", In: []string{"debug", "7", "true"}},
		[]string{
			`{"level":"debug"}`, ` { "level" : "d\u0065bug" } `, `{"\u006cevel":"debug"}`, `{"level":7}`, `{"level":"7"}`, `{"level":true}`, `{"level":["x",["debug"]]}`,
			`{"level":"info","level":"debug"}`, `{"a":{"level":1},"level":"debug"}`, `{'level':'debug'}`, `{"level"/* : */:/**/"debug"}`, "{//{\n\"level\":\"debug\"}", `{'a':'"',"level":"debug"}`,
		},
		[]string{
			``, `{}`, `[]`, `7`, `{"level":"Debug"}`, `{"Level":"debug"}`, `{"a":{"level":"debug"}}`, `{"a":"\"level\":\"debug\""}`, `{"level":{"level":"debug"}}`, `{"level":{"x":"debug"}}`,
			`{"level":7.0}`, `{"level":null}`, `{"level":"debug`, `{"level"`, `{"level":`, `[{"level":"debug"}]`, `{"xlevel":"debug"}`, `{"level ":"debug"}`,
		})
	f(Condition{Member: "http.path", Match: "^/health"},
		[]string{`{"http":{"path":"/healthz"}}`, `{"http.path":"/health"}`, `{"http":[{"path":1},{"path":"\/health"}]}`, `{"http":1,"http":{"path":"/health"}}`},
		[]string{`{"http":{"path":"x/health"}}`, `{"path":"/health"}`, `{"http":{"http":{"path":"/health"}}}`, `{"http":{"path":{"path":"/health"}}}`, `{"httppath":"/health"}`})
	f(Condition{Member: "a.b.c", In: []string{"1"}},
		[]string{`{"a":{"b":{"c":1}}}`, `{"a.b":{"c":1}}`, `{"a":{"b.c":1}}`, `{"a.b.c":1}`, `{"a.b.c":2,"a":[[{"b":[{"c":[1]}]}]]}`},
		[]string{`{"a":{"b":1}}`, `{"b":{"c":1}}`, `{"a.b.":{"c":1}}`, `{"a.b.c.":1}`})
	f(Condition{Member: "n", Above: "199", Below: "400"},
		[]string{`{"n":200}`, `{"n":"200"}`, `{"n":3.99e2}`, `{"n":[1,399]}`, `{"n":0200}`},
		[]string{`{"n":199}`, `{"n":400}`, `{"n":[100,500]}`, `{"n":"0x100"}`, `{"n":"NaN"}`, `{"n":"Inf"}`, `{"n":""}`, `{"n":" 200"}`, `{"n":null}`, `{"n":true}`, `{"n":1e999}`, `{"n":"2_00"}`})
	f(Condition{Member: `a"\/`, In: []string{"x"}}, []string{`{"a\"\\\/":"x"}`, `{"a\"\\/":"x"}`}, []string{`{"a":"x"}`})
	f(Condition{Member: "aa", In: []string{"x"}}, []string{`{"aa":"x"}`, `{"aaa":1,"aa":"x"}`}, []string{`{"aaa":"x"}`, `{"a":"x"}`})
	f(Condition{Member: "a.aa", In: []string{"x"}}, []string{`{"a":{"aa":"x"}}`, `{"a.aa":"x"}`}, []string{`{"aaaa":"x"}`})
	f(Condition{Member: "m", In: []string{"null"}}, []string{`{"m":"null"}`}, []string{`{"m":null}`, `{"m":[null]}`})
	f(Condition{Member: "m", Match: "^$"}, []string{`{"m":""}`}, []string{`{"m":null}`, `{"m":{}}`, `{"m":[]}`, `{}`, `{"m":"x"}`})
}

// TestColumns: the fields of a row as encoding/csv has them.
func TestColumns(t *testing.T) {
	signs := []string{"a", `"`, `""`, ",", "\n", "b", `","`, "\r"}
	r := rand.New(rand.NewPCG(1, 2))
	rows := 0
	for range 20000 {
		row := ""
		for range r.IntN(9) {
			row += signs[r.IntN(len(signs))]
		}
		c := csv.NewReader(strings.NewReader(row))
		fields, err := c.Read()
		if _, more := c.Read(); err != nil || !errors.Is(more, io.EOF) || strings.ContainsAny(row, "\r") || strings.HasPrefix(row, "\n") || strings.HasSuffix(row, "\n") {
			continue
		}
		rows++
		for n := 1; n <= len(fields)+1; n++ {
			j := NewJudge(nil, Row, ',')
			got, ok := j.field([]byte(row), n)
			if ok != (n <= len(fields)) || ok && string(got) != fields[n-1] {
				t.Fatalf("column %d of %q is %q (%v), want it of %q", n, row, got, ok, fields)
			}
		}
	}
	if rows < 1000 {
		t.Fatalf("%d rows", rows)
	}
}

// TestMatcher: to look for text first changes nothing.
func TestMatcher(t *testing.T) {
	expressions := []string{
		"", "a", "^a", "a$", "^a$", "^ab", "(?i)a", "a|b", "^a|b", "(a)b", "ab+", "^(a|b)c", "(?m)^a", `\Aab`, "a.b", ".*ab", "^", "$", `\x{FFFD}`, "a\xc3\xa4b", "ä", "^ä", "[ab]c",
		"(?s)a.", "^^a", "a^b", `\ba`, "^(?i)ab", "(?i:a)b", "ab?", "a{2}", "a*", "()a", "^()a", "(?:ab)c",
	}
	signs := []string{"a", "b", "c", "A", "\n", "ä", "\xff", "\uFFFD", "B"}
	r := rand.New(rand.NewPCG(3, 4))
	for _, x := range expressions {
		m, err := newMatcher(x)
		want, same := regexp.Compile(x)
		if (err == nil) != (same == nil) {
			t.Errorf("%q: %v", x, err)
		}
		if err != nil {
			continue
		}
		for range 2000 {
			text := ""
			for range r.IntN(5) {
				text += signs[r.IntN(len(signs))]
			}
			if got := m.matches([]byte(text)); got != want.MatchString(text) {
				t.Fatalf("%q matches %q: %v", x, text, got)
			}
		}
	}
}

// oracle says whether a condition on a member holds, by encoding/json and regexp.
func oracle(c Condition, record []byte) bool {
	d := json.NewDecoder(bytes.NewReader(record))
	d.UseNumber()
	if first, err := d.Token(); err != nil || first != json.Delim('{') {
		return false
	}
	return oracleObject(d, c, []string{c.Member})
}

// oracleObject goes through the object whose brace was read; paths are what may be left
// of the path in it.
func oracleObject(d *json.Decoder, c Condition, paths []string) (found bool) {
	for d.More() {
		name, _ := d.Token()
		var left []string
		leaf := false
		for _, p := range paths {
			rest, on := strings.CutPrefix(p, name.(string))
			leaf = leaf || on && rest == ""
			if rest, dot := strings.CutPrefix(rest, "."); on && dot && rest != "" {
				left = append(left, rest)
			}
		}
		if oracleValue(d, c, left, leaf) {
			found = true
		}
	}
	_, _ = d.Token()
	return found
}

func oracleValue(d *json.Decoder, c Condition, left []string, leaf bool) (found bool) {
	token, _ := d.Token()
	switch v := token.(type) {
	case json.Delim:
		if v == '{' {
			return oracleObject(d, c, left)
		}
		for d.More() {
			if oracleValue(d, c, left, leaf) {
				found = true
			}
		}
		_, _ = d.Token()
		return found
	case string:
		return leaf && oracleText(c, v)
	case json.Number:
		return leaf && oracleText(c, v.String())
	case bool:
		return leaf && oracleText(c, strconv.FormatBool(v))
	}
	return false
}

var plainNumber = regexp.MustCompile(`^[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?$`)

func oracleText(c Condition, text string) bool {
	if len(c.In) > 0 && !slices.Contains(c.In, text) {
		return false
	}
	for bound, sign := range map[string]float64{c.Below: 1, c.Above: -1} {
		if bound == "" {
			continue
		}
		v, err := strconv.ParseFloat(text, 64)
		b, _ := strconv.ParseFloat(bound, 64)
		if err != nil || !plainNumber.MatchString(text) || len(text) > 64 || sign*v >= sign*b {
			return false
		}
	}
	return c.Match == "" || regexp.MustCompile(c.Match).MatchString(text)
}

var oracleConditions = []Condition{
	{Member: "a", In: []string{"x", "1", "true"}}, {Member: "a.b", Match: "^x"}, {Member: "b.a", Below: "2"}, {Member: "a.b.c", Above: "0", Below: "1e3"},
	{Member: "c", Match: "x"}, {Member: `a/b`, In: []string{"x"}}, {Member: "a.", In: []string{"x"}}, {Member: ".a", In: []string{"x"}}, {Member: "ä", Match: "ä"}, {Member: "aa", In: []string{""}},
}

func checkOracle(t *testing.T, record []byte) (held int) {
	t.Helper()
	for _, c := range oracleConditions {
		j := NewJudge(newSet(t, Config{Drop: []Rule{{Condition: c}}}, Object), Object, 0)
		got, want := j.Of(record, record) == 0, oracle(c, record)
		if got != want {
			t.Fatalf("%+v holds of %q: %v", c, record, got)
		}
		if got {
			held++
		}
	}
	return held
}

// TestOracle asks about random records.
func TestOracle(t *testing.T) {
	held := 0
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 0))
		for range 300 {
			held += checkOracle(t, randomObject(r, 4))
		}
	}
	if held < 200 {
		t.Errorf("%d held", held)
	}
}

func randomObject(r *rand.Rand, depth int) []byte {
	names := []string{`"a"`, `"b"`, `"c"`, `"a.b"`, `"b.a"`, `"a.b.c"`, `"\u0061"`, `"a\/b"`, `"aa"`, `"aaa"`, `"ä"`, `"x"`, `""`, `"a."`, `".a"`, `"\"a\":1"`}
	space := func() string { return []string{"", " ", "\t", "\r\n"}[r.IntN(4)] }
	var value func(depth int) string
	object := func(depth int) string {
		text := "{"
		for i := range r.IntN(4) {
			if i > 0 {
				text += ","
			}
			text += space() + names[r.IntN(len(names))] + space() + ":" + space() + value(depth-1) + space()
		}
		return text + space() + "}"
	}
	value = func(depth int) string {
		switch n := r.IntN(8); {
		case n == 0 && depth > 0:
			text := "["
			for i := range r.IntN(3) {
				if i > 0 {
					text += ","
				}
				text += space() + value(depth-1)
			}
			return text + "]"
		case n < 3 && depth > 0:
			return object(depth)
		}
		scalars := []string{`"x"`, `"xy"`, `1`, `"1"`, `true`, `null`, `-1.5`, `1e2`, `""`, `"\u0078"`, `"\ud83d\ude00ä"`, `"ä\\"`, `"{\"a\":\"x\"}"`, `"\\\""`, `10`, `"1e2"`}
		return scalars[r.IntN(len(scalars))]
	}
	return []byte(object(depth))
}

// FuzzMember asks about any JSON, and whatever is none must not harm.
func FuzzMember(f *testing.F) {
	for seed := range uint64(20) {
		f.Add(randomObject(rand.New(rand.NewPCG(seed, 1)), 4))
	}
	for _, s := range []string{`{'a':'x'}`, `{"a":/*`, `{"a":[`, `{"a"://`, `{"a":"`, `{,}`, `{"a":,"b":x}`, `{/}`, `{"a":/}`, `{"a":}]x`, `[[[`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, record []byte) {
		if len(record) > 4096 {
			return
		}
		if json.Valid(record) && utf8.Valid(record) {
			checkOracle(t, record)
			return
		}
		for _, c := range oracleConditions {
			NewJudge(newSet(t, Config{Drop: []Rule{{Condition: c}}}, Object), Object, 0).Of(record, record)
		}
	})
}

// TestDeep: what nests without end is followed to a depth, and not beyond the stack.
func TestDeep(t *testing.T) {
	j := NewJudge(newSet(t, Config{Drop: []Rule{{Condition: Condition{Member: "a", In: []string{"x"}}}}}, Object), Object, 0)
	deep := []byte(`{"a":` + strings.Repeat("[", 1<<20) + `"x"`)
	if j.Of(nil, deep) != -1 {
		t.Error("a value is found in endless brackets")
	}
}

// TestSample: a key meets one fate, however it is written and whatever stands beside it;
// about as many keys are sent as the rate says, and those of a rate at every higher one.
func TestSample(t *testing.T) {
	judge := func(kind Kind, rate, by string) *Judge {
		return NewJudge(newSet(t, Config{Sample: &Sample{Rate: rate, By: by}}, kind), kind, ',')
	}
	const keys = 20000
	sent := make([]bool, keys)
	for _, rate := range []string{"0.01", "0.1", "0.5", "0.999"} {
		object, row, line, message := judge(Object, rate, "a.id"), judge(Row, rate, "2"), judge(Line, rate, ""), judge(Message, rate, "")
		n := 0
		for i := range keys {
			key := strconv.Itoa(i)
			fate := line.Of([]byte(key), nil)
			if fate < 0 {
				n++
			} else if sent[i] {
				t.Fatalf("%d is sent at a lower rate than %s", i, rate)
			}
			sent[i] = sent[i] || fate < 0
			for _, rec := range []string{`{"a":{"id":"%s"}}`, `{"x":1,"a":{"id":%s,"id":7}}`, `{ "a" : [ {"id": [null,{},"%s","x"]} ] }`, `{"a.id":%s,"a":{"id":1}}`} {
				if rec := fmt.Appendf(nil, rec, key); object.Of(rec, rec) != fate {
					t.Fatalf("%s has another fate than its key", rec)
				}
			}
			for _, rec := range []string{"x,%s", "x,\"%s\",y", "\"x,\n\",%s,z"} {
				if rec := fmt.Appendf(nil, rec, key); row.Of(rec, nil) != fate {
					t.Fatalf("%s has another fate than its key", rec)
				}
			}
			if row.Of([]byte(key), nil) != fate || object.Of([]byte(key), []byte(`{"id":1}`)) != fate || message.Of([]byte("x"), []byte(key)) != fate {
				t.Fatalf("a record without a key does not go by itself: %s", key)
			}
		}
		want, _ := strconv.ParseFloat(rate, 64)
		if got := float64(n) / keys; got < want-0.02 || got > want+0.02 || n == 0 || n == keys {
			t.Errorf("%v of all keys are sent, want %s", got, rate)
		}
	}
}

// TestErrors: every mistake is told with its key.
func TestErrors(t *testing.T) {
	f := func(c Config, kind Kind, want ...string) {
		t.Helper()
		_, err := New(c, kind, "blank")
		var got []string
		if many, ok := err.(interface{ Unwrap() []error }); ok {
			for _, e := range many.Unwrap() {
				var bad *Error
				if !errors.As(e, &bad) {
					t.Fatalf("%v", e)
				}
				got = append(got, bad.Path())
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%+v: %v, want %q", c, err, want)
		}
	}
	drop := func(c ...Condition) (all Config) {
		for _, c := range c {
			all.Drop = append(all.Drop, Rule{Condition: c})
		}
		return all
	}
	f(drop(Condition{Match: "("}, Condition{Member: "a"}, Condition{Below: "x"}), Object, "drop[0].match", "drop[1]", "drop[2].below", "drop[2]")
	f(drop(Condition{Member: "a", Match: "x"}), Row, "drop[0].member")
	f(drop(Condition{Member: "a", Match: "x"}), Line, "drop[0].member")
	f(drop(Condition{Column: "1", Match: "x"}), Parsed, "drop[0].column")
	f(drop(Condition{Match: "x"}), Message, "drop[0].match")
	f(drop(Condition{Member: "\xff", Match: "x"}), Message, "drop[0].member")
	f(Config{Drop: []Rule{{Name: "blank", Condition: Condition{Match: "x"}}, {Name: "A", Condition: Condition{Match: "x"}}, {Name: "keep", Condition: Condition{Match: "x"}}}}, Line,
		"drop[0].name", "drop[1].name", "drop[2].name")
	f(Config{Keep: []Condition{{}}}, Line, "keep[0]")
	for _, rate := range []string{"", "0", "1", "-0.5", "1.5", "x", "NaN", "10%"} {
		f(Config{Sample: &Sample{Rate: rate}}, Line, "sample.rate")
	}
	f(Config{Sample: &Sample{Rate: "0.5", By: "a"}}, Line, "sample.by")
	f(Config{Sample: &Sample{Rate: "0.5", By: "a"}}, Row, "sample.by")
	f(Config{Sample: &Sample{Rate: "0.5", By: "0"}}, Row, "sample.by")
	f(Config{Sample: &Sample{Rate: "2", By: "\xff"}}, Object, "sample.rate", "sample.by")
	f(drop(Condition{Match: "x"}, Condition{Column: "2", In: []string{"x"}, Below: "3"}), Row)
}
