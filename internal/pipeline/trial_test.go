package pipeline

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"kusto-agent/internal/config"
	"kusto-agent/internal/format"
)

// trialOf is a trial of an input with keys of the configuration, and all that it tells.
func trialOf(t *testing.T, keys, file string) (*Trial, *[]string) {
	t.Helper()
	text := "cluster: http://127.0.0.1:1\ndatabase: D\nauth: {method: none}\ninputs: [{name: in, table: T, paths: [/x], " + keys + "}]\n"
	cfg, err := config.Parse("agent.yaml", []byte(text), os.LookupEnv, config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	trial, err := NewTrial(&cfg.Inputs[0], file, func(one *Tried) error {
		text := fmt.Sprintf("%d-%d %s → %s", one.Start, one.End, one.Before, bytes.Join(one.After, []byte(" + ")))
		if len(one.LeftOut) > 0 {
			text += fmt.Sprint(" out:", one.LeftOut)
		}
		if len(one.ChangedBy) > 0 {
			text += fmt.Sprint(" by:", one.ChangedBy)
		}
		if one.Message != "" {
			text += " bad:" + string(one.Reason)
		}
		all = append(all, text)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return trial, &all
}

func TestTrial(t *testing.T) {
	f := func(keys, file string, counts string, want ...string) {
		t.Helper()
		for _, size := range []int{1 << 20, 64} {
			trial, got := trialOf(t, keys, "none")
			trial.size = size
			if err := trial.Run(context.Background(), strings.NewReader(file)); err != nil {
				t.Fatal(err)
			}
			if text := strings.Join(*got, "\n"); text != strings.Join(want, "\n") {
				t.Errorf("%s: it tells\n%s\nwant\n%s", keys, text, strings.Join(want, "\n"))
			}
			n := trial.Counts
			if text := fmt.Sprint(n.Read, n.Sent, n.Unchanged, n.Unparsed, n.Filtered, n.Quarantined, n.BytesRead == int64(len(file))); text != counts {
				t.Errorf("%s: it counts %s, want %s", keys, text, counts)
			}
		}
	}
	f("format: TXT, drop: [{match: ^x}, {name: why, match: y}, {match: xx}]", "a\r\nx\n\nyx\nlast", "5 2 2 0 map[blank:1 drop_1:1 drop_3:0 why:1] map[] true",
		"0-3 a → a", "3-5 x →  out:[drop_1]", "6-9 yx →  out:[why]", "9-13 last → last")
	f("format: CSV, header: skip, drop: [{column: 2, in: [b]}]", "x,y\na,b\n\"a\nz\",c\nq\"\n", "4 1 1 0 map[drop_1:1 header:1] map[malformed:1] true",
		"4-8 a,b →  out:[drop_1]", "8-16 \"a\nz\",c → \"a\nz\",c", "16-19 q\" →  bad:malformed")
	f("parse: combined, mapping: m, on_error: drop, fields: {at: \"{offset}\"}", "no\n", "1 0 0 0 map[unmatched:1] map[] true", "0-3 no →  out:[unmatched]")
	f("parse: regex, pattern: '^(?P<a>x)$', mapping: m, fields: {at: \"{offset}\"}", "no\nx\n", "2 2 0 1 map[] map[] true",
		`0-3 no → {"message":"no","parse_error":"it does not match the pattern","at":0}`, `3-5 x → {"a":"x","at":3}`)
	f("format: MultiJSON, mapping: m, keep: [{member: a, above: 1}]", "[{\"a\":\n1},\n {\"a\":2}]\n", "2 1 1 0 map[keep:1] map[] true", "1-9 {\"a\":\n1} →  out:[keep]", `12-19 {"a":2} → {"a":2}`)
	const p, q, e = "2026-03-01T12:00:00Z stdout P ", "2026-03-01T12:00:00Z stdout F ", "2026-03-01T12:00:00Z stderr F "
	f("parse: cri, mapping: m, drop: [{member: stream, in: [stderr]}]", p+"a\n"+e+"b\n"+q+"c\n"+q+"d\n", "3 2 0 0 map[drop_1:1] map[] true",
		`0-96 `+p+"a\n"+e+"b\n"+q+`c → {"time":"2026-03-01T12:00:00Z","stream":"stdout","message":"ac"} out:[drop_1]`,
		`96-128 `+q+`d → {"time":"2026-03-01T12:00:00Z","stream":"stdout","message":"d"}`)
	f("format: JSON, mapping: m, drop: [{member: a, in: [x]}], redact: [{name: mail, preset: [email], with: '*'}, {member: b, with: '-'}, {match: never, with: ''}], remove: [c]",
		"{\"a\":\"x\"}\n{\"a\":\"u@example.com\",\"b\":\"v@example.com\",\"c\":1}\n{\"a\":1}\n", "3 2 1 0 map[drop_1:1] map[] true",
		`0-10 {"a":"x"} →  out:[drop_1]`, `10-58 {"a":"u@example.com","b":"v@example.com","c":1} → {"a":"*","b":"-"} by:[mail redact_2 remove]`, `58-66 {"a":1} → {"a":1}`)
	f("format: CSV, header: skip, drop: [{column: level, in: [info]}], redact: [{column: user, with: '*'}]", "level,user,"+strings.Repeat("x", 10)+"\ninfo,ada,1\nwarn,bob,2\n", "3 1 0 0 map[drop_1:1 header:1] map[] true",
		"22-33 info,ada,1 →  out:[drop_1]", "33-44 warn,bob,2 → warn,*,2 by:[redact_1]")
	long := strings.Repeat(p+"long\n", 5)
	f("parse: cri, mapping: m, max_record_size: 100, keep: [{member: message, match: .}]", e+"a\n"+long+e+"b\n"+p+"x\n"+q+"y\n", "3 2 0 0 map[keep:0] map[too_long:1] true",
		"0-32 "+e+`a → {"time":"2026-03-01T12:00:00Z","stream":"stderr","message":"a"}`, "32-67 "+p+"long →  bad:too_long",
		"207-239 "+e+`b → {"time":"2026-03-01T12:00:00Z","stream":"stderr","message":"b"}`)
	f("parse: text, mapping: m, multiline: {start: ^a}, max_record_size: 20", "a\n b\n"+strings.Repeat("c\n", 30)+"a\n", "2 1 0 0 map[] map[too_long:1] true",
		"0-65 a\n b"+strings.Repeat("\nc", 30)+" →  bad:too_long", `65-67 a → {"message":"a"}`)
}

// TestTrialIsTheTruth: what is told of any file, read through any window, is what the
// scanner of the input makes of it in one piece.
func TestTrialIsTheTruth(t *testing.T) {
	const stdout, stderr = "2026-03-01T12:00:00Z stdout ", "2026-03-01T12:00:00Z stderr "
	inputs := []string{
		"format: TXT, drop: [{match: a}, {match: b}]", "format: CSV, keep: [{column: 1, in: [a]}]", "format: MultiJSON, mapping: m, sample: {rate: 0.5, by: a}",
		"parse: cri, mapping: m, inner: json, on_error: drop, drop: [{member: a, in: ['1']}], max_record_size: 150", "parse: logfmt, mapping: m, fields: {at: '{offset}'}",
		"parse: text, mapping: m, multiline: {start: ^a}", "parse: combined, mapping: m, on_error: quarantine, drop: [{match: b}]", "format: TXT, encoding: latin1",
	}
	lines := []string{"a", "b c", "a,b", "\"x\ny\",z", `{"a":1}`, "[{\"a\":\n2},", "a=1 b=2", "", stdout + `P {"a":`, stdout + "F 1}", stderr + `F {"a":2}`, stderr + "F no", stdout + "P " + strings.Repeat("x", 90),
		`::1 - - [01/Mar/2026:12:00:00 +0000] "GET / HTTP/1.1" 200 1`, "\x00\x00", "\"", "\xff"}
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 3))
		var file strings.Builder
		for range r.IntN(40) + 1 {
			file.WriteString(lines[r.IntN(len(lines))] + []string{"\n", "\n", "\r\n"}[r.IntN(3)])
		}
		for _, keys := range inputs {
			var sent bytes.Buffer
			trial, _ := trialOf(t, keys, "none")
			trial.each = func(one *Tried) error {
				if string(format.RecordText([]byte(file.String()[one.Start:one.End]))) != string(one.Before) {
					t.Fatalf("%s: %d to %d of %q is told as %q", keys, one.Start, one.End, file.String(), one.Before)
				}
				for _, a := range one.After {
					sent.Write(append(a, '\n'))
				}
				return nil
			}
			trial.size = []int{16, 64, 1 << 20}[r.IntN(3)]
			if err := trial.Run(context.Background(), strings.NewReader(file.String())); err != nil {
				t.Fatal(err)
			}
			n := trial.Counts
			all := n.Sent
			for _, of := range []map[string]int{n.Filtered, n.Quarantined} {
				for _, n := range of {
					all += n
				}
			}
			want, records, quarantined := wholly(t, keys, file.String())
			want = strings.ReplaceAll(want, "\r\n", "\n")
			if got := sent.String(); got != want || all != n.Read || n.BytesRead != int64(file.Len()) || n.Sent != records || len(quarantined) != 0 && n.Quarantined["malformed"]+n.Quarantined["too_long"] != len(quarantined) {
				t.Fatalf("seed %d, %s: %q\nis told to be sent as\n%q\nwant\n%q\n%+v, %d records, %d in quarantine", seed, keys, file.String(), got, want, n, records, len(quarantined))
			}
		}
	}
}

