package tail

import (
	"slices"
	"strings"
	"testing"

	"kusto-agent/internal/record"
	"kusto-agent/internal/rules"
)

// wantWithheld checks that every record in quarantine is marked and that none holds a
// word.
func (w *world) wantWithheld(word string, reasons ...record.Reason) {
	w.t.Helper()
	w.boxed.mu.Lock()
	defer w.boxed.mu.Unlock()
	wantWithheld(w.t, w.boxed.refused, word, reasons...)
}

func wantWithheld(t testing.TB, refused []record.Rejected, word string, reasons ...record.Reason) {
	t.Helper()
	var got []record.Reason
	for _, r := range refused {
		got = append(got, r.Reason)
		if !r.Redacted || strings.Contains(string(r.Data), word) || strings.Contains(r.Message, word) || len(r.Data) == 0 && !strings.Contains(r.Message, "withheld") {
			t.Errorf("in quarantine: %+v with %q", r, r.Data)
		}
	}
	if slices.Sort(got); !slices.Equal(got, reasons) {
		t.Errorf("in quarantine for %v, want %v", got, reasons)
	}
}

// TestRedacted: what rules change is sent as they say and counted by the rule, and what
// cannot be taken apart is nowhere but in its file.
func TestRedacted(t *testing.T) {
	w := newWorld(t)
	w.in().Format, w.in().MaxRecordSize = record.JSON, 100
	w.in().Redact = []rules.Redaction{{Name: "names", Member: "user", With: "***"}, {Match: `secret\d*`, With: "***"}}
	w.in().Rename = map[string]string{"a": "b"}
	w.start()
	w.appendTo("a.log", `{"user":"secret","a":1}`+"\n", `{"x":"my secret12"}`+"\n", `{"x":"else"}`+"\n", `{"x":"secret`+"\n", `{"x":"secret `+strings.Repeat("x", 200)+"\"}\n", `{"user":"last"}`+"\n")
	w.expect("in", `{"user":"***","b":1}`, `{"x":"my ***"}`, `{"x":"else"}`, `{"user":"***"}`)
	for rule, want := range map[string]int64{"names": 2, "redact_2": 1, "rename": 1} {
		if got := w.boxed.counter(rule); got != want {
			t.Errorf("%d changed by %s, want %d", got, rule, want)
		}
	}
	w.wantWithheld("secret", record.Malformed, record.TooLong)
}

// TestRedactedLongLineIsPassed: of a line that is longer than a read nothing is kept.
func TestRedactedLongLineIsPassed(t *testing.T) {
	w := newWorld(t)
	w.in().MaxRecordSize = 100
	w.in().Redact = []rules.Redaction{{Match: "secret", With: "***"}}
	w.start()
	w.appendTo("a.log", strings.Repeat("secret ", 400_000)+"\n", "a secret\n")
	w.expect("in", "a ***")
	w.wantWithheld("secret", record.TooLong)
}

// TestRedactedLineOfAnotherKind: of a line that is not as parse says, members cannot be
// redacted, so that nothing of it is sent.
func TestRedactedLineOfAnotherKind(t *testing.T) {
	w := newWorld(t)
	w.in().Format, w.in().Parse, w.in().Pattern, w.in().OnError = record.JSON, "regex", []string{"^user=(?P<user>.*)$"}, "raw"
	w.in().Redact = []rules.Redaction{{Member: "user", With: "***"}}
	w.start()
	w.appendTo("a.log", "user=secret\n", "usr=secret\n")
	w.expect("in", `{"user":"***"}`,
		`{"message":"withheld: it is not as parse says, and something of it must not be sent as it is","parse_error":"it does not match the pattern"}`)
}

// TestRestoreOfRedacted: a refused record of an input that redacts keeps what was sent,
// and one that was sent before it did loses its bytes.
func TestRestoreOfRedacted(t *testing.T) {
	for _, before := range []bool{true, false} {
		w := newWorld(t)
		w.in().Format, w.in().Parse = record.JSON, "text"
		redact := func() { w.in().Redact = []rules.Redaction{{Match: "secret", With: "***"}} }
		if before {
			redact()
		}
		w.batch = true
		w.start()
		w.taker.set(func() { w.taker.hold = true })
		w.appendTo("a.log", "a secret\n")
		w.look()
		p := w.taker.unsent[0]
		redact()
		w.reload()
		for _, rec := range []record.Rejected{{File: p.Pieces[0].File, Length: 9, Data: []byte("as sent")}} {
			all := []record.Rejected{rec}
			must(t, w.tailer.Restore(p, all))
			if r := all[0]; !r.Redacted || before != (string(r.Data) == "as sent") || r.Length != 9 {
				t.Errorf("redacts before it was sent: %t; restored %+v", before, r)
			}
		}
	}
}

// TestRestoreOfRedactedAnew: a refused record that was sent under rules that are others by
// now keeps nothing, and one whose input redacts no more keeps what was sent.
func TestRestoreOfRedactedAnew(t *testing.T) {
	for _, c := range []struct {
		now      []rules.Redaction
		withheld bool
	}{
		{[]rules.Redaction{{Match: "secret", With: "***"}}, false},
		{[]rules.Redaction{{Match: "secret", With: "***"}, {Match: "token", With: "***"}}, true},
		{nil, false},
	} {
		w := newWorld(t)
		w.in().Format, w.in().Parse = record.JSON, "text"
		w.in().Redact = []rules.Redaction{{Match: "secret", With: "***"}}
		w.batch = true
		w.start()
		w.taker.set(func() { w.taker.hold = true })
		w.appendTo("a.log", "a secret token\n")
		w.look()
		p := w.taker.unsent[0]
		w.in().Redact = c.now
		w.reload()
		all := []record.Rejected{{File: p.Pieces[0].File, Length: 15, Data: []byte("a *** token")}}
		must(t, w.tailer.Restore(p, all))
		if r := all[0]; !r.Redacted || c.withheld != (len(r.Data) == 0) || c.withheld != strings.Contains(r.Message, "withheld") || r.Length != 15 {
			t.Errorf("rules are %v now; restored %+v", c.now, r)
		}
	}
}

