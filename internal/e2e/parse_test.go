package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"

	"kusto-agent/emulator"
)

// logColumns is a table for records that were lines.
const logColumns = `{"databases":{"Logs":{"tables":{"T":{"columns":"time:string, stream:string, message:string, level:string, partial:bool, at:long, file:string","mappings":[
	{"name":"m","kind":"Json","columns":[{"column":"time","path":"$.time"},{"column":"stream","path":"$.stream"},{"column":"message","path":"$.message"},
		{"column":"level","path":"$.level"},{"column":"partial","path":"$.partial"},{"column":"at","path":"$.offset"},{"column":"file","path":"$.file"}]}]}}}}}`

// logRow is a row of it.
type logRow struct {
	Time, Stream, Message, Level, File string
	Partial                            *bool
	At                                 int
}

func (s *site) logRows() (all []logRow) {
	s.t.Helper()
	for row := range s.server.All("Logs", "T", 0) {
		text, err := json.Marshal(row)
		var r logRow
		if err == nil {
			err = json.Unmarshal(text, &r)
		}
		if err != nil {
			s.t.Fatal(err)
		}
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b logRow) int { return a.At - b.At })
	return all
}

// wantMessages compares the messages of all rows, in any order. One that is a
// part ends in a plus here.
func (s *site) wantMessages(want ...string) {
	s.t.Helper()
	var got []string
	for _, r := range s.logRows() {
		if r.Partial != nil && *r.Partial {
			r.Message += "+"
		}
		got = append(got, r.Message)
	}
	slices.Sort(got)
	want = slices.Sorted(slices.Values(want))
	if !slices.Equal(got, want) {
		s.t.Errorf("messages %q, want %q", got, want)
	}
}

func parseConfig(keys string) string {
	return open + "batch: {max_wait: 10ms}\n" + `inputs: [{paths: ["${DIR}/logs/*.log"], table: T, mapping: m, rotate_quiet: 200ms, fields: {offset: "{offset}", file: "{file}"}, ` + keys + "}]"
}

func newParseSite(t *testing.T) *site {
	t.Parallel()
	return newSite(t, emulator.Options{Schema: schemaOf(t, logColumns)})
}

func criText(stream, tag, text string) string {
	return "2026-03-01T12:00:00.5+01:00 " + stream + " " + tag + " " + text + "\n"
}

// TestParseKinds: what lines say is stored in columns, and each row tells where
// its record begins.
func TestParseKinds(t *testing.T) {
	f := func(name, keys, file string, want ...logRow) {
		t.Run(name, func(t *testing.T) {
			s := newParseSite(t)
			s.write("logs/a.log", file)
			s.once(parseConfig(keys), 0)
			rows := s.logRows()
			for i := range rows {
				if rows[i].File == "" {
					t.Error("a row without its file")
				}
				rows[i].File = ""
			}
			if got := fmt.Sprintf("%+v", rows); got != fmt.Sprintf("%+v", want) {
				t.Errorf("rows are\n%s\nwant\n%+v", got, want)
			}
		})
	}
	f("text", "parse: text", "one \"1\"\r\n\ntwo\tä", logRow{Message: `one "1"`}, logRow{Message: "two\tä", At: 10})
	f("logfmt", "parse: logfmt", "level=info message=\"a b\"\nplain words\n", logRow{Level: "info", Message: "a b"}, logRow{Message: "plain words", At: 25})
	f("docker", "parse: docker", `{"log":"a\n","stream":"stderr","time":"2026-03-01T12:00:00.5Z"}`+"\n", logRow{Time: "2026-03-01T12:00:00.5Z", Stream: "stderr", Message: "a"})
	f("cri", "parse: cri", criText("stdout", "P", "a")+criText("stdout", "F", "b"), logRow{Time: "2026-03-01T12:00:00.5+01:00", Stream: "stdout", Message: "ab"})
	f("events", "parse: text, multiline: {preset: java}", "E one\n\tat a\nCaused by: b\nE two\n", logRow{Message: "E one\n\tat a\nCaused by: b"}, logRow{Message: "E two", At: 25})
	f("latin1", "parse: text, encoding: latin1", "\xe4\xf6\xfc\nx\n", logRow{Message: "äöü"}, logRow{Message: "x", At: 4})
	f("utf-16", "parse: logfmt, encoding: utf-16le", utf16le("\uFEFFlevel=€\nlevel=😀\n"), logRow{Level: "€", At: 2}, logRow{Level: "😀", At: 18})
}

