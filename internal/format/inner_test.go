package format

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"kusto-agent/internal/record"
	"kusto-agent/internal/rules"
)

const innerTime = "2026-03-01T12:00:00.5Z"

func cri(stream, tag, text string) string {
	return innerTime + " " + stream + " " + tag + " " + text + "\n"
}

func inside(t testing.TB, how, inner Parse, on OnError, file string) *shaping {
	o := Options{Format: record.JSON, Validate: true, Parse: how, Inner: inner, OnError: on}
	if inner == ParseRegex {
		o.Pattern = newPattern(t, map[string]string{"n": "long"}, "", "", `^(?P<n>[^|]*)\|(?P<time>.*)$`)
	}
	return shapes(t, o, file)
}

// TestInner: messages of both kinds of containers hold what lines can, and their members
// stand beside those of the container, each once.
func TestInner(t *testing.T) {
	const wrap = `{"time":"` + innerTime + `","stream":"stdout",`
	const access = `::1 - ada [01/Mar/2026:12:00:00 +0000] "GET /a\"b HTTP/1.1" 200 5 "-" "curl/8"`
	for _, c := range []struct {
		inner Parse
		text  string
		want  string // behind the stream
	}{
		{ParseCombined, access, `"remote_addr":"::1","user":"ada","time_2":"2026-03-01T12:00:00+00:00","method":"GET","path":"/a\\\"b","protocol":"HTTP/1.1","status":200,"bytes":5,"user_agent":"curl/8"}`},
		{ParseCombined, "", `"message":"","parse_error":"column 1: no address, identity and user before a time in brackets"}`},
		{ParseSyslog, "<13>1 2026-03-01T12:00:00Z h a - - - x", `"time_2":"2026-03-01T12:00:00Z","host":"h","app":"a","facility":1,"severity":5,"message":"x"}`},
		{ParseLogfmt, `time=1 a="x y" stream=2 partial=3 stream_2=4`, `"time_2":"1","a":"x y","stream_3":"2","partial_2":"3","stream_2":"4"}`},
		{ParseLogfmt, "plain", `"message":"plain"}`},
		{ParseText, "{}", `"message":"{}"}`},
		{ParseRegex, "7|x", `"n":7,"time_2":"x"}`},
		{ParseRegex, "x|x", `"message":"x|x","parse_error":"column 1: the value of n is no long"}`},
		{ParseJSON, `{"a":{"time":1,"b":[1,"}"]},"time":12.50,"é":"\u00e9\/"}`, `"a":{"time":1,"b":[1,"}"]},"time_2":12.50,"é":"\u00e9\/"}`},
		{ParseJSON, ` { "t\u0069me" : 1 , "time_2":2 } `, `"t\u0069me_3" : 1 , "time_2":2 }`},
		{ParseJSON, ` { } `, ``},
		{ParseJSON, `[1]`, `"message":"[1]","parse_error":"column 1: unexpected '[' where an object must begin"}`},
		{ParseJSON, `{"a":1} x`, `"message":"{\"a\":1} x","parse_error":"column 9: unexpected 'x' behind the object"}`},
		{ParseJSON, `{"message":"m"}`, `"message":"m"}`},
	} {
		want := wrap + c.want
		if c.want == "" {
			want = strings.TrimSuffix(wrap, ",") + "}"
		}
		inside(t, ParseCRI, c.inner, SendRaw, cri("stdout", "F", c.text)).want(want)
		inside(t, ParseDocker, c.inner, SendRaw, docker(c.text+"\n", "stdout", innerTime)).want(want)
		// In parts, between those of another stream.
		half := len(c.text) / 2
		inside(t, ParseCRI, c.inner, SendRaw, cri("stdout", "P", c.text[:half])+cri("stderr", "P", c.text)+cri("stdout", "F", c.text[half:])+cri("stderr", "F", "")).
			want(want, strings.Replace(want, "stdout", "stderr", 1))
		inside(t, ParseDocker, c.inner, SendRaw, docker(c.text[:half], "stdout", innerTime)+docker(c.text[half:]+"\n", "stdout", innerTime)).want(want)
	}
	inside(t, ParseCRI, ParseJSON, SendRaw, cri("stdout", "P", "{}")).want(strings.TrimSuffix(wrap, ",") + `,"partial":true}`)
	inside(t, ParseCRI, ParseJSON, SendRaw, cri("stdout", "F", "{\"a\":\"\xff\"}")).want(wrap + "\"a\":\"\uFFFD\"}")
	// What a docker line has beside is not covered by what is inside.
	inside(t, ParseDocker, ParseJSON, SendRaw, `{"log":"{\"attrs\":1,\"b\":2}\n","attrs":{"x":1},"\u0062":3}`+"\n").want(`{"attrs_2":1,"b_2":2,"attrs":{"x":1},"\u0062":3}`)
	inside(t, ParseDocker, ParseJSON, SendRaw, `{"log":"{\n\"a\":\r\n\"\\n\"}\n"}`+"\n").want(`{"a":  "\n"}`)
	// Half of a character.
	p := inside(t, ParseDocker, ParseLogfmt, SendRaw, `{"log":"a=\ud83d\ude00 b=\ud83dx c=\ude00\n"}`+"\n")
	p.want("{\"a\":\"\U0001F600\",\"b\":\"\uFFFDx\",\"c\":\"\uFFFD\"}")
	if p.counts[2] != 1 {
		t.Errorf("%d records are told to be not UTF-8, want 1", p.counts[2])
	}
	// A line that is none of the container is sent as ever.
	o := Options{Format: record.JSON, Parse: ParseCRI, Inner: ParseJSON}
	shapes(t, o, "{\"a\":1}\n").want(`{"message":"{\"a\":1}"}`)
}

