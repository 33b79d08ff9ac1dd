package rules

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestNeedle: it is found where bytes.Index finds it, whatever is rare around it.
func TestNeedle(t *testing.T) {
	signs := []string{"a", "b", "g", "k", "K", "G", "\"", "ä", "\u212a", "debug", "deBUG", "\x00", " "}
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 5))
		text := func(n int) (all string) {
			for range n {
				all += signs[r.IntN(len(signs))]
			}
			return all
		}
		for range 500 {
			b, want := text(r.IntN(60)), text(1+r.IntN(2))
			if r.IntN(4) == 0 {
				b = strings.Repeat("g", r.IntN(300)) + b
			}
			n := newNeedle(want, texts{})
			if got := n.index([]byte(b)); got != strings.Index(b, want) {
				t.Fatalf("%q is found in %q at %d", want, b, got)
			}
			n = newNeedle(lower(want), texts{fold: true})
			if got := n.index([]byte(b)); got != strings.Index(lower(b), lower(want)) {
				t.Fatalf("%q is found in %q at %d, in any letter case", want, b, got)
			}
		}
	}
}

// TestTextsOf: whatever an expression matches has one of the texts that it is searched for
// by, and expressions that ask for one have it.
func TestTextsOf(t *testing.T) {
	for expression, want := range map[string]string{
		"debug": "[debug]", "^debug$": "[debug]", `"level":"(debug|trace)"`: `["level":"debug" "level":"trace"]`, "(debug|default)x": "[debugx defaultx]", "de(bu|fa)*g": "[de]", ".*debug.*": "[debug]",
		"(?i)debug": "[debug](?i)", "(?i)kiosk-debug": "[-debug](?i)", "debug|.": "[]", "(debug)+": "[debug]", "(debug){2,9}": "[debug]", "(debug){0,9}": "[]", "https?://host": "[https://host http://host]",
		"x[ab]debug": "[xadebug xbdebug]", `\d+ms timeout`: "[ms timeout]", "a": "[]", "": "[]", "\ufffd{3}debug": "[debug]", "(?i:Ä)debug": "[debug](?i)", "[^a]": "[]", `\bdebug\b`: "[debug]",
		"aaa|bbb|ccc|ddd|eee": "[]", "12": "[]",
	} {
		got := textsOf(expression)
		if got.weight() == 0 {
			got = texts{}
		}
		if text := fmt.Sprint(got.of) + map[bool]string{true: "(?i)"}[got.fold]; text != want {
			t.Errorf("%q is searched for by %s, want %s", expression, text, want)
		}
	}
	atoms := []string{"a", "bug", "d(e|ff)", "[xy]", "z?", "(gh)+", "h{2}", "(?i)deb", "(?i:ks)", "k", ".", "^", "$", "\u017f", "[^a]", "(a|b|)", `\w`, "|", "(?i:[kx])", "(bug|(?i:BUG)x)*", "\ufffd"}
	signs := []string{"a", "b", "bug", "BUG", "de", "dff", "x", "y", "z", "gh", "hh", "K", "k", "\u212a", "s", "\u017f", "S", "DEB", "\xff", "\ufffd"}
	matched := 0
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 6))
		expression := ""
		for range 1 + r.IntN(5) {
			expression += atoms[r.IntN(len(atoms))]
		}
		re, err := regexp.Compile(expression)
		if err != nil {
			continue
		}
		asks := textsOf(expression)
		for range 20 {
			text := ""
			for range r.IntN(7) {
				text += signs[r.IntN(len(signs))]
			}
			if !re.MatchString(text) || asks.of == nil {
				continue
			}
			matched++
			if !slices.ContainsFunc(asks.of, func(one string) bool {
				if one == "" {
					return true
				}
				n := newNeedle(one, asks)
				return n.index([]byte(text)) >= 0
			}) {
				t.Fatalf("%q matches %q, which has none of %q", expression, text, asks.of)
			}
		}
	}
	if matched < 3000 {
		t.Errorf("%d matched", matched)
	}
}