func utf16le(text string) string {
	var b strings.Builder
	for _, u := range utf16.Encode([]rune(text)) {
		b.WriteByte(byte(u))
		b.WriteByte(byte(u >> 8))
	}
	return b.String()
}

// TestParseRefused: what the service or the check refuses is kept as the bytes
// of the file, and its neighbours are stored.
func TestParseRefused(t *testing.T) {
	f := func(name, keys string, encode func(string) string, lines []string, want map[int]string, stored ...string) {
		t.Run(name, func(t *testing.T) {
			s := newParseSite(t)
			s.server.Fail(emulator.Fault{Match: emulator.Match{Contains: "wont-do"}, Status: 400})
			file, offsets := "", []int{}
			for _, l := range lines {
				offsets = append(offsets, len(file))
				file += encode(l)
			}
			s.write("logs/a.log", file)
			s.once(parseConfig(keys), 1)
			var held []string
			for _, i := range slices.Sorted(maps.Keys(want)) {
				held = append(held, fmt.Sprintf("%s %d+%d", want[i], offsets[i], len(encode(lines[i]))))
			}
			s.wantHeld("logs/a.log", held...)
			s.wantMessages(stored...)
			s.wantUniqueRequests()
		})
	}
	plain := func(text string) string { return text }
	f("text", "parse: text", plain, []string{"one\n", "wont-do \"2\"\r\n", "three\n", "\xff wont-do\n"}, map[int]string{1: "refused", 3: "refused"}, "one", "three")
	f("events", `parse: text, multiline: {start: '^\d'}, max_record_size: 50B`, plain, []string{"1 a\n b\n", "2 wont-do\n c\n", "3 " + strings.Repeat("x\n ", 40) + "\n", "4 d\n"},
		map[int]string{1: "refused", 2: "too_long"}, "1 a\n b", "4 d")
	f("UTF-16", "parse: text, encoding: utf-16le", utf16le, []string{"ä\n", "wont-do ö\n", "ü\n"}, map[int]string{1: "refused"}, "ä", "ü")
	// Lines whose messages are joined are refused together.
	f("cri", "parse: cri", plain, []string{criText("stdout", "F", "a"), criText("stdout", "P", "b") + criText("stderr", "F", "c") + criText("stdout", "F", "wont-do"), "no line\n", criText("stdout", "F", "d")},
		map[int]string{1: "refused", 2: "malformed"}, "a", "d")
}

