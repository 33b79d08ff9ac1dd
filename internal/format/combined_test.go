package format

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"kusto-agent/internal/record"
)

// A line of an access log as regular expressions have it: the head in three forms,
// of which the first that matches holds, and the rest.
var (
	accessHeads = []*regexp.Regexp{
		regexp.MustCompile(`(?s)^(?P<remote_addr>[^ ]+) (?P<ident>-) (?P<user>[^\[]+) \[`),
		regexp.MustCompile(`(?s)^(?P<vhost>[^ :]+:[0-9]+) (?P<remote_addr>[^ ]+) (?P<ident>-) (?P<user>[^\[]+) \[`),
		regexp.MustCompile(`(?s)^(?P<remote_addr>[^ ]+) (?P<ident>[^ ]+) (?P<user>[^\[]+) \[`),
	}
	accessRest  = regexp.MustCompile(`(?s)^([^\]]*)\] "((?:[^"\\]|\\.)*)" ([0-9]{3}) ([0-9]{1,18}|-)(?: (.*))?$`)
	accessAgent = regexp.MustCompile(`(?s)^"((?:[^"\\]|\\.)*)" "((?:[^"\\]|\\.)*)"(?: (.*))?$`)
	accessOne   = regexp.MustCompile(`(?s)^"((?:[^"\\]|\\.)*)"$`)
	accessStamp = regexp.MustCompile(`^[0-9]{2}/[A-Z][a-z]{2}/[0-9:]{13} [+-](?:[01][0-9]|2[0-3])[0-5][0-9]$`)
	accessAsked = regexp.MustCompile(`(?s)^([^ ]+) (.+) (HTTP/[^ ]+)$`)
)

// accessOracle is what a line becomes, by regexp and time alone; nil: it is none.
func accessOracle(line string) map[string]any {
	want := map[string]any{}
	some := func(name, value string) {
		if value != "-" {
			want[name] = value
		}
	}
	for _, head := range accessHeads {
		m := head.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		for i, name := range head.SubexpNames() {
			if name == "remote_addr" || name == "vhost" {
				want[name] = m[i]
			} else if name != "" {
				some(name, m[i])
			}
		}
		line = line[len(m[0]):]
		break
	}
	m := accessRest.FindStringSubmatch(line)
	if len(want) == 0 || m == nil {
		return nil
	}
	at, err := time.Parse("02/Jan/2006:15:04:05 -0700", m[1])
	if err != nil || !accessStamp.MatchString(m[1]) {
		return nil
	}
	want["time"] = at.Format("2006-01-02T15:04:05") + m[1][21:24] + ":" + m[1][24:]
	if r := accessAsked.FindStringSubmatch(m[2]); r != nil {
		want["method"], want["path"], want["protocol"] = r[1], r[2], r[3]
	} else {
		want["request"] = m[2]
	}
	status, _ := strconv.Atoi(m[3])
	want["status"] = json.Number(strconv.Itoa(status))
	if m[4] != "-" {
		n, _ := strconv.Atoi(m[4])
		want["bytes"] = json.Number(strconv.Itoa(n))
	}
	rest := m[5]
	if a := accessAgent.FindStringSubmatch(rest); a != nil {
		some("referer", a[1])
		some("user_agent", a[2])
		rest = a[3]
		if one := accessOne.FindStringSubmatch(rest); one != nil {
			some("forwarded_for", one[1])
			rest = ""
		}
	}
	if rest != "" {
		want["extra"] = rest
	}
	return want
}

// readObject reads one object as a reader of JSON does, and refuses names that come
// twice.
func readObject(t testing.TB, text []byte) map[string]any {
	t.Helper()
	dec := json.NewDecoder(strings.NewReader(string(text)))
	dec.UseNumber()
	got, names := map[string]any{}, 0
	if err := dec.Decode(&got); err != nil || dec.More() {
		t.Fatalf("%q is no object: %v", text, err)
	}
	dec = json.NewDecoder(strings.NewReader(string(text)))
	for dec.More() || names == 0 {
		if _, err := dec.Token(); err != nil {
			t.Fatal(err)
		}
		names++
	}
	if names != 1+2*len(got) {
		t.Fatalf("%s: a member is there twice, or is no single value", text)
	}
	return got
}

func checkCombined(t testing.TB, line string) (is bool) {
	t.Helper()
	got, _, why := appendCombined([]byte("x"), []byte(line))
	want := accessOracle(line)
	if want == nil {
		if why.text == "" || string(got) != "x" {
			t.Fatalf("%q becomes %s, and is no line of an access log", line, got)
		}
		if said := why.explain([]byte(line)); !utf8.ValidString(said) || len(said) > 200 {
			t.Fatalf("%q: %q", line, said)
		}
		return false
	}
	if why.text != "" {
		t.Fatalf("%q is a line of an access log, and not taken: %s", line, why.explain([]byte(line)))
	}
	for name, v := range want {
		if text, isText := v.(string); isText {
			want[name] = string([]rune(text))
		}
	}
	if have := readObject(t, got[1:]); fmt.Sprintf("%v", have) != fmt.Sprintf("%v", want) {
		t.Fatalf("%q becomes\n%v\nwant\n%v", line, have, want)
	}
	return true
}

