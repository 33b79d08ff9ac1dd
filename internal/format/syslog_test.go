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

	"kusto-agent/internal/record"
)

// Lines of syslog as regular expressions have them.
var (
	oldStamp   = `[A-Z][a-z]{2} [ 0-9][0-9] [0-9]{2}:[0-9]{2}:[0-9]{2}`
	oldLine    = regexp.MustCompile(`(?s)^(?:<([0-9]{1,3})>)?(?:(` + oldStamp + `)(?: |$)|([^ ]+)(?: |$))([^ ]+)(?: (.*))?$`)
	oldTag     = regexp.MustCompile(`(?s)^([^: \[\]]+)(?:\[([0-9]{1,18})\])?:(?: (.*))?$`)
	newLine    = regexp.MustCompile(`(?s)^<([0-9]{1,3})>1 ([^ ]+) ([^ ]+) ([^ ]+) ([^ ]+) ([^ ]+) (-|(?:\[[^ \]="]+(?: [^ \]="]+="(?:[^"\\]|\\.)*")*\])+)(?: (\x{FEFF})?(.*))?$`)
	newElement = regexp.MustCompile(`(?s)\[([^ \]="]+)((?: [^ \]="]+="(?:[^"\\]|\\.)*")*)\]`)
	newParam   = regexp.MustCompile(`(?s) ([^ \]="]+)="((?:[^"\\]|\\.)*)"`)
	newEscape  = regexp.MustCompile(`\\(["\\\]])`)
	isoStamp   = regexp.MustCompile(`^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}([.,][0-9]+)?(Z|[+-][0-9]{2}(:?[0-9]{2})?)?$`)
	fileDate   = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
)

// stampOracle reads a time by package time; nil: it is none.
func stampOracle(old, iso string) any {
	if old != "" {
		for _, year := range []string{"2026", "2025"} { // in a file of 1 March
			at, err := time.Parse("2006 Jan _2 15:04:05", year+" "+old)
			if err == nil && at.Sub(fileDate).Abs() <= 184*24*time.Hour {
				return at.Format(time.RFC3339)
			}
		}
		return nil
	}
	if !isoStamp.MatchString(iso) {
		return nil
	}
	for _, form := range []string{"2006-01-02T15:04:05", "2006-01-02T15:04:05Z07", "2006-01-02T15:04:05Z0700", time.RFC3339} {
		if at, err := time.Parse(form, iso); err == nil && at.Year() > 0 {
			return at.Format(time.RFC3339Nano)
		}
	}
	return nil
}

// numbered gives a name a number where it is taken.
func numbered(taken map[string]any, name string) string {
	name = string([]rune(name))
	if _, there := taken[name]; !there {
		return name
	}
	for n := 2; ; n++ {
		if _, there := taken[name+"_"+strconv.Itoa(n)]; !there {
			return name + "_" + strconv.Itoa(n)
		}
	}
}