// TestInnerOnError: of messages that lie between one another, those that are not as they
// should be are left out alone, and go to quarantine with those beside them.
func TestInnerOnError(t *testing.T) {
	const wrap = `{"time":"` + innerTime + `","stream":`
	good, bad := cri("stderr", "F", `{"a":1}`), cri("stdout", "F", "no")
	mixed := cri("stdout", "P", "n") + good + cri("stdout", "F", "o")
	p := inside(t, ParseCRI, ParseJSON, DropUnmatched, good+bad+mixed+bad+good)
	p.want(wrap+`"stderr","a":1}`, wrap+`"stderr","a":1}`, wrap+`"stderr","a":1}`)
	if p.counts[5] != 3 {
		t.Errorf("%d are dropped, want 3", p.counts[5])
	}
	p = inside(t, ParseCRI, ParseJSON, ToQuarantine, good+bad+mixed)
	p.want(wrap+`"stderr","a":1}`, fmt.Sprintf("<malformed %d>", len(bad)), fmt.Sprintf("<malformed %d>", len(mixed)))
	var c Chunk
	s := newScanner(t, p.o)
	if s.Scan(buffer(bad), 0, true, 0, &c); c.Rejected[0].Message != "in the message: column 1: unexpected 'n' where an object must begin" {
		t.Errorf("it says %q", c.Rejected[0].Message)
	}

	// Rules are asked first, of the object that tells what is wrong.
	set, err := rules.New(rules.Config{Drop: []rules.Rule{{Condition: rules.Condition{Member: "message", In: []string{"no"}}}}}, rules.Message)
	if err != nil {
		t.Fatal(err)
	}
	for _, on := range []OnError{SendRaw, ToQuarantine, DropUnmatched} {
		o := Options{Format: record.JSON, Validate: true, Parse: ParseCRI, Inner: ParseJSON, OnError: on, Rules: set}
		s, c := newScanner(t, o), Chunk{}
		if s.Scan(buffer(mixed+bad), 0, true, 0, &c); c.Records != 1 || len(c.Rejected) != 0 || c.Unmatched != 0 || c.Misfits != 0 || c.Filtered[0] != 2 {
			t.Errorf("%v: %+v", on, c)
		}
	}
}

func TestBadInners(t *testing.T) {
	for _, o := range []Options{
		{Parse: ParseText, Inner: ParseCombined}, {Parse: ParseCRI, Inner: ParseDocker}, {Parse: ParseJSON}, {Parse: ParseCRI, Inner: ParseRegex},
		{Parse: ParseCRI, Inner: ParseLogfmt, OnError: DropUnmatched}, {Parse: ParseCRI, OnError: DropUnmatched},
	} {
		o.Format, o.MaxRecord = record.JSON, 1<<10
		if _, err := New(o); err == nil {
			t.Errorf("%+v is taken", o)
		}
	}
	if names := strings.Join(Inners(), " "); names != "text json logfmt combined syslog regex" {
		t.Errorf("messages can hold %s", names)
	}
	if _, ok := ParseOf("json"); ok {
		t.Error("lines are parsed as json")
	}
}