// wholly is what a scanner makes of a file that it has before it at once.
func wholly(t *testing.T, keys, file string) (body string, records int, rejected []format.Reject) {
	t.Helper()
	trial, _ := trialOf(t, keys, "none")
	var scan func(text string, at int)
	scan = func(text string, at int) {
		for len(text) > 0 {
			var c format.Chunk
			trial.shape.Scan([]byte(text), int64(at), true, 0, &c)
			body, records = body+string(c.Body), records+c.Records
			rejected = append(rejected, c.Rejected...)
			text, at = text[c.Consumed:], at+c.Consumed
			switch {
			case c.Parts:
				own, n, _ := trial.shape.SkipParts([]byte(text[c.Skip:]), bytes.Clone(c.Stream), true)
				rejected = append(rejected, format.Reject{})
				from := 0
				for _, p := range append(append([]format.Piece(nil), own...), format.Piece{Start: n}) {
					scan(text[c.Skip+from:c.Skip+p.Start], at+c.Skip+from)
					from = p.End
				}
				text, at = text[c.Skip+n:], at+c.Skip+n
			case c.Consumed == 0:
				t.Fatalf("no progress in %q", text)
			}
		}
	}
	scan(file, 0)
	return body, records, rejected
}

// TestTrialOfPacked: a file that is packed is read as the agent reads it; a trial ends
// when enough was seen; Avro is refused.
func TestTrialOfPacked(t *testing.T) {
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if _, err := w.Write([]byte("a\nb\n")); err != nil || w.Close() != nil {
		t.Fatal(err)
	}
	trial, got := trialOf(t, "format: TXT", "none")
	each := trial.each
	trial.each = func(one *Tried) error { return errors.Join(each(one), ErrEnough) }
	if err := trial.Run(context.Background(), &packed); err != nil || len(*got) != 1 {
		t.Errorf("%v, it tells %q", err, *got)
	}
	cfg, err := config.Parse("agent.yaml", []byte("cluster: http://127.0.0.1:1\ndatabase: D\nauth: {method: none}\ninputs: [{table: T, mapping: m, paths: [/x.avro]}]\n"), os.LookupEnv, config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewTrial(&cfg.Inputs[0], filepath.Join(t.TempDir(), "x"), nil); err == nil {
		t.Error("Avro is tried")
	}
}

// TestWithoutRules: an input that has none makes none for the scanner.
func TestWithoutRules(t *testing.T) {
	text := "cluster: http://127.0.0.1:1\ndatabase: D\nauth: {method: none}\ninputs: [{name: a, paths: [/a.json], table: T, mapping: m}, {name: b, paths: [/b.json], table: T, mapping: m, drop: [{match: x}]}]\n"
	cfg, err := config.Parse("agent.yaml", []byte(text), os.LookupEnv, config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []bool{false, true} {
		o, err := cfg.Inputs[i].Tail().ScanOptions()
		if err != nil || (o.Rules != nil) != want {
			t.Errorf("%s: rules %v, %v", cfg.Inputs[i].Name, o.Rules != nil, err)
		}
	}
}

// TestNewestTellsEachFileOnce: a file that several patterns match takes the place of no other.
func TestNewestTellsEachFileOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for i := range mostNewest + 2 {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%d.log", i)), []byte("x\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var in config.Input
	in.Paths = []string{filepath.Join(dir, "*.log"), filepath.Join(dir, "?.*"), filepath.Join(dir, "[0-9].log")}
	files, err := Newest(&in)
	if distinct := slices.Compact(slices.Sorted(slices.Values(files))); err != nil || len(files) != mostNewest || len(distinct) != mostNewest {
		t.Errorf("%q, %v; want %d files", files, err, mostNewest)
	}
}