// TestParseRotation: events and parts of messages stay whole while their file is
// renamed, and what cannot be joined is sent in parts.
func TestParseRotation(t *testing.T) {
	t.Run("events", func(t *testing.T) {
		s := newParseSite(t)
		s.write("logs/a.log", "1 a\n b\n")
		p := s.run(parseConfig(`parse: text, multiline: {start: '^\d', max_wait: 1h}`))
		s.append("logs/a.log", " c\n2 d\n e\n")
		s.awaitRows("T", 1)
		s.rename("logs/a.log", "logs/a.log.1")
		s.append("logs/a.log.1", " f\n")
		s.write("logs/a.log", "3 g\n h\n4 i\n")
		s.awaitRows("T", 3)
		p.stop()
		s.wantMessages("1 a\n b\n c", "2 d\n e\n f", "3 g\n h")
		s.once(parseConfig(`parse: text, multiline: {start: '^\d', max_wait: 1h}`), 0)
		s.wantMessages("1 a\n b\n c", "2 d\n e\n f", "3 g\n h", "4 i")
	})
	waits := strings.Replace(parseConfig("parse: cri"), "rotate_quiet: 200ms", "rotate_quiet: 1h", 1)
	t.Run("cri", func(t *testing.T) {
		s := newParseSite(t)
		s.write("logs/a.log", criText("stdout", "F", "one")+criText("stdout", "P", "left "))
		p := s.run(waits)
		s.awaitRows("T", 1)
		s.rename("logs/a.log", "logs/a.log.1")
		s.write("logs/a.log", criText("stdout", "F", "right")+criText("stderr", "P", "x")+criText("stderr", "F", "y"))
		s.awaitRows("T", 3)
		p.stop()
		s.wantMessages("one", "left right", "xy")
	})
	t.Run("cri that goes nowhere", func(t *testing.T) {
		s := newParseSite(t)
		s.write("logs/a.log", criText("stdout", "F", "one")+criText("stdout", "P", "left "))
		p := s.run(parseConfig("parse: cri"))
		s.awaitRows("T", 1)
		s.rename("logs/a.log", "logs/a.log.1")
		s.write("logs/a.log", "")
		s.awaitRows("T", 2)
		p.stop()
		s.wantMessages("one", "left +")
	})
	// Killed before the rest came, and again when the message was sent and no
	// answer was heard.
	t.Run("cri, killed", func(t *testing.T) {
		s := newParseSite(t)
		hang := s.server.Fail(emulator.Fault{Match: emulator.Match{Contains: "left"}, Hang: true, When: emulator.AfterCommit})
		s.write("logs/a.log", criText("stdout", "F", "one")+criText("stdout", "P", "left "))
		p := s.run(waits)
		s.awaitRows("T", 1)
		s.rename("logs/a.log", "logs/a.log.1")
		s.write("logs/a.log", criText("stderr", "F", "err"))
		p.await(1, "file was moved away or deleted; the agent keeps it open and reads it to its end")
		p.kill()
		p = s.run(waits)
		s.append("logs/a.log", criText("stdout", "F", "right"))
		s.awaitRows("T", 3)
		s.killHeld(p, hang)
		p = s.run(waits)
		s.append("logs/a.log", criText("stdout", "F", "two"))
		s.awaitRows("T", 6)
		p.stop()
		s.wantMessages("one", "left right", "err", "left right", "err", "two")
		if log := p.log.text(); strings.Contains(log, "another body") || strings.Contains(log, "source is gone") {
			t.Errorf("the batch was not made again as it was:\n%s", log)
		}
		s.wantUniqueRequests()
	})
	t.Run("cri, refused", func(t *testing.T) {
		s := newParseSite(t)
		s.server.Fail(emulator.Fault{Match: emulator.Match{Contains: "wont-do"}, Status: 400})
		one, old, next := criText("stdout", "F", "one"), criText("stdout", "P", "wont-"), criText("stdout", "F", "do")
		s.write("logs/a.log", one+old)
		p := s.run(waits)
		s.awaitRows("T", 1)
		s.rename("logs/a.log", "logs/a.log.1")
		s.write("logs/a.log", next+criText("stdout", "F", "two"))
		s.awaitRows("T", 2)
		p.stop()
		s.wantMessages("one", "two")
		all := s.quarantined()
		if len(all) != 1 {
			t.Fatalf("quarantine holds %v", all)
		}
		where := fmt.Sprintf("its first %d bytes are at offset %d", len(old), len(one))
		if q := all[0]; q["data"] != old+next || q["reason"] != "refused" || q["length"] != float64(len(old+next)) || !strings.Contains(q["message"].(string), where) {
			t.Errorf("quarantine holds %v, want %q in the message", q, where)
		}
	})
}