// Real and odd lines of access logs. Those before the empty one are taken.
var accessLines = []string{
	`127.0.0.1 - - [01/Mar/2026:12:00:00 +0000] "GET /a?b=c HTTP/1.1" 200 3 "-" "curl/8.5.0"`,
	`127.0.0.1 - frank [10/Oct/2000:13:55:36 -0700] "GET /apache_pb.gif HTTP/1.0" 200 2326`,
	`::1 - - [29/Feb/2024:00:00:00 +0530] "POST /x HTTP/2.0" 304 - "https://example.org/" "Mozilla/5.0 (X11) \"q\" \\"`,
	`10.0.0.1 - - [01/Mar/2026:12:00:00 +0000] "GET / HTTP/1.1" 200 612 "-" "x" "1.2.3.4, 5.6.7.8"`,
	`10.0.0.1 - - [01/Mar/2026:12:00:00 +0000] "GET / HTTP/1.1" 200 612 "-" "x" "-"`,
	`10.0.0.1 - - [01/Mar/2026:12:00:00 +0000] "GET / HTTP/1.1" 200 612 "-" "x" "-" rt=0.003 uct="0.001"`,
	`example.org:443 10.0.0.1 - - [01/Mar/2026:12:00:00 +0000] "GET / HTTP/1.1" 200 612 "-" "x"`,
	`10.0.0.1 - - [01/Mar/2026:12:00:00 +0000] "-" 408 - "-" "-"`,
	`10.0.0.1 - - [01/Mar/2026:12:00:00 +0000] "" 400 0 "-" "-"`,
	`10.0.0.1 - - [01/Mar/2026:12:00:00 +0000] "\x16\x03\x01" 400 157 "-" "-"`,
	`10.0.0.1 - - [01/Mar/2026:12:00:00 +0000] "GET /a b HTTP/1.1" 400 157`,
	`10.0.0.1 - - [01/Mar/2026:12:00:00 +0000] "GET /" 009 007 0.004`,
	`10.0.0.1 id a b [01/Mar/2026:12:00:00 +0000] "GET  HTTP/1.1" 000 00`,
	`h:80 bob - [01/Mar/2026:12:00:00 +0000] "GET / HTTP/1.1" 200 1`,
	`h:80 bob - - [01/Mar/2026:12:00:00 +0000] "GET / HTTP/" 200 1 `,
	"10.0.0.1 - \xc3\xa4 [01/Mar/2026:12:00:00 +0000] \"GET /\xff\x01 HTTP/1.1\" 200 1 \"",
	``,
	`10.0.0.1 - - [32/Mar/2026:12:00:00 +0000] "GET / HTTP/1.1" 200 1`,
	`10.0.0.1 - - [29/Feb/2026:12:00:00 +0000] "GET / HTTP/1.1" 200 1`,
	`10.0.0.1 - - [01/Mar/2026:12:00:60 +0000] "GET / HTTP/1.1" 200 1`,
	`10.0.0.1 - - [01/Mar/2026:12:00:00 +2400] "GET / HTTP/1.1" 200 1`,
	`10.0.0.1 - - [01/mar/2026:12:00:00 +0000] "GET / HTTP/1.1" 200 1`,
	`10.0.0.1 - - [01/Mar/2026:12:00:00 +0000] "GET / HTTP/1.1 200 1`,
	`10.0.0.1 - - [01/Mar/2026:12:00:00 +0000] "GET / HTTP/1.1\" 200 1`,
	`10.0.0.1 - - [01/Mar/2026:12:00:00 +0000] "GET / HTTP/1.1" 20 1`,
	`10.0.0.1 - - [01/Mar/2026:12:00:00 +0000] "GET / HTTP/1.1" 200 1234567890123456789`,
	`10.0.0.1 - - [01/Mar/2026:12:00:00 +0000] "GET / HTTP/1.1" 200 1x`,
	`10.0.0.1 - - [01/Mar/2026:12:00:00 +0000] "GET / HTTP/1.1" 200`,
	`10.0.0.1 - [01/Mar/2026:12:00:00 +0000] "GET / HTTP/1.1" 200 1`,
	` - - [01/Mar/2026:12:00:00 +0000] "GET / HTTP/1.1" 200 1`,
	`no line of an access log`, `x`, `[`, `a b [`, `a - - [`,
}

