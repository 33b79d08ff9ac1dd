package format

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"kusto-agent/internal/record"
	"kusto-agent/internal/rules"
)

// layouts write an object as programs do: on one line or on many, with and without
// indentation.
var layouts = map[string]func(object string) string{
	"one line": func(object string) string { return object },
	"indented": func(object string) string {
		var b bytes.Buffer
		if err := json.Indent(&b, []byte(object), "", "  "); err != nil {
			panic(err)
		}
		return b.String()
	},
	"lines": func(object string) string { return broken(object, "{[,", "") },
	"lists": func(object string) string {
		return strings.ReplaceAll(strings.ReplaceAll(object, "[{", "[\n{"), "},{", "},\n{")
	},
	"comma": func(object string) string { return broken(object, "", "{[,]}") },
}

// broken puts a newline behind some bytes and before others.
func broken(text, behind, before string) string {
	var b strings.Builder
	for _, c := range text {
		if strings.ContainsRune(before, c) {
			b.WriteByte('\n')
		}
		b.WriteRune(c)
		if strings.ContainsRune(behind, c) {
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// frames are three times an object, of which the second is changed: one behind the other,
// and in MultiJSON also as elements of an array.
func frames(f record.Format, object string) [][3]string {
	all := [][3]string{{object, object, object}}
	if f == record.MultiJSON {
		all = append(all, [3]string{"[\n" + object, ",\n" + object, object + "]\n"})
	}
	return all
}

// waryScanner hides what is in user, and the mail of each of users.
func waryScanner(t testing.TB, f record.Format) *Scanner {
	o := Options{Format: f, Validate: true, MaxRecord: 4096}
	o.Rules = newRules(t, o, rules.Config{Redact: []rules.Redaction{{Member: "users.mail", With: "***"}}, Remove: []string{"user"}})
	return newScanner(t, o)
}

// sentBy scans all data, and returns what is sent of it.
func sentBy(t testing.TB, s *Scanner, data string) string {
	var sent []byte
	var c Chunk
	for at := 0; at < len(data); {
		s.Scan([]byte(data[at:]), int64(at), true, 0, &c)
		sent = append(sent, c.Body...)
		if at += c.Consumed; c.Long {
			n, _ := s.SkipLong([]byte(data[at+c.Skip:]), c.Indent, true)
			at += c.Skip + n
		} else if c.Consumed == 0 {
			t.Fatalf("no progress at %d of %q", at, data)
		}
	}
	return string(sent)
}

// TestNoPartOfBrokenObject: whatever byte of whatever layout is lost, changed or too many,
// of what rules hide nothing is sent.
func TestNoPartOfBrokenObject(t *testing.T) {
	const object = `{"n":7,"users":[{"mail":"SECRET","n":1},{"mail":"SECRET"}],"user":{"a":[{"x":"SECRET"},{"y":"SECRET"}]}}`
	others := []string{""}
	for _, c := range "\"{}[],:x\n /" {
		others = append(others, string(c))
	}
	for _, format := range []record.Format{record.JSON, record.MultiJSON} {
		for name, layout := range layouts {
			t.Run(fmt.Sprint(format, " ", name), func(t *testing.T) {
				t.Parallel()
				s := waryScanner(t, format)
				one := layout(object) + "\n"
				for _, frame := range frames(format, one) {
					for i := range frame[1] {
						if isIn(frame[1], i, "users") || isIn(frame[1], i, "user") || isIn(frame[1], i, "mail") {
							continue // the rules are about other names
						}
						for _, other := range others {
							for _, rest := range []string{frame[1][i:], frame[1][i+1:]} {
								changed := frame[1][:i] + other + rest
								if json.Valid([]byte(strings.Trim(changed, ",\n"))) || format == record.MultiJSON && otherwiseBegun(frame[1], i, other, rest) {
									continue
								}
								data := frame[0] + changed + frame[2]
								if sent := sentBy(t, s, data); strings.Contains(sent, "SECRET") {
									t.Fatalf("%q:\nsent %q", data, sent)
								}
							}
						}
					}
				}
			})
		}
	}
}

// otherwiseBegun reports whether a change puts something in the place of what an object of
// MultiJSON begins with or comes behind, so that it looks like a record behind one that was
// torn: nobody could tell the two apart.
func otherwiseBegun(text string, i int, other, rest string) bool {
	replaced := len(text)-i > len(rest) && other != "" && strings.ContainsRune("{[:", rune(text[i]))
	return replaced || strings.ContainsAny(other, "}]x/") || other == "{" && (i == 0 || text[i-1] == '\n')
}

// isIn reports whether a byte of a text, or the one behind, is of a word.
func isIn(text string, i int, word string) bool {
	from := max(0, i-len(word))
	at := strings.Index(text[from:], word)
	return at >= 0 && from+at <= i
}

// TestBehindBrokenObject: what follows a record that was torn, or is not sound, in the
// usual layouts is sent.
func TestBehindBrokenObject(t *testing.T) {
	f := func(format record.Format, data string, want string) {
		t.Helper()
		var ids []string
		for line := range strings.Lines(sentBy(t, waryScanner(t, format), data)) {
			if _, id, ok := strings.Cut(line, `"id":`); ok {
				ids = append(ids, id[:1])
			}
		}
		if got := strings.Join(ids, ""); got != want {
			t.Errorf("%s %q: %s are sent, want %s", format, data, got, want)
		}
	}
	for _, format := range []record.Format{record.JSON, record.MultiJSON} {
		f(format, "{\"id\":1}\n{\"user\":{\"mail\":\"x\n{\"id\":2}\n", "12")
		f(format, "{\"id\":1}\n{\"user\":{\"mail\":\"x\"},\"\n{\"id\":2}\n{\"id\":3}\n", "13") // the value could follow
		f(format, "{\"id\":1}\n{\"user\":\n{\"id\":2}\n{\"id\":3}\n", "13")
		f(format, "{\"id\":1,}\n{\"id\":2}\n", "2")
		f(format, "starting\n{\"id\":2}\n7\n{\"id\":3}\n}\n{\"id\":4}\n", "234")
		f(format, "{\"users\":[{\"mail\":\"x\"},{\"mail\":\"y\n{\"id\":2}\n", "2")
		f(format, "{\"users\":[{\"mail\":\"x\"}\n{\"id\":2}\n", "") // one of users could follow
		f(format, "{\"users\":[{\"mail\":\"x\"}\n"+strings.Repeat(" ", 4096)+"\n{\"id\":2}\n{\"id\":3}\n", "3")
		f(format, "{\"a\":\""+strings.Repeat("x", 5000)+"\"}\n{\"id\":2}\n", "2")
		f(format, "{\"users\":["+strings.Repeat(" ", 5000)+"7,\n{\"id\":2}\n{\"id\":3}\n", "3")
	}
	f(record.MultiJSON, "{\"a\":oops,\"user\": // who\n{\"id\":1}\n}\n{\"id\":2}\n", "2")
	f(record.MultiJSON, "{\"a\":oops,\"user\": /* who */\n{\"id\":1}\n}\n{\"id\":2}\n", "2")
	f(record.MultiJSON, "{\n  \"a\": 1 oops,\n  \"users\": [\n    {\"id\":1}\n  ]\n}\n{\n\"id\":2}\n", "2")
}

// TestSkipWarilyGoesOn: however much white space is in a record that is too long, it is
// passed, and what comes before it is not forgotten early.
func TestSkipWarilyGoesOn(t *testing.T) {
	s := waryScanner(t, record.JSON)
	for blanks, want := range map[int]int{100: 2, 1 << 20: 3 + 1<<20} {
		if n, done := s.SkipLong([]byte("xy,"+strings.Repeat(" ", blanks)), 0, false); n != want || done {
			t.Errorf("with %d blanks: %d bytes are passed, to the end: %t; want %d", blanks, n, done, want)
		}
	}
}

// TestWaryCuts: however a file is cut into reads, the same of it is sent and rejected.
func TestWaryCuts(t *testing.T) {
	signs := []string{"{", "}", "[", "]", ",", ":", `"`, "\n", "\n", " ", "a", "'", "/", "//", "/*", "*/", "\x00", "\\", `{"a":1}`, "{\"a\":1}\n", "{\"a\":[{}\n", ",\n", "       ", "\r\n"}
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 3))
		var b strings.Builder
		for range r.IntN(30) {
			b.WriteString(signs[r.IntN(len(signs))])
		}
		o := Options{Format: []record.Format{record.JSON, record.MultiJSON}[seed&1], MaxRecord: []int{4, 7, 16, 40, 1 << 20}[r.IntN(5)], Wary: true}
		if r.IntN(3) == 0 && o.MaxRecord > 4 {
			o.MaxContent = o.MaxRecord - 2
		}
		file := b.String()
		whole := read(t, o, file).whole()
		cut := read(t, o, file).cut(r)
		if got, want := fmt.Sprint(cut.events, cut.blank, cut.nuls, cut.invalid), fmt.Sprint(whole.events, whole.blank, whole.nuls, whole.invalid); got != want {
			t.Fatalf("seed %d: %+v %q\n  cut %s\nwhole %s", seed, o, file, got, want)
		}
	}
}