// syslogOracle is what a line becomes, by regexp and time alone; nil: it is none.
func syslogOracle(line string) map[string]any {
	want := map[string]any{}
	some := func(name, v string) {
		if v != "-" {
			want[name] = string([]rune(v))
		}
	}
	priority := func(text string) bool {
		pri, err := strconv.Atoi(text)
		if text != "" {
			want["facility"], want["severity"] = json.Number(strconv.Itoa(pri/8)), json.Number(strconv.Itoa(pri%8))
		}
		return text == "" || err == nil && pri <= 191
	}
	number := func(name, text string) {
		n, _ := strconv.Atoi(text)
		want[name] = json.Number(strconv.Itoa(n))
	}
	if regexp.MustCompile(`^<[0-9]{1,3}>1 `).MatchString(line) {
		m := newLine.FindStringSubmatch(line)
		if m == nil || !priority(m[1]) {
			return nil
		}
		if m[2] != "-" {
			at := stampOracle("", m[2])
			if old := regexp.MustCompile(`^<[0-9]+>1 ` + oldStamp + ` `); old.MatchString(line) || at == nil {
				return nil
			}
			want["time"] = at
		}
		some("host", m[3])
		some("app", m[4])
		some("msgid", m[6])
		if regexp.MustCompile(`^[0-9]{1,18}$`).MatchString(m[5]) {
			number("pid", m[5])
		} else {
			some("procid", m[5])
		}
		if m[7] != "-" {
			data := map[string]any{}
			for _, e := range newElement.FindAllStringSubmatch(m[7], -1) {
				params := map[string]any{}
				for _, p := range newParam.FindAllStringSubmatch(e[2], -1) {
					params[numbered(params, p[1])] = string([]rune(newEscape.ReplaceAllString(p[2], "$1")))
				}
				data[numbered(data, e[1])] = params
			}
			want["data"] = data
		}
		want["message"] = string([]rune(m[9]))
		return want
	}
	m := oldLine.FindStringSubmatch(line)
	if m == nil || !priority(m[1]) || strings.HasPrefix(line, "<") && m[1] == "" {
		return nil
	}
	at := stampOracle(m[2], m[3])
	if at == nil {
		return nil
	}
	want["time"], want["host"] = at, string([]rune(m[4]))
	text := m[5]
	if tag := oldTag.FindStringSubmatch(text); tag != nil {
		want["app"] = string([]rune(tag[1]))
		if tag[2] != "" {
			number("pid", tag[2])
		}
		text = tag[3]
	}
	want["message"] = string([]rune(text))
	return want
}

func checkSyslog(t testing.TB, line string) bool {
	t.Helper()
	s := newScanner(t, Options{Format: record.JSON, Parse: ParseSyslog, Zone: time.UTC})
	s.SetStamp(Stamp{Dated: fileDate.UnixNano()})
	got, _, why := s.appendSyslog([]byte("x"), []byte(line))
	want := syslogOracle(line)
	if (want == nil) != (why.text != "") {
		t.Fatalf("%q becomes %s, %q; want %v", line, got, why.explain([]byte(line)), want)
	}
	if want == nil {
		why.explain([]byte(line))
		return false
	}
	dec := json.NewDecoder(strings.NewReader(string(got[1:])))
	dec.UseNumber()
	var have map[string]any
	if err := dec.Decode(&have); err != nil || dec.More() || fmt.Sprintf("%q", have) != fmt.Sprintf("%q", want) {
		t.Fatalf("%q becomes\n%s, %v\nwant %q", line, got, err, want)
	}
	return true
}

// Lines of syslog; those behind the empty one are none.
var syslogLines = []string{
	`Mar  1 12:00:00 web-1 sshd[812]: Accepted publickey for ada from 203.0.113.7 port 52144 ssh2`,
	`Mar 01 12:00:00 web-1 kernel: [12.5] usb 1-1: new device`,
	`Dec 31 23:59:59 web-1 last message repeated 2 times`,
	`Mar  1 12:00:00 web-1 sudo:   ada : TTY=pts/0 ; COMMAND=/bin/ls`,
	`2026-03-01T12:00:00.123456+01:00 web-1 postfix/smtpd[9]: connect from x`,
	`2026-03-01T12:00:00Z web-1 a[b]: c`, `2026-03-01T12:00:00 web-1 CRON[007]:`,
	`<34>Oct 11 22:14:15 mymachine su: 'su root' failed for lonvick on /dev/pts/8`,
	`<0>2026-03-01T12:00:00Z h`, `Mar  1 12:00:00 h `, `Mar  1 12:00:00 h : x`, `Mar  1 12:00:00 h a:b c`, `Mar  2 12:00:00 h a[1]x: b`,
	`<34>1 2003-10-11T22:14:15.003Z mymachine.example.com su - ID47 - ` + "\xEF\xBB\xBF'su root' failed for lonvick",
	`<165>1 2003-08-24T05:14:15.000003-07:00 192.0.2.1 myproc 8710 - - %% It's time to make the do-nuts.`,
	`<165>1 - - evntslog p1 ID47 [exampleSDID@32473 iut="3" iut="4" eventSource="App \"x\" \\ \] \n"][exampleSDID@32473][b a=""] An event`,
	`<191>1 2003-10-11T22:14:15Z h a 1 m [x]`, `<1>1 - - - - - -`, `<1>1 - - - - - [a b="c\\\\\"d\"\]"] `, "<1>1 - - - - - [a \xff=\"\xff\"]",
	``,
	`Feb 29 12:00:00 h a: b`, `Mar  1 12:00:00`, `Mar  1 12:00:00 `, `Mar  1 12:00:00  x`, `Mar 32 12:00:00 h`, `mar  1 12:00:00 h`, `Mar  1 24:00:00 h`, `Feb 30 12:00:00 h`,
	`<192>Mar  1 12:00:00 h`, `<>Mar  1 12:00:00 h`, `<1234>Mar  1 12:00:00 h`, `<1`, `<34>2 2003-10-11T22:14:15.003Z h a p m - x`,
	`<34>1 2003-10-11T22:14:15.003Z h a p m`, `<34>1 2003-10-11T22:14:15.003Z h a p m [`, `<34>1 - h a p m []`, `<34>1 - h a p m [a b]`, `<34>1 - h a p m [a b="c]`, `<34>1 - h a p m -x`,
	`<34>1 Mar  1 12:00:00 h a p m - x`, `<34>1 - h a p  - x`, `plain`, `x`, ` `, `<34>1 `,
}