// TestInnerColumns: what is known of the members before any record is seen.
func TestInnerColumns(t *testing.T) {
	f := func(inner Parse, want string) {
		t.Helper()
		o := inside(t, ParseDocker, inner, SendRaw, "").o
		var got []string
		for _, c := range o.Columns() {
			got = append(got, c.Name+":"+c.Type)
		}
		if text := strings.Join(got, " "); text != want {
			t.Errorf("%v: %s, want %s", inner, text, want)
		}
	}
	f(ParseText, "")
	f(ParseLogfmt, "")
	f(ParseJSON, "time:datetime stream:string message:string parse_error:string")
	f(ParseRegex, "time:datetime stream:string n:long time_2:string message:string parse_error:string")
}

// FuzzInner: for any text in either container, what is inside is what the same way makes
// of a line of the text, with the members of the container beside it, and encoding/json
// reads the same from both.
func FuzzInner(f *testing.F) {
	for i, s := range []string{
		`{"a":1,"time":"x","b":{"time":2},"time_2":3}`, `{ "stream" : [ ] , "":null,"pa\u0072tial":0 }`, "time=1 time=2 stream=a", "::1 - - [01/Mar/2026:12:00:00 +0000] \"GET / HTTP/1.1\" 200 5",
		"<13>1 2026-03-01T12:00:00Z h a - - [x time=\"1\"] x", "7|x", "\xff|\\ud800", "{}", `{"a":"` + "\xf0\x9f" + `"}`,
	} {
		for inner := range uint(len(inners)) {
			f.Add(s, inner+6*uint(i), uint64(i))
		}
	}
	f.Fuzz(func(t *testing.T, text string, n uint, seed uint64) {
		if len(text) > 2000 || strings.ContainsAny(text, "\n\r\x00") || strings.HasPrefix(text, "\uFEFF") {
			return
		}
		inner := inners[n%uint(len(inners))]
		alone := map[string]any{}
		text = string([]rune(text)) // as JSON can write it
		if inner == ParseJSON {
			if dec := json.NewDecoder(strings.NewReader(text)); json.Valid([]byte(text)) {
				dec.UseNumber()
				if dec.Decode(&alone) != nil || alone == nil {
					return
				}
			} else {
				return
			}
		} else {
			o := inside(t, ParseCRI, inner, SendRaw, "").o
			o.Parse, o.Inner = inner, ParseNone
			var c Chunk
			s := newScanner(t, o)
			s.SetStamp(stamp)
			if s.Scan(buffer(text+"\n"), 0, true, 0, &c); c.Records != 1 {
				return
			}
			decode(t, c.Body, &alone)
		}
		cut := rand.New(rand.NewPCG(seed, 0)).IntN(len(text) + 1)
		first, second := text[:cut], text[cut:]
		for how, file := range map[Parse]string{
			ParseCRI: cri("stdout", "P", first) + cri("stdout", "F", second), ParseDocker: docker(text+"\n", "stdout", innerTime),
		} {
			p := inside(t, how, inner, SendRaw, file).whole()
			p.sound()
			p.same(inside(t, how, inner, SendRaw, file).cut(rand.New(rand.NewPCG(seed, 1))))
			var got map[string]any
			decode(t, []byte(p.all[0].body), &got)
			if got["time"] != innerTime || got["stream"] != "stdout" {
				t.Fatalf("%v: %s", how, p.all[0].body)
			}
			delete(got, "time")
			delete(got, "stream")
			if len(got) != len(alone) {
				t.Fatalf("%v of %v: %v, want %v", how, inner, got, alone)
			}
			for name, value := range alone {
				var names []string
				if name != "time" && name != "stream" && name != "partial" {
					names = []string{name}
				} else {
					for _, key := range slices.Sorted(maps.Keys(got)) {
						if _, its := alone[key]; strings.HasPrefix(key, name+"_") && !its {
							names = append(names, key)
						}
					}
				}
				if len(names) != 1 || fmt.Sprint(got[names[0]]) != fmt.Sprint(value) {
					t.Fatalf("%v of %v: %q is %v as %q, want %v", how, inner, name, got, names, value)
				}
			}
		}
	})
}

func decode(t *testing.T, text []byte, to *map[string]any) {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	if err := dec.Decode(to); err != nil || !utf8.Valid(text) {
		t.Fatalf("%q: %v", text, err)
	}
}