// lookoutSets are rules that look for texts, and rules that do not.
func lookoutSets(t testing.TB, kind Kind) (all []*Set) {
	about := []Condition{{Match: "debug"}, {Match: "^debug"}, {Match: "(?i)DEB"}, {Match: `"(debug|trace)"`}, {Match: "."}, {Match: "bug, it|x"}}
	switch kind {
	case Object:
		about = append(about, Condition{Member: "level", In: []string{"debug"}}, Condition{Member: "level", In: []string{"debug", "7", "true"}}, Condition{Member: "a.level", Match: "(?i)^deb"},
			Condition{Member: "status", Below: "400"}, Condition{Member: "level", In: []string{"de/bug", `de"bug`, "de'bug"}}, Condition{Member: "level", Match: "g$"}, Condition{Member: "level", In: []string{"verbose"}, Match: "bo"},
			Condition{Member: "n", Above: "6"}, Condition{Member: "level", In: []string{""}}, Condition{Member: "level", In: []string{"däbug"}}, Condition{Member: "status", In: []string{"500"}})
	case Row:
		about = append(about, Condition{Column: "2", In: []string{"debug", `de"bug`}}, Condition{Column: "2", Match: "bug"}, Condition{Column: "1", Below: "8"})
	}
	for i, c := range about {
		all = append(all, newSet(t, Config{Drop: []Rule{{Condition: c}}}, kind), newSet(t, Config{Keep: []Condition{c, about[(i+1)%len(about)]}}, kind),
			newSet(t, Config{Keep: []Condition{c}, Drop: []Rule{{Condition: about[(i+2)%len(about)]}, {Condition: about[(i+5)%len(about)]}}}, kind),
			newSet(t, Config{Drop: []Rule{{Condition: c}}, Sample: &Sample{Rate: "0.5"}}, kind))
	}
	return all
}

// checkLookout asks about the records of a block at once, and about each by itself.
func checkLookout(t *testing.T, s *Set, kind Kind, records [][]byte) (left int) {
	t.Helper()
	block := bytes.Join(records, []byte{'\n'})
	j, alone := NewJudge(s, kind, ','), NewJudge(s, kind, ',')
	for _, ahead := range []int{farAhead, 7, 1} { // the block is scanned again
		j.look.ahead = ahead
		j.Begin(block)
		at := 0
		for _, rec := range records {
			var object []byte
			if kind == Object {
				object = rec
			}
			want, calm := alone.Of(rec, object), j.Calm(at+len(rec))
			got := j.At(at, at+len(rec))
			if got != want || calm && got != -1 {
				t.Fatalf("of %q among %q: %d (calm: %v), want %d", rec, block, got, calm, want)
			}
			if at += len(rec) + 1; want >= 0 {
				left++
			}
		}
	}
	return left
}

// TestLookout: that records are looked at in blocks changes no fate.
func TestLookout(t *testing.T) {
	for _, kind := range []Kind{Line, Object, Row} {
		left := 0
		for i, s := range lookoutSets(t, kind) {
			for seed := range uint64(12) {
				r := rand.New(rand.NewPCG(seed, uint64(i)))
				left += checkLookout(t, s, kind, randomRecords(r, kind))
			}
		}
		if left < 1000 {
			t.Errorf("%d of kind %d are left out", left, kind)
		}
	}
}

func randomRecords(r *rand.Rand, kind Kind) (all [][]byte) {
	words := []string{"debug", "DEBUG", "info", "trace", "debugging", "x debug, it", "verbose", "500", "7", "", "de\\/bug", `de\"bug`, `\u0064ebug`, `\u0044EBUG`, "de'bug", `d\u00e4bug`, "däbug", `deb\u0075g\u0020`, "6", "399", "ab\\\\u0064ebug"}
	word := func() string { return words[r.IntN(len(words))] }
	for range r.IntN(12) {
		var rec string
		switch kind {
		case Line:
			rec = word() + " " + word()
		case Row:
			rec = word() + "," + strings.ReplaceAll(word(), `\"`, `""`)
			if r.IntN(2) == 0 {
				rec = word() + `,"` + strings.ReplaceAll(word(), `\"`, `""`) + `"`
			}
		default:
			names := []string{"level", "a", `l\u0065vel`, "debug", "status", "n", "x"}
			quote := []string{`"`, "'"}[r.IntN(2)]
			value := []string{quote + word() + quote, "7", "true", "null", `{"level":"` + word() + `"}`, `["` + word() + `",{"level":"` + word() + `"}]`, "399", "debug"}
			rec = "{"
			for i := range r.IntN(4) {
				if i > 0 {
					rec += ","
				}
				rec += `"` + names[r.IntN(len(names))] + `"` + []string{"", " ", "/*debug*/"}[r.IntN(3)] + ":" + value[r.IntN(len(value))]
			}
			rec += "}"
		}
		if r.IntN(40) == 0 {
			rec += strings.Repeat(" ", farAhead)
		}
		all = append(all, []byte(rec))
	}
	return all
}

// FuzzLookout asks about records of any bytes, in blocks and by themselves.
func FuzzLookout(f *testing.F) {
	for seed := range uint64(20) {
		f.Add(bytes.Join(randomRecords(rand.New(rand.NewPCG(seed, 9)), Kind(seed%3)), []byte{'\n'}))
	}
	var sets [3][]*Set
	for _, kind := range []Kind{Line, Object, Row} {
		sets[kind] = lookoutSets(f, kind)
	}
	f.Fuzz(func(t *testing.T, block []byte) {
		if len(block) > 256 {
			return
		}
		records := bytes.Split(block, []byte{'\n'})
		for kind, all := range sets {
			for _, s := range all {
				checkLookout(t, s, Kind(kind), records)
			}
		}
	})
}
