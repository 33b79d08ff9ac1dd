package format

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"kusto-agent/internal/record"
)

// steps takes fuzzed bytes apart: each step has a number and a text.
func steps(in []byte) func(yield func(op byte, text string) bool) {
	return func(yield func(byte, string) bool) {
		for len(in) >= 2 {
			n := min(int(in[1]%16), len(in)-2)
			if !yield(in[0], string(in[2:2+n])) {
				return
			}
			in = in[2+n:]
		}
	}
}

// oneLine is text without line ends.
var oneLine = strings.NewReplacer("\n", "n", "\r", "r")

// madeLog writes the log of a container, and tells what is in it: it knows the
// messages before it writes their lines.
func madeLog(in []byte, docker bool) (file string, want []string) {
	type message struct {
		at   int // in want
		text string
	}
	var b strings.Builder
	open := make(map[string]*message)
	end := func(stream string, partial bool) {
		m := open[stream]
		want[m.at] = fmt.Sprintf("%s %q %t", stream, string([]rune(m.text)), partial)
		delete(open, stream)
	}
	cut := func() {
		for _, stream := range []string{"stdout", "stderr"} {
			if open[stream] != nil {
				end(stream, true)
			}
		}
	}
	for op, text := range steps(in) {
		stream, part := []string{"stdout", "stderr"}[op&1], op&2 == 0
		switch op >> 2 & 7 {
		case 0:
			cut()
			b.WriteString("\n")
			continue
		case 1:
			cut()
			b.WriteString("nonsense\n")
			want = append(want, "<malformed 9>")
			continue
		}
		if text = oneLine.Replace(text); docker {
			text = strings.ToValidUTF8(text, "?")
			log := text
			if !part {
				log += []string{"\n", "\r\n"}[op>>5&1]
			}
			line, _ := json.Marshal(map[string]any{"log": log, "stream": stream, "time": "t"})
			b.Write(append(line, '\n'))
		} else {
			fmt.Fprintf(&b, "2026-03-01T12:00:00Z %s %s %s\n", stream, map[bool]string{true: "P", false: "F:x"}[part], text)
		}
		if open[stream] == nil {
			open[stream] = &message{at: len(want)}
			want = append(want, "")
		}
		if open[stream].text += text; !part {
			end(stream, false)
		}
	}
	cut()
	return b.String(), want
}

// madePairs writes lines of logfmt, and tells what members they have.
func madePairs(in []byte) (file string, want []string) {
	var b strings.Builder
	members, line, pairs := map[string]any{}, []string(nil), 0
	end := func() {
		text := strings.Join(line, " ")
		if pairs == 0 && len(line) > 0 {
			members = map[string]any{"message": text}
		}
		if b.WriteString(text + "\n"); len(line) > 0 {
			m, _ := json.Marshal(members)
			want = append(want, string(m))
		}
		members, line, pairs = map[string]any{}, nil, 0
	}
	for op, text := range steps(in) {
		text = strings.ToValidUTF8(oneLine.Replace(text), "?")
		key := []string{"a", "b", "a_2", "level", "é", `x\y`, "a_2_2", "<"}[op&7]
		word := key
		var value any = text
		switch op >> 3 & 3 {
		case 0:
			value = true
		case 1:
			quoted, _ := json.Marshal(text)
			word += "=" + string(quoted)
			pairs++
		case 2:
			if text = strings.TrimLeft(strings.NewReplacer(" ", "_", "\t", "_").Replace(text), `"`); true {
				value = text
			}
			word += "=" + text
			pairs++
		default:
			end()
			continue
		}
		name := key
		for n := 2; members[name] != nil; n++ {
			name = fmt.Sprintf("%s_%d", key, n)
		}
		members[name] = value
		line = append(line, word)
	}
	end()
	return b.String(), want
}

// FuzzMessages: what is known to be in the lines of container logs and of
// logfmt comes out, whatever the text is and however the file is cut.
func FuzzMessages(f *testing.F) {
	for how := range uint8(6) {
		f.Add([]byte("\x08\x03one\x0b\x02ee\x0a\x04 two\x09\x01x\x04\x00\x08\x01\xc3\x0a\x01\xa4"), uint64(how), how)
		f.Add([]byte("\x08\x03a\"b\x18\x00\x10\x02xy\x10\x01z\x00\x00\x0a\x05\\u00e"), uint64(how), how)
	}
	f.Fuzz(func(t *testing.T, in []byte, seed uint64, how uint8) {
		if len(in) > 2000 {
			return
		}
		o := Options{Format: record.JSON, Validate: true, MaxRecord: 1 << 20}
		var file string
		var want []string
		switch how % 3 {
		case 0:
			o.Parse = ParseDocker
			file, want = madeLog(in, true)
		case 1:
			o.Parse = ParseCRI
			file, want = madeLog(in, false)
		default:
			o.Parse = ParseLogfmt
			file, want = madePairs(in)
		}
		if how/3%2 == 1 { // a last line without its end
			if file = strings.TrimSuffix(file, "\n"); len(want) > 0 && !strings.HasSuffix(file, "\n") {
				want[len(want)-1] = strings.Replace(want[len(want)-1], "<malformed 9>", "<malformed 8>", 1)
			}
			if strings.HasSuffix(file, "\x00") {
				return // NULs that end a file are left out, as FuzzCuts has it
			}
		}
		for _, p := range []*shaping{shapes(t, o, file).whole(), shapes(t, o, file).cut(rand.New(rand.NewPCG(seed, 5)))} {
			var got []string
			for _, line := range p.lines() {
				got = append(got, told(t, o.Parse, line))
			}
			if !slices.Equal(got, want) {
				t.Fatalf("%q becomes\n%s\nwant\n%s", file, strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		}
	})
}

// told writes a record as the two above do.
func told(t *testing.T, how Parse, line string) string {
	t.Helper()
	if strings.HasPrefix(line, "<malformed") {
		return line
	}
	var m struct {
		Stream, Message string
		Partial         bool
	}
	var members map[string]any
	if err := json.Unmarshal([]byte(line), &members); err != nil {
		t.Fatal(err)
	}
	if how == ParseLogfmt {
		text, _ := json.Marshal(members)
		return string(text)
	}
	if err := json.Unmarshal([]byte(line), &m); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%s %q %t", m.Stream, m.Message, m.Partial)
}