// TestForeignMarkIsNotRead: no rule finds anything in text of another encoding, so that a
// file whose byte order mark names one is not read where something is withheld, also not
// from its middle.
func TestForeignMarkIsNotRead(t *testing.T) {
	utf16 := func(text string) string { return "\xff\xfe" + strings.ReplaceAll(text, "", "\x00")[1:] }
	for _, c := range []struct {
		redact, remark bool
		encoding       string
		read           bool
	}{
		{true, false, "utf-8", false},
		{true, true, "utf-8", false},
		{true, false, "utf-16le", true},
		{false, false, "utf-8", true},
	} {
		w := newWorld(t)
		w.in().Encoding = c.encoding
		redact := func() {
			if c.redact {
				w.in().Redact = []rules.Redaction{{Match: "secret", With: "***"}}
			}
		}
		if !c.remark {
			redact()
		}
		w.start()
		if c.remark { // it was read before the rules were there
			w.appendTo("a.log", utf16("old\n"))
			w.look()
			redact()
			w.reload()
		}
		before := w.boxed.count("in")
		w.appendTo("a.log", utf16("a secret\n"))
		w.look()
		told := false
		for path, why := range w.tailer.Problems() {
			told = told || strings.Contains(path, "a.log") && strings.Contains(why, "byte order mark")
		}
		if got := w.boxed.count("in") - before; told == c.read || (got > 0) != c.read {
			t.Errorf("%+v: told %t, sent %d", c, told, got)
		}
		if c.read == (w.boxed.logged("cannot be read", "a.log", "utf-16le") > 0) {
			t.Errorf("%+v: what to do is not in the log", c)
		}
		w.shut()
	}
}

// TestRedactedAnew: what is read anew and refused goes to quarantine without its bytes.
func TestRedactedAnew(t *testing.T) {
	w, made := sent(t, record.TXT, map[string]string{"a.log": "{}\nsecret\n{\"a\":\"secret\"}\n"})
	w.shut()
	w.in().Format, w.in().Redact = record.JSON, []rules.Redaction{{Match: "secret", With: "***"}}
	w.start()
	got, err := w.tailer.ReadAnew(describe(made[0]))
	must(t, err)
	if len(got.Parts) != 1 || string(got.Parts[0].Body) != "{}\n{\"a\":\"***\"}\n" {
		t.Errorf("parts %v", got.Parts)
	}
	wantWithheld(t, got.Refused, "secret", record.Malformed)
}

// TestRedactedMessageOverFiles: of a message in two files nothing is in quarantine that
// was not sent, whether it is too long as JSON or the service refuses it.
func TestRedactedMessageOverFiles(t *testing.T) {
	w := carryWorld(t, "cri")
	w.block, w.in().Fields = 1000, map[string]string{"f": strings.Repeat("f", 800)}
	w.in().Redact = []rules.Redaction{{Match: "secret", With: "***"}}
	w.start()
	w.appendTo("a.log", criLine("stdout", "P", "secret "+strings.Repeat("a", 100)))
	w.look()
	w.rename("a.log", "a.old")
	w.appendTo("a.log", criLine("stdout", "F", strings.Repeat("secret ", 15)), criLine("stdout", "F", "c"))
	w.await("a record", func() bool { return w.boxed.count("in") > 0 })
	w.look()
	w.wantWithheld("secret", record.Grown)
}

// TestRestoreOfRedactedOverFiles: a refused message keeps what was sent, and tells where
// all of it is.
func TestRestoreOfRedactedOverFiles(t *testing.T) {
	w := carryWorld(t, "cri")
	w.in().Redact = []rules.Redaction{{Match: "secret", With: "***"}}
	w.batch = true
	w.start()
	w.taker.set(func() { w.taker.hold = true })
	old, next := criLine("stdout", "P", "sec"), criLine("stdout", "F", "ret")
	w.appendTo("a.log", old)
	w.look()
	w.rename("a.log", "a.old")
	w.appendTo("a.log", next)
	w.await("a payload", func() bool {
		w.taker.mu.Lock()
		defer w.taker.mu.Unlock()
		return len(w.taker.unsent) > 0
	})
	w.taker.mu.Lock()
	p := w.taker.unsent[0]
	w.taker.mu.Unlock()
	recs, err := recordsOf(p)
	must(t, err)
	must(t, w.tailer.Restore(p, recs))
	if len(recs) != 1 || !recs[0].Redacted || string(recs[0].Data) != criMessage("stdout", "***")+"\n" || recs[0].Length != int64(len(old+next)) || !strings.Contains(recs[0].Message, "its first") {
		t.Errorf("records %v", recs)
	}
}

// TestRedactedLongMessage: of a message in parts that is too long nothing is kept.
func TestRedactedLongMessage(t *testing.T) {
	w := parseWorld(t, "cri", nil)
	w.in().MaxRecordSize = 1000
	w.in().Redact = []rules.Redaction{{Match: "secret", With: "***"}}
	w.start()
	for range 60 {
		w.appendTo("a.log", criLine("stdout", "P", "secret"))
	}
	w.appendTo("a.log", criLine("stdout", "F", "end"), criLine("stdout", "F", "a secret"))
	w.expect("in", criMessage("stdout", "a ***"))
	w.wantWithheld("secret", record.TooLong)
}