// TestParseKills: after kill -9 what was begun is sent again as it was, and
// nothing is lost or joined in another way.
func TestParseKills(t *testing.T) {
	f := func(name, keys string, line func(n int) string, message func(n int) string) {
		t.Run(name, func(t *testing.T) {
			s := newParseSite(t)
			s.server.Fail(emulator.Fault{When: emulator.AfterCommit, Delay: 2_000_000})
			const records, kills = 6000, 3
			config := strings.Replace(parseConfig(keys), "batch: {", "batch: {max_size: 64KiB, ", 1)
			n := 0
			for k := range kills + 1 {
				p := s.run(config)
				for end := records * (k + 1) / (kills + 1); n < end; n += 50 {
					var text strings.Builder
					for i := range 50 {
						text.WriteString(line(n + i))
					}
					s.append("logs/a.log", text.String())
				}
				s.awaitRows("T", n*2/3)
				p.kill()
				if log := p.log.text(); strings.Contains(log, "another body") || strings.Contains(log, "source is gone") || strings.Contains(log, "truncated or replaced") {
					t.Errorf("a batch was not made again as it was:\n%s", log)
				}
			}
			s.once(config, 0)
			seen := make(map[string]int)
			for _, r := range s.logRows() {
				seen[r.Message]++
			}
			for i := range n {
				if m := message(i); seen[m] == 0 {
					t.Errorf("message %q is missing", m)
				} else {
					delete(seen, m)
				}
			}
			for m := range seen {
				t.Errorf("message %q was never written", m)
			}
			s.wantUniqueRequests()
		})
	}
	f("events", `parse: text, multiline: {start: '^\d', max_wait: 1h}`,
		func(n int) string { return fmt.Sprintf("%d first\n second of %d\n\n third\n", n, n) },
		func(n int) string { return fmt.Sprintf("%d first\n second of %d\n\n third", n, n) })
	f("cri", `parse: cri`,
		func(n int) string {
			if n%2 == 0 {
				return criText("stdout", "P", fmt.Sprintf("%d ", n))
			}
			return criText("stderr", "F", fmt.Sprint(n)) + criText("stdout", "F", fmt.Sprint(n-1))
		},
		func(n int) string {
			if n%2 == 0 {
				return fmt.Sprintf("%d %d", n, n)
			}
			return fmt.Sprint(n)
		})
}

// TestLongMessage: a message of any number of parts costs no memory and goes to
// quarantine once, and what the other stream wrote meanwhile is stored.
func TestLongMessage(t *testing.T) {
	s := newParseSite(t)
	parts := 2000 // of 16 KB
	if longForm {
		parts = 64000
	}
	own, want := 0, []string{"first", "last"}
	s.write("logs/a.log", criText("stdout", "F", "first"))
	for n := 0; n < parts; n += 100 {
		text := strings.Repeat(criText("stdout", "P", strings.Repeat("x", 16000)), 100)
		own += len(text)
		want = append(want, fmt.Sprint("beside ", n))
		s.append("logs/a.log", text+criText("stderr", "F", fmt.Sprint("beside ", n)))
	}
	end := criText("stdout", "F", "end")
	s.append("logs/a.log", end+criText("stdout", "F", "last"))
	p := s.run(parseConfig("parse: cri, max_record_size: 64KiB, name: in"))
	s.awaitRows("T", len(want))
	p.awaitBooks("in", func(a account) bool {
		return a == account{read: float64(len(want) + 1), accepted: float64(len(want)), quarantined: 1}
	})
	if peak := p.peak(); peak > 150<<20 {
		t.Errorf("%d MiB of memory", peak>>20)
	}
	p.stop()
	s.wantMessages(want...)
	all := s.quarantined()
	if len(all) != 1 {
		t.Fatalf("%d lines in quarantine", len(all))
	}
	q := all[0]
	data, _ := q["data"].(string)
	if q["reason"] != "too_long" || q["truncated"] != true || q["offset"] != float64(len(criText("stdout", "F", "first"))) || q["length"] != float64(own+len(end)) ||
		len(data) != 64<<10 || strings.Contains(data, "beside") {
		t.Errorf("reason %v truncated %v offset %v length %v, %d bytes of data", q["reason"], q["truncated"], q["offset"], q["length"], len(data))
	}
}