func TestSyslog(t *testing.T) {
	taken := true
	for _, line := range syslogLines {
		if line == "" {
			taken = false
			continue
		}
		if is := checkSyslog(t, line); is != taken {
			t.Errorf("%q is taken: %v", line, is)
		}
		for n := range line {
			checkSyslog(t, line[:n])
		}
	}
}

func FuzzSyslog(f *testing.F) {
	for _, line := range syslogLines {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) { checkSyslog(t, line) })
}

// A time in the hour that another year leaves out is what it says; without a date of
// the file, a time without a year is none.
func TestSyslogYears(t *testing.T) {
	zone, err := ZoneOf("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	f := func(dated int64, line, want string) {
		t.Helper()
		s := newScanner(t, Options{Format: record.JSON, Parse: ParseSyslog, Zone: zone})
		s.SetStamp(Stamp{Dated: dated})
		got, _, why := s.appendSyslog(nil, []byte(line))
		if why.text != "" {
			got = []byte(why.explain([]byte(line)))
		}
		if string(got) != want {
			t.Errorf("%s becomes %s, %v", line, got, why)
		}
	}
	f(fileDate.UnixNano(), "Mar 26 02:30:00 h", `{"time":"2026-03-26T02:30:00+01:00","host":"h","message":""}`)
	f(0, "Mar 26 02:30:00 h", "column 1: no year has this time, or the file has no date to tell it")
	f(0, "2026-03-26T02:30:00 h", `{"time":"2026-03-26T02:30:00+01:00","host":"h","message":""}`)
}

func syslogLine(r *rand.Rand, n int) string {
	return fmt.Sprintf("Mar  1 12:%02d:%02d web-%03d sshd[%d]: Accepted publickey for user%d from 10.0.%d.%d port %d ssh2: RSA SHA256:%016x\n",
		n/60%60, n%60, r.IntN(400), r.IntN(1e5), r.IntN(1e4), r.IntN(256), r.IntN(256), r.IntN(1e5), r.Uint64())
}

func modernLine(r *rand.Rand, n int) string {
	return fmt.Sprintf("<165>1 2026-03-01T12:%02d:%02d.%06dZ web-%03d checkout %d ID47 [shop@32473 order=\"%d\" user=\"%08x\"] order accepted, total %d.%02d EUR\n",
		n/60%60, n%60, r.IntN(1e6), r.IntN(400), r.IntN(1e5), r.IntN(1e7), r.Uint32(), r.IntN(1000), r.IntN(100))
}