// A line of an access log becomes what regular expressions find in it.
func TestCombined(t *testing.T) {
	taken := true
	for _, line := range accessLines {
		if line == "" {
			taken = false
		}
		if is := checkCombined(t, line); is != taken {
			t.Errorf("%q is taken: %v", line, is)
		}
		for n := range line { // nor does one that is cut surprise
			checkCombined(t, line[:n])
		}
	}
}

func FuzzCombined(f *testing.F) {
	for _, line := range accessLines {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		checkCombined(t, line)
	})
}

func TestCombinedShapes(t *testing.T) {
	good := accessLines[1]
	made := `{"remote_addr":"127.0.0.1","user":"frank","time":"2000-10-10T13:55:36-07:00","method":"GET","path":"/apache_pb.gif","protocol":"HTTP/1.0","status":200,"bytes":2326}`
	o := Options{Format: record.JSON, Validate: true, Parse: ParseCombined, MaxRecord: 1000}
	shapes(t, o, good+"\r\n\nx \"y\"\n"+good).want(made, `{"message":"x \"y\"","parse_error":"column 2: no address, identity and user before a time in brackets"}`, made)
	o.OnError = ToQuarantine
	shapes(t, o, good+"\nx y\n"+good+"\n").want(made, "<malformed 4>", made)
	o.OnError = DropUnmatched
	p := shapes(t, o, good+"\nx y\n"+good+"\n")
	p.want(made, made)
	if p.all[1].start != len(good)+5 {
		t.Errorf("the record behind the one that was dropped begins at %d", p.all[1].start)
	}
	if _, err := New(Options{Format: record.JSON, Parse: ParseText, OnError: DropUnmatched, MaxRecord: 100}); err == nil {
		t.Error("lines of text are dropped")
	}
}

// What was not as it should be is counted, sent or not.
func TestCombinedCounts(t *testing.T) {
	f := func(on OnError, records, misfits, unmatched, rejected int) {
		t.Helper()
		s := newScanner(t, Options{Format: record.JSON, Parse: ParseCombined, OnError: on, MaxRecord: 1000})
		var c Chunk
		text := []byte("x\n" + accessLines[0] + "\ny\n")
		s.Scan(text, 0, true, 0, &c)
		if c.Records != records || c.Misfits != misfits || c.Unmatched != unmatched || len(c.Rejected) != rejected || c.Consumed != len(text) {
			t.Errorf("%v: %d records, %d misfits, %d unmatched, %d rejected, %d bytes", on, c.Records, c.Misfits, c.Unmatched, len(c.Rejected), c.Consumed)
		}
	}
	f(SendRaw, 3, 2, 0, 0)
	f(ToQuarantine, 1, 0, 0, 2)
	f(DropUnmatched, 1, 0, 2, 0)
}

// FuzzParsed: however a file of lines that are taken apart is cut into reads, the
// same records come out, and what is sent is JSON.
func FuzzParsed(f *testing.F) {
	for i := range uint32(16) {
		n := int(i) * 2 % len(accessLines)
		f.Add([]byte(strings.Join(accessLines[n:n+3], "\n")), uint64(i), i)
		f.Add([]byte(strings.Join(syslogLines[n:n+3], "\n")), uint64(i), i+2*3*3*4*3)
	}
	f.Fuzz(func(t *testing.T, in []byte, seed uint64, options uint32) {
		if len(in) > 1024 {
			return
		}
		o, file := parsedShape(t, options), string(in)
		whole := shapes(t, o, file).whole()
		whole.sound()
		whole.same(shapes(t, o, file).cut(rand.New(rand.NewPCG(seed, 0))))
	})
}

// parsedShape are the options that a number chooses.
func parsedShape(t testing.TB, n uint32) Options {
	pick := func(of int) int { i := int(n % uint32(of)); n /= uint32(of); return i }
	o := Options{Format: record.JSON, Validate: true, OnError: OnError(pick(3)), MaxRecord: []int{1 << 20, 150, 40}[pick(3)], Encoding: Encoding(pick(4))}
	if pick(3) == 0 {
		o.Fields = fieldSets(t)[0]
	}
	switch pick(3) {
	case 0:
		o.Parse = ParseCombined
	case 2:
		o.Parse, o.Zone = ParseSyslog, time.UTC
	case 1:
		o.Parse, o.Pattern = ParseRegex, accessRegex(t)
		if pick(2) == 0 {
			o.Multiline = multiline(t, `^\d`, "", 3)
		}
	}
	return o
}

func accessLine(r *rand.Rand, n int) string {
	return fmt.Sprintf("10.%d.%d.%d - - [01/Mar/2026:12:%02d:%02d +0000] \"GET /shop/items/%d?session=%08x HTTP/1.1\" %d %d \"https://shop.example.com/list?page=%d\" \"Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0\"\n",
		r.IntN(256), r.IntN(256), r.IntN(256), n/60%60, n%60, r.IntN(1e6), r.Uint32(), 200+r.IntN(300), r.IntN(1e5), r.IntN(100))
}
